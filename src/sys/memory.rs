//! Zeroed arrays that begin at a cache line. The system provides their pages when they are first
//! written to.

use std::alloc::Layout;
#[cfg(all(target_os = "linux", not(miri)))]
use std::num::NonZeroUsize;
use std::ptr::NonNull;

#[cfg(all(target_os = "linux", not(miri)))]
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of a cache line on every processor that the engine was measured on.
const LINE: usize = 64;

/// The alignment that the allocator is asked for: no more than it gives anyway. Miri checks against
/// the alignment that was asked for, and models watch memory that is asked for with a whole line.
const ASKED: usize = if cfg!(any(miri, loom)) { LINE } else { align_of::<usize>() };

/// An array of `len` places, all of whose bytes are zero when it is made. It neither reads nor
/// drops the values in them: that is up to its owner.
#[derive(Debug)]
pub(crate) struct Zeroed<T> {
    first: NonNull<T>,
    len: usize,
    memory: Memory,
}

/// Where the memory came from, and how it is returned.
#[derive(Debug)]
enum Memory {
    Allocated(NonNull<u8>, Layout),
    /// Mapped by the system for this array alone: this many bytes from the first place on.
    #[cfg(all(target_os = "linux", not(miri)))]
    Mapped(usize),
}

/// The size of a page in bytes: the unit in which the system provides memory and takes it back.
/// Returns 0 on systems where no memory can be given back.
pub(crate) fn page_size() -> usize {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    {
        use nix::unistd::{SysconfVar, sysconf};
        use std::sync::OnceLock;
        static SIZE: OnceLock<usize> = OnceLock::new();
        *SIZE.get_or_init(|| match sysconf(SysconfVar::PAGE_SIZE) {
            Ok(Some(bytes)) => usize::try_from(bytes).unwrap_or(0),
            _ => 0,
        })
    }
    #[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
    0
}

impl<T> Zeroed<T> {
    /// Returns `None` if there is not enough memory.
    ///
    /// The array is aligned by hand. An allocator that is asked for a greater alignment than it
    /// gives anyway has no zeroed pages for it, and would write to the whole array here and now.
    pub(crate) fn new(len: usize) -> Option<Self> {
        const { assert!(align_of::<T>() <= LINE && size_of::<T>() > 0) };
        let bytes = Layout::array::<T>(len).ok()?.size().checked_add(LINE)?;
        let layout = Layout::from_size_align(bytes, ASKED).ok()?;
        // SAFETY: the allocation is a line longer than the array. So its size is not zero, and the
        // array that begins at its first whole line is inside.
        let (allocated, first) = unsafe {
            let allocated = NonNull::new(std::alloc::alloc_zeroed(layout))?;
            let to_line = allocated.addr().get().next_multiple_of(LINE) - allocated.addr().get();
            (allocated, allocated.add(to_line).cast())
        };
        Some(Self { first, len, memory: Memory::Allocated(allocated, layout) })
    }

    /// Like [`new`](Self::new), for an array that the caller will fill at once. On Linux a large
    /// array is in large pages, if the system has any, so that accesses at random need fewer
    /// address translations. It goes on to the end of its last page, and so may be longer.
    pub(crate) fn to_be_filled(len: usize) -> Option<Self> {
        #[cfg(all(target_os = "linux", not(miri)))]
        if let Some(array) = Self::in_large_pages(len) {
            return Some(array);
        }
        Self::new(len)
    }

    /// Writes to each page, so that the first use of a place does not pay for a page fault (1.2 µs
    /// each).
    ///
    /// # Safety
    /// The array is new: nobody else knows it, and all its bytes are zero.
    pub(crate) unsafe fn touch(&self) {
        const SMALLEST_PAGE: usize = 4096;
        let a_page = (SMALLEST_PAGE / size_of::<T>()).max(1);
        // The last place too, because the array need not begin with a page.
        for index in (0..self.len).step_by(a_page).chain(self.len.checked_sub(1)) {
            // SAFETY: a place of this array, which holds zeros, as the caller says. Volatile, so
            // that the compiler does not leave out a write that changes nothing.
            unsafe { self.get(index).cast::<u8>().write_volatile(0) };
        }
    }

    /// Maps memory directly from the system. An allocator may keep freed memory, together with the
    /// advice to use large pages. A later owner that writes to a few places of it would then take
    /// far more memory than before.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn in_large_pages(len: usize) -> Option<Self> {
        /// A large page of most processors.
        const PAGE: usize = 2 << 20;
        let bytes = Layout::array::<T>(len).ok()?.size();
        // So it is less than twice as long as was asked for.
        if bytes <= PAGE / 2 {
            return None;
        }
        // Linux puts a mapping of whole large pages where one begins.
        let bytes = NonZeroUsize::new(bytes.checked_next_multiple_of(PAGE)?)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: 1. A new anonymous mapping, at an address that the system chooses, touches no
        // existing memory. 2. The advice is for that mapping, and does not change its contents.
        let first = unsafe {
            let first = mmap_anonymous(None, bytes, access, MapFlags::MAP_PRIVATE).ok()?;
            // If the system refuses, the mapping works as before.
            let _ = madvise(first, bytes.get(), MmapAdvise::MADV_HUGEPAGE);
            first
        };
        Some(Self { first: first.cast(), len: bytes.get() / size_of::<T>(), memory: Memory::Mapped(bytes.get()) })
    }

    /// Gives the memory of `len` places from `from` on back to the system. Both ends must lie on
    /// the border of a [page](page_size). The places can be read and written as before. Their
    /// contents are lost, and they take no memory until they are written to again. Returns `false`
    /// if the system keeps the memory where it is.
    ///
    /// # Safety
    /// The places belong to this array, and no other thread uses them during the call.
    pub(crate) unsafe fn discard(&self, from: usize, len: usize) -> bool {
        #[cfg(all(target_os = "linux", not(miri), not(loom)))]
        {
            let (first, bytes) = (self.get(from), len * size_of::<T>());
            debug_assert!(first.addr().get().is_multiple_of(page_size()) && bytes.is_multiple_of(page_size()));
            // SAFETY: the caller guarantees that the places belong to this array, so these are
            // whole pages of its memory, and that nobody else uses them.
            unsafe { madvise(first.cast(), bytes, MmapAdvise::MADV_DONTNEED) }.is_ok()
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

    /// Returns the address of a place. Panics if the array ends before it.
    pub(crate) fn get(&self, index: usize) -> NonNull<T> {
        assert!(index < self.len, "place {index} of {}", self.len);
        NonNull::new(self.first.as_ptr().wrapping_add(index)).expect("it is inside of the array")
    }
}

impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the memory with this layout, or `in_large_pages` mapped this many
        // bytes. It is returned only here, once.
        unsafe {
            match self.memory {
                Memory::Allocated(allocated, layout) => std::alloc::dealloc(allocated.as_ptr(), layout),
                #[cfg(all(target_os = "linux", not(miri)))]
                Memory::Mapped(bytes) => {
                    let unmapped = munmap(self.first.cast(), bytes);
                    debug_assert_eq!(unmapped, Ok(()));
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn arrays_begin_at_a_cache_line_and_are_all_zero() {
        const LARGE: usize = if cfg!(miri) { 5_000 } else { (4 << 20) / 8 };
        let new = [0, 1, 7, 64, 5_000].map(Zeroed::<u64>::new);
        for array in new.into_iter().chain([1, LARGE - 1, LARGE, LARGE + 1].map(Zeroed::to_be_filled)) {
            let array = array.expect("memory");
            assert!(array.first.addr().get().is_multiple_of(LINE));
            for index in 0..array.len() {
                // SAFETY: the place is in the array, which no other thread knows, and zero is a
                // valid number.
                assert_eq!(unsafe { array.get(index).replace(u64::MAX) }, 0);
            }
        }
    }

    #[test]
    fn an_array_larger_than_memory_is_refused() {
        assert!(Zeroed::<u64>::new(usize::MAX / 8).is_none());
        assert!(Zeroed::<u64>::new(usize::MAX).is_none());
        assert!(Zeroed::<u64>::to_be_filled(usize::MAX / 16).is_none());
    }
}
