//! `Reusable`: a timeout that is armed and disarmed again and again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use tourbillon::{Inline, Refusal, Reusable, Shutdown, ThreadPool, Timer};

use crate::common::{
    Counter, Drops, HOUR, MS, Rig, Times, assert_counters_reconcile, driven, driven_by, eventually, in_time,
    on_workers, settle,
};

/// A timeout of each kind of engine that notes its runs.
fn each(check: impl Fn(&mut Rig, &Reusable, &Times)) {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let reusable = rig.timer.reusable(times.task()).expect("accepted");
        check(&mut rig, &reusable, &times);
        drop(reusable);
        assert_eq!(rig.timer.pending(), 0, "{}", rig.kind);
        assert_counters_reconcile(&rig.timer.stats());
    }
}

#[test]
fn it_is_pending_only_while_it_is_armed() {
    each(|rig, reusable, times| {
        assert!(rig.timer.pending() == 0 && !reusable.is_armed() && !reusable.disarm());
        reusable.arm(2 * MS).expect("accepted");
        assert!(rig.timer.pending() == 1 && reusable.is_armed());
        rig.advance(2 * MS);
        assert!(rig.timer.pending() == 0 && !reusable.is_armed() && !reusable.disarm());
        assert_eq!(times.in_ms(), [2], "{}", rig.kind);
    });
}

#[test]
fn an_arming_moves_it_to_later_and_to_earlier_and_it_runs_once() {
    each(|rig, reusable, times| {
        reusable.arm(5 * MS).expect("accepted");
        rig.advance(4 * MS);
        reusable.arm(5 * MS).expect("accepted");
        assert_eq!(rig.timer.pending(), 1, "{}", rig.kind);
        rig.advance(4 * MS);
        reusable.arm_at(rig.clock.now() + HOUR).expect("accepted");
        reusable.arm(2 * MS).expect("accepted");
        rig.advance(20 * MS);
        assert_eq!((times.count(), rig.timer.pending()), (1, 0), "{}", rig.kind);
    });
}

#[test]
fn it_may_be_armed_again_after_it_fired_and_after_it_was_disarmed() {
    each(|rig, reusable, times| {
        for round in 1..=10 {
            reusable.arm(MS).expect("accepted");
            assert!(reusable.disarm() && !reusable.disarm());
            rig.advance(MS);
            reusable.arm(MS).expect("accepted");
            rig.advance(MS);
            assert_eq!(times.count(), round, "{}", rig.kind);
        }
    });
}

#[test]
fn a_deadline_that_has_passed_runs_it_at_once() {
    each(|rig, reusable, times| {
        rig.advance(10 * MS);
        reusable.arm_at(rig.clock.now() - 5 * MS).expect("accepted");
        rig.advance(Duration::ZERO);
        assert_eq!(times.count(), 1, "{}", rig.kind);
    });
}

#[test]
fn a_due_timeout_that_has_not_begun_may_be_disarmed_and_armed_by_a_sibling() {
    let (timer, mut driver, clock) = driven();
    let own: Arc<OnceLock<[Reusable; 2]>> = Arc::default();
    let siblings = Arc::clone(&own);
    let change = move || {
        let [disarmed, put_off] = siblings.get().expect("set");
        assert!(disarmed.disarm());
        put_off.arm(HOUR).expect("accepted");
    };
    timer.schedule_detached(MS, change).expect("accepted");
    let times = Times::on(&clock);
    let make = || {
        let reusable = timer.reusable(times.task()).expect("accepted");
        reusable.arm(MS).expect("accepted");
        reusable
    };
    own.set([make(), make()]).expect("once");
    clock.advance(MS);
    settle(&mut driver, &clock);
    assert_eq!((times.count(), timer.pending()), (0, 1));
    clock.advance(HOUR);
    settle(&mut driver, &clock);
    assert_eq!(times.count(), 1);
}

#[test]
fn a_task_may_arm_its_own_timeout_again() {
    let (timer, mut driver, clock) = driven();
    let own: Arc<OnceLock<Reusable>> = Arc::default();
    let (mine, times) = (Arc::clone(&own), Times::on(&clock));
    let noted = times.clone();
    let again = move || {
        noted.note();
        if noted.count() < 3 {
            mine.get().expect("set").arm(2 * MS).expect("accepted");
        }
    };
    own.set(timer.reusable(again).expect("accepted")).expect("once");
    own.get().expect("set").arm(MS).expect("accepted");
    for _ in 0..10 {
        clock.advance(MS);
        settle(&mut driver, &clock);
    }
    assert_eq!(times.in_ms(), [1, 3, 5]);
}

#[test]
fn an_arming_in_a_run_takes_effect_after_it_and_its_runs_never_overlap() {
    let timer = Timer::new().expect("defaults");
    let (begun, begins) = channel();
    let (go_on, goes_on) = channel();
    let running = AtomicBool::new(false);
    let task = move || {
        assert!(!running.swap(true, Ordering::SeqCst), "two runs overlap");
        begun.send(()).expect("the test waits");
        goes_on.recv().expect("the test says so");
        running.store(false, Ordering::SeqCst);
    };
    let reusable = timer.reusable(task).expect("accepted");
    reusable.arm(Duration::ZERO).expect("accepted");
    begins.recv().expect("it runs");
    // This one is disarmed while it waits for the end of the run.
    reusable.arm(Duration::ZERO).expect("accepted");
    eventually("it is due", || timer.pending() == 0);
    assert!(reusable.disarm() && !reusable.is_armed());
    reusable.arm(Duration::ZERO).expect("accepted");
    eventually("it is due", || timer.pending() == 0);
    assert!(reusable.is_armed(), "its run has not begun");
    go_on.send(()).expect("it waits");
    begins.recv().expect("it runs again");
    assert!(!reusable.is_armed());
    go_on.send(()).expect("it waits");
    in_time("a shutdown", move || timer.shutdown().expect("the first"));
    assert!(begins.try_recv().is_err(), "it ran twice and no more");
}

#[test]
fn a_disarm_that_returned_true_begins_no_run_whatever_other_threads_do() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 1_000 };
    let timer = Timer::builder().tick_duration(Duration::from_micros(50)).build().expect("the options make sense");
    let runs = Counter::default();
    let reusable = timer.reusable(runs.task()).expect("accepted");
    let mut expected = 0;
    for round in 0..ROUNDS {
        // It comes due while it is disarmed.
        reusable.arm(Duration::from_micros(round as u64 % 100)).expect("accepted");
        if round % 3 == 0 {
            thread::yield_now();
        }
        if !reusable.disarm() {
            expected += 1;
            eventually("the run that has begun", || runs.get() >= expected);
        }
        assert_eq!(runs.get(), expected, "round {round}");
    }
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    if round % 2 == 0 { reusable.arm(Duration::ZERO).expect("accepted") } else { _ = reusable.disarm() }
                }
            });
        }
    });
    reusable.disarm();
    let left = timer.shutdown().expect("the first");
    assert!(left.is_empty() && !reusable.is_armed());
    assert!(runs.get() <= expected + 3 * ROUNDS, "one run for each arming at most");
}

#[test]
fn dropping_it_disarms_it_and_drops_the_task() {
    let (timer, mut driver, clock) = driven();
    let drops = Drops::default();
    let witness = drops.witness();
    let reusable = timer.reusable(move || unreachable!("{}", size_of_val(&witness))).expect("accepted");
    reusable.arm(MS).expect("accepted");
    drop(reusable);
    assert_eq!((timer.pending(), drops.count()), (0, 1));
    clock.advance(HOUR);
    assert_eq!(settle(&mut driver, &clock), 0);
}

#[test]
fn it_keeps_its_engine_as_a_future_does() {
    let (send, receive) = channel();
    let reusable = Timer::new().expect("defaults").reusable(move || send.send(()).expect("the test waits"));
    let reusable = reusable.expect("accepted");
    reusable.arm(MS).expect("accepted");
    in_time("its run", move || receive.recv()).expect("it runs");
}

#[test]
fn a_shutdown_hands_it_back_and_it_is_not_armed_again() {
    each(|rig, reusable, times| {
        reusable.arm(HOUR).expect("accepted");
        let left = rig.timer.shutdown().expect("the first");
        assert!(left.len() == 1 && !reusable.is_armed());
        assert_eq!(reusable.arm(MS), Err(Refusal::Shutdown));
        left.into_iter().for_each(|left| left.run());
        assert_eq!(times.count(), 1, "{}", rig.kind);
        let refused = rig.timer.reusable(|| ()).expect_err("it is shut down");
        assert_eq!(refused.kind(), Refusal::Shutdown);
        refused.into_inner()();
    });
}

#[test]
fn an_arming_that_is_refused_changes_nothing() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().max_pending_timeouts(1));
    let times = Times::on(&clock);
    let reusable = timer.reusable(times.task()).expect("it takes no place before it is armed");
    let other = timer.schedule(HOUR, || ()).expect("accepted");
    assert_eq!(reusable.arm(MS), Err(Refusal::Full));
    assert!(!reusable.is_armed() && other.cancel());
    reusable.arm(MS).expect("there is a place");
    reusable.arm(2 * MS).expect("it has its place");
    clock.advance(2 * MS);
    settle(&mut driver, &clock);
    assert_eq!(times.in_ms(), [2]);
}

#[test]
fn a_panic_is_counted_and_it_may_be_armed_again() {
    let (timer, clock) = on_workers(Timer::builder().executor(Inline));
    let times = Times::on(&clock);
    let noted = times.clone();
    let task = move || {
        noted.note();
        assert_ne!(noted.count(), 1, "on purpose");
    };
    let reusable = timer.reusable(task).expect("accepted");
    for _ in 0..2 {
        reusable.arm(MS).expect("accepted");
        clock.advance(MS);
    }
    assert_eq!((times.count(), timer.stats().panicked), (2, 1));
}

#[test]
fn an_arming_that_comes_due_in_a_run_begins_no_run_after_a_shutdown_that_cancels() {
    let timer = Timer::new().expect("defaults");
    let (begun, begins) = channel();
    let (go_on, goes_on) = channel();
    let task = move || {
        begun.send(()).expect("the test waits");
        goes_on.recv().expect("the test says so");
    };
    let reusable = timer.reusable(task).expect("accepted");
    reusable.arm(Duration::ZERO).expect("accepted");
    begins.recv().expect("it runs");
    reusable.arm(Duration::ZERO).expect("accepted");
    // One of the two has ended: it has left its run to the other.
    eventually("it waits for the end of the run", || timer.stats().completed == 1);
    let own = timer.clone();
    let ending = thread::spawn(move || own.shutdown().expect("the first").len());
    eventually("the engine is closed", || timer.is_shutdown());
    go_on.send(()).expect("it waits");
    assert_eq!(in_time("a shutdown", || ending.join().expect("no panic")), 0);
    assert!(begins.try_recv().is_err() && !reusable.is_armed() && !reusable.disarm());
}

#[test]
fn a_task_that_arms_itself_again_and_again_lets_others_have_their_turn() {
    let timer = Timer::builder().executor(ThreadPool::new(2)).build().expect("the options make sense");
    let own: Arc<OnceLock<Reusable>> = Arc::default();
    let stops = Arc::new(AtomicBool::new(false));
    let (mine, stopped) = (Arc::downgrade(&own), Arc::clone(&stops));
    let task = move || {
        if let Some(mine) = mine.upgrade().filter(|_| !stopped.load(Ordering::SeqCst)) {
            mine.get().expect("set").arm(Duration::ZERO).expect("accepted");
            thread::sleep(5 * MS);
        }
    };
    own.set(timer.reusable(task).expect("accepted")).expect("once");
    let at = timer.now() + 50 * MS;
    own.get().expect("set").arm_at(at).expect("accepted");
    let others = Counter::default();
    for _ in 0..5 {
        assert!(timer.schedule_at(at, others.task()).expect("accepted").deadline() >= at);
    }
    eventually("the others", || others.get() == 5);
    stops.store(true, Ordering::SeqCst);
}

#[test]
fn after_a_shutdown_it_is_neither_armed_nor_disarmed() {
    let (timer, _driver, _clock) = driven();
    let reusable = timer.reusable(|| ()).expect("accepted");
    reusable.arm(HOUR).expect("accepted");
    drop(timer.shutdown().expect("the first"));
    assert!(!reusable.is_armed() && !reusable.disarm());
}

/// A timeout on a pool, whose runs end when the test says so.
struct Gated {
    timer: Timer,
    reusable: Reusable,
    begun: Arc<AtomicUsize>,
    end: std::sync::mpsc::Sender<()>,
}

impl Gated {
    fn new(timer: Timer, at_end: fn()) -> Self {
        let (begun, (end, ends)) = (Arc::new(AtomicUsize::new(0)), channel());
        let begins = Arc::clone(&begun);
        let task = move || {
            begins.fetch_add(1, Ordering::SeqCst);
            ends.recv().expect("the test says when");
            at_end();
        };
        let reusable = timer.reusable(task).expect("accepted");
        Self { timer, reusable, begun, end }
    }

    fn wait_for_run(&self, number: usize) {
        eventually("a run begins", || self.begun.load(Ordering::SeqCst) == number);
    }

    /// Lets it come due while its first run is under way.
    fn with_a_run_that_waits(self) -> Self {
        self.reusable.arm(Duration::ZERO).expect("accepted");
        self.wait_for_run(1);
        self.reusable.arm(MS).expect("accepted");
        eventually("it has fired", || self.timer.stats().fired == 2);
        self
    }

    fn end_run(&self) {
        self.end.send(()).expect("a run waits");
    }
}

#[test]
fn an_arming_that_came_due_during_a_run_runs_though_the_engine_drains_or_fires() {
    for how in [Shutdown::FireNow, Shutdown::Drain(HOUR)] {
        let gated = Gated::new(Timer::new().expect("defaults"), || ()).with_a_run_that_waits();
        let timer = gated.timer.clone();
        let shutdown = thread::spawn(move || timer.shutdown_with(how).expect("the first").len());
        eventually("it accepts nothing", || gated.timer.is_shutdown());
        gated.end_run();
        gated.end_run();
        assert_eq!(in_time("the shutdown", || shutdown.join().expect("no panic")), 0, "{how:?}");
        assert_eq!(gated.begun.load(Ordering::SeqCst), 2, "{how:?}");
        assert!(!gated.reusable.is_armed());
    }
}

#[test]
fn an_arming_that_a_shutdown_fires_during_a_run_runs_after_it() {
    let gated = Gated::new(Timer::new().expect("defaults"), || ());
    gated.reusable.arm(Duration::ZERO).expect("accepted");
    gated.wait_for_run(1);
    gated.reusable.arm(HOUR).expect("accepted");
    let timer = gated.timer.clone();
    let shutdown = thread::spawn(move || timer.shutdown_with(Shutdown::FireNow).expect("the first").len());
    eventually("it has fired", || gated.timer.stats().fired == 2);
    gated.end_run();
    gated.end_run();
    assert_eq!(in_time("the shutdown", || shutdown.join().expect("no panic")), 0);
    assert_eq!(gated.begun.load(Ordering::SeqCst), 2);
}

#[test]
fn a_run_that_waited_is_late_since_its_own_deadline_and_no_longer() {
    let begin = std::time::Instant::now();
    let timer = Timer::new().expect("defaults");
    thread::sleep(300 * MS);
    let gated = Gated::new(timer, || ()).with_a_run_that_waits();
    gated.end_run();
    gated.wait_for_run(2);
    gated.end_run();
    let age = begin.elapsed();
    eventually("its lateness is recorded", || gated.timer.stats().lateness.count() == 3);
    assert!(gated.timer.stats().lateness.max() <= age - 300 * MS);
}

#[test]
fn each_panic_of_runs_in_a_row_is_counted() {
    let timer = Timer::builder().max_pending_timeouts(1).build().expect("the options make sense");
    let gated = Gated::new(timer, || panic!("on purpose")).with_a_run_that_waits();
    // There is no place for the run that waits, so it follows on the same thread.
    gated.timer.schedule_detached(HOUR, || ()).expect("there is a place");
    gated.end_run();
    gated.wait_for_run(2);
    gated.end_run();
    eventually("both are counted", || gated.timer.stats().panicked == 2);
}
