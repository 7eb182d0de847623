//! In which order entries come out. `advance_to` compares it: by deadline, and those of one tick as
//! they were inserted.

use super::{Bench, ComesUp};
use crate::time::Subtick;

#[test]
fn a_jump_beyond_the_last_level_runs_all_in_the_order_of_their_deadlines() {
    for (levels, budget) in [(1, 100), (2, 100), (2, 7), (3, 1_000)] {
        let mut bench = Bench::new(8, levels);
        // Ten at each of a hundred deadlines, from near to far and back.
        for n in 0..1_000 {
            bench.schedule(1 + n * 37 % 100 * 11);
            if n == 500 {
                bench.advance_to(3, budget);
            }
        }
        // `advance_to` looks at the order.
        bench.advance_to(1 << 40, budget);
        assert_eq!(bench.oracle.len(), 0);
    }
}

/// Each entry is inserted for one tick, nearer to it each time. So the first ones are in coarser
/// levels than those after them.
#[test]
fn entries_of_one_tick_come_out_as_they_were_inserted_from_whatever_level() {
    const TICK: u64 = if cfg!(miri) { 200 } else { 1_100 };
    for (ticks_per_wheel, levels, budget) in [(2, 6, 100), (4, 4, 100), (8, 3, 3), (16, 2, 100)] {
        // At their time, and when the clock jumps: some blocks have been opened then.
        for (step, until, end) in
            [(1, 1, TICK), (7, 7, TICK), (40, 40, TICK), (3, 3, 1 << 40), (3, 10, 1 << 40), (3, 25, 1 << 40)]
        {
            let mut bench = Bench::new(ticks_per_wheel, levels);
            while bench.now + until < TICK {
                for _ in 0..5 {
                    bench.schedule(TICK);
                    // Leaves a gap.
                    let cancelled = bench.schedule(TICK);
                    bench.cancel(cancelled);
                }
                bench.advance_to(bench.now + step, budget);
            }
            bench.advance_to(end, budget);
            assert_eq!(bench.oracle.len(), 0);
        }
    }
}

/// A tick that the ring does not reach shares its slot with one that comes first. The clock may
/// jump into it, over all ticks of the ring, while only a part of it has come.
#[test]
fn what_waits_for_its_round_comes_out_behind_the_ticks_before_it() {
    const TICK: u64 = 4;
    for comes_up in [ComesUp::WithFirst, ComesUp::WithLast] {
        for (ticks_per_wheel, begin) in [(1, 1), (2, 1), (2, 6), (8, 1), (8, 13)] {
            let mut bench = Bench::divided(ticks_per_wheel, 1, 2, comes_up);
            bench.advance_to(begin, 100);
            let next = bench.division.tick_of(Subtick::new(begin));
            let far = next + ticks_per_wheel as u64;
            // Its first part, which will have come, and its last.
            let part = (far - 1) * TICK + 1;
            bench.schedule(part);
            bench.schedule(far * TICK);
            (next..far).for_each(|tick| _ = bench.schedule(tick * TICK));
            // `advance_to` looks at the order.
            bench.advance_to(part, 1);
            bench.advance_to(far * TICK, 1);
            assert_eq!(bench.oracle.len(), 0);
        }
    }
}

/// The same with two levels. The block of the far tick begins with it, and the last level does not
/// reach it. Both ticks have one slot on level 0, too.
#[test]
fn a_block_beyond_the_last_level_comes_out_behind_the_ticks_before_it() {
    let mut bench = Bench::divided(2, 2, 1, ComesUp::WithFirst);
    let (far, near) = (bench.schedule(19), bench.schedule(4));
    bench.now = 19;
    assert_eq!(bench.turn(100), [near, far]);
}
