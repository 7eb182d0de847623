//! An engine to which the system gives no thread loses no accepted timeout. The test limits the
//! process's address space so that no stack fits in, so this binary has one test.

#![cfg(target_os = "linux")]

mod common;
#[path = "common/no_threads.rs"]
mod no_threads;

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tourbillon::{Inline, ThreadPool, Timer, WorkerState};

use common::{HOUR, Runs, assert_counters_reconcile, eventually};
use no_threads::without_threads;

fn engine() -> Timer {
    Timer::builder().shards(1).executor(Inline).build().expect("the options make sense")
}

fn worker(timer: &Timer) -> WorkerState {
    timer.health().shards[0].worker
}

#[test]
fn without_threads_nothing_is_lost_and_waiting_timeouts_run_as_soon_as_there_are_some() {
    a_task_that_no_pool_thread_can_run_is_run_by_the_worker();
    timeouts_scheduled_without_a_worker_come_back_from_a_shutdown();
    timeouts_scheduled_without_a_worker_run_once_a_schedule_or_a_look_finds_a_thread();
}

fn a_task_that_no_pool_thread_can_run_is_run_by_the_worker() {
    let timer = Timer::builder().shards(1).executor(ThreadPool::new(2)).build().expect("the options make sense");
    // Starts the worker, and no thread of the pool.
    drop(timer.schedule(HOUR, || ()).expect("accepted"));
    eventually("the worker waits", || timer.health().shards[0].last_turn.is_some());
    let (tell, told) = channel();
    let ran_by = || {
        let tell = tell.clone();
        let task = move || tell.send(thread::current().name().map(str::to_owned)).expect("it is waited for");
        timer.schedule_detached(Duration::ZERO, task).expect("accepted");
        told.recv().expect("it runs").expect("threads have names")
    };
    assert_eq!(without_threads(|| [ran_by(), ran_by()]), ["tourbillon-0"; 2]);
    assert_eq!(ran_by(), "tourbillon-pool-0", "there are threads again");
    assert_counters_reconcile(&timer.stats());
    // Its threads must not end before the other tests.
    std::mem::forget(timer);
}

fn timeouts_scheduled_without_a_worker_come_back_from_a_shutdown() {
    let timer = engine();
    let runs = Runs::new(2);
    without_threads(|| {
        (0..2).for_each(|id| timer.schedule_detached(Duration::ZERO, runs.task(id)).expect("accepted"));
        let unfired = timer.shutdown().expect("the first");
        assert_eq!((unfired.len(), runs.total()), (2, 0));
        unfired.into_iter().for_each(|unfired| unfired.run());
    });
    runs.assert_each_ran_once();
    assert_counters_reconcile(&timer.stats());
}

fn timeouts_scheduled_without_a_worker_run_once_a_schedule_or_a_look_finds_a_thread() {
    for by_a_look in [true, false] {
        let timer = engine();
        let runs = Runs::new(3);
        assert_eq!(worker(&timer), WorkerState::NotStarted);
        without_threads(|| {
            (0..3).for_each(|id| timer.schedule_detached(Duration::ZERO, runs.task(id)).expect("accepted"));
            let health = timer.health();
            assert_eq!((health.shards[0].worker, health.shards[0].inbox_depth), (WorkerState::CannotStart, 3));
            assert!(!health.is_healthy());
            assert_eq!((timer.pending(), runs.total()), (3, 0));
        });
        if by_a_look {
            eventually("the look has started the worker", || worker(&timer) == WorkerState::Running);
        } else {
            drop(timer.schedule(HOUR, || ()).expect("accepted"));
        }
        eventually("all have run", || runs.total() == 3);
        runs.assert_each_ran_once();
        assert!(timer.health().is_healthy());
        // Its thread must not end before the next round.
        std::mem::forget(timer);
    }
}
