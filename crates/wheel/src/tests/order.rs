//! Items come out by deadline, and within one as they were inserted.

use super::*;

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn late_items_come_out_by_their_deadlines_however_they_were_inserted() {
    let mut bench = Bench::new(512, 4);
    bench.advance_to(100_000, 100);
    (0..10_000).for_each(|nth| _ = bench.insert(nth * 7_919 % 50_000));
    let taken = bench.turn(100_000, usize::MAX);
    assert!(taken.len() == 10_000 && taken.is_sorted_by_key(|(id, deadline, _)| (*deadline, *id)));
}

#[test]
fn an_item_moved_to_later_comes_out_by_its_deadline_also_in_a_late_turn() {
    let mut bench = Bench::new(512, 4);
    let (moved, other) = (bench.insert(10).expect("memory"), bench.insert(30).expect("memory"));
    bench.reset(moved, 60);
    bench.now = 100;
    let order: Vec<_> = bench.turn(100, 100).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(order, [other, moved]);
}

#[test]
fn items_that_wait_for_their_round_come_out_in_order_with_a_small_budget() {
    let mut bench = Bench::new(2, 1);
    let ids = [1, 3, 1].map(|deadline| bench.insert(deadline).expect("memory"));
    bench.now = 1;
    let mut order = bench.turn(1, 100);
    bench.now = 3;
    (0..9).for_each(|_| order.extend(bench.turn(1, 100)));
    let order: Vec<_> = order.into_iter().map(|(id, ..)| id).collect();
    assert_eq!(order, [ids[0], ids[2], ids[1]]);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn a_jump_that_is_gone_through_in_parts_keeps_the_order() {
    let mut bench = Bench::new(512, 4);
    let ids: Vec<_> = (0..3_000).map(|_| bench.insert((1 << 50) + 5).expect("memory")).collect();
    bench.now = 1 << 50;
    let mut order = bench.turn(2_048, usize::MAX);
    bench.now += 5;
    (0..10).for_each(|_| order.extend(bench.turn(2_048, usize::MAX)));
    assert!(order.into_iter().map(|(id, ..)| id).eq(ids));
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn however_slowly_cascades_go_all_come_out_at_their_time_as_they_were_inserted() {
    let ways = [(1, 0), (1, 1), (1, 100), (2, 0), (2, 1), (5, 0), (5, 100)];
    for (slots, (quota, most)) in [2, 4, 8].into_iter().flat_map(|slots| ways.map(|way| (slots, way))) {
        for deadline in (100..164).step_by(3) {
            let mut bench = Bench::new(slots, 4);
            bench.wheel.set_cascade_quota(quota);
            let mut ids: Vec<_> = (0..12).map(|_| bench.insert(deadline).expect("memory")).collect();
            let mut taken = Vec::new();
            for now in 0..=deadline {
                bench.wheel.expire(&mut bench.store, now, &mut 1_000, |_, id| {
                    taken.push((now, id));
                    Take::Taken
                });
                bench.wheel.cascade(&mut bench.store, &mut most.clone());
                if now + 1 < deadline {
                    ids.push(bench.insert(deadline).expect("memory"));
                }
            }
            let expected: Vec<_> = ids.into_iter().map(|id| (deadline, id)).collect();
            assert_eq!(taken, expected, "{slots} slots, a quota of {quota}, {most} moves a call");
        }
    }
}

#[test]
fn a_jump_in_the_middle_of_a_cascade_keeps_the_order() {
    let mut bench = Bench::new(512, 2);
    let ids: Vec<_> = (0..20).map(|_| bench.insert(100 * 512 + 7).expect("memory")).collect();
    bench.wheel.expire(&mut bench.store, 100 * 512 - 256, &mut 100, |_, id| panic!("{id} is early"));
    bench.wheel.cascade(&mut bench.store, &mut 10);
    bench.now = 1 << 40;
    assert!(bench.turn(100, 100).into_iter().map(|(id, ..)| id).eq(ids));

    let mut bench = Bench::new(4, 2);
    let first = bench.insert(32 * 3 + 16).expect("memory");
    // Its slot is opened for a round.
    bench.now = 14;
    bench.turn(100, 100);
    let second = bench.insert(32 * 3 + 16).expect("memory");
    bench.now = 100_000;
    assert!(bench.turn(100, 100).into_iter().map(|(id, ..)| id).eq([first, second]));
}

#[test]
fn items_that_a_jump_makes_due_are_sorted_also_if_some_are_removed_meanwhile() {
    let mut bench = Bench::new(16, 1);
    let ids = [161, 34, 90, 3].map(|deadline| bench.insert(deadline).expect("memory"));
    bench.now = 1_000;
    assert!(bench.turn(1, usize::MAX).into_iter().map(|(id, ..)| id).eq([ids[3]]));
    bench.remove(ids[1]);
    assert!(bench.turn(100, usize::MAX).into_iter().map(|(id, ..)| id).eq([ids[2], ids[0]]));
}

#[test]
fn a_second_rescan_before_the_first_is_through_keeps_the_order() {
    let mut bench = Bench::new(64, 1);
    bench.wheel.set_cascade_quota(1);
    let mut ids: Vec<_> = (0..2).map(|_| bench.insert(29).expect("memory")).collect();
    bench.wheel.rescan();
    bench.now = 1;
    bench.turn(1, usize::MAX);
    ids.extend(bench.insert(29));
    bench.wheel.rescan();
    bench.turn(1, usize::MAX);
    bench.now = 29;
    assert!(bench.turn(100, usize::MAX).into_iter().map(|(id, ..)| id).eq(ids));
}

#[test]
fn a_rescan_before_a_call_is_through_keeps_the_order() {
    let mut bench = Bench::new(4, 1);
    let mut ids: Vec<_> = (0..3).map(|_| bench.insert(29).expect("memory")).collect();
    // They come up for a round, and the call looks at one of them.
    bench.now = 1;
    bench.turn(1, usize::MAX);
    ids.extend(bench.insert(29));
    bench.wheel.rescan();
    bench.now = 29;
    assert!(bench.turn(100, usize::MAX).into_iter().map(|(id, ..)| id).eq(ids));
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn a_rescan_does_not_hold_up_what_is_due_already() {
    let mut bench = Bench::new(512, 4);
    (0..3_000).for_each(|_| _ = bench.insert(100));
    bench.now = 100;
    assert_eq!(bench.turn(100, usize::MAX).len(), 100);
    for _ in 1..30 {
        bench.wheel.rescan();
        assert_eq!(bench.turn(100, usize::MAX).len(), 100);
    }
}

#[test]
fn an_item_that_a_rescan_finds_due_goes_behind_a_late_one_that_is_earlier() {
    let mut bench = Bench::new(512, 4);
    bench.advance_to(100, 100);
    let [later, late] = [1_000, 3].map(|deadline| bench.insert(deadline).expect("memory"));
    bench.store.pending.get_mut(&later).expect("pending").deadline = 5;
    bench.wheel.rescan();
    assert_eq!(bench.turn(100, usize::MAX).iter().map(|(id, ..)| *id).collect::<Vec<_>>(), [late, later]);
}

#[test]
fn a_late_item_goes_first_also_after_a_call_whose_rest_was_removed() {
    let mut bench = Bench::new(512, 4);
    bench.advance_to(100, 100);
    let removed = bench.insert(50).expect("memory");
    assert!(bench.turn(0, usize::MAX).is_empty());
    bench.remove(removed);
    let ids = [3, 150].map(|deadline| bench.insert(deadline).expect("memory"));
    bench.now = 200;
    assert_eq!(bench.turn(100, usize::MAX).iter().map(|(id, ..)| *id).collect::<Vec<_>>(), ids);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of items, or of slots")]
fn a_rescan_before_each_call_keeps_nothing_waiting() {
    let mut bench = Bench::new(512, 4);
    (0..50).for_each(|nth| _ = bench.insert(100 + nth));
    for now in 1..200 {
        bench.now = now;
        bench.wheel.rescan();
        let taken = bench.turn(2, usize::MAX);
        assert!(taken.iter().all(|(_, deadline, _)| *deadline == now), "{taken:?} at {now}");
    }
    assert!(bench.wheel.is_empty());
}

#[test]
fn a_rescan_takes_what_is_due_without_putting_it_off() {
    let mut bench = Bench::new(512, 4);
    (0..100).for_each(|_| _ = bench.insert(100));
    bench.wheel.rescan();
    bench.now = 100;
    assert_eq!((bench.turn(100, usize::MAX).len(), bench.wheel.put_off()), (100, 0));
}

#[test]
fn all_that_is_taken_at_once_comes_by_deadline_also_after_a_rescan_in_parts() {
    let mut bench = Bench::new(512, 4);
    let ids: Vec<_> = (0..10).map(|nth| bench.insert(1_000 + nth).expect("memory")).collect();
    bench.wheel.rescan();
    bench.now = 1;
    bench.turn(3, usize::MAX);
    // Some are back in their slots, and some are not. One who ends takes all, due or not.
    bench.wheel.rescan();
    let mut taken = Vec::new();
    bench.wheel.expire_unseen(&mut bench.store, NEVER - 1, &mut 100, |_, id, _| {
        taken.push(id);
        Take::Taken
    });
    assert_eq!(taken, ids);
}

#[test]
fn a_deadline_that_was_moved_to_earlier_is_the_earliest_before_a_rescan_too() {
    let mut bench = Bench::new(512, 4);
    bench.insert(20);
    let id = bench.insert(100_000).expect("memory");
    bench.store.pending.get_mut(&id).expect("pending").deadline = 10;
    bench.wheel.rescan();
    assert_eq!((bench.wheel.earliest(&bench.store), bench.wheel.next_wakeup(&bench.store)), (Some(10), Some(0)));
    bench.advance_to(10, 100);
}
