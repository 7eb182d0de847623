//! Which slots of a level are occupied: one bit per slot, and one summary bit per word of those. So
//! the next occupied slot is found in a few instructions, however many empty slots lie before it.

use alloc::boxed::Box;

use crate::items::{OutOfMemory, room_for};

const BITS: usize = u64::BITS as usize;

#[derive(Debug)]
pub(crate) struct Occupancy {
    words: Box<[u64]>,
    /// Bit w of the summary says whether `words[w]` is not zero.
    summary: Box<[u64]>,
    slots: usize,
}

impl Occupancy {
    pub(crate) fn new(slots: usize) -> Result<Self, OutOfMemory> {
        let words = slots.div_ceil(BITS);
        Ok(Self { words: zeros(words)?, summary: zeros(words.div_ceil(BITS))?, slots })
    }

    /// Returns whether it was not set.
    #[inline]
    pub(crate) fn set(&mut self, slot: usize) -> bool {
        debug_assert!(slot < self.slots);
        let (word, bit) = (slot / BITS, 1 << (slot % BITS));
        let is_new = self.words[word] & bit == 0;
        if is_new {
            self.words[word] |= bit;
            self.summary[word / BITS] |= 1 << (word % BITS);
        }
        is_new
    }

    #[inline]
    pub(crate) fn clear(&mut self, slot: usize) {
        let word = slot / BITS;
        self.words[word] &= !(1 << (slot % BITS));
        if self.words[word] == 0 {
            self.summary[word / BITS] &= !(1 << (word % BITS));
        }
    }

    #[cfg(test)]
    pub(crate) fn is_set(&self, slot: usize) -> bool {
        self.words[slot / BITS] >> (slot % BITS) & 1 != 0
    }

    /// Returns how many slots after `from`, going round, the next occupied one is; 0 if it is
    /// `from` itself. Returns `None` if all are empty.
    pub(crate) fn distance_to_next(&self, from: usize) -> Option<usize> {
        match self.first_at_or_after(from) {
            Some(slot) => Some(slot - from),
            None => self.first_at_or_after(0).map(|slot| slot + self.slots - from),
        }
    }

    fn first_at_or_after(&self, from: usize) -> Option<usize> {
        let word = from / BITS;
        let rest = self.words[word] & (u64::MAX << (from % BITS));
        if rest != 0 {
            return Some(word * BITS + rest.trailing_zeros() as usize);
        }
        let word = self.first_word_at_or_after(word + 1)?;
        Some(word * BITS + self.words[word].trailing_zeros() as usize)
    }

    fn first_word_at_or_after(&self, from: usize) -> Option<usize> {
        let first = from / BITS;
        let mut mask = u64::MAX << (from % BITS);
        for (index, summary) in self.summary.iter().enumerate().skip(first) {
            let rest = summary & mask;
            if rest != 0 {
                return Some(index * BITS + rest.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

fn zeros(words: usize) -> Result<Box<[u64]>, OutOfMemory> {
    let mut zeros = room_for(words)?;
    zeros.resize(words, 0);
    Ok(zeros.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 5 } else { 256 }, failure_persistence: None, ..Default::default()
        })]

        #[test]
        fn the_next_occupied_slot_is_the_one_that_a_search_by_hand_finds(
            bits in 0_u32..15,
            ops in prop::collection::vec((any::<bool>(), any::<u32>()), 0..200),
            from in any::<u32>(),
        ) {
            let slots = 1_usize << bits;
            let mut occupancy = Occupancy::new(slots).expect("memory");
            let mut model = BTreeSet::new();
            for (set, slot) in ops {
                let slot = slot as usize % slots;
                if set { occupancy.set(slot); model.insert(slot); } else { occupancy.clear(slot); model.remove(&slot); }
            }
            let from = from as usize % slots;
            let expected = model.range(from..).next().map(|slot| slot - from)
                .or_else(|| model.first().map(|slot| slot + slots - from));
            prop_assert_eq!(occupancy.distance_to_next(from), expected);
        }
    }
}
