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
    memory: Memory,
}

/// Where the memory came from, and goes back to.
#[derive(Debug)]
enum Memory {
    Allocated(NonNull<u8>, Layout),
    /// By the system, for this array alone: so many bytes, from its first place on.
    #[cfg(all(target_os = "linux", not(miri)))]
    Mapped(usize),
}

/// What the system gives memory out, and takes it back, in: bytes. Zero where nothing can be given back.
pub(crate) fn page_size() -> usize {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    {
        use std::sync::OnceLock;
        static SIZE: OnceLock<usize> = OnceLock::new();
        // SAFETY: takes a number, and answers with one.
        *SIZE.get_or_init(|| usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(0))
    }
    #[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
    0
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
        Some(Self { first, len, memory: Memory::Allocated(allocated, layout) })
    }

    /// The same, for one that will be written to as a whole, here and now: a large one in large pages, where there are any, so that when
    /// it is used at random fewer addresses have to be translated. (To write to one place of such a page takes memory for all of it.)
    pub(crate) fn to_be_filled(len: usize) -> Option<Self> {
        #[cfg(all(target_os = "linux", not(miri)))]
        if let Some(array) = Self::in_large_pages(len) {
            return Some(array);
        }
        Self::new(len)
    }

    /// From the system itself: an allocator may keep what is freed, and then keeps it with the advice, so that whoever gets it next,
    /// and writes here and there, takes far more memory than before.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn in_large_pages(len: usize) -> Option<Self> {
        /// In less there may be room for one large page (2 MiB on most processors), or none.
        const LARGE: usize = 4 << 20;
        let bytes = Layout::array::<T>(len).ok()?.size();
        if bytes < LARGE {
            return None;
        }
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, where the system likes it.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        // A refusal changes nothing.
        // SAFETY: ours; the advice changes nothing that can be read there.
        unsafe { libc::madvise(mapped, bytes, libc::MADV_HUGEPAGE) };
        Some(Self { first: NonNull::new(mapped)?.cast(), len, memory: Memory::Mapped(bytes) })
    }

    /// Lets the system have the memory of so many places, from one on, which both lie on the border of a [page](page_size). They may be read
    /// and written as before; what stands in them is lost, and takes no memory before they are written to again. False if the system
    /// keeps it where it is.
    ///
    /// # Safety
    /// The places are the array's, and nobody else uses them meanwhile.
    pub(crate) unsafe fn discard(&self, from: usize, len: usize) -> bool {
        #[cfg(all(target_os = "linux", not(miri), not(loom)))]
        {
            // SAFETY: handed on.
            let first = unsafe { self.at(from) };
            debug_assert!(
                first.addr().get().is_multiple_of(page_size()) && (len * size_of::<T>()).is_multiple_of(page_size())
            );
            // SAFETY: whole pages of memory that is ours, whose contents nobody needs.
            let failed = unsafe { libc::madvise(first.as_ptr().cast(), len * size_of::<T>(), libc::MADV_DONTNEED) };
            failed == 0
        }
        #[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
        {
            let _ = (from, len);
            cfg!(loom)
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of the first place.
    pub(crate) fn first(&self) -> NonNull<T> {
        self.first
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
        match self.memory {
            // SAFETY: allocated in `new` with this layout, and freed here once.
            Memory::Allocated(allocated, layout) => unsafe { std::alloc::dealloc(allocated.as_ptr(), layout) },
            #[cfg(all(target_os = "linux", not(miri)))]
            Memory::Mapped(bytes) => {
                // SAFETY: mapped in `in_large_pages`, so many bytes, and given back here once.
                let unmapped = unsafe { libc::munmap(self.first.as_ptr().cast(), bytes) };
                debug_assert_eq!(unmapped, 0);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn arrays_begin_at_a_line_and_are_zero_to_their_end() {
        const LARGE: usize = if cfg!(miri) { 5_000 } else { (4 << 20) / 8 };
        let new = [0, 1, 7, 64, 5_000].map(Zeroed::<u64>::new);
        for array in new.into_iter().chain([1, LARGE - 1, LARGE, LARGE + 1].map(Zeroed::to_be_filled)) {
            let array = array.expect("memory");
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
        assert!(Zeroed::<u64>::to_be_filled(usize::MAX / 16).is_none());
    }
}
