//! How a periodic timeout ends, that it ends once, and what it holds until then: one place, one
//! entry, one closure.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tourbillon::{Expired, Refusal, Shutdown, ThreadPool, Timeout, Timer};

use crate::common::{
    Drops, HOUR, Keeps, MS, Own, Rig, Times, assert_counters_reconcile, built, driven, driven_by, eventually, in_time,
    settle,
};

/// The three rules, each with a period of 10 ms.
const RULES: [&str; 3] = ["fixed rate", "fixed delay", "repeating"];

fn schedule(timer: &Timer, rule: &str, mut task: impl FnMut() + Send + 'static) -> Timeout {
    let period = 10 * MS;
    let periodic = match rule {
        "fixed rate" => timer.schedule_at_fixed_rate(period, period, task).map_err(|error| error.to_string()),
        "fixed delay" => timer.schedule_with_fixed_delay(period, period, task).map_err(|error| error.to_string()),
        _ => {
            let task = move || {
                task();
                Some(period)
            };
            timer.schedule_repeating(period, task).map_err(|error| error.to_string())
        }
    };
    periodic.expect("accepted")
}

/// Returns a task that notes when it runs and has a capture to drop.
fn noting(times: &Times, drops: &Drops) -> impl FnMut() + Send + 'static {
    let (times, witness) = (times.clone(), drops.witness());
    move || {
        let _held = &witness;
        times.note();
    }
}

/// A periodic timeout on a pool's thread, held in its first run until the test lets it go on.
struct Held {
    timer: Timer,
    periodic: Timeout,
    times: Times,
    drops: Drops,
    go_on: std::sync::mpsc::Sender<()>,
}

fn held_in_a_run(rule: &str) -> Held {
    let timer = Timer::builder().executor(ThreadPool::new(2)).build().expect("the options make sense");
    let (times, drops) = (Times::on(&tourbillon::ManualClock::new()), Drops::default());
    let ((began, has_begun), (go_on, wait)) = (channel(), channel::<()>());
    let mut note = noting(&times, &drops);
    let task = move || {
        note();
        began.send(()).expect("the test waits");
        let _ = wait.recv();
    };
    let periodic = schedule(&timer, rule, task);
    has_begun.recv().expect("it begins");
    Held { timer, periodic, times, drops, go_on }
}

#[test]
fn a_cancel_before_the_first_run_means_that_there_is_none() {
    for (mut rig, turned) in Rig::each(Timer::builder).into_iter().zip([true, false, true]) {
        for rule in RULES {
            let (times, drops) = (Times::on(&rig.clock), Drops::default());
            let periodic = schedule(&rig.timer, rule, noting(&times, &drops));
            if turned {
                rig.advance(9 * MS);
            }
            assert!(periodic.cancel(), "{rule}");
            assert_eq!(drops.count(), 1, "its task was dropped by this call");
            assert!(drops.all_by(thread::current().id()));
            assert!(periodic.is_cancelled() && !periodic.is_pending() && !periodic.is_expired());
            assert!(!periodic.cancel() && !periodic.reset(MS));
            rig.advance(100 * MS);
            assert_eq!((times.count(), drops.count()), (0, 1));
        }
        assert_counters_reconcile(&rig.timer.stats());
    }
}

#[test]
fn a_cancel_between_two_runs_means_that_no_other_follows() {
    for mut rig in Rig::each(Timer::builder) {
        for rule in RULES {
            let (times, drops) = (Times::on(&rig.clock), Drops::default());
            let periodic = schedule(&rig.timer, rule, noting(&times, &drops));
            rig.walk(25);
            assert!(periodic.cancel());
            assert_eq!(drops.count(), 1);
            rig.walk(25);
            assert_eq!(times.in_ms(), [10, 20], "{rule}, {}", rig.kind);
            assert_eq!((rig.timer.pending(), drops.count()), (0, 1));
        }
        let stats = rig.timer.stats();
        assert_eq!((stats.scheduled, stats.fired, stats.repeated, stats.cancelled), (3, 6, 6, 3));
        assert_counters_reconcile(&stats);
    }
}

#[test]
fn a_task_may_cancel_its_own_timeout_and_is_dropped_when_that_run_ends() {
    for mut rig in Rig::each(Timer::builder) {
        for rule in RULES {
            let (times, drops, own) = (Times::on(&rig.clock), Drops::default(), Own::default());
            let (mut note, mine, dropped) = (noting(&times, &drops), own.clone(), drops.clone());
            let noted = times.clone();
            let task = move || {
                note();
                if noted.count() == 2 {
                    assert!(mine.get().is_pending() && mine.get().cancel());
                    assert!(mine.get().is_cancelled() && !mine.get().is_pending() && !mine.get().cancel());
                    assert_eq!(dropped.count(), 0, "it still runs");
                }
            };
            own.set(schedule(&rig.timer, rule, task));
            rig.walk(50);
            assert_eq!(times.in_ms(), [10, 20], "{rule}, {}", rig.kind);
            assert_eq!((drops.count(), rig.timer.pending()), (1, 0));
            assert!(own.get().is_cancelled() && !own.get().is_expired());
        }
        assert_eq!(rig.timer.stats().panicked, 0);
        assert_counters_reconcile(&rig.timer.stats());
    }
}

#[test]
fn a_cancel_by_another_thread_during_a_run_is_true_and_that_run_is_the_last() {
    for rule in RULES {
        let held = held_in_a_run(rule);
        assert!(held.periodic.is_pending() && !held.periodic.is_expired());
        assert_eq!(held.timer.pending(), 1);
        assert!(held.periodic.cancel());
        assert!(held.periodic.is_cancelled() && !held.periodic.cancel() && !held.periodic.reset(MS));
        assert_eq!((held.timer.pending(), held.drops.count()), (0, 0));
        held.go_on.send(()).expect("it waits");
        eventually("the run ends", || held.drops.count() == 1);
        assert_eq!(held.timer.shutdown().expect("the first").len(), 0);
        assert_eq!((held.times.count(), held.drops.count()), (1, 1));
        assert_counters_reconcile(&held.timer.stats());
    }
}

#[test]
fn a_cancel_that_was_true_before_the_run_began_means_that_it_does_not_run() {
    for rule in RULES {
        let (clock, keeps) = (tourbillon::ManualClock::new(), Keeps::default());
        let timer = built(Timer::builder().clock(clock.clone()).executor(keeps.clone()));
        let (times, drops) = (Times::on(&clock), Drops::default());
        let periodic = schedule(&timer, rule, noting(&times, &drops));
        clock.advance(10 * MS);
        assert_eq!(keeps.batches(), 1, "it waits in the executor");
        assert!(periodic.is_pending() && periodic.cancel());
        keeps.run();
        clock.advance(100 * MS);
        keeps.run();
        assert_eq!((times.count(), drops.count(), timer.pending()), (0, 1, 0), "{rule}");
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.repeated, stats.cancelled), (0, 0, 1));
        assert_counters_reconcile(&stats);
    }
}

#[test]
fn a_reset_before_the_run_began_means_that_it_does_not_run_before_the_new_deadline() {
    for rule in RULES {
        let (clock, keeps) = (tourbillon::ManualClock::new(), Keeps::default());
        let timer = built(Timer::builder().clock(clock.clone()).executor(keeps.clone()));
        let (times, drops) = (Times::on(&clock), Drops::default());
        let periodic = schedule(&timer, rule, noting(&times, &drops));
        clock.advance(10 * MS);
        assert!(periodic.reset(7 * MS));
        keeps.run();
        assert_eq!((times.count(), periodic.is_pending()), (0, true), "{rule}");
        clock.advance(6 * MS);
        assert_eq!(keeps.batches(), 0);
        clock.advance(MS);
        keeps.run();
        clock.advance(10 * MS);
        keeps.run();
        assert_eq!(times.in_ms(), [17, 27], "{rule}");
        assert_counters_reconcile(&timer.stats());
        // To a time that has come: it runs, once.
        clock.advance(10 * MS);
        assert!(periodic.reset(Duration::ZERO));
        keeps.run();
        clock.advance(Duration::ZERO);
        keeps.run();
        assert_eq!(times.in_ms(), [17, 27, 37]);
        assert!(periodic.cancel());
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn dropping_the_handle_detaches_and_a_guard_cancels() {
    for mut rig in Rig::each(Timer::builder) {
        let (times, drops) = (Times::on(&rig.clock), Drops::default());
        drop(schedule(&rig.timer, "fixed rate", noting(&times, &drops)));
        let guard = schedule(&rig.timer, "fixed delay", noting(&times, &drops)).cancel_on_drop();
        rig.walk(15);
        drop(guard);
        rig.walk(30);
        assert_eq!(times.in_ms(), [10, 10, 20, 30, 40], "{}", rig.kind);
        assert_eq!((rig.timer.pending(), drops.count()), (1, 1));
        assert_eq!(rig.timer.shutdown().expect("the first").len(), 1);
    }
}

#[test]
fn a_panic_ends_a_periodic_timeout_and_is_counted_and_reported() {
    let heard: Arc<Mutex<usize>> = Arc::default();
    let hears = Arc::clone(&heard);
    let builder = move || {
        let hears = Arc::clone(&hears);
        Timer::builder().on_panic(move |_| *hears.lock().expect("no panic") += 1)
    };
    for mut rig in Rig::each(builder) {
        for rule in RULES {
            let (times, drops) = (Times::on(&rig.clock), Drops::default());
            let (mut note, noted) = (noting(&times, &drops), times.clone());
            let task = move || {
                note();
                assert!(noted.count() < 3, "on purpose");
            };
            let periodic = schedule(&rig.timer, rule, task);
            rig.walk(60);
            assert_eq!(times.in_ms(), [10, 20, 30], "{rule}, {}", rig.kind);
            assert!(periodic.is_expired() && !periodic.is_pending() && !periodic.is_cancelled() && !periodic.cancel());
            assert_eq!((drops.count(), rig.timer.pending()), (1, 0));
        }
        let stats = rig.timer.stats();
        assert_eq!((stats.panicked, stats.fired, stats.repeated), (3, 9, 6));
        assert_counters_reconcile(&stats);
    }
    assert_eq!(*heard.lock().expect("no panic"), 9);
}

#[test]
fn a_panic_of_a_run_that_was_cancelled_meanwhile_is_counted_too() {
    let (timer, mut driver, clock) = driven();
    let (own, drops) = (Own::default(), Drops::default());
    let (mine, witness) = (own.clone(), drops.witness());
    let task = move || {
        let _held = &witness;
        assert!(mine.get().cancel());
        panic!("on purpose");
    };
    own.set(timer.schedule_at_fixed_rate(MS, MS, task).expect("accepted"));
    clock.advance(5 * MS);
    assert_eq!(settle(&mut driver, &clock), 1);
    let stats = timer.stats();
    assert_eq!((stats.panicked, stats.cancelled, stats.pending, drops.count()), (1, 1, 0, 1));
    assert!(own.get().is_cancelled());
    assert_counters_reconcile(&stats);
}

#[test]
fn a_period_of_zero_is_refused_with_the_closure() {
    let (timer, mut driver, clock) = driven();
    let times = Times::on(&clock);
    let error = timer.schedule_at_fixed_rate(MS, Duration::ZERO, times.task()).expect_err("zero");
    assert!(error.kind() == Refusal::ZeroPeriod && !error.is_full() && !error.is_shutdown());
    assert!(error.to_string().contains("zero"));
    error.into_inner()();
    for missed in [tourbillon::MissedTicks::Burst, tourbillon::MissedTicks::Delay] {
        let error = timer.schedule_at_fixed_rate_with(MS, Duration::ZERO, missed, times.task());
        error.expect_err("zero").into_inner()();
    }
    timer.schedule_with_fixed_delay(MS, Duration::ZERO, times.task()).expect_err("zero").into_inner()();
    assert_eq!((times.count(), timer.pending(), timer.stats().scheduled), (4, 0, 0));
    clock.advance(HOUR);
    assert_eq!(settle(&mut driver, &clock), 0);
}

#[test]
fn a_refused_periodic_task_comes_back_and_runs_where_the_caller_likes() {
    let (timer, _driver, _clock) = driven_by(Timer::builder().max_pending_timeouts(1));
    let _only = timer.schedule(HOUR, || ()).expect("there is room");
    let mut runs = 0;
    let mut again = timer.schedule_repeating(MS, || Some(MS)).map(|_| ()).expect_err("full").into_inner();
    runs += u32::from(again() == Some(MS));
    let drops = Drops::default();
    let witness = drops.witness();
    let hold = move || _ = &witness;
    let error = timer.schedule_at_fixed_rate(MS, MS, hold).expect_err("full");
    assert!(error.is_full());
    assert_eq!(drops.count(), 0);
    drop(error);
    assert_eq!((runs, drops.count(), timer.stats().rejected, timer.pending()), (1, 1, 2, 1));
    drop(timer.shutdown());
    assert!(timer.schedule_with_fixed_delay(MS, MS, || ()).expect_err("shut down").is_shutdown());
}

#[test]
fn a_periodic_timeout_keeps_its_one_place_until_it_ends_and_then_makes_room() {
    let ends: [fn(&Timeout) -> bool; 3] = [|periodic| periodic.cancel(), |_| false, |_| panic!("on purpose")];
    for mut rig in Rig::each(|| Timer::builder().max_pending_timeouts(1)) {
        for end in ends {
            let (own, times) = (Own::default(), Times::on(&rig.clock));
            let (mine, noted, timer) = (own.clone(), times.clone(), rig.timer.clone());
            let task = move || {
                noted.note();
                assert_eq!(timer.pending(), 1);
                timer.schedule(MS, || ()).expect_err("it keeps its place while it runs");
                if noted.count() < 3 {
                    return Some(MS);
                }
                end(mine.get());
                None
            };
            own.set(rig.timer.schedule_repeating(MS, task).expect("there is room"));
            for _ in 0..3 {
                assert_eq!(rig.timer.pending(), 1);
                rig.timer.schedule(MS, || ()).expect_err("it keeps its place between runs");
                rig.advance(MS);
            }
            assert_eq!((times.count(), rig.timer.pending()), (3, 0), "{}", rig.kind);
            let room = rig.timer.schedule(MS, || ()).expect("there is room again");
            assert!(rig.timer.schedule(MS, || ()).is_err(), "for one");
            assert!(room.cancel());
        }
        assert_counters_reconcile(&rig.timer.stats());
    }
}

#[test]
fn a_shutdown_returns_a_waiting_periodic_timeout_and_running_it_runs_it_once() {
    for mut rig in Rig::each(Timer::builder) {
        for rule in RULES {
            let (times, drops) = (Times::on(&rig.clock), Drops::default());
            let builder = Timer::builder().clock(rig.clock.clone());
            let (timer, mut driver) = builder.build_driven().expect("the options make sense");
            let periodic = schedule(&timer, rule, noting(&times, &drops));
            rig.clock.advance(10 * MS);
            assert_eq!(driver.turn(), 1);
            let left = timer.shutdown().expect("the first");
            assert_eq!(left.iter().map(|left| left.deadline()).collect::<Vec<_>>(), [periodic.deadline()]);
            assert!(periodic.is_cancelled());
            assert_counters_reconcile(&timer.stats());
            left.into_iter().for_each(|left| left.run());
            assert_eq!((times.count(), drops.count()), (2, 1), "{rule}");
        }
        rig.settle();
    }
}

#[test]
fn a_shutdown_during_a_run_waits_for_it_and_no_other_follows() {
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(HOUR)] {
        for rule in RULES {
            let held = held_in_a_run(rule);
            let timer = held.timer.clone();
            let shutting = thread::spawn(move || timer.shutdown_with(how));
            eventually("the shutdown has begun", || held.timer.schedule(Duration::ZERO, || ()).is_err());
            assert!(!shutting.is_finished() && held.drops.count() == 0);
            held.go_on.send(()).expect("it waits");
            let left = in_time("a shutdown", || shutting.join().expect("no panic").expect("the first"));
            // A timeout that a task tried to schedule may be in the answer, but the periodic one is
            // not.
            left.into_iter().for_each(|left| left.run());
            assert_eq!((held.times.count(), held.drops.count()), (1, 1), "{how:?}, {rule}");
            assert!(!held.periodic.is_pending() && held.timer.pending() == 0);
            assert_eq!(held.timer.stats().pending, 0);
        }
    }
}

#[test]
fn a_periodic_timeout_whose_last_timer_goes_during_a_run_is_dropped_when_that_ends() {
    for rule in RULES {
        let Held { timer, periodic, times, drops, go_on } = held_in_a_run(rule);
        in_time("dropping the last timer", move || drop(timer));
        go_on.send(()).expect("it waits");
        eventually("its closure is dropped", || drops.count() == 1);
        assert_eq!(times.count(), 1);
        assert!(!periodic.is_pending() && !periodic.cancel());
    }
}

#[test]
fn a_waiting_periodic_timeout_is_dropped_with_the_last_timer_or_with_the_driver() {
    for mut rig in Rig::each(Timer::builder) {
        let (times, drops) = (Times::on(&rig.clock), Drops::default());
        let periodic = schedule(&rig.timer, "fixed rate", noting(&times, &drops));
        rig.advance(10 * MS);
        let Rig { timer, driver, .. } = rig;
        drop(timer);
        eventually("its closure is dropped", || drops.count() == 1);
        assert!(periodic.is_cancelled() && times.count() == 1);
        drop(driver);
    }
    let (timer, driver, clock) = driven();
    let (times, drops) = (Times::on(&clock), Drops::default());
    let _detached = schedule(&timer, "fixed rate", noting(&times, &drops));
    drop(driver);
    assert_eq!((times.count(), drops.count(), timer.pending()), (0, 1, 0));
}

#[test]
fn a_periodic_timeout_uses_one_entry_for_all_its_runs() {
    let (timer, mut driver, clock) = driven();
    for (runs, rule) in RULES.into_iter().enumerate() {
        let periodic = schedule(&timer, rule, || ());
        settle(&mut driver, &clock);
        let before = timer.stats().capacity;
        for _ in 0..100_000 {
            clock.advance(10 * MS);
            assert_eq!(settle(&mut driver, &clock), 1);
        }
        assert_eq!(timer.stats().capacity, before);
        assert_eq!(timer.stats().repeated, 100_000 * (runs as u64 + 1));
        assert!(periodic.cancel());
    }
    // And the entries of those that have ended are used again.
    for _ in 0..10_000 {
        let _ended = timer.schedule_repeating(MS, || None).expect("accepted");
        let cancelled = schedule(&timer, "fixed rate", || ());
        clock.advance(MS);
        settle(&mut driver, &clock);
        assert!(cancelled.cancel());
    }
    assert!(timer.stats().capacity <= 1_024, "{}", timer.stats().capacity);
}

/// Runs the batch that it finds when it is dropped.
struct RunsAnotherAtItsEnd(Arc<Mutex<Vec<Expired>>>);

impl Drop for RunsAnotherAtItsEnd {
    fn drop(&mut self) {
        let batch = self.0.lock().expect("no panic").pop();
        batch.into_iter().for_each(Expired::run);
    }
}

#[test]
fn a_periodic_task_whose_engine_has_ended_may_run_another_batch_when_it_is_dropped() {
    in_time("two batches that outlive a shutdown", || {
        let batches: Arc<Mutex<Vec<Expired>>> = Arc::default();
        let keep = Arc::clone(&batches);
        let executor = move |batch| keep.lock().expect("no panic").push(batch);
        let timer = Timer::builder().shards(1).executor(executor).build().expect("the options make sense");
        let kept = || batches.lock().expect("no panic").len();
        let at_its_end = RunsAnotherAtItsEnd(Arc::clone(&batches));
        let first = timer.schedule_at_fixed_rate(MS, HOUR, move || _ = &at_its_end).expect("accepted");
        eventually("the first has expired", || kept() == 1);
        let second = timer.schedule_at_fixed_rate(MS, HOUR, || ()).expect("accepted");
        eventually("the second has expired", || kept() == 2);
        // Both wait for their runs, which are moved; then nobody waits for what they leave.
        assert!(first.reset(HOUR) && second.reset(HOUR));
        assert!(timer.shutdown().expect("the first").is_empty());
        let batch = batches.lock().expect("no panic").remove(0);
        batch.run();
        assert!(kept() == 0 && first.is_cancelled() && second.is_cancelled());
    });
}
