//! What a local engine promises about code of the user's that does what it should not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tourbillon::{Clock, Timer};

const SECOND: Duration = Duration::from_secs(1);

/// A clock that can be put back.
#[derive(Clone)]
struct SetByHand {
    start: Instant,
    seconds: Arc<AtomicU64>,
}

impl SetByHand {
    fn new() -> Self {
        Self { start: Instant::now(), seconds: Arc::default() }
    }

    fn set(&self, seconds: u64) {
        self.seconds.store(seconds, Ordering::Relaxed);
    }
}

impl Clock for SetByHand {
    fn now(&self) -> Instant {
        self.start + SECOND * u32::try_from(self.seconds.load(Ordering::Relaxed)).expect("a few")
    }
}

#[test]
fn an_engine_whose_clock_goes_back_keeps_to_the_time_that_it_has_seen() {
    let clock = SetByHand::new();
    let (timer, mut driver) = Timer::builder().clock(clock.clone()).build_local().expect("an engine");
    let far = timer.schedule(SECOND * 100, || ()).expect("room");
    clock.set(10);
    assert_eq!(driver.turn(), 0);
    clock.set(1);
    let soon = timer.schedule(SECOND * 2, || ()).expect("room");
    assert_eq!((driver.turn(), soon.is_expired()), (1, true), "3 s have passed 7 s ago");
    assert!(driver.next_wakeup().is_some_and(|at| at > timer.now()), "the loop would spin");
    clock.set(100);
    assert_eq!((driver.turn(), far.is_expired()), (1, true));
}
