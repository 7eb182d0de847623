//! An entry in a slot of a wheel.

use std::ptr::{self, NonNull};

use tourbillon_wheel::Place;

use super::list::Token;
use super::{CameUp, Entry, Held};

/// User-space addresses leave their 16 highest bits free. The stacks in `shard` keep a count there.
pub(crate) const ADDRESS_BITS: u32 = usize::BITS - 16;

/// Returns whether links can name what lies at these `bytes` from `first` on. They can't if its
/// addresses have more than 48 bits. No system gives out such memory unless asked to, but an
/// allocator may put a tag into the highest bits.
pub(crate) fn fits_links(first: NonNull<()>, bytes: usize) -> bool {
    first.addr().get().checked_add(bytes).is_some_and(|end| end <= 1 << ADDRESS_BITS)
}

/// The address of an entry, for a cell of the wheel. A wheel that has this value in a cell has the
/// engine's ownership of the entry, and its `next`. The entry is on its way into the wheel; or a
/// queue held it, and it is in the wheel, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Linked(pub(super) NonNull<Entry>);

// SAFETY: the engine's ownership may be passed on between threads, with the wheel.
unsafe impl Send for Linked {}
// SAFETY: `repr(transparent)` around a `NonNull<Entry>`. The wheel, which has the entry in a cell,
// or the worker, which has popped it, has the engine's ownership.
unsafe impl Token for Linked {}

impl Linked {
    /// Looks at an entry that has come up.
    ///
    /// # Safety
    /// The wheel has just taken the entry out of its slot. It does nothing else before the end of
    /// `'w`, a lifetime that no other value has, and has the entry again only if that
    /// [goes back](super::came_up::Seen::into_held).
    #[inline]
    pub(crate) unsafe fn came_up<'w>(self) -> CameUp<'w> {
        Held::of(self.0).look()
    }

    /// Returns its place in the wheel, or anything if it is not there.
    ///
    /// # Safety
    /// It is in the wheel, or was, and the caller is the worker that turns that.
    #[inline]
    pub(crate) unsafe fn place(self) -> Place {
        #[expect(clippy::cast_possible_truncation, reason = "a place has 32 bits")]
        Place::from_bits(self.entry().next.get().addr() as u32)
    }

    /// # Safety
    /// The caller is the wheel, which has it in a cell.
    #[inline]
    pub(crate) unsafe fn set_place(self, place: Place) {
        self.entry().next.set(ptr::without_provenance_mut(place.to_bits() as usize));
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
