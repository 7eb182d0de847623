//! The operations of an engine of one thread, and that engine.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tourbillon::{LocalDriver, LocalSleep, LocalTimeout, LocalTimer, ManualClock, Timer};

use super::meter::Meter;
use super::operation::{FAR, Operation, Rounds, SOON, task};

/// An engine of this thread, on a clock that is moved by hand.
#[derive(Debug)]
pub(crate) struct LocalBench {
    timer: LocalTimer,
    driver: LocalDriver,
    clock: ManualClock,
    held: Vec<LocalTimeout>,
}

impl LocalBench {
    pub(crate) fn new(room: usize) -> Self {
        let clock = ManualClock::new();
        let (timer, driver) = Timer::builder().clock(clock.clone()).build_local().expect("the options make sense");
        Self { timer, driver, clock, held: Vec::with_capacity(room) }
    }
}

impl Rounds for LocalBench {
    fn prepare(&mut self, operation: Operation, n: usize) {
        use Operation::{
            LocalCancel, LocalDropExpired, LocalExpire, LocalExpireHeld, LocalResetEarlier, LocalResetLater,
        };
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
        match operation {
            Operation::LocalSchedule => {
                for _ in 0..n {
                    held.push(meter.measure(1, || schedule(timer, FAR)));
                }
            }
            Operation::LocalScheduleAt => {
                let deadline = timer.now() + FAR;
                for _ in 0..n {
                    let timeout = || timer.schedule_at(black_box(deadline), task()).expect("the engine accepts");
                    held.push(meter.measure(1, timeout));
                }
            }
            Operation::LocalCancel => {
                for timeout in held {
                    assert!(meter.measure(1, || timeout.cancel()));
                }
            }
            Operation::LocalResetLater => {
                for timeout in held {
                    assert!(meter.measure(1, || timeout.reset(2 * FAR)));
                }
            }
            Operation::LocalResetEarlier => {
                for timeout in held {
                    assert!(meter.measure(1, || timeout.reset(FAR / 2)));
                }
            }
            Operation::LocalDropExpired => {
                for timeout in held.drain(..) {
                    meter.measure(1, || drop(timeout));
                }
            }
            Operation::LocalScheduleCancelDrop => {
                for _ in 0..n {
                    assert!(meter.measure(1, || schedule(timer, FAR).cancel()));
                }
            }
            Operation::LocalSleepDrop => {
                for _ in 0..n {
                    meter.measure(1, || drop(asleep(timer)));
                }
            }
            Operation::LocalExpire | Operation::LocalExpireHeld => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Nothing;

    #[test]
    fn each_operation_of_one_thread_can_be_done_again_and_again() {
        for &operation in Operation::all().iter().filter(|operation| operation.is_local()) {
            LocalBench::new(100).rounds(operation, 3, 100, &mut Nothing);
        }
    }
}
