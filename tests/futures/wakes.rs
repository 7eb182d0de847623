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

/// An engine whose batches of sleepers come out of a channel.
type WithBatches = (Timer, ManualClock, Receiver<Expired>);

fn engine_with_batches() -> WithBatches {
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

/// Returns futures that have come up, and the batch that waits to wake them.
fn waiting(n: usize) -> (WithBatches, Vec<(Sleep, Task)>, Expired) {
    let (timer, clock, batches) = engine_with_batches();
    let sleeps = asleep(&timer, n);
    clock.advance(10 * MS);
    let batch = batches.recv_timeout(PATIENCE).expect("they came up");
    ((timer, clock, batches), sleeps, batch)
}

fn assert_all_woken_once(sleeps: &mut [(Sleep, Task)]) {
    for (sleep, task) in sleeps {
        eventually("it is woken", || task.woken() == 1);
        assert_eq!(task.poll(sleep), Poll::Ready(()));
    }
}

#[test]
fn an_executor_gets_all_futures_of_a_turn_in_one_batch_and_none_is_woken_before_it_runs() {
    // More than a batch of tasks holds.
    let ((_timer, _clock, batches), mut sleeps, batch) = waiting(1000);
    assert_eq!(batch.len(), 1000);
    assert!(sleeps.iter().all(|(_, task)| task.woken() == 0));
    batch.run();
    assert_all_woken_once(&mut sleeps);
    assert!(batches.try_recv().is_err(), "there was one batch");
}

#[test]
fn a_future_that_is_dropped_while_its_batch_waits_leaves_nothing_behind_and_costs_no_other() {
    let (_engine, mut sleeps, batch) = waiting(10);
    // The first, one in the middle, and the last.
    let gone: Vec<_> = [9, 4, 0].map(|index| sleeps.remove(index).1).into();
    batch.run();
    // It may be woken for nothing, as any task may.
    assert!(gone.iter().all(Task::is_forgotten));
    assert_all_woken_once(&mut sleeps);
}

#[test]
fn a_future_that_is_polled_while_its_batch_waits_is_ready() {
    let (_engine, mut sleeps, batch) = waiting(2);
    let (sleep, task) = &mut sleeps[0];
    assert_eq!(task.poll(sleep), Poll::Ready(()));
    batch.run();
    assert_eq!(sleeps[1].1.woken(), 1);
}

#[test]
fn a_future_that_is_reset_while_its_batch_waits_sleeps_until_its_new_deadline_and_is_woken_then() {
    let ((timer, clock, batches), mut sleeps, first) = waiting(3);
    // One is polled before the batch runs, and one when the batch has woken it.
    sleeps.iter_mut().for_each(|(sleep, _)| sleep.reset(10 * MS));
    assert!(sleeps.iter().all(|(sleep, _)| !sleep.is_elapsed()));
    let poll = |(sleep, task): &mut (Sleep, Task)| task.poll(sleep);
    assert!(poll(&mut sleeps[0]).is_pending());
    first.run();
    assert!(sleeps.iter().all(|(_, task)| task.woken() == 1));
    assert!(sleeps[1..].iter_mut().all(|sleep| poll(sleep).is_pending()));
    clock.advance(10 * MS);
    batches.recv_timeout(PATIENCE).expect("they came up again").run();
    let seen: Vec<_> = sleeps.iter_mut().map(|sleep| (sleep.1.woken(), poll(sleep).is_ready())).collect();
    assert_eq!(seen, [(1, true); 3]);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.completed, stats.caller_ran), (6, 6, 0));
}

#[test]
fn futures_that_a_shutdown_ends_come_in_a_batch_as_others_do_and_it_outlives_them_and_the_engine() {
    let (timer, _clock, batches) = engine_with_batches();
    let (mut sleeps, gone) = (asleep(&timer, 10), asleep(&timer, 10));
    assert!(timer.shutdown().expect("it is no task").is_empty());
    let batch = batches.recv_timeout(PATIENCE).expect("a shutdown ends them");
    assert_eq!(batch.len(), 20);
    // The thread that made them could use their entries again. It does not while they are in the
    // batch.
    let gone: Vec<_> = gone.into_iter().map(|(_, task)| task).collect();
    assert!(timer.schedule(MS, || ()).is_err());
    drop(timer);
    batch.run();
    assert!(gone.iter().all(Task::is_forgotten));
    assert_all_woken_once(&mut sleeps);
    assert!(sleeps.iter().all(|(sleep, _)| sleep.ended_by_shutdown()));
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
    let ((timer, _clock, _batches), mut sleeps, batch) = waiting(10);
    assert!(timer.shutdown().expect("it is no task").is_empty());
    drop(timer);
    batch.run();
    assert_all_woken_once(&mut sleeps);
}
