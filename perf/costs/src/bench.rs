//! The engines that the operations are done on: that of threads, and that of one thread.

use std::future::{Future, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{self, Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Driver, ManualClock, Sleep, Timeout, Timer};
use tourbillon_local::{LocalDriver, LocalSleep, LocalTimeout, LocalTimer};

use super::meter::{self, Meter};
use super::operation::Operation::{self, *};

/// No timeout of this delay is due during a measurement.
const FAR: Duration = Duration::from_secs(3_600);
/// When the shard wakes by itself, so that nothing that is brought later wakes it.
const ANCHOR: Duration = Duration::from_secs(60);
/// Entries of an engine: more than are ever in use at once, so that it takes no memory meanwhile.
const ROOM: usize = 32_768;
const SOON: Duration = Duration::from_millis(1);
/// A part of a tick.
const APART: Duration = Duration::from_nanos(62_500);

/// Operations that can be done in rounds.
pub(crate) trait Rounds {
    /// Brings `n` timeouts into the state in which the operation finds them.
    fn prepare(&mut self, operation: Operation, n: usize);

    /// Does it `n` times.
    fn measure(&mut self, operation: Operation, n: usize, meter: &mut impl Meter);

    /// Gives back what is left over.
    fn clean(&mut self);

    /// All three, `rounds` times.
    fn rounds(&mut self, operation: Operation, rounds: usize, n: usize, meter: &mut impl Meter) {
        for _ in 0..rounds {
            self.prepare(operation, n);
            self.measure(operation, n, meter);
            self.clean();
        }
    }
}

/// A thread's place at an engine, with what it needs for one operation after the other.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) timer: Timer,
    turned: Turned,
    held: Vec<Timeout>,
    asleep: Vec<Sleep>,
    /// The waker of a task other than the one that has polled what is asleep.
    another: Waker,
    anchor: Option<Timeout>,
}

/// Who turns a bench's engine.
#[derive(Debug)]
enum Turned {
    /// The bench itself, by the real clock, if there is no other.
    Here(Box<Driver>, Option<ManualClock>),
    /// Its workers, while [`Bench::settle`] waits, by a clock that is moved by hand.
    #[cfg(count_accesses)]
    ByWorkers(ManualClock),
}

impl Turned {
    /// Returns the driver of an engine that the bench turns itself.
    fn driver(&mut self) -> &mut Driver {
        match self {
            Self::Here(driver, _) => driver,
            #[cfg(count_accesses)]
            Self::ByWorkers(_) => panic!("a worker's turn can't be measured"),
        }
    }
}

impl Bench {
    /// An engine without threads, so that nobody else takes part in what is measured.
    pub(crate) fn driven(clock: Option<ManualClock>) -> Self {
        let builder = Timer::builder().shards(1).capacity(ROOM);
        let builder = if let Some(clock) = &clock { builder.clock(clock.clone()) } else { builder };
        let (timer, driver) = builder.build_driven().expect("the options make sense");
        driver.on_earlier(meter::wake);
        let bench = Self::new(timer, Turned::Here(Box::new(driver), clock));
        // The producers' clock knows its rate two milliseconds after it was first looked at.
        for _ in 0..if bench.clock().is_some() { 0 } else { 3 } {
            schedule(&bench.timer, FAR).cancel();
            thread::sleep(Duration::from_millis(5));
        }
        bench
    }

    /// An engine whose workers sleep unless a bench settles.
    #[cfg(count_accesses)]
    pub(crate) fn workers(shards: usize) -> (Timer, ManualClock) {
        let clock = ManualClock::new();
        let builder = Timer::builder().shards(shards).executor(tourbillon::Inline).clock(clock.clone());
        (builder.build().expect("the options make sense"), clock)
    }

    /// The calling thread's place at such an engine.
    #[cfg(count_accesses)]
    pub(crate) fn at(timer: Timer, clock: ManualClock) -> Self {
        Self::new(timer, Turned::ByWorkers(clock))
    }

    fn new(timer: Timer, turned: Turned) -> Self {
        let (held, asleep) = (Vec::with_capacity(1_000), Vec::with_capacity(1_000));
        Self { timer, turned, held, asleep, another: Arc::new(Another).into(), anchor: None }
    }

    fn clock(&self) -> Option<&ManualClock> {
        match &self.turned {
            Turned::Here(_, clock) => clock.as_ref(),
            #[cfg(count_accesses)]
            Turned::ByWorkers(clock) => Some(clock),
        }
    }

    fn advance(&self, by: Duration) {
        self.clock().expect("operations that need time have a clock").advance(by);
    }

    /// Returns when there is nothing left to do, and the shard sleeps until the anchor is due.
    fn settle(&mut self) {
        match &mut self.turned {
            Turned::Here(driver, _) => {
                while driver.turn() > 0 {}
                let _ = driver.next_wakeup();
            }
            #[cfg(count_accesses)]
            Turned::ByWorkers(clock) => {
                let nudge = self.timer.schedule(SOON, || ()).expect("the engine accepts");
                clock.advance(2 * SOON);
                assert!(nudge.is_expired());
            }
        }
    }
}

impl Rounds for Bench {
    fn prepare(&mut self, operation: Operation, n: usize) {
        self.anchor = Some(schedule(&self.timer, ANCHOR));
        self.settle();
        let Self { timer, held, asleep, .. } = self;
        match operation {
            Wake => asleep.extend((0..n).map(|_| sleep(timer, SOON))),
            SleepReset | SleepPolledByAnother => asleep.extend((0..n).map(|_| sleep(timer, FAR))),
            DropExpired | Expire | ExpireHeld => held.extend((0..n).map(|_| schedule(timer, SOON))),
            ExpireAlone => held.extend((0_u32..).take(n).map(|nth| schedule(timer, SOON + nth * APART))),
            CancelInInbox | CancelDropInInbox | CancelInWheel | CancelDropInWheel | ResetLater | ResetAt
            | ResetEarlier | DropPending | DropCancelled | TakeIn | TakeInDetached | Collect => {
                held.extend((0..n).map(|_| schedule(timer, FAR)));
            }
            _ => {}
        }
        match operation {
            CancelInWheel | CancelDropInWheel | ResetLater | ResetAt | ResetEarlier | DropPending | SleepReset
            | SleepPolledByAnother => self.settle(),
            DropCancelled => held.iter().for_each(|timeout| assert!(timeout.cancel())),
            DropExpired => {
                self.advance(2 * SOON);
                self.settle();
                assert!(self.held.iter().all(Timeout::is_expired));
            }
            TakeInDetached => held.clear(),
            Expire | ExpireHeld | Wake => {
                self.settle();
                if operation == Expire {
                    self.held.clear();
                }
                self.advance(2 * SOON);
            }
            ExpireAlone => {
                self.settle();
                self.held.clear();
                self.advance(SOON);
            }
            Collect => {
                self.settle();
                self.held.drain(..).for_each(|timeout| assert!(timeout.cancel()));
            }
            _ => {}
        }
    }

    fn measure(&mut self, operation: Operation, n: usize, meter: &mut impl Meter) {
        let (timer, held) = (&self.timer, &mut self.held);
        let later = timer.now() + 2 * FAR;
        let mut context = Context::from_waker(Waker::noop());
        match operation {
            Schedule => (0..n).for_each(|_| held.push(meter.measure(1, || schedule(timer, FAR)))),
            ScheduleDetached => (0..n).for_each(|_| {
                meter.measure(1, || timer.schedule_detached(black_box(FAR), task()).expect("the engine accepts"));
            }),
            ScheduleAt => (0..n).for_each(|_| held.push(meter.measure(1, || schedule_at(timer, later)))),
            CancelInInbox | CancelInWheel => {
                held.iter().for_each(|timeout| assert!(meter.measure(1, || timeout.cancel())));
            }
            CancelDropInInbox | CancelDropInWheel => {
                held.drain(..).for_each(|timeout| assert!(meter.measure(1, || cancel_and_drop(timeout))));
            }
            ResetLater => held.iter().for_each(|timeout| assert!(meter.measure(1, || timeout.reset(2 * FAR)))),
            ResetAt => held.iter().for_each(|timeout| assert!(meter.measure(1, || timeout.reset_at(later)))),
            ResetEarlier => held.iter().for_each(|timeout| assert!(meter.measure(1, || timeout.reset(FAR / 2)))),
            DropPending | DropCancelled | DropExpired => {
                held.drain(..).for_each(|timeout| meter.measure(1, || drop(timeout)));
            }
            ScheduleCancelDrop => (0..n).for_each(|_| assert!(meter.measure(1, || schedule(timer, FAR).cancel()))),
            ScheduleCancelOwned => {
                (0..n).for_each(|_| assert!(meter.measure(1, || schedule(timer, FAR).cancel_owned())));
            }
            SleepDrop => (0..n).for_each(|_| meter.measure(1, || drop(sleep(timer, FAR)))),
            SleepReset => self.asleep.iter_mut().for_each(|sleep| meter.measure(1, || sleep.reset(black_box(2 * FAR)))),
            SleepPolledByAnother => {
                let mut context = Context::from_waker(&self.another);
                for sleep in &mut self.asleep {
                    assert!(meter.measure(1, || Pin::new(&mut *sleep).poll(&mut context)).is_pending());
                }
            }
            TimeoutReady => (0..n).for_each(|_| {
                let polled =
                    meter.measure(1, || pin!(timer.timeout(black_box(FAR), ready(()))).poll(&mut context).is_ready());
                assert!(polled);
            }),
            ExpireAlone => (0..n).for_each(|_| {
                let driver = self.turned.driver();
                assert_eq!(meter.measure(1, || driver.turn()), 1);
                self.advance(APART);
            }),
            TakeIn | TakeInDetached | Expire | ExpireHeld | Wake | Collect => {
                let driver = self.turned.driver();
                let expired = meter.measure(n, || driver.turn());
                assert_eq!(expired, if matches!(operation, Expire | ExpireHeld | Wake) { n } else { 0 });
            }
            other => panic!("{} is one of an engine of one thread", other.name()),
        }
    }

    fn clean(&mut self) {
        self.held.drain(..).chain(self.anchor.take()).for_each(|timeout| _ = timeout.cancel());
        self.asleep.clear();
        if self.clock().is_some() {
            self.advance(3 * FAR);
        }
        self.settle();
    }
}

/// A task that fills the room that there is for captures.
fn task() -> impl FnOnce() + Send + 'static {
    let captures = black_box([1_u64, 2, 3]);
    move || {
        black_box(captures);
    }
}

/// With a delay that the compiler doesn't know: for a constant one it might make a copy of the
/// engine's code, or not.
#[inline(always)]
fn schedule(timer: &Timer, delay: Duration) -> Timeout {
    timer.schedule(black_box(delay), task()).expect("the engine accepts")
}

#[inline(always)]
fn schedule_at(timer: &Timer, deadline: Instant) -> Timeout {
    timer.schedule_at(black_box(deadline), task()).expect("the engine accepts")
}

#[inline(always)]
fn cancel_and_drop(timeout: Timeout) -> bool {
    timeout.cancel()
}

/// A future that has been polled, and sleeps.
#[inline(always)]
fn sleep(timer: &Timer, delay: Duration) -> Sleep {
    let mut sleep = timer.sleep(black_box(delay));
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
    sleep
}

/// A task other than that of `Waker::noop`.
#[derive(Debug)]
struct Another;

impl task::Wake for Another {
    fn wake(self: Arc<Self>) {}
}

/// An engine of this thread, on a clock that is moved by hand.
#[derive(Debug)]
pub(crate) struct LocalBench {
    timer: LocalTimer,
    driver: LocalDriver,
    clock: ManualClock,
    held: Vec<LocalTimeout>,
}

impl LocalBench {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let (timer, driver) = LocalTimer::builder().clock(clock.clone()).build().expect("the options make sense");
        Self { timer, driver, clock, held: Vec::with_capacity(1_000) }
    }
}

impl Rounds for LocalBench {
    fn prepare(&mut self, operation: Operation, n: usize) {
        let delay = if matches!(operation, LocalDropExpired | LocalExpire | LocalExpireHeld) { SOON } else { FAR };
        if matches!(operation, LocalCancel | LocalResetLater | LocalResetEarlier) || delay == SOON {
            self.held.extend((0..n).map(|_| schedule_here(&self.timer, delay)));
        }
        if delay == SOON {
            self.clock.advance(2 * SOON);
        }
        match operation {
            LocalExpire => self.held.clear(),
            LocalDropExpired => assert_eq!(self.driver.turn(), n),
            _ => {}
        }
    }

    fn measure(&mut self, operation: Operation, n: usize, meter: &mut impl Meter) {
        let (timer, held) = (&self.timer, &mut self.held);
        let deadline = timer.now() + FAR;
        match operation {
            LocalSchedule => (0..n).for_each(|_| held.push(meter.measure(1, || schedule_here(timer, FAR)))),
            LocalScheduleAt => (0..n).for_each(|_| {
                let timeout = || timer.schedule_at(black_box(deadline), task()).expect("the engine accepts");
                held.push(meter.measure(1, timeout));
            }),
            LocalCancel => held.iter().for_each(|timeout| assert!(meter.measure(1, || timeout.cancel()))),
            LocalResetLater => held.iter().for_each(|timeout| assert!(meter.measure(1, || timeout.reset(2 * FAR)))),
            LocalResetEarlier => {
                held.iter().for_each(|timeout| assert!(meter.measure(1, || timeout.reset(FAR / 2))));
            }
            LocalDropExpired => held.drain(..).for_each(|timeout| meter.measure(1, || drop(timeout))),
            LocalScheduleCancelDrop => {
                (0..n).for_each(|_| assert!(meter.measure(1, || schedule_here(timer, FAR).cancel())));
            }
            LocalSleepDrop => (0..n).for_each(|_| meter.measure(1, || drop(sleep_here(timer)))),
            LocalExpire | LocalExpireHeld => {
                assert_eq!(meter.measure(n, || self.driver.turn()), n);
            }
            other => panic!("{} is not an operation of one thread's engine", other.name()),
        }
    }

    fn clean(&mut self) {
        for timeout in self.held.drain(..) {
            timeout.cancel();
        }
        self.clock.advance(3 * FAR);
        while self.driver.turn() > 0 {}
    }
}

/// With a delay that the compiler doesn't know.
#[inline(always)]
fn schedule_here(timer: &LocalTimer, delay: Duration) -> LocalTimeout {
    timer.schedule(black_box(delay), task()).expect("the engine accepts")
}

/// A future that has been polled, and sleeps.
#[inline(always)]
fn sleep_here(timer: &LocalTimer) -> LocalSleep {
    let mut sleep = timer.sleep(black_box(FAR));
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
    sleep
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Nothing;

    #[test]
    fn each_operation_can_be_done_again_and_again() {
        for &operation in Operation::ALL {
            if operation.is_local() {
                LocalBench::new().rounds(operation, 3, 100, &mut Nothing);
            } else {
                let clock = operation.needs_manual_clock().then(ManualClock::new);
                Bench::driven(clock).rounds(operation, 3, 100, &mut Nothing);
            }
        }
    }
}
