//! Who wakes the futures that come up together: the worker, or the executor.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;

use tourbillon::{Executor, Expired, ManualClock, Sleep, Timer};

use crate::Task;
use crate::common::{MS, PATIENCE, eventually};

/// Does with each batch of sleepers what the function in it says.
struct Wakes<F>(F);

impl<F: Fn(Expired) + Send + Sync + 'static> Executor for Wakes<F> {
    fn execute(&self, _expired: Expired) {
        unreachable!("nothing but futures is scheduled");
    }

    fn wake(&self, sleepers: Expired) {
        self.0(sleepers);
    }
}

fn engine(executor: impl Executor) -> (Timer, ManualClock) {
    let clock = ManualClock::new();
    let builder = Timer::builder().shards(1).clock(clock.clone()).executor(executor);
    (builder.build().expect("the options make sense"), clock)
}

/// Returns an engine whose batches of sleepers come out of a channel.
fn engine_with_batches() -> (Timer, ManualClock, Receiver<Expired>) {
    let (send, batches): (Sender<Expired>, _) = channel();
    let send = Mutex::new(send);
    let (timer, clock) = engine(Wakes(move |sleepers| send.lock().expect("no panic").send(sleepers).expect("kept")));
    (timer, clock, batches)
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

fn assert_all_woken_once(sleeps: &mut [(Sleep, Task)]) {
    for (sleep, task) in sleeps {
        eventually("it is woken", || task.woken() == 1);
        assert_eq!(task.poll(sleep), Poll::Ready(()));
    }
}

#[test]
fn an_executor_gets_all_futures_of_a_turn_in_one_batch_and_none_is_woken_before_it_runs() {
    let (timer, clock, batches) = engine_with_batches();
    // More than a batch of tasks holds.
    let mut sleeps = asleep(&timer, 1000);
    clock.advance(10 * MS);
    let batch = batches.recv_timeout(PATIENCE).expect("they came up");
    assert_eq!(batch.len(), 1000);
    assert!(sleeps.iter().all(|(_, task)| task.woken() == 0));
    batch.run();
    assert_all_woken_once(&mut sleeps);
    assert!(batches.try_recv().is_err(), "there was one batch");
}

#[test]
fn a_future_that_is_dropped_while_its_batch_waits_leaves_nothing_behind_and_costs_no_other() {
    let (timer, clock, batches) = engine_with_batches();
    let mut sleeps = asleep(&timer, 10);
    clock.advance(10 * MS);
    let batch = batches.recv_timeout(PATIENCE).expect("they came up");
    // The first, one in the middle, and the last.
    let gone: Vec<_> = [9, 4, 0].map(|index| sleeps.remove(index).1).into();
    batch.run();
    // It may be woken for nothing, as any task may.
    assert!(gone.iter().all(Task::is_forgotten));
    assert_all_woken_once(&mut sleeps);
}

#[test]
fn a_future_that_is_polled_while_its_batch_waits_is_ready() {
    let (timer, clock, batches) = engine_with_batches();
    let mut sleeps = asleep(&timer, 2);
    clock.advance(10 * MS);
    let batch = batches.recv_timeout(PATIENCE).expect("they came up");
    let (sleep, task) = &mut sleeps[0];
    assert_eq!(task.poll(sleep), Poll::Ready(()));
    batch.run();
    assert_eq!(sleeps[1].1.woken(), 1);
}

#[test]
fn a_batch_of_futures_that_an_executor_drops_or_panics_over_is_woken_all_the_same() {
    let drops = engine(Wakes(drop));
    let panics = engine(Wakes(|sleepers: Expired| panic!("on purpose, with {} futures", sleepers.len())));
    for (timer, clock) in [drops, panics] {
        for _ in 0..3 {
            let mut sleeps = asleep(&timer, 100);
            clock.advance(10 * MS);
            assert_all_woken_once(&mut sleeps);
        }
    }
}

#[test]
fn a_shutdown_does_not_wait_for_futures_that_an_executor_has_not_begun_to_wake() {
    let (timer, clock, batches) = engine_with_batches();
    let mut sleeps = asleep(&timer, 10);
    clock.advance(10 * MS);
    let batch = batches.recv_timeout(PATIENCE).expect("they came up");
    assert!(timer.shutdown().expect("it is no task").is_empty());
    drop(timer);
    batch.run();
    assert_all_woken_once(&mut sleeps);
}
