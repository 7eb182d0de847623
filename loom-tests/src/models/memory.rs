//! Watches the memory of entries, engines and thread states. All of these are aligned to a cache
//! line, and nothing else is.
//!
//! Freed memory is overwritten and kept until the schedule is over. So a use after the free meets
//! values that none of loom's atomics can have, and a second free is noticed. Memory that is left
//! when all threads have ended is a leak.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

const CACHE_LINE: usize = 64;
/// The bytes that a wheel allocates at a time: four blocks of cells, and a line.
const CHUNK_OF_CELLS: usize = 4 * 128 + CACHE_LINE;
/// Neither an index of loom's nor an address.
const FREED: usize = 0xDEAD_DEAD_DEAD_DEAD;

// All threads of a model are coroutines of one OS thread.
thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static KEPT: Cell<*mut usize> = const { Cell::new(ptr::null_mut()) };
    static FREED_TWICE: Cell<bool> = const { Cell::new(false) };
    static NO_CELLS: Cell<bool> = const { Cell::new(false) };
}

/// Does the work without memory for more cells of a wheel.
pub(super) fn without_cells<R>(work: impl FnOnce() -> R) -> R {
    NO_CELLS.set(true);
    let result = work();
    NO_CELLS.set(false);
    result
}

struct MemoryWatch;

#[global_allocator]
static WATCH: MemoryWatch = MemoryWatch;

// SAFETY: every call goes to the system's allocator with the same layout, or is refused, which is
// allowed at any time; a free only goes there later.
unsafe impl GlobalAlloc for MemoryWatch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if NO_CELLS.get() && layout.align() == CACHE_LINE && layout.size() == CHUNK_OF_CELLS {
            return ptr::null_mut();
        }
        if layout.align() >= CACHE_LINE {
            LIVE.set(LIVE.get() + 1);
        }
        // SAFETY: the caller upholds `alloc`'s contract for this layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.align() < CACHE_LINE {
            // SAFETY: the caller gives up memory that `alloc` returned for this layout.
            return unsafe { System.dealloc(memory, layout) };
        }
        #[expect(clippy::cast_ptr_alignment, reason = "aligned to a cache line")]
        let words = ptr::slice_from_raw_parts_mut(memory.cast::<usize>(), layout.size() / size_of::<usize>());
        // SAFETY: the caller gives the memory up, or has done so before, and then it is kept. It is
        // aligned to a cache line, and the slice lies within it.
        let words = unsafe { &mut *words };
        if words[1] == FREED {
            FREED_TWICE.set(true);
            return;
        }
        words.fill(FREED);
        // A later free needs these words. No other code can use them: they are disguised.
        words[0] = KEPT.get().expose_provenance() ^ FREED;
        words[2] = layout.size() ^ FREED;
        words[3] = layout.align() ^ FREED;
        KEPT.set(words.as_mut_ptr());
        // A model that failed may leave some for later.
        LIVE.set(LIVE.get().saturating_sub(1));
    }
}

/// Fails unless all memory that was allocated has been freed, once.
pub(super) fn assert_all_free() {
    assert!(!FREED_TWICE.get(), "memory was freed twice");
    assert_eq!(LIVE.get(), 0, "allocations leaked");
    let_go();
}

/// Forgets a model that has failed on this thread.
pub(super) fn forget_all() {
    FREED_TWICE.set(false);
    LIVE.set(0);
    let_go();
}

fn let_go() {
    let mut next = KEPT.replace(ptr::null_mut());
    while !next.is_null() {
        // SAFETY: the memory is kept, with these words as `dealloc` wrote them.
        let [after, _, size, align] = unsafe { *next.cast::<[usize; 4]>() }.map(|word| word ^ FREED);
        let layout = Layout::from_size_align(size, align).expect("it was one before");
        // SAFETY: the memory was allocated with this layout, given up by its owner, and is freed
        // once.
        unsafe { System.dealloc(next.cast(), layout) };
        next = ptr::with_exposed_provenance_mut(after);
    }
}
