//! Where an entry is at home: the shard that it was scheduled on.

use std::marker::PhantomData;
use std::num::NonZeroU16;

/// The number of a shard's remote, which is there for `'a`. The shard layer finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Home<'a>(NonZeroU16, PhantomData<&'a ()>);

impl<'a> Home<'a> {
    /// # Safety
    /// This is the number of a `Remote` which is there for `'a`, and a part of its engine.
    #[inline]
    pub(crate) unsafe fn new(number: NonZeroU16) -> Self {
        Self(number, PhantomData)
    }

    #[inline]
    pub(crate) fn number(self) -> NonZeroU16 {
        self.0
    }
}
