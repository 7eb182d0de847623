//! Compares the wheel with an oracle: any operations, any sizes, months of time. Also checks costs,
//! which an oracle can't see.

use std::boxed::Box;
use std::format;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::vec::Vec;

use proptest::prelude::*;

use crate::*;

mod memory;
#[path = "../model.rs"]
mod model;
mod order;

use model::{Bench, Op};

/// A step of a program, on a wheel or on the memory that is there.
#[derive(Clone, Debug)]
enum Step {
    Do(Op),
    Memory(bool),
}

fn play(bench: &mut Bench, step: Step) {
    match step {
        Step::Do(op) => bench.play(op),
        Step::Memory(is_there) => {
            let blocks = &mut bench.wheel.lists.blocks;
            (blocks.limit, bench.was_short) = if is_there { (usize::MAX, bench.was_short) } else { (blocks.len, true) };
        }
    }
    bench.wheel.check();
}

/// Delays of all magnitudes.
fn delay() -> impl Strategy<Value = u64> {
    (0_u32..40, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
}

/// Delays as servers have them: a few, close to each other.
fn near() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..40, 0_u64..2_000]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![20 => op().prop_map(Step::Do), 1 => any::<bool>().prop_map(Step::Memory)]
}

fn op() -> impl Strategy<Value = Op> {
    let delays = prop_oneof![prop::collection::vec(near(), 1..60), prop::collection::vec(delay(), 1..10)];
    let step = prop_oneof![near(), delay()];
    let budget = prop_oneof![Just(100_000_usize), 1_usize..40];
    let stop = prop_oneof![Just(usize::MAX), 0_usize..20];
    prop_oneof![
        6 => delays.prop_map(Op::Insert),
        1 => Just(Op::Never),
        4 => prop::collection::vec(any::<u32>(), 1..40).prop_map(Op::Remove),
        4 => (any::<u32>(), prop_oneof![near(), delay()]).prop_map(|(any, delay)| Op::Reset(any, delay)),
        6 => (step.clone(), budget.clone()).prop_map(|(step, budget)| Op::Advance(step, budget)),
        4 => (step, budget, stop).prop_map(|(step, budget, stop)| Op::Turn(step, budget, stop)),
        1 => Just(Op::Rescan),
        1 => Just(Op::Shrink),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 600 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    #[cfg_attr(miri, ignore = "minutes, and the crate has no unsafe code")]
    fn it_is_what_an_ordered_map_is(
        slots in 1_u32..8, finer in 0_u32..5, levels in 1_usize..6,
        quota in prop_oneof![Just(2_048_usize), 1_usize..40],
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 20 } else { 120 }),
    ) {
        let mut bench = Bench::new(1 << slots, levels);
        bench.wheel = Wheel::with_lowest(1 << (slots + finer), 1 << slots, levels).expect("memory");
        bench.wheel.set_cascade_quota(quota);
        for step in steps {
            play(&mut bench, step);
        }
        let left: Vec<_> = bench.wheel.drain().collect();
        assert_eq!(left.len(), bench.store.pending.len());
        assert!(left.iter().all(|id| bench.store.pending.contains_key(id)) && bench.wheel.is_empty());
        bench.wheel.check();
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn a_timeout_that_is_alone_wakes_its_owner_once_at_its_deadline() {
    for bits in 0..40 {
        let mut bench = Bench::new(512, 4);
        let deadline = (1 << bits) + 12_345;
        bench.insert(deadline);
        assert_eq!(bench.wheel.next_wakeup(&bench.store), Some(deadline));
        bench.advance_to(deadline - 1, 100);
        assert_eq!(bench.wheel.next_wakeup(&bench.store), Some(deadline));
        bench.advance_to(deadline, 100);
        assert_eq!(bench.wheel.next_wakeup(&bench.store), None);
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn a_reset_to_later_needs_no_word_to_the_wheel() {
    let mut bench = Bench::new(512, 4);
    let ids: Vec<_> = (0..1_000).map(|_| bench.insert(2_000).expect("memory")).collect();
    for now in (0..20_000).step_by(500) {
        bench.advance_to(now, 100_000);
        ids.iter().for_each(|id| bench.store.pending.get_mut(id).expect("pending").deadline = now + 2_000);
    }
    assert_eq!(bench.wheel.len(), 1_000);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn a_cascade_is_spread_over_the_ticks_before_it_is_due() {
    // It has 256 ticks. With a small quota it needs more of them.
    for (quota, most_in_a_tick) in [(2_048, 2_048), (256, 512), (64, 512), (1, 20_000)] {
        let mut bench = Bench::new(512, 4);
        bench.wheel.set_cascade_quota(quota);
        let deadline = 100 * 512;
        for _ in 0..20_000 {
            bench.insert(deadline + 5);
        }
        let (mut most, mut before) = (0, 0);
        for now in deadline - 512..deadline {
            bench.now = now;
            bench.wheel.expire(&mut bench.store, now, &mut 100_000, |_, id| panic!("{id} is early"));
            bench.wheel.cascade(&mut bench.store, &mut 100_000);
            most = most.max(bench.wheel.cascaded() - before);
            before = bench.wheel.cascaded();
        }
        assert_eq!(before, 20_000, "all have moved before they are due");
        assert!(most <= most_in_a_tick, "{most} were moved in one tick by a quota of {quota}");
        bench.advance_to(deadline + 5, 100_000);
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn the_work_of_a_jump_is_by_slots_and_not_by_ticks() {
    // Each would take years if it went tick by tick.
    for (slots, levels) in [(512, 4), (512, 1), (2, 3)] {
        let mut bench = Bench::new(slots, levels);
        for bits in 0..60 {
            bench.insert(1 << bits);
        }
        bench.advance_to(1 << 50, 100_000);
        bench.advance_to(1 << 60, 7);
        assert!(bench.wheel.is_empty());
    }
}

#[test]
fn late_items_and_items_that_come_due_take_turns_when_the_budget_is_too_small_for_both() {
    let mut bench = Bench::new(64, 3);
    bench.advance_to(1_000, 100);
    (0..200).for_each(|_| _ = bench.insert(1_001));
    bench.now = 1_001;
    let mut of_time = 0;
    for _ in 0..40 {
        // As fast as the budget lets them go.
        (0..10).for_each(|_| _ = bench.insert(900));
        of_time += bench.turn(10, usize::MAX).iter().filter(|(_, deadline, _)| *deadline == 1_001).count();
    }
    assert!(of_time >= 100, "{of_time}: what was late has kept the others waiting");
}

#[test]
fn a_place_that_is_out_of_date_removes_nothing() {
    let mut bench = Bench::new(512, 4);
    let other = bench.insert(10).expect("memory");
    let first = bench.insert(10).expect("memory");
    let place = bench.place(first);
    assert!(place != bench.place(other));
    assert!([bench.place(other), place].iter().all(|place| Place::from_bits(place.to_bits()) == *place));
    bench.advance_to(10, 100);
    assert!(!bench.wheel.remove(place, first), "it was taken");
    bench.insert(20).expect("memory");
    let second = bench.insert(20).expect("memory");
    assert_eq!(bench.place(second), place, "the cell is used again");
    assert!(!bench.wheel.remove(place, first) && !bench.wheel.remove(place, 99));
    for bits in [u32::MAX, 1 << 31, 14, 15, 77] {
        assert!(!bench.wheel.remove(Place::from_bits(bits), second), "there is no such place");
        assert!(!bench.wheel.reinsert(&mut bench.store, Place::from_bits(bits), second));
    }
    bench.remove(second);
}

#[test]
fn a_panic_of_the_users_takes_no_other_item_with_it() {
    let mut bench = Bench::new(512, 4);
    let ids: Vec<_> = (0..30).map(|_| bench.insert(5).expect("memory")).collect();
    let expire = || {
        bench.wheel.expire(&mut bench.store, 5, &mut 100, |store, id| {
            store.pending.remove(&id);
            assert_ne!(id, ids[20], "on purpose");
            Take::Taken
        });
    };
    assert!(catch_unwind(AssertUnwindSafe(expire)).is_err());
    assert_eq!(bench.wheel.len(), 9);
    bench.now = 5;
    assert_eq!(bench.turn(100, 100).len(), 9);
    bench.wheel.check();
}

#[test]
fn sizes_that_make_no_sense_are_refused_and_named() {
    let refused = |slots, levels| Wheel::<u32>::new(slots, levels).map(drop).expect_err("no wheel");
    assert_eq!(refused(500, 4), WheelError::Slots(500));
    assert_eq!(refused(0, 1), WheelError::Slots(0));
    assert_eq!(refused(1, 2), WheelError::Slots(1));
    assert_eq!(refused(512, 0), WheelError::Levels(0, 512));
    assert_eq!(refused(512, 7), WheelError::Levels(7, 512));
    assert_eq!(refused(1 << 50, 1), WheelError::OutOfMemory);
    assert!(format!("{}", refused(500, 4)).contains("can't have 500 slots a level: their number has to be"));
    assert!(format!("{}", refused(512, 7)).contains("may add up to 59 at most"));
    assert_eq!(refused(2, 60), WheelError::Levels(60, 2));
    assert!([(512, 6), (2, 59), (1, 1)].iter().all(|(slots, levels)| Wheel::<u32>::new(*slots, *levels).is_ok()));
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn a_lowest_level_with_more_slots_takes_what_needs_no_cascade() {
    let mut bench = Bench::new(16, 3);
    bench.wheel = Wheel::with_lowest(256, 16, 3).expect("memory");
    (1..=512).for_each(|deadline| _ = bench.insert(deadline));
    (1..=40).for_each(|nth| _ = bench.insert(nth * 1_000));
    for now in (0..41_000).step_by(37) {
        bench.advance_to(now, 100_000);
    }
    assert!(bench.wheel.is_empty() && bench.wheel.cascaded() <= 2 * 40);
    assert_eq!(Wheel::<u32>::with_lowest(3, 16, 3).expect_err("no wheel"), WheelError::Slots(3));
}

#[test]
fn items_that_are_left_when_a_drain_is_dropped_stay() {
    let mut bench = Bench::new(512, 4);
    (0..100).for_each(|nth| _ = bench.insert(nth * 1_000));
    assert_eq!(bench.wheel.drain().take(30).map(|id| bench.store.pending.remove(&id)).count(), 30);
    bench.wheel.check();
    bench.advance_to(1_000_000, 100_000);
}

#[test]
fn a_cell_of_eight_bytes_makes_a_block_of_two_cache_lines() {
    assert_eq!(size_of::<crate::block::Block<core::num::NonZeroU64>>(), 128);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn a_call_that_has_not_gone_through_all_that_is_due_leaves_no_budget() {
    // Of these one deadline comes by a cascade, and the other is beyond all that the wheel reaches.
    for deadline in [100 * 512, 1 << 50] {
        let mut bench = Bench::new(512, 2);
        (0..3_000).for_each(|_| _ = bench.insert(deadline).expect("memory"));
        bench.now = deadline;
        let mut taken = 0;
        loop {
            let mut budget = 100;
            bench.wheel.expire(&mut bench.store, deadline, &mut budget, |_, _| {
                taken += 1;
                Take::Taken
            });
            if budget > 0 {
                break;
            }
        }
        assert_eq!(taken, 3_000, "due at {deadline}");
    }
}

#[test]
fn a_cascade_under_way_goes_on_in_the_next_tick_by_no_more_than_the_budget() {
    let mut bench = Bench::new(512, 2);
    (0..1_000).for_each(|_| _ = bench.insert(100 * 512 + 7).expect("memory"));
    let begins = 100 * 512 - 256;
    for now in begins..begins + 3 {
        bench.wheel.expire(&mut bench.store, now, &mut 100, |_, id| panic!("{id} is early"));
        let (before, mut budget) = (bench.wheel.cascaded(), 100);
        bench.wheel.cascade(&mut bench.store, &mut budget);
        assert_eq!((bench.wheel.cascaded() - before, budget), (100, 0));
        assert_eq!(bench.wheel.next_wakeup(&bench.store), Some(now + 1));
    }
}

#[test]
fn late_items_do_not_wait_for_another_call_with_a_budget() {
    let mut bench = Bench::new(512, 4);
    bench.advance_to(100, 10);
    (0..3).for_each(|_| _ = bench.insert(50));
    assert_eq!(bench.turn(1, usize::MAX).len(), 1);
    (0..2).for_each(|_| _ = bench.insert(60));
    assert_eq!(bench.turn(10, usize::MAX).len(), 4);
}

#[test]
fn a_call_takes_no_more_than_its_budget_and_says_what_is_left_of_it() {
    let mut bench = Bench::new(512, 4);
    (0..10).for_each(|_| _ = bench.insert(10));
    for (mut budget, left, len) in [(4, 0, 6), (100, 94, 0)] {
        bench.wheel.expire(&mut bench.store, 10, &mut budget, |_, _| Take::Taken);
        assert_eq!((budget, bench.wheel.len(), bench.wheel.is_empty()), (left, len, len == 0));
    }
}

#[test]
fn the_last_tick_of_a_few_that_has_an_item_is_found_on_the_lowest_level() {
    let mut bench = Bench::new(8, 2);
    let ids = [3, 5, 9, 40].map(|deadline| bench.insert(deadline).expect("memory"));
    assert_eq!(
        [0..=15, 0..=8, 4..=5, 6..=8, 16..=80].map(|ticks| bench.wheel.last_due(ticks)),
        [Some(9), Some(5), Some(5), None, None]
    );
    bench.remove(ids[1]);
    assert_eq!(bench.wheel.last_due(0..=8), Some(3));
    bench.advance_to(4, 100);
    assert_eq!(bench.wheel.last_due(0..=8), None);
    // Its slot's other list: a cascade has brought it.
    bench.advance_to(36, 100);
    assert_eq!(bench.wheel.last_due(36..=44), Some(40));
}

#[test]
fn an_item_moved_to_later_is_counted_and_uses_up_the_budget_when_it_comes_up() {
    let mut bench = Bench::new(512, 4);
    let ids: Vec<_> = (0..10).map(|_| bench.insert(10).expect("memory")).collect();
    ids.iter().for_each(|id| bench.reset(*id, 50));
    for (mut budget, left, put_off) in [(4, 0, 4), (100, 94, 10)] {
        bench.wheel.expire(&mut bench.store, 10, &mut budget, |_, id| panic!("{id} is early"));
        assert_eq!((budget, bench.wheel.put_off()), (left, put_off));
    }
    bench.advance_to(50, 100);
}

#[test]
fn an_item_to_come_later_that_is_due_all_the_same_is_asked_for_again() {
    let mut bench = Bench::new(512, 4);
    let ids: Vec<_> = (0..3).map(|_| bench.insert(10).expect("memory")).collect();
    let mut asked = Vec::new();
    // Its deadline was moved to a later one that has come, too.
    bench.wheel.expire(&mut bench.store, 10, &mut 100, |_, id| {
        asked.push(id);
        if asked.len() == 2 { Take::Later } else { Take::Taken }
    });
    assert_eq!((asked, bench.wheel.len()), (Vec::from([ids[0], ids[1], ids[1], ids[2]]), 0));
}

#[test]
fn a_time_that_goes_back_counts_as_the_latest_of_before() {
    let mut bench = Bench::new(512, 4);
    bench.advance_to(100, 10);
    let ids = [60, 101].map(|deadline| bench.insert(deadline).expect("memory"));
    let mut taken = Vec::new();
    bench.wheel.expire(&mut bench.store, 50, &mut 100, |store, id| {
        store.pending.remove(&id);
        taken.push(id);
        Take::Taken
    });
    assert_eq!(taken, [ids[0]]);
    bench.advance_to(101, 10);
}

#[test]
fn the_end_of_time_is_reached_and_not_passed() {
    let mut bench = Bench::new(512, 4);
    bench.advance_to(u64::MAX - 100, 10);
    let id = bench.insert(u64::MAX - 50).expect("memory");
    bench.insert(NEVER);
    assert_eq!(bench.wheel.earliest(&bench.store), Some(u64::MAX - 50));
    bench.now = u64::MAX - 50;
    assert!(bench.turn(10, 10).into_iter().map(|(id, ..)| id).eq([id]));
    bench.now = u64::MAX;
    assert!(bench.turn(10, 10).is_empty());
    assert_eq!((bench.wheel.len(), bench.wheel.next_wakeup(&bench.store)), (1, None));
}
