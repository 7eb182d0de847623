//! Waiting for a worker that is far behind: nobody waits in vain, or for one that waits for it. A
//! call that did would take an hour here.

use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Inline, Timeout, Timer};

use crate::common::{HOUR, MS, block, built, eventually, in_time};
use crate::shard_of;

/// More than may be cancelled before a call waits.
const GARBAGE: usize = 20_000;

fn engine(shards: usize) -> Timer {
    Timer::builder().shards(shards).executor(Inline).max_wait(HOUR).build().expect("the options make sense")
}

fn linked(timer: &Timer) -> usize {
    timer.stats().shards.iter().map(|shard| usize::try_from(shard.linked).expect("64 bits")).sum()
}

/// Schedules timeouts on the calling thread's shard, and returns them when they are in the wheel.
fn schedule_linked(timer: &Timer, how_many: usize) -> Vec<Timeout> {
    let before = linked(timer);
    let timeouts = (0..how_many).map(|_| timer.schedule(2 * HOUR, || ()).expect("accepted")).collect();
    timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
    eventually("all are linked", || linked(timer) >= before + how_many);
    timeouts
}

/// Blocks the worker of the calling thread's shard, until the returned value is dropped.
fn block_worker(timer: &Timer) -> Sender<()> {
    block(|task| timer.schedule_detached(Duration::ZERO, task).expect("accepted"))
}

fn cancel_all(timeouts: impl IntoIterator<Item = Timeout>) {
    timeouts.into_iter().for_each(|timeout| assert!(timeout.cancel()));
}

#[test]
fn a_call_that_waits_wakes_a_worker_that_sleeps() {
    // With memory for all of them: while its worker is far behind, an engine grows by little.
    let timer = built(Timer::builder().shards(1).executor(Inline).max_wait(HOUR).capacity(60_000));
    // So that the worker sleeps until then, and no reset below wakes it.
    timer.schedule_detached(HOUR / 6, || ()).expect("accepted");
    drop(schedule_linked(&timer, 40_000));
    // Nearly all memory is used: the rest is for the timeouts that wait in the inbox.
    let room = timer.stats().capacity - 40_001;
    let mut timeouts = schedule_linked(&timer, room - 7_000 - 200);
    thread::sleep(100 * MS);
    cancel_all(timeouts.drain(..8_191));
    for _ in 0..7_000 {
        timer.schedule_detached(2 * HOUR, || ()).expect("accepted");
    }
    timeouts[..2_000].iter().for_each(|timeout| assert!(timeout.reset(HOUR)));
    let (own, wakeups) = (timer.clone(), timer.stats().wakeups);
    in_time("schedules that need memory", move || {
        (0..1_000).for_each(|_| own.schedule_detached(2 * HOUR, || ()).expect("accepted"));
        assert!(own.stats().waits > 0, "there was memory enough: the test tests nothing");
    });
    eventually("the worker was woken, and not taken for stuck", || timer.stats().wakeups > wakeups);
}

#[test]
fn the_tasks_of_two_workers_do_not_wait_for_each_others_worker() {
    let timer = engine(2);
    let other = (1..).find(|key| shard_of(&timer, key) != shard_of(&timer, &0)).expect("two shards");
    let keys = [0, other];
    let mut garbage = Vec::new();
    let kept = keys.map(|key| {
        let schedule = || timer.shard_for(&key).schedule(2 * HOUR, || ()).expect("accepted");
        garbage.extend((0..GARBAGE).map(|_| schedule()));
        let kept: Vec<_> = (0..1_000).map(|_| schedule()).collect();
        timer.shard_for(&key).schedule_detached(Duration::ZERO, || ()).expect("accepted");
        kept
    });
    eventually("all are linked", || linked(&timer) >= 2 * (GARBAGE + 1_000));
    let (begun, go) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    let (done, are_done) = channel();
    let [mine, theirs] = kept;
    for (key, of_the_other) in [(keys[0], theirs), (keys[1], mine)] {
        let (begun, go, done, own) = (Arc::clone(&begun), Arc::clone(&go), done.clone(), timer.clone());
        let task = move || {
            begun.wait();
            go.wait();
            for timeout in &of_the_other {
                assert!(timeout.reset(HOUR));
                let shard = own.shard_for(if key == 0 { &other } else { &0 });
                shard.schedule_detached(HOUR, || ()).expect("accepted");
            }
            done.send(()).expect("the test waits");
        };
        timer.shard_for(&key).schedule_detached(Duration::ZERO, task).expect("accepted");
    }
    begun.wait();
    cancel_all(garbage);
    go.wait();
    in_time("both tasks", move || (0..2).for_each(|_| are_done.recv().expect("a task ends")));
}

#[test]
fn to_arm_a_reusable_timeout_does_not_wait_while_its_run_waits_for_the_lock() {
    let timer = engine(1);
    let mut timeouts = schedule_linked(&timer, GARBAGE + 3_000);
    let (tell, has_run) = channel();
    let reusable = timer.reusable(move || tell.send(()).expect("the test waits")).expect("accepted");
    let due = Instant::now() + 1_000 * MS;
    reusable.arm_at(due).expect("accepted");
    drop(schedule_linked(&timer, 1));
    // In the turn with the task that blocks these are left to collect. So it looks at the clock,
    // and runs what is due, before it takes the others out of their queue.
    cancel_all(timeouts.drain(..3_000));
    let end = block_worker(&timer);
    cancel_all(timeouts);
    // On a thread that has no free memory, so it waits.
    let arming = thread::spawn(move || {
        reusable.arm_at(due - 500 * MS).expect("accepted");
        reusable
    });
    thread::sleep(due.saturating_duration_since(Instant::now()) + 20 * MS);
    drop(end);
    let reusable = in_time("the arming", move || arming.join().expect("no panic"));
    in_time("the run", move || has_run.recv().expect("it runs"));
    drop(reusable);
}

#[test]
fn a_reset_by_a_thread_that_ends_does_not_wait() {
    struct Last(Option<Timeout>, Sender<bool>);
    impl Drop for Last {
        fn drop(&mut self) {
            let timeout = self.0.take().expect("it is set once");
            self.1.send(timeout.reset(HOUR)).expect("the test waits");
        }
    }
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });

    let timer = engine(1);
    let mut timeouts = schedule_linked(&timer, GARBAGE + 1);
    let timeout = timeouts.pop().expect("one more");
    let end = block_worker(&timer);
    cancel_all(timeouts);
    let (tell, was_reset) = channel();
    // The thread-local is made before the engine's, and so destroyed after it.
    let thread = thread::spawn(move || {
        LAST.with(|last| *last.borrow_mut() = Some(Last(Some(timeout), tell)));
        LAST.with(|last| {
            assert!(last.borrow().as_ref().is_some_and(|last| last.0.as_ref().is_some_and(|t| t.reset(3 * HOUR))))
        });
    });
    let was_reset = in_time("the reset", move || was_reset.recv().expect("the thread ends"));
    assert!(was_reset);
    in_time("the thread", move || thread.join().expect("no panic"));
    drop(end);
}

#[test]
fn nobody_waits_for_long_for_a_worker_that_does_not_move() {
    let timer = built(Timer::builder().shards(1).executor(Inline).max_wait(Duration::MAX));
    let garbage = schedule_linked(&timer, GARBAGE);
    let end = block_worker(&timer);
    cancel_all(garbage);
    let own = timer.clone();
    in_time("schedules that need memory", move || {
        (0..2_000).for_each(|_| own.schedule_detached(HOUR, || ()).expect("accepted"));
        assert!(own.stats().waits > 0, "there was memory enough: the test tests nothing");
    });
    drop(end);
}

#[test]
fn a_task_of_a_driven_engine_waits_for_no_worker_that_waits_for_its_turn() {
    let other = engine(1);
    let garbage = schedule_linked(&other, GARBAGE);
    let (timer, mut driver) = Timer::builder().build_driven().expect("the options make sense");
    let (busy, driven) = (other.clone(), timer.clone());
    let task = move || {
        let (begun, has_begun) = channel();
        let shut_down = move || {
            begun.send(()).expect("the task waits");
            driven.shutdown().expect("the first");
        };
        busy.schedule_detached(Duration::ZERO, shut_down).expect("accepted");
        has_begun.recv().expect("it runs");
        cancel_all(garbage);
        (0..2_000).for_each(|_| busy.schedule_detached(HOUR, || ()).expect("accepted"));
    };
    timer.schedule_detached(Duration::ZERO, task).expect("accepted");
    in_time("the turn", move || driver.turn());
    assert_eq!(other.stats().waits, 0);
}
