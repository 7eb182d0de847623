//! The allocator of this program: the system's, which counts how often it is called.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Counting;

/// On a line of its own: what is measured must not share it.
#[repr(align(64))]
struct Alone(AtomicU64);

static ALLOCATIONS: Alone = Alone(AtomicU64::new(0));

/// Allocations of all threads so far.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.0.load(Ordering::Relaxed)
}

fn count() {
    ALLOCATIONS.0.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: all is handed on to the system's allocator; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to what the system's allocator asks for, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to what the system's allocator asks for, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to what the system's allocator asks for, which is the same.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to what the system's allocator asks for, which is the same.
        unsafe { System.dealloc(memory, layout) }
    }
}
