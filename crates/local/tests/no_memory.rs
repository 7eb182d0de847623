//! The system refuses memory: an engine goes on with what it has.
//!
//! The binary holds only this, as it has an allocator of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use tourbillon_local::{LocalTimeout, LocalTimer};

struct Miser;

thread_local! {
    static REFUSES: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every call goes to the system's allocator, or is refused, which is allowed at any time.
unsafe impl GlobalAlloc for Miser {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if REFUSES.get() {
            return ptr::null_mut();
        }
        // SAFETY: the caller upholds `alloc`'s contract for this layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller gives up this block, which is the system allocator's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Miser = Miser;

#[test]
fn the_end_of_a_driver_needs_no_memory() {
    let (timer, driver) = LocalTimer::builder().build().expect("an engine");
    let witness = Rc::new(());
    let schedule = |second| {
        let captured = Rc::clone(&witness);
        timer.schedule(Duration::from_secs(second), move || drop(captured)).expect("room")
    };
    let timeouts: Vec<_> = (1..10).map(schedule).collect();
    REFUSES.set(true);
    drop(driver);
    REFUSES.set(false);
    assert_eq!((timer.pending(), Rc::strong_count(&witness)), (0, 1));
    assert!(timeouts.iter().all(LocalTimeout::is_cancelled));
}
