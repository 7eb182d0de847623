//! The operating system: cores, forks, memory, scheduling. Nothing else in the crate calls libc.
//!
//! Each file hides one facility behind functions that exist on every system. Where a system lacks the
//! facility, the function does nothing or answers `None`. The time stamp counter is the exception: it is an
//! instruction and no call, and stands with the clock that is built on it (`time/counter.rs`).

pub(crate) mod cores;
pub(crate) mod fork;
pub(crate) mod memory;
pub(crate) mod sched_hints;
pub(crate) mod schedstat;
