//! `shutdown_with`: the outcome of pending timeouts, in each of the three ways, with workers and
//! with a driver.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tourbillon::{Inline, ManualClock, PausableClock, Shutdown, ShutdownError, ThreadPool, Timeout, Timer, Unfired};

use crate::common::{
    Drops, HOUR, Keeps, MS, Rig, Runs, Times, assert_counters_reconcile, built, driven, driven_by, eventually, in_time,
    on_workers, settle,
};
use crate::pauses::stoppable;

/// Starts a drain on another thread, and waits until it has begun.
pub(crate) fn begin_to_drain(timer: &Timer, most: Duration) -> JoinHandle<Result<Vec<Unfired>, ShutdownError>> {
    let own = timer.clone();
    let draining = thread::spawn(move || own.shutdown_with(Shutdown::Drain(most)));
    eventually("the drain has begun", || timer.schedule(Duration::ZERO, || ()).is_err());
    draining
}

/// Drains, and moves the clock by a millisecond at a time. The drain must take exactly `takes`.
fn drain(timer: &Timer, clock: &ManualClock, most: Duration, takes: Duration) -> Vec<Unfired> {
    let (draining, start) = (begin_to_drain(timer, most), clock.now());
    // The timeouts that are due already have run before the clock moves, even if a pool has yet to
    // get a processor.
    clock.advance(Duration::ZERO);
    while clock.now() - start < takes {
        thread::sleep(MS);
        assert!(!draining.is_finished(), "after {:?}", clock.now() - start);
        clock.advance(MS);
    }
    in_time("a drain that is over", || draining.join().expect("no panic")).expect("the first")
}

#[test]
fn shutdown_is_shutdown_with_cancel_and_cancel_is_the_default() {
    assert_eq!(Shutdown::default(), Shutdown::Cancel);
    for mut rig in Rig::each(Timer::builder) {
        let runs = Runs::new(3);
        let due = rig.timer.schedule(MS, runs.task(0)).expect("accepted");
        rig.advance(MS);
        let left = rig.timer.schedule(HOUR, runs.task(1)).expect("accepted");
        rig.timer.schedule_detached(Duration::MAX, runs.task(2)).expect("accepted");
        let unfired = rig.timer.shutdown_with(Shutdown::Cancel).expect("the first");
        assert_eq!(unfired.len(), 2, "{}", rig.kind);
        assert!(due.is_expired() && left.is_cancelled() && rig.timer.is_shutdown());
        assert_eq!(rig.timer.shutdown_with(Shutdown::FireNow).err(), Some(ShutdownError::AlreadyShutdown));
        unfired.into_iter().for_each(|left| left.run());
        runs.assert_each_ran_once();
        assert_counters_reconcile(&rig.timer.stats());
    }
}

#[test]
fn fire_now_runs_all_that_is_pending_whatever_its_deadline_and_returns_nothing() {
    for mut rig in Rig::each(|| Timer::builder().shards(2).max_pending_timeouts(2_000)) {
        let runs = Runs::new(1_000);
        let timer = rig.timer.clone();
        let schedule = |id: usize| {
            let delay = [Duration::ZERO, MS, HOUR, 100_000 * HOUR, Duration::MAX][id % 5];
            timer.schedule(delay, runs.task(id)).expect("accepted")
        };
        let mut handles: Vec<_> = (0..500).map(schedule).collect();
        // Some are linked by now, and some are not.
        rig.settle();
        handles.extend((500..1_000).map(schedule));
        let cancelled = [2, 7, 502, 507];
        for first in [0, 500] {
            assert!(handles[first + 1].reset(2 * HOUR) && handles[first + 3].reset(MS) && handles[first + 2].cancel());
            thread::scope(|scope| scope.spawn(|| assert!(handles[first + 7].cancel())).join().expect("no panic"));
        }
        let left = rig.timer.shutdown_with(Shutdown::FireNow).expect("the first");
        assert!(left.is_empty(), "{}", rig.kind);
        for (id, timeout) in handles.iter().enumerate() {
            let is_cancelled = cancelled.contains(&id);
            assert_eq!((timeout.is_cancelled(), timeout.is_expired()), (is_cancelled, !is_cancelled));
            assert_eq!(runs.of(id), usize::from(!is_cancelled));
        }
        let stats = rig.timer.stats();
        assert_eq!((rig.timer.pending(), stats.fired, stats.cancelled, stats.returned), (0, 996, 4, 0));
        assert_counters_reconcile(&stats);
    }
}

#[test]
fn fire_now_gives_a_periodic_timeout_one_more_run_and_no_other() {
    for mut rig in Rig::each(|| Timer::builder().max_pending_timeouts(3)) {
        let (times, drops) = (Times::on(&rig.clock), Drops::default());
        let noting = || {
            let (times, witness) = (times.clone(), drops.witness());
            move || {
                let _held = &witness;
                times.note();
            }
        };
        let rate = rig.timer.schedule_at_fixed_rate(MS, MS, noting()).expect("accepted");
        let delay = rig.timer.schedule_with_fixed_delay(HOUR, MS, noting()).expect("accepted");
        let note = noting();
        let again = move || {
            note();
            Some(Duration::ZERO)
        };
        let repeating = rig.timer.schedule_repeating(2 * MS, again).expect("accepted");
        rig.advance(MS);
        assert!(rig.timer.shutdown_with(Shutdown::FireNow).expect("the first").is_empty());
        assert_eq!((times.in_ms(), drops.count()), (vec![1; 4], 3), "{}", rig.kind);
        assert_eq!(rig.timer.pending(), 0);
        assert!([&rate, &delay, &repeating].iter().all(|periodic| !periodic.is_pending() && !periodic.cancel()));
        assert_eq!(rig.timer.stats().fired, 4);
        assert_counters_reconcile(&rig.timer.stats());
    }
}

#[test]
fn fire_now_works_for_a_worker_that_was_never_started_and_in_a_pause() {
    for rig in Rig::each(Timer::builder) {
        assert!(rig.timer.shutdown_with(Shutdown::FireNow).expect("the first").is_empty());
    }
    for (rig, clock) in stoppable(Timer::builder) {
        let runs = Runs::new(1);
        clock.pause();
        rig.timer.schedule_detached(HOUR, runs.task(0)).expect("accepted");
        let timer = rig.timer.clone();
        let left = in_time("a shutdown", move || timer.shutdown_with(Shutdown::FireNow)).expect("the first");
        assert!(left.is_empty() && runs.total() == 1, "{}", rig.kind);
    }
}

#[test]
fn fire_now_goes_through_the_executor_and_lateness_knows_of_none_of_it() {
    let keeps = Keeps::default();
    let (timer, _clock) = on_workers(Timer::builder().executor(keeps.clone()));
    let (runs, panics) = (Runs::new(1_000), 3);
    (0..1_000).for_each(|id| timer.schedule_detached(HOUR, runs.task(id)).expect("accepted"));
    (0..panics).for_each(|_| timer.schedule_detached(HOUR, || panic!("on purpose")).expect("accepted"));
    assert!(timer.shutdown_with(Shutdown::FireNow).expect("the first").is_empty());
    assert_eq!(runs.total(), 0, "an executor of the user's own runs them when it likes");
    keeps.run();
    runs.assert_each_ran_once();
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.panicked, stats.lateness.count()), (1_003, 3, 0));
}

#[test]
fn tasks_that_fire_now_runs_can_schedule_nothing_more() {
    for rig in Rig::each(Timer::builder) {
        let (own, runs) = (rig.timer.clone(), Runs::new(1));
        let next = runs.task(0);
        let task = move || own.schedule(MS, next).expect_err("refused").into_inner()();
        rig.timer.schedule_detached(HOUR, task).expect("accepted");
        drop(rig.timer.shutdown_with(Shutdown::FireNow).expect("the first"));
        assert_eq!((runs.total(), rig.timer.stats().panicked), (1, 0), "{}", rig.kind);
    }
}

#[test]
fn a_drain_runs_timeouts_that_become_due_in_its_time_and_returns_the_rest() {
    for builder in [Timer::builder().executor(Inline), Timer::builder().executor(ThreadPool::new(2)).shards(2)] {
        let (timer, clock) = on_workers(builder);
        let (times, runs, start) = (Times::on(&clock), Runs::new(3), clock.now());
        for ms in [0, 1, 5, 20] {
            timer.schedule_detached(ms * MS, times.task()).expect("accepted");
        }
        let far = timer.schedule(21 * MS, runs.task(0)).expect("accepted");
        timer.schedule_detached(Duration::MAX, runs.task(1)).expect("accepted");
        let elsewhere = || timer.schedule_detached(HOUR, runs.task(2)).expect("accepted");
        thread::scope(|scope| scope.spawn(elsewhere).join().expect("no panic"));
        let left = drain(&timer, &clock, 20 * MS, 20 * MS);
        assert_eq!(times.in_ms(), [0, 1, 5, 20]);
        let mut deadlines: Vec<_> = left.iter().map(|left| left.deadline()).collect();
        deadlines.sort();
        assert_eq!((deadlines.len(), deadlines[0], deadlines[1]), (3, start + 21 * MS, start + HOUR));
        assert!(far.is_cancelled() && runs.total() == 0);
        left.into_iter().for_each(|left| left.run());
        runs.assert_each_ran_once();
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn a_drain_ends_as_soon_as_nothing_is_left() {
    let (timer, clock) = on_workers(Timer::builder().shards(2));
    let left = in_time("an empty drain", move || timer.shutdown_with(Shutdown::Drain(HOUR)));
    assert!(left.expect("the first").is_empty());
    for shards in [1, 2] {
        let (timer, clock) = on_workers(Timer::builder().shards(shards));
        let ran = timer.schedule(MS, || ()).expect("accepted");
        clock.advance(MS);
        let last = timer.schedule(7 * MS, || ()).expect("accepted");
        // The drain does not wait for a cancelled timeout.
        assert!(timer.schedule(HOUR, || ()).expect("accepted").cancel());
        let left = drain(&timer, &clock, HOUR, 7 * MS);
        assert!(left.is_empty() && ran.is_expired() && last.is_expired());
    }
    drop(clock);
    let timer = Timer::new().expect("the defaults make sense");
    let start = Instant::now();
    let last = timer.schedule(20 * MS, || ()).expect("accepted");
    let own = timer.clone();
    let left = in_time("a drain", move || own.shutdown_with(Shutdown::Drain(HOUR))).expect("the first");
    assert!(left.is_empty() && last.is_expired() && start.elapsed() >= 20 * MS);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_full_engine_that_drains_refuses_as_shut_down_and_not_as_full() {
    let timer = Timer::builder().max_pending_timeouts(1).build().expect("the options make sense");
    let held = timer.schedule(HOUR, || ()).expect("accepted");
    assert!(timer.schedule(HOUR, || ()).expect_err("one is pending").is_full());
    let own = timer.clone();
    let draining = thread::spawn(move || own.shutdown_with(Shutdown::Drain(2 * HOUR)));
    eventually("the drain has begun", || timer.schedule(HOUR, || ()).is_err_and(|refused| refused.is_shutdown()));
    assert!(timer.schedule_many(HOUR, [|| ()]).expect_err("it drains").is_shutdown());
    assert_eq!(timer.pending(), 1);
    assert!(held.cancel());
    assert!(in_time("a drain", || draining.join().expect("no panic")).expect("the first").is_empty());
}

/// A thread cancels and drops timeouts in the inbox, whose entries it may revive there, without a
/// push that would be refused. Then a drain begins, and the thread schedules. Returns whether the
/// drain had not yet come to those in the inbox.
fn schedules_before_a_drain_comes_to_what_it_has_cancelled() -> bool {
    let timer = built(Timer::builder().shards(1).executor(Inline).transfer_limit(1));
    let (begun, has_begun) = channel();
    let (go, may_go) = channel();
    let task = move || {
        begun.send(()).expect("the test waits");
        may_go.recv().expect("the test goes on");
    };
    timer.schedule_detached(Duration::ZERO, task).expect("accepted");
    has_begun.recv().expect("the worker is in a task");
    let cancelled: Vec<_> = (0..8).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
    assert!(cancelled.iter().all(Timeout::cancel));
    drop(cancelled);
    // The worker goes through these first, one a turn.
    let (other, others) = (timer.clone(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&others);
    let push =
        move || *kept.lock().expect("no panic") = other.schedule_many(HOUR, vec![|| (); 20_000]).expect("accepted");
    thread::spawn(push).join().expect("no panic");
    let own = timer.clone();
    let draining = thread::spawn(move || own.shutdown_with(Shutdown::Drain(2 * HOUR)).map(|left| left.len()));
    // Nothing shows when the drain's command has been given. If it comes later, this try does not
    // count.
    thread::sleep(20 * MS);
    go.send(()).expect("the task waits");
    while !timer.schedule_many(HOUR, [(); 0].map(|()| || ())).is_err_and(|refused| refused.is_shutdown()) {}
    (0..8).for_each(|_| assert!(timer.schedule(HOUR, || ()).is_err_and(|refused| refused.is_shutdown())));
    let to_come = timer.stats().inbox_depth;
    assert!(others.lock().expect("no panic").drain(..).all(|timeout| timeout.cancel()));
    // So many turns may take a slow machine more than our patience, but not each of them.
    let turns = || timer.stats().shards[0].turns;
    while !draining.is_finished() {
        let before = turns();
        assert!(before < 200_000, "a drain of nothing that does not end");
        eventually("the drain goes on", || draining.is_finished() || turns() > before);
    }
    assert_eq!(draining.join().expect("no panic"), Ok(0));
    to_come > 8
}

#[test]
fn a_drain_accepts_nothing_in_the_place_of_a_timeout_cancelled_before_it() {
    assert!(
        (0..5).any(|_| schedules_before_a_drain_comes_to_what_it_has_cancelled()),
        "it was too late in each of five tries"
    );
}

#[test]
fn a_drain_ends_when_its_last_timeout_is_cancelled() {
    for builder in [Timer::builder(), Timer::builder().executor(Inline).shards(2)] {
        let timer = builder.build().expect("the options make sense");
        let held = timer.schedule(HOUR, || ()).expect("accepted");
        let guard = timer.schedule(HOUR, || ()).expect("accepted").cancel_on_drop();
        let draining = begin_to_drain(&timer, 2 * HOUR);
        assert!(held.cancel());
        drop(guard);
        let left = in_time("a drain with nothing left", || draining.join().expect("no panic")).expect("the first");
        assert!(left.is_empty());
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn a_reset_to_earlier_or_later_works_in_a_drain() {
    let (timer, clock) = on_workers(Timer::builder());
    let times = Times::on(&clock);
    let earlier = timer.schedule(HOUR, times.task()).expect("accepted");
    let later = timer.schedule(2 * MS, times.task()).expect("accepted");
    let beyond = timer.schedule(3 * MS, times.task()).expect("accepted");
    let draining = begin_to_drain(&timer, 10 * MS);
    assert!(earlier.reset(5 * MS) && later.reset(7 * MS) && beyond.reset(11 * MS));
    for _ in 0..10 {
        thread::sleep(MS);
        assert!(!draining.is_finished());
        clock.advance(MS);
    }
    let left = in_time("a drain", || draining.join().expect("no panic")).expect("the first");
    assert_eq!((times.in_ms(), left.len()), (vec![5, 7], 1));
    assert!(beyond.is_cancelled());
}

#[test]
fn a_schedule_in_a_drain_gives_the_closure_back_from_outside_and_from_a_task() {
    let (timer, clock) = on_workers(Timer::builder());
    let (own, runs) = (timer.clone(), Runs::new(2));
    let next = runs.task(0);
    let task = move || own.schedule(MS, next).expect_err("refused").into_inner()();
    timer.schedule_detached(5 * MS, task).expect("accepted");
    let periodic_runs = Times::on(&clock);
    let periodic = timer.schedule_at_fixed_rate(MS, MS, periodic_runs.task()).expect("accepted");
    let draining = begin_to_drain(&timer, HOUR);
    let error = timer.schedule(MS, runs.task(1)).expect_err("refused");
    assert!(error.is_shutdown());
    error.into_inner()();
    assert!(timer.schedule_at_fixed_rate(MS, MS, || ()).expect_err("refused").is_shutdown());
    assert_eq!(timer.shutdown().err(), Some(ShutdownError::AlreadyShutdown));
    for _ in 0..5 {
        clock.advance(MS);
    }
    let left = in_time("a drain", || draining.join().expect("no panic")).expect("the first");
    runs.assert_each_ran_once();
    assert_eq!((left.len(), periodic_runs.count()), (1, 0), "a periodic timeout does not go on");
    assert!(periodic.is_cancelled());
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn after_a_shutdown_nothing_waits_in_the_queues() {
    let (timer, mut driver) =
        Timer::builder().transfer_limit(10).expiry_limit(10).build_driven().expect("the options make sense");
    let timeouts: Vec<_> = (0..100).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
    driver.turn();
    assert_eq!(timer.shutdown().expect("the first").len(), 100);
    let stats = timer.stats();
    assert_eq!((stats.pending, stats.inbox_depth), (0, 0));
    drop(timeouts);
}

#[test]
fn a_producer_that_waits_for_the_worker_is_refused_when_the_engine_is_shut_down() {
    // A worker this slow is behind by more than a producer waits for, which waits for an hour.
    let timer = built(Timer::builder().shards(1).transfer_limit(1).expiry_limit(1).max_wait(HOUR));
    let own = timer.clone();
    let producer = thread::spawn(move || {
        let accepted = std::iter::repeat_with(|| own.schedule(HOUR, || ()));
        accepted.map_while(Result::ok).collect::<Vec<_>>()
    });
    eventually("very many wait for the worker", || timer.stats().inbox_depth > 20_000);
    let left = in_time("a shutdown", move || timer.shutdown()).expect("the first");
    let accepted = in_time("the producer", move || producer.join()).expect("no panic");
    assert_eq!(accepted.len(), left.len());
    assert!(accepted.iter().all(tourbillon::Timeout::is_cancelled));
}

#[test]
fn a_drain_in_a_pause_goes_on_when_the_pause_ends() {
    for builder in [Timer::builder(), Timer::builder().executor(Inline)] {
        let clock = PausableClock::new();
        let timer = builder.clock(clock.clone()).build().expect("the options make sense");
        let soon = timer.schedule(20 * MS, || ()).expect("accepted");
        clock.pause();
        let draining = begin_to_drain(&timer, HOUR);
        thread::sleep(50 * MS);
        assert!(!draining.is_finished() && soon.is_pending() && clock.is_paused());
        clock.resume();
        let left = in_time("a drain", || draining.join().expect("no panic")).expect("the first");
        assert!(left.is_empty() && soon.is_expired());
    }
}

#[test]
fn a_driven_engine_drains_due_timeouts_on_the_calling_thread() {
    let (timer, mut driver, clock) = driven();
    let (ran_by, runs) = (Arc::new(Mutex::new(None)), Runs::new(2));
    let by = Arc::clone(&ran_by);
    let task = move || *by.lock().expect("no panic") = Some(thread::current().id());
    let due = timer.schedule(5 * MS, task).expect("accepted");
    settle(&mut driver, &clock);
    let moved = timer.schedule(HOUR, runs.task(0)).expect("accepted");
    let rest = timer.schedule(6 * MS, runs.task(1)).expect("accepted");
    clock.advance(5 * MS);
    assert!(moved.reset(Duration::ZERO));
    let left = timer.shutdown_with(Shutdown::Drain(HOUR)).expect("the first");
    assert_eq!(*ran_by.lock().expect("no panic"), Some(thread::current().id()));
    assert_eq!((left.len(), runs.of(0), runs.of(1)), (1, 1, 0));
    assert!(due.is_expired() && moved.is_expired() && rest.is_cancelled());
    assert_eq!((driver.turn(), driver.next_wakeup(), timer.pending()), (0, None, 0));
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_driven_engine_drains_thousands_within_its_limits_and_hands_a_periodic_timeout_back() {
    let (timer, _driver, clock) =
        crate::common::driven_by(Timer::builder().expiry_limit(7).transfer_limit(11).shards(3));
    let (runs, times) = (Runs::new(3_000), Times::on(&clock));
    (0..3_000).for_each(|id| timer.schedule_detached(MS, runs.task(id)).expect("accepted"));
    let periodic = timer.schedule_at_fixed_rate(MS, MS, times.task()).expect("accepted");
    clock.advance(10 * MS);
    let left = timer.shutdown_with(Shutdown::Drain(Duration::ZERO)).expect("the first");
    runs.assert_each_ran_once();
    assert_eq!((left.len(), times.count(), periodic.is_cancelled()), (1, 0, true));
    left.into_iter().for_each(Unfired::run);
    assert_eq!(times.count(), 1);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_driven_engine_drains_timeouts_that_came_after_a_turn_cut_short_by_a_limit() {
    let (timer, mut driver, _clock) = crate::common::driven_by(Timer::builder().transfer_limit(2));
    (0..5).for_each(|_| timer.schedule_detached(HOUR, || ()).expect("accepted"));
    driver.turn();
    let due = timer.schedule(Duration::ZERO, || ()).expect("accepted");
    assert_eq!(timer.shutdown_with(Shutdown::Drain(HOUR)).expect("the first").len(), 5);
    assert!(due.is_expired());
}

#[test]
fn a_driven_engine_drains_what_is_due_in_a_slot_of_more_than_a_turn_may_move() {
    let (timer, driver, clock) = crate::common::driven_by(Timer::builder().expiry_limit(2));
    let runs = Runs::new(3_000);
    (0..3_000).for_each(|id| timer.schedule_detached(HOUR, runs.task(id)).expect("accepted"));
    assert!(driver.next_wakeup().is_some(), "they are taken in");
    clock.advance(HOUR);
    assert!(timer.shutdown_with(Shutdown::Drain(Duration::ZERO)).expect("the first").is_empty());
    runs.assert_each_ran_once();
}

#[test]
fn no_way_to_shut_down_works_from_a_task_of_the_engine() {
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(HOUR)] {
        for mut rig in Rig::each(Timer::builder) {
            let (own, (tell, told)) = (rig.timer.clone(), channel());
            let answers = tell.clone();
            let once = rig.timer.clone();
            let task = move || answers.send(once.shutdown_with(how).err()).expect("the test waits");
            rig.timer.schedule_detached(MS, task).expect("accepted");
            let periodic = move || tell.send(own.shutdown_with(how).err()).expect("the test waits");
            let periodic = rig.timer.schedule_at_fixed_rate(MS, HOUR, periodic).expect("accepted");
            rig.advance(MS);
            for _ in 0..2 {
                assert_eq!(told.recv(), Ok(Some(ShutdownError::FromTask)), "{how:?}, {}", rig.kind);
            }
            assert!(!rig.timer.is_shutdown() && periodic.is_pending(), "nothing was changed");
            drop(rig.timer.schedule(HOUR, || ()).expect("it goes on"));
        }
    }
}

#[test]
fn a_schedule_that_races_a_shutdown_of_any_kind_has_one_outcome() {
    for (round, how) in [Shutdown::FireNow, Shutdown::Drain(5 * MS)].into_iter().cycle().take(40).enumerate() {
        let timer = built(if round % 3 == 0 { Timer::builder().executor(Inline) } else { Timer::builder().shards(2) });
        let runs = Runs::new(3 * 20_000);
        let (accepted, left) = thread::scope(|scope| {
            let produce = |producer: usize| {
                let (timer, runs) = (&timer, &runs);
                scope.spawn(move || {
                    let ids = producer * 20_000..(producer + 1) * 20_000;
                    let delay = |id: usize| [Duration::ZERO, MS, HOUR][id % 3];
                    ids.take_while(|&id| timer.schedule(delay(id), runs.task(id)).is_ok()).count()
                })
            };
            let producers: Vec<_> = (0..3).map(produce).collect();
            thread::sleep(MS);
            let left = timer.shutdown_with(how).expect("the first");
            (producers.into_iter().map(|producer| producer.join().expect("no panic")).sum::<usize>(), left)
        });
        let (ran, returned) = (runs.total(), left.len());
        assert_eq!(accepted, ran + returned, "{how:?}");
        assert!(how != Shutdown::FireNow || returned == 0);
        left.into_iter().for_each(|left| left.run());
        assert_eq!(runs.total(), accepted);
        assert!((0..60_000).all(|id| runs.of(id) <= 1));
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn a_schedule_by_a_task_that_the_end_of_a_driven_engine_runs_is_refused_on_each_shard() {
    for how in [Shutdown::FireNow, Shutdown::Drain(HOUR)] {
        let ((timer, _driver, clock), refused) = (driven_by(Timer::builder().shards(2)), Arc::new(Mutex::new(vec![])));
        for key in 0..16_u64 {
            let (own, refused) = (timer.clone(), Arc::clone(&refused));
            let task = move || {
                let again = (0..16_u64).map(|key| own.shard_for(&key).schedule_detached(MS, || ()).is_err());
                refused.lock().expect("no panic").extend(again);
            };
            timer.shard_for(&key).schedule_detached(MS, task).expect("accepted");
        }
        clock.advance(MS);
        assert!(timer.shutdown_with(how).expect("the first").is_empty());
        assert_eq!(*refused.lock().expect("no panic"), [true; 16 * 16], "{how:?}");
    }
}
