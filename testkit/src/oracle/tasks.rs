//! The acts of tasks, and how they record them. The engine catches a panic in a task. So tasks only
//! write down what they see, and the model judges it when they are over.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tourbillon::{Clock, ManualClock, PausableClock, Refusal, ScheduleError, Timeout, TimeoutGuard, Timer};

use super::step::Act;

/// An event that a task saw. The log has them in the order in which they happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Began { id: u64 },
    Ended { id: u64, at: Duration, how: Ended },
    Scheduled { id: u64, delay: Duration, at: Duration, answer: Answer, pending: usize },
    Cancelled { id: u64, answer: bool },
    Reset { id: u64, delay: Duration, at: Duration, answer: bool },
}

impl Event {
    pub(crate) fn is_a_panic(&self) -> bool {
        matches!(self, Self::Ended { how: Ended::Panicked, .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    ByRule,
    Done,
    Panicked,
}

/// The answer to a call that schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Accepted,
    Full,
    Shutdown,
}

impl Answer {
    pub(crate) fn of<F>(refused: &ScheduleError<F>) -> Self {
        match refused.kind() {
            Refusal::Full => Self::Full,
            Refusal::Shutdown => Self::Shutdown,
            refused => panic!("{refused:?} is no answer to this"),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Handle {
    Plain(Timeout),
    Guard(TimeoutGuard),
}

impl Handle {
    pub(crate) fn timeout(&self) -> &Timeout {
        match self {
            Self::Plain(timeout) => timeout,
            Self::Guard(guard) => guard,
        }
    }
}

/// The state that tasks share with each other and with the thread that runs the program.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The engine's clock, which can be stopped.
    pub(crate) clock: PausableClock,
    /// The clock below, which is moved by hand.
    pub(crate) hand: ManualClock,
    pub(crate) start: Instant,
    /// `None` once all timers are gone.
    timer: Mutex<Option<Timer>>,
    log: Mutex<Vec<Event>>,
    handles: Mutex<Vec<(u64, Handle)>>,
    next_id: AtomicU64,
    /// Tasks that have neither run for the last time nor been dropped.
    alive: AtomicUsize,
    /// How far the clock may go at a time: a burst makes up for each run that it has missed.
    leap_ns: AtomicU64,
    /// How often tasks may still move the clock: two of them could keep each other busy for ever.
    leaps: AtomicU32,
    /// How often tasks may still schedule or reset: a periodic timeout could reset itself to now
    /// for ever.
    brings: AtomicU32,
}

const RUNS_IN_A_LEAP: u64 = 10;
const LEAPS_OF_TASKS: u32 = 30;
const BROUGHT_BY_TASKS: u32 = 500;

impl Shared {
    pub(crate) fn new(timer: Timer, clock: PausableClock, hand: ManualClock) -> Self {
        Self {
            start: clock.now(),
            clock,
            hand,
            timer: Mutex::new(Some(timer)),
            log: Mutex::default(),
            handles: Mutex::default(),
            next_id: AtomicU64::new(0),
            alive: AtomicUsize::new(0),
            leap_ns: AtomicU64::new(u64::MAX),
            leaps: AtomicU32::new(LEAPS_OF_TASKS),
            brings: AtomicU32::new(BROUGHT_BY_TASKS),
        }
    }

    /// By the engine's clock, since the start.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now() - self.start
    }

    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn log(&self, event: Event) {
        self.log.lock().expect("no panic under this lock").push(event);
    }

    pub(crate) fn take_log(&self) -> Vec<Event> {
        std::mem::take(&mut *self.log.lock().expect("no panic under this lock"))
    }

    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    pub(crate) fn handles(&self) -> MutexGuard<'_, Vec<(u64, Handle)>> {
        self.handles.lock().expect("no panic under this lock")
    }

    /// Drops all that keeps the engine alive.
    pub(crate) fn leave(&self) {
        drop(self.timer.lock().expect("no panic under this lock").take());
    }

    /// Drops one of the handles, if there is any.
    pub(crate) fn drop_handle(&self, which: usize) -> Option<(u64, bool)> {
        let mut handles = self.handles();
        let at = which.checked_rem(handles.len())?;
        let (id, handle) = handles.swap_remove(at);
        drop(handles);
        Some((id, matches!(handle, Handle::Guard(_))))
    }

    pub(crate) fn expect_bursts_of(&self, period: Duration) {
        let leap = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).saturating_mul(RUNS_IN_A_LEAP);
        self.leap_ns.fetch_min(leap, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.hand.advance(by.min(Duration::from_nanos(self.leap_ns.load(Ordering::Relaxed))));
    }

    fn act(self: &Arc<Self>, act: Act) {
        match act {
            Act::Nothing => {}
            // Without the panic hook, which would print much, and which ends a fuzzer.
            Act::Panic => resume_unwind(Box::new("a task that panics")),
            Act::Schedule { delay } => {
                if take_one(&self.brings) {
                    self.schedule(delay);
                }
            }
            Act::Cancel { which } => {
                let handles = self.handles();
                let Some(at) = which.checked_rem(handles.len()) else { return };
                let (id, handle) = &handles[at];
                self.log(Event::Cancelled { id: *id, answer: handle.timeout().cancel() });
            }
            Act::Reset { which, delay } => {
                if !take_one(&self.brings) {
                    return;
                }
                let handles = self.handles();
                let Some(at) = which.checked_rem(handles.len()) else { return };
                let (id, handle) = &handles[at];
                let (at, answer) = (self.now(), handle.timeout().reset(delay));
                self.log(Event::Reset { id: *id, delay, at, answer });
            }
            Act::Drop { which } => {
                let mut handles = self.handles();
                let Some(at) = which.checked_rem(handles.len()) else { return };
                let (id, handle) = handles.swap_remove(at);
                let is_pending = handle.timeout().is_pending();
                if let Handle::Guard(guard) = handle {
                    drop(guard);
                    self.log(Event::Cancelled { id, answer: is_pending });
                }
            }
            Act::Advance { by } => {
                if take_one(&self.leaps) {
                    self.advance(by);
                }
            }
        }
    }

    fn schedule(self: &Arc<Self>, delay: Duration) {
        let Some(timer) = self.timer.lock().expect("no panic under this lock").clone() else { return };
        let (id, at, pending) = (self.new_id(), self.now(), timer.pending());
        let answer = match timer.schedule(delay, small_once(self, id)) {
            Ok(timeout) => {
                self.handles().push((id, Handle::Plain(timeout)));
                Answer::Accepted
            }
            Err(refused) => Answer::of(&refused),
        };
        self.log(Event::Scheduled { id, delay, at, answer, pending });
    }
}

fn take_one(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

/// A capture of a task, which is counted as long as it lives.
pub(crate) struct Witness {
    id: u64,
    shared: Arc<Shared>,
}

impl Witness {
    fn new(shared: &Arc<Shared>, id: u64) -> Self {
        shared.alive.fetch_add(1, Ordering::Relaxed);
        Self { id, shared: Arc::clone(shared) }
    }

    fn run(&self, act: Act, how: Ended) {
        self.shared.log(Event::Began { id: self.id });
        let how = if matches!(act, Act::Panic) { Ended::Panicked } else { how };
        if how == Ended::Panicked {
            self.shared.log(Event::Ended { id: self.id, at: self.shared.now(), how });
        }
        self.shared.act(act);
        self.shared.log(Event::Ended { id: self.id, at: self.shared.now(), how });
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.shared.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns a task that runs once, and is too large for an entry.
pub(crate) fn once(shared: &Arc<Shared>, id: u64, act: Act) -> impl FnOnce() + Send + use<> {
    let witness = Witness::new(shared, id);
    move || witness.run(act, Ended::ByRule)
}

/// Returns a task that runs once without an act, and has two words.
pub(crate) fn small_once(shared: &Arc<Shared>, id: u64) -> impl FnOnce() + Send + use<> {
    let witness = Witness::new(shared, id);
    move || witness.run(Act::Nothing, Ended::ByRule)
}

/// Returns a task that runs again and again, until its rule says otherwise.
pub(crate) fn again(shared: &Arc<Shared>, id: u64, act: Act) -> impl FnMut() + Send + use<> {
    let witness = Witness::new(shared, id);
    move || witness.run(act, Ended::ByRule)
}

/// Returns a task that answers with the delay, this number of times.
pub(crate) fn answering(
    shared: &Arc<Shared>,
    id: u64,
    act: Act,
    (delay, mut times): (Duration, u32),
) -> impl FnMut() -> Option<Duration> + Send + use<> {
    let witness = Witness::new(shared, id);
    move || {
        let left = times.checked_sub(1);
        times = left.unwrap_or(0);
        witness.run(act, if left.is_some() { Ended::ByRule } else { Ended::Done });
        left.map(|_| delay)
    }
}
