//! A timeout can be cancelled, put off and handed back until its own task begins, also when it is
//! due and on its way to a thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tourbillon::{Builder, Inline, Refusal, Shutdown, ThreadPool, Timeout, Timer};

use crate::common::{Drops, HOUR, HandedOver, MS, Rig, Runs, assert_counters_reconcile, eventually};

/// More than two batches.
const MANY: usize = 600;

/// Returns an engine of each kind, which runs one task at a time.
fn each_in_turn(builder: impl Fn() -> Builder) -> [Rig; 3] {
    let pool = builder().executor(ThreadPool::new(1));
    [Rig::driven(builder()), Rig::inline(builder()), Rig::on(pool, "a pool of one")]
}

/// Schedules timeouts that are due at once. Of their tasks the one that runs first does `first` to
/// all handles, its own included.
fn schedule_together(timer: &Timer, runs: &Runs, first: impl Fn(&[Timeout]) + Send + Sync + 'static) {
    let (handles, first) = (Arc::new(Mutex::new(Vec::new())), Arc::new(first));
    let is_first = Arc::new(AtomicBool::new(true));
    let mut made = Vec::new();
    for id in 0..MANY {
        let (run, handles, first, is_first) =
            (runs.task(id), Arc::clone(&handles), Arc::clone(&first), Arc::clone(&is_first));
        let task = move || {
            if is_first.swap(false, Ordering::Relaxed) {
                first(&handles.lock().expect("no panic"));
            }
            run();
        };
        made.push(timer.schedule(MS, task).expect("accepted"));
    }
    *handles.lock().expect("no panic") = made;
}

#[test]
fn a_task_cancels_all_that_are_due_with_it() {
    for mut rig in each_in_turn(Timer::builder) {
        let (runs, won) = (Runs::new(MANY), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&won);
        schedule_together(&rig.timer, &runs, move |all| {
            count.store(all.iter().filter(|timeout| timeout.cancel()).count(), Ordering::Relaxed);
        });
        rig.advance(MS);
        assert_eq!((won.load(Ordering::Relaxed), runs.total()), (MANY - 1, 1), "{}", rig.kind);
        let stats = rig.timer.stats();
        assert_eq!((stats.fired, stats.cancelled, stats.pending), (1, MANY as u64 - 1, 0), "{}", rig.kind);
        assert_counters_reconcile(&stats);
    }
}

#[test]
fn a_task_puts_off_all_that_are_due_with_it_and_they_run_at_the_new_deadline() {
    for mut rig in each_in_turn(Timer::builder) {
        let (runs, put_off) = (Runs::new(MANY), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&put_off);
        schedule_together(&rig.timer, &runs, move |all| {
            count.store(all.iter().filter(|timeout| timeout.reset(10 * MS)).count(), Ordering::Relaxed);
        });
        rig.advance(MS);
        assert_eq!((put_off.load(Ordering::Relaxed), runs.total()), (MANY - 1, 1), "{}", rig.kind);
        rig.advance(9 * MS);
        assert_eq!((runs.total(), rig.timer.pending()), (1, MANY - 1), "early, {}", rig.kind);
        rig.advance(MS);
        runs.assert_each_ran_once();
        assert_counters_reconcile(&rig.timer.stats());
    }
}

#[test]
fn guards_cancel_all_that_are_due_with_the_task_that_drops_them() {
    for mut rig in each_in_turn(Timer::builder) {
        let (guards, runs) = (Arc::new(Mutex::new(Vec::new())), Runs::new(MANY));
        for id in 0..MANY {
            let (run, own) = (runs.task(id), Arc::clone(&guards));
            let task = move || {
                run();
                own.lock().expect("no panic").clear();
            };
            let guard = rig.timer.schedule(MS, task).expect("accepted").cancel_on_drop();
            guards.lock().expect("no panic").push(guard);
        }
        rig.advance(MS);
        assert_eq!((runs.total(), rig.timer.pending(), rig.timer.stats().panicked), (1, 0, 0), "{}", rig.kind);
    }
}

/// Makes very many timeouts due together, each of which takes a millisecond, and calls `end` when
/// the first has begun. Returns how many have run, after `end`.
fn end_in_the_midst(timer: &Timer, is_periodic: bool, end: impl FnOnce()) -> (usize, Drops) {
    const VERY_MANY: usize = 5_000;
    let (runs, drops, (begun, begins)) = (Arc::new(AtomicUsize::new(0)), Drops::default(), channel());
    for _ in 0..VERY_MANY {
        let (runs, witness, begun) = (Arc::clone(&runs), drops.witness(), begun.clone());
        let task = move || {
            let _ = &witness;
            runs.fetch_add(1, Ordering::SeqCst);
            let _ = begun.send(());
            thread::sleep(MS);
        };
        if is_periodic {
            drop(timer.schedule_at_fixed_rate(20 * MS, HOUR, task).expect("accepted"));
        } else {
            timer.schedule_detached(20 * MS, task).expect("accepted");
        }
    }
    begins.recv().expect("the first begins");
    end();
    (runs.load(Ordering::SeqCst), drops)
}

#[test]
fn a_shutdown_hands_back_what_is_due_and_has_not_begun() {
    for is_periodic in [false, true] {
        for builder in [Timer::builder().executor(Inline), Timer::builder().executor(ThreadPool::new(1))] {
            let timer = builder.build().expect("the options make sense");
            let mut left = Vec::new();
            let (ran, _) = end_in_the_midst(&timer, is_periodic, || left = timer.shutdown().expect("the first"));
            let stats = timer.stats();
            assert!(left.len() > 1_000, "{} of 5,000 left, {ran} have run", left.len());
            assert_eq!((stats.fired, stats.pending), (ran as u64, 0));
            let ended = if is_periodic { 5_000 } else { 5_000 - ran };
            assert!((5_000 - ran..=ended).contains(&left.len()), "{} left, {ran} have run", left.len());
            assert_counters_reconcile(&stats);
        }
    }
}

#[test]
fn a_shutdown_on_another_thread_ends_a_turn_that_is_under_way() {
    let (timer, mut driver) = Timer::builder().build_driven().expect("the options make sense");
    let (theirs, (ended, ends)) = (timer.clone(), channel());
    let captured = Mutex::new(WaitsFor(ends));
    driver.on_earlier(move || _ = &captured);
    let turning = thread::spawn(move || {
        while !theirs.is_shutdown() {
            driver.turn();
            thread::yield_now();
        }
        // At once, while the shutdown still waits for the end of the turn.
        drop(driver);
    });
    let mut left = Vec::new();
    let (ran, _) = end_in_the_midst(&timer, false, || left = timer.shutdown().expect("the first"));
    assert!(left.len() > 1_000 && left.len() + ran == 5_000, "{} left, {ran} have run", left.len());
    ended.send(()).expect("the callback waits, or is about to");
    turning.join().expect("no panic");
}

#[test]
fn nothing_is_lost_if_a_driver_goes_while_a_shutdown_waits_for_its_turn() {
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(Duration::ZERO)] {
        let (timer, mut driver) = Timer::builder().build_driven().expect("the options make sense");
        let (runs, (begun, begins)) = (Arc::new(AtomicUsize::new(0)), channel());
        for delay in [[20 * MS; 19].as_slice(), &[HOUR]].concat() {
            let (runs, begun) = (Arc::clone(&runs), begun.clone());
            let task = move || {
                runs.fetch_add(1, Ordering::SeqCst);
                let _ = begun.send(());
                thread::sleep(MS);
            };
            timer.schedule_detached(delay, task).expect("accepted");
        }
        let theirs = timer.clone();
        let turning = thread::spawn(move || {
            while !theirs.is_shutdown() {
                driver.turn();
                thread::yield_now();
            }
            drop(driver);
        });
        begins.recv().expect("the first begins");
        let left = timer.shutdown_with(how).expect("the first").len();
        assert_eq!(runs.load(Ordering::SeqCst) + left, 20, "{how:?}: {left} left");
        turning.join().expect("no panic");
    }
}

/// A value that a callback captures. Its drop waits until another thread sends, after a shutdown.
struct WaitsFor(Receiver<()>);

impl Drop for WaitsFor {
    fn drop(&mut self) {
        self.0.recv().expect("the test sends");
    }
}

#[test]
fn when_the_last_timer_goes_what_has_not_begun_is_dropped_unrun() {
    for builder in [Timer::builder().executor(Inline), Timer::builder().executor(ThreadPool::new(1))] {
        let mut timer = Some(builder.build().expect("the options make sense"));
        let (ran, drops) = end_in_the_midst(&timer.clone().expect("it is there"), false, || drop(timer.take()));
        eventually("all are dropped", || drops.count() == 5_000);
        assert!(ran < 4_000, "{ran} of 5,000 have run");
    }
}

#[test]
fn the_place_of_a_timeout_is_free_when_its_task_begins_and_not_before() {
    let (timer, handed_over) = HandedOver::limited(3, ThreadPool::new(1));
    let ((begun, begins), (end, ends)) = (channel(), channel::<()>());
    let ends = Arc::new(Mutex::new(ends));
    for _ in 0..3 {
        let (begun, ends) = (begun.clone(), Arc::clone(&ends));
        let task = move || {
            begun.send(()).expect("the test waits");
            let _ = ends.lock().expect("no panic").recv();
        };
        timer.schedule_detached(Duration::ZERO, task).expect("room");
    }
    begins.recv().expect("the first begins");
    eventually("all three are due", || handed_over.get() == 3);
    assert_eq!(timer.pending(), 2);
    timer.schedule_detached(HOUR, || ()).expect("the place of the task that has begun");
    let refused = timer.schedule_detached(HOUR, || ()).expect_err("two wait for the thread");
    assert_eq!(refused.kind(), Refusal::Full);
    end.send(()).expect("the task waits");
    begins.recv().expect("the second begins");
    timer.schedule_detached(HOUR, || ()).expect("its place");
    drop(end);
}
