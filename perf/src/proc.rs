//! What Linux shows of this process and of the machine in `/proc`. Other systems show nothing.

#[cfg_attr(not(target_os = "linux"), path = "proc/elsewhere.rs")]
mod linux;

pub(crate) use linux::{cpu_of_threads, memory_kib, processor, resident_bytes, sleeps_of_others};
