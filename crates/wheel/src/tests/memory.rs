//! The wheel without memory, and the memory that it takes and gives back.

use super::*;

/// A wheel without memory for another block. One block is full, of items with this deadline, which
/// are returned, and each other one of its chunk has one of `others`.
fn without_memory(deadline: u64, others: impl Iterator<Item = u64>) -> (Bench, Vec<u32>) {
    let mut bench = Bench::new(512, 4);
    let ids: Vec<_> = (0..14).map(|_| bench.insert(deadline).expect("memory")).collect();
    bench.wheel.lists.blocks.limit = 0;
    others.take_while(|other| bench.insert(*other).is_some()).count();
    (bench, ids)
}

fn far() -> impl Iterator<Item = u64> {
    (1..).map(|nth| nth << 24)
}

#[test]
fn a_refusal_for_want_of_memory_changes_nothing() {
    let mut bench = Bench::new(512, 4);
    bench.wheel.lists.blocks.limit = 0;
    assert_eq!(bench.insert(5), None);
    assert_eq!((bench.wheel.len(), bench.wheel.next_wakeup(&bench.store), bench.wheel.memory()), (0, None, 0));
    assert_eq!(bench.wheel.reserve(1), Err(OutOfMemory));
    assert!(format!("{OutOfMemory}").contains("no memory for another block"));
    bench.wheel.lists.blocks.limit = usize::MAX;
    bench.insert(5);
    bench.advance_to(5, 100);
}

#[test]
fn a_move_to_an_earlier_deadline_without_memory_is_on_time() {
    let (mut bench, ids) = without_memory(1 << 20, far());
    bench.reset(ids[3], 700);
    bench.reset(ids[9], 1_500);
    for (now, left) in [(699, 14), (700, 13), (1_499, 13), (1_500, 12)] {
        bench.advance_to(now, 100_000);
        assert_eq!(ids.iter().filter(|id| bench.store.pending.contains_key(id)).count(), left, "at {now}");
    }
}

#[test]
fn items_that_found_no_cell_for_their_move_come_up_when_some_are_due_and_for_cascades() {
    let (mut bench, ids) = without_memory(1 << 20, far());
    for (id, deadline) in [(ids[3], 700), (ids[9], 1_500), (ids[4], 3_000)] {
        bench.reset(id, deadline);
    }
    bench.advance_to(1, 100_000);
    let mut woken = Vec::new();
    while let Some(at) = bench.wheel.next_wakeup(&bench.store).filter(|at| *at <= 3_000) {
        woken.push(at);
        bench.advance_to(at, 100_000);
    }
    assert_eq!((woken.first(), woken.last()), (Some(&700), Some(&3_000)));
    let cascades = woken.iter().filter(|at| ![700, 1_500, 3_000].contains(*at)).count();
    assert!(cascades <= 3 && woken.len() == 3 + cascades, "{woken:?}");
}

#[test]
fn without_memory_one_call_takes_all_that_is_due_beside_what_was_moved_far_away() {
    let (mut bench, ids) = without_memory(10, 200..);
    for (nth, id) in (0..).zip(&ids) {
        bench.reset(*id, if nth < 3 { (1 + nth) << 20 } else { 50 });
    }
    let mut taken = 0;
    bench.wheel.expire(&mut bench.store, 100, &mut 1_000, |store, id| {
        store.pending.remove(&id);
        taken += 1;
        Take::Taken
    });
    assert_eq!(taken, 11);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn without_memory_a_small_budget_bounds_a_call_too() {
    for levels in [1, 2] {
        let mut bench = Bench::new(512, levels);
        bench.wheel.set_cascade_quota(1);
        let ids: Vec<_> = (0..14_000).map(|_| bench.insert(2_000).expect("memory")).collect();
        bench.wheel.lists.blocks.limit = 0;
        while bench.insert(1 << 20).is_some() {}
        let mut calls = 0;
        bench.now = 1_999;
        while bench.wheel.next_wakeup(&bench.store).is_some_and(|at| at <= bench.now) {
            let mut budget = 1;
            bench.wheel.expire(&mut bench.store, bench.now, &mut budget, |_, id| panic!("{id} is early"));
            bench.wheel.cascade(&mut bench.store, &mut budget);
            calls += 1;
        }
        assert!(calls >= ids.len() / 14 / 2, "{calls} calls with {levels} levels");
        bench.advance_to(2_000, 100_000);
        assert!(ids.iter().all(|id| !bench.store.pending.contains_key(id)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn shrink_gives_back_what_a_spike_has_left() {
    let mut bench = Bench::new(512, 4);
    let ids: Vec<_> = (0..10_000).map(|nth| bench.insert(10_000 + nth % 700).expect("memory")).collect();
    let most = bench.wheel.memory();
    let (stay, go): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| id % 500 == 499);
    go.into_iter().for_each(|id| bench.remove(id));
    assert_eq!(bench.wheel.memory(), most, "nothing goes back by itself");
    bench.wheel.shrink_to(&mut bench.store, 0);
    assert!(bench.wheel.memory() < most / 20, "{} of {most}", bench.wheel.memory());
    bench.wheel.check();
    stay.into_iter().for_each(|id| bench.remove(id));
    bench.wheel.shrink_to(&mut bench.store, 0);
    assert_eq!((bench.wheel.memory(), bench.wheel.len()), (0, 0));
    bench.insert(20_000);
    bench.advance_to(20_000, 100);
    bench.wheel.reserve(1_000).expect("memory");
    let reserved = bench.wheel.memory();
    bench.wheel.shrink_to(&mut bench.store, 1_000);
    assert_eq!(bench.wheel.memory(), reserved);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn reserved_memory_is_there_and_a_warm_wheel_takes_no_more() {
    let mut bench = Bench::new(512, 4);
    bench.wheel.reserve(1_000).expect("memory");
    let memory = bench.wheel.memory();
    for round in 0..100 {
        (0..1_000).for_each(|nth| _ = bench.insert(round * 1_000 + 1 + nth % 100));
        bench.advance_to((round + 1) * 1_000, 100_000);
    }
    bench.wheel.reserve(1_000).expect("memory");
    assert_eq!(bench.wheel.memory(), memory);
}

#[test]
fn reserved_memory_comes_on_top_of_memory_in_use() {
    let mut bench = Bench::new(512, 4);
    (1..=100).for_each(|deadline| _ = bench.insert(deadline));
    bench.wheel.reserve(1_000).expect("memory");
    bench.wheel.lists.blocks.limit = 0;
    assert!((0..1_000).all(|nth| bench.insert(200 + nth % 100).is_some()));
}

#[test]
fn a_reserve_of_more_than_a_wheel_can_hold_takes_nothing() {
    let mut bench = Bench::new(512, 4);
    bench.wheel.lists.blocks.limit = 8;
    assert_eq!((bench.wheel.reserve(usize::MAX), bench.wheel.memory()), (Err(OutOfMemory), 0));
}

#[test]
fn shrink_copies_nothing_unless_half_of_the_blocks_are_to_spare() {
    let mut bench = Bench::new(512, 4);
    // Twelve blocks of 14, all full. A chunk has four.
    let mut ids: Vec<_> = (0..12 * 14).map(|_| bench.insert(10).expect("memory")).collect();
    let chunk = bench.wheel.memory() / 3;
    for (blocks, chunks) in [(7, 3), (6, 2)] {
        ids.drain(blocks * 14..).for_each(|id| bench.remove(id));
        bench.wheel.shrink_to(&mut bench.store, 0);
        assert_eq!(bench.wheel.memory(), chunks * chunk, "for {blocks} blocks");
    }
}

#[test]
fn a_rescan_finds_what_has_no_cell_too() {
    let (mut bench, ids) = without_memory(1 << 20, far());
    bench.reset(ids[3], 700); // its block waits for that deadline
    bench.advance_to(100, 100_000);
    bench.store.pending.get_mut(&ids[5]).expect("pending").deadline = 100;
    bench.wheel.rescan();
    assert!(bench.wheel.next_wakeup(&bench.store).is_some_and(|at| at <= 100));
    assert_eq!(bench.turn(100_000, 100).len(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn a_drain_past_many_blocks_that_panics_have_emptied_needs_no_deep_stack() {
    let mut bench = Bench::new(2_048, 1);
    // Each is in a block of its own, and there is no other.
    let ids: Vec<_> = (5..1_005).map(|deadline| bench.insert(deadline).expect("memory")).collect();
    bench.wheel.lists.blocks.limit = 0;
    for (now, id) in (1..).zip(ids) {
        bench.reset(id, now);
        bench.wheel.rescan();
        let panics =
            || bench.wheel.expire(&mut bench.store, now, &mut 100, |_, _| resume_unwind(Box::new("on purpose")));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    }
    let mut wheel = bench.wheel;
    let drain = std::thread::Builder::new().stack_size(64 << 10).spawn(move || wheel.drain().count());
    assert_eq!(drain.expect("a thread").join().expect("no panic"), 0);
}
