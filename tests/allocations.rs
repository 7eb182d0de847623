//! The heap allocations of a timeout: none, once an engine has as many entries as it needs. A
//! counting allocator measures the whole process, so this binary has one test, which does one thing
//! after the other.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tourbillon::{Driver, Executor, Inline, ManualClock, ThreadPool, Timeout, Timer};

use common::{HOUR, MS, eventually, on_workers, settle};

struct Counting;

static BY_ALL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static BY_ME: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    BY_ALL.fetch_add(1, Ordering::Relaxed);
    BY_ME.set(BY_ME.get() + 1);
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds `alloc`'s contract for this layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds `alloc_zeroed`'s contract for this layout.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller owns this block of the system's allocator, and gives its layout.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller gives up this block of the system's allocator, and gives its layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the allocations of all threads, and of this one, while `work` runs.
fn allocations_of(work: impl FnOnce()) -> (u64, u64) {
    let before = (BY_ALL.load(Ordering::Relaxed), BY_ME.get());
    work();
    (BY_ALL.load(Ordering::Relaxed) - before.0, BY_ME.get() - before.1)
}

const STEPS: u64 = 100_000;

/// Queues between threads allocate a block for some thousand timeouts. Nothing allocates for each.
const A_FEW: u64 = STEPS / 500;

/// Runs `step` over and over: first to warm up, and then without allocating.
fn assert_allocates_nothing(what: &str, mut step: impl FnMut(u64)) {
    (0..STEPS).for_each(&mut step);
    let (by_all, by_me) = allocations_of(|| (0..STEPS).for_each(&mut step));
    assert_eq!(by_me, 0, "{what}, on the calling thread");
    assert!(by_all <= A_FEW, "{what}: {by_all} allocations");
}

fn cancelled(timeout: Timeout) {
    assert!(timeout.cancel());
}

fn schedule_and_cancel(timer: &Timer) {
    assert_allocates_nothing("no captures", |_| cancelled(timer.schedule(HOUR, || ()).expect("accepted")));
    let (conn, since, id) = (Arc::new(()), std::time::Instant::now(), 7_u64);
    let usual = || {
        let conn = Arc::clone(&conn);
        let task = move || drop((conn, since, id));
        assert_eq!(size_of_val(&task), 32);
        cancelled(timer.schedule(HOUR, task).expect("accepted"));
    };
    assert_allocates_nothing("an Arc, an Instant and a number", |_| usual());
    let captures = [1_u64, 2, 3, 4];
    let task = move || assert_eq!(captures.iter().sum::<u64>(), 10);
    assert_allocates_nothing("32 bytes of captures", |_| cancelled(timer.schedule(HOUR, task).expect("accepted")));
    let mut ring: Vec<_> = (0..1_000).map(|_| timer.schedule(HOUR, task).expect("accepted")).collect();
    assert_allocates_nothing("a ring", |n| {
        let next = timer.schedule(HOUR, task).expect("accepted");
        let slot = usize::try_from(n % 1_000).expect("small");
        cancelled(std::mem::replace(&mut ring[slot], next));
    });
    let busy = timer.schedule(HOUR, task).expect("accepted");
    let mut delay = HOUR;
    assert_allocates_nothing("reset to later", |_| {
        delay += MS;
        assert!(busy.reset(delay));
    });
    assert_allocates_nothing("a guard", |_| drop(timer.schedule(HOUR, task).expect("accepted").cancel_on_drop()));
    let start = std::time::Instant::now();
    assert_allocates_nothing("queries", |_| {
        assert!(busy.is_pending() && !busy.is_expired() && !busy.is_cancelled() && busy.deadline() > start);
        assert!(timer.pending() > 0);
    });
    ring.into_iter().for_each(cancelled);
    cancelled(busy);
}

fn schedule_and_cancel_driven() {
    let (timer, mut driver, _clock) = common::driven();
    assert_allocates_nothing("with a driver", |n| {
        cancelled(timer.schedule(HOUR, || ()).expect("accepted"));
        if n % 1_000 == 999 {
            driver.turn();
        }
    });
}

fn refused_by_a_closed_engine() {
    let (timer, _driver, _clock) = common::driven();
    cancelled(timer.schedule(HOUR, || ()).expect("accepted"));
    drop(timer.shutdown());
    let captures = [7_u64; 64];
    assert_allocates_nothing("refused, with captures that would be boxed", |_| {
        let refused = timer.schedule(HOUR, move || assert_eq!(captures.len(), 64));
        assert!(refused.is_err_and(|refused| refused.is_shutdown()));
    });
}

/// The waker lies in the entry.
fn sleeps_and_timeouts() {
    let (timer, mut driver, clock) = common::driven();
    let mut context = Context::from_waker(Waker::noop());
    assert_allocates_nothing("a sleep that is dropped", |_| {
        let mut sleep = timer.sleep(HOUR);
        assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
    });
    assert_allocates_nothing("a timeout round a ready future", |_| {
        let limited = pin!(timer.timeout(HOUR, std::future::ready(7)));
        assert_eq!(limited.poll(&mut context), Poll::Ready(Ok(7)));
    });
    let mut interval = timer.interval(MS);
    assert_allocates_nothing("a tick of an interval", |_| {
        while interval.poll_tick(&mut context).is_ready() {}
        clock.advance(MS);
        driver.turn();
    });
}

fn large_captures_are_boxed(timer: &Timer) {
    let large = [7_u8; 33];
    let task = move || assert_eq!(large[32], 7);
    let (_, by_me) = allocations_of(|| (0..100).for_each(|_| cancelled(timer.schedule(HOUR, task).expect("accepted"))));
    assert_eq!(by_me, 100, "one for each");
}

/// Bursts expire on a manual clock.
fn expiry(executor: impl Executor, what: &str) {
    let (timer, clock) = on_workers(Timer::builder().executor(executor));
    static RAN: AtomicUsize = AtomicUsize::new(0);
    let burst = || {
        for _ in 0..10_000 {
            let task = || {
                RAN.fetch_add(1, Ordering::Relaxed);
            };
            timer.schedule_detached(MS, task).expect("accepted");
        }
        clock.advance(MS);
    };
    (0..10).for_each(|_| burst());
    let before = RAN.load(Ordering::Relaxed);
    let (by_all, _) = allocations_of(|| (0..10).for_each(|_| burst()));
    assert_eq!(RAN.load(Ordering::Relaxed) - before, 100_000);
    assert!(by_all <= A_FEW, "{what}: {by_all} allocations for 100,000 timeouts");
}

fn expiry_in_a_turn() {
    let (timer, mut driver, clock): (Timer, Driver, ManualClock) = common::driven();
    assert_allocates_nothing("expiry in a turn", |n| {
        timer.schedule_detached(Duration::from_millis(n % 7), || ()).expect("accepted");
        if n % 1_000 == 999 {
            clock.advance(MS);
            settle(&mut driver, &clock);
        }
    });
}

/// Periodic timeouts allocate when they are scheduled, and for none of their runs.
fn runs_of_periodic_timeouts(executor: impl Executor, what: &str) {
    let (timer, clock) = on_workers(Timer::builder().executor(executor));
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let count = || _ = RUNS.fetch_add(1, Ordering::Relaxed);
    let answer = move || {
        count();
        Some(MS)
    };
    for _ in 0..100 {
        drop(timer.schedule_at_fixed_rate(MS, MS, count).expect("accepted"));
        drop(timer.schedule_with_fixed_delay(MS, MS, count).expect("accepted"));
        drop(timer.schedule_repeating(MS, answer).expect("accepted"));
    }
    let step = || clock.advance(MS);
    (0..100).for_each(|_| step());
    let before = RUNS.load(Ordering::Relaxed);
    let (by_all, by_me) = allocations_of(|| (0..300).for_each(|_| step()));
    assert_eq!(RUNS.load(Ordering::Relaxed) - before, 90_000);
    // For each step the clock takes a list of its listeners: two listeners in two rounds.
    assert!(by_all - by_me <= A_FEW, "{what}: {by_all} allocations for 90,000 runs, {by_me} of them by the clock");
}

fn runs_of_periodic_timeouts_in_a_turn() {
    let (timer, mut driver, clock) = common::driven();
    let periodic = timer.schedule_at_fixed_rate(MS, MS, || ()).expect("accepted");
    let mut later = HOUR;
    let other = timer.schedule_at_fixed_rate(HOUR, HOUR, || ()).expect("accepted");
    assert_allocates_nothing("a run of a periodic timeout in a turn", |_| {
        later += MS;
        assert!(other.reset(later));
        clock.advance(MS);
        settle(&mut driver, &clock);
    });
    assert!(periodic.cancel() && other.cancel());
}

fn reserved_memory_is_not_allocated_later() {
    let (timer, mut driver, _clock) = common::driven_by(Timer::builder().capacity(200_000));
    timer.schedule_detached(HOUR, || ()).expect("a thread's first use allocates a little state");
    let (by_all, _) = allocations_of(|| {
        for _ in 0..199_000 {
            timer.schedule_detached(HOUR, || ()).expect("accepted");
        }
        driver.turn();
        driver.turn();
    });
    assert_eq!(by_all, 0);
}

#[test]
fn in_the_steady_state_timeouts_do_not_allocate() {
    let reserved = Timer::builder().executor(Inline).capacity(100_000);
    let timer = reserved.build().expect("the options make sense");
    let first = timer.schedule(Duration::ZERO, || ()).expect("accepted");
    eventually("the worker runs", || first.is_expired());
    schedule_and_cancel(&timer);
    thread::scope(|scope| {
        scope.spawn(|| schedule_and_cancel(&timer));
    });
    large_captures_are_boxed(&timer);
    drop(timer);
    schedule_and_cancel_driven();
    refused_by_a_closed_engine();
    sleeps_and_timeouts();
    expiry(Inline, "inline");
    expiry(ThreadPool::new(2), "on a pool");
    expiry_in_a_turn();
    runs_of_periodic_timeouts(Inline, "periodic timeouts, inline");
    runs_of_periodic_timeouts(ThreadPool::new(2), "periodic timeouts, on a pool");
    runs_of_periodic_timeouts_in_a_turn();
    reserved_memory_is_not_allocated_later();
}
