//! The work that a turn does, and the work that it leaves over.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::batch::MAX_BATCH;
use super::super::turn::{BEFORE_DUE, PART};
use super::*;

/// So much that it limits nothing.
const ALL: Limits = Limits { transfer: 1 << 20, expiry: 1 << 20 };

#[test]
fn a_turn_transfers_up_to_its_limit_and_says_whether_more_are_left() {
    let mut rig = Rig::new(Limits { transfer: 2, expiry: 1_000 });
    let counted = |rig: &Rig| (rig.remote().counters.transferred.get(), rig.remote().inbox_depth(), rig.shard.linked());
    assert!(!rig.turn(0).more);
    rig.push(FAR);
    rig.push(FAR);
    assert!(!rig.turn(0).more, "as many as it may");
    assert_eq!(counted(&rig), (2, 0, 2));
    (0..5).for_each(|_| _ = rig.push(FAR));
    assert!(rig.turn(0).more);
    assert_eq!(rig.shard.linked(), 4);
    assert!(rig.turn(0).more, "one is left");
    assert_eq!(rig.shard.linked(), 6);
    (0..2).for_each(|_| _ = rig.push(FAR));
    assert!(rig.turn(0).more, "the one, and one of those that came");
    assert_eq!(rig.shard.linked(), 8);
    assert!(!rig.turn(0).more);
    assert_eq!(counted(&rig), (9, 0, 9));
    // The rest is exactly the limit: the turn has to look into the inbox to know whether there is
    // more.
    (0..4).for_each(|_| _ = rig.push(FAR));
    assert!(rig.turn(0).more);
    assert!(!rig.turn(0).more);
    (0..4).for_each(|_| _ = rig.push(FAR));
    assert!(rig.turn(0).more);
    rig.push(FAR);
    assert!(rig.turn(0).more);
    assert!(!rig.turn(0).more);
    assert_eq!(counted(&rig), (18, 0, 18));
}

#[test]
fn a_turn_collects_cancelled_entries_up_to_its_limit_and_says_whether_more_are_left() {
    let mut rig = Rig::new(Limits { transfer: 1_000, expiry: 3 });
    let held: Vec<_> = (0..7).map(|_| rig.push_held(FAR)).collect();
    rig.turn(0);
    let mut held = held.into_iter();
    held.by_ref().take(4).for_each(|held| held.cancel(rig.remote()));
    assert!(rig.turn(0).more, "one is left");
    assert_eq!(rig.shard.linked(), 4);
    assert!(!rig.turn(0).more);
    assert_eq!(rig.shard.linked(), 3);
    held.for_each(|held| held.cancel(rig.remote()));
    assert!(!rig.turn(0).more, "as many as it may");
    assert_eq!((rig.shard.linked(), rig.shard.next_due(&rig.shared)), (0, None));
}

#[test]
fn a_turn_moves_resets_up_to_its_limit_and_says_whether_more_are_left() {
    let mut rig = Rig::new(Limits { transfer: 1_000, expiry: 3 });
    let held: Vec<_> = (0..4).map(|_| rig.push_held(FAR)).collect();
    rig.turn(0);
    held.iter().for_each(|held| rig.reset_and_push(held, Subtick::new(50)));
    assert!(rig.turn(0).more);
    assert_eq!(rig.remote().counters.relinked.get(), 3);
    assert!(!rig.turn(0).more);
    assert_eq!((rig.remote().counters.relinked.get(), rig.shard.earliest(&rig.shared)), (4, Subtick::new(50)));
    assert_eq!(rig.remote().counters.collected.get(), 0, "none of them was cancelled");
    assert_eq!(rig.turn(49).fired, 0);
    assert_eq!((rig.turn(50).fired, rig.turn(50).fired), (3, 1), "the limit is three a turn");
}

#[test]
fn a_timeout_that_is_due_while_in_the_moved_queue_expires_once() {
    let mut rig = Rig::new(Limits { transfer: 1_000, expiry: 1 });
    let held = [20, 5, 6].map(|deadline| rig.push_held(Subtick::new(deadline)));
    rig.turn(0);
    // A turn pops one of them, and the others come up before they are popped.
    for held in &held {
        rig.reset_and_push(held, Subtick::new(4));
    }
    let fired: Vec<_> = (0..4).map(|_| rig.turn(6).fired).collect();
    assert_eq!((fired.iter().sum::<usize>(), rig.shard.linked()), (3, 0), "{fired:?}");
    while rig.turn(6).more {}
    assert_eq!(Arc::strong_count(&rig.witness), 1);
    assert!(held.iter().all(|held| held.handle().snapshot().is_expired()));
}

#[test]
fn a_timeout_reset_to_later_is_linked_again_and_counted() {
    let mut rig = Rig::new(ENOUGH);
    let held: Vec<_> = (0..5).map(|_| rig.push_held(Subtick::new(10))).collect();
    rig.turn(0);
    held[2..].iter().for_each(|held| assert_eq!(held.handle().reset(Subtick::new(30), |_| ()), Reset::Later));
    assert_eq!(rig.turn(10).fired, 2);
    assert_eq!((rig.remote().counters.relinked.get(), rig.remote().counters.linked.get()), (3, 3));
    assert_eq!(rig.turn(30).fired, 3);
    assert_eq!((rig.remote().counters.relinked.get(), rig.shared.sum(Some(1), |counts| counts.fired.get())), (3, 5));
    assert_eq!(Arc::strong_count(&rig.witness), 1);
}

#[test]
fn a_shrink_gives_the_cells_of_a_spike_back_in_the_next_turn() {
    let mut rig = Rig::new(Limits { transfer: 10_000, expiry: 10_000 });
    (0..10_000).for_each(|_| _ = rig.push(Subtick::new(10)));
    rig.turn(0);
    assert_eq!(rig.turn(10).fired, 10_000);
    let most = rig.shard.wheel.memory();
    rig.remote().ask_for_shrink();
    rig.turn(10);
    assert!(rig.shard.wheel.memory() < most, "nothing goes back by itself");
    assert_eq!(rig.shard.wheel.memory(), small_wheel().memory());
}

#[test]
fn a_timeout_that_was_reset_to_now_while_a_turn_began_is_due_in_it() {
    let mut rig = Rig::new(ENOUGH);
    let held = rig.push_held(Subtick::new(4));
    rig.push(Subtick::new(4));
    rig.turn(0);
    let now = Subtick::new(3);
    rig.reset_and_push(&held, now);
    let turn = rig.shard.turn(&rig.shared, Subtick::ZERO, || Some(now), |due| due.hand_over(&mut run));
    assert_eq!((turn.fired, rig.shard.next_due(&rig.shared)), (1, Some(Subtick::new(4))));
}

#[test]
fn a_timeout_that_was_pushed_while_a_turn_began_is_due_in_it() {
    let mut rig = Rig::new(ENOUGH);
    rig.push(Subtick::new(3));
    let look = || Some(Subtick::new(3));
    assert_eq!(rig.shard.turn(&rig.shared, Subtick::ZERO, look, |due| due.hand_over(&mut run)).fired, 1);
}

#[test]
#[cfg_attr(miri, ignore = "65,534 timeouts")]
fn after_a_stall_what_has_arrived_runs_by_its_deadlines_unless_it_is_very_much() {
    for (arrivals, by_deadline) in [(BEFORE_DUE, true), (BEFORE_DUE + 1, false)] {
        let (mut rig, ran) = (Rig::new(ALL), Ran::default());
        rig.push_noted(6, &ran);
        rig.turn(0);
        (0..arrivals).for_each(|nth| rig.push_noted(12 - nth as u64 * 10 / arrivals as u64, &ran));
        assert_eq!(rig.turn(20).fired, 1 + arrivals, "in one turn");
        let ran = ran.lock().expect("no panic");
        assert_eq!(ran.is_sorted(), by_deadline, "{arrivals} have arrived");
        assert!(by_deadline || ran[0] == 6, "it waits for the others");
    }
}

#[test]
#[cfg_attr(miri, ignore = "65,535 timeouts")]
fn a_timeout_that_comes_due_while_many_are_taken_in_does_not_wait_for_all_of_them() {
    let mut rig = Rig::new(ALL);
    rig.push(Subtick::new(5));
    rig.turn(0);
    (0..=BEFORE_DUE).for_each(|_| _ = rig.push(FAR));
    let (shared, mut passed, mut waited) = (rig.shared.clone(), 0, u64::MAX);
    // A subtick passes with each part.
    let look = || {
        passed += 1;
        Some(Subtick::new(passed))
    };
    let turn = rig.shard.turn(&shared, Subtick::ZERO, look, |due| {
        due.hand_over(&mut |batch| {
            waited = shared.remote(1).counters.transferred.get();
            run(batch);
        });
    });
    assert_eq!((turn.fired, rig.shard.linked()), (1, BEFORE_DUE + 1));
    assert!(waited <= 5 * PART as u64, "{waited} were linked before it ran");
}

#[test]
fn timeouts_that_a_turn_cut_short_by_a_panic_leaves_behind_can_be_cancelled() {
    let mut rig = Rig::new(Limits { transfer: 1_000, expiry: 1_000 });
    let mut held: Vec<_> = (0..MAX_BATCH + 100).map(|_| rig.push_held(Subtick::new(5))).collect();
    let shared = rig.shared.clone();
    let mut taken = Vec::new();
    let mut sink = |batch| {
        taken.push(batch);
        panic!("on purpose");
    };
    let turn = || rig.shard.turn(&shared, Subtick::new(5), || None, |due| due.hand_over(&mut sink));
    assert!(catch_unwind(AssertUnwindSafe(turn)).is_err());
    taken.into_iter().for_each(run);
    let left = held.split_off(MAX_BATCH);
    left.into_iter().take(14).for_each(|held| held.cancel(rig.shared.remote(1)));
    // A close goes through what was cancelled first.
    assert_eq!((rig.shard.close(&shared).len(), rig.shard.linked()), (100 - 14, 0));
}

#[test]
fn a_drain_does_not_wait_for_a_tombstone_that_is_left_in_a_slot_when_it_has_begun() {
    let mut rig = Rig::new(ENOUGH);
    let (held, _later) = (rig.push_held(FAR), rig.push(Subtick::NEVER));
    rig.turn(0);
    rig.remote().command(Command::Drain(FAR));
    while rig.turn(0).more {}
    assert!(rig.remote().is_closed() && rig.shard.next_due(&rig.shared).is_some(), "it is pending");
    held.leave_tombstone();
    while rig.turn(0).more {}
    assert_eq!((rig.shard.next_due(&rig.shared), rig.shard.linked()), (None, 1));
}
