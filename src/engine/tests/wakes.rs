//! Which pushes, resets and requests wake the worker, and when.

use super::*;

#[test]
fn a_push_wakes_a_worker_that_would_sleep_past_it_and_no_other() {
    let mut rig = Rig::new(ENOUGH);
    assert!(
        rig.shard.takes.inbox(rig.shared.remote(1)).wake(),
        "it has never run: the first thread that comes wakes it"
    );
    rig.push(FAR);
    assert_eq!(rig.rung(), 0, "it is awake, and will look at the inbox");
    rig.turn(0);
    assert!(rig.remote().fall_asleep(Some(FAR)));
    assert_eq!(rig.remote().sleeps_until(), Some(FAR));
    rig.push(FAR);
    rig.push(FAR.next());
    assert_eq!(rig.rung(), 0, "it wakes by itself in time");
    rig.push(Subtick::new(FAR.get() - 1));
    assert_eq!(rig.rung(), 1);
    rig.push(Subtick::ZERO);
    assert_eq!((rig.rung(), rig.remote().sleeps_until()), (0, None), "it has been woken");
}

#[test]
fn a_worker_that_sleeps_without_end_is_woken_for_any_deadline_but_never() {
    let mut rig = Rig::new(ENOUGH);
    rig.turn(0);
    assert!(rig.remote().fall_asleep(None));
    rig.push(Subtick::NEVER);
    assert_eq!(rig.rung(), 0);
    rig.push(FAR);
    assert_eq!(rig.rung(), 1);
}

#[test]
fn a_revived_entry_wakes_as_a_push_does() {
    let mut rig = Rig::new(ENOUGH);
    rig.turn(0);
    rig.remote().wake_for_revived(Subtick::ZERO, rig.shared.timeline());
    assert_eq!(rig.rung(), 0, "it is awake");
    assert!(rig.remote().fall_asleep(Some(FAR)));
    rig.remote().wake_for_revived(FAR, rig.shared.timeline());
    assert_eq!(rig.rung(), 0);
    rig.remote().wake_for_revived(Subtick::new(FAR.get() - 1), rig.shared.timeline());
    assert_eq!((rig.rung(), rig.remote().sleeps_until()), (1, None));
}

#[test]
fn a_reset_to_earlier_wakes_as_a_push_does() {
    let mut rig = Rig::new(ENOUGH);
    let held = rig.push_held(Subtick::new(2 * FAR.get()));
    rig.turn(0);
    rig.rung();
    rig.reset_and_push(&held, Subtick::new(2 * FAR.get() - 1));
    assert_eq!(rig.rung(), 0, "it is awake");
    rig.turn(0);
    assert!(rig.remote().fall_asleep(Some(FAR)));
    rig.reset_and_push(&held, FAR.next());
    assert_eq!(rig.rung(), 0, "by its word it is due after the worker wakes");
    rig.remote().ring_if_it_sleeps_past(FAR, rig.shared.timeline());
    assert_eq!(rig.rung(), 0);
    assert!(rig.shard.takes.inbox(rig.shared.remote(1)).wake());
    rig.turn(0);
    assert!(rig.remote().fall_asleep(Some(FAR)));
    let entry = rig.reset(&held, FAR);
    assert_eq!(held.handle().reset(Subtick::new(5), |_| ()), Reset::Earlier, "another thread, before the push");
    rig.push_moved(&held, entry);
    assert_eq!(rig.rung(), 1, "by the deadline that it has after the push");
    rig.remote().ring_if_it_sleeps_past(Subtick::ZERO, rig.shared.timeline());
    assert_eq!(rig.rung(), 0, "it has been woken");
    rig.turn(0);
    assert!(rig.remote().fall_asleep(Some(FAR)));
    rig.remote().ring_if_it_sleeps_past(Subtick::new(5), rig.shared.timeline());
    assert_eq!(rig.rung(), 1);
}

#[test]
fn resets_that_pile_up_wake_whatever_their_deadlines() {
    let mut rig = Rig::new(Limits { transfer: 2 * WAKE_DEPTH, ..ENOUGH });
    let held: Vec<_> = (0..WAKE_DEPTH).map(|_| rig.push_held(FAR.next())).collect();
    rig.turn(0);
    rig.rung();
    assert!(rig.remote().fall_asleep(Some(Subtick::ZERO)));
    held[1..].iter().for_each(|held| rig.reset_and_push(held, FAR));
    assert_eq!(rig.rung(), 0);
    rig.reset_and_push(&held[0], FAR);
    assert_eq!(rig.rung(), 1);
}

#[test]
fn a_worker_sleeps_until_the_last_timeout_of_a_tick_but_not_over_what_was_next_when_it_came() {
    // Nobody asks that clock in this test. A tick has 16 subticks.
    let mut rig = Rig::on(Timeline::new(None, Duration::from_secs(1)), ENOUGH, None);
    let held = [rig.push_held(Subtick::new(9)), rig.push_held(FAR)];
    rig.push(Subtick::new(3));
    let last_due = |rig: &mut Rig| rig.shard.last_due_of_tick(&rig.shared).expect("some are pending").get();
    rig.turn(0);
    assert_eq!(last_due(&mut rig), 9);
    rig.push(Subtick::new(1));
    rig.turn(0);
    assert_eq!(last_due(&mut rig), 1, "it was next when it was pushed");
    assert_eq!((rig.turn(1).fired, last_due(&mut rig)), (1, 9));
    rig.reset_and_push(&held[1], Subtick::new(2));
    rig.turn(1);
    assert_eq!(last_due(&mut rig), 2, "it was next when it was reset");
    assert_eq!((rig.turn(2).fired, last_due(&mut rig)), (1, 9));
    rig.reset_and_push(&held[0], Subtick::new(4));
    rig.turn(2);
    assert_eq!(last_due(&mut rig), 4);
}

#[test]
fn a_worker_does_not_fall_asleep_over_unseen_requests() {
    let mut rig = Rig::new(ENOUGH);
    rig.turn(0);
    let (shared, shard) = (rig.shared.clone(), &mut rig.shard);
    let remote = shared.remote(1);
    assert!(remote.fall_asleep(None) && shard.takes.inbox(remote).wake());

    assert_eq!(remote.request_turn(), 1);
    assert!(!remote.fall_asleep(None), "somebody waits for a turn");
    assert_eq!(remote.sleeps_until(), None, "and it is awake");
    remote.complete_turn(remote.turn_requested(), || unreachable!("nobody has asked for that"));
    assert!(remote.fall_asleep(None) && shard.takes.inbox(remote).wake());

    remote.command(Command::Drain(FAR));
    assert_eq!(remote.drains_until(), Some(FAR));
    assert!(!remote.is_stopped() && !remote.is_to_fire() && !remote.is_unwanted());
    assert!(!remote.fall_asleep(None), "it is to drain, and has not closed the inbox");
    assert!(!remote.is_closed());
    turn(shard, &shared, 0);
    assert!(remote.is_closed() && shard.next_due(&shared).is_none());
    assert!(remote.fall_asleep(None), "it has");
    assert!(shard.takes.inbox(remote).wake());

    for (order, says) in [
        (Command::StopAndReturn, [false, false]),
        (Command::StopAndDiscard, [true, false]),
        (Command::StopAndFire, [false, true]),
    ] {
        remote.command(order);
        assert!(remote.is_stopped() && remote.drains_until().is_none());
        assert_eq!([remote.is_unwanted(), remote.is_to_fire()], says);
        assert!(!remote.fall_asleep(None), "it is to stop");
    }
}

#[test]
fn moved_entries_and_a_deep_cancelled_queue_keep_the_worker_awake() {
    let mut rig = Rig::new(Limits { transfer: 2 * WAKE_DEPTH, expiry: 2 * WAKE_DEPTH });
    let held: Vec<_> = (0..WAKE_DEPTH).map(|_| rig.push_held(FAR)).collect();
    rig.turn(0);
    rig.rung();
    rig.reset_and_push(&held[0], Subtick::new(FAR.get() - 1));
    assert!(!rig.remote().fall_asleep(None));
    rig.turn(0);
    let mut held = held.into_iter();
    held.by_ref().take(WAKE_DEPTH - 1).for_each(|held| held.cancel(rig.remote()));
    assert!(rig.remote().fall_asleep(None), "a few cancelled entries can wait");
    assert_eq!(rig.rung(), 0);
    held.for_each(|held| held.cancel(rig.remote()));
    assert_eq!(rig.rung(), 1, "a deep queue can't");
    assert!(!rig.remote().fall_asleep(None));
    rig.turn(0);
    assert_eq!(rig.shard.linked(), 0);
    assert!(rig.remote().fall_asleep(None));
}

#[test]
fn a_worker_that_could_not_be_started_is_started_by_a_later_push() {
    let rig = Rig::new(ENOUGH);
    rig.bell.is_broken.store(1, Ordering::Relaxed);
    rig.push(FAR);
    assert_eq!((rig.rung(), rig.remote().fault.get()), (1, CANNOT_START));
    rig.push(FAR);
    assert_eq!(rig.rung(), 1);
    rig.bell.is_broken.store(0, Ordering::Relaxed);
    rig.push(FAR);
    rig.push(FAR);
    assert_eq!(rig.rung(), 1);
}
