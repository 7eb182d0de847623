//! An allocator that refuses the memory for more timeouts when it is told to. The process has it
//! throughout; nothing but the soak ever tells it to.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, but for threads within [`without_memory_for_timeouts`].
pub(crate) struct Stingy;

thread_local! {
    static REFUSES: Cell<bool> = const { Cell::new(false) };
}

/// Calls `work` with an engine's arena unable to grow on this thread.
pub(crate) fn without_memory_for_timeouts<R>(work: impl FnOnce() -> R) -> R {
    let before = REFUSES.replace(true);
    let result = work();
    REFUSES.set(before);
    result
}

/// Whether it looks like an arena's: 64 timeouts of 64 bytes, or twice, four times, ... as many,
/// and one more line. Of all else that is wanted zeroed only a wheel's cells have such a size, and
/// a producer allocates none of those.
fn is_for_timeouts(layout: Layout) -> bool {
    let lines = layout.size() / 64;
    layout.size().is_multiple_of(64) && lines > 64 && (lines - 1).is_power_of_two()
}

// SAFETY: it is the system's allocator, or a refusal, which is allowed at any time.
unsafe impl GlobalAlloc for Stingy {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to what the system's allocator asks for, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // A thread at its very end is not refused anything.
        if is_for_timeouts(layout) && REFUSES.try_with(Cell::get).unwrap_or(false) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps to what the system's allocator asks for, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to what the system's allocator asks for, which is the same.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps to what the system's allocator asks for, which is the same.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tourbillon::{Refusal, Timer};

    #[test]
    fn an_engine_is_refused_memory_within_and_not_after() {
        let (timer, _driver) = Timer::builder().build_driven().expect("an engine");
        let delay = Duration::from_secs(1);
        let refused = without_memory_for_timeouts(|| timer.schedule_detached(delay, || ()));
        assert!(refused.is_err_and(|error| error.kind() == Refusal::OutOfMemory));
        timer.schedule_detached(delay, || ()).expect("there is memory");
        assert_eq!(timer.pending(), 1);
    }
}
