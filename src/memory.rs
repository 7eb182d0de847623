//! Zeroed arrays that begin at a cache line, and whose pages the system gives out when they are first written to.

use std::alloc::Layout;
use std::ptr::NonNull;

/// What a cache line takes on every processor that this was measured on.
const LINE: usize = 64;

/// What the allocator is asked for: no more than it gives anyway. (Miri only believes in an alignment that was asked for.)
const ASKED: usize = if cfg!(miri) { LINE } else { align_of::<usize>() };

/// An array of `len` places, all bytes zero when it is made. It reads and drops none of them: what they hold is its owner's affair.
#[derive(Debug)]
pub(crate) struct Zeroed<T> {
    first: NonNull<T>,
    len: usize,
    allocated: NonNull<u8>,
    layout: Layout,
}

impl<T> Zeroed<T> {
    /// None if the memory can't be had.
    ///
    /// The alignment is made by hand: an allocator that is asked for more than it gives anyway has no zeroed pages for that, so
    /// all of the array would be written to here and now.
    pub(crate) fn new(len: usize) -> Option<Self> {
        const { assert!(align_of::<T>() <= LINE && size_of::<T>() > 0) };
        let bytes = Layout::array::<T>(len).ok()?.size().checked_add(LINE)?;
        let layout = Layout::from_size_align(bytes, ASKED).ok()?;
        // SAFETY: the size is at least that of a line.
        let allocated = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        let to_line = allocated.addr().get().next_multiple_of(LINE) - allocated.addr().get();
        // SAFETY: less than a line further, which there is room for.
        let first = unsafe { allocated.add(to_line) }.cast();
        Some(Self { first, len, allocated, layout })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of the first place.
    pub(crate) fn first(&self) -> NonNull<T> {
        self.first
    }

    /// Asks Linux for large pages (2 MiB on most processors), so that where the array is used at random fewer addresses have to
    /// be translated. It should be one that is written to as a whole: to write to one place of such a page takes memory for
    /// all of it. A refusal changes nothing.
    pub(crate) fn ask_for_large_pages(&self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            /// In less there may be room for one large page, or none. (An allocator that keeps what is freed keeps it with the
            /// advice: memory that has been written to as a whole already.)
            const LARGE: usize = 4 << 20;
            /// No processor's small pages are larger.
            const PAGE: usize = 64 << 10;
            let (first, bytes) = (self.first.addr().get(), self.len * size_of::<T>());
            if bytes >= LARGE {
                // Whole pages only: what lies beside the array may be somebody else's.
                let (from, to) = (first.next_multiple_of(PAGE), (first + bytes) / PAGE * PAGE);
                // SAFETY: the pages are ours; the advice changes nothing that can be read from them.
                unsafe { libc::madvise(self.first.as_ptr().with_addr(from).cast(), to - from, libc::MADV_HUGEPAGE) };
            }
        }
    }

    /// The address of a place.
    ///
    /// # Safety
    /// `index` is at most [`len`](Self::len).
    #[inline]
    pub(crate) unsafe fn at(&self, index: usize) -> NonNull<T> {
        debug_assert!(index <= self.len);
        // SAFETY: within the array, or just behind it.
        unsafe { self.first.add(index) }
    }
}

impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed here once.
        unsafe { std::alloc::dealloc(self.allocated.as_ptr(), self.layout) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn arrays_begin_at_a_line_and_are_zero_to_their_end() {
        for len in [0, 1, 7, 64, 5_000] {
            let array = Zeroed::<u64>::new(len).expect("memory");
            assert!(array.first().addr().get().is_multiple_of(LINE));
            for index in 0..array.len() {
                // SAFETY: below `len`.
                let place = unsafe { array.at(index) };
                // SAFETY: zero is a number.
                assert_eq!(unsafe { place.read() }, 0);
                // SAFETY: a place of the array, which nobody else knows.
                unsafe { place.write(u64::MAX) };
            }
        }
    }

    #[test]
    fn memory_that_nobody_can_have_is_refused() {
        assert!(Zeroed::<u64>::new(usize::MAX / 8).is_none());
        assert!(Zeroed::<u64>::new(usize::MAX).is_none());
    }
}
