//! Deadlines are finer than ticks: when a slot comes up.

use super::{Bench, ComesUp};
use crate::time::Subtick;

const BITS: u32 = 10;
const TICK: u64 = 1 << BITS;

fn bench() -> Bench {
    Bench::divided(16, 2, BITS, ComesUp::WithLast)
}

fn next_due(bench: &Bench) -> Option<u64> {
    bench.wheel.next_due().map(Subtick::get)
}

#[test]
fn an_entry_that_is_alone_in_its_tick_does_not_wait_for_the_rest_of_it() {
    let mut bench = bench();
    for deadline in [1, 7 * TICK + 1, 8 * TICK - 1, 9 * TICK] {
        bench.schedule(deadline);
        assert_eq!(next_due(&bench), Some(deadline));
        bench.advance_to(deadline - 1, 100);
        assert_eq!(bench.oracle.len(), 1);
        bench.advance_to(deadline, 100);
        assert_eq!(bench.oracle.len(), 0);
    }
}

#[test]
fn entries_of_one_tick_come_out_together_when_the_last_of_them_is_due() {
    let mut bench = bench();
    for part in [300, 700, 100] {
        bench.schedule(5 * TICK + part);
    }
    assert_eq!(next_due(&bench), Some(5 * TICK + 700));
    bench.advance_to(5 * TICK + 699, 100);
    assert_eq!((bench.popped, bench.oracle.len()), (0, 3));
    bench.advance_to(5 * TICK + 700, 100);
    assert_eq!((bench.popped, bench.oracle.len()), (3, 0), "each was looked at once");
}

#[test]
fn by_a_clock_that_is_moved_by_hand_each_comes_out_with_its_own_deadline() {
    for levels in [1, 2] {
        let mut bench = Bench::divided(16, levels, BITS, ComesUp::WithFirst);
        for part in [300, 700, 100] {
            // The last one is beyond the ring of a single level.
            for tick in [5, 40] {
                bench.schedule(tick * TICK + part);
            }
        }
        for (tick, left) in [(5, 3), (40, 0)] {
            for (n, part) in [100, 300, 700].into_iter().enumerate() {
                bench.advance_to(tick * TICK + part - 1, 100);
                bench.advance_to(tick * TICK + part, 100);
                assert_eq!(bench.oracle.len(), left + 2 - n);
            }
        }
    }
}

#[test]
fn a_tick_of_which_a_part_has_come_takes_more() {
    let mut bench = bench();
    for part in [200, 400, TICK] {
        bench.schedule(5 * TICK + part);
        assert_eq!(next_due(&bench), Some(5 * TICK + part));
        bench.advance_to(5 * TICK + part, 100);
        assert_eq!(bench.oracle.len(), 0);
    }
}

#[test]
fn what_is_due_already_does_not_wait_for_others_of_its_tick() {
    let mut bench = bench();
    bench.schedule(5 * TICK + 900);
    bench.advance_to(5 * TICK + 400, 100);
    let late = bench.schedule(5 * TICK + 399);
    assert_eq!(next_due(&bench), Some(0), "at once");
    assert_eq!(bench.turn(100), [late]);
}

#[test]
fn what_comes_when_it_is_due_keeps_its_place_if_the_others_are_due_too() {
    let mut bench = bench();
    let before = bench.schedule(5 * TICK + 300);
    bench.now = 5 * TICK + 500;
    bench.wheel.set_now(Subtick::new(bench.now));
    let behind = bench.schedule(5 * TICK + 400);
    assert_eq!(bench.turn(100), [before, behind]);
    // The time has gone on since the last turn.
    bench.schedule(5 * TICK + 900);
    bench.now = 5 * TICK + 600;
    bench.wheel.set_now(Subtick::new(bench.now));
    let due = bench.schedule(5 * TICK + 550);
    assert_eq!(bench.turn(100), [due]);
}

#[test]
fn what_is_about_to_be_due_does_not_wait_for_others_of_its_tick() {
    let mut bench = bench();
    let others: Vec<_> = (0..10).map(|n| bench.schedule(5 * TICK + 900 + n)).collect();
    bench.advance_to(5 * TICK + 400, 100);
    let next = bench.schedule(5 * TICK + 401);
    assert_eq!(next_due(&bench), Some(5 * TICK + 401));
    bench.now = 5 * TICK + 401;
    assert_eq!(bench.turn(100), [next]);
    assert_eq!(next_due(&bench), Some(5 * TICK + 909), "and the others wait for each other again");
    bench.now = 5 * TICK + 909;
    assert_eq!(bench.turn(100), others);
}

#[test]
fn what_is_due_already_does_not_wait_for_what_comes_after_it() {
    // Due by now, and with the next subtick: a time that has passed may be rounded up to that.
    for (part, comes) in [(399, 400), (400, 400), (401, 401)] {
        let mut bench = bench();
        bench.now = 5 * TICK + 400;
        bench.wheel.set_now(Subtick::new(bench.now));
        let due = bench.schedule(5 * TICK + part);
        let later = bench.schedule(5 * TICK + 900);
        bench.now = 5 * TICK + comes;
        assert_eq!(bench.turn(100), [due]);
        assert_eq!(next_due(&bench), Some(5 * TICK + 900));
        bench.now = 5 * TICK + 900;
        assert_eq!(bench.turn(100), [later]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "a cascade takes many entries")]
fn a_slot_comes_up_in_time_while_a_cascade_is_under_way() {
    let mut bench = Bench::divided(16, 2, BITS, ComesUp::WithFirst);
    for _ in 0..10_000 {
        bench.schedule(64 * TICK);
    }
    bench.advance_to(56 * TICK, 100_000);
    assert!(bench.wheel.cascaded() < 10_000, "the cascade is under way");
    bench.schedule(56 * TICK + 10);
    assert_eq!(next_due(&bench), Some(56 * TICK + 10));
}

#[test]
fn the_last_tick_that_there_is_comes_up_when_it_is_due() {
    let last = Subtick::NEVER.get() - 1;
    let mut bench = bench();
    bench.advance_to(last - 2 * TICK, 100);
    bench.schedule(last);
    bench.advance_to(last - 1, 100);
    assert_eq!(bench.oracle.len(), 1);
    bench.advance_to(last, 100);
    assert_eq!(bench.oracle.len(), 0);
}

#[test]
fn a_slot_that_is_empty_again_forgets_how_late_its_entries_were() {
    let mut bench = bench();
    let later = bench.schedule(5 * TICK + 900);
    bench.cancel(later);
    bench.schedule(5 * TICK + 100);
    assert_eq!(next_due(&bench), Some(5 * TICK + 100));
    // The same slot, one revolution on.
    bench.advance_to(5 * TICK + 100, 100);
    bench.advance_to(30 * TICK, 100);
    bench.schedule(37 * TICK + 50);
    assert_eq!(next_due(&bench), Some(37 * TICK + 50));
}

/// A block of level 1 begins with a tick whose first part comes before that tick has.
#[test]
fn a_cascade_is_over_before_the_first_part_of_its_first_tick() {
    for budget in [3, 100] {
        let mut bench = bench();
        for _ in 0..10 {
            // Level 0 reaches 32 ticks, so this is the first tick of a block of level 1.
            bench.schedule(47 * TICK + 1);
        }
        bench.advance_to(47 * TICK, budget);
        assert_eq!(bench.oracle.len(), 10);
        bench.advance_to(47 * TICK + 1, budget);
        assert_eq!(bench.oracle.len(), 0);
    }
}
