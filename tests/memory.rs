//! The memory of cancelled timeouts is bounded, however late their deadlines: schedule and cancel,
//! over and over, leaves memory where it was.

mod common;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Driver, Inline, Timeout, Timer};

use common::{HOUR, MS, alone, assert_counters_reconcile, block, built, eventually, resident_bytes};

const STEPS: usize = if cfg!(debug_assertions) { 1_000_000 } else { 10_000_000 };
const RING: usize = 1_000;
const DELAY: Duration = Duration::from_secs(60);

/// The most that may be left in the end, in timeouts of 64 bytes: 16 MiB. Without a bound it would
/// be [`STEPS`] of them.
const MOST: usize = 262_144;
const MOST_BYTES: usize = MOST * 64 + (8 << 20);

/// Keeps a ring of pending timeouts. Each step schedules one, and ends the oldest by `end`.
fn go_around(timer: &Timer, steps: usize, mut end: impl FnMut(usize, Timeout)) {
    let mut ring = VecDeque::with_capacity(RING + 1);
    for step in 0..steps {
        ring.push_back(timer.schedule(DELAY, move || assert!(step == usize::MAX, "none fires")).expect("accepted"));
        if ring.len() > RING {
            end(step, ring.pop_front().expect("it is not empty"));
        }
    }
    ring.into_iter().for_each(|timeout| assert!(timeout.cancel()));
}

fn count(ended: &Arc<AtomicUsize>) -> impl Fn() + Send + 'static + use<> {
    let ended = Arc::clone(ended);
    move || _ = ended.fetch_add(1, Ordering::Relaxed)
}

fn cancel(_: usize, timeout: Timeout) {
    assert!(timeout.cancel());
}

/// Runs `work` on an engine, and checks that it leaves memory where it was.
fn assert_bounded(work: impl FnOnce(&Timer)) {
    let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
    let warm_up = timer.schedule(Duration::ZERO, || ()).expect("accepted");
    eventually("the worker runs", || warm_up.is_expired());
    let before = resident_bytes();
    work(&timer);
    let grown = resident_bytes().saturating_sub(before);
    let stats = timer.stats();
    assert!(stats.capacity <= MOST, "memory for {} timeouts, of {} steps", stats.capacity, stats.cancelled);
    assert!(grown <= MOST_BYTES, "{} KiB more", grown / 1024);
    assert_eq!(stats.pending, 0);
    assert_counters_reconcile(&stats);
}

#[test]
fn millions_of_schedules_and_cancels_leave_memory_where_it_was() {
    alone(|| {
        assert_bounded(|timer| go_around(timer, STEPS, cancel));
    });
}

#[test]
fn millions_of_schedules_and_cancels_on_two_threads_leave_memory_where_it_was() {
    alone(|| {
        assert_bounded(|timer| {
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| go_around(timer, STEPS / 2, cancel));
                }
            });
        });
    });
}

/// Returns the memory of the process for which large pages were asked for.
fn advised_bytes() -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux");
    let (mut size, mut advised) = (0, 0);
    for line in maps.lines() {
        if let Some(rest) = line.strip_prefix("Size:") {
            size = rest.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024;
        } else if line.strip_prefix("VmFlags:").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hg")) {
            advised += size;
        }
    }
    advised
}

#[test]
fn large_pages_are_asked_for_a_large_capacity_and_not_for_later_growth() {
    alone(|| {
        let has_them = std::path::Path::new("/sys/kernel/mm/transparent_hugepage/enabled").exists();
        let (small, large) = ((1 << 20) / 64, 1_000_000);
        let before = advised_bytes();
        let build = |capacity| Timer::builder().shards(1).capacity(capacity).build().expect("the options make sense");
        let engine = build(small);
        assert_eq!(advised_bytes(), before, "too small to gain by it");
        drop(engine);
        let engine = build(large);
        // The entries, and a block of 128 bytes for ten of them, in chunks of 256 blocks.
        let pages = |bytes: usize| bytes.next_multiple_of(2 << 20);
        let whole = pages(large * 64) + pages((large / 10).next_multiple_of(256) * 128);
        assert_eq!(advised_bytes() - before, if has_them { whole } else { 0 });
        drop(engine);
        assert_eq!(advised_bytes(), before);
        let engine = build(small + 1);
        assert_eq!(advised_bytes() > before, has_them, "beyond 1 MiB");
        drop(engine);
        // An allocator that has freed larger arrays keeps those of this size, without the advice.
        let kept = thread::spawn(move || {
            drop(vec![1_u8; 16 << 20]);
            (0..3).for_each(|_| {
                drop(Timer::builder().capacity((12 << 20) / 64).build().expect("the options make sense"))
            });
            advised_bytes()
        });
        assert_eq!(kept.join().expect("no panic"), before);
        let engine = build(0);
        let timeouts: Vec<_> = (0..large).map(|_| engine.schedule(HOUR, || ()).expect("accepted")).collect();
        assert_eq!(advised_bytes(), before);
        drop(timeouts);
    });
}

#[test]
fn timeouts_that_are_cancelled_on_another_thread_leave_memory_where_it_was() {
    alone(|| {
        assert_bounded(|timer| {
            let (send, receive) = std::sync::mpsc::sync_channel::<Timeout>(RING);
            thread::scope(|scope| {
                scope.spawn(move || receive.into_iter().for_each(|timeout| assert!(timeout.cancel())));
                go_around(timer, STEPS / 4, |_, timeout| send.send(timeout).expect("it is received"));
                drop(send);
            });
        });
    });
}

#[test]
fn timeouts_that_are_reset_before_they_are_cancelled_leave_memory_where_it_was() {
    alone(|| {
        assert_bounded(|timer| {
            go_around(timer, STEPS / 2, |step, timeout| {
                let delay = DELAY * [1, 2, 3][step % 3] / 2;
                assert!(timeout.reset(delay) && timeout.cancel());
            });
        });
    });
}

/// Each of the threads puts an end to the oldest of its live timeouts for each new one, for this
/// time, and on a slow machine until it has ended more than live. Returns the most entries that the
/// engine had memory for.
fn churn(timer: &Timer, producers: usize, live: usize, how_long: Duration, end_one: impl Fn(&Timeout) + Sync) -> usize {
    let end = Instant::now() + how_long;
    thread::scope(|scope| {
        let produce = || {
            let mut ring = VecDeque::with_capacity(live + 1);
            for step in 0_usize.. {
                if step % 64 == 0 && step > 2 * live && Instant::now() > end {
                    break;
                }
                ring.push_back(timer.schedule(1_000 * HOUR, || ()).expect("accepted"));
                if ring.len() > live {
                    end_one(&ring.pop_front().expect("it is not empty"));
                }
            }
        };
        let threads: Vec<_> = (0..producers).map(|_| scope.spawn(produce)).collect();
        let mut most = 0;
        while threads.iter().any(|thread| !thread.is_finished()) {
            most = most.max(timer.stats().capacity);
            thread::sleep(10 * MS);
        }
        most
    })
}

/// Lets threads put an end to a timeout by `end_one` for each new one, as fast as they can, and
/// checks that the engine has memory for no more than what is live and `garbage` entries: of two
/// threads, and of four. A run by hand sets TOURBILLON_GARBAGE_SECONDS: then each row takes so
/// long, and four threads come on top. With TOURBILLON_ALONE set too, `--nocapture` shows the rows.
fn assert_garbage_is_bounded(garbage: [usize; 2], end_one: impl Fn(&Timeout) + Sync) {
    let by_hand = std::env::var("TOURBILLON_GARBAGE_SECONDS").map(|n| n.parse().expect("a number of seconds")).ok();
    let how_long = Duration::from_secs(by_hand.unwrap_or(2));
    let sizes = [(2, 50_000), (4, 100_000)].into_iter().zip(garbage);
    println!("threads x live, expiry limit: most entries of those allowed");
    for ((producers, live), garbage) in sizes.take(if by_hand.is_some() { 2 } else { 1 }) {
        for expiry_limit in [100_000, 100, 10] {
            let timer = built(Timer::builder().executor(Inline).expiry_limit(expiry_limit));
            let most = churn(&timer, producers, live, how_long, &end_one);
            let (stats, allowed) = (timer.stats(), producers * live + garbage);
            println!("{producers} x {live}, {expiry_limit}: {most} of {allowed}");
            assert!(stats.cancelled > 100_000, "only {} were cancelled", stats.cancelled);
            assert!(most <= allowed, "memory for {most}, limit {expiry_limit}: {stats:?}");
        }
    }
}

/// A queue, and as much again in the worker's backlog, and a chunk that has just been begun.
const ONE_QUEUE: usize = 2 * 16_384 + 32_768;

#[test]
fn timeouts_cancelled_one_for_each_new_one_are_collected_as_fast() {
    alone(|| assert_garbage_is_bounded([ONE_QUEUE; 2], |timeout| assert!(timeout.cancel())));
}

#[test]
fn timeouts_reset_to_earlier_and_cancelled_for_each_new_one_are_collected_as_fast() {
    alone(|| {
        let garbage = [2 * ONE_QUEUE - 50_000, 2 * ONE_QUEUE];
        assert_garbage_is_bounded(garbage, |timeout| assert!(timeout.reset(500 * HOUR) && timeout.cancel()));
    });
}

#[test]
fn without_patience_no_thread_waits_and_the_engine_takes_memory_instead() {
    alone(|| {
        let timer = Timer::builder().executor(Inline).max_wait(Duration::ZERO).build().expect("the options make sense");
        churn(&timer, 2, 50_000, 500 * MS, |timeout| assert!(timeout.cancel()));
        assert_eq!(timer.stats().waits, 0);
    });
}

#[test]
fn a_reset_and_a_cancel_need_no_memory_and_wait_for_nobody() {
    alone(|| {
        let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
        let mut timeouts: Vec<_> = (0..40_000).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
        timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
        eventually("all are linked", || timer.stats().shards[0].linked >= 40_000);
        let end = block(|task| timer.schedule_detached(Duration::ZERO, task).expect("accepted"));
        // Scheduling them may have waited for a worker that was slow to begin.
        let before = timer.stats();
        timeouts.drain(20_000..).for_each(|timeout| assert!(timeout.cancel()));
        timeouts.iter().for_each(|timeout| assert!(timeout.reset(HOUR / 2)));
        let after = timer.stats();
        assert_eq!((after.waits, after.capacity), (before.waits, before.capacity));
        drop(end);
        assert!(timeouts.iter().all(Timeout::is_pending));
    });
}

#[test]
fn timeouts_that_are_linked_when_they_are_cancelled_leave_memory_where_it_was() {
    alone(|| {
        assert_bounded(|timer| {
            // A timeout that is due at once makes the worker take the inbox; then the ring is in
            // the wheel. Half of the cancelled ones are in the moved queue, for an earlier slot.
            go_around(timer, STEPS / 2, |step, timeout| {
                if step % 2_000 == 0 {
                    timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
                    thread::sleep(MS / 2);
                }
                assert!(step % 2 == 0 || timeout.reset(DELAY / 2));
                assert!(timeout.cancel());
            });
            eventually("the last has fired", || timer.pending() == 0);
        });
    });
}

#[test]
fn a_bulk_of_cancelled_timeouts_is_collected_though_the_worker_has_no_other_reason_to_wake() {
    alone(|| {
        let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
        let timeouts: Vec<_> = (0..100_000).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
        eventually("the worker has taken most of them", || timer.stats().shards[0].linked > 80_000);
        // Time for the worker to fall asleep.
        thread::sleep(100 * MS);
        timeouts.into_iter().for_each(|timeout| assert!(timeout.cancel()));
        // The bound: 8,192 in each queue.
        eventually("all but the last few are collected", || {
            let stats = timer.stats();
            stats.shards[0].linked + stats.inbox_depth as u64 <= 2 * 8_192
        });
    });
}

#[test]
fn rings_that_fit_into_the_bound_are_collected_when_the_worker_comes_by() {
    alone(|| {
        let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
        let keep = timer.schedule(HOUR, || ()).expect("accepted");
        for _ in 0..3 {
            go_around(&timer, 5_000, cancel);
            // A timeout that is due now wakes the worker. If it revives a cancelled entry, a turn
            // may find it that has collected already: so there are two.
            for _ in 0..2 {
                let now = timer.schedule(Duration::ZERO, || ()).expect("accepted");
                eventually("it comes by", || now.is_expired());
            }
            eventually("and collects", || timer.stats().shards[0].linked == 1 && timer.stats().inbox_depth == 0);
        }
        assert!(keep.cancel());
    });
}

#[test]
fn a_driven_engine_that_is_turned_now_and_then_leaves_memory_where_it_was() {
    alone(|| {
        let (timer, mut driver): (Timer, Driver) = Timer::builder().build_driven().expect("the options make sense");
        go_around(&timer, STEPS, |step, timeout| {
            assert!(timeout.cancel());
            if step % 2_000 == 0 {
                driver.turn();
            }
        });
        driver.turn();
        let stats = timer.stats();
        assert!(stats.capacity <= 4 * (RING + 2_000), "memory for {} timeouts", stats.capacity);
        assert_eq!((stats.pending, stats.shards[0].linked, stats.inbox_depth), (0, 0, 0));
    });
}

#[test]
fn reserved_memory_is_resident_before_it_is_used() {
    alone(|| {
        const RESERVED: usize = 500_000;
        let before = resident_bytes();
        let timer = Timer::builder().capacity(RESERVED).build().expect("the options make sense");
        let grown = resident_bytes().saturating_sub(before);
        assert!(timer.stats().capacity >= RESERVED);
        assert!(grown >= RESERVED * 64, "only {} KiB of {}", grown / 1024, RESERVED * 64 / 1024);
    });
}

/// Waits until the worker has freed all cancelled timeouts except one, and those that are pending.
fn collect_all(timer: &Timer, pending: usize) {
    eventually("all is collected", || {
        timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
        timer.stats().shards[0].linked <= pending as u64 + 1
    });
}

#[test]
fn after_a_spike_the_memory_that_no_timeout_uses_can_be_given_back_and_used_again() {
    alone(|| {
        const SPIKE: usize = 1_000_000;
        let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
        let timeouts = |n| (0..n).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect::<Vec<_>>();
        let before = resident_bytes();
        for _ in 0..3 {
            let spike = timeouts(SPIKE);
            let keep = timeouts(1_000);
            assert!(resident_bytes() - before >= SPIKE * 64);
            spike.into_iter().for_each(|timeout| assert!(timeout.cancel()));
            collect_all(&timer, keep.len());
            let (capacity, resident) = (timer.stats().capacity, resident_bytes());
            let bytes = timer.shrink();
            assert!(bytes >= SPIKE * 64 * 9 / 10, "only {bytes} bytes of {}", SPIKE * 64);
            assert_eq!(capacity - timer.stats().capacity, bytes / 64);
            let gone = resident.saturating_sub(resident_bytes());
            assert!(gone >= bytes * 9 / 10, "{gone} bytes less are resident, of {bytes}");
            assert!(keep.iter().all(|timeout| timeout.is_pending()));
            keep.into_iter().for_each(|timeout| assert!(timeout.cancel()));
        }
        assert_eq!(timer.shrink() / (SPIKE * 64), 0, "once");
        assert_counters_reconcile(&timer.stats());
    });
}

#[test]
fn timeouts_sleeps_and_series_that_end_in_waves_take_no_more_memory_than_a_wave() {
    alone(|| {
        const WAVE: usize = 1_000;
        let timer = Timer::builder().build().expect("the options make sense");
        let ended = Arc::new(AtomicUsize::new(0));
        let waves: [&dyn Fn(); 3] = [
            &|| (0..WAVE).for_each(|_| timer.schedule_detached(Duration::ZERO, count(&ended)).expect("accepted")),
            &|| {
                for count in (0..WAVE).map(|_| count(&ended)) {
                    let ends = move || (count(), None).1;
                    drop(timer.schedule_repeating(Duration::ZERO, ends).expect("accepted"));
                }
            },
            &|| {
                let sleeps = (0..WAVE).map(|_| timer.sleep(Duration::ZERO));
                pollster::block_on(futures_util::future::join_all(sleeps));
                ended.fetch_add(WAVE, Ordering::Relaxed);
            },
        ];
        for wave in waves {
            for _ in 0..100 {
                let before = ended.load(Ordering::Relaxed);
                wave();
                eventually("all end", || ended.load(Ordering::Relaxed) == before + WAVE);
            }
            let capacity = timer.stats().capacity;
            assert!(capacity <= 20 * WAVE, "there is memory for {capacity} timeouts");
        }
    });
}

#[test]
fn handles_that_go_when_their_threads_end_leave_memory_where_it_was() {
    thread_local! {
        static HELD: RefCell<Vec<Timeout>> = const { RefCell::new(Vec::new()) };
    }
    alone(|| {
        const HANDLES: usize = 1_000;
        let (timer, mut driver) = Timer::builder().build_driven().expect("the options make sense");
        for _ in 0..50 {
            let all_expire = Barrier::new(2);
            thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    // It is made before the engine's own, so it goes after that.
                    HELD.with_borrow_mut(|held| {
                        held.extend((0..HANDLES).map(|_| timer.schedule(Duration::ZERO, || ()).expect("accepted")));
                    });
                    all_expire.wait();
                    all_expire.wait();
                });
                all_expire.wait();
                let mut expired = 0;
                while expired < HANDLES {
                    expired += driver.turn();
                }
                all_expire.wait();
                // Only `join` waits for the end of the thread's variables.
                thread.join().expect("no panic");
            });
        }
        let capacity = timer.stats().capacity;
        assert!(capacity <= 10 * HANDLES, "there is memory for {capacity} timeouts");
    });
}

#[test]
fn the_end_of_an_engine_does_not_touch_what_it_has_given_back() {
    alone(|| {
        const SPIKE: usize = 200_000;
        let (timer, mut driver) = Timer::builder().build_driven().expect("the options make sense");
        let spike: Vec<_> = (0..SPIKE).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
        spike.into_iter().for_each(|timeout| assert!(timeout.cancel()));
        while driver.turn() > 0 || timer.stats().inbox_depth > 0 {}
        assert!(timer.shrink() >= SPIKE * 64 * 9 / 10);
        // A handle keeps the memory beyond the engine's end.
        let held = timer.schedule(HOUR, || ()).expect("accepted");
        let before = resident_bytes();
        drop((driver, timer));
        assert!(held.is_cancelled());
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown <= SPIKE * 64 / 10, "{grown} bytes more are resident");
    });
}

#[test]
fn reserved_memory_is_not_given_back() {
    alone(|| {
        let timer = Timer::builder().executor(Inline).capacity(200_000).build().expect("the options make sense");
        let timeouts: Vec<_> = (0..200_000).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
        timeouts.into_iter().for_each(|timeout| assert!(timeout.cancel()));
        collect_all(&timer, 0);
        timer.shrink();
        assert!(timer.stats().capacity >= 200_000);
    });
}

#[test]
fn memory_is_given_back_while_others_schedule_fire_and_cancel_and_none_is_lost() {
    alone(|| {
        let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
        let ran = Arc::new(AtomicUsize::new(0));
        let (end, rounds) = (Instant::now() + 1_000 * MS, 5_000);
        let mut given_back = 0;
        let expected: usize = thread::scope(|scope| {
            let producers = [0; 2].map(|_| {
                scope.spawn(|| {
                    let mut expected = 0;
                    while Instant::now() < end {
                        let schedule = |n: usize| {
                            let (ran, delay) = (Arc::clone(&ran), if n.is_multiple_of(2) { MS } else { HOUR });
                            timer.schedule(delay, move || _ = ran.fetch_add(1, Ordering::Relaxed)).expect("accepted")
                        };
                        let timeouts: Vec<_> = (0..rounds).map(schedule).collect();
                        let cancelled = timeouts.into_iter().filter(Timeout::cancel).count();
                        expected += rounds - cancelled;
                    }
                    expected
                })
            });
            while Instant::now() < end {
                given_back += timer.shrink();
            }
            producers.into_iter().map(|producer| producer.join().expect("no panic")).sum()
        });
        eventually("all have run", || ran.load(Ordering::Relaxed) == expected);
        assert!(given_back > 0);
        assert_counters_reconcile(&timer.stats());
    });
}
