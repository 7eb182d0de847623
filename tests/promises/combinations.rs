//! Periodic timeouts, guards, stopped clocks, limits and the ways to shut down, where two or more
//! of them meet.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{
    Clock, Expired, Inline, ManualClock, MissedTicks, PausableClock, Pinning, ScheduleError, Shutdown, ShutdownError,
    ThreadPool, Timeout, Timer,
};

use crate::common::{
    Counter, DAY, Drops, HOUR, MS, Random, Rig, Runs, assert_counters_reconcile, block, built, driven, driven_by,
    eventually, in_time, on_workers, threads_named,
};
use crate::reentry::Interrupted;
use crate::shard_of;

const S: Duration = Duration::from_secs(1);

/// Returns whether a probe was refused. Cancels a probe that was accepted, and counts those for
/// which the cancel is too late.
fn is_refused<F>(probe: Result<Timeout, ScheduleError<F>>, too_late: &mut usize) -> bool {
    *too_late += usize::from(probe.as_ref().is_ok_and(|probe| !probe.cancel()));
    probe.is_err()
}

#[test]
fn a_timeout_scheduled_while_the_worker_is_busy_is_the_next_deadline() {
    let rig = Rig::inline(Timer::builder().shards(1));
    let (began, has_begun) = channel();
    let task = move || {
        began.send(()).expect("the test waits");
        thread::sleep(30 * MS);
    };
    rig.timer.schedule_detached(Duration::ZERO, task).expect("accepted");
    has_begun.recv().expect("it begins");
    let timeout = rig.timer.schedule(5 * S, || ()).expect("accepted");
    assert!(rig.clock.advance_to_next(&rig.timer) && timeout.is_expired());
}

#[test]
fn the_next_deadline_is_not_one_from_before_the_question() {
    for round in 0..500 {
        let rig = Rig::inline(Timer::builder().shards(1).pinning(Pinning::None));
        rig.timer.schedule_detached(HOUR, || ()).expect("accepted");
        // Each wakes the worker, which has an answer ready when it falls asleep again.
        (0..3).for_each(|k| rig.timer.schedule_detached(60 * S - k * S, || ()).expect("accepted"));
        let start = rig.clock.now();
        rig.timer.schedule_detached(5 * S, || ()).expect("accepted");
        assert!(rig.clock.advance_to_next(&rig.timer), "in round {round}");
        assert_eq!(rig.clock.now() - start, 5 * S, "in round {round}");
    }
}

#[test]
fn a_driver_at_rest_is_called_for_an_earlier_deadline_after_a_look_for_the_next_one() {
    let (timer, driver, clock) = driven();
    let rung = Counter::default();
    driver.on_earlier(rung.task());
    assert_eq!(driver.next_wakeup(), None);
    assert!(!clock.advance_to_next(&timer));
    timer.schedule_detached(S, || ()).expect("accepted");
    assert_eq!(rung.get(), 1);
}

#[test]
fn the_end_of_a_pause_is_not_missed_by_a_worker_that_is_just_being_started() {
    for round in 0..150 {
        let clock = PausableClock::new();
        let timer = built(Timer::builder().shards(1).pinning(Pinning::None).executor(Inline).clock(clock.clone()));
        clock.pause();
        let (own, (go, gone)) = (timer.clone(), channel());
        let first = thread::spawn(move || {
            go.send(()).expect("the test waits");
            own.schedule(MS, || ()).expect("accepted")
        });
        gone.recv().expect("it begins");
        (0..round * 50).for_each(|_| std::hint::spin_loop());
        clock.resume();
        let first = first.join().expect("no panic");
        eventually("it fires", || first.is_expired());
    }
}

#[test]
fn an_advance_is_not_missed_by_a_worker_that_is_just_being_started() {
    for round in 0..150 {
        let rig = Rig::inline(Timer::builder().shards(1).pinning(Pinning::None));
        let (own, (go, gone)) = (rig.timer.clone(), channel());
        let first = thread::spawn(move || {
            go.send(()).expect("the test waits");
            own.schedule(HOUR, || ()).expect("accepted")
        });
        gone.recv().expect("it begins");
        (0..round * 50).for_each(|_| std::hint::spin_loop());
        let second = rig.timer.schedule(S, || ()).expect("accepted");
        rig.clock.advance(S);
        assert!(second.is_expired(), "in round {round}");
        drop(first.join().expect("no panic"));
    }
}

#[test]
fn a_drain_ends_when_a_task_cancels_its_last_timeout() {
    let timer = Timer::builder().shards(1).executor(Inline).build().expect("the options make sense");
    let last = timer.schedule(Duration::MAX, || ()).expect("accepted");
    timer.schedule_detached(20 * MS, move || assert!(last.cancel())).expect("accepted");
    let left = in_time("a drain", move || timer.shutdown_with(Shutdown::Drain(HOUR))).expect("the first");
    assert!(left.is_empty());
}

#[test]
fn a_drain_commanded_in_a_turn_runs_what_was_due_before_it_by_a_clock_that_stands_still() {
    let (timer, _clock) = on_workers(Timer::builder().shards(1).executor(Inline));
    let end_turn = block(|task| timer.schedule_detached(Duration::ZERO, task).expect("accepted"));
    let due = timer.schedule(Duration::ZERO, || ()).expect("accepted");
    let own = timer.clone();
    let draining = thread::spawn(move || own.shutdown_with(Shutdown::Drain(Duration::ZERO)));
    // Nothing tells that the command was given. If it comes after the turn, all is well, too.
    thread::sleep(50 * MS);
    drop(end_turn);
    let left = in_time("a drain", || draining.join().expect("no panic")).expect("the first");
    assert!(left.is_empty() && due.is_expired());
}

#[test]
fn in_a_drain_a_shard_whose_worker_never_started_accepts_nothing() {
    let (timer, _clock) = on_workers(Timer::builder().shards(2));
    let key_of = |shard| (0..).find(|key: &u32| shard_of(&timer, key) == shard).expect("keys are spread");
    let (used, unused) = (timer.shard_for(&key_of(0)), timer.shard_for(&key_of(1)));
    let last = used.schedule(HOUR, || ()).expect("accepted");
    let own = timer.clone();
    let draining = thread::spawn(move || own.shutdown_with(Shutdown::Drain(2 * HOUR)));
    let mut too_late = 0;
    eventually("the drain has begun", || is_refused(used.schedule(DAY, || ()), &mut too_late));
    eventually("each shard refuses", || is_refused(unused.schedule(DAY, || ()), &mut too_late));
    assert!(!draining.is_finished());
    assert!(last.cancel());
    let left = in_time("a drain", || draining.join().expect("no panic")).expect("the first");
    assert_eq!(left.len(), too_late, "what came just before");
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_clock_that_panics_when_a_drain_begins_leaves_an_engine_that_can_be_shut_down() {
    let clock = Interrupted::default();
    let timer = Timer::builder().shards(1).thread_name("attack-a").clock(clock.clone()).build();
    let timer = timer.expect("the options make sense");
    timer.schedule_detached(HOUR, || ()).expect("accepted");
    eventually("the worker runs", || timer.stats().transferred == 1);
    clock.at_the_next_look(|| panic!("on purpose, in a clock"));
    let drain = AssertUnwindSafe(|| timer.shutdown_with(Shutdown::Drain(S)));
    assert!(catch_unwind(drain).is_err());
    assert_eq!(timer.shutdown().expect("the first that counts").len(), 1);
    drop(timer);
    eventually("the threads end", || threads_named("attack-a").is_empty());
}

#[test]
fn a_periodic_timeout_that_was_reset_before_its_first_run_is_run_or_returned_by_a_shutdown() {
    for (how, runs_then, returned) in
        [(Shutdown::Cancel, 0, 1), (Shutdown::FireNow, 1, 0), (Shutdown::Drain(10 * HOUR), 0, 1)]
    {
        let (timer, _clock) = on_workers(Timer::builder().shards(1).executor(ThreadPool::new(1)));
        let ((began, has_begun), (release, wait)) = (channel(), channel::<()>());
        let hold = move || {
            began.send(()).expect("the test waits");
            let _ = wait.recv();
        };
        timer.schedule_detached(Duration::ZERO, hold).expect("accepted");
        has_begun.recv().expect("it begins");
        // Due now, it waits in the pool behind the other.
        let runs = Counter::default();
        let periodic = timer.schedule_at_fixed_rate(Duration::ZERO, S, runs.task()).expect("accepted");
        eventually("the worker has it", || timer.stats().transferred == 2);
        thread::sleep(10 * MS);
        assert!(periodic.reset(HOUR));
        let own = timer.clone();
        let ending = thread::spawn(move || own.shutdown_with(how));
        // The drain returns or runs those that it has before the test can cancel them.
        let mut too_late = 0;
        eventually("it refuses", || is_refused(timer.schedule(DAY, || ()), &mut too_late));
        drop(release);
        let left = in_time("a shutdown", || ending.join().expect("no panic")).expect("the first");
        let more = if how == Shutdown::FireNow { 0 } else { too_late };
        assert_eq!((runs.get(), left.len()), (runs_then, returned + more), "{how:?}");
        assert!(!periodic.is_pending());
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn a_clock_that_panics_when_a_batch_begins_costs_no_timeout_its_run() {
    #[derive(Clone, Default)]
    struct Fails(Arc<AtomicUsize>);
    impl Clock for Fails {
        fn now(&self) -> Instant {
            let fewer = |looks: usize| looks.checked_sub(1);
            let failed = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_ok();
            assert!(!failed, "on purpose, in a clock");
            Instant::now()
        }
    }
    let clock = Fails::default();
    let (looks, mut first) = (Arc::clone(&clock.0), Some(()));
    let (keep, kept) = channel::<Expired>();
    let builder = Timer::builder().shards(1).clock(clock.clone());
    let timer = builder.executor(move |batch| keep.send(batch).expect("it is there")).build();
    let timer = timer.expect("the options make sense");
    let (once, runs) = (Runs::new(1), Counter::default());
    let periodic = timer.schedule_at_fixed_rate(5 * MS, 5 * MS, runs.task()).expect("accepted");
    timer.schedule_detached(5 * MS, once.task(0)).expect("accepted");
    while runs.get() < 3 || once.total() < 1 {
        let batch = kept.recv_timeout(crate::common::PATIENCE).expect("they expire");
        // The failing look may be the worker's: then it tries again.
        looks.store(usize::from(first.take().is_some()), Ordering::SeqCst);
        batch.run();
    }
    assert!(periodic.cancel() && once.total() == 1);
    drop(kept);
}

#[test]
fn no_way_to_end_or_to_stop_an_engine_from_its_hooks_hangs() {
    let (late, answers): (Arc<OnceLock<Timer>>, Arc<Mutex<Vec<_>>>) = Default::default();
    let (panics, said) = (Arc::clone(&late), Arc::clone(&answers));
    let below = ManualClock::new();
    let clock = PausableClock::over(below.clone());
    let builder = Timer::builder().shards(1).clock(clock.clone()).executor(ThreadPool::new(4));
    let builder = builder.on_turn(move |_| {
        clock.pause();
        clock.resume();
    });
    let builder = builder.on_panic(move |_| {
        if let Some(timer) = panics.get() {
            let drained = timer.shutdown_with(Shutdown::Drain(S));
            said.lock().expect("no panic").push(drained.err());
        }
    });
    let timer = builder.build().expect("the options make sense");
    late.set(timer.clone()).expect("once");
    timer.schedule_detached(MS, || panic!("on purpose")).expect("accepted");
    (0..5).for_each(|_| below.advance(MS));
    assert_eq!(*answers.lock().expect("no panic"), [Some(ShutdownError::FromTask)]);
    assert!(in_time("a shutdown", move || timer.shutdown()).expect("the first that counts").is_empty());
}

#[test]
fn guards_that_only_a_pending_task_holds_go_with_it_and_with_the_engine() {
    for inline in [true, false] {
        for _ in 0..50 {
            let builder = Timer::builder().shards(1).pinning(Pinning::None).thread_name("attack-b");
            let timer = built(if inline { builder.executor(Inline) } else { builder.executor(ThreadPool::new(2)) });
            let (guards, drops) = (Arc::new(Mutex::new(Vec::new())), Drops::default());
            let (held, mut runs) = ((Arc::clone(&guards), drops.witness()), 0);
            let task = move || {
                let _held = &held;
                runs += 1;
                (runs < 2).then_some(MS)
            };
            let periodic = timer.schedule_repeating(MS, task).expect("accepted");
            let witness = drops.witness();
            let other = timer.schedule(HOUR, move || drop(witness)).expect("accepted");
            guards.lock().expect("no panic").extend([periodic, other].map(Timeout::cancel_on_drop));
            drop((guards, timer));
            eventually("both are gone", || drops.count() == 2);
        }
    }
    eventually("the threads end", || threads_named("attack-b").is_empty());
}

#[test]
fn tasks_that_fire_now_runs_may_cancel_and_reset_others_that_have_not_run_yet() {
    for _ in 0..20 {
        let timer = Timer::builder().shards(1).executor(Inline).build().expect("the options make sense");
        let handles: Arc<Mutex<Vec<Timeout>>> = Arc::default();
        let (runs, cancelled) = (Runs::new(500), Arc::new(AtomicUsize::new(0)));
        for id in 0..500 {
            let (others, run, count) = (Arc::clone(&handles), runs.task(id), Arc::clone(&cancelled));
            let task = move || {
                run();
                let other = others.lock().expect("no panic").pop();
                if let Some(other) = other {
                    _ = other.reset(MS);
                    _ = other.reset(DAY);
                    count.fetch_add(usize::from(other.cancel()), Ordering::SeqCst);
                }
            };
            let timeout = timer.schedule(HOUR, task).expect("accepted");
            handles.lock().expect("no panic").push(timeout);
        }
        assert!(timer.shutdown_with(Shutdown::FireNow).expect("the first").is_empty());
        assert_eq!(runs.total() + cancelled.load(Ordering::SeqCst), 500);
        assert_counters_reconcile(&timer.stats());
    }
}

/// Cancels or moves half of what it schedules, one by one or many at once, and stops the clock.
fn storm(timer: &Timer, clock: &PausableClock, seed: u64) {
    let mut random = Random::new(seed);
    let mut kept: Vec<Timeout> = Vec::new();
    for _ in 0..200 {
        let delay = Duration::from_micros(random.next() % 300);
        let scheduled = match random.below(5) {
            0 => timer.schedule_at_fixed_rate(delay, delay + MS / 10, || ()).ok(),
            1 => timer.schedule_with_fixed_delay(delay, MS / 10, || ()).ok(),
            2 => {
                let mut runs = 0;
                let task = move || {
                    runs += 1;
                    (runs < 4).then_some(delay)
                };
                timer.schedule_repeating(delay, task).ok()
            }
            3 => timer.shard_for(&delay).schedule(delay, || ()).ok(),
            _ => timer.schedule(delay, || ()).ok(),
        };
        kept.extend(scheduled);
        if let Some(timeout) = (random.below(3) == 0).then(|| kept.pop()).flatten() {
            let is_moved = random.below(2) == 0 && timeout.reset(10 * delay);
            if is_moved {
                kept.insert(0, timeout);
            } else {
                timeout.cancel();
            }
        }
        if kept.len() > 12 {
            kept.swap_remove(0).cancel();
        }
        match random.below(40) {
            0 => kept.iter().for_each(|timeout| _ = timeout.cancel()),
            1 => kept.drain(..).for_each(|timeout| drop(timeout.cancel_on_drop())),
            2 => {
                clock.pause();
                clock.resume();
            }
            _ => {}
        }
    }
}

#[test]
fn counters_reconcile_with_periodic_timeouts_guards_pauses_limits_and_each_shutdown() {
    for seed in 0..30 {
        let builder = Timer::builder().shards(2).tick_duration(Duration::from_micros(50)).max_pending_timeouts(64);
        let clock = PausableClock::new();
        let timer = builder.pinning(Pinning::None).executor(ThreadPool::new(2)).clock(clock.clone()).build();
        let timer = timer.expect("the options make sense");
        thread::scope(|scope| {
            (0..2).for_each(|n| {
                let (timer, clock) = (&timer, &clock);
                scope.spawn(move || storm(timer, clock, 2 * seed + n + 1));
            });
        });
        let how =
            [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(2 * MS)][usize::try_from(seed % 3).expect("small")];
        let own = timer.clone();
        let left = in_time("a shutdown", move || own.shutdown_with(how)).expect("the first");
        let stats = timer.stats();
        assert_eq!((stats.pending, timer.pending(), stats.returned), (0, 0, left.len() as u64), "{how:?}, {seed}");
        assert_counters_reconcile(&stats);
    }
}

#[test]
fn nothing_overflows_at_the_ends_of_time_whatever_the_tick_and_the_levels() {
    let longest = 292 * 365 * DAY;
    for tick in [Duration::from_micros(1), Duration::from_micros(3), MS, longest] {
        for (levels, seed) in [None, Some(1), Some(2)].into_iter().flat_map(|levels| [(levels, 1), (levels, 2)]) {
            let builder =
                levels.map_or_else(Timer::builder, |levels| Timer::builder().levels(levels).ticks_per_wheel(8));
            let (timer, mut driver, clock) = driven_by(builder.tick_duration(tick));
            let mut random = Random::new(seed);
            for _ in 0..40 {
                let delay = match random.below(5) {
                    0 => Duration::MAX,
                    1 => Duration::from_nanos(u64::MAX - random.next() % 5),
                    2 => Duration::from_micros((1 << 54) - 3 + random.next() % 6),
                    3 => Duration::ZERO,
                    _ => random.duration(400 * DAY),
                };
                let more = random.duration(DAY).max(Duration::from_nanos(1));
                let (now, due) = (clock.clone(), clock.now().checked_add(delay));
                let task = move || assert!(due.is_none_or(|due| now.now() >= due), "early");
                let missed = [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay][random.below(3)];
                let timeout = match random.below(3) {
                    0 => timer.schedule(delay, task),
                    1 => timer.schedule_at_fixed_rate_with(delay, Duration::MAX, missed, task),
                    _ => timer.schedule_with_fixed_delay(delay, Duration::MAX, task),
                };
                let timeout = timeout.expect("accepted");
                if random.below(3) == 0 {
                    assert!(timeout.reset(delay.saturating_add(more)));
                    clock.advance(random.duration(10 * DAY));
                    driver.turn();
                }
            }
            let mut steps = 0;
            while steps < 300 && clock.advance_to_next(&timer) {
                (0..20).for_each(|_| _ = driver.turn());
                steps += 1;
            }
            assert_eq!(timer.stats().panicked, 0, "{tick:?}, {levels:?}, {seed}");
            drop(timer.shutdown().expect("the first"));
            assert_counters_reconcile(&timer.stats());
        }
    }
}
