//! Groups: all timeouts of a group are cancelled at once, and each is otherwise a timeout like any
//! other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use tourbillon::{Group, MissedTicks, ThreadPool, Timer};

use crate::common::{
    Drops, HOUR, MS, Own, Rig, Runs, Times, Witness, assert_counters_reconcile, driven, driven_by, eventually, in_time,
    settle, threads_named,
};

fn holding(drops: &Drops) -> impl FnOnce() + Send + 'static {
    let witness: Witness = drops.witness();
    move || drop(witness)
}

/// Schedules one timeout in each way, and keeps none of them.
fn schedule_each_way(group: &Group, now: std::time::Instant, drops: &Drops) -> usize {
    let hold = || {
        let witness = drops.witness();
        move || _ = &witness
    };
    let answering = || {
        let witness = drops.witness();
        move || {
            let _held = &witness;
            Some(HOUR)
        }
    };
    drop(group.schedule(HOUR, holding(drops)).expect("accepted"));
    drop(group.schedule_at(now + HOUR, holding(drops)).expect("accepted"));
    group.schedule_detached(HOUR, holding(drops)).expect("accepted");
    drop(group.schedule_between(HOUR, 2 * HOUR, holding(drops)).expect("accepted"));
    drop(group.schedule_many(HOUR, [holding(drops), holding(drops)]).expect("accepted"));
    drop(group.schedule_at_fixed_rate(HOUR, HOUR, hold()).expect("accepted"));
    drop(group.schedule_at_fixed_rate_with(HOUR, HOUR, MissedTicks::Burst, hold()).expect("accepted"));
    drop(group.schedule_with_fixed_delay(HOUR, HOUR, hold()).expect("accepted"));
    drop(group.schedule_repeating(HOUR, answering()).expect("accepted"));
    10
}

#[test]
fn cancel_all_cancels_timeouts_scheduled_in_any_way_and_says_how_many() {
    for mut rig in Rig::each(Timer::builder) {
        for turned in [false, true] {
            let (group, drops, others) = (rig.timer.group(), Drops::default(), Drops::default());
            let other = rig.timer.schedule(HOUR, holding(&others)).expect("accepted");
            let count = schedule_each_way(&group, rig.clock.now(), &drops);
            if turned {
                rig.advance(MS);
            }
            assert_eq!((group.pending(), rig.timer.pending()), (count, count + 1));
            assert_eq!(group.cancel_all(), count, "{}", rig.kind);
            assert_eq!((drops.count(), others.count()), (count, 0));
            assert!(drops.all_by(thread::current().id()));
            assert_eq!((group.pending(), rig.timer.pending(), group.cancel_all()), (0, 1, 0));
            assert!(other.cancel());
        }
        rig.advance(10 * HOUR);
        let stats = rig.timer.stats();
        assert_eq!((stats.fired, stats.cancelled, stats.scheduled), (0, 22, 22));
        assert_counters_reconcile(&stats);
    }
}

#[test]
fn timeouts_that_fired_or_were_cancelled_before_are_not_counted() {
    let (timer, mut driver, clock) = driven();
    let (group, runs) = (timer.group(), Runs::new(4));
    let fired = group.schedule(MS, runs.task(0)).expect("accepted");
    let cancelled = group.schedule(HOUR, runs.task(1)).expect("accepted");
    let kept = group.schedule(HOUR, runs.task(2)).expect("accepted");
    group.schedule_detached(MS, runs.task(3)).expect("accepted");
    assert!(cancelled.cancel());
    assert_eq!(group.pending(), 3);
    clock.advance(MS);
    assert_eq!((settle(&mut driver, &clock), group.pending()), (2, 1));
    assert_eq!(group.cancel_all(), 1);
    assert!(kept.is_cancelled() && !kept.cancel() && !kept.reset(MS));
    assert!(fired.is_expired() && cancelled.is_cancelled());
    assert_eq!((0..4).map(|id| runs.of(id)).collect::<Vec<_>>(), [1, 0, 0, 1]);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_timeout_of_a_group_is_like_any_other_and_can_be_reset() {
    for mut rig in Rig::each(Timer::builder) {
        let (group, times) = (rig.timer.group(), Times::on(&rig.clock));
        let noting = || {
            let times = times.clone();
            move || times.note()
        };
        let earlier = group.schedule(HOUR, noting()).expect("accepted");
        let later = group.schedule(3 * MS, noting()).expect("accepted");
        rig.settle();
        assert!(earlier.reset(5 * MS) && later.reset(9 * MS));
        rig.walk(10);
        assert_eq!(times.in_ms(), [5, 9], "{}", rig.kind);
        let guard = group.schedule(MS, noting()).expect("accepted").cancel_on_drop();
        assert_eq!(group.pending(), 1);
        drop(guard);
        assert_eq!((group.pending(), group.cancel_all()), (0, 0));
    }
}

#[test]
fn dropping_a_group_leaves_its_timeouts_alone() {
    for mut rig in Rig::each(Timer::builder) {
        let (group, runs) = (rig.timer.group(), Runs::new(3));
        let held = group.schedule(MS, runs.task(0)).expect("accepted");
        group.schedule_detached(MS, runs.task(1)).expect("accepted");
        let cancelled = group.schedule(MS, runs.task(2)).expect("accepted");
        drop(group);
        assert!(cancelled.cancel());
        rig.advance(MS);
        assert!(held.is_expired());
        assert_eq!((0..3).map(|id| runs.of(id)).collect::<Vec<_>>(), [1, 1, 0], "{}", rig.kind);
    }
}

#[test]
fn a_group_made_with_cancel_on_drop_cancels_when_dropped() {
    let (timer, mut driver, clock) = driven();
    let (group, drops) = (timer.group().cancel_on_drop(), Drops::default());
    let count = schedule_each_way(&group, clock.now(), &drops);
    let handle = group.schedule(HOUR, || ()).expect("accepted");
    drop(group);
    assert_eq!((drops.count(), timer.pending()), (count, 0));
    assert!(handle.is_cancelled());
    clock.advance(9 * HOUR);
    assert_eq!(settle(&mut driver, &clock), 0);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_group_can_be_used_again_after_cancel_all() {
    let (timer, mut driver, clock) = driven();
    let (group, runs) = (timer.group(), Runs::new(100));
    for id in 0..100 {
        drop(group.schedule(HOUR, || ()).expect("accepted"));
        assert_eq!(group.cancel_all(), 1);
        drop(group.schedule(MS, runs.task(id)).expect("accepted"));
        clock.advance(MS);
        assert_eq!((settle(&mut driver, &clock), group.pending()), (1, 0));
    }
    runs.assert_each_ran_once();
}

#[test]
fn groups_do_not_see_each_other() {
    let (timer, _driver, _clock) = driven();
    let groups: Vec<_> = (0..10).map(|_| timer.group()).collect();
    let held: Vec<_> = (0..100).map(|n| groups[n % 10].schedule(HOUR, || ()).expect("accepted")).collect();
    assert_eq!((groups[3].cancel_all(), timer.pending()), (10, 90));
    assert!(held.iter().enumerate().all(|(n, timeout)| timeout.is_cancelled() == (n % 10 == 3)));
    assert!(groups.iter().enumerate().all(|(n, group)| group.pending() == if n == 3 { 0 } else { 10 }));
}

#[test]
fn cancel_all_stops_a_periodic_timeout_during_its_run() {
    let timer = Timer::builder().executor(ThreadPool::new(2)).build().expect("the options make sense");
    let (group, drops) = (timer.group(), Drops::default());
    let ((began, has_begun), (go_on, wait)) = (channel(), channel::<()>());
    let witness = drops.witness();
    let task = move || {
        let _held = &witness;
        began.send(()).expect("the test waits");
        let _ = wait.recv();
    };
    let periodic = group.schedule_at_fixed_rate(Duration::ZERO, MS, task).expect("accepted");
    has_begun.recv().expect("it runs");
    assert_eq!((group.pending(), group.cancel_all(), group.pending()), (1, 1, 0));
    assert!(periodic.is_cancelled() && drops.count() == 0);
    go_on.send(()).expect("it waits");
    eventually("its closure is dropped when the run ends", || drops.count() == 1);
    assert!(has_begun.try_recv().is_err());
    assert_eq!(timer.shutdown().expect("the first").len(), 0);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_task_may_cancel_its_own_group() {
    for mut rig in Rig::each(Timer::builder) {
        let (group, runs) = (Arc::new(rig.timer.group()), Runs::new(2));
        let (own, run, counted) = (Arc::clone(&group), runs.task(0), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&counted);
        let task = move || {
            run();
            count.store(own.cancel_all(), Ordering::SeqCst);
        };
        group.schedule_detached(MS, task).expect("accepted");
        group.schedule_detached(2 * MS, runs.task(1)).expect("accepted");
        let periodic = Own::default();
        periodic.set(group.schedule_at_fixed_rate(HOUR, HOUR, || ()).expect("accepted"));
        rig.walk(3);
        assert_eq!((runs.of(0), runs.of(1), counted.load(Ordering::SeqCst)), (1, 0, 2), "{}", rig.kind);
        assert!(periodic.get().is_cancelled());
    }
}

#[test]
fn a_closure_that_schedules_in_its_group_when_it_is_dropped_does_not_hang() {
    struct Schedules(Arc<Group>);
    impl Drop for Schedules {
        fn drop(&mut self) {
            drop(self.0.schedule(HOUR, || ()).expect("accepted"));
        }
    }
    in_time("cancel_all with a closure that comes back", || {
        let (timer, _driver, _clock) = driven();
        let group = Arc::new(timer.group());
        let held = Schedules(Arc::clone(&group));
        drop(group.schedule(HOUR, move || drop(held)).expect("accepted"));
        assert_eq!((group.cancel_all(), group.pending()), (1, 1));
        assert_eq!((group.cancel_all(), timer.pending()), (1, 0));
    });
}

#[test]
fn closures_that_panic_when_cancel_all_drops_them_are_counted_and_take_no_other_with_them() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose, in a destructor");
        }
    }
    let heard = Arc::new(AtomicUsize::new(0));
    let hears = Arc::clone(&heard);
    let hook = move |_: &(dyn std::any::Any + Send)| _ = hears.fetch_add(1, Ordering::SeqCst);
    let (timer, _driver, _clock) = driven_by(Timer::builder().on_panic(hook));
    let (group, drops) = (timer.group(), Drops::default());
    for _ in 0..5 {
        let bomb = Bomb;
        drop(group.schedule(HOUR, move || drop(bomb)).expect("accepted"));
        drop(group.schedule(HOUR, holding(&drops)).expect("accepted"));
    }
    assert_eq!(group.cancel_all(), 10);
    assert_eq!((drops.count(), timer.stats().panicked, heard.load(Ordering::SeqCst)), (5, 5, 5));
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_task_that_a_group_refuses_comes_back_and_is_not_in_it() {
    let (timer, _driver, _clock) = driven_by(Timer::builder().max_pending_timeouts(3));
    let (group, runs) = (timer.group(), Runs::new(3));
    drop(group.schedule_many(HOUR, [|| (), || (), || ()]).expect("exactly full"));
    group.schedule(MS, runs.task(0)).expect_err("full").into_inner()();
    assert_eq!((group.pending(), timer.pending()), (3, 3));
    assert_eq!(group.schedule_many(MS, [|| ()]).expect_err("full").into_inner().len(), 1);
    assert_eq!((group.cancel_all(), timer.pending()), (3, 0));
    drop(group.schedule(HOUR, || ()).expect("there is room again"));
    assert_eq!(timer.shutdown().expect("the first").len(), 1);
    assert_eq!((group.pending(), group.cancel_all()), (0, 0));
    group.schedule(MS, runs.task(1)).expect_err("shut down").into_inner()();
    group.schedule_detached(MS, runs.task(2)).expect_err("shut down").into_inner()();
    runs.assert_each_ran_once();
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_group_keeps_its_engine_alive_as_a_timer_does() {
    let timer = Timer::builder().thread_name("group-a").build().expect("the options make sense");
    let (group, drops) = (timer.group(), Drops::default());
    drop(timer);
    let fires = group.schedule(MS, || ()).expect("the engine is alive");
    eventually("it fires", || fires.is_expired());
    let left = group.schedule(HOUR, holding(&drops)).expect("the engine is alive");
    drop(group);
    eventually("the threads end", || threads_named("group-a").is_empty());
    assert_eq!(drops.count(), 1);
    assert!(left.is_cancelled());
}

#[test]
fn a_group_does_not_hold_entries_of_timeouts_that_are_over() {
    let (timer, mut driver, clock) = driven();
    let (group, own) = (timer.group(), timer.group());
    for round in 0..100_000 {
        // With and without a handle, fired and cancelled.
        group.schedule_detached(MS, || ()).expect("accepted");
        let fired = own.schedule(MS, || ()).expect("accepted");
        assert!(group.schedule(HOUR, || ()).expect("accepted").cancel());
        clock.advance(MS);
        assert_eq!(settle(&mut driver, &clock), 2, "in round {round}");
        drop(fired);
    }
    assert!(timer.stats().capacity <= 1_024, "{}", timer.stats().capacity);
    assert_eq!((group.pending(), own.pending(), timer.pending()), (0, 0, 0));
}

#[test]
fn each_timeout_of_a_group_has_one_outcome_however_many_threads_use_the_group() {
    const EACH: usize = 3_000;
    for round in 0..3 {
        let timer = Timer::builder().shards(1 + round % 2).build().expect("the options make sense");
        let (group, runs, drops) = (timer.group(), Runs::new(3 * EACH), Drops::default());
        let (start, left) = (Barrier::new(4), AtomicUsize::new(3));
        let cancelled: usize = thread::scope(|scope| {
            for producer in 0..3 {
                let (group, runs, drops, start, left) = (&group, &runs, &drops, &start, &left);
                scope.spawn(move || {
                    start.wait();
                    for id in producer * EACH..(producer + 1) * EACH {
                        let (run, witness) = (runs.task(id), drops.witness());
                        let task = move || {
                            run();
                            drop(witness);
                        };
                        let timeout = group.schedule([HOUR, MS, Duration::ZERO][id % 3], task).expect("accepted");
                        if id % 5 == 0 {
                            _ = timeout.reset(MS);
                        }
                    }
                    left.fetch_sub(1, Ordering::SeqCst);
                });
            }
            let cancel = scope.spawn(|| {
                start.wait();
                let mut cancelled = 0;
                while left.load(Ordering::SeqCst) > 0 {
                    cancelled += group.cancel_all();
                    thread::yield_now();
                }
                cancelled
            });
            cancel.join().expect("no panic")
        });
        let cancelled = cancelled + group.cancel_all();
        eventually("all have ended", || drops.count() == 3 * EACH);
        assert_eq!((timer.pending(), group.pending()), (0, 0));
        assert_eq!(runs.total() + cancelled, 3 * EACH);
        let stats = timer.stats();
        assert_eq!((stats.cancelled, stats.fired), (cancelled as u64, runs.total() as u64));
    }
}
