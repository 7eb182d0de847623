//! How an operation is marked for whoever measures it from outside.

use std::arch::asm;
use std::hint::black_box;

/// Stands around each operation.
pub(crate) trait Meter {
    /// Does `work`, which is so many operations.
    fn measure<R>(&mut self, operations: usize, work: impl FnOnce() -> R) -> R;
}

/// Measures nothing: to get going, and where it is the whole process that is measured.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Meter for Nothing {
    #[inline(always)]
    fn measure<R>(&mut self, _operations: usize, work: impl FnOnce() -> R) -> R {
        black_box(work())
    }
}

/// What a tracer is asked to do from here to the end mark. In RDI at the breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Mark {
    End = 0,
    /// Go step by step.
    Step = 1,
    /// Count system calls.
    Calls = 2,
}

/// A breakpoint before and after each operation, for a tracer.
#[derive(Debug)]
pub(crate) struct Breakpoints {
    pub(crate) mark: Mark,
    /// The number of the thread.
    pub(crate) lane: usize,
    /// What is measured, where that is not the same all the time.
    pub(crate) label: usize,
}

impl Meter for Breakpoints {
    #[inline(always)]
    fn measure<R>(&mut self, operations: usize, work: impl FnOnce() -> R) -> R {
        // SAFETY: the tracer, whose child this is, goes on behind the breakpoint with all registers
        // as they were.
        unsafe {
            asm!("int3", in("rdi") self.mark as u64, in("rsi") self.lane, in("rdx") operations, in("r8") self.label)
        };
        let result = black_box(work());
        // SAFETY: the tracer goes on behind this breakpoint too with all registers as they were.
        unsafe { asm!("int3", in("rdi") Mark::End as u64) };
        result
    }
}

/// For callgrind, which is told to collect in this function.
#[derive(Debug)]
pub(crate) struct Collected;

/// The function's name, as callgrind is given it.
pub(crate) const COLLECTED: &str = "*collected_by_callgrind*";

impl Meter for Collected {
    #[inline(always)]
    fn measure<R>(&mut self, _operations: usize, work: impl FnOnce() -> R) -> R {
        collected_by_callgrind(work)
    }
}

#[inline(never)]
fn collected_by_callgrind<R>(work: impl FnOnce() -> R) -> R {
    black_box(work())
}
