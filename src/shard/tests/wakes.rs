//! Who is woken, and when.

use super::*;

#[test]
fn a_push_wakes_a_worker_that_would_sleep_past_it_and_no_other() {
    let mut rig = Rig::new(ENOUGH);
    assert!(rig.mailbox().inbox.wake(), "it has never run: it is woken by whoever comes first");
    rig.post(FAR);
    assert_eq!(rig.rung(), 0, "it is awake, and will come by");
    rig.turn(0);
    assert!(rig.mailbox().fall_asleep(Some(FAR)));
    assert_eq!(rig.mailbox().sleeps_until(), Some(FAR));
    rig.post(FAR);
    rig.post(FAR.next());
    assert_eq!(rig.rung(), 0, "it wakes by itself for that");
    rig.post(Tick::new(FAR.get() - 1));
    assert_eq!(rig.rung(), 1);
    rig.post(Tick::ZERO);
    assert_eq!((rig.rung(), rig.mailbox().sleeps_until()), (0, None), "it has been woken");
}

#[test]
fn a_worker_that_sleeps_without_end_is_woken_for_any_deadline_but_never() {
    let mut rig = Rig::new(ENOUGH);
    rig.turn(0);
    assert!(rig.mailbox().fall_asleep(None));
    rig.post(Tick::NEVER);
    assert_eq!(rig.rung(), 0);
    rig.post(FAR);
    assert_eq!(rig.rung(), 1);
}

#[test]
fn an_entry_that_is_armed_again_wakes_as_a_push_does() {
    let mut rig = Rig::new(ENOUGH);
    rig.turn(0);
    rig.mailbox().armed_again(Tick::ZERO);
    assert_eq!(rig.rung(), 0, "it is awake");
    assert!(rig.mailbox().fall_asleep(Some(FAR)));
    rig.mailbox().armed_again(FAR);
    assert_eq!(rig.rung(), 0);
    rig.mailbox().armed_again(Tick::new(FAR.get() - 1));
    assert_eq!((rig.rung(), rig.mailbox().sleeps_until()), (1, None));
}

#[test]
fn a_reset_to_earlier_wakes_as_a_push_does() {
    let mut rig = Rig::new(ENOUGH);
    let held = rig.post_held(FAR.next());
    rig.turn(0);
    rig.rung();
    rig.post_earlier(&held);
    assert_eq!(rig.rung(), 0, "it is awake");
    rig.mailbox().resets.take();
    assert!(rig.mailbox().fall_asleep(Some(FAR)));
    rig.post_earlier(&held);
    assert_eq!(rig.rung(), 0, "by its word it is due after the worker wakes");
    rig.mailbox().ring_if_it_sleeps_past(FAR);
    assert_eq!(rig.rung(), 0);
    assert!(matches!(held.state().reset(Tick::new(5), Tell::ByMail), Reset::EarlierByMail));
    rig.post_earlier(&held);
    assert_eq!(rig.rung(), 1);
    rig.mailbox().ring_if_it_sleeps_past(Tick::ZERO);
    assert_eq!(rig.rung(), 0, "it has been woken");
    rig.mailbox().resets.take();
    assert!(rig.mailbox().fall_asleep(Some(FAR)));
    rig.mailbox().ring_if_it_sleeps_past(Tick::new(5));
    assert_eq!(rig.rung(), 1);
}

#[test]
fn mail_that_piles_up_wakes_whatever_its_deadlines() {
    let mut rig = Rig::new(ENOUGH);
    let held = rig.post_held(FAR);
    rig.turn(0);
    rig.rung();
    assert!(rig.mailbox().fall_asleep(Some(Tick::ZERO)));
    for _ in 1..WAKE_DEPTH {
        rig.post_earlier(&held);
    }
    assert_eq!(rig.rung(), 0);
    rig.post_earlier(&held);
    assert_eq!(rig.rung(), 1);
    rig.mailbox().resets.take();
}

#[test]
fn a_worker_does_not_fall_asleep_over_what_it_has_not_seen() {
    let mut rig = Rig::new(ENOUGH);
    rig.turn(0);
    let (hub, shard) = (rig.hub.clone(), &mut rig.shard);
    let mailbox = hub.mailbox(1);
    assert!(mailbox.fall_asleep(None) && mailbox.inbox.wake());

    assert_eq!(mailbox.ask(), 1);
    assert!(!mailbox.fall_asleep(None), "somebody waits for a turn");
    assert_eq!(mailbox.sleeps_until(), None, "and it is awake");
    mailbox.answer(mailbox.asked(), || unreachable!("nobody has asked for that"));
    assert!(mailbox.fall_asleep(None) && mailbox.inbox.wake());

    mailbox.order_drain(FAR);
    assert_eq!(mailbox.drains_until(), Some(FAR));
    assert!(!mailbox.is_stopped() && !mailbox.is_to_fire() && !mailbox.is_unwanted());
    assert!(!mailbox.fall_asleep(None), "it is to drain, and has not closed the inbox");
    assert!(!shard.is_drained(&hub));
    turn(shard, &hub, 0);
    assert!(shard.is_drained(&hub));
    assert!(mailbox.fall_asleep(None), "it has");
    assert!(mailbox.inbox.wake());

    for (order, says) in [
        (Order::StopAndReturn, [false, false]),
        (Order::StopAndDiscard, [true, false]),
        (Order::StopAndFire, [false, true]),
    ] {
        mailbox.order(order);
        assert!(mailbox.is_stopped() && mailbox.drains_until().is_none());
        assert_eq!([mailbox.is_unwanted(), mailbox.is_to_fire()], says);
        assert!(!mailbox.fall_asleep(None), "it is to stop");
    }
}

#[test]
fn mail_and_a_deep_cancelled_queue_keep_the_worker_awake() {
    let mut rig = Rig::new(Limits { transfer: 2 * WAKE_DEPTH, expiry: 2 * WAKE_DEPTH });
    let held: Vec<_> = (0..WAKE_DEPTH).map(|_| rig.post_held(FAR)).collect();
    rig.turn(0);
    rig.rung();
    rig.post_earlier(&held[0]);
    assert!(!rig.mailbox().fall_asleep(None));
    rig.mailbox().resets.take();
    let mut held = held.into_iter();
    held.by_ref().take(WAKE_DEPTH - 1).for_each(|held| held.cancel(rig.mailbox()));
    assert!(rig.mailbox().fall_asleep(None), "a few cancelled entries can wait");
    assert_eq!(rig.rung(), 0);
    held.for_each(|held| held.cancel(rig.mailbox()));
    assert_eq!(rig.rung(), 1, "so many can't");
    assert!(!rig.mailbox().fall_asleep(None));
    rig.turn(0);
    assert_eq!(rig.shard.linked(), 0);
    assert!(rig.mailbox().fall_asleep(None));
}

#[test]
fn a_worker_that_can_not_be_started_is_asked_for_again_by_whoever_comes_next() {
    let rig = Rig::new(ENOUGH);
    rig.bell.is_broken.store(1, Ordering::Relaxed);
    rig.post(FAR);
    assert_eq!((rig.rung(), rig.mailbox().ailment.cannot_start()), (1, true));
    rig.post(FAR);
    assert_eq!(rig.rung(), 1);
    rig.bell.is_broken.store(0, Ordering::Relaxed);
    rig.post(FAR);
    rig.post(FAR);
    assert_eq!(rig.rung(), 1);
}

#[test]
fn somebody_looks_after_the_worker_whenever_another_1024_entries_wait_whether_it_sleeps_or_not() {
    let mut rig = Rig::new(Limits { transfer: 1_000_000, expiry: 1_000_000 });
    let looks = |rig: &Rig| rig.bell.looks.load(Ordering::Relaxed);
    for asleep in [true, false] {
        let before = looks(&rig);
        for depth in 1..=2 * LOOK_DEPTH {
            rig.post(FAR);
            assert_eq!(looks(&rig) - before, depth / LOOK_DEPTH, "{depth} deep");
        }
        rig.turn(0);
        if asleep {
            assert!(rig.mailbox().inbox_depth() == 0, "awake from here on");
        }
    }
}
