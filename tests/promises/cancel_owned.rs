//! A cancel that also drops the handle, and the drop of a guard, which is the same.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tourbillon::{Inline, ManualClock, Shutdown, Timeout, Timer};

use crate::common::{Counter, HOUR, MS, driven, driven_by, eventually};

/// More than a thread keeps of what it has cancelled itself.
const MANY: usize = 200;

/// How a caller ends a timeout whose handle it owns.
const WAYS: [fn(Timeout) -> bool; 2] = [Timeout::cancel_owned, |timeout| {
    let was_pending = timeout.is_pending();
    drop(timeout.cancel_on_drop());
    was_pending
}];

#[test]
fn a_cancel_that_owns_its_handle_drops_the_task_at_once_and_nothing_runs() {
    for (cancel, is_linked) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let (timer, mut driver, clock) = driven();
        let witness = Arc::new(());
        let schedule = || {
            let witness = Arc::clone(&witness);
            timer.schedule(10 * MS, move || unreachable!("{witness:?}")).expect("accepted")
        };
        for _ in 0..3 {
            let timeouts: Vec<_> = (0..MANY).map(|_| schedule()).collect();
            if is_linked {
                driver.turn();
            }
            for (ended, timeout) in timeouts.into_iter().enumerate() {
                assert_eq!((timer.pending(), Arc::strong_count(&witness)), (MANY - ended, 1 + MANY - ended));
                assert!(cancel(timeout));
            }
            assert_eq!((timer.pending(), Arc::strong_count(&witness)), (0, 1));
        }
        clock.advance(HOUR);
        assert_eq!(driver.turn(), 0);
        let stats = timer.stats();
        assert_eq!((stats.scheduled, stats.cancelled, stats.fired), (3 * MANY as u64, 3 * MANY as u64, 0));
    }
}

#[test]
fn a_timeout_scheduled_after_one_that_was_given_up_in_its_slot_runs_once_and_on_time() {
    let nanosecond = Duration::from_nanos(1);
    for delay in [0, 5, 10, 15, 40].map(Duration::from_millis) {
        let clock = ManualClock::new();
        let timer = Timer::builder().shards(1).executor(Inline).clock(clock.clone()).build().expect("built");
        let first = timer.schedule(10 * MS, || unreachable!("it is cancelled")).expect("accepted");
        clock.advance(nanosecond);
        assert_eq!(timer.stats().shards[0].linked, 1);
        assert!(first.cancel_owned());
        assert!(!clock.advance_to_next(&timer), "nothing is pending");
        let ran = Counter::default();
        let second = timer.schedule(delay, ran.task()).expect("accepted");
        if !delay.is_zero() {
            clock.advance(delay - nanosecond);
            assert_eq!(ran.get(), 0, "{delay:?}");
        }
        // Deadlines are rounded up to a part of a tick.
        clock.advance(MS);
        assert!(ran.get() == 1 && second.is_expired(), "{delay:?}");
        clock.advance(HOUR);
        assert_eq!((ran.get(), timer.pending(), timer.stats().shards[0].linked), (1, 0, 0));
    }
}

#[test]
fn a_drain_does_not_wait_for_what_was_given_up_in_its_slot() {
    let timer = Timer::builder().shards(1).executor(Inline).build().expect("built");
    let timeout = timer.schedule(HOUR, || unreachable!("it is cancelled")).expect("accepted");
    eventually("it is linked", || timer.stats().shards[0].linked == 1);
    assert!(timeout.cancel_owned());
    assert!(timer.shutdown_with(Shutdown::Drain(HOUR)).expect("the first").is_empty());
}

#[test]
fn a_cancel_that_owns_its_handle_says_whether_it_was_in_time() {
    let (timer, mut driver, clock) = driven();
    let ran = Counter::default();
    let timeouts: Vec<_> = (0..MANY).map(|_| timer.schedule(MS, ran.task()).expect("accepted")).collect();
    clock.advance(MS);
    assert_eq!(driver.turn(), MANY);
    assert!(timeouts.into_iter().all(|timeout| !timeout.cancel_owned()));
    assert_eq!((ran.get(), timer.stats().cancelled), (MANY, 0));
}

#[test]
fn a_place_is_free_when_a_cancel_that_owns_its_handle_has_returned() {
    for cancel in WAYS {
        let (timer, _driver, _clock) = driven_by(Timer::builder().max_pending_timeouts(1));
        for _ in 0..MANY {
            assert!(cancel(timer.schedule(HOUR, || ()).expect("there is room")));
        }
    }
}

#[test]
fn a_periodic_timeout_is_cancelled_with_its_handle() {
    let (timer, mut driver, clock) = driven();
    let witness = Arc::new(());
    for is_linked in [false, true] {
        let other = Arc::clone(&witness);
        let periodic = timer.schedule_at_fixed_rate(MS, MS, move || _ = &other).expect("accepted");
        if is_linked {
            driver.turn();
        }
        assert!(periodic.cancel_owned());
        assert_eq!((timer.pending(), Arc::strong_count(&witness)), (0, 1));
    }
    clock.advance(HOUR);
    assert_eq!(driver.turn(), 0);
}

#[test]
fn a_destructor_may_panic_or_schedule_in_a_cancel_that_owns_its_handle() {
    struct Reschedules(Timer);
    impl Drop for Reschedules {
        fn drop(&mut self) {
            self.0.schedule_detached(HOUR, || ()).expect("accepted");
        }
    }
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let (timer, mut driver, _clock) = driven();
    for is_linked in [false, true] {
        let (again, panics) = (Reschedules(timer.clone()), Panics);
        let again = timer.schedule(MS, move || drop(again)).expect("accepted");
        let panics = timer.schedule(MS, move || drop(panics)).expect("accepted");
        if is_linked {
            driver.turn();
        }
        assert!(again.cancel_owned());
        assert!(catch_unwind(AssertUnwindSafe(|| panics.cancel_owned())).is_err());
    }
    assert_eq!((timer.pending(), timer.stats().cancelled), (2, 4));
}

#[test]
fn a_sleep_that_is_dropped_forgets_its_waker() {
    struct Woken(AtomicUsize);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for is_linked in [false, true] {
        let (timer, mut driver, clock) = driven();
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        for _ in 0..MANY {
            let mut sleep = pin!(timer.sleep(Duration::from_millis(5)));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            if is_linked {
                driver.turn();
            }
        }
        assert_eq!((timer.pending(), Arc::strong_count(&woken)), (0, 2));
        clock.advance(HOUR);
        driver.turn();
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    }
}
