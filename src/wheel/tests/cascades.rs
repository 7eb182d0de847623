//! A block of a coarse level is moved to the level below in parts, before it is due.

use super::Bench;

#[test]
fn a_fat_slot_cascades_in_small_parts_before_it_is_due() {
    let mut bench = Bench::new(512, 4);
    let due = 30 * 1024;
    let many = 200_000;
    for n in 0..many {
        bench.schedule(due + n % 512);
    }
    let mut most_in_a_tick = 0;
    let mut now = 0;
    while now < due - 1 {
        now = bench.wheel.next_due().expect("something is pending").get().max(now + 1);
        let before = bench.wheel.cascaded();
        bench.advance_to(now.min(due - 1), 100_000);
        most_in_a_tick = most_in_a_tick.max(bench.wheel.cascaded() - before);
    }
    assert_eq!(bench.wheel.cascaded(), many, "all are in place before the first is due");
    assert!(most_in_a_tick <= many / 10, "{most_in_a_tick} of {many} were moved in one tick");
    bench.entries.clear();
}

/// A level-1 block of a small wheel has only 8 ticks in which to be moved, so the parts have to
/// grow.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of entries, without which there is nothing to see")]
fn the_parts_of_a_cascade_grow_so_that_none_is_left_when_its_time_is_over() {
    let mut bench = Bench::new(16, 2);
    let due = 4 * 16;
    for n in 0..40_000 {
        bench.schedule(due + n % 16);
    }
    let parts: Vec<_> = (due - 9..due)
        .map(|now| {
            let before = bench.wheel.cascaded();
            bench.advance_to(now, 100_000);
            bench.wheel.cascaded() - before
        })
        .collect();
    assert_eq!(
        parts,
        [0, 4_096, 8_192, 16_384, 40_000 - 28_672, 0, 0, 0, 0],
        "each twice the one before, until none is left"
    );
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of entries, without which there is nothing to see")]
fn a_cascade_moves_one_part_a_tick_however_often_it_is_turned() {
    let mut bench = Bench::new(16, 2);
    let due = 4 * 16;
    for _ in 0..10_000 {
        bench.schedule(due);
    }
    bench.now = due - 8;
    for _ in 0..10 {
        bench.turn(100_000);
        assert_eq!(bench.wheel.cascaded(), 4_096);
    }
}
