//! The operating system: cores, forks, memory, scheduling, signals. Nothing else in the crate
//! calls libc.
//!
//! Each file hides one part of it behind functions that exist on every system. On a system that
//! lacks what a function asks for, the function does nothing, or returns `None` or an error. The
//! time stamp counter is an exception: reading it is an instruction and not a call, so it is in
//! `time/counter.rs`, with the clock that uses it.

pub(crate) mod cores;
pub(crate) mod fork;
pub(crate) mod memory;
pub(crate) mod threads;
