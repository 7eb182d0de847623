//! Periodic timeouts: when they run, and the effect of a slow run, a reset or a jump of the clock.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{ManualClock, MissedTicks, ThreadPool, Timeout, Timer};

use crate::common::{
    Counter, HOUR, MS, Own, Random, Rig, Times, assert_counters_reconcile, driven_by, eventually, settle,
};

/// Returns a task that notes when it runs, and takes each of these numbers of milliseconds in turn;
/// then none.
fn slow(times: &Times, clock: &ManualClock, takes: &[u32]) -> impl FnMut() + Send + 'static {
    let (times, clock, takes) = (times.clone(), clock.clone(), takes.to_vec());
    move || {
        let takes = takes.get(times.count()).copied().unwrap_or(0);
        times.note();
        clock.advance(takes * MS);
    }
}

#[test]
fn a_fixed_rate_runs_at_its_first_deadline_and_every_period_after_it() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let start = rig.clock.now();
        let task = slow(&times, &rig.clock, &[]);
        let periodic = rig.timer.schedule_at_fixed_rate(10 * MS, 5 * MS, task).expect("accepted");
        for ms in 0..31 {
            let next = (10..).step_by(5).find(|&at| at > ms).expect("there is always a next");
            assert_eq!(periodic.deadline() - start, next * MS, "{}", rig.kind);
            assert!(periodic.is_pending() && !periodic.is_expired() && !periodic.is_cancelled());
            rig.advance(MS);
        }
        assert_eq!(times.in_ms(), [10, 15, 20, 25, 30], "{}", rig.kind);
        let stats = rig.timer.stats();
        assert_eq!((stats.scheduled, stats.fired, stats.repeated, stats.pending), (1, 5, 5, 1));
        assert_counters_reconcile(&stats);
    }
}

#[test]
fn a_rate_without_initial_delay_runs_at_once() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let noting = || slow(&times, &rig.clock, &[]);
        let mut held = vec![rig.timer.schedule_at_fixed_rate(Duration::ZERO, 7 * MS, noting()).expect("accepted")];
        held.push(rig.timer.schedule_with_fixed_delay(Duration::ZERO, 7 * MS, noting()).expect("accepted"));
        rig.settle();
        assert_eq!(times.in_ms(), [0, 0], "{}", rig.kind);
        rig.walk(8);
        assert_eq!(times.in_ms(), [0, 0, 7, 7], "{}", rig.kind);
    }
}

#[test]
fn a_fixed_rate_does_not_drift_whatever_its_runs_take() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let task = slow(&times, &rig.clock, &[3, 9, 0, 1, 8, 9]);
        let _periodic = rig.timer.schedule_at_fixed_rate(10 * MS, 10 * MS, task).expect("accepted");
        rig.walk(100);
        let runs = times.in_ms();
        assert!(runs.len() >= 9 && runs.iter().enumerate().all(|(k, &ms)| ms == 10 * (k as u128 + 1)), "{runs:?}");
    }
}

#[test]
fn a_period_that_is_no_whole_number_of_ticks_is_kept_on_average_and_never_early() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let period = Duration::from_micros(1_500);
        let task = slow(&times, &rig.clock, &[]);
        let _periodic = rig.timer.schedule_at_fixed_rate(period, period, task).expect("accepted");
        rig.walk(3_000);
        let expected: Vec<_> = (1..=2_000_u128).map(|k| (k * 1_500).div_ceil(1_000)).collect();
        assert_eq!(times.in_ms(), expected, "{}", rig.kind);
    }
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_each_run() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let until = rig.clock.now() + 80 * MS;
        let task = slow(&times, &rig.clock, &[3, 25, 0]);
        let _periodic = rig.timer.schedule_with_fixed_delay(5 * MS, 10 * MS, task).expect("accepted");
        // Until the runs have taken their 28 ms as well.
        while rig.clock.now() < until {
            rig.advance(MS);
        }
        assert_eq!(times.in_ms(), [5, 18, 53, 63, 73], "{}", rig.kind);
    }
}

#[test]
fn a_repeating_task_answers_when_to_run_next_counted_from_its_answer() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let (noted, clock) = (times.clone(), rig.clock.clone());
        let mut answers = vec![None, Some(4 * MS), Some(Duration::ZERO), Some(10 * MS), Some(2 * MS)];
        let task = move || {
            noted.note();
            if answers.len() == 4 {
                clock.advance(5 * MS);
            }
            answers.pop().expect("none ends it")
        };
        let periodic = rig.timer.schedule_repeating(MS, task).expect("accepted");
        rig.walk(60);
        // At 3 it takes until 8, and asks for 10 more; no delay is the next tick.
        assert_eq!(times.in_ms(), [1, 3, 18, 19, 23], "{}", rig.kind);
        assert!(periodic.is_expired() && !periodic.is_pending() && !periodic.is_cancelled());
        assert!(!periodic.cancel() && !periodic.reset(MS));
        let stats = rig.timer.stats();
        assert_eq!((stats.fired, stats.repeated, stats.pending), (5, 4, 0));
        assert_counters_reconcile(&stats);
    }
}

#[test]
fn a_task_that_always_asks_for_no_delay_starves_no_other() {
    let (timer, mut driver, clock) = driven_by(Timer::builder());
    let periodic = timer.schedule_repeating(Duration::ZERO, || Some(Duration::ZERO)).expect("accepted");
    assert_eq!(driver.turn(), 1);
    assert_eq!(driver.turn(), 0, "not in this tick again");
    clock.advance(MS);
    assert_eq!(settle(&mut driver, &clock), 1);
    assert!(periodic.cancel());
}

/// Returns when a fixed rate of 10 ms runs whose first run takes this long.
fn runs_after_a_slow_one(mut rig: Rig, missed: Option<MissedTicks>, takes: u32) -> Vec<u128> {
    let times = Times::on(&rig.clock);
    let task = slow(&times, &rig.clock, &[takes]);
    let (period, until) = (10 * MS, rig.clock.now() + 71 * MS);
    let periodic = match missed {
        Some(missed) => rig.timer.schedule_at_fixed_rate_with(period, period, missed, task),
        None => rig.timer.schedule_at_fixed_rate(period, period, task),
    };
    let periodic = periodic.expect("accepted");
    while rig.clock.now() < until {
        rig.advance(MS);
    }
    assert!(periodic.cancel());
    times.in_ms()
}

#[test]
fn skip_goes_on_at_the_next_point_of_the_schedule_and_is_the_default() {
    for missed in [Some(MissedTicks::Skip), Some(MissedTicks::default()), None] {
        let runs = |takes| Rig::each(Timer::builder).map(|rig| runs_after_a_slow_one(rig, missed, takes));
        assert!(runs(9).iter().all(|runs| *runs == [10, 20, 30, 40, 50, 60, 70]));
        assert!(runs(25).iter().all(|runs| *runs == [10, 40, 50, 60, 70]), "{:?}", runs(25));
        // It ends exactly when its successor is due: that one is missed.
        assert!(runs(10).iter().all(|runs| *runs == [10, 30, 40, 50, 60, 70]), "{:?}", runs(10));
    }
}

#[test]
fn burst_makes_up_for_missed_runs_at_once() {
    let runs = |takes| Rig::each(Timer::builder).map(|rig| runs_after_a_slow_one(rig, Some(MissedTicks::Burst), takes));
    assert!(runs(25).iter().all(|runs| *runs == [10, 35, 35, 40, 50, 60, 70]), "{:?}", runs(25));
    assert!(runs(10).iter().all(|runs| *runs == [10, 20, 30, 40, 50, 60, 70]), "{:?}", runs(10));
}

#[test]
fn delay_moves_the_schedule() {
    let runs = |takes| Rig::each(Timer::builder).map(|rig| runs_after_a_slow_one(rig, Some(MissedTicks::Delay), takes));
    assert!(runs(25).iter().all(|runs| *runs == [10, 45, 55, 65]), "{:?}", runs(25));
    assert!(runs(10).iter().all(|runs| *runs == [10, 30, 40, 50, 60, 70]), "{:?}", runs(10));
}

#[test]
fn a_jump_of_the_clock_is_a_run_that_is_late() {
    for mut rig in Rig::each(Timer::builder) {
        let runs = [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay].map(|missed| {
            let times = Times::on(&rig.clock);
            let task = slow(&times, &rig.clock, &[]);
            let periodic = rig.timer.schedule_at_fixed_rate_with(10 * MS, 10 * MS, missed, task).expect("accepted");
            rig.advance(95 * MS);
            rig.walk(16);
            assert!(periodic.cancel());
            times.in_ms()
        });
        assert_eq!(runs[0], [95, 100, 110], "{}", rig.kind);
        assert_eq!(runs[1], [vec![95; 9], vec![100, 110]].concat(), "{}", rig.kind);
        assert_eq!(runs[2], [95, 105], "{}", rig.kind);
    }
}

#[test]
fn a_reset_before_the_first_run_moves_it_and_a_fixed_rate_goes_on_from_there() {
    for to in [3, 25] {
        for mut rig in Rig::each(Timer::builder) {
            let times = Times::on(&rig.clock);
            let start = rig.clock.now();
            let task = slow(&times, &rig.clock, &[]);
            let periodic = rig.timer.schedule_at_fixed_rate(10 * MS, 10 * MS, task).expect("accepted");
            rig.settle();
            assert!(periodic.reset(to * MS));
            assert_eq!(periodic.deadline() - start, to * MS);
            rig.walk(50);
            let expected: Vec<_> = (u128::from(to)..=50).step_by(10).collect();
            assert_eq!(times.in_ms(), expected, "{}", rig.kind);
        }
    }
}

/// Returns when a periodic timeout runs whose task, in its second run, resets itself.
fn runs_with_a_reset_inside(
    mut rig: Rig,
    schedule: impl FnOnce(&Timer, Box<dyn FnMut() + Send>) -> Timeout,
    to: u32,
) -> Vec<u128> {
    let (times, own) = (Times::on(&rig.clock), Own::default());
    let (noted, mine) = (times.clone(), own.clone());
    let mut runs = 0;
    let task = move || {
        noted.note();
        runs += 1;
        if runs == 2 {
            assert!(mine.get().is_pending());
            assert!(mine.get().reset(to * MS));
            assert!(mine.get().is_pending());
        }
    };
    own.set(schedule(&rig.timer, Box::new(task)));
    rig.walk(60);
    assert!(own.get().cancel());
    times.in_ms()
}

#[test]
fn a_reset_from_the_task_itself_moves_the_next_run_and_a_fixed_rate_goes_on_from_there() {
    let rate = |timer: &Timer, task| timer.schedule_at_fixed_rate(10 * MS, 10 * MS, task).expect("accepted");
    for (to, expected) in
        [(25, vec![10, 20, 45, 55]), (3, vec![10, 20, 23, 33, 43, 53]), (0, vec![10, 20, 20, 30, 40, 50, 60])]
    {
        for rig in Rig::each(Timer::builder) {
            let kind = rig.kind;
            assert_eq!(runs_with_a_reset_inside(rig, rate, to), expected, "{kind}, to {to}");
        }
    }
}

#[test]
fn a_reset_from_the_task_itself_moves_the_next_run_of_the_other_rules_too() {
    let delay = |timer: &Timer, task| timer.schedule_with_fixed_delay(10 * MS, 10 * MS, task).expect("accepted");
    let answers = |timer: &Timer, mut task: Box<dyn FnMut() + Send>| {
        let task = move || {
            task();
            Some(10 * MS)
        };
        timer.schedule_repeating(10 * MS, task).expect("accepted")
    };
    for rig in Rig::each(Timer::builder) {
        assert_eq!(runs_with_a_reset_inside(rig, delay, 3), [10, 20, 23, 33, 43, 53]);
    }
    for rig in Rig::each(Timer::builder) {
        assert_eq!(runs_with_a_reset_inside(rig, answers, 25), [10, 20, 45, 55]);
    }
}

#[test]
fn a_reset_in_the_last_run_adds_no_run() {
    for mut rig in Rig::each(Timer::builder) {
        let (times, own) = (Times::on(&rig.clock), Own::default());
        let (noted, mine) = (times.clone(), own.clone());
        let task = move || {
            noted.note();
            assert!(mine.get().reset(MS));
            None
        };
        own.set(rig.timer.schedule_repeating(MS, task).expect("accepted"));
        rig.walk(10);
        assert_eq!(times.in_ms(), [1], "{}", rig.kind);
        assert!(own.get().is_expired());
        assert_counters_reconcile(&rig.timer.stats());
    }
}

#[test]
fn a_reset_by_another_thread_while_a_run_is_under_way_moves_the_next_one() {
    let (timer, mut driver, clock) = driven_by(Timer::builder());
    let (times, own) = (Times::on(&clock), Own::default());
    let (noted, mine) = (times.clone(), own.clone());
    let task = move || {
        noted.note();
        if noted.count() == 1 {
            thread::scope(|scope| scope.spawn(|| assert!(mine.get().reset(4 * MS))).join().expect("no panic"));
        }
    };
    own.set(timer.schedule_at_fixed_rate(10 * MS, 10 * MS, task).expect("accepted"));
    for _ in 0..40 {
        clock.advance(MS);
        settle(&mut driver, &clock);
    }
    assert_eq!(times.in_ms(), [10, 14, 24, 34]);
}

#[test]
fn a_deadline_of_never_does_not_come_for_the_first_run_nor_for_the_next() {
    let (timer, mut driver, clock) = driven_by(Timer::builder());
    let times = Times::on(&clock);
    let never = timer.schedule_at_fixed_rate(Duration::MAX, MS, slow(&times, &clock, &[])).expect("accepted");
    clock.advance(1_000 * HOUR);
    assert_eq!((settle(&mut driver, &clock), times.count()), (0, 0));
    let once = timer.schedule_at_fixed_rate(MS, Duration::MAX, slow(&times, &clock, &[])).expect("accepted");
    let (noted, answer) = (times.clone(), Some(Duration::MAX));
    let task = move || {
        noted.note();
        answer
    };
    let answered = timer.schedule_repeating(MS, task).expect("accepted");
    clock.advance(MS);
    assert_eq!(settle(&mut driver, &clock), 2);
    clock.advance(100_000 * HOUR);
    assert_eq!((settle(&mut driver, &clock), times.count(), timer.pending()), (0, 2, 3));
    assert!(driver.next_wakeup().is_none());
    assert!(never.cancel() && once.cancel() && answered.cancel());
}

#[test]
fn runs_of_one_periodic_timeout_never_overlap_however_many_threads_there_are() {
    let timer = Timer::builder().executor(ThreadPool::new(4)).build().expect("the options make sense");
    let (busy, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let task = || {
        let (busy, runs) = (Arc::clone(&busy), Arc::clone(&runs));
        move || {
            assert!(!busy.swap(true, Ordering::SeqCst), "two runs at once");
            thread::sleep(3 * MS);
            busy.store(false, Ordering::SeqCst);
            runs.fetch_add(1, Ordering::SeqCst);
        }
    };
    let many_runs = |periodic: Timeout| {
        eventually("runs", || runs.load(Ordering::SeqCst) >= 20 || timer.stats().panicked > 0);
        assert!(periodic.cancel());
        eventually("the last run ends", || !busy.load(Ordering::SeqCst));
        runs.store(0, Ordering::SeqCst);
    };
    many_runs(timer.schedule_at_fixed_rate_with(MS, MS, MissedTicks::Burst, task()).expect("accepted"));
    many_runs(timer.schedule_with_fixed_delay(MS, Duration::from_nanos(1), task()).expect("accepted"));
    let run = task();
    let again = move || {
        run();
        Some(Duration::ZERO)
    };
    let periodic = timer.schedule_repeating(MS, again).expect("accepted");
    // Resets to earlier, from here, must not start a second run either.
    for _ in 0..50 {
        assert!(periodic.reset(Duration::ZERO));
        thread::sleep(MS);
    }
    many_runs(periodic);
    assert_eq!(timer.stats().panicked, 0);
}

#[test]
fn no_run_comes_before_its_point_in_the_schedule_by_the_real_clock() {
    let timer = Timer::builder().executor(ThreadPool::new(2)).build().expect("the options make sense");
    let seen: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let saw = Arc::clone(&seen);
    let (start, period) = (Instant::now(), Duration::from_micros(2_700));
    let task = move || saw.lock().expect("no panic").push(Instant::now());
    let periodic = timer.schedule_at_fixed_rate_with(5 * MS, period, MissedTicks::Burst, task).expect("accepted");
    eventually("50 runs", || seen.lock().expect("no panic").len() >= 50);
    assert!(periodic.cancel());
    for (k, at) in (0..).zip(&*seen.lock().expect("no panic")) {
        assert!(*at >= start + 5 * MS + k * period, "run {k} is early");
    }
}

#[test]
fn hundreds_of_periodic_timeouts_run_as_often_as_their_periods_say() {
    for levels in [1, 4] {
        let (timer, mut driver, clock) = driven_by(Timer::builder().levels(levels).ticks_per_wheel(64));
        let mut random = Random::new(levels as u64);
        let periodic: Vec<_> = (0..300)
            .map(|_| {
                let (period, initial) = (1 + random.below(2_000), random.below(2_000));
                let runs = Counter::default();
                let ms = |ms: usize| Duration::from_millis(ms as u64);
                drop(timer.schedule_at_fixed_rate(ms(initial), ms(period), runs.task()).expect("accepted"));
                (period, initial, runs)
            })
            .collect();
        settle(&mut driver, &clock);
        for _ in 0..5_000 {
            clock.advance(MS);
            settle(&mut driver, &clock);
        }
        for (period, initial, runs) in periodic {
            assert_eq!(runs.get(), (5_000 - initial) / period + 1, "every {period} from {initial}");
        }
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn a_timeout_that_a_run_schedules_without_delay_waits_for_the_next_turn() {
    let (timer, mut driver, clock) = driven_by(Timer::builder());
    let own = timer.clone();
    let task = move || own.schedule_detached(Duration::ZERO, || ()).expect("accepted");
    let periodic = timer.schedule_at_fixed_rate(MS, MS, task).expect("accepted");
    clock.advance(MS);
    assert_eq!([driver.turn(), driver.turn(), driver.turn()], [1, 1, 0]);
    assert!(periodic.cancel());
}

#[test]
fn one_turn_of_a_driver_makes_up_for_exactly_the_missed_runs() {
    let (timer, mut driver, clock) = driven_by(Timer::builder());
    let runs = Counter::default();
    let burst = timer.schedule_at_fixed_rate_with(MS, MS, MissedTicks::Burst, runs.task()).expect("accepted");
    clock.advance(7 * MS);
    assert_eq!((driver.turn(), runs.get()), (7, 7));
    assert_eq!(driver.turn(), 0);
    assert!(burst.cancel());
    let skip = timer.schedule_at_fixed_rate(MS, MS, runs.task()).expect("accepted");
    clock.advance(7 * MS);
    assert_eq!((driver.turn(), runs.get()), (1, 8));
    assert!(skip.cancel());
}
