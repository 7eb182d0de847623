//! No readings.

use std::time::Duration;

/// CPU time of a thread.
#[derive(Debug, Clone)]
pub(crate) struct ThreadCpu {
    pub(crate) name: String,
    pub(crate) is_main: bool,
    pub(crate) on_cpu: Duration,
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

pub(crate) fn processor() -> Option<String> {
    None
}

pub(crate) fn memory_kib() -> Option<u64> {
    None
}
