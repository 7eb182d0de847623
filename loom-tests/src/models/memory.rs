//! Watches the memory of entries, engines and producers: all that is aligned to a cache line, and nothing else is.
//!
//! Freed memory is overwritten and kept until the schedule is over, so that a use after the free meets values that no
//! atomic of loom's can have, and a second free is noticed. What is still there when all threads have ended is a leak.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

const CACHE_LINE: usize = 64;
/// Neither an index of loom's nor an address.
const FREED: usize = 0xDEAD_DEAD_DEAD_DEAD;

// All threads of a model are coroutines of one thread of the system.
thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static KEPT: Cell<*mut usize> = const { Cell::new(ptr::null_mut()) };
    static FREED_TWICE: Cell<bool> = const { Cell::new(false) };
}

struct WeakTimer;

#[global_allocator]
static WATCH: WeakTimer = WeakTimer;

// SAFETY: hands on to the system's allocator, only later.
unsafe impl GlobalAlloc for WeakTimer {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() >= CACHE_LINE {
            LIVE.set(LIVE.get() + 1);
        }
        // SAFETY: handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.align() < CACHE_LINE {
            // SAFETY: handed on.
            return unsafe { System.dealloc(memory, layout) };
        }
        #[expect(clippy::cast_ptr_alignment, reason = "aligned to a cache line")]
        let words = ptr::slice_from_raw_parts_mut(memory.cast::<usize>(), layout.size() / size_of::<usize>());
        // SAFETY: the caller gives the memory up, or has done so before, and then it is kept.
        let words = unsafe { &mut *words };
        if words[1] == FREED {
            FREED_TWICE.set(true);
            return;
        }
        words.fill(FREED);
        // What is needed to let go of it later, disguised, so that it is no good to anybody else.
        words[0] = KEPT.get().expose_provenance() ^ FREED;
        words[2] = layout.size() ^ FREED;
        words[3] = layout.align() ^ FREED;
        KEPT.set(words.as_mut_ptr());
        // A model that failed may leave some for later.
        LIVE.set(LIVE.get().saturating_sub(1));
    }
}

/// Fails unless all that was allocated has been freed, once.
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
        // SAFETY: kept, with these words as `dealloc` wrote them.
        let [after, _, size, align] = unsafe { *next.cast::<[usize; 4]>() }.map(|word| word ^ FREED);
        let layout = Layout::from_size_align(size, align).expect("it was one before");
        // SAFETY: allocated with this layout, given up by its owner, and let go of once.
        unsafe { System.dealloc(next.cast(), layout) };
        next = ptr::with_exposed_provenance_mut(after);
    }
}
