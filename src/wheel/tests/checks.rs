//! Each check of a debug build fails when what it looks at is broken.

use super::*;

/// A wheel with one entry, whose tick is reached by this level.
fn with_an_entry(level: usize) -> (Bench, u64) {
    let mut bench = Bench::new(8, 2);
    let deadline = if level == 0 { 5 } else { 50 };
    bench.schedule(deadline);
    assert_eq!(bench.wheel.levels[level].marks().filter(|(_, is_marked)| *is_marked).count(), 1);
    (bench, deadline)
}

/// Moves an entry to the slot beside its own.
fn displace(bench: &mut Bench, level: usize, deadline: u64) {
    let (slots, level) = (&bench.wheel.slots, &mut bench.wheel.levels[level]);
    let block = level.block_of(deadline);
    let (from, to) = (level.place(block), level.place(block + 1));
    slots.move_slot(from, to);
    level.mark(from, false);
    level.mark(to, true);
}

/// Turns often enough for all slots to be looked at.
fn reconcile(bench: &mut Bench) {
    (0..3).for_each(|_| _ = bench.turn(100));
}

#[test]
#[should_panic(expected = "is linked in a slot that its deadline does not name")]
fn an_entry_that_is_linked_in_a_wrong_slot() {
    let (mut bench, deadline) = with_an_entry(0);
    let (held, deadline) = (Held::new(), Subtick::new(deadline));
    let place = bench.wheel.place_for(deadline.next());
    bench.wheel.check_link(&held.linkable(), deadline, place);
}

#[test]
#[should_panic(expected = "comes up in a slot that its deadline does not name")]
fn an_entry_that_expires_from_a_wrong_slot() {
    let (mut bench, deadline) = with_an_entry(0);
    displace(&mut bench, 0, deadline);
    bench.advance_to(8, 100);
}

#[test]
#[should_panic(expected = "comes up in a slot that its deadline does not name")]
fn an_entry_whose_block_is_opened_at_a_wrong_slot() {
    let (mut bench, deadline) = with_an_entry(1);
    displace(&mut bench, 1, deadline);
    bench.advance_to(deadline + 8, 100);
}

#[test]
#[should_panic(expected = "comes up in a slot that its deadline does not name")]
fn an_entry_that_is_set_aside_from_a_wrong_slot() {
    let (mut bench, deadline) = with_an_entry(1);
    displace(&mut bench, 1, deadline);
    bench.wheel.rescan(Subtick::ZERO);
}

#[test]
#[should_panic(expected = "comes up in a slot that its deadline does not name")]
fn an_entry_in_the_cascade_of_another_block() {
    let (mut bench, deadline) = with_an_entry(1);
    let (wheel, deadline) = (&mut bench.wheel, deadline);
    let block = wheel.levels[1].block_of(deadline);
    wheel.slots.move_slot(wheel.levels[1].place(block), wheel.cascades[0].place);
    wheel.cascades[0].due = wheel.levels[1].begins(block + 1);
    wheel.cascade(0, 1, &mut Budget::new(1));
}

#[test]
#[should_panic(expected = "lost count")]
fn an_entry_that_is_not_there() {
    let (mut bench, _) = with_an_entry(0);
    bench.wheel.len += 1;
    reconcile(&mut bench);
}

#[test]
#[should_panic(expected = "a slot is marked that is empty")]
fn a_mark_of_an_empty_slot() {
    let (mut bench, deadline) = with_an_entry(0);
    let level = &mut bench.wheel.levels[0];
    level.mark(level.place(deadline + 1), true);
    reconcile(&mut bench);
}

#[test]
#[should_panic(expected = "is not and has entries")]
fn entries_in_a_slot_without_a_mark() {
    let (mut bench, deadline) = with_an_entry(0);
    let level = &mut bench.wheel.levels[0];
    level.mark(level.place(deadline), false);
    reconcile(&mut bench);
}

#[test]
#[should_panic(expected = "what was set aside before is not gone through")]
fn a_rescan_in_the_midst_of_a_sweep() {
    let (mut bench, _) = with_an_entry(0);
    bench.wheel.rescan(Subtick::ZERO);
    bench.wheel.rescan(Subtick::ZERO);
}
