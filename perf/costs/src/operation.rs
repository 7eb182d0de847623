//! What is measured: the operations, and the engine that each of them is done on.

use std::fs;
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tourbillon::{Driver, Inline, ManualClock, Sleep, Timeout, Timer};

use super::meter::Meter;
use super::turn_thread::{self, TurnHandle, TurnThread};

/// One operation, as its caller pays for it; or one timeout's share of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// The handle is kept; the task has 24 bytes of captures.
    Schedule,
    ScheduleDetached,
    /// For an instant that the caller has: the engine reads no clock.
    ScheduleAt,
    /// Of a timeout that the worker has not seen yet.
    CancelInInbox,
    /// Of one that the worker has linked into its wheel.
    CancelInWheel,
    ResetLater,
    /// To an instant that the caller has.
    ResetAt,
    ResetEarlier,
    DropPending,
    /// Of the handle of a timeout that was cancelled in the inbox.
    DropCancelled,
    /// Of the handle of a timeout that has run: the last owner gives the entry back.
    DropExpired,
    /// All three, one after the other, as a request that is answered in time.
    ScheduleCancelDrop,
    /// The same by `cancel_owned`, which gives the handle up in the same step.
    ScheduleCancelOwned,
    /// A future that sleeps is made, polled once, and dropped: a limit that was met, but not at
    /// once.
    SleepDrop,
    /// A limit is put round a future that is ready at once.
    TimeoutReady,
    /// The counts of all threads and shards are read.
    Stats,
    /// A turn takes timeouts out of the inbox into the wheel.
    TakeIn,
    /// The same of timeouts whose handles are gone.
    TakeInDetached,
    /// A turn expires and runs timeouts of one tick, whose handles are gone.
    Expire,
    /// The same with handles that are still held.
    ExpireHeld,
    /// A turn ends the sleep of futures, and calls their wakers.
    Wake,
    /// A turn collects timeouts that were cancelled in the wheel.
    Collect,
    /// On an engine of one thread, from here on. The names are those of the others.
    LocalSchedule,
    LocalScheduleAt,
    LocalCancel,
    LocalResetLater,
    LocalResetEarlier,
    LocalDropExpired,
    LocalScheduleCancelDrop,
    LocalSleepDrop,
    LocalExpire,
    LocalExpireHeld,
}

/// No timeout of this delay is due during a measurement, on the real clock.
pub(crate) const FAR: Duration = Duration::from_secs(3_600);
/// What a worker sleeps for at most, so that nothing that is brought later wakes it.
const ANCHOR: Duration = Duration::from_secs(60);
/// Entries of an engine on the real clock: more than are ever in use at once, so that it takes no
/// memory in between.
const ROOM: usize = 32_768;
pub(crate) const SOON: Duration = Duration::from_millis(1);

impl Operation {
    pub(crate) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Those of engines that threads share.
    pub(crate) fn shared() -> impl Iterator<Item = Self> {
        Self::all().iter().copied().filter(|operation| !operation.is_local())
    }

    /// Those whose costs are held: not [`Stats`](Self::Stats), which is there for its conflicts.
    pub(crate) fn held() -> Vec<Self> {
        Self::all().iter().copied().filter(|&operation| operation != Self::Stats).collect()
    }

    /// How often it is stepped through where others are so many times: the counts of a whole wheel
    /// are read in thousands of steps.
    pub(crate) fn stepped(self, others: usize) -> usize {
        if self == Self::Stats { 2 } else { others }
    }

    /// Its place among all.
    pub(crate) fn number(self) -> usize {
        self as usize
    }

    /// As on the command line and in the baseline.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it is a producer's; otherwise it is one timeout's share of a worker's turn.
    pub(crate) fn is_producers(self) -> bool {
        use Operation::{Collect, Expire, ExpireHeld, TakeIn, TakeInDetached, Wake};
        !self.is_local() && !matches!(self, TakeIn | TakeInDetached | Expire | ExpireHeld | Wake | Collect)
    }

    /// Whether it is one of an engine of one thread.
    pub(crate) fn is_local(self) -> bool {
        self.number() >= Self::LocalSchedule.number()
    }
}

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
    timer: Timer,
    turned: Turned,
    held: Vec<Timeout>,
    asleep: Vec<Sleep>,
    /// Until the bench is gone.
    anchor: Option<Timeout>,
}

/// Who turns a bench's engine.
#[derive(Debug)]
enum Turned {
    ByItsWorker,
    /// The bench itself, on a clock that is moved by hand.
    Here(Box<Driver>, ManualClock),
    /// Another thread, when the bench says so, on a clock that is moved by hand.
    Elsewhere(TurnHandle, ManualClock),
}

impl Bench {
    /// An engine without threads, on a clock that is moved by hand: what happens in it is the same
    /// each time.
    pub(crate) fn driven(room: usize) -> Self {
        let (timer, driver, clock) = driven_engine();
        Self::new(timer, Turned::Here(Box::new(driver), clock), None, room)
    }

    /// The calling thread's place at such an engine, and who turns it, on a thread of its own.
    pub(crate) fn turned_elsewhere(room: usize) -> (Self, TurnThread) {
        let (timer, driver, clock) = driven_engine();
        let (handle, turner) = turn_thread::new(driver);
        (Self::new(timer, Turned::Elsewhere(handle, clock), None, room), turner)
    }

    fn new(timer: Timer, turned: Turned, anchor: Option<Timeout>, room: usize) -> Self {
        Self { timer, turned, held: Vec::with_capacity(room), asleep: Vec::with_capacity(room), anchor }
    }

    /// An engine on the real clock, whose workers sleep unless this bench wakes them.
    pub(crate) fn engine(shards: usize) -> Timer {
        Timer::builder().shards(shards).executor(Inline).capacity(ROOM).build().expect("the options make sense")
    }

    /// The calling thread's place at such an engine.
    pub(crate) fn at(timer: Timer, room: usize) -> Self {
        let anchor = Some(schedule(&timer, ANCHOR));
        let bench = Self::new(timer, Turned::ByItsWorker, anchor, room);
        // The producers' clock knows its rate two milliseconds after it was first looked at.
        for _ in 0..2 {
            thread::sleep(Duration::from_millis(5));
            drop(schedule(&bench.timer, ANCHOR));
        }
        bench
    }

    /// Has the engine turned once, by a thread that measures the turn under this label.
    pub(crate) fn turn_elsewhere(&mut self, label: Operation) {
        let Turned::Elsewhere(turner, _) = &self.turned else { panic!("no other thread turns the engine") };
        turner.turn_measured(label.number());
    }

    fn advance(&mut self, by: Duration) {
        match &self.turned {
            Turned::ByItsWorker => {}
            Turned::Here(_, clock) | Turned::Elsewhere(_, clock) => clock.advance(by),
        }
    }

    /// Returns when the worker has done all that there is to do, and sleeps.
    fn settle(&mut self) {
        match &mut self.turned {
            Turned::Here(driver, _) => while driver.turn() > 0 {},
            Turned::Elsewhere(turner, _) => turner.settle(),
            Turned::ByItsWorker => {
                let nudge = self.timer.schedule(Duration::ZERO, || ()).expect("the engine accepts");
                while !nudge.is_expired() || !others_sleep() {
                    thread::sleep(Duration::from_micros(100));
                }
            }
        }
    }
}

impl Rounds for Bench {
    fn prepare(&mut self, operation: Operation, n: usize) {
        use Operation::{
            CancelInInbox, CancelInWheel, Collect, DropCancelled, DropExpired, DropPending, Expire, ExpireHeld,
            ResetAt, ResetEarlier, ResetLater, Schedule, ScheduleAt, ScheduleCancelDrop, ScheduleCancelOwned,
            ScheduleDetached, SleepDrop, Stats, TakeIn, TakeInDetached, TimeoutReady, Wake,
        };
        let delay = if matches!(operation, DropExpired | Expire | ExpireHeld) { SOON } else { FAR };
        if operation == Wake {
            self.asleep.extend((0..n).map(|_| asleep(&self.timer, SOON)));
        } else if !matches!(
            operation,
            Schedule
                | ScheduleDetached
                | ScheduleAt
                | ScheduleCancelDrop
                | ScheduleCancelOwned
                | SleepDrop
                | Stats
                | TimeoutReady
        ) {
            self.held.extend((0..n).map(|_| schedule(&self.timer, delay)));
        }
        match operation {
            Schedule | ScheduleDetached | ScheduleAt | ScheduleCancelDrop | ScheduleCancelOwned | SleepDrop | Stats
            | TimeoutReady | CancelInInbox => {}
            CancelInWheel | ResetLater | ResetAt | ResetEarlier | DropPending => self.settle(),
            DropCancelled => self.held.iter().for_each(|timeout| assert!(timeout.cancel())),
            DropExpired => {
                self.advance(2 * SOON);
                self.settle();
                while !self.held.iter().all(Timeout::is_expired) {
                    thread::yield_now();
                }
                self.settle();
            }
            TakeIn => {}
            TakeInDetached => self.held.clear(),
            Expire | ExpireHeld | Wake => {
                self.settle();
                if operation == Expire {
                    self.held.clear();
                }
                self.advance(2 * SOON);
            }
            Collect => {
                self.settle();
                self.held.drain(..).for_each(|timeout| assert!(timeout.cancel()));
            }
            other => panic!("{} is one of an engine of one thread", other.name()),
        }
    }

    fn measure(&mut self, operation: Operation, n: usize, meter: &mut impl Meter) {
        let (timer, held) = (&self.timer, &mut self.held);
        match operation {
            Operation::Schedule => {
                for _ in 0..n {
                    held.push(meter.measure(1, || schedule(timer, FAR)));
                }
            }
            Operation::ScheduleDetached => {
                for _ in 0..n {
                    meter.measure(1, || timer.schedule_detached(black_box(FAR), task()).expect("the engine accepts"));
                }
            }
            Operation::ScheduleAt => {
                let deadline = timer.now() + FAR;
                for _ in 0..n {
                    held.push(meter.measure(1, || schedule_at(timer, deadline)));
                }
            }
            Operation::CancelInInbox | Operation::CancelInWheel => {
                for timeout in held {
                    assert!(meter.measure(1, || timeout.cancel()));
                }
            }
            Operation::ResetLater => {
                for timeout in held {
                    assert!(meter.measure(1, || timeout.reset(2 * FAR)));
                }
            }
            Operation::ResetAt => {
                let deadline = timer.now() + 2 * FAR;
                for timeout in held {
                    assert!(meter.measure(1, || timeout.reset_at(deadline)));
                }
            }
            Operation::ResetEarlier => {
                for timeout in held {
                    assert!(meter.measure(1, || timeout.reset(FAR / 2)));
                }
            }
            Operation::DropPending | Operation::DropCancelled | Operation::DropExpired => {
                for timeout in held.drain(..) {
                    meter.measure(1, || drop(timeout));
                }
            }
            Operation::ScheduleCancelDrop => {
                for _ in 0..n {
                    assert!(meter.measure(1, || schedule(timer, FAR).cancel()));
                }
            }
            Operation::ScheduleCancelOwned => {
                for _ in 0..n {
                    assert!(meter.measure(1, || schedule(timer, FAR).cancel_owned()));
                }
            }
            Operation::SleepDrop => {
                for _ in 0..n {
                    meter.measure(1, || drop(asleep(timer, FAR)));
                }
            }
            Operation::TimeoutReady => {
                let mut context = Context::from_waker(Waker::noop());
                for _ in 0..n {
                    let ready = meter.measure(1, || {
                        let limited = pin!(timer.timeout(black_box(FAR), std::future::ready(())));
                        limited.poll(&mut context).is_ready()
                    });
                    assert!(ready);
                }
            }
            Operation::Stats => {
                for _ in 0..n {
                    drop(meter.measure(1, || timer.stats()));
                }
            }
            Operation::TakeIn
            | Operation::TakeInDetached
            | Operation::Expire
            | Operation::ExpireHeld
            | Operation::Wake
            | Operation::Collect => {
                let fired = match &mut self.turned {
                    Turned::ByItsWorker => panic!("turns are measured on a driven engine"),
                    Turned::Here(driver, _) => meter.measure(n, || driver.turn()),
                    Turned::Elsewhere(turner, _) => turner.turn_measured(operation.number()),
                };
                let expires = matches!(operation, Operation::Expire | Operation::ExpireHeld | Operation::Wake);
                assert_eq!(fired, if expires { n } else { 0 });
            }
            other => panic!("{} is one of an engine of one thread", other.name()),
        }
    }

    fn clean(&mut self) {
        for timeout in self.held.drain(..) {
            timeout.cancel();
        }
        self.asleep.clear();
        self.advance(3 * FAR);
        self.settle();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.anchor.take().inspect(|anchor| assert!(anchor.cancel(), "the measurement took a minute"));
    }
}

fn driven_engine() -> (Timer, Driver, ManualClock) {
    let clock = ManualClock::new();
    let builder = Timer::builder().shards(1).clock(clock.clone());
    let (timer, driver) = builder.build_driven().expect("the options make sense");
    (timer, driver, clock)
}

/// A task that fills the room that there is for captures.
pub(crate) fn task() -> impl FnOnce() + Send + 'static {
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

/// A future that has been polled, and sleeps.
#[inline(always)]
fn asleep(timer: &Timer, delay: Duration) -> Sleep {
    let mut sleep = timer.sleep(black_box(delay));
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
    sleep
}

/// Whether no other thread of this process has anything to do.
fn others_sleep() -> bool {
    let Ok(me) = fs::read_link("/proc/thread-self") else { return false };
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return false };
    let is_me = |thread: &fs::DirEntry| Some(thread.file_name().as_os_str()) == me.file_name();
    threads.filter_map(Result::ok).filter(|thread| !is_me(thread)).all(|thread| {
        // "id (name) state ..."; a name may have brackets in it, too.
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Nothing;

    #[test]
    fn each_operation_can_be_done_again_and_again_on_a_driven_engine() {
        for operation in Operation::shared() {
            Bench::driven(100).rounds(operation, 3, 100, &mut Nothing);
        }
    }

    /// Only those that need no settling: the threads of other tests don't sleep.
    #[test]
    fn operations_can_be_done_on_the_real_clock() {
        for operation in [Operation::Schedule, Operation::ScheduleDetached, Operation::CancelInInbox] {
            let mut bench = Bench::at(Bench::engine(1), 100);
            bench.prepare(operation, 100);
            bench.measure(operation, 100, &mut Nothing);
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        assert_eq!(Operation::CancelInWheel.name(), "cancel-in-wheel");
    }
}
