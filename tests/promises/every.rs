//! `schedule_every`: a periodic timeout whose period can be changed, and that can end itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tourbillon::{Periodic, Refusal, Timer};

use crate::common::{HOUR, MS, Rig, Times, assert_counters_reconcile};

#[test]
fn the_first_run_is_one_period_away_and_the_others_follow_at_that_rate() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let noting = times.clone();
        let periodic = rig.timer.schedule_every(5 * MS, move |_| noting.note()).expect("accepted");
        rig.walk(21);
        assert_eq!(times.in_ms(), [5, 10, 15, 20], "{}", rig.kind);
        assert_eq!(periodic.period(), 5 * MS);
        assert!(periodic.cancel());
        rig.walk(10);
        assert_eq!(times.count(), 4);
        assert_counters_reconcile(&rig.timer.stats());
    }
}

#[test]
fn a_run_changes_the_period_from_when_it_was_due() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let (noting, clock) = (times.clone(), rig.clock.clone());
        let periodic = rig.timer.schedule_every(2 * MS, move |run| {
            noting.note();
            run.set_period(2 * run.period());
            // The run takes a while, which moves nothing.
            clock.advance(MS);
        });
        rig.walk(40);
        assert_eq!(times.in_ms(), [2, 6, 14, 30], "{}", rig.kind);
        assert_eq!(periodic.expect("accepted").period(), 32 * MS);
    }
}

#[test]
fn missed_runs_are_skipped_by_the_new_period() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let (noting, clock) = (times.clone(), rig.clock.clone());
        let _periodic = rig.timer.schedule_every(10 * MS, move |run| {
            noting.note();
            run.set_period(3 * MS);
            if noting.count() == 1 {
                clock.advance(10 * MS);
            }
        });
        rig.walk(16);
        assert_eq!(times.in_ms(), [10, 22, 25], "{}: 13, 16 and 19 were missed", rig.kind);
    }
}

#[test]
fn a_run_ends_the_series() {
    for mut rig in Rig::each(Timer::builder) {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let periodic = rig.timer.schedule_every(MS, move |run| {
            if count.fetch_add(1, Ordering::Relaxed) == 2 {
                run.end();
                run.set_period(HOUR);
            }
        });
        let periodic = periodic.expect("accepted");
        rig.walk(10);
        assert_eq!(runs.load(Ordering::Relaxed), 3, "{}", rig.kind);
        assert!(periodic.is_expired() && !periodic.set_period(MS) && !periodic.cancel());
        assert_eq!(Arc::strong_count(&runs), 1, "the closure is dropped");
        assert_counters_reconcile(&rig.timer.stats());
    }
}

#[test]
fn the_handle_changes_the_period_and_moves_the_next_run() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let noting = times.clone();
        let periodic = rig.timer.schedule_every(10 * MS, move |_| noting.note()).expect("accepted");
        rig.walk(5);
        assert!(periodic.set_period(3 * MS));
        rig.walk(7);
        assert!(periodic.set_period(20 * MS));
        rig.walk(30);
        assert_eq!(times.in_ms(), [8, 11, 32], "{}", rig.kind);
    }
}

#[test]
fn the_handle_changes_the_period_during_a_run() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let own: Arc<OnceLock<Periodic>> = Arc::default();
        let (noting, clock, this) = (times.clone(), rig.clock.clone(), Arc::downgrade(&own));
        let periodic = rig.timer.schedule_every(2 * MS, move |_| {
            noting.note();
            // The period counts from the call, and not from when the run was due.
            clock.advance(MS);
            let this = this.upgrade().expect("the test holds it");
            assert!(this.get().expect("it is set").set_period(7 * MS));
        });
        own.get_or_init(|| periodic.expect("accepted"));
        rig.walk(20);
        assert_eq!(times.in_ms(), [2, 10, 18], "{}", rig.kind);
    }
}

#[test]
fn a_dropped_handle_ends_nothing() {
    for mut rig in Rig::each(Timer::builder) {
        let times = Times::on(&rig.clock);
        let noting = times.clone();
        drop(rig.timer.schedule_every(MS, move |_| noting.note()).expect("accepted"));
        rig.walk(3);
        assert_eq!(times.count(), 3, "{}", rig.kind);
    }
}

#[test]
fn a_shard_and_a_group_have_it_too() {
    for mut rig in Rig::each(|| Timer::builder().shards(2)) {
        let times = Times::on(&rig.clock);
        let (of_shard, of_group) = (times.clone(), times.clone());
        let shard = rig.timer.shard_for("a key");
        let (index, keyed) = (shard.index(), shard.schedule_every(4 * MS, move |_| of_shard.note()).expect("accepted"));
        let group = rig.timer.group();
        let _member = group.schedule_every(3 * MS, move |_| of_group.note()).expect("accepted");
        rig.walk(5);
        assert_eq!(times.in_ms(), [3, 4], "{}", rig.kind);
        assert!(rig.timer.stats().shards[index].repeated > 0 && keyed.cancel());
        assert_eq!(group.cancel_all(), 1);
    }
}

#[test]
fn a_period_of_zero_is_refused_with_the_task() {
    let (timer, _driver) = Timer::builder().build_driven().expect("a driven engine");
    let refused = timer.schedule_every(Duration::ZERO, |_| ()).expect_err("no pause between two runs");
    assert_eq!(refused.kind(), Refusal::ZeroPeriod);
    let periodic = timer.schedule_every(HOUR, refused.into_inner()).expect("accepted");
    let set = std::panic::catch_unwind(|| periodic.set_period(Duration::ZERO));
    assert!(set.is_err() && periodic.period() == HOUR, "nothing has changed");
}

#[test]
fn the_time_that_remains_is_that_until_the_next_deadline() {
    for mut rig in Rig::each(Timer::builder) {
        let never = rig.timer.schedule(Duration::MAX, || ()).expect("accepted");
        let once = rig.timer.schedule(10 * MS, || ()).expect("accepted");
        let periodic = rig.timer.schedule_every(4 * MS, |_| ()).expect("accepted");
        rig.walk(6);
        assert_eq!((once.remaining(), periodic.remaining()), (4 * MS, 2 * MS), "{}", rig.kind);
        rig.timer.pause();
        rig.clock.advance(HOUR);
        assert_eq!(once.remaining(), 4 * MS, "time stands still");
        rig.timer.resume();
        rig.walk(4);
        assert!(once.is_expired() && once.remaining().is_zero());
        assert!(never.remaining() == Duration::MAX && never.cancel() && never.remaining().is_zero());
    }
}
