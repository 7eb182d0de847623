//! Futures that come up together on the executor of a Tokio runtime: one of its tasks wakes them.

use std::task::Poll;

use tokio::runtime::{Builder, Runtime};
use tourbillon::{ManualClock, Sleep, Timer};

use crate::Task;
use crate::common::{MS, eventually};

/// An engine on a runtime of the calling thread, which runs nothing until the test lets it.
struct Engine {
    timer: Timer,
    clock: ManualClock,
    runtime: Runtime,
}

impl Engine {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let clock = ManualClock::new();
        let builder = Timer::builder().shards(1).clock(clock.clone()).executor(runtime.handle().clone());
        Self { timer: builder.build().expect("the options make sense"), clock, runtime }
    }
}

/// Waits until the runtime has one task: a batch of futures that came up.
fn expect_a_batch(runtime: &Runtime) {
    eventually("they come up", || runtime.metrics().num_alive_tasks() > 0);
    assert_eq!(runtime.metrics().num_alive_tasks(), 1, "there is one batch");
}

/// Has the runtime run all of its tasks.
fn run(runtime: &Runtime) {
    eventually("the tasks run", || {
        runtime.block_on(tokio::task::yield_now());
        runtime.metrics().num_alive_tasks() == 0
    });
}

/// Returns futures that sleep for 10 ms, each with the task that it will wake.
fn asleep(timer: &Timer, n: usize) -> Vec<(Sleep, Task)> {
    let asleep = |_| {
        let (mut sleep, task) = (timer.sleep(10 * MS), Task::new());
        assert!(task.poll(&mut sleep).is_pending());
        (sleep, task)
    };
    (0..n).map(asleep).collect()
}

/// Returns futures that have come up, and whose batch waits to wake them.
fn waiting(n: usize) -> (Engine, Vec<(Sleep, Task)>) {
    let engine = Engine::new();
    let sleeps = asleep(&engine.timer, n);
    engine.clock.advance(10 * MS);
    expect_a_batch(&engine.runtime);
    (engine, sleeps)
}

fn assert_all_woken_once(sleeps: &mut [(Sleep, Task)]) {
    for (sleep, task) in sleeps {
        assert_eq!((task.woken(), task.poll(sleep)), (1, Poll::Ready(())));
    }
}

#[test]
fn a_runtime_gets_all_futures_of_a_turn_in_one_batch_and_none_is_woken_before_it_runs() {
    // More than a batch of tasks holds.
    let (engine, mut sleeps) = waiting(1000);
    assert!(sleeps.iter().all(|(_, task)| task.woken() == 0));
    run(&engine.runtime);
    assert_all_woken_once(&mut sleeps);
}

#[test]
fn a_future_that_is_dropped_while_its_batch_waits_leaves_nothing_behind_and_costs_no_other() {
    let (engine, mut sleeps) = waiting(10);
    // The first, one in the middle, and the last.
    let gone: Vec<_> = [9, 4, 0].map(|index| sleeps.remove(index).1).into();
    run(&engine.runtime);
    // It may be woken for nothing, as any task may.
    assert!(gone.iter().all(Task::is_forgotten));
    assert_all_woken_once(&mut sleeps);
}

#[test]
fn a_future_that_is_polled_while_its_batch_waits_is_ready() {
    let (engine, mut sleeps) = waiting(2);
    let (sleep, task) = &mut sleeps[0];
    assert_eq!(task.poll(sleep), Poll::Ready(()));
    run(&engine.runtime);
    assert_eq!(sleeps[1].1.woken(), 1);
}

#[test]
fn a_future_that_is_reset_while_its_batch_waits_sleeps_until_its_new_deadline_and_is_woken_then() {
    let (engine, mut sleeps) = waiting(3);
    // One is polled before the batch runs, and one when the batch has woken it.
    sleeps.iter_mut().for_each(|(sleep, _)| sleep.reset(10 * MS));
    assert!(sleeps.iter().all(|(sleep, _)| !sleep.is_elapsed()));
    let poll = |(sleep, task): &mut (Sleep, Task)| task.poll(sleep);
    assert!(poll(&mut sleeps[0]).is_pending());
    run(&engine.runtime);
    assert!(sleeps.iter().all(|(_, task)| task.woken() == 1));
    assert!(sleeps[1..].iter_mut().all(|sleep| poll(sleep).is_pending()));
    engine.clock.advance(10 * MS);
    expect_a_batch(&engine.runtime);
    run(&engine.runtime);
    let seen: Vec<_> = sleeps.iter_mut().map(|sleep| (sleep.1.woken(), poll(sleep).is_ready())).collect();
    assert_eq!(seen, [(1, true); 3]);
    let stats = engine.timer.stats();
    assert_eq!((stats.fired, stats.completed, stats.caller_ran), (6, 6, 0));
}

#[test]
fn futures_that_a_shutdown_ends_are_woken_by_it_and_not_by_the_runtime() {
    let engine = Engine::new();
    let (mut sleeps, gone) = (asleep(&engine.timer, 10), asleep(&engine.timer, 10));
    let gone: Vec<_> = gone.into_iter().map(|(_, task)| task).collect();
    assert!(engine.timer.shutdown().expect("it is no task").is_empty());
    assert!(gone.iter().all(Task::is_forgotten));
    assert_all_woken_once(&mut sleeps);
    assert!(sleeps.iter().all(|(sleep, _)| sleep.ended_by_shutdown()));
}

#[test]
fn a_batch_of_futures_that_is_dropped_with_its_runtime_is_woken_all_the_same() {
    let (Engine { timer, clock, runtime }, mut sleeps) = waiting(100);
    drop(runtime);
    assert_all_woken_once(&mut sleeps);
    // There is no runtime any more to wake these.
    let mut sleeps = asleep(&timer, 100);
    clock.advance(10 * MS);
    sleeps.iter_mut().for_each(|(sleep, task)| {
        eventually("it is woken", || task.woken() == 1);
        assert_eq!(task.poll(sleep), Poll::Ready(()));
    });
}

#[test]
fn a_shutdown_does_not_wait_for_futures_that_a_runtime_has_not_begun_to_wake() {
    let (engine, mut sleeps) = waiting(10);
    assert!(engine.timer.shutdown().expect("it is no task").is_empty());
    run(&engine.runtime);
    assert_all_woken_once(&mut sleeps);
}
