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
    /// A power of two.
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
        let slot = self.first_at_or_after(from).or_else(|| self.first_at_or_after(0))?;
        Some(slot.wrapping_sub(from) & (self.slots - 1))
    }

    fn first_at_or_after(&self, from: usize) -> Option<usize> {
        first_bit(&self.words[..=from / BITS], from).or_else(|| {
            let word = first_bit(&self.summary, from / BITS + 1)?;
            first_bit(&self.words, word * BITS)
        })
    }
}

/// Returns the first bit from this one on that is set.
fn first_bit(words: &[u64], from: usize) -> Option<usize> {
    let rest = |index: usize| words[index] & if index == from / BITS { u64::MAX << (from % BITS) } else { u64::MAX };
    let index = (from / BITS..words.len()).find(|index| rest(*index) != 0)?;
    Some(index * BITS + rest(index).trailing_zeros() as usize)
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
