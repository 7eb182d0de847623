//! One level: a ring of slots, each 2^`shift` ticks wide.

use crate::block::Memory;
use crate::items::OutOfMemory;
use crate::list::Lists;
use crate::occupancy::Occupancy;

/// A stretch of time as wide as a slot of a level. It begins at tick `span << shift`.
pub(crate) type Span = u64;

/// The slots of a level, and which lists they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    /// log2 of a slot's width in ticks.
    shift: u32,
    /// How many slots there are, less one.
    mask: u32,
    /// The number of the first slot's first list. Each slot has two.
    lists: u32,
}

impl Ring {
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer lists than 2^31")]
    pub(crate) fn new(shift: u32, slots: usize, first_list: usize) -> Self {
        Self { shift, mask: (slots - 1) as u32, lists: first_list as u32 }
    }

    fn slots(self) -> usize {
        self.mask as usize + 1
    }

    /// Returns how many bits of a tick the ring counts.
    pub(crate) fn bits(self) -> u32 {
        self.shift + self.slots().ilog2()
    }

    /// Returns the first of the two lists of a tick's slot, which is `(tick >> shift) & mask`.
    #[inline]
    pub(crate) fn list_at(self, tick: u64) -> u32 {
        self.list(tick >> self.shift)
    }

    /// Returns the first of the two lists of a span's slot.
    #[inline]
    pub(crate) fn list(self, span: Span) -> u32 {
        self.lists + 2 * self.slot(span)
    }

    /// Returns the slot that a list is of, if it is of this ring.
    #[inline]
    pub(crate) fn slot_of(self, list: u32) -> Option<usize> {
        let slot = list.wrapping_sub(self.lists) / 2;
        (slot <= self.mask).then_some(slot as usize)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the mask has 32 bits")]
    fn slot(self, span: Span) -> u32 {
        span as u32 & self.mask
    }
}

#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) ring: Ring,
    /// The span behind the last one that an event has opened. It may be ahead of the cursor.
    pub(crate) opened: Span,
    /// The last cursor at which a part of the level's cascade was moved: once a tick is enough.
    pub(crate) stepped: u64,
    /// A bit may be set for a slot that is empty, as a removal leaves it set.
    pub(crate) occupancy: Occupancy,
}

impl Level {
    pub(crate) fn new(ring: Ring) -> Result<Self, OutOfMemory> {
        Ok(Self { ring, opened: 0, stepped: 0, occupancy: Occupancy::new(ring.slots())? })
    }

    pub(crate) fn begins(&self, span: Span) -> u64 {
        span << self.ring.shift
    }

    /// Returns how many ticks before a span begins it is opened: half its width, 0 on level 0.
    #[inline]
    pub(crate) fn lead(&self) -> u64 {
        (1 << self.ring.shift) >> 1
    }

    /// Returns when a span has to be looked at: when its cascade starts, or, on level 0, when it is
    /// due.
    pub(crate) fn opens(&self, span: Span) -> u64 {
        self.begins(span) - self.lead()
    }

    /// Returns the first span that is not opened when all ticks before `cursor` are processed.
    #[inline]
    pub(crate) fn first_unopened(&self, cursor: u64) -> Span {
        // By time it is the first that opens at the cursor or later. Without a lead, it is the
        // cursor itself, also if that is 0.
        let last_opened = cursor.saturating_add(self.lead()).wrapping_sub(1) >> self.ring.shift;
        let by_time = last_opened.wrapping_add(1);
        by_time.max(self.opened)
    }

    /// Returns the tick at which the cascade to the level `below` must be over: when that opens the
    /// first span that it may bring something to. There is at most one cascade at a time, as it is
    /// over before the next span is opened.
    pub(crate) fn cascade_due(&self, below: &Self) -> u64 {
        self.begins(self.opened - 1) - below.lead()
    }

    /// Returns whether the ring has a slot for a tick that is neither opened nor too far away.
    #[inline]
    pub(crate) fn holds(&self, tick: u64, cursor: u64) -> bool {
        (self.first_unopened(cursor)..self.end(cursor)).contains(&(tick >> self.ring.shift))
    }

    /// Returns the first span from this one on whose slot has items. It may be one revolution away
    /// at most. Clears the marks of slots that have none any more.
    pub(crate) fn next_occupied<T: Copy + Eq, M: Memory<T>>(
        &mut self,
        first: Span,
        lists: &Lists<T, M>,
    ) -> Option<Span> {
        loop {
            let span = self.next_marked(first)?;
            if !lists.is_slot_empty(self.ring.list(span)) {
                return Some(span);
            }
            self.occupancy.clear(self.ring.slot(span) as usize);
        }
    }

    /// Returns the first span from this one on whose slot is marked. It may be one revolution away
    /// at most.
    fn next_marked(&self, first: Span) -> Option<Span> {
        let distance = self.occupancy.distance_to_next(self.ring.slot(first) as usize)?;
        // Beyond the end of time there is nothing.
        first.checked_add(distance as u64)
    }

    /// Returns the first span that is too far away for the ring.
    pub(crate) fn end(&self, cursor: u64) -> Span {
        self.first_unopened(cursor).saturating_add(self.ring.slots() as u64)
    }

    /// Returns the spans whose slots are marked, in their order.
    pub(crate) fn marked(&self, cursor: u64) -> impl Iterator<Item = Span> {
        let (first, end) = (self.first_unopened(cursor), self.end(cursor));
        let marked = move |span| self.next_marked(span).filter(|span| *span < end);
        core::iter::successors(marked(first), move |span| marked(span + 1))
    }

    #[cfg(test)]
    pub(crate) fn lists(&self) -> core::ops::Range<u32> {
        self.ring.lists..self.ring.list(self.ring.mask.into()) + 2
    }

    #[cfg(test)]
    pub(crate) fn is_marked(&self, list: u32) -> bool {
        self.ring.slot_of(list).is_some_and(|slot| self.occupancy.is_set(slot))
    }
}
