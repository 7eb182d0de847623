//! Futures that sleep: polled by one thread and then by another, reset and dropped, while a worker
//! wakes them.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use tourbillon::{Sleep, Timer};

use crate::common::{Random, assert_counters_reconcile, eventually};
use crate::{Ledger, delay, few, let_threads_end, seeds, small, with_workers};

/// A task whose waker owns something that can be read when it is woken, and whose loss shows as a
/// leak.
struct Task {
    id: Box<usize>,
    woken: Sender<usize>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let _ = self.woken.send(*self.id);
    }
}

struct Tasks {
    woken: Sender<usize>,
    receive: Receiver<usize>,
}

impl Tasks {
    fn new() -> Self {
        let (woken, receive) = channel();
        Self { woken, receive }
    }

    fn waker(woken: &Sender<usize>, id: usize) -> Waker {
        Waker::from(Arc::new(Task { id: Box::new(id), woken: woken.clone() }))
    }
}

fn is_ready(sleep: &mut Sleep, waker: &Waker) -> bool {
    Pin::new(sleep).poll(&mut Context::from_waker(waker)).is_ready()
}

fn shut_down(timer: Timer) {
    // A sleep that was woken, or dropped while it rang, is counted when its batch is over.
    eventually("nothing is pending", || timer.stats().pending == 0);
    assert_counters_reconcile(&timer.stats());
    assert!(timer.shutdown().expect("the first").is_empty());
    drop(timer);
    let_threads_end();
}

/// Each is polled on one thread, then on another by a task of its own, which waits until it is
/// woken.
#[test]
fn sleeps_that_wander_wake_the_task_that_polled_last() {
    const LEN: usize = few(4, 100);
    for (seed, builder) in seeds().flat_map(|seed| with_workers().map(move |builder| (seed, builder))) {
        let timer = builder.build().expect("the options make sense");
        let mut random = Random::new(seed);
        let tasks = Tasks::new();
        let (send, wanderers) = channel::<(usize, Sleep)>();
        let waits = thread::spawn(move || {
            for (id, mut sleep) in wanderers {
                while !is_ready(&mut sleep, &Tasks::waker(&tasks.woken, id)) {
                    while tasks.receive.recv().expect("a thread wakes it") != id {}
                }
            }
        });
        for id in 0..LEN {
            let mut sleep = timer.sleep(Duration::from_micros(random.next() % 3_000));
            let (nobody, _) = channel();
            let _ = is_ready(&mut sleep, &Tasks::waker(&nobody, id));
            if id % 3 == 0 {
                sleep.reset(Duration::from_micros(random.next() % 3_000));
            }
            send.send((id, sleep)).expect("it listens");
        }
        drop(send);
        waits.join().expect("no panic");
        shut_down(timer);
    }
}

/// Makes sleeps, and drops, moves and polls them while earlier ones ring. Returns what is left.
fn stir(timer: &Timer, tasks: &Tasks, random: &mut Random, len: usize) -> Vec<Sleep> {
    let mut sleeps = Vec::new();
    for id in 0..len {
        let mut sleep = timer.sleep(Duration::from_micros(random.next() % 2_000));
        let _ = is_ready(&mut sleep, &Tasks::waker(&tasks.woken, id));
        sleeps.push(sleep);
        let at = random.below(sleeps.len());
        match random.below(4) {
            0 => drop(sleeps.swap_remove(at)),
            1 => sleeps[at].reset(Duration::from_micros(random.next() % 2_000)),
            2 => _ = is_ready(&mut sleeps[at], &Tasks::waker(&tasks.woken, id)),
            _ => sleeps[at].reset(Duration::from_secs(1)),
        }
    }
    sleeps
}

/// Dropped, moved and polled anew while they ring.
#[test]
fn sleeps_are_dropped_and_reset_while_they_ring() {
    const LEN: usize = few(6, 200);
    for (seed, builder) in seeds().flat_map(|seed| with_workers().map(move |builder| (seed, builder))) {
        let timer = builder.build().expect("the options make sense");
        let tasks = Tasks::new();
        drop(stir(&timer, &tasks, &mut Random::new(seed), LEN));
        shut_down(timer);
    }
}

/// In one thread, with a driver. A task among the sleeps runs as usual.
#[test]
fn sleeps_and_tasks_share_a_turn() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let (timer, mut driver, clock) = crate::common::driven_by(small());
        let tasks = Tasks::new();
        let len = few(8, 50);
        let ledger = Ledger::new(len);
        let mut sleeps: Vec<_> =
            (0..len).map(|_| timer.sleep(delay(&mut random).min(Duration::from_secs(1)))).collect();
        for (id, sleep) in sleeps.iter_mut().enumerate() {
            let _ = is_ready(sleep, &Tasks::waker(&tasks.woken, id));
            timer.schedule_detached(Duration::from_millis(id as u64), ledger.task(id)).expect("accepted");
        }
        clock.advance(Duration::from_secs(2));
        while driver.turn() > 0 {}
        for (id, sleep) in sleeps.iter_mut().enumerate() {
            assert!(is_ready(sleep, &Tasks::waker(&tasks.woken, id)));
        }
        drop(sleeps);
        ledger.assert_closed();
        assert_counters_reconcile(&timer.stats());
    }
}

/// The last reference to the engine is a future that was never polled, or one that is armed. The
/// engine's memory goes with it.
#[test]
fn the_last_future_takes_the_engine_with_it() {
    let clock = tourbillon::ManualClock::new();
    let (timer, driver) = small().shards(2).clock(clock).build_driven().expect("the options make sense");
    let (new, mut set) = (timer.sleep(Duration::from_secs(1)), timer.sleep(Duration::from_secs(1)));
    assert!(!is_ready(&mut set, Waker::noop()));
    drop((timer, driver));
    drop(new);
    drop(set);
    for builder in with_workers() {
        let timer = builder.build().expect("the options make sense");
        let new = timer.sleep(Duration::from_secs(1));
        drop(timer);
        thread::spawn(move || drop(new)).join().expect("no panic");
    }
    let_threads_end();
}

/// Futures of several threads, one of them armed, the timer and a handle go at once. One of them
/// frees the memory, after the others.
#[test]
fn futures_a_handle_and_the_timer_race_to_be_last() {
    for _ in 0..few(3, 300) {
        let clock = tourbillon::ManualClock::new();
        let (timer, driver) = small().shards(2).clock(clock).build_driven().expect("the options make sense");
        let sleep = |timer: &Timer| timer.sleep(Duration::from_secs(1));
        let handle = timer.schedule(Duration::from_secs(5), || ()).expect("open");
        let (new, mut set) = (sleep(&timer), sleep(&timer));
        assert!(!is_ready(&mut set, Waker::noop()));
        let other = timer.clone();
        let theirs = thread::spawn(move || [sleep(&other), sleep(&other)]).join().expect("no panic");
        drop(driver);
        let go = [
            thread::spawn(move || drop(new)),
            thread::spawn(move || drop(set)),
            thread::spawn(move || drop(theirs)),
            thread::spawn(move || drop(handle)),
        ];
        drop(timer);
        go.into_iter().for_each(|goes| goes.join().expect("no panic"));
    }
}

/// Makes futures in its thread's teardown, when the thread has no state of its own left, and drops
/// the timer then.
struct Late(RefCell<Option<(Timer, Sender<Sleep>)>>);

impl Drop for Late {
    fn drop(&mut self) {
        let (timer, send) = self.0.take().expect("it was set");
        let mut set = timer.sleep(Duration::from_millis(1));
        let _ = is_ready(&mut set, Waker::noop());
        for sleep in [set, timer.sleep(Duration::from_secs(1))] {
            let _ = send.send(sleep);
        }
    }
}

thread_local! {
    static LATE: Late = const { Late(RefCell::new(None)) };
}

/// A future keeps the engine also if a thread in teardown made it. It ends the engine wherever it
/// is dropped: on another thread, or in a task.
#[test]
fn futures_of_a_thread_that_ends_keep_the_engine_and_end_it() {
    for builder in with_workers() {
        let timer = builder.build().expect("the options make sense");
        let (send, sleeps) = channel();
        let of_late = timer.clone();
        let late = thread::spawn(move || {
            // Set up before the engine's own thread-local, so that it is dropped after it.
            LATE.with(|late| *late.0.borrow_mut() = Some((of_late.clone(), send)));
            drop(of_late.sleep(Duration::from_millis(1)));
        });
        let of_task = (timer.clone(), timer.sleep(Duration::from_secs(1)));
        timer.schedule_detached(Duration::from_millis(1), move || drop(of_task)).expect("open");
        let other = thread::spawn(move || drop(timer));
        for sleep in sleeps {
            thread::spawn(move || drop(sleep)).join().expect("no panic");
        }
        late.join().expect("no panic");
        other.join().expect("no panic");
    }
    let_threads_end();
}
