//! The promises of a local engine about user code that does what it should not.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::{Duration, Instant};

use tourbillon::{Clock, ManualClock};
use tourbillon_local::{LocalDriver, LocalSleep, LocalTimeout, LocalTimer};

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

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn an_engine_whose_clock_goes_back_keeps_to_the_time_that_it_has_seen() {
    let clock = SetByHand::new();
    let (timer, mut driver) = LocalTimer::builder().clock(clock.clone()).build().expect("an engine");
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

/// A waker whose next clone does something.
mod waker {
    use super::*;

    thread_local! {
        static NEXT_CLONE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    pub(super) fn at_next_clone(work: impl FnOnce() + 'static) {
        NEXT_CLONE.set(Some(Box::new(work)));
    }

    unsafe fn clone(count: *const ()) -> RawWaker {
        if let Some(work) = NEXT_CLONE.take() {
            work();
        }
        // SAFETY: it is an `Arc` of `new`, which the waker that is cloned holds.
        unsafe { Arc::increment_strong_count(count.cast::<AtomicU64>()) };
        RawWaker::new(count, &TABLE)
    }

    unsafe fn wake_by_ref(count: *const ()) {
        // SAFETY: as in `clone`.
        unsafe { &*count.cast::<AtomicU64>() }.fetch_add(1, Ordering::Relaxed);
    }

    unsafe fn wake(count: *const ()) {
        // SAFETY: as in `clone`. The waker ends here.
        unsafe { Arc::from_raw(count.cast::<AtomicU64>()) }.fetch_add(1, Ordering::Relaxed);
    }

    unsafe fn discard(count: *const ()) {
        // SAFETY: as in `clone`. The waker ends here.
        drop(unsafe { Arc::from_raw(count.cast::<AtomicU64>()) });
    }

    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, discard);

    /// Returns a waker, and how often it was called.
    pub(super) fn new() -> (Waker, Arc<AtomicU64>) {
        let count = Arc::new(AtomicU64::new(0));
        let data = Arc::into_raw(Arc::clone(&count)).cast();
        // SAFETY: the functions of the table keep the count of the `Arc` right.
        (unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) }, count)
    }
}

#[test]
fn a_sleep_that_ends_while_it_clones_a_waker_is_ready_or_wakes_that() {
    for drops in [false, true] {
        let clock = ManualClock::new();
        let (timer, driver) = LocalTimer::builder().clock(clock.clone()).build().expect("an engine");
        let mut sleep = timer.sleep(SECOND);
        assert!(poll(&mut sleep, Waker::noop()).is_pending());
        let driver = Rc::new(RefCell::new(Some(driver)));
        let (of_clone, (last, woken)) = (Rc::clone(&driver), waker::new());
        waker::at_next_clone(move || {
            clock.advance(SECOND);
            let mut driver = of_clone.take().expect("until now");
            if !drops {
                assert_eq!(driver.turn(), 1);
                of_clone.replace(Some(driver));
            }
        });
        assert!(poll(&mut sleep, &last).is_ready() || woken.load(Ordering::Relaxed) > 0, "it sleeps for ever");
    }
}

#[test]
fn a_panic_in_the_destructor_of_a_callback_reaches_no_caller() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let callback = Bomb;
    let (timer, driver) = LocalTimer::builder().build().expect("an engine");
    let driver = Rc::new(driver);
    let of_callback = Rc::clone(&driver);
    driver.on_earlier(move || {
        let _ = &callback;
        // Drops the last reference to this callback when it returns.
        of_callback.on_earlier(|| ());
    });
    assert_eq!(driver.next_wakeup(), None);
    let timeout = timer.schedule(SECOND, || ()).expect("room");
    assert!(timeout.is_pending());
    let second = Bomb;
    driver.on_earlier(move || {
        let _ = &second;
    });
    driver.on_earlier(|| ());
    assert_eq!(timer.panicked(), 2);
    drop((driver, timer, timeout));
}

#[test]
fn an_engine_may_be_used_after_a_panic() {
    fn is_safe<T: UnwindSafe + RefUnwindSafe>() {}
    is_safe::<LocalTimer>();
    is_safe::<LocalTimeout>();
    is_safe::<LocalSleep>();
    is_safe::<LocalDriver>();
}
