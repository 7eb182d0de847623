//! No readings.

use std::time::Duration;

/// CPU time of a thread.
#[derive(Debug, Clone)]
pub(crate) struct ThreadCpu {
    pub(crate) name: String,
    pub(crate) is_main: bool,
    pub(crate) on_cpu: Duration,
}

/// What a thread has used.
#[derive(Debug, Clone)]
pub(crate) struct ThreadUse {
    pub(crate) name: String,
    pub(crate) on_cpu: Duration,
    pub(crate) sleeps: u64,
}

pub(crate) fn resident_bytes() -> Option<u64> {
    None
}

pub(crate) fn cpu_of_threads() -> Option<Vec<ThreadCpu>> {
    None
}

pub(crate) fn sleeps_of_others() -> Option<u64> {
    None
}

pub(crate) fn other_threads() -> Option<Vec<ThreadUse>> {
    None
}

pub(crate) fn processor() -> Option<String> {
    None
}

pub(crate) fn memory_kib() -> Option<u64> {
    None
}
