//! The parts that the models are built from: engines, most of them on a clock that the model moves.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub(super) use super::ledger::Ledger;
use crate::arena::Arena;
use crate::engine::{Batch, Core, Due, Limits, Shared, SharedPlan, SharedRef};
use crate::entry::{
    self, ArmFlags, Claimed, Entry, Handle, Marked, Reset, Running, Schedule, Series, Sole, TaskPlace, Token, raw,
};
use crate::executor::run_here;
use crate::shard::{Number, Remote};
use crate::sync::thread::{self, JoinHandle, Thread};
use crate::sync::{Condvar, Mutex, lock};
use crate::time::{Clock, CustomClock, ManualClock, Moment, Subtick, Timeline};
use crate::timer::{Builder, Driver, Shutdown, Timeout, Timer};
use crate::wheel::Wheel;
use crate::worker::Pinning;

/// A duration of `n` ticks. They are the shortest there are, which have no parts.
pub(super) fn ticks(n: u32) -> Duration {
    Duration::from_micros(1) * n
}

pub(super) const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn builder() -> Builder {
    Timer::builder().tick_duration(ticks(1)).ticks_per_wheel(2).levels(1).shards(1)
}

/// Returns an engine that the model turns, at tick 0.
pub(super) fn driven(options: impl FnOnce(Builder) -> Builder) -> (Timer, Driver, ManualClock) {
    let clock = ManualClock::new();
    let (timer, driver) = options(builder().clock(clock.clone())).build_driven().expect("a good plan");
    (timer, driver, clock)
}

/// Returns an engine by the system's clock, with long ticks as in [`Bare::with_long_ticks`], that
/// the model turns.
pub(super) fn driven_with_long_ticks(options: impl FnOnce(Builder) -> Builder) -> (Timer, Driver) {
    options(builder().tick_duration(YEAR)).build_driven().expect("a good plan")
}

/// A driven engine that rests until a later deadline. It shows whether its driver is called.
pub(super) struct Resting {
    pub(super) timer: Timer,
    pub(super) clock: ManualClock,
    told: Instant,
    called: Arc<AtomicUsize>,
    _driver: Driver,
}

impl Resting {
    /// It rests because of a timeout at 2 ticks.
    pub(super) fn new(ledger: &Ledger) -> Self {
        let (timer, mut driver, clock) = driven(|b| b.capacity(3));
        timer.schedule_detached(ticks(2), ledger.task()).expect("open");
        driver.turn();
        let told = driver.next_wakeup().expect("pending");
        let called = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&called);
        driver.on_earlier(move || _ = theirs.fetch_add(1, Ordering::Relaxed));
        Self { timer, clock, told, called, _driver: driver }
    }

    /// Asserts that the driver was called, or that the clock has been moved to where it wakes by
    /// itself.
    pub(super) fn assert_called(&self) {
        let called = self.called.load(Ordering::Relaxed) > 0;
        assert!(called || self.clock.now() >= self.told, "no thread has called the driver");
    }
}

/// Asserts that nothing is pending or in the wheel after a turn, and that no entry is lost or used
/// twice.
pub(super) fn assert_all_home(timer: &Timer, driver: &mut Driver) {
    driver.turn();
    let stats = timer.stats();
    assert_eq!((stats.pending, stats.inbox_depth, stats.shards[0].linked), (0, 0, 0));
    let one = timer.schedule(ticks(9), || ()).expect("open");
    assert_eq!(entries_in_use(&one), 1);
    one.cancel();
}

/// Shuts the engine down on another thread, which then drops the driver, and returns how many
/// timeouts came back.
pub(super) fn shutdown_elsewhere(timer: &Timer, driver: Driver, how: Shutdown) -> JoinHandle<usize> {
    let timer = timer.clone();
    thread::spawn(move || {
        let unfired = timer.shutdown_with(how).expect("the first").len();
        drop(driver);
        unfired
    })
}

/// Returns the entries of this timeout's engine that are not free, its own included.
pub(super) fn entries_in_use(timeout: &Timeout) -> usize {
    Shared::of_remote(home_of(timeout)).arena.in_use()
}

fn home_of(timeout: &Timeout) -> &Remote {
    // SAFETY: a `Timeout` is a handle (see `Armed::handle`), which is only borrowed here.
    Remote::at(unsafe { &*std::ptr::from_ref(timeout).cast::<Handle>() }.home())
}

/// Makes the timeout's shard one of a worker, whose slots may have tombstones.
pub(super) fn with_tombstones_in_slots(timeout: &Timeout) {
    home_of(timeout).has_worker.set(1);
}

/// Returns an engine with workers, which park without end: no time passes for them until another
/// thread wakes them.
pub(super) fn with_workers(options: impl FnOnce(Builder) -> Builder) -> (Timer, ManualClock) {
    let clock = ManualClock::new();
    let builder = builder().clock(Unfollowed(clock.clone())).pinning(Pinning::None);
    (options(builder).build().expect("a good plan"), clock)
}

/// Returns an engine with workers that learn when the clock is moved.
pub(super) fn followed(options: impl FnOnce(Builder) -> Builder) -> (Timer, ManualClock) {
    let clock = ManualClock::new();
    (options(builder().clock(clock.clone()).pinning(Pinning::None)).build().expect("a good plan"), clock)
}

/// Runs what is due in a turn on the calling thread, in batches, as a pool's threads do.
pub(super) fn run_batches(due: &mut Due<'_>) {
    due.hand_over(&mut run_here);
}

/// Runs them on another thread.
pub(super) fn run_elsewhere(batches: Vec<Batch>) -> JoinHandle<()> {
    thread::spawn(move || batches.into_iter().for_each(run_here))
}

/// A clock that stands still, and tells no listener when it is moved.
struct Unfollowed(ManualClock);

impl Clock for Unfollowed {
    fn now(&self) -> Instant {
        self.0.now()
    }
}

/// An engine without a timer around it, for models that look at the shard's protocols alone, and
/// have fewer steps for it. Loom does not see it as an owner: the main thread holds it to the end.
#[derive(Clone, Debug)]
pub(super) struct Bare {
    pub(super) shared: Arc<SharedRef>,
    bell: Arc<Bell>,
}

/// Unparks the worker, and counts.
#[derive(Debug, Default)]
struct Bell {
    worker: OnceLock<Thread>,
    rung: AtomicUsize,
}

impl Bell {
    fn ring(&self) -> bool {
        self.rung.fetch_add(1, Ordering::Relaxed);
        if let Some(worker) = self.worker.get() {
            worker.unpark();
        }
        true
    }
}

/// An entry that is armed, and not yet pushed.
#[derive(Debug)]
pub(super) struct Armed {
    pub(super) entry: NonNull<Entry>,
    deadline: Subtick,
}

// SAFETY: the thread that holds this value owns the entry.
unsafe impl Send for Armed {}

impl Bare {
    /// Returns an engine with memory for this number of entries, and its shard.
    pub(super) fn new(entries: usize, limits: Limits) -> (Self, Core) {
        Self::on(Timeline::new(Some(CustomClock::new(ManualClock::new())), ticks(1)), entries, limits)
    }

    /// Returns such an engine by the system's clock, with ticks of a year, which have 16 parts of
    /// weeks. So each schedule of a model is over long before the first part has come.
    pub(super) fn with_long_ticks(entries: usize) -> (Self, Core) {
        Self::on(Timeline::new(None, YEAR), entries, NO_LIMITS)
    }

    fn on(timeline: Timeline, entries: usize, limits: Limits) -> (Self, Core) {
        let plan = SharedPlan {
            timeline,
            arena: Arena::new(entries).expect("memory"),
            max_pending: None,
            max_wait: Duration::ZERO,
            on_panic: None,
        };
        let shared = SharedRef::create(plan, Number::take().take(1).collect()).expect("memory");
        let bell = Arc::new(Bell::default());
        let its = Arc::clone(&bell);
        shared.set_waker(move |_| its.ring());
        let wheel = Wheel::new(16, 16, 1).expect("memory");
        let core = Core::new(&shared, 0, wheel, limits);
        (Self { shared: Arc::new(shared), bell }, core)
    }

    /// Returns an engine with one timeout, which is due and in a batch.
    pub(super) fn with_one_due(ledger: &Ledger) -> (Self, Core, Timeout, Vec<Batch>) {
        let (bare, mut shard) = Self::new(1, NO_LIMITS);
        let timeout = bare.schedule(Subtick::ZERO, ledger);
        let batches = bare.due_batches(&mut shard);
        (bare, shard, timeout, batches)
    }

    /// Returns a part of a tick, from 1 on.
    pub(super) fn part(&self, tick: u64, part: u64) -> Subtick {
        Subtick::new(self.shared.timeline().scale().end(tick - 1).get() + part)
    }

    /// Arms a timeout that another thread may push.
    pub(super) fn arm(&self, deadline: Subtick, with_handle: bool, ledger: &Ledger) -> Armed {
        self.arm_task(deadline, with_handle, ledger.task())
    }

    pub(super) fn arm_task(&self, deadline: Subtick, with_handle: bool, task: impl FnOnce() + Send + 'static) -> Armed {
        let remote = self.shared.remote(0);
        let flags = if with_handle { ArmFlags::HANDLE } else { ArmFlags::NONE };
        let entry = self.shared.with_thread_state(|mine| self.shared.take_entry(mine, remote)).expect("memory");
        let entry = entry.arm(remote.as_home(), task, deadline, flags).address();
        Armed { entry, deadline }
    }

    /// Returns a periodic timeout that is due at tick 0 and not pushed yet. Its task says when it
    /// is next due.
    pub(super) fn arm_periodic(
        &self,
        ledger: &Ledger,
        answer: impl FnMut() -> Option<Duration> + Send + 'static,
    ) -> Armed {
        let remote = self.shared.remote(0);
        let entry = self.shared.with_thread_state(|mine| self.shared.take_entry(mine, remote)).expect("memory");
        let first = Moment { ns: 0, deadline: Subtick::ZERO };
        let series = Series::new(Schedule::AsTaskSays, first, ledger.repeated(answer), |task| task());
        let entry = entry.arm(remote.as_home(), series, Subtick::ZERO, ArmFlags::HANDLE);
        Armed { entry: entry.address(), deadline: Subtick::ZERO }
    }

    /// Begins the run of a periodic timeout that no other thread has seen.
    pub(super) fn begin_run(&self, armed: Armed) -> (Subtick, Running) {
        // SAFETY: no other thread has seen the entry, which is as good as marked. This thread gives
        // it up.
        let entry = unsafe { Marked::from_raw(armed.entry) };
        let mut place = TaskPlace::uninit();
        match entry.look().claim(Subtick::NEVER, &mut place, |_| unreachable!("it has a handle")) {
            Ok(Claimed::Run(deadline, run)) => (deadline, run),
            _ => unreachable!("just armed"),
        }
    }

    /// Turns the shard at tick 0. Returns what is due then, in the batches that an executor would
    /// get.
    pub(super) fn due_batches(&self, shard: &mut Core) -> Vec<Batch> {
        let mut batches = Vec::new();
        shard.turn(&self.shared, Subtick::ZERO, || None, |due| due.hand_over(&mut |batch| batches.push(batch)));
        batches
    }

    /// Schedules a timeout with a handle.
    pub(super) fn schedule(&self, deadline: Subtick, ledger: &Ledger) -> Timeout {
        let armed = self.arm(deadline, true, ledger);
        let timeout = armed.handle();
        assert!(self.push(armed));
        timeout
    }

    /// Returns true if the inbox accepted the entry.
    pub(super) fn push(&self, armed: Armed) -> bool {
        // SAFETY: the entry is armed, and this thread gives it up.
        let entry = unsafe { entry::Armed::<fn()>::from_raw(armed.entry) };
        self.shared.remote(0).push(entry, armed.deadline, self.shared.timeline()).is_ok()
    }

    /// Prepares a reset of the timeout to an earlier deadline.
    pub(super) fn prepare_reset(&self, armed: &Armed, deadline: Subtick) -> impl FnOnce() + Send + 'static {
        let (shared, armed) = (Arc::clone(&self.shared), Armed { ..*armed });
        move || {
            // All of it, because its parts can't be sent.
            let whole = armed;
            let (entry, remote) = (whole.entry, shared.remote(0));
            // SAFETY: the model's main thread holds the entry's handle, which keeps it alive.
            let handle = unsafe { Handle::new(entry) };
            let push = |entry| remote.push_moved(entry, || handle.snapshot().deadline(), shared.timeline());
            if handle.reset(deadline, push) == Reset::Earlier {
                remote.ring_if_it_sleeps_past(deadline, shared.timeline());
            }
        }
    }

    /// Does what a producer does with an entry that was not accepted. Drops its task.
    pub(super) fn take_back(&self, entry: NonNull<Entry>) {
        // SAFETY: the caller owns the entry.
        let this = unsafe { entry.as_ref() };
        this.state.disarm();
        // SAFETY: the entry was never published, and still has its task.
        drop(unsafe { raw::take_task(&this) });
        // SAFETY: the caller is the entry's only owner, and gives it up.
        self.shared.put_entry(unsafe { Sole::new(entry) });
    }

    /// Returns how often the worker was woken.
    pub(super) fn rung(&self) -> usize {
        self.bell.rung.load(Ordering::Relaxed)
    }

    /// Sets the thread to wake, before any other thread has started.
    pub(super) fn calls(&self, worker: Thread) {
        self.bell.worker.set(worker).expect("one worker");
    }

    /// Starts a worker. It does what the engine's workers do: it turns, and sleeps in between,
    /// until `done` returns true.
    pub(super) fn start(&self, mut shard: Core, time: Time, done: impl Fn() -> bool + 'static) -> JoinHandle<Core> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            let mut now = Subtick::ZERO;
            while !done() {
                let turn = shard.turn(&shared, now, || None, run_batches);
                let next = shard.last_due_of_tick(&shared);
                if done() || turn.more || next.is_some_and(|next| next <= now) {
                    continue;
                }
                if shared.remote(0).fall_asleep(next) {
                    match next {
                        Some(next) if next <= time.until() => now = next,
                        _ => thread::park(),
                    }
                }
            }
            shard
        };
        let worker = thread::spawn(work);
        self.calls(worker.thread().clone());
        worker
    }
}

impl Armed {
    /// Returns its handle. Call it once.
    pub(super) fn handle(&self) -> Timeout {
        // SAFETY: a `Timeout` is this address and nothing else. Its constructor is private to the
        // `timer` module.
        unsafe { std::mem::transmute::<NonNull<Entry>, Timeout>(self.entry) }
    }
}

/// The fate of a worker's sleep that has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// It lasts until another thread wakes the worker.
    StandsStill,
    /// It ends by itself, and the clock has moved to its end.
    Passes,
    /// It does so if it ends by then. Otherwise it lasts until another thread wakes the worker.
    PassesUntil(Subtick),
}

impl Time {
    /// Returns until when time passes.
    fn until(self) -> Subtick {
        match self {
            // A worker does not sleep until then.
            Time::StandsStill => Subtick::ZERO,
            Time::Passes => Subtick::NEVER,
            Time::PassesUntil(until) => until,
        }
    }
}

pub(super) const NO_LIMITS: Limits = Limits { transfer: 100, expiry: 100 };

/// Opens when a task has run or was dropped, for a main thread that waits for a thread that it
/// can't join.
#[derive(Clone, Debug)]
pub(super) struct Gate(Arc<(Mutex<bool>, Condvar)>);

struct Opener(Gate);

impl Gate {
    pub(super) fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    /// Returns a task that runs `task`, and then opens the gate.
    pub(super) fn after<T: FnOnce() + Send + 'static>(&self, task: T) -> impl FnOnce() + Send + use<T> {
        let opener = Opener(self.clone());
        // The closure drops its captures in the order in which it captures them.
        move || {
            task();
            drop(opener);
        }
    }

    /// Returns the task, which opens the gate when it is dropped.
    pub(super) fn held_by<T: FnMut() + Send + 'static>(&self, mut task: T) -> impl FnMut() + Send + use<T> {
        let opener = Opener(self.clone());
        move || {
            let _held = &opener;
            task();
        }
    }

    pub(super) fn wait(&self) {
        let (open, opened) = &*self.0;
        let mut open = lock(open);
        while !*open {
            open = opened.wait(open).expect("no panic");
        }
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        let (open, opened) = &*self.0.0;
        *lock(open) = true;
        opened.notify_all();
    }
}
