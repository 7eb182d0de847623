//! What the handles, errors and futures of a local engine answer, and that they leave nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tourbillon::ManualClock;
use tourbillon_local::{LocalDriver, LocalTimer, Refusal};

const SECOND: Duration = Duration::from_secs(1);

/// Counts the bytes that each thread has allocated.
struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: it is the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller keeps to the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn engine() -> (LocalTimer, LocalDriver, ManualClock) {
    let clock = ManualClock::new();
    let (timer, driver) = LocalTimer::builder().clock(clock.clone()).build().expect("an engine");
    (timer, driver, clock)
}

fn poll(future: Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_handle_or_a_sleep_that_is_dropped_gives_its_entry_back() {
    let (timer, mut driver, clock) = engine();
    let mut round = || {
        for end in 0..4 {
            let timeout = timer.schedule(SECOND, || ()).expect("room");
            let mut sleep = timer.sleep(SECOND);
            assert!(poll(Pin::new(&mut sleep)).is_pending());
            match end {
                0 => assert!(timeout.cancel()),
                1 => {
                    clock.advance(SECOND);
                    driver.turn();
                }
                2 => drop((timeout, sleep)),
                // Both go when they have been put off.
                _ => sleep.reset(2 * SECOND),
            }
        }
        clock.advance(10 * SECOND);
        driver.turn();
    };
    (0..10).for_each(|_| round());
    let before = BYTES.get();
    (0..1_000).for_each(|_| round());
    assert!(BYTES.get() - before < 10_000, "{} bytes more for 8,000 timeouts", BYTES.get() - before);
}

#[test]
fn a_handle_says_how_far_its_timeout_is() {
    let (timer, mut driver, clock) = engine();
    let timeout = timer.schedule(SECOND, || ()).expect("room");
    let cancelled = timer.schedule(SECOND, || ()).expect("room");
    assert!(timeout.is_pending() && !timeout.is_expired() && !timeout.is_cancelled());
    assert!(timeout.reset_at(timer.now() + 2 * SECOND) && cancelled.cancel());
    clock.advance(SECOND);
    assert_eq!(driver.turn(), 0);
    assert!(cancelled.is_cancelled() && !cancelled.is_expired() && !cancelled.reset_at(timer.now()));
    clock.advance(SECOND);
    assert_eq!(driver.turn(), 1);
    assert!(timeout.is_expired() && !timeout.is_cancelled() && !timeout.reset_at(timer.now() + SECOND));
}

#[test]
fn a_sleep_says_whether_it_is_over() {
    let (timer, mut driver, clock) = engine();
    let mut sleep = timer.sleep(SECOND);
    assert!(!sleep.is_elapsed());
    assert!(poll(Pin::new(&mut sleep)).is_pending() && !sleep.is_elapsed());
    clock.advance(SECOND);
    driver.turn();
    assert!(sleep.is_elapsed());
    assert!(poll(Pin::new(&mut sleep)).is_ready() && sleep.is_elapsed() && !sleep.ended_by_shutdown());
}

#[test]
fn a_limit_whose_time_is_up_was_not_ended_by_its_driver() {
    let (timer, mut driver, clock) = engine();
    let mut limit = pin!(timer.timeout(SECOND, pending::<()>()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(limit.as_mut().poll(&mut context).is_pending());
    clock.advance(SECOND);
    driver.turn();
    let Poll::Ready(Err(elapsed)) = limit.poll(&mut context) else { panic!("the time is up") };
    assert!(!elapsed.is_shutdown());
}

#[test]
fn a_refused_task_comes_back_with_the_reason() {
    let (timer, driver, _) = engine();
    drop(driver);
    let ran = Rc::new(Cell::new(false));
    let runs = Rc::clone(&ran);
    let refused = timer.schedule(SECOND, move || runs.set(true)).map(drop).expect_err("the driver is gone");
    assert!(refused.kind() == Refusal::Shutdown && refused.is_shutdown() && !refused.is_full());
    assert_eq!(refused.to_string(), Refusal::Shutdown.to_string());
    refused.into_inner()();
    assert!(ran.get());
    let without = timer.schedule_detached(SECOND, || ()).expect_err("the driver is gone").without_task();
    assert!(without.kind() == Refusal::Shutdown && without.is_shutdown());
}

#[test]
fn the_largest_wheel_is_allowed() {
    assert!(LocalTimer::builder().ticks_per_wheel(1 << 20).levels(1).build().is_ok());
}
