//! An entry in a slot of a wheel, whose links are the slot's.

use std::ptr::NonNull;

use super::{Entry, Link, Linkable, MaybeLinked, Token};
use crate::sync::prefetch;
use crate::time::Subtick;

/// The bits of a link. Entries and slots begin at a cache line.
///
/// ```text
/// 16 bits: the entry's round, in a backward link | address | lane (3 bits) | END
/// ```
const ROUND_SHIFT: u32 = ADDRESS_BITS;
const LINE: usize = 64;
const LANE_SHIFT: u32 = 1;
/// Set if a link is at the end of a lane. Then it names the slot and the lane, and not an entry.
const END: usize = 1;
/// User-space addresses leave their 16 highest bits free. Links keep a round there, and the stacks
/// in `shard` a count.
pub(crate) const ADDRESS_BITS: u32 = usize::BITS - 16;
/// Slots lie below this address, and so do entries.
const ADDRESS_END: usize = 1 << ADDRESS_BITS;

/// Returns whether links can name what lies at these `bytes` from `first` on. They can't if its
/// addresses have more than 48 bits. No system gives out such memory unless asked to, but an
/// allocator may put a tag into the highest bits.
pub(crate) fn fits_links(first: NonNull<()>, bytes: usize) -> bool {
    first.addr().get().checked_add(bytes).is_some_and(|end| end <= ADDRESS_END)
}

/// An entry in a slot. Whoever has this value, or a copy, has the engine's ownership of the entry
/// and both its links, until one copy is turned [back](Self::into_linkable) into that ownership.
/// Zeroed memory is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Linked(NonNull<Entry>);

/// What is beside an entry in its lane.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Neighbour {
    Entry(Linked),
    End(LaneEnd),
}

/// An end of a lane, as the link of the entry there names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneEnd(Link);

impl LaneEnd {
    /// Names a lane of the slot at this address, which begins at a cache line.
    #[inline]
    pub(crate) fn new<T>(slot: &T, lane: usize) -> Self {
        const { assert!(align_of::<T>() >= LINE) };
        debug_assert!(lane << LANE_SHIFT < LINE);
        Self(std::ptr::from_ref(slot).cast_mut().cast::<Entry>().map_addr(|addr| addr | lane << LANE_SHIFT | END))
    }

    #[inline]
    pub(crate) fn slot_address(self) -> usize {
        self.0.addr() & !(LINE - 1)
    }

    #[inline]
    pub(crate) fn lane(self) -> usize {
        (self.0.addr() & (LINE - 1)) >> LANE_SHIFT
    }
}

impl Neighbour {
    /// Reads a link of a [`Linked`], without the round.
    #[inline]
    fn read(link: Link) -> Self {
        if link.addr() & END != 0 {
            return Self::End(LaneEnd(link));
        }
        // SAFETY: both links of a linked entry were written by its `new`, `set_behind` and
        // `set_before`, from a `Neighbour`. It was no end, so it was an entry.
        Self::Entry(Linked(unsafe { NonNull::new_unchecked(link) }))
    }

    #[inline]
    fn as_link(self) -> Link {
        match self {
            Self::Entry(entry) => entry.0.as_ptr(),
            Self::End(end) => end.0,
        }
    }
}

impl Linked {
    /// Links an entry, which keeps the round of its number.
    #[inline]
    pub(crate) fn new(entry: Linkable, before: Neighbour, round: u16, behind: Neighbour) -> Self {
        let this = Self(entry.into_raw());
        this.set_back(before, round);
        this.set_behind(behind);
        this
    }

    /// Returns an entry that a queue names as it is in the wheel, or `None` if it has come out of
    /// its slot.
    ///
    /// # Safety
    /// The entry was in a slot, and has been in no list of entries since. The caller is the worker
    /// that has the slot and the queue.
    #[inline]
    pub(crate) unsafe fn of_queued(entry: &MaybeLinked) -> Option<Self> {
        if entry.back().is_null() { None } else { NonNull::new(entry.as_link()).map(Self) }
    }

    /// Returns the entry, which is in no slot any more.
    ///
    /// # Safety
    /// No other copy of this value is used after this. A link that still names the entry is not
    /// followed before it is written again.
    #[inline]
    pub(crate) unsafe fn into_linkable(self) -> Linkable {
        self.entry().set_back(std::ptr::null_mut());
        // SAFETY: `new` took such a value in, and the caller uses no other copy.
        unsafe { Linkable::from_raw(self.0) }
    }

    #[inline]
    fn entry(&self) -> &Entry {
        // SAFETY: `new` was given the engine's ownership of the entry, which keeps it alive until
        // the last copy of this value has been used (see `into_linkable`). All fields have interior
        // mutability, so shared references never conflict.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn behind(self) -> Neighbour {
        Neighbour::read(self.entry().next())
    }

    #[inline]
    pub(crate) fn set_behind(self, behind: Neighbour) {
        self.entry().set_next(behind.as_link());
    }

    #[inline]
    pub(crate) fn before(self) -> Neighbour {
        Neighbour::read(self.entry().back().map_addr(|addr| addr & (ADDRESS_END - 1)))
    }

    /// Says what is before this entry now. It keeps its round.
    #[inline]
    pub(crate) fn set_before(self, before: Neighbour) {
        self.set_back(before, self.round());
    }

    #[inline]
    fn set_back(self, before: Neighbour, round: u16) {
        self.entry().set_back(before.as_link().map_addr(|addr| addr | usize::from(round) << ROUND_SHIFT));
    }

    /// Returns the round of the entry's number.
    #[inline]
    pub(crate) fn round(self) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "16 bits are left")]
        let round = (self.entry().back().addr() >> ROUND_SHIFT) as u16;
        round
    }

    pub(crate) fn address(self) -> usize {
        self.0.addr().get()
    }

    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch(self.0.as_ptr());
    }

    /// Returns the deadline by the entry's own word.
    pub(crate) fn deadline(self) -> Subtick {
        self.entry().state.deadline()
    }

    pub(crate) fn is_pending(self) -> bool {
        self.entry().state.is_pending()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_refused_whose_addresses_have_more_than_48_bits_or_a_tag() {
        let fits = |first, bytes| fits_links(NonNull::without_provenance(first), bytes);
        let number = |address: usize| std::num::NonZero::new(address).expect("it is not null");
        for (first, bytes, is_fit) in [
            (0x7fff_ffff_f000, 4096, true),
            (0xffff_ffff_f000, 4096, true),
            (0xffff_ffff_f000, 4097, false),
            (1 << 48, 64, false),
            // Of a processor with addresses of 57 bits; tagged, as on Android; and beyond the end.
            (0x00ff_ffff_ffff_f000, 64, false),
            (0xb400_7fff_ffff_f000, 64, false),
            (usize::MAX - 63, 64, false),
            (64, usize::MAX, false),
        ] {
            assert_eq!(fits(number(first), bytes), is_fit, "{bytes} bytes at {first:#x}");
        }
    }
}
