//! `advance_to_next` and `advance_through`: from deadline to deadline, in order, and not a
//! nanosecond too far.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Inline, ManualClock, ThreadPool, Timer};

use crate::common::{
    DAY, HOUR, Keeps, MS, Own, PATIENCE, Random, Rig, Runs, Times, assert_counters_reconcile, built, driven, driven_by,
    in_time, on_workers, settle,
};
use crate::pauses::stoppable;

/// One step: to the next deadline, and the timeouts due then run.
fn step(rig: &mut Rig) -> bool {
    let stepped = rig.clock.advance_to_next(&rig.timer);
    rig.settle();
    stepped
}

#[test]
fn it_goes_to_each_deadline_exactly_and_then_reports_that_there_is_none() {
    for builder in [Timer::builder, || Timer::builder().levels(1), || Timer::builder().shards(3).ticks_per_wheel(4)] {
        for mut rig in Rig::each(builder) {
            let times = Times::on(&rig.clock);
            assert!(!step(&mut rig), "nothing is pending");
            let delays = [5_000_000, 1, 70, 3_600_000, 70, 2, 511, 512, 513];
            for (n, delay) in delays.into_iter().enumerate() {
                let delay = Duration::from_millis(delay);
                rig.timer.shard_for(&n).schedule_detached(delay, times.task()).expect("accepted");
            }
            let mut steps = 0;
            while step(&mut rig) {
                steps += 1;
            }
            assert_eq!(times.in_ms(), [1, 2, 70, 70, 511, 512, 513, 3_600_000, 5_000_000], "{}", rig.kind);
            assert_eq!((steps, times.count()), (8, 9));
            let now = rig.clock.now();
            assert!(!step(&mut rig) && rig.clock.now() == now);
        }
    }
}

#[test]
fn it_returns_when_due_timeouts_have_run() {
    let mut rig = Rig::pool(Timer::builder());
    let runs = Runs::new(1);
    let run = runs.task(0);
    let task = move || {
        thread::sleep(20 * MS);
        run();
    };
    rig.timer.schedule_detached(HOUR, task).expect("accepted");
    assert!(rig.clock.advance_to_next(&rig.timer));
    assert_eq!(runs.total(), 1);
    rig.settle();
}

#[test]
fn a_deadline_that_has_passed_counts_and_the_clock_stays() {
    let (timer, mut driver, clock) = driven();
    clock.advance(10 * MS);
    let now = clock.now();
    let due = timer.schedule(Duration::ZERO, || ()).expect("accepted");
    timer.schedule_detached(MS, || ()).expect("accepted");
    assert!(clock.advance_to_next(&timer) && clock.advance_to_next(&timer));
    assert_eq!(clock.now(), now);
    driver.turn();
    assert!(due.is_expired());
    assert!(clock.advance_to_next(&timer));
    assert_eq!(clock.now() - now, MS);
}

#[test]
fn it_follows_resets_to_later_or_earlier_and_passes_over_cancelled_timeouts() {
    for linked in [false, true] {
        for mut rig in Rig::each(|| Timer::builder().shards(2)) {
            let times = Times::on(&rig.clock);
            let schedule = |ms: u32| rig.timer.schedule(ms * MS, times.task()).expect("accepted");
            let (later, earlier, cancelled, stays) = (schedule(10), schedule(5_000), schedule(20), schedule(700));
            if linked {
                rig.settle();
            }
            assert!(later.reset(9_000 * MS) && earlier.reset(300 * MS) && cancelled.cancel());
            let mut steps = Vec::new();
            let start = rig.clock.now();
            while step(&mut rig) {
                steps.push((rig.clock.now() - start).as_millis());
            }
            assert_eq!(steps, [300, 700, 9_000], "no step to a deadline that is none, {}", rig.kind);
            assert_eq!(times.in_ms(), steps);
            assert!(stays.is_expired());
        }
    }
}

#[test]
fn it_sees_timeouts_scheduled_after_a_turn_cut_short_by_a_limit() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().transfer_limit(2));
    (0..5).for_each(|_| timer.schedule_detached(HOUR, || ()).expect("accepted"));
    driver.turn();
    timer.schedule_detached(MS, || ()).expect("accepted");
    let start = clock.now();
    assert!(clock.advance_to_next(&timer));
    assert_eq!(clock.now() - start, MS);
}

#[test]
fn an_advance_returns_when_all_due_timeouts_have_run_even_behind_a_long_list() {
    let (timer, clock) = on_workers(Timer::builder().shards(1).transfer_limit(3).executor(Inline));
    let mut random = Random::new(6);
    for round in 0..3_000 {
        let far = timer.schedule_many(HOUR, (0..random.below(60)).map(|_| || ())).expect("accepted");
        (0..random.below(200)).for_each(|_| std::hint::spin_loop());
        let due = timer.schedule(MS, || ()).expect("accepted");
        clock.advance(MS);
        assert!(due.is_expired(), "in round {round}");
        far.iter().for_each(|far| assert!(far.cancel()));
    }
}

#[test]
fn an_advance_returns_when_all_due_timeouts_have_run_of_a_slot_of_more_than_a_turn_may_move() {
    let (timer, clock) = on_workers(Timer::builder().executor(Inline).expiry_limit(2));
    let runs = Runs::new(3_000);
    (0..3_000).for_each(|id| timer.schedule_detached(HOUR, runs.task(id)).expect("accepted"));
    clock.advance(MS);
    clock.advance(HOUR);
    runs.assert_each_ran_once();
}

#[test]
fn a_periodic_timeout_is_one_deadline_after_the_other() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let also = times.clone();
        let rate = rig.timer.schedule_at_fixed_rate(10 * MS, 25 * MS, times.task()).expect("accepted");
        let mut left = 3;
        let again = move || {
            also.note();
            left -= 1;
            (left > 0).then_some(40 * MS)
        };
        let _repeating = rig.timer.schedule_repeating(10 * MS, again).expect("accepted");
        for _ in 0..6 {
            assert!(step(&mut rig));
        }
        assert_eq!(times.in_ms(), [10, 10, 35, 50, 60, 85, 90], "{}", rig.kind);
        assert!(rate.cancel());
        assert!(!step(&mut rig));
    }
}

#[test]
fn a_periodic_timeout_in_a_run_is_pending_and_has_a_next_deadline() {
    let rig = Rig::pool(Timer::builder());
    let ((began, has_begun), times) = (channel(), Times::on(&rig.clock));
    let noted = times.clone();
    let task = move || {
        noted.note();
        let _ = began.send(());
        thread::sleep(30 * MS);
    };
    let periodic = rig.timer.schedule_at_fixed_rate(Duration::ZERO, HOUR, task).expect("accepted");
    has_begun.recv().expect("it begins");
    assert!(periodic.is_pending());
    assert!(rig.clock.advance_to_next(&rig.timer), "something is pending");
    while times.count() < 2 {
        assert!(rig.clock.advance_to_next(&rig.timer));
    }
    assert_eq!(times.in_ms(), [0, 3_600_000]);
}

#[test]
fn a_timeout_that_will_never_be_due_is_no_deadline() {
    for mut rig in Rig::each(Timer::builder) {
        let never = rig.timer.schedule(Duration::MAX, || ()).expect("accepted");
        let start = rig.clock.now();
        assert!(!step(&mut rig) && rig.clock.now() == start, "{}", rig.kind);
        let once = rig.timer.schedule_at_fixed_rate(MS, Duration::MAX, || ()).expect("accepted");
        let answered = rig.timer.schedule_repeating(2 * MS, || Some(Duration::MAX)).expect("accepted");
        assert!(step(&mut rig) && step(&mut rig) && !step(&mut rig), "{}", rig.kind);
        assert_eq!(rig.clock.now() - start, 2 * MS);
        assert!(never.is_pending() && once.is_pending() && answered.is_pending());
    }
}

#[test]
fn a_timeout_beyond_the_end_of_the_clock_is_no_deadline() {
    // A clock goes 292 years far, and a deadline may be as far from its engine's start.
    let clock = ManualClock::new();
    clock.advance(200 * 365 * DAY);
    let builder = Timer::builder().clock(clock.clone());
    let (timer, mut driver) = builder.build_driven().expect("the options make sense");
    timer.schedule_detached(200 * 365 * DAY, || ()).expect("accepted");
    let steps = (0..10).take_while(|_| {
        let stepped = clock.advance_to_next(&timer);
        driver.turn();
        stepped
    });
    assert!(steps.count() <= 1, "it says that something will be due, and it never is");
}

#[test]
fn another_clocks_timer_and_one_that_has_ended_have_no_deadline_for_it() {
    for mut rig in Rig::each(Timer::builder) {
        let (other, start) = (ManualClock::new(), rig.clock.now());
        let timeout = rig.timer.schedule(HOUR, || ()).expect("accepted");
        let (others_now, real) = (other.now(), Timer::builder().build().expect("the options make sense"));
        assert!(!other.advance_to_next(&rig.timer) && !rig.clock.advance_to_next(&real));
        assert_eq!((rig.clock.now(), other.now()), (start, others_now), "both stay");
        let clone = rig.clock.clone();
        assert!(clone.advance_to_next(&rig.timer), "a clone is the same clock");
        rig.settle();
        assert!(timeout.is_expired() && rig.clock.now() - start == HOUR, "{}", rig.kind);
        drop(rig.timer.schedule(HOUR, || ()).expect("accepted"));
        drop(rig.timer.shutdown().expect("the first"));
        let (timer, clock) = (rig.timer.clone(), rig.clock.clone());
        assert!(!in_time("a step of what has ended", move || clock.advance_to_next(&timer)));
    }
}

#[test]
fn in_a_pause_there_is_no_next_deadline_and_after_it_that_is_later_by_it() {
    for (mut rig, clock) in stoppable(Timer::builder) {
        let start = rig.clock.now();
        rig.timer.schedule_detached(100 * MS, || ()).expect("accepted");
        clock.pause();
        assert!(!rig.clock.advance_to_next(&rig.timer) && rig.clock.now() == start);
        rig.advance(HOUR);
        clock.resume();
        assert!(step(&mut rig));
        assert_eq!(rig.clock.now() - start, HOUR + 100 * MS, "{}", rig.kind);
        assert_eq!(rig.timer.stats().fired, 1);
    }
}

#[test]
fn from_a_task_it_says_no() {
    for mut rig in Rig::each(Timer::builder) {
        let (own, clock, said) = (rig.timer.clone(), rig.clock.clone(), Arc::new(Mutex::new(None)));
        let says = Arc::clone(&said);
        let task = move || *says.lock().expect("no panic") = Some(clock.advance_to_next(&own));
        rig.timer.schedule_detached(MS, task).expect("accepted");
        rig.timer.schedule_detached(HOUR, || ()).expect("accepted");
        let start = rig.clock.now();
        assert!(step(&mut rig));
        assert_eq!(*said.lock().expect("no panic"), Some(false), "{}", rig.kind);
        assert_eq!(rig.clock.now() - start, MS);
    }
}

#[test]
fn it_does_not_wait_for_batches_in_a_users_executor() {
    let (clock, keeps) = (ManualClock::new(), Keeps::default());
    let timer = built(Timer::builder().clock(clock.clone()).executor(keeps.clone()));
    timer.schedule_detached(MS, || ()).expect("accepted");
    timer.schedule_detached(2 * MS, || ()).expect("accepted");
    let own = timer.clone();
    let stepped = in_time("steps", move || (0..3).map(|_| clock.advance_to_next(&own)).collect::<Vec<_>>());
    assert_eq!((stepped, keeps.batches()), (vec![true, true, false], 2));
    keeps.run();
}

#[test]
fn a_task_that_schedules_the_next_is_followed_to_the_end() {
    fn again(timer: Timer, left: u32, times: Times) {
        times.note();
        if left > 0 {
            let own = timer.clone();
            timer.schedule_detached(left * 100 * MS, move || again(own, left - 1, times)).expect("accepted");
        }
    }
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        again(rig.timer.clone(), 5, times.clone());
        while step(&mut rig) {}
        assert_eq!(times.in_ms(), [0, 500, 900, 1_200, 1_400, 1_500], "{}", rig.kind);
    }
}

#[test]
fn two_threads_may_step_at_a_time_and_none_is_told_that_nothing_is_pending() {
    let rig = Rig::inline(Timer::builder());
    let _always = rig.timer.schedule_at_fixed_rate(MS, MS, || ()).expect("accepted");
    let refused = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..3_000 {
                    let stepped = rig.clock.advance_to_next(&rig.timer);
                    refused.fetch_add(usize::from(!stepped), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(refused.into_inner(), 0);
}

#[test]
fn three_months_of_mixed_traffic_pass_in_a_moment() {
    for levels in [1, 4] {
        let (timer, mut driver, clock) = driven_by(Timer::builder().levels(levels));
        let (mut random, start, real) = (Random::new(9), clock.now(), Instant::now());
        let late: Arc<Mutex<Vec<Duration>>> = Arc::default();
        let report = timer.schedule_at_fixed_rate(DAY, DAY, || ()).expect("accepted");
        let own = Own::default();
        own.set(timer.schedule(3_000 * HOUR, || ()).expect("accepted"));
        let most = if levels == 1 { 90 * DAY / 50 } else { 90 * DAY };
        for n in 0..3_000 {
            let delay = random.duration(most);
            let (late, now, at) = (Arc::clone(&late), clock.clone(), clock.now() + delay);
            let timeout = timer.schedule(delay, move || late.lock().expect("no panic").push(now.now() - at));
            let timeout = timeout.expect("accepted");
            match n % 10 {
                0 => assert!(timeout.cancel()),
                1 => assert!(own.get().reset(3_000 * HOUR)),
                _ => {}
            }
        }
        let mut steps = 0;
        while clock.now() - start < 90 * DAY {
            assert!(clock.advance_to_next(&timer));
            settle(&mut driver, &clock);
            steps += 1;
        }
        assert!(report.cancel() && own.get().is_pending());
        let late = late.lock().expect("no panic");
        assert_eq!(late.len(), 2_700);
        assert!(late.iter().all(|late| *late < MS), "each at its tick");
        assert!((90..=2_791).contains(&steps), "{steps}");
        assert!(real.elapsed() < PATIENCE, "{:?} with {levels} levels", real.elapsed());
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn with_a_pool_weeks_pass_in_a_moment_too() {
    let (timer, clock) = on_workers(Timer::builder().shards(2).executor(ThreadPool::new(2)));
    let (runs, mut random) = (Runs::new(500), Random::new(4));
    for id in 0..500 {
        timer.shard_for(&id).schedule_detached(random.duration(30 * DAY), runs.task(id)).expect("accepted");
    }
    while clock.advance_to_next(&timer) {}
    runs.assert_each_ran_once();
    assert_eq!(timer.pending(), 0);
}

#[test]
fn an_advance_through_a_length_of_time_runs_each_task_at_its_own_deadline_and_ends_there() {
    for make in [Rig::inline, Rig::pool] {
        let rig = make(Timer::builder().shards(2));
        let (times, start) = (Times::on(&rig.clock), rig.clock.now());
        let beat = rig.timer.schedule_at_fixed_rate(10 * MS, 25 * MS, times.task()).expect("accepted");
        rig.timer.schedule_detached(52 * MS, times.task()).expect("accepted");
        rig.clock.advance_through(84 * MS);
        assert_eq!((times.in_ms(), rig.clock.now() - start), (vec![10, 35, 52, 60], 84 * MS), "{}", rig.kind);
        rig.clock.advance_through(MS);
        assert_eq!((times.in_ms().pop(), rig.clock.now() - start), (Some(85), 85 * MS), "{}", rig.kind);
        assert!(beat.cancel());
        rig.clock.advance_through(HOUR);
        assert_eq!((times.count(), rig.clock.now() - start), (5, 85 * MS + HOUR), "{}", rig.kind);
    }
}

#[test]
fn an_advance_through_a_length_of_time_stops_at_the_deadlines_of_all_engines_on_the_clock() {
    let clock = ManualClock::new();
    let [one, other] = [Inline, Inline].map(|executor| {
        Timer::builder().executor(executor).clock(clock.clone()).build().expect("the options make sense")
    });
    let times = Times::on(&clock);
    let (first, own, next) = (times.clone(), other.clone(), times.clone());
    let schedule_on_the_other = move || {
        first.note();
        own.schedule_detached(3 * MS, move || next.note()).expect("accepted");
    };
    one.schedule_detached(5 * MS, schedule_on_the_other).expect("accepted");
    other.schedule_detached(6 * MS, times.task()).expect("accepted");
    clock.advance_through(HOUR);
    assert_eq!(times.in_ms(), [5, 6, 8]);
}

#[test]
fn an_advance_through_a_pause_takes_its_time_and_runs_nothing() {
    for (rig, clock) in stoppable(Timer::builder).into_iter().filter(|(rig, _)| rig.driver.is_none()) {
        let (start, timeout) = (rig.clock.now(), rig.timer.schedule(MS, || ()).expect("accepted"));
        clock.pause();
        rig.clock.advance_through(HOUR);
        assert!(timeout.is_pending() && rig.clock.now() - start == HOUR, "{}", rig.kind);
        clock.resume();
        rig.clock.advance_through(MS);
        assert!(timeout.is_expired(), "{}", rig.kind);
    }
}
