//! Thousands of engines that are made and dropped leave nothing behind: no thread, no memory, no
//! closure. The tests count the heap's bytes and the process's threads, so each has a process of
//! its own.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use testkit::again;
use tourbillon::{BuildError, Builder, Expired, Inline, ManualClock, PausableClock, ThreadPool, Timer};

use common::{Drops, HOUR, MS, alone, driven, eventually, fire_one, resident_bytes, threads_named};

/// Counts the bytes that are in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor
// unwinds. (`realloc` and `alloc_zeroed` are the defaults, which come here.)
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds `alloc`'s contract for this layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller gives up this block of the system's allocator, and gives its layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the resident memory after the allocator has given back what it can. On a loaded machine
/// more threads are alive at a time. Each has an arena of the allocator, which keeps freed memory:
/// that memory is not the engine's.
fn resident_at_rest() -> usize {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
    resident_bytes()
}

/// Returns the number of threads, except those of the test runner.
fn threads() -> usize {
    threads_named("tourbillon").len()
}

/// Makes and ends engines by `life`, and checks that the last ones leave as much as the first few.
fn assert_leaves_nothing(engines: usize, mut life: impl FnMut(usize)) {
    let mut live = |engines| {
        (0..engines).for_each(&mut life);
        eventually("all threads end", || threads() == 0);
    };
    live(engines / 5);
    let (heap, resident) = (IN_USE.load(Ordering::Relaxed), resident_at_rest());
    live(engines);
    // A thread's last memory is freed just after it has gone from the list.
    let slack = 16 * 1024;
    eventually("the heap is as it was", || IN_USE.load(Ordering::Relaxed) <= heap + slack);
    if again::is_emulated() {
        // qemu 7.2 keeps 280 KiB of each thread that has ended.
        return println!("SKIPPED: the resident memory is the emulator's");
    }
    let grown = resident_at_rest().saturating_sub(resident);
    assert!(grown < 16 << 20, "{} KiB more are resident", grown / 1024);
}

fn build(builder: Builder) -> Timer {
    builder.build().expect("the options make sense")
}

#[test]
fn engines_that_were_never_used_leave_nothing() {
    alone(|| {
        assert_leaves_nothing(2_000, |n| {
            let timer = build(Timer::builder().capacity(n % 100));
            assert_eq!(timer.clone().pending(), 0);
        });
    });
}

#[test]
fn engines_with_workers_and_pools_leave_nothing() {
    alone(|| {
        assert_leaves_nothing(1_000, |n| {
            let timer = match n % 3 {
                0 => build(Timer::builder()),
                1 => build(Timer::builder().executor(ThreadPool::new(2)).shards(2)),
                _ => build(Timer::builder().executor(Inline)),
            };
            let fired = timer.schedule(Duration::ZERO, || ()).expect("accepted");
            if n % 2 == 0 {
                while !fired.is_expired() {
                    thread::yield_now();
                }
            }
        });
    });
}

#[test]
fn engines_with_unfired_timeouts_drop_each_closure_once() {
    alone(|| {
        let drops = Drops::default();
        let mut made = 0;
        assert_leaves_nothing(1_000, |n| {
            let timer = build(Timer::builder());
            for _ in 0..5 {
                let (small, large) = (drops.witness(), drops.witness());
                timer.schedule_detached(HOUR, move || drop(small)).expect("accepted");
                let ballast = [n; 64];
                timer.schedule_detached(HOUR, move || drop((large, ballast))).expect("accepted");
                made += 2;
            }
            match n % 3 {
                0 => drop(timer),
                1 => drop(timer.shutdown().expect("the first")),
                _ => timer.shutdown().expect("the first").into_iter().for_each(|left| left.run()),
            }
            if made % 1_000 == 0 {
                eventually("all are dropped", || drops.count() == made);
                drops.forget();
                made = 0;
            }
        });
    });
}

#[test]
fn engines_whose_handles_outlive_them_leave_nothing_once_those_are_dropped() {
    alone(|| {
        let mut kept = Vec::new();
        assert_leaves_nothing(1_000, |n| {
            let timer = build(Timer::builder().executor(Inline));
            kept.extend((0..10).map(|_| timer.schedule(HOUR, || ()).expect("accepted")));
            kept.push(timer.schedule(Duration::ZERO, || ()).expect("accepted"));
            drop(timer);
            if n % 100 == 99 {
                let kept = std::mem::take(&mut kept);
                let (here, elsewhere): (Vec<_>, Vec<_>) = kept.into_iter().enumerate().partition(|(n, _)| n % 2 == 0);
                thread::scope(|scope| {
                    scope.spawn(|| drop(elsewhere));
                    drop(here);
                });
            }
        });
    });
}

#[test]
fn engines_that_are_used_by_threads_that_come_and_go_leave_nothing() {
    alone(|| {
        assert_leaves_nothing(300, |_| {
            let timer = build(Timer::builder().executor(Inline));
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let timeouts: Vec<_> =
                            (0..20).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
                        timeouts.iter().for_each(|timeout| assert!(timeout.cancel()));
                    });
                }
            });
        });
    });
}

#[test]
fn one_engine_that_is_used_by_very_many_threads_stays_small() {
    alone(|| {
        let timer = build(Timer::builder().executor(Inline));
        drop(timer.schedule(HOUR, || ()).expect("accepted"));
        let use_it = || {
            thread::scope(|scope| {
                scope.spawn(|| assert!(timer.schedule(HOUR, || ()).expect("accepted").cancel()));
            });
        };
        (0..100).for_each(|_| use_it());
        let heap = IN_USE.load(Ordering::Relaxed);
        (0..3_000).for_each(|_| use_it());
        eventually("the heap is as it was", || IN_USE.load(Ordering::Relaxed) < heap + 256 * 1024);
    });
}

#[test]
fn driven_engines_leave_nothing_whichever_half_goes_first() {
    alone(|| {
        assert_leaves_nothing(2_000, |n| {
            let (timer, mut driver, clock) = driven();
            let handle = timer.schedule(MS, || ()).expect("accepted");
            timer.schedule_detached(HOUR, || ()).expect("accepted");
            driver.on_earlier(|| ());
            if n % 2 == 0 {
                clock.advance(MS);
                assert_eq!(driver.turn(), 1);
                assert!(handle.reset(MS) || handle.is_expired());
            }
            match n % 4 {
                0 | 1 => drop((driver, timer, handle)),
                2 => drop((handle, timer, driver)),
                _ => drop((timer, driver, handle)),
            }
        });
    });
}

#[test]
fn engines_on_one_manual_clock_leave_nothing() {
    alone(|| {
        let clock = ManualClock::new();
        assert_leaves_nothing(1_000, |_| {
            let timer = build(Timer::builder().clock(clock.clone()).executor(Inline));
            let timeout = timer.schedule(MS, || ()).expect("accepted");
            clock.advance(MS);
            assert!(timeout.is_expired());
        });
    });
}

#[test]
fn engines_on_one_clock_that_is_stopped_leave_nothing() {
    alone(|| {
        let clock = PausableClock::new();
        assert_leaves_nothing(1_000, |_| {
            let timer = build(Timer::builder().clock(clock.clone()).executor(Inline));
            let timeout = timer.schedule(HOUR, || ()).expect("accepted");
            clock.pause();
            clock.resume();
            assert!(timeout.is_pending());
        });
    });
}

#[test]
fn shut_down_engines_that_are_kept_have_no_threads() {
    alone(|| {
        let engines: Vec<_> = (0..50).map(|_| build(Timer::builder())).collect();
        for timer in &engines {
            fire_one(timer, Duration::ZERO);
        }
        assert!(threads() >= 50);
        engines.iter().for_each(|timer| assert!(timer.shutdown().is_ok()));
        eventually("all threads end", || threads() == 0);
    });
}

#[test]
fn the_payload_of_an_executors_panic_is_dropped() {
    alone(|| {
        assert_leaves_nothing(200, |_| {
            let panics = |expired: Expired| {
                expired.run();
                std::panic::resume_unwind(Box::new([0_u8; 1024]));
            };
            let timer = build(Timer::builder().executor(panics));
            fire_one(&timer, Duration::ZERO);
            timer.shutdown().expect("the first");
        });
    });
}

#[test]
fn the_shards_of_a_process_are_bounded_and_free_again_after_their_engine() {
    alone(|| {
        let build = |shards| Timer::builder().shards(shards).ticks_per_wheel(1).levels(1).build_driven();
        let mut engines: Vec<_> = (0..63).map(|_| build(1024).expect("room")).collect();
        let (timer, driver) = build(1023).expect("the last ones");
        let handle = timer.schedule(HOUR, || ()).expect("accepted");
        let none = build(1).expect_err("65,535 are there");
        assert_eq!(none, BuildError::TooManyShards { shards: 1, max: 65_535 });
        assert!(none.to_string().contains("65535"), "{none}");
        drop((timer, driver));
        assert_eq!(build(1).map(drop), Err(none), "a handle is left, which names its shard");
        drop(handle);
        build(1023).expect("they are free again");
        engines.truncate(1);
        build(1024).expect("they are free again");
    });
}
