//! In which order timeouts of one tick run, and those of one thread at all.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tourbillon::{Builder, Shutdown, Timer};

use crate::common::{HOUR, MS, Random, Rig};

/// The ids of what has run, in order.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<usize>>>);

impl Order {
    fn task(&self, id: usize) -> impl FnOnce() + Send + 'static {
        let order = Arc::clone(&self.0);
        move || order.lock().expect("no panic").push(id)
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

/// An engine whose worker runs the tasks, and a driven one.
fn in_turn(builder: impl Fn() -> Builder) -> [Rig; 2] {
    [Rig::inline(builder()), Rig::driven(builder())]
}

#[test]
fn timeouts_of_one_tick_run_in_the_order_in_which_they_were_scheduled() {
    for mut rig in in_turn(|| Timer::builder().shards(1)) {
        let (order, mut next) = (Order::default(), 0);
        let mut schedule = |rig: &Rig, many: usize, delay: Duration| {
            for _ in 0..many {
                rig.timer.schedule_detached(delay, order.task(next)).expect("accepted");
                next += 1;
            }
        };
        // Some are linked before the others are scheduled, and some are as many as need more than
        // one part of a turn.
        for many in [1, 2, 9, 100, 5_000] {
            schedule(&rig, many, 5 * MS);
            rig.settle();
        }
        schedule(&rig, 10, 5 * MS);
        rig.advance(5 * MS);
        assert!(order.take().into_iter().eq(0..next), "{}", rig.kind);
    }
}

#[test]
fn it_does_not_matter_how_far_away_the_tick_was_when_they_were_scheduled() {
    for mut rig in in_turn(|| Timer::builder().shards(1)) {
        let (order, deadline) = (Order::default(), rig.clock.now() + 24 * HOUR);
        let mut scheduled = 0;
        // From far to near: the first ones are in coarser levels of the wheel.
        while rig.clock.now() < deadline {
            for _ in 0..3 {
                rig.timer.schedule_at(deadline, order.task(scheduled)).map(drop).expect("accepted");
                scheduled += 1;
            }
            rig.settle();
            rig.advance(((deadline - rig.clock.now()) / 4).max(MS));
        }
        rig.settle();
        assert!(order.take().into_iter().eq(0..scheduled), "{}", rig.kind);
    }
}

#[test]
fn tasks_that_schedule_many_has_taken_run_in_its_order() {
    for mut rig in in_turn(|| Timer::builder().shards(1)) {
        let order = Order::default();
        for from in [0, 50] {
            let tasks = (from..from + 50).map(|id| order.task(id));
            drop(rig.timer.schedule_many(5 * MS, tasks).expect("accepted"));
        }
        rig.advance(5 * MS);
        assert!(order.take().into_iter().eq(0..100), "{}", rig.kind);
    }
}

#[test]
fn cancelled_timeouts_leave_the_others_in_their_order() {
    for mut rig in in_turn(|| Timer::builder().shards(1)) {
        let (order, mut random) = (Order::default(), Random::new(7));
        let (mut held, mut kept) = (Vec::new(), Vec::new());
        for id in 0..3_000 {
            held.push((id, rig.timer.schedule(5 * MS, order.task(id)).expect("accepted")));
            if random.below(50) == 0 {
                rig.settle();
            }
            if random.below(3) == 0 {
                let at = random.below(held.len());
                assert!(held[at].1.cancel());
                // An entry that is still held can't be taken over.
                kept.push(held.remove(at));
            }
        }
        rig.advance(5 * MS);
        assert!(order.take().into_iter().eq(held.iter().map(|(id, _)| *id)), "{}", rig.kind);
    }
}

#[test]
fn timeouts_of_one_key_run_in_the_order_of_their_deadlines_after_any_jump_of_the_clock() {
    for levels in 1..=4 {
        for mut rig in in_turn(|| Timer::builder().shards(1).ticks_per_wheel(64).levels(levels)) {
            let (order, mut random) = (Order::default(), Random::new(levels as u64));
            let (mut expected, start) = (Vec::new(), rig.timer.now());
            for id in 0..500 {
                let delay = MS + random.duration(2 * HOUR);
                let timeout = rig.timer.shard_for(&"key").schedule(delay, order.task(id)).expect("accepted");
                let after = timeout.deadline() - start;
                expected.push((after, id));
            }
            rig.settle();
            expected.sort_unstable();
            rig.advance(2 * HOUR + 2 * MS);
            assert!(order.take().into_iter().eq(expected.into_iter().map(|(_, id)| id)), "{}", rig.kind);
        }
    }
}

#[test]
fn a_full_inbox_keeps_its_order_and_does_not_make_a_turn_long() {
    let mut rig = Rig::driven(Timer::builder().shards(1).transfer_limit(1_000));
    let order = Order::default();
    const TIMEOUTS: usize = 30_000;
    for id in 0..TIMEOUTS {
        rig.timer.schedule_detached(HOUR, order.task(id)).expect("accepted");
    }
    // Before the oldest can be linked, the others are gone through: 8,000 in a turn.
    let driver = rig.driver.as_mut().expect("driven");
    let transferred = |timer: &Timer| timer.stats().shards[0].transferred;
    let empty_turns = (0..).take_while(|_| driver.turn() == 0 && transferred(&rig.timer) == 0).count();
    assert_eq!((empty_turns, transferred(&rig.timer)), (3, 1_000));
    rig.advance(HOUR);
    assert!(order.take().into_iter().eq(0..TIMEOUTS));
}

#[test]
fn overdue_timeouts_run_by_their_deadlines_after_a_stall() {
    for mut rig in in_turn(|| Timer::builder().shards(1)) {
        let (order, many) = (Order::default(), 50_000);
        for id in (0..many).rev() {
            let delay = MS * u32::try_from(id / 100).expect("some hundred") + MS;
            rig.timer.schedule_detached(delay, order.task(id)).expect("accepted");
        }
        rig.advance(2_000 * MS);
        let ran = order.take();
        assert!(ran.len() == many && ran.is_sorted_by_key(|id| id / 100), "{}", rig.kind);
    }
}

#[test]
fn a_shutdown_that_fires_what_is_left_runs_it_by_its_deadlines() {
    for mut rig in in_turn(|| Timer::builder().shards(1)) {
        let order = Order::default();
        let schedule = |delay, id| rig.timer.schedule(delay, order.task(id)).expect("accepted");
        // Of two ticks, some in the wheel, and the others in the inbox.
        drop([schedule(5 * MS, 0), schedule(9 * HOUR, 10), schedule(5 * MS, 1)]);
        let moved = [schedule(10 * HOUR, 4), schedule(HOUR, 11)];
        rig.settle();
        let schedule = |delay, id| rig.timer.schedule(delay, order.task(id)).expect("accepted");
        drop([schedule(9 * HOUR, 12), schedule(5 * MS, 2), schedule(4 * MS, 3)]);
        assert!(moved[0].reset(MS) && moved[1].reset(11 * HOUR));
        assert!(rig.timer.shutdown_with(Shutdown::FireNow).expect("the first").is_empty());
        assert_eq!(order.take(), [4, 3, 0, 1, 2, 10, 12, 11], "{}", rig.kind);
    }
}

#[test]
fn timeouts_given_up_in_slots_change_no_order_whatever_the_limits() {
    for limit in [1, 2, 100_000] {
        let mut rig = Rig::inline(Timer::builder().shards(1).expiry_limit(limit));
        let order = Order::default();
        let schedule = |timer: &Timer, delay| timer.schedule(delay, || unreachable!("given up")).expect("accepted");
        let guards: Vec<_> = (0..6).map(|_| schedule(&rig.timer, 50 * MS).cancel_on_drop()).collect();
        rig.settle();
        // On the worker, which then finds all of it in its queues, and due.
        let (timer, clock, tasks) = (rig.timer.clone(), rig.clock.clone(), order.clone());
        let give_up_and_schedule = move || {
            // The worker schedules on its shard from here on, and keeps tombstones of that.
            timer.schedule_detached(HOUR, || ()).expect("accepted");
            drop(guards);
            (0..7).for_each(|n| timer.schedule_detached((n + 1) * MS, tasks.task(n as usize)).expect("accepted"));
            clock.advance(20 * MS);
        };
        rig.timer.schedule_detached(MS, give_up_and_schedule).expect("accepted");
        rig.advance(MS);
        rig.advance(100 * MS);
        assert!(order.take().into_iter().eq(0..7), "a limit of {limit}");
    }
}
