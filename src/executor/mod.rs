//! Where expired timeouts run: on a pool of threads, on the worker itself, or on an executor of the
//! user's.

mod inline;
mod open_batch;
mod pool;

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

pub use inline::Inline;
use open_batch::OpenBatch;
pub use pool::ThreadPool;

use crate::count::{Recorder, Running, TASKS_A_LOOK};
use crate::engine::{At, Batch, Due, Entries, PART, PeriodicRun, Run, Shared, SharedRef};
use crate::entry::TaskInPlace;
use crate::events;
use crate::panics::{self, CatchUnwind, Panic};
#[cfg(loom)]
use crate::sync::LocalCell;
use crate::sync::Ordering;
use crate::time::{RealTime, Subtick};
use crate::worker::{self, Sink};

/// Called after a turn.
pub(crate) type TickHook = Arc<dyn Fn(&worker::Tick) + Send + Sync>;

/// Called by each worker before its first turn, with the number of its shard.
pub(crate) type StartHook = Arc<dyn Fn(usize) + Send + Sync>;

/// Where an engine's expired timeouts run.
///
/// [`ThreadPool`] (the default), [`Inline`], every `Fn(Expired)`, `Arc`s of these, and a
/// `Box<dyn Executor>` implement it. With the feature `tokio`, `tokio::runtime::Handle` does, and
/// with `rayon`, `rayon::ThreadPool`.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Expired, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (send, receive) = std::sync::mpsc::channel();
/// let timer = Timer::builder().executor(move |expired: Expired| {
///     // A batch may be sent to where it should run.
///     let _ = send.send(expired);
/// }).build()?;
/// timer.schedule_detached(Duration::from_millis(5), || println!("runs on the main thread"))?;
/// receive.recv()?.run();
/// # Ok(())
/// # }
/// ```
pub trait Executor: Send + Sync + 'static {
    /// Runs a batch, or arranges for another thread to run it.
    ///
    /// The worker calls this, and does nothing else meanwhile, so it should return soon. If it
    /// drops the batch, or panics, the batch runs at once on the worker: an expired timeout is
    /// never lost.
    fn execute(&self, expired: Expired);

    /// Returns whether every batch that the executor is given is sure to run. A shutdown then waits
    /// for all of them.
    #[doc(hidden)]
    fn runs_all(&self) -> bool {
        false
    }

    /// Finds help for a batch that a task holds up. Returns whether to ask again soon. A worker
    /// that has handed over a large batch asks before it sleeps.
    #[doc(hidden)]
    fn find_help(&self) -> bool {
        false
    }
}

impl<F: Fn(Expired) + Send + Sync + 'static> Executor for F {
    fn execute(&self, expired: Expired) {
        self(expired);
    }
}

// Not for every `Box<E>`: a boxed closure is a closure, and an executor for that reason.
impl Executor for Box<dyn Executor> {
    fn execute(&self, expired: Expired) {
        (**self).execute(expired);
    }

    fn runs_all(&self) -> bool {
        (**self).runs_all()
    }

    fn find_help(&self) -> bool {
        (**self).find_help()
    }
}

impl<E: Executor + ?Sized> Executor for Arc<E> {
    fn execute(&self, expired: Expired) {
        (**self).execute(expired);
    }

    fn runs_all(&self) -> bool {
        (**self).runs_all()
    }

    fn find_help(&self) -> bool {
        (**self).find_help()
    }
}

/// An engine whose task a thread is running. `outer` is what the thread was running before: a task
/// may turn another engine.
struct Frame {
    engine: u64,
    outer: *const Frame,
}

#[cfg(not(loom))]
thread_local! {
    /// The innermost engine; null if the thread runs no task.
    static RUNNING: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}
// A model runs all its threads on one thread of the system, so std's macro would give them one
// variable.
#[cfg(loom)]
loom::thread_local! {
    static RUNNING: Cell<*const Frame> = Cell::new(ptr::null());
}

/// Runs `work` as a part of the engine. `work` must not panic.
fn run_as<R>(engine: u64, work: impl FnOnce() -> R) -> R {
    let outer = RUNNING.get();
    let this = Frame { engine, outer };
    RUNNING.set(&this);
    let result = work();
    RUNNING.set(outer);
    result
}

/// Returns the engines whose tasks the calling thread is running, innermost first.
fn running() -> impl Iterator<Item = u64> {
    let mut next = RUNNING.get();
    std::iter::from_fn(move || {
        // SAFETY: `run_as` keeps each `Frame` in a frame of this thread, and takes it out of the
        // list before that frame ends.
        let this = unsafe { next.as_ref() }?;
        next = this.outer;
        Some(this.engine)
    })
}

/// Returns whether the calling thread is running a task of this engine.
pub(crate) fn is_running_a_task_of(shared: &Shared) -> bool {
    running().any(|engine| engine == shared.id())
}

/// Returns whether the calling thread is running a task of any engine.
pub(crate) fn is_running_a_task() -> bool {
    running().next().is_some()
}

/// A batch of expired timeouts. [`run`](Self::run) runs it. Dropping it runs it, too.
#[must_use = "an expired batch should be run; dropping it runs it here and now"]
pub struct Expired {
    batch: Batch,
    /// Whether the batch counts as in flight. It does from the start if the executor is sure to run
    /// it, and otherwise from when it begins to run.
    counted: bool,
    /// Whether a shutdown waits for it even before it begins to run.
    is_awaited: bool,
    /// Whether its owner has begun to run it.
    begun: bool,
}

impl Expired {
    /// Returns how many timeouts are left in the batch. It is an upper bound on those that will
    /// run: some may have been cancelled or put off since.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a batch that is given to an executor is never empty")]
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Runs all timeouts in the batch, one after the other, on the calling thread. If a timeout
    /// panics, the panic is caught, counted, and given to the builder's `on_panic`; the others
    /// still run.
    pub fn run(mut self) {
        self.run_all(|_| false);
    }

    /// Like [`run`](Self::run), but lays open what it has not begun.
    fn run_open(mut self, open: &OpenBatch) {
        match self.batch.split_off() {
            Some(rest) => {
                open.open(rest);
                self.run_all(|entries| open.take_part(entries));
            }
            None => self.run_all(|_| false),
        }
    }

    /// Makes a batch that is in flight from now on: a shutdown waits for it.
    pub(crate) fn begin(batch: Batch) -> Self {
        batch.shared().in_flight.begin();
        Self { batch, counted: true, is_awaited: true, begun: false }
    }

    /// Makes a batch that is in flight once it begins to run.
    fn uncounted(batch: Batch) -> Self {
        Self { batch, counted: false, is_awaited: false, begun: false }
    }

    /// `more` gives the next part of the batch when one is done. It returns false if there is none.
    fn run_all(&mut self, more: impl FnMut(&mut Entries) -> bool) {
        self.begun = true;
        let in_flight = &self.batch.shared().in_flight;
        if !self.counted {
            self.counted = true;
            in_flight.begin();
        }
        in_flight.run();
        let engine = self.batch.shared().id();
        run_as(engine, || self.run_each(more));
    }

    fn run_each(&mut self, mut more: impl FnMut(&mut Entries) -> bool) {
        // A shutdown waits for a batch that is counted from the start, so it can have back what has
        // not begun. A batch that a user's executor holds stays that executor's own.
        let may_go_back = self.is_awaited;
        let (shard, sleepers) = (self.batch.shard(), self.batch.is_of_sleepers());
        let (entries, shared) = self.batch.open();
        let (at, mut runs) = (At::new(shared, shard, may_go_back), Runs::begin(shared, shard));
        loop {
            while let Some(batched) = entries.pop() {
                if sleepers { batched.wake(at, &mut runs) } else { batched.run(at, &mut runs) }
            }
            if !more(entries) {
                return;
            }
        }
    }
}

/// Runs what is due in a turn, each timeout as soon as it is claimed, on the thread that turns the
/// shard.
pub(crate) fn run_in_turn(due: &mut Due<'_>) {
    let shared = due.shared();
    run_as(shared.id(), || due.run(&mut Runs::begin(shared, due.shard())));
}

/// The runs of one thread, one after the other: shows the watchdog what is running, and records how
/// late each task begins.
struct Runs<'a> {
    shared: &'a SharedRef,
    lateness: Recorder<'a>,
    /// What the thread was running before, for `running`: a task may run a batch.
    running: Option<(&'a Running, (u64, u64))>,
    /// How many tasks run before the next look at the clock.
    until_look: usize,
    now_ns: u64,
    /// The deadline that was recorded last. The timeouts of a burst may have one.
    /// [`NOT_RECORDED`] if the clock has been read since.
    recorded: u64,
}

/// No deadline: a [`Subtick`] has fewer bits.
const NOT_RECORDED: u64 = u64::MAX;

impl<'a> Runs<'a> {
    fn begin(shared: &'a SharedRef, shard: usize) -> Self {
        let running = shared.running_here().map(|running| (running, running.before()));
        if let Some((running, _)) = running {
            running.begin(shard);
        }
        let lateness = Recorder::new(&shared.remote(shard).lateness);
        Self { shared, lateness, running, until_look: 0, now_ns: 0, recorded: NOT_RECORDED }
    }

    /// Looks at the clock now and then.
    #[inline]
    fn look(&mut self) {
        self.until_look = self.until_look.checked_sub(1).unwrap_or_else(|| {
            self.look_now();
            TASKS_A_LOOK - 1
        });
    }

    #[inline(never)]
    fn look_now(&mut self) {
        if let Some(ns) = self.shared.timeline().try_now_ns() {
            self.now_ns = ns;
            self.recorded = NOT_RECORDED;
            self.running.inspect(|(running, _)| running.look(ns));
        }
    }

    #[inline]
    fn record(&mut self, deadline: Subtick) {
        if self.recorded == deadline.get() {
            return self.lateness.record_again();
        }
        // Timeouts that a shutdown fires before their deadline are not late, and not recorded.
        if let Some(late_ns) = self.now_ns.checked_sub(self.shared.timeline().scale().ns_of(deadline)) {
            self.lateness.record(late_ns);
            self.recorded = deadline.get();
        }
    }
}

impl Run for Runs<'_> {
    #[inline(always)]
    fn once(&mut self, deadline: Subtick, task: TaskInPlace<'_>) {
        self.look();
        self.record(deadline);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task.run())) {
            self.report(panic);
        }
    }

    fn periodic(&mut self, deadline: Subtick, run: PeriodicRun) {
        self.look();
        let shared = self.shared;
        if let Err(panic) = run.run(shared, || self.record(deadline)) {
            self.report(panic);
        }
    }

    #[inline(always)]
    fn wake(&mut self, deadline: Subtick, waker: Option<Waker>) {
        self.look();
        self.record(deadline);
        let Some(waker) = waker else { return };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
            self.report(panic);
        }
    }

    #[cold]
    fn report(&mut self, panic: Panic) {
        report(self.shared, panic);
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        if let Some((running, before)) = self.running {
            running.restore(before);
        }
    }
}

/// Counts a panic, and reports it to the user.
#[cold]
pub(crate) fn report(shared: &Shared, panic: Box<dyn Any + Send>) {
    shared.panicked.fetch_add(1, Ordering::Relaxed);
    events::task_panicked(&*panic);
    if let Some(hook) = shared.on_panic.as_ref() {
        // If the hook panics too, that panic is dropped: nobody is left to report it to.
        panics::catch(|| hook(&*panic));
    }
    panics::discard(panic);
}

impl Drop for Expired {
    fn drop(&mut self) {
        if self.batch.len() > 0 {
            if !self.begun {
                self.batch.shared().refused.fetch_add(self.batch.len() as u64, Ordering::Relaxed);
            }
            self.run_all(|_| false);
        }
        if self.counted {
            self.batch.shared().in_flight.end();
        }
    }
}

impl fmt::Debug for Expired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expired").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Hands a worker's batches to the user's executor.
pub(crate) struct Dispatch {
    executor: CatchUnwind<Arc<dyn Executor>>,
    counted: bool,
    in_turn: bool,
    hooks: WorkerHooks,
    /// The looks whether a batch gets on. `None` if all that was handed over is small or has ended.
    looks: Option<Looks>,
}

/// A worker's looks whether a task holds up its batch.
struct Looks {
    last: RealTime,
    /// How many there were since a large batch was handed over.
    since: u32,
}

impl Looks {
    /// Returns how long after the last look the next one is due. The first two are a millisecond
    /// apart: the second one finds that the batch has not got on. Then they become rarer, because
    /// perhaps nobody can help.
    fn interval(&self) -> Duration {
        Duration::from_millis(1 << self.since.saturating_sub(1).min(7))
    }
}

/// The user's hooks that a worker calls.
#[derive(Clone, Default)]
pub(crate) struct WorkerHooks {
    pub(crate) on_start: CatchUnwind<Option<StartHook>>,
    pub(crate) on_tick: CatchUnwind<Option<TickHook>>,
}

impl Dispatch {
    /// `in_turn` says that the executor is [`Inline`].
    pub(crate) fn new(executor: Arc<dyn Executor>, in_turn: bool, hooks: WorkerHooks) -> Self {
        let counted = executor.runs_all();
        Self { executor: CatchUnwind::new(executor), counted, in_turn, hooks, looks: None }
    }
}

/// Calls a hook as if it were a task: its panics are reported, and a shutdown that it asks for is
/// refused.
pub(crate) fn call_hook(shared: &Shared, hook: impl FnOnce()) {
    let told = run_as(shared.id(), || catch_unwind(AssertUnwindSafe(hook)));
    told.unwrap_or_else(|panic| report(shared, panic));
}

impl Sink for Dispatch {
    fn wants_begin(&self) -> bool {
        self.hooks.on_start.is_some()
    }

    fn begin(&mut self, shared: &Shared, shard: usize) {
        if let Some(hook) = self.hooks.on_start.as_ref() {
            call_hook(shared, || hook(shard));
        }
    }

    fn take(&mut self, due: &mut Due<'_>) {
        if self.in_turn { run_in_turn(due) } else { due.hand_over(&mut |batch| self.accept(batch)) }
    }

    fn accept(&mut self, batch: Batch) {
        if self.counted && batch.len() > PART {
            self.looks.get_or_insert_with(|| Looks { last: RealTime::now(), since: 0 }).since = 0;
        }
        let expired = if self.counted { Expired::begin(batch) } else { Expired::uncounted(batch) };
        let engine = expired.batch.shared().id();
        // Run as a task: if the executor shut its own engine down, it would wait for this very
        // thread. If the executor panics, unwinding drops the batch, which runs it.
        run_as(engine, || panics::catch(|| self.executor.execute(expired)));
    }

    fn wake(&mut self, wakes: Batch) {
        run_here(wakes);
    }

    fn sleeps_at_most(&mut self) -> Option<Duration> {
        let looks = self.looks.as_mut()?;
        if looks.last.elapsed() >= looks.interval() {
            if !panics::catch(|| self.executor.find_help()).unwrap_or(false) {
                self.looks = None;
                return None;
            }
            looks.last = RealTime::now();
            looks.since += 1;
        }
        Some(looks.interval())
    }

    fn wants_ticks(&self) -> bool {
        self.hooks.on_tick.is_some()
    }

    fn tell(&mut self, shared: &Shared, tick: &worker::Tick) {
        if let Some(hook) = self.hooks.on_tick.as_ref() {
            call_hook(shared, || hook(tick));
        }
    }
}

/// Runs a batch on the calling thread. The driven mode uses this as its sink, and workers use it to
/// wake futures.
pub(crate) fn run_here(batch: Batch) {
    Expired::begin(batch).run();
}
