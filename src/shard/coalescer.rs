//! Chooses the tick for a timeout that may run anywhere in a range of ticks.
//!
//! The coalescer takes the roundest tick: the one that the highest power of two divides. Timeouts
//! with overlapping ranges then tend to meet in one tick without knowing of each other, and each
//! shared tick saves a wake-up. Linux's timer slack does the same. A tick that many timeouts have
//! taken already is skipped in favour of the next roundest, so that they don't all run at once.

// Not through `sync`: this is a guess at what other threads have chosen, and no protocol depends on
// it.
use std::sync::atomic::{AtomicU64, Ordering};

/// At most this many timeouts meet in a tick, as far as the coalescer knows: some 50 µs of work.
pub(crate) const FULL: u64 = 1_024;
/// How many ticks of a range are tried: 1 of 1,024 ticks, 2 of 512, 4 of 256, 8 of 128, 16 of 64.
const TRIES: usize = 31;
const REMEMBERED: usize = 64;
const COUNT_BITS: u32 = 16;

/// Remembers, for one shard, how many timeouts have lately taken which tick.
#[derive(Debug)]
pub(crate) struct Coalescer {
    /// The low bits of a tick above a count. A tick that maps to another tick's place replaces it.
    taken: [AtomicU64; REMEMBERED],
    spread: AtomicU64,
    /// Each shard's ticks are shifted by its index, so that the shards don't all run at once.
    skew: u64,
}

impl Coalescer {
    pub(crate) fn new(shard: usize) -> Self {
        Self { taken: [const { AtomicU64::new(0) }; REMEMBERED], spread: AtomicU64::new(0), skew: shard as u64 }
    }

    /// Returns a tick from `earliest` to `latest`.
    pub(crate) fn choose(&self, earliest: u64, latest: u64) -> u64 {
        if latest <= earliest {
            return earliest;
        }
        let (from, to) = (earliest + self.skew, latest + self.skew);
        let chosen = by_roundness(from, to).take(TRIES).find(|&tick| self.join(tick));
        let chosen = chosen.unwrap_or_else(|| {
            // All are full: spread the rest evenly, by steps of the golden ratio.
            let step = self.spread.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
            from + ((u128::from(step) * u128::from(to - from + 1)) >> 64) as u64
        });
        chosen - self.skew
    }

    /// Returns whether the tick has room, and counts the timeout if so.
    fn join(&self, tick: u64) -> bool {
        // Ticks that are 1, 64 or 4,096 apart fall on different places.
        #[expect(clippy::cast_possible_truncation, reason = "less than the number of places")]
        let place = &self.taken[((tick + (tick >> 6) + (tick >> 12)) % REMEMBERED as u64) as usize];
        let (mine, count_mask) = (tick << COUNT_BITS, (1 << COUNT_BITS) - 1);
        let seen = place.load(Ordering::Relaxed);
        let count = if seen & !count_mask == mine { seen & count_mask } else { 0 };
        // If another thread stores at the same time, one of the two is not counted.
        if count < FULL {
            place.store(mine | (count + 1), Ordering::Relaxed);
        }
        count < FULL
    }
}

/// Returns the numbers from `from` to `to`, those first that the highest power of two divides.
fn by_roundness(from: u64, to: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS).rev().flat_map(move |bits| {
        let step = 1_u64 << bits;
        let first = from.checked_next_multiple_of(step).filter(|&first| first <= to);
        let multiples = std::iter::successors(first, move |at| at.checked_add(step).filter(|&at| at <= to));
        // Numbers that a higher power divides came before.
        multiples.filter(move |at| at.trailing_zeros() == bits)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn roundness_names_every_number_once_the_roundest_first(from in 1_u64..1 << 40, len in 0_u64..200) {
            let named: Vec<_> = by_roundness(from, from + len).collect();
            prop_assert!(named.windows(2).all(|pair| pair[0].trailing_zeros() >= pair[1].trailing_zeros()));
            let mut sorted = named;
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (from..=from + len).collect::<Vec<_>>());
        }

        #[test]
        fn the_choice_is_in_the_range(shard in 0_usize..5, ranges in prop::collection::vec((0_u64..1 << 52, 0_u64..5_000), 1..300)) {
            let coalescer = Coalescer::new(shard);
            for (from, len) in ranges {
                let chosen = coalescer.choose(from, from + len);
                prop_assert!((from..=from + len).contains(&chosen));
            }
        }
    }

    #[test]
    fn ranges_that_overlap_meet_and_a_tick_that_is_full_is_left_alone() {
        let coalescer = Coalescer::new(0);
        let mut ticks = BTreeMap::new();
        for n in 0..20_000_u64 {
            // 100 starting points, each range 1,000 ticks long.
            let from = 10_000 + n % 100;
            *ticks.entry(coalescer.choose(from, from + 1_000)).or_insert(0) += 1;
        }
        assert!(ticks.len() <= 25, "{} ticks for 20,000 that could share 20", ticks.len());
        assert!(ticks.values().all(|&count| count <= FULL), "{ticks:?}");
        let crowd = (0..1_000_000).map(|_| coalescer.choose(50_000, 50_999));
        let mut crowded = BTreeMap::new();
        crowd.for_each(|tick| *crowded.entry(tick).or_insert(0_u64) += 1);
        assert!(crowded.values().all(|&count| count < 2_500), "a million in a thousand ticks are a thousand in each");
    }

    fn tick(coalescer: &Coalescer, from: u64, to: u64) -> u64 {
        coalescer.choose(from, to)
    }

    #[test]
    fn a_range_of_one_tick_takes_it() {
        let coalescer = Coalescer::new(1);
        assert_eq!(tick(&coalescer, 1_001, 1_001), 1_001);
        assert_eq!(tick(&coalescer, 1_001, 1_000), 1_001, "a reversed range means no slack");
    }

    #[test]
    fn the_roundest_is_taken_until_it_is_full_and_then_the_next() {
        let coalescer = Coalescer::new(0);
        for (times, roundest) in [(FULL, 1_024), (FULL, 1_088), (1, 1_056)] {
            assert!((0..times).all(|_| tick(&coalescer, 1_000, 1_100) == roundest));
        }
    }

    #[test]
    fn each_shard_counts_from_another_tick() {
        assert_eq!([0, 1, 3].map(|shard| tick(&Coalescer::new(shard), 1_000, 1_100)), [1_024, 1_023, 1_021]);
    }

    #[test]
    fn neighbours_are_remembered_beside_each_other() {
        for apart in [1, 64, 4_096] {
            let coalescer = Coalescer::new(0);
            let ticks: Vec<u64> = (0..32).map(|n| (1 << 24) + n * apart).collect();
            (0..FULL).for_each(|_| assert!(coalescer.join(ticks[0])));
            assert!(ticks[1..].iter().all(|&tick| coalescer.join(tick)));
            assert!(!coalescer.join(ticks[0]), "{apart} apart");
        }
    }

    #[test]
    fn a_tick_that_falls_on_the_place_of_another_takes_it_over() {
        let coalescer = Coalescer::new(0);
        (0..FULL).for_each(|_| assert!(coalescer.join(1_024)));
        assert!(!coalescer.join(1_024));
        // 1,024 + 16 and 16 are the same modulo 64.
        assert!(coalescer.join(16) && coalescer.join(1_024));
    }

    #[test]
    fn when_all_are_full_the_rest_is_spread_evenly() {
        let coalescer = Coalescer::new(2);
        let mut times = BTreeMap::new();
        for n in 0..TRIES as u64 * FULL + 1_000 {
            let chosen = tick(&coalescer, 5_000, 5_099);
            if n >= TRIES as u64 * FULL {
                *times.entry(chosen).or_insert(0) += 1;
            }
        }
        assert!(
            times.keys().copied().eq(5_000..5_100) && times.values().all(|times| (9..=11).contains(times)),
            "{times:?}"
        );
    }
}
