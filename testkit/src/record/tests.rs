//! Timeouts played by the tests: what is allowed, and what is found.

use super::*;

const STAGE: Stage = Stage { discarding: false, ending: false, over: false, holds_batches: false };

fn once(floor: u64) -> Record {
    Record::open(1, Kind::Once, floor, 0)
}

#[test]
fn a_run_in_time_is_fired() {
    let mut record = once(10);
    assert_eq!(record.begin(12, false), Ok(2));
    assert_eq!(record.drop_closure(Scope::Engine, STAGE, 13), Ok(()));
    assert_eq!(record.let_go(14), Some(End::Fired));
}

#[test]
fn an_early_run_is_found_and_a_shutdowns_is_none() {
    assert_eq!(once(10).begin(9, false), Err(Fault::Early));
    assert_eq!(once(10).begin(9, true), Ok(0));
}

#[test]
fn a_second_run_is_found() {
    let mut record = once(10);
    assert!(record.begin(10, false).is_ok());
    assert_eq!(record.begin(11, false), Err(Fault::Twice));
}

#[test]
fn a_run_after_cancel_is_found() {
    let mut record = once(10);
    record.announce_cancel(1);
    assert!(record.drop_closure(Scope::Cancelling, STAGE, 2).is_ok());
    assert!(record.settle_cancel(true, 3, false).is_ok());
    assert_eq!(record.begin(10, false), Err(Fault::AfterEnd));
    let mut ran_first = once(10);
    assert!(ran_first.begin(10, false).is_ok());
    ran_first.announce_cancel(11);
    assert_eq!(ran_first.settle_cancel(true, 12, false), Err(Fault::CancelledButRan));
    let mut kept = once(10);
    kept.announce_cancel(1);
    assert_eq!(kept.settle_cancel(true, 2, false), Err(Fault::CancelledNotDropped));
}

#[test]
fn a_reset_holds_whether_the_run_comes_after_it_was_settled_or_before() {
    let mut after = once(10);
    after.announce_reset(20, 5);
    assert!(after.settle_reset(true, 6, 1, false).is_ok());
    assert_eq!(after.begin(15, false), Err(Fault::Early));
    let mut between = once(10);
    between.announce_reset(20, 5);
    assert!(between.begin(15, false).is_ok());
    assert_eq!(between.settle_reset(true, 16, 1, false), Err(Fault::EarlyForReset));
    let mut earlier = once(10);
    earlier.announce_reset(5, 4);
    assert!(earlier.begin(6, false).is_ok());
    assert!(earlier.settle_reset(true, 7, 1, false).is_ok());
    let mut too_late = once(10);
    too_late.announce_reset(5, 4);
    assert!(too_late.begin(6, false).is_ok());
    assert_eq!(too_late.settle_reset(false, 7, 1, false), Err(Fault::Early));
}

#[test]
fn a_reset_after_a_cancel_is_found() {
    let mut record = once(10);
    record.announce_cancel(1);
    assert!(record.drop_closure(Scope::Cancelling, STAGE, 1).is_ok());
    assert!(record.settle_cancel(true, 2, false).is_ok());
    record.announce_reset(20, 3);
    assert_eq!(record.settle_reset(true, 4, 1, false), Err(Fault::ResetAfterCancel));
}

#[test]
fn a_drop_that_nobody_asked_for_is_found_and_so_is_a_second() {
    let mut record = once(10);
    assert_eq!(record.drop_closure(Scope::Engine, STAGE, 1), Err(Fault::DroppedUnrun));
    assert_eq!(record.drop_closure(Scope::Engine, STAGE, 2), Err(Fault::DroppedTwice));
}

#[test]
fn a_series_that_was_put_off_may_come_back_as_soon_as_a_shutdown_has_its_answer() {
    let ending = Stage { ending: true, ..STAGE };
    let rate = || Record::open(1, Kind::Rate { period: 10 }, 10, 0);
    let mut put_off = rate();
    put_off.announce_reset(20, 2);
    assert!(put_off.settle_reset(true, 3, 1, false).is_ok());
    assert_eq!(put_off.clone().drop_closure(Scope::Engine, STAGE, 4), Err(Fault::DroppedUnrun));
    assert_eq!(put_off.drop_closure(Scope::Engine, ending, 4), Ok(()));
    assert_eq!(rate().drop_closure(Scope::Engine, ending, 4), Err(Fault::DroppedUnrun));
}

#[test]
fn a_timeout_put_off_in_an_executor_of_the_users_may_be_dropped_after_a_shutdown_has_begun() {
    let holds_batches = Stage { holds_batches: true, ..STAGE };
    let ending = Stage { ending: true, ..holds_batches };
    let mut put_off = once(10);
    put_off.announce_reset(20, 2);
    assert!(put_off.settle_reset(true, 3, 1, false).is_ok());
    for stage in [holds_batches, Stage { ending: true, ..STAGE }] {
        assert_eq!(put_off.clone().drop_closure(Scope::Engine, stage, 4), Err(Fault::DroppedUnrun));
    }
    assert_eq!(put_off.drop_closure(Scope::Engine, ending, 4), Ok(()));
    assert_eq!(once(10).drop_closure(Scope::Engine, ending, 4), Err(Fault::DroppedUnrun));
}

#[test]
fn a_rate_is_held_to_its_schedule_and_runs_do_not_overlap() {
    let mut record = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
    assert!(record.begin(11, false).is_ok());
    assert_eq!(record.clone().begin(20, false), Err(Fault::Overlapping));
    record.finish(12, None);
    assert_eq!(record.clone().begin(19, false), Err(Fault::Early));
    assert!(record.begin(20, false).is_ok());
}

#[test]
fn after_a_cancel_one_run_of_a_series_may_come_that_had_begun() {
    let mut record = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
    record.announce_cancel(9);
    assert!(record.settle_cancel(true, 10, false).is_ok());
    assert!(record.begin(10, false).is_ok());
    record.finish(11, None);
    assert_eq!(record.begin(30, false), Err(Fault::AfterCancel));
    let mut within = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
    assert!(within.begin(10, false).is_ok());
    within.announce_cancel(11);
    assert!(within.settle_cancel(true, 12, false).is_ok());
    within.finish(13, None);
    assert_eq!(within.begin(30, false), Err(Fault::AfterCancel));
}

#[test]
fn a_reset_of_a_series_holds_after_the_run_that_was_under_way() {
    let mut record = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
    record.announce_reset(100, 5);
    assert!(record.settle_reset(true, 6, 1, false).is_ok());
    assert_eq!(record.clone().begin(9, false), Err(Fault::Early));
    assert!(record.begin(10, false).is_ok());
    record.finish(11, None);
    assert_eq!(record.clone().begin(99, false), Err(Fault::Early));
    assert!(record.begin(100, false).is_ok());
    record.finish(101, None);
    assert_eq!(record.begin(108, false), Err(Fault::Early));
}

#[test]
fn a_reset_or_cancel_by_a_task_on_the_only_thread_that_runs_any_holds_for_the_next_run() {
    let mut reset = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
    reset.announce_reset(100, 12);
    assert!(reset.settle_reset(true, 13, 1, true).is_ok());
    assert_eq!(reset.clone().begin(14, false), Err(Fault::Early));
    assert!(reset.begin(100, false).is_ok());
    reset.announce_reset(103, 101);
    assert!(reset.settle_reset(true, 102, 1, true).is_ok());
    reset.finish(102, None);
    assert!(reset.begin(103, false).is_ok());
    let mut cancelled = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
    cancelled.announce_cancel(12);
    assert!(cancelled.settle_cancel(true, 13, true).is_ok());
    assert_eq!(cancelled.begin(14, false), Err(Fault::AfterCancel));
}
