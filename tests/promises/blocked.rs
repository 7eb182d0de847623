//! Tasks that block a thread of the pool.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use tourbillon::{Builder, ManualClock, Shutdown, ThreadPool, Timer};

use crate::common::{MS, Runs, assert_counters_reconcile, eventually, in_time};

/// Blocks tasks until it is lifted, also by being dropped.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn pass(&self) {
        while !self.0.load(Ordering::Acquire) {
            thread::sleep(MS);
        }
    }
}

impl Drop for Lift<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}

struct Lift<'a>(&'a Gate);

/// Schedules `n` tasks for one deadline, in one batch or more. Those that `blocks` names wait at
/// the gate.
fn schedule(timer: &Timer, n: usize, gate: &Gate, blocks: impl Fn(usize) -> bool) -> Runs {
    let runs = Runs::new(n);
    let tasks = (0..n).map(|id| {
        let (run, gate, blocks) = (runs.task(id), gate.clone(), blocks(id));
        move || {
            if blocks {
                gate.pass();
            }
            run();
        }
    });
    drop(timer.schedule_many(Duration::ZERO, tasks).expect("accepted"));
    runs
}

fn on_a_pool_of(threads: usize) -> Builder {
    Timer::builder().shards(1).executor(ThreadPool::new(threads))
}

#[test]
fn a_task_that_blocks_holds_up_no_other_while_a_thread_is_idle() {
    for (builder, n) in
        [(on_a_pool_of(2), 256), (on_a_pool_of(4), 40), (on_a_pool_of(2).clock(ManualClock::new()), 1_000)]
    {
        let timer = builder.build().expect("the options make sense");
        for blocked in [0, 1, 7, 8, n / 2, n - 1] {
            let gate = Gate::default();
            let runs = schedule(&timer, n, &gate, |id| id == blocked);
            let lift = Lift(&gate);
            eventually("the others run", || runs.total() == n - 1);
            drop(lift);
            eventually("all run", || runs.total() == n);
            runs.assert_each_ran_once();
        }
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn as_many_tasks_may_block_as_there_are_other_threads() {
    let timer = on_a_pool_of(4).build().expect("the options make sense");
    let gate = Gate::default();
    let runs = schedule(&timer, 256, &gate, |id| id % 64 == 5 && id < 192);
    let lift = Lift(&gate);
    eventually("the others run", || runs.total() == 256 - 3);
    drop(lift);
    eventually("all run", || runs.total() == 256);
    runs.assert_each_ran_once();
}

#[test]
fn tasks_that_block_are_spread_over_all_threads() {
    let timer = on_a_pool_of(8).build().expect("the options make sense");
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let runs = Runs::new(64);
    let tasks = (0..64).map(|id| {
        let (run, running, most) = (runs.task(id), Arc::clone(&running), Arc::clone(&most));
        move || {
            most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            thread::sleep(50 * MS);
            running.fetch_sub(1, Ordering::Relaxed);
            run();
        }
    });
    drop(timer.schedule_many(Duration::ZERO, tasks).expect("accepted"));
    eventually("all run", || runs.total() == 64);
    runs.assert_each_ran_once();
    assert_eq!(most.load(Ordering::Relaxed), 8);
}

#[test]
fn tasks_of_one_tick_may_wait_for_each_other_also_in_a_shutdown_that_fires_them() {
    for is_fired in [false, true] {
        let timer = on_a_pool_of(4).build().expect("the options make sense");
        let together = Arc::new(Barrier::new(4));
        let runs = Runs::new(4);
        let tasks = (0..4).map(|id| {
            let (run, together) = (runs.task(id), Arc::clone(&together));
            move || {
                together.wait();
                run();
            }
        });
        let delay = if is_fired { 1_000_000 * MS } else { Duration::ZERO };
        drop(timer.schedule_many(delay, tasks).expect("accepted"));
        in_time("the tasks and the shutdown", move || {
            if is_fired {
                assert!(timer.shutdown_with(Shutdown::FireNow).expect("the first").is_empty());
            }
            eventually("all run", || runs.total() == 4);
        });
    }
}

#[test]
fn timeouts_that_wait_behind_a_task_that_blocks_can_be_cancelled() {
    let timer = on_a_pool_of(1).build().expect("the options make sense");
    let (gate, ran, begun) = (Gate::default(), Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let tasks = (0..100).map(|id| {
        let (gate, ran, begun) = (gate.clone(), Arc::clone(&ran), Arc::clone(&begun));
        move || {
            begun.store(true, Ordering::Release);
            gate.pass();
            ran.lock().expect("no panic").push(id);
        }
    });
    let timeouts = timer.schedule_many(Duration::ZERO, tasks).expect("accepted");
    let lift = Lift(&gate);
    eventually("the first begins", || begun.load(Ordering::Acquire));
    assert!(timeouts[1..].iter().all(|timeout| timeout.cancel()));
    drop(lift);
    eventually("the first has run", || ran.lock().expect("no panic").len() == 1);
    assert!(timer.shutdown().expect("the first").is_empty());
    assert_eq!(*ran.lock().expect("no panic"), [0]);
}

#[test]
fn a_shutdown_waits_for_what_another_thread_has_taken_over() {
    for _ in 0..20 {
        let timer = on_a_pool_of(2).build().expect("the options make sense");
        let gate = Gate::default();
        let runs = schedule(&timer, 256, &gate, |id| id == 3 || id == 100);
        eventually("most of the others run", || runs.total() >= 90);
        let lifts = gate.clone();
        let later = thread::spawn(move || {
            thread::sleep(5 * MS);
            drop(Lift(&lifts));
        });
        let unfired = timer.shutdown().expect("the first").len();
        assert_eq!(runs.total() + unfired, 256, "when the shutdown has returned");
        later.join().expect("no panic");
    }
}

#[test]
fn a_worker_looks_ever_more_rarely_at_a_batch_that_nobody_can_help() {
    let timer = on_a_pool_of(1).build().expect("the options make sense");
    let gate = Gate::default();
    let runs = schedule(&timer, 100, &gate, |id| id == 0);
    let lift = Lift(&gate);
    thread::sleep(400 * MS);
    let wakeups = timer.stats().wakeups;
    assert!(wakeups <= 20, "{wakeups} in 400 ms");
    assert_eq!(timer.stats().panicked_turns, 0);
    drop(lift);
    eventually("all run", || runs.total() == 100);
}
