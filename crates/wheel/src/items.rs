//! The user's side: the store of the items, places, answers and errors.

use alloc::vec::Vec;

/// Where a wheel's items are, and when they are due.
///
/// The wheel holds items that are cheap to copy: an index into a slab, a pointer, a reference. The
/// user's store holds what they stand for. The wheel asks the store for a deadline when it needs
/// one, so a deadline may change while its item is in the wheel: see [`Wheel::insert`] and
/// [`Wheel::reinsert`] for which change the wheel has to be told of.
///
/// [`Wheel::insert`]: crate::Wheel::insert
/// [`Wheel::reinsert`]: crate::Wheel::reinsert
pub trait Items {
    /// A cell holds an `Option<Item>`. With 8 bytes for that, a block is two cache lines.
    type Item: Copy + Eq;

    /// Returns the tick at which an item is due now. [`NEVER`] means never.
    fn deadline(&self, item: Self::Item) -> u64;

    /// Keeps where an item is from now on, for [`Wheel::remove`](crate::Wheel::remove).
    fn placed(&mut self, item: Self::Item, place: Place);

    /// Brings what an item stands for into the cache, without waiting for it. The wheel calls it
    /// about one block before it asks for the deadline. It does nothing by default.
    fn prefetch(&self, _item: Self::Item) {}
}

/// The deadline of an item that is never due.
pub const NEVER: u64 = u64::MAX;

/// Where an item is in its wheel: a block, and a cell of it.
///
/// The wheel notices a place that does not hold its item any more. So a store may keep the last
/// place that it was told, and need not know whether the item is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place(u32);

impl Place {
    /// The index of a block is below this. 2^28 blocks hold 3.7 thousand million items. A chunk of
    /// them is left out, so that none has the place [`NONE`](Self::NONE).
    pub(crate) const MAX_BLOCKS: u32 = (1 << 28) - (1 << 8);

    /// In no block, and behind all cells.
    pub(crate) const NONE: Self = Self(u32::MAX);

    #[inline]
    pub(crate) fn new(block: u32, cell: usize) -> Self {
        debug_assert!(block < Self::MAX_BLOCKS && cell < 16);
        #[expect(clippy::cast_possible_truncation, reason = "a cell has four bits")]
        Self(block << 4 | cell as u32)
    }

    /// Returns the place behind this one, which is no cell's if this is a block's last.
    #[inline]
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    #[inline]
    pub(crate) fn block(self) -> u32 {
        self.0 >> 4
    }

    #[inline]
    pub(crate) fn cell(self) -> usize {
        (self.0 & 15) as usize
    }

    /// Returns the place as a number, for a store that packs it into a word.
    #[must_use]
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// Returns the place that [`to_bits`](Self::to_bits) made a number of. Any other number is the
    /// place of some item or of none, which is never wrong: see [`Place`].
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// The user's answer to an item that has come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// It is taken, and has left the wheel.
    Taken,
    /// Its deadline was moved meanwhile. The wheel asks for it again, and puts the item back.
    Later,
    /// It can't be taken now, nor can any other. It stays the first of those that are due.
    Stop,
}

/// There is no memory for another block. The call has moved, taken and lost no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl core::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(
            "there is no memory for another block of the timing wheel; remove items, or free memory, and try again",
        )
    }
}

impl core::error::Error for OutOfMemory {}

/// Returns an empty vector with room for so many.
pub(crate) fn room_for<T>(len: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut room = Vec::new();
    room.try_reserve_exact(len).map_err(|_| OutOfMemory)?;
    Ok(room)
}

/// Why there is no wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WheelError {
    /// This number of slots is no power of two, or it is 1 although there are several levels.
    Slots(usize),
    /// So many levels of so many slots: none, or they count more bits of a tick than
    /// [`MAX_TICK_BITS`](crate::MAX_TICK_BITS).
    Levels(usize, usize),
    /// There is no memory for the slots.
    OutOfMemory,
}

impl core::fmt::Display for WheelError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Slots(slots) => write!(
                f,
                "a wheel can't have {slots} slots a level: their number has to be a power of two, and at least 2 if \
                 there are several levels"
            ),
            Self::Levels(levels, slots) => write!(
                f,
                "a wheel can't have {levels} levels of {slots} slots: it needs at least 1 level, and the binary \
                 logarithms of all levels' slots may add up to {} at most",
                crate::MAX_TICK_BITS
            ),
            Self::OutOfMemory => f.write_str("there is no memory for the slots of the timing wheel; use fewer"),
        }
    }
}

impl core::error::Error for WheelError {}
