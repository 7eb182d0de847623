//! Expired timeouts on a Rayon pool.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tourbillon::{Executor, Timer};

use common::{
    HOUR, HandedOver, MS, PATIENCE, Runs, assert_counters_reconcile, assert_run_by, built, eventually, in_time,
};

fn pool(threads: usize) -> ThreadPool {
    let name = |index| format!("the-rayon-{index}");
    ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build().expect("a pool")
}

fn engine_on(executor: impl Executor) -> Timer {
    built(Timer::builder().shards(1).executor(executor))
}

#[test]
fn timeouts_run_on_the_pools_threads() {
    assert_run_by(&engine_on(pool(2)), |thread| thread.starts_with("the-rayon-"));
}

#[test]
fn a_timeout_may_go_on_in_parallel_and_a_panic_takes_nothing_with_it() {
    // Also on a pool of one thread.
    for threads in [1, 3] {
        let timer = engine_on(pool(threads));
        let (tell, told) = channel();
        timer.schedule_detached(MS, || panic!("as this test wants it")).expect("accepted");
        let task = move || tell.send((1..=1000_u64).into_par_iter().sum::<u64>()).expect("the test listens");
        timer.schedule_detached(2 * MS, task).expect("accepted");
        assert_eq!(told.recv_timeout(PATIENCE).expect("it runs"), 500_500);
        eventually("the panic is counted", || timer.stats().panicked == 1);
    }
}

#[test]
fn a_periodic_timeout_runs_on_a_pool_that_others_use_too() {
    let pool = Arc::new(pool(2));
    let timer = engine_on(Arc::clone(&pool));
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let task = move || {
        assert!(rayon::current_thread_index().is_some(), "on the pool");
        count.fetch_add(1, Ordering::Relaxed);
    };
    let periodic = timer.schedule_at_fixed_rate(MS, MS, task).expect("accepted");
    assert_eq!(pool.install(|| (0..1000_u64).into_par_iter().sum::<u64>()), 499_500);
    eventually("it goes on", || runs.load(Ordering::Relaxed) > 20);
    eventually("it ends", || periodic.cancel() || periodic.is_cancelled());
}

#[test]
fn batches_in_the_pool_when_its_owners_go_are_not_lost() {
    const TASKS: usize = 10_000;
    let pool = Arc::new(pool(1));
    let (timer, handed_over) = HandedOver::by(Arc::clone(&pool));
    let runs = Runs::new(TASKS);
    let kept = Arc::new(Barrier::new(2));
    let keep = Arc::clone(&kept);
    pool.spawn(move || _ = (keep.wait(), keep.wait()));
    kept.wait();
    (0..TASKS).for_each(|id| timer.schedule_detached(MS, runs.task(id)).expect("accepted"));
    eventually("they are handed over", || handed_over.get() == TASKS);
    assert_eq!(runs.total(), 0, "the only thread is kept");
    assert_counters_reconcile(&timer.stats());
    drop((timer, pool));
    kept.wait();
    eventually("each runs", || runs.total() == TASKS);
    runs.assert_each_ran_once();
}

#[test]
fn an_engine_can_be_shut_down_on_the_only_thread_of_its_pool() {
    in_time("the shutdown", || {
        let pool = Arc::new(pool(1));
        let (timer, handed_over) = HandedOver::by(Arc::clone(&pool));
        let runs = Runs::new(100);
        pool.install(|| {
            (0..100).for_each(|id| timer.schedule_detached(Duration::ZERO, runs.task(id)).expect("accepted"));
            drop(timer.schedule(HOUR, || ()).expect("accepted"));
            eventually("they wait for this thread", || handed_over.get() == 100);
            assert_eq!(timer.shutdown().expect("not one of its own tasks").len(), 1);
        });
        eventually("what was handed over runs after all", || runs.total() == 100);
    });
}
