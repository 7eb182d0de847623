//! What the models are built from: engines on a clock that is moved by hand, and tasks that are kept account of.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use loom::alloc::Track;
use loom::cell::UnsafeCell;

use crate::arena::Arena;
use crate::engine::{Core, Limits, PeriodicRun, Shared, SharedPlan, SharedRef};
use crate::entry::{ArmFlags, Entry, Expire, FnNext, Reset, Schedule, Series, Task, Tell, entry_ref};
use crate::executor::run_here;
use crate::shard::{Remote, Wake};
use crate::sync::thread::{self, JoinHandle, Thread};
use crate::sync::{Condvar, Mutex, lock};
use crate::time::{Clock, ManualClock, Moment, Source, Tick, Timeline};
use crate::timer::{Builder, Driver, Timeout, Timer};
use crate::wheel::Wheel;
use crate::worker::Pinning;

/// So many ticks.
pub(super) fn ticks(n: u32) -> Duration {
    Duration::from_millis(1) * n
}

fn builder() -> Builder {
    Timer::builder().tick_duration(ticks(1)).ticks_per_wheel(2).levels(1).shards(1)
}

/// An engine that is turned by the model, at tick 0.
pub(super) fn driven(options: impl FnOnce(Builder) -> Builder) -> (Timer, Driver, ManualClock) {
    let clock = ManualClock::new();
    let (timer, driver) = options(builder().clock(clock.clone())).build_driven().expect("a good plan");
    (timer, driver, clock)
}

/// A driven engine at rest until something later is due, for a look at whether its driver is called.
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

    /// The driver was called, or the clock has been moved to where it wakes by itself.
    pub(super) fn assert_called(&self) {
        let called = self.called.load(Ordering::Relaxed) > 0;
        assert!(called || self.clock.now() >= self.told, "nobody has called the driver");
    }
}

/// Entries of this timeout's engine that are not free, its own included.
pub(super) fn entries_in_use(timeout: &Timeout) -> usize {
    // SAFETY: see `Armed::handle`; the handle is here, and keeps the entry alive.
    let entry = unsafe { entry_ref(std::mem::transmute_copy::<Timeout, NonNull<Entry>>(timeout)) };
    // SAFETY: the handle keeps its engine's memory.
    Shared::of_remote(unsafe { entry.home().cast::<Remote>().as_ref() }.expect("it is pushed")).arena.in_use()
}

/// An engine with workers, which park without end: no time passes for them unless somebody wakes them.
pub(super) fn with_workers(options: impl FnOnce(Builder) -> Builder) -> (Timer, ManualClock) {
    let clock = ManualClock::new();
    let builder = builder().clock(Unfollowed(clock.clone())).pinning(Pinning::None);
    (options(builder).build().expect("a good plan"), clock)
}

/// An engine with workers that are told when the clock is moved.
pub(super) fn followed(options: impl FnOnce(Builder) -> Builder) -> (Timer, ManualClock) {
    let clock = ManualClock::new();
    (options(builder().clock(clock.clone()).pinning(Pinning::None)).build().expect("a good plan"), clock)
}

/// A clock that stands still, and tells nobody when it is moved.
struct Unfollowed(ManualClock);

impl Clock for Unfollowed {
    fn now(&self) -> Instant {
        self.0.now()
    }
}

/// A engine without a timer around it, for models that look at the shard's protocols alone, and have fewer steps for it. Not
/// an owner that loom sees: the main thread holds it to the end.
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

struct Ring(Arc<Bell>);

impl Wake for Ring {
    fn wake(&self, _: &Remote) -> bool {
        self.0.rung.fetch_add(1, Ordering::Relaxed);
        if let Some(worker) = self.0.worker.get() {
            worker.unpark();
        }
        true
    }

    fn is_turned_by_another(&self, _shard: usize) -> bool {
        false
    }
}

/// An entry that is filled in, and not yet posted.
#[derive(Debug)]
pub(super) struct Armed {
    pub(super) entry: NonNull<Entry>,
    deadline: Tick,
}

// SAFETY: whoever has it owns the entry.
unsafe impl Send for Armed {}

impl Bare {
    /// With memory for so many entries, and its shard.
    pub(super) fn new(entries: usize, limits: Limits) -> (Self, Core) {
        let plan = SharedPlan {
            shards: 1,
            timeline: Timeline::new(Source::custom(ManualClock::new()), ticks(1)),
            arena: Arena::new(entries).expect("memory"),
            max_pending: None,
            max_wait: Duration::ZERO,
            on_panic: None,
        };
        let shared = SharedRef::create(plan).expect("memory");
        let bell = Arc::new(Bell::default());
        let waker: Arc<dyn Wake> = Arc::new(Ring(Arc::clone(&bell)));
        shared.set_waker(&waker);
        (Self { shared: Arc::new(shared), bell }, Core::new(0, Wheel::new(2, 1).expect("memory"), limits))
    }

    /// A timeout that is ready to be posted by another thread.
    pub(super) fn arm(&self, deadline: Tick, with_handle: bool, ledger: &Ledger) -> Armed {
        let remote = self.shared.remote(0);
        // SAFETY: this thread's producer, and its engine's arena.
        let entry =
            self.shared.with_thread_state(|mine| unsafe { self.shared.take_entry(mine, remote) }).expect("memory");
        // SAFETY: just taken.
        let this = unsafe { entry_ref(entry) };
        this.fill(std::ptr::from_ref(remote).cast(), Task::new(ledger.task()));
        this.state.arm(deadline, if with_handle { ArmFlags::HANDLE } else { ArmFlags::NONE });
        Armed { entry, deadline }
    }

    /// A series that has expired, so that its run is the caller's, and its handle. It is next due when its task says so.
    pub(super) fn expired_series(
        &self,
        ledger: &Ledger,
        answer: impl FnMut() -> Option<Duration> + Send + 'static,
    ) -> (PeriodicRun, Timeout) {
        let remote = self.shared.remote(0);
        // SAFETY: this thread's producer, and its engine's arena.
        let entry =
            self.shared.with_thread_state(|mine| unsafe { self.shared.take_entry(mine, remote) }).expect("memory");
        // SAFETY: just taken.
        let this = unsafe { entry_ref(entry) };
        let first = Moment { ns: 0, tick: Tick::ZERO };
        let task = FnNext(ledger.repeated(answer));
        this.fill(std::ptr::from_ref(remote).cast(), Task::series(Series::new(Schedule::AsTaskSays, first, task)));
        this.state.arm(Tick::ZERO, ArmFlags::HANDLE.and(ArmFlags::SERIES));
        this.state.link();
        assert_eq!(this.state.expire(Tick::ZERO), Expire::Fire);
        let handle = Armed { entry, deadline: Tick::ZERO }.handle();
        // SAFETY: just won, and in no list.
        (unsafe { PeriodicRun::new(entry) }, handle)
    }

    /// True if it was accepted.
    pub(super) fn push(&self, armed: Armed) -> bool {
        // SAFETY: filled in, and given up.
        unsafe { self.shared.remote(0).push(armed.entry, armed.deadline) }.is_ok()
    }

    /// What a thread does that resets the timeout to an earlier deadline, when it has what it takes to tell the worker.
    pub(super) fn prepare_reset(&self, armed: &Armed, deadline: Tick) -> impl FnOnce() + Send + 'static {
        // SAFETY: this thread's producer, and its engine's arena.
        let node = self.shared.with_thread_state(|mine| unsafe { mine.take_node(&self.shared.arena) }).expect("memory");
        let (shared, node, armed) = (Arc::clone(&self.shared), Armed { entry: node, deadline }, Armed { ..*armed });
        move || {
            let (Armed { entry: node, .. }, Armed { entry, .. }) = (node, armed);
            let remote = shared.remote(0);
            // SAFETY: its handle is with the model's main thread.
            let is_sent = match unsafe { entry_ref(entry) }.state.reset(deadline, Tell::ByQueue) {
                // SAFETY: the node is this thread's.
                Reset::EarlierQueued => unsafe { remote.push_reset(node, entry) },
                Reset::Earlier => {
                    remote.ring_if_it_sleeps_past(deadline);
                    false
                }
                _ => false,
            };
            if !is_sent {
                // SAFETY: it was sent to nobody.
                unsafe { shared.put_entry(node) };
            }
        }
    }

    /// The same if nothing can carry the reset queue.
    pub(super) fn prepare_reset_by_rescan(&self, armed: &Armed, deadline: Tick) -> impl FnOnce() + Send + 'static {
        let (shared, armed) = (Arc::clone(&self.shared), Armed { ..*armed });
        move || {
            let whole = armed;
            // SAFETY: its handle is with the model's main thread.
            let state = &unsafe { entry_ref(whole.entry) }.state;
            assert_eq!(state.reset(deadline, Tell::ByRescan), Reset::Earlier);
            shared.remote(0).ask_for_rescan(deadline);
        }
    }

    /// What a producer does with an entry that was not accepted. Drops its task.
    pub(super) fn take_back(&self, entry: NonNull<Entry>) {
        // SAFETY: it is the caller's.
        let this = unsafe { entry_ref(entry) };
        this.state.disarm();
        // SAFETY: never published.
        drop(unsafe { this.take_task() });
        // SAFETY: the sole owner gives it up.
        unsafe { self.shared.put_entry(entry) };
    }

    /// How often the worker was woken.
    pub(super) fn rung(&self) -> usize {
        self.bell.rung.load(Ordering::Relaxed)
    }

    /// Says who is woken, before anybody else has been started.
    pub(super) fn calls(&self, worker: Thread) {
        self.bell.worker.set(worker).expect("one worker");
    }

    /// Starts a worker. It does what those of the engine do: turns, and sleeps in between, until `done`.
    pub(super) fn start(&self, mut shard: Core, time: Time, done: impl Fn() -> bool + 'static) -> JoinHandle<Core> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            let mut now = Tick::ZERO;
            while !done() {
                let turn = shard.turn(&shared, now, &mut run_here);
                let next = shard.next_due();
                if done() || turn.more || next.is_some_and(|next| next <= now) {
                    continue;
                }
                if shared.remote(0).fall_asleep(next) {
                    match next {
                        Some(next) if time == Time::Passes => now = next,
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
    /// Its handle. Once.
    pub(super) fn handle(&self) -> Timeout {
        // SAFETY: a `Timeout` is this address and nothing else; its maker is private to the `timer` module.
        unsafe { std::mem::transmute::<NonNull<Entry>, Timeout>(self.entry) }
    }
}

/// What becomes of a worker's sleep that has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// It lasts until somebody wakes the worker.
    StandsStill,
    /// It ends by itself, and it is that much later.
    Passes,
}

pub(super) const NO_LIMITS: Limits = Limits { transfer: 100, expiry: 100 };

/// Opens when a task has run or was dropped: for a main thread that has to wait for a thread that it can't join.
#[derive(Clone, Debug)]
pub(super) struct Gate(Arc<(Mutex<bool>, Condvar)>);

struct Opener(Gate);

impl Gate {
    pub(super) fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    /// The task, and the opening of the gate after it.
    pub(super) fn after<T: FnOnce() + Send + 'static>(&self, task: T) -> impl FnOnce() + Send + use<T> {
        let opener = Opener(self.clone());
        // Dropped in the order in which they are captured.
        move || {
            task();
            drop(opener);
        }
    }

    /// The task, which opens the gate when it is dropped.
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

/// What became of tasks. Counted past loom, so that counting orders nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    ran: AtomicUsize,
    dropped: AtomicUsize,
    /// One of each task that was made.
    ends: std::sync::Mutex<Vec<Arc<End>>>,
}

/// Written to by a task when it has run, or is dropped, and read when the ledger is closed: so loom objects if nothing puts
/// the one before the other.
#[derive(Debug)]
struct End(UnsafeCell<()>);

// SAFETY: loom checks the access.
unsafe impl Send for End {}
// SAFETY: as above.
unsafe impl Sync for End {}

impl Ledger {
    /// A task whose running and dropping is counted. Loom finds it if it leaks, or if it is handed to another thread
    /// without the order in memory that this takes.
    pub(super) fn task(&self) -> impl FnOnce() + Send + use<> {
        let end = Arc::new(End(UnsafeCell::new(())));
        self.ends().push(Arc::clone(&end));
        let coin = Coin { ledger: self.clone(), captured: UnsafeCell::new(()), end, ran: false, _leak: Track::new(()) };
        move || coin.run()
    }

    /// A task that can be called again: each call is checked to follow on the one before, and its dropping is counted as that of
    /// a task that never ran.
    pub(super) fn repeated<R, T: FnMut() -> R + Send>(&self, mut task: T) -> impl FnMut() -> R + Send + use<R, T> {
        let end = Arc::new(End(UnsafeCell::new(())));
        self.ends().push(Arc::clone(&end));
        let coin = Coin { ledger: self.clone(), captured: UnsafeCell::new(()), end, ran: false, _leak: Track::new(()) };
        move || {
            coin.captured.with_mut(|_| ());
            task()
        }
    }

    fn ends(&self) -> std::sync::MutexGuard<'_, Vec<Arc<End>>> {
        self.0.ends.lock().expect("no panic")
    }

    pub(super) fn ran(&self) -> usize {
        self.0.ran.load(Ordering::Relaxed)
    }

    /// Tasks that were dropped without having run.
    pub(super) fn dropped(&self) -> usize {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Every task has come to its end, which is visible here: so many ran, and all others were dropped.
    pub(super) fn assert_closed(&self, ran: usize) {
        let ends = self.ends();
        let made = ends.len();
        assert_eq!((self.ran(), self.dropped()), (ran, made - ran), "(ran, dropped) of {made} tasks");
        ends.iter().for_each(|end| end.0.with(|_| ()));
    }
}

struct Coin {
    ledger: Ledger,
    captured: UnsafeCell<()>,
    end: Arc<End>,
    ran: bool,
    _leak: Track<()>,
}

// SAFETY: that the cell is handed over in order is what loom checks.
unsafe impl Send for Coin {}

impl Coin {
    fn run(mut self) {
        self.ran = true;
    }
}

impl Drop for Coin {
    fn drop(&mut self) {
        self.captured.with_mut(|_| ());
        self.end.0.with_mut(|_| ());
        let count = if self.ran { &self.ledger.0.ran } else { &self.ledger.0.dropped };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
