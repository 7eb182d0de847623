//! The system refuses the memory for more timeouts: the caller gets the task back, and all else
//! goes on.
//!
//! The binary holds only this, as it has an allocator of its own.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use tourbillon::{BuildError, Builder, Driver, ManualClock, Refusal, Shutdown, ShutdownError, Timeout, Timer};

use common::{Counter, MS};

/// Refuses the calling thread zeroed memory of more than this number of bytes, if a test says so.
/// The engine asks in that way only for arrays of timeouts and for a wheel's cells, and the
/// smallest of these is a page. It refuses any memory of more than 16 KiB, such as the table of a
/// wheel's slots, with the same bound. Or returns zeroed memory at a tagged address, as some
/// allocators put a tag into the highest bits.
struct Miser;

thread_local! {
    static AT_MOST: Cell<usize> = const { Cell::new(usize::MAX) };
    static TAGS: Cell<bool> = const { Cell::new(false) };
    /// Refuses any memory at all.
    static REFUSES_ALL: Cell<bool> = const { Cell::new(false) };
}

const TAG: usize = 0xB4 << 56;

const PAGE: usize = 4096;

// SAFETY: every call goes to the system's allocator, or is refused, which is allowed at any time. A
// tag that `alloc_zeroed` adds to an address is taken off in `dealloc`.
unsafe impl GlobalAlloc for Miser {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let is_a_wheels = layout.size() >= 16 << 10 && layout.size() > AT_MOST.get();
        if is_a_wheels || REFUSES_ALL.get() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller upholds `alloc`'s contract for this layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > AT_MOST.get() || REFUSES_ALL.get() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller upholds `alloc_zeroed`'s contract for this layout.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if TAGS.get() && layout.size() >= PAGE { memory.map_addr(|at| at | TAG) } else { memory }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller gives up this block, whose address without the tag is the system
        // allocator's.
        unsafe { System.dealloc(at.map_addr(|at| at & !TAG), layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Miser = Miser;

fn with_at_most<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    AT_MOST.set(bytes);
    let result = work();
    AT_MOST.set(usize::MAX);
    result
}

fn without_memory<R>(work: impl FnOnce() -> R) -> R {
    with_at_most(PAGE - 1, work)
}

/// Runs `work` without any memory. An allocation that can't fail ends the process.
fn without_any_memory<R>(work: impl FnOnce() -> R) -> R {
    REFUSES_ALL.set(true);
    let result = work();
    REFUSES_ALL.set(false);
    result
}

const CAPACITY: usize = 100;

fn engine(how: impl FnOnce(Builder) -> Builder) -> (Timer, Driver, ManualClock) {
    let clock = ManualClock::new();
    let (timer, driver) =
        how(Timer::builder().clock(clock.clone()).capacity(CAPACITY)).build_driven().expect("an engine");
    (timer, driver, clock)
}

#[test]
fn reserved_timeouts_can_be_scheduled_and_beyond_them_the_task_comes_back() {
    let (timer, mut driver, clock) = engine(|builder| builder);
    let ran = Counter::default();
    let handles: Vec<_> =
        without_memory(|| (0..CAPACITY).map(|_| timer.schedule(5 * MS, ran.task()).expect("reserved")).collect());
    let refused = without_memory(|| timer.schedule(5 * MS, ran.task())).expect_err("no memory");
    assert!(refused.kind() == Refusal::OutOfMemory && !refused.is_full() && !refused.is_shutdown());
    refused.into_inner()();
    assert_eq!(ran.get(), 1, "the closure came back whole");
    assert_eq!((timer.pending(), timer.stats().rejected), (CAPACITY, 1));

    // Accepted timeouts go on, with their resets and cancels.
    let mut handles = handles.into_iter();
    assert!(without_memory(|| handles.next().is_some_and(|timeout| timeout.reset(2 * MS))));
    let cancelled = without_memory(|| handles.by_ref().take(10).filter(|timeout| timeout.cancel()).count());
    assert_eq!(cancelled, 10);
    driver.turn();
    let again = without_memory(|| (0..10).filter(|_| timer.schedule_detached(5 * MS, ran.task()).is_ok()).count());
    assert_eq!(again, 10, "what was cancelled has made room");
    clock.advance(5 * MS);
    driver.turn();
    assert_eq!((ran.get(), timer.pending()), (1 + CAPACITY, 0));

    let more: Vec<_> =
        (0..3 * CAPACITY).map(|_| timer.schedule(5 * MS, ran.task()).expect("there is memory again")).collect();
    clock.advance(5 * MS);
    driver.turn();
    assert_eq!((ran.get(), more.len()), (1 + 4 * CAPACITY, 3 * CAPACITY));
}

#[test]
fn an_engine_that_is_shut_down_says_so_and_asks_for_no_memory() {
    let (timer, _driver, _clock) = engine(|builder| builder);
    let held: Vec<_> = (0..CAPACITY).map(|_| timer.schedule(MS, || ()).expect("reserved")).collect();
    assert_eq!(timer.shutdown().expect("the first").len(), CAPACITY);
    let refused = without_memory(|| timer.schedule(MS, || ())).expect_err("it is shut down");
    assert!(refused.is_shutdown());
    let memory = timer.stats().capacity;
    assert!(timer.schedule(MS, || ()).expect_err("it is shut down").is_shutdown());
    assert_eq!(timer.stats().capacity, memory);
    drop(held);
}

#[test]
fn where_memory_is_short_less_is_taken_at_a_time() {
    // The next growth would be of twice the capacity.
    let (timer, mut driver, clock) = engine(|builder| builder.capacity(50 * CAPACITY));
    let accepted =
        with_at_most(2 * PAGE, || (0..60 * CAPACITY).filter(|_| timer.schedule_detached(MS, || ()).is_ok()).count());
    assert_eq!(accepted, 60 * CAPACITY);
    clock.advance(MS);
    driver.turn();
    assert_eq!((timer.pending(), timer.stats().rejected), (0, 0));
}

#[test]
fn many_at_once_are_scheduled_all_or_none() {
    let (timer, mut driver, clock) = engine(|builder| builder.max_pending_timeouts(2 * CAPACITY));
    for rounds in 0..3 {
        let tasks: Vec<_> = (0..CAPACITY + 1).map(|number| move || assert!(number <= CAPACITY)).collect();
        let refused = without_memory(|| timer.schedule_many(MS, tasks)).expect_err("one too many");
        assert_eq!(refused.kind(), Refusal::OutOfMemory);
        let tasks = refused.into_inner();
        assert_eq!(tasks.len(), CAPACITY + 1);
        tasks.into_iter().for_each(|task| task());
        assert_eq!((timer.pending(), timer.stats().rejected), (0, (rounds + 1) * (CAPACITY as u64 + 1)));
    }
    let counts = Arc::new(AtomicUsize::new(0));
    let tasks = (0..CAPACITY)
        .map(|_| Arc::clone(&counts))
        .map(|counts| move || assert!(counts.fetch_add(1, Ordering::Relaxed) < CAPACITY));
    let timeouts =
        without_memory(|| timer.schedule_many(MS, tasks)).expect("reserved: the refused have given all of it back");
    clock.advance(MS);
    driver.turn();
    assert_eq!((counts.load(Ordering::Relaxed), timeouts.len()), (CAPACITY, CAPACITY));
}

#[test]
fn every_way_to_schedule_gives_the_task_back() {
    let (timer, _driver, _clock) = engine(|builder| builder.max_pending_timeouts(CAPACITY + 1));
    let reserved = without_memory(|| timer.schedule_many(MS, vec![|| (); CAPACITY])).expect("reserved");
    let witness = Arc::new(());
    without_memory(|| {
        let task = || {
            let witness = Arc::clone(&witness);
            move || assert!(Arc::strong_count(&witness) > 1)
        };
        let again = || {
            let task = task();
            move || {
                task();
                None
            }
        };
        // More often than there is room within the limit: a refusal must not use that up.
        for _ in 0..3 {
            let refusals = [
                timer.schedule(MS, task()).expect_err("none").kind(),
                timer.schedule_at(std::time::Instant::now(), task()).expect_err("none").kind(),
                timer.schedule_detached(MS, task()).expect_err("none").kind(),
                timer.schedule_many(MS, [task()]).expect_err("none").kind(),
                timer.schedule_at_fixed_rate(MS, MS, task()).expect_err("none").kind(),
                timer.schedule_with_fixed_delay(MS, MS, task()).expect_err("none").kind(),
                timer.schedule_repeating(MS, again()).expect_err("none").kind(),
                timer.shard_for(&7).schedule(MS, task()).expect_err("none").kind(),
            ];
            assert_eq!(refusals, [Refusal::OutOfMemory; 8]);
        }
    });
    assert_eq!(Arc::strong_count(&witness), 1, "no closure was kept");
    assert_eq!((timer.pending(), reserved.len()), (CAPACITY, CAPACITY));
}

#[test]
fn without_memory_for_its_wheels_an_engine_is_not_made_and_the_error_says_so() {
    let large = || Timer::builder().ticks_per_wheel(1 << 20);
    for shards in [1, 3] {
        let refused = with_at_most(1 << 20, || large().shards(shards).build()).expect_err("no memory");
        assert_eq!(refused, BuildError::Wheels { shards, levels: 2, ticks_per_wheel: 1 << 20 });
        assert!(refused.to_string().contains("1048576 ticks_per_wheel"), "{refused}");
        let refused = with_at_most(1 << 20, || large().shards(shards).build_driven()).expect_err("no memory");
        assert!(matches!(refused, BuildError::Wheels { .. }));
    }
    assert!(large().build().is_ok());
}

#[test]
fn memory_at_addresses_of_more_than_48_bits_is_as_good_as_none() {
    let (timer, mut driver, clock) = engine(|builder| builder);
    TAGS.set(true);
    let refused = Timer::builder().capacity(1_000).build_driven().map(|_| ());
    let held: Vec<_> = (0..CAPACITY).map(|_| timer.schedule(MS, || ()).expect("reserved")).collect();
    let beyond = timer.schedule(MS, || ()).map_err(|error| error.kind());
    TAGS.set(false);
    assert_eq!(refused, Err(BuildError::Capacity { timeouts: 1_000 }));
    assert_eq!(beyond.expect_err("no memory that could be used"), Refusal::OutOfMemory);
    let more = timer.schedule(MS, || ()).expect("there is memory again");
    clock.advance(MS);
    driver.turn();
    assert!(held.iter().chain([&more]).all(|timeout| timeout.is_expired()));
}

#[test]
fn a_reset_to_earlier_needs_no_memory() {
    // With free entries, and without.
    for spare in [CAPACITY, 0] {
        let (timer, mut driver, clock) = engine(|builder| builder.capacity(CAPACITY + spare));
        let far = Duration::from_secs(3600);
        let timeouts: Vec<_> = (0..CAPACITY).map(|_| timer.schedule(far, || ()).expect("reserved")).collect();
        driver.turn();
        let capacity = timer.stats().capacity;
        without_any_memory(|| {
            for (delay, timeout) in (1..).map(|n| n * MS).zip(&timeouts) {
                assert!(timeout.reset(delay));
            }
        });
        assert_eq!(timer.stats().capacity, capacity);
        for (expired, timeout) in timeouts.iter().enumerate() {
            assert!(!timeout.is_expired());
            clock.advance(MS);
            while driver.next_wakeup().is_some_and(|at| at <= clock.now()) {
                driver.turn();
            }
            assert!(timeout.is_expired(), "{expired}");
        }
    }
}

#[test]
fn the_cells_of_reserved_timeouts_are_reserved_too() {
    const MANY: usize = 10_000;
    let (timer, mut driver, _clock) = engine(|builder| builder.capacity(MANY));
    for _ in 0..MANY {
        timer.schedule_detached(5 * MS, || ()).expect("reserved");
    }
    without_any_memory(|| driver.turn());
    assert_eq!(timer.stats().shards[0].linked, MANY as u64);
}

/// An engine, and a timeout in each of these milliseconds, scheduled in this order. Each has a slot
/// of its own. Cells are reserved for timeouts as they usually lie, so there are too few.
fn more_than_cells(order: impl Iterator<Item = u32>) -> (Timer, Driver, ManualClock, Counter, Vec<Timeout>) {
    let (timer, driver, clock) = engine(|builder| builder.capacity(1_000));
    let ran = Counter::default();
    let timeouts = order.map(|n| timer.schedule(n * MS, ran.task()).expect("reserved")).collect();
    (timer, driver, clock, ran, timeouts)
}

/// Turns the driver without memory, until nothing is due.
fn turn_without_memory(driver: &mut Driver) {
    without_any_memory(|| while driver.turn() > 0 {});
}

/// Turns the driver without memory, so that some of the timeouts find no cell.
fn fill_the_cells(timer: &Timer, driver: &mut Driver) {
    turn_without_memory(driver);
    assert!(timer.stats().shards[0].linked < timer.pending() as u64, "there was memory enough: the test tests nothing");
}

#[test]
fn the_spare_cells_are_for_what_is_due_though_what_is_not_came_first() {
    let (timer, mut driver, clock, ran, _) = more_than_cells((1..=600).rev());
    fill_the_cells(&timer, &mut driver);
    for n in 1..=600 {
        clock.advance(MS);
        turn_without_memory(&mut driver);
        assert_eq!(ran.get(), n, "at {n} ms");
    }
}

#[test]
fn more_that_found_no_cell_may_be_due_at_once_than_a_block_holds() {
    let (timer, mut driver, clock, ran, _) = more_than_cells(1..=600);
    fill_the_cells(&timer, &mut driver);
    clock.advance(600 * MS);
    turn_without_memory(&mut driver);
    assert_eq!((ran.get(), timer.pending()), (600, 0));
}

#[test]
fn timeouts_that_find_no_cell_in_the_wheel_are_neither_late_nor_lost() {
    let (timer, mut driver, clock, ran, timeouts) = more_than_cells(1..=600);
    fill_the_cells(&timer, &mut driver);
    assert!(timeouts[599].cancel() && timeouts[598].reset(5 * MS) && timeouts[4].reset(599 * MS));
    // One that is in its slot, too.
    assert!(timeouts[1].cancel());
    let mut expected = 0;
    for n in 1..=599 {
        clock.advance(MS);
        turn_without_memory(&mut driver);
        expected += match n {
            2 => 0,
            // The fifth and the last but one have changed places.
            _ => 1,
        };
        assert_eq!(ran.get(), expected, "at {n} ms");
    }
    assert_eq!((timer.pending(), driver.next_wakeup()), (0, None));
}

#[test]
fn a_driven_engine_ends_without_memory_for_cells() {
    for (how, fires) in [(Shutdown::Cancel, 0), (Shutdown::FireNow, 600), (Shutdown::Drain(300 * MS), 0)] {
        let (timer, mut driver, _clock, ran, _) = more_than_cells(1..=600);
        without_any_memory(|| driver.turn());
        let answer = without_any_memory(|| timer.shutdown_with(how).err());
        assert_eq!(answer, (fires == 0).then_some(ShutdownError::OutOfMemory), "{how:?}");
        assert_eq!(ran.get(), fires, "{how:?}");
        assert_eq!(timer.shutdown().map_or(0, |unfired| unfired.len()), 600 - fires, "{how:?}");
    }
}

#[test]
fn a_drain_without_memory_for_cells_runs_all_that_is_due() {
    let (timer, _driver, clock, ran, _) = more_than_cells(1..=600);
    clock.advance(600 * MS);
    let answer = without_any_memory(|| timer.shutdown_with(Shutdown::Drain(MS)).err());
    assert_eq!((answer, ran.get()), (None, 600));
}

#[test]
fn a_driven_engine_ends_in_every_way_without_memory() {
    for (how, fires) in [(Shutdown::Cancel, 0), (Shutdown::FireNow, 300), (Shutdown::Drain(MS), 200)] {
        let (timer, mut driver, clock) = engine(|builder| builder.shards(2).capacity(1_000));
        let ran = Counter::default();
        let schedule = |delay| timer.schedule(delay, ran.task()).expect("reserved");
        let mut sleep = timer.sleep(100 * MS);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
        driver.turn();
        let timeouts: Vec<_> = (0..300).map(|n| schedule(if n < 200 { MS } else { 100 * MS })).collect();
        clock.advance(MS);
        let answer = without_any_memory(|| timer.shutdown_with(how).err());
        let left = 300 - fires;
        assert_eq!(answer, (left > 0).then_some(ShutdownError::OutOfMemory), "{how:?}");
        assert_eq!(ran.get(), fires, "{how:?}");
        assert_eq!(timer.shutdown().map_or(0, |unfired| unfired.len()), left, "{how:?}");
        assert!(Pin::new(&mut sleep).poll(&mut context).is_ready() && sleep.ended_by_shutdown());
        drop((timeouts, driver));
    }
}

#[test]
fn fire_now_runs_in_the_order_of_deadlines_when_there_is_memory_again() {
    let (timer, mut driver, _clock) = engine(|builder| builder.transfer_limit(900).capacity(2_000));
    let ran = Arc::new(Mutex::new(Vec::new()));
    for n in 1..=1_200 {
        let ran = Arc::clone(&ran);
        timer.schedule_detached(n * MS, move || ran.lock().expect("no panic").push(n)).expect("reserved");
    }
    // It sets some aside, and does not come to the last.
    without_any_memory(|| driver.turn());
    assert!(timer.shutdown_with(Shutdown::FireNow).expect("the first").is_empty());
    assert!(ran.lock().expect("no panic").iter().copied().eq(1..=1_200));
}

#[test]
fn a_shutdown_without_memory_for_its_answer_gives_it_when_there_is_some() {
    let with_workers = || Timer::builder().capacity(2 * CAPACITY).clock(ManualClock::new()).build().expect("an engine");
    for (timer, driver) in [(with_workers(), None), {
        let (timer, driver, _clock) = engine(|builder| builder.capacity(2 * CAPACITY));
        (timer, Some(driver))
    }] {
        let ran = Counter::default();
        let far = Duration::from_secs(3600);
        let timeouts: Vec<_> = (0..CAPACITY).map(|_| timer.schedule(far, ran.task()).expect("reserved")).collect();
        let begun = without_any_memory(|| timer.shutdown().err());
        assert_eq!(begun, Some(ShutdownError::OutOfMemory));
        assert!(timer.is_shutdown() && timeouts.iter().all(|timeout| timeout.is_cancelled()));
        assert_eq!(without_any_memory(|| timer.shutdown().err()), Some(ShutdownError::OutOfMemory));
        let unfired = timer.shutdown().expect("there is memory again");
        assert_eq!(unfired.len(), CAPACITY);
        unfired.into_iter().for_each(|unfired| unfired.run());
        assert_eq!((ran.get(), timer.shutdown().err()), (CAPACITY, Some(ShutdownError::AlreadyShutdown)));
        drop((timeouts, driver));
    }
}
