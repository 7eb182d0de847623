//! Meters: each measures an operation, or marks it for a tool that does.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Stands around each operation.
pub(crate) trait Meter {
    /// Does `work`, which is so many operations.
    fn measure<R>(&mut self, operations: usize, work: impl FnOnce() -> R) -> R;
}

/// Measures nothing: to get going, and where the whole process is measured.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Meter for Nothing {
    #[inline(always)]
    fn measure<R>(&mut self, _operations: usize, work: impl FnOnce() -> R) -> R {
        black_box(work())
    }
}

/// For callgrind, which is told to collect in one function.
#[derive(Debug)]
pub(crate) struct Collected {
    /// Whether to wait so long before each operation that it looks at the real clock.
    pub(crate) looks: bool,
}

/// The function's name, as callgrind is given it.
pub(crate) const COLLECTED: &str = "*collected_by_callgrind*";

impl Meter for Collected {
    #[inline(always)]
    fn measure<R>(&mut self, _operations: usize, work: impl FnOnce() -> R) -> R {
        if self.looks {
            thread::sleep(Duration::from_micros(32));
        }
        collected_by_callgrind(work)
    }
}

#[inline(never)]
fn collected_by_callgrind<R>(work: impl FnOnce() -> R) -> R {
    black_box(work())
}

/// Counts how often memory was allocated from the first operation to the last, and how often
/// operations would have woken a worker.
#[derive(Debug, Default)]
pub(crate) struct HeapAndWakeUps {
    allocations_before: Option<u64>,
    pub(crate) allocations: u64,
    pub(crate) wake_ups: u64,
}

impl Meter for HeapAndWakeUps {
    fn measure<R>(&mut self, _operations: usize, work: impl FnOnce() -> R) -> R {
        let allocations_before = *self.allocations_before.get_or_insert_with(allocations);
        let wake_ups_before = wake_ups();
        let result = black_box(work());
        self.wake_ups += wake_ups() - wake_ups_before;
        self.allocations = allocations() - allocations_before;
        result
    }
}

/// Keeps the log of each piece of work, with the number of operations that it was.
#[cfg(count_accesses)]
#[derive(Debug, Default)]
pub(crate) struct Logged(pub(crate) Vec<(usize, Vec<tourbillon::accesses::Access>)>);

#[cfg(count_accesses)]
impl Meter for Logged {
    fn measure<R>(&mut self, operations: usize, work: impl FnOnce() -> R) -> R {
        let (result, log) = tourbillon::accesses::record(work);
        self.0.push((operations, log));
        result
    }
}

/// How often a worker would have been woken.
static WAKE_UPS: AtomicU64 = AtomicU64::new(0);

/// Counts a worker that would have been woken.
pub(crate) fn wake() {
    WAKE_UPS.fetch_add(1, Ordering::Relaxed);
}

fn wake_ups() -> u64 {
    WAKE_UPS.load(Ordering::Relaxed)
}

/// The allocator of this program: the system's, which counts how often it is called.
pub(crate) struct Counting;

/// On a line of its own: what is measured must not share it.
#[repr(align(64))]
struct Alone(AtomicU64);

static ALLOCATIONS: Alone = Alone(AtomicU64::new(0));

/// Allocations of all threads so far.
fn allocations() -> u64 {
    ALLOCATIONS.0.load(Ordering::Relaxed)
}

// SAFETY: all is handed on to the system's allocator; counting neither allocates nor unwinds.
// (`realloc` and `alloc_zeroed` are the defaults, which come here.)
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.0.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps to what the system's allocator asks for, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to what the system's allocator asks for, which is the same.
        unsafe { System.dealloc(memory, layout) }
    }
}
