//! The operations of an engine of one thread, and that engine.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tourbillon::ManualClock;
use tourbillon_local::{LocalDriver, LocalSleep, LocalTimeout, LocalTimer};

use super::bench::{FAR, Rounds, SOON, task};
use super::meter::Meter;
use super::operation::Operation::{self, *};

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
            self.held.extend((0..n).map(|_| schedule(&self.timer, delay)));
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
            LocalSchedule => (0..n).for_each(|_| held.push(meter.measure(1, || schedule(timer, FAR)))),
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
                (0..n).for_each(|_| assert!(meter.measure(1, || schedule(timer, FAR).cancel())));
            }
            LocalSleepDrop => (0..n).for_each(|_| meter.measure(1, || drop(asleep(timer)))),
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
fn schedule(timer: &LocalTimer, delay: Duration) -> LocalTimeout {
    timer.schedule(black_box(delay), task()).expect("the engine accepts")
}

/// A future that has been polled, and sleeps.
#[inline(always)]
fn asleep(timer: &LocalTimer) -> LocalSleep {
    let mut sleep = timer.sleep(black_box(FAR));
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
    sleep
}
