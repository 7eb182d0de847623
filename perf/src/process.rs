//! What this process costs: CPU time, and which of its threads used it.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

use crate::proc::cpu_of_threads;

/// CPU time of the whole process since it started.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct CpuTime {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
}

impl CpuTime {
    pub(crate) fn now() -> Self {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
            return Self::default();
        };
        Self {
            user_s: usage.user_time().num_microseconds() as f64 / 1e6,
            system_s: usage.system_time().num_microseconds() as f64 / 1e6,
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { user_s: self.user_s - earlier.user_s, system_s: self.system_s - earlier.system_s }
    }

    pub(crate) fn total_s(self) -> f64 {
        self.user_s + self.system_s
    }
}

/// Cores the process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The start of the names of this program's own threads; all others but the main thread are the
/// engine's.
pub(crate) const OWN_THREADS: &str = "perf-";

/// CPU time by the threads that used it, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct CpuByThread {
    /// Workers and pool: every thread that is not this program's own.
    pub(crate) engine_s: f64,
    /// The TCP server's threads.
    pub(crate) server_s: f64,
    /// The clients' threads.
    pub(crate) clients_s: f64,
    /// The producers that schedule, reset and cancel.
    pub(crate) producers_s: f64,
    /// The main thread, which only draws the progress.
    pub(crate) main_s: f64,
}

impl CpuByThread {
    /// Reads the scheduler's account of each thread that lives now; `None` where there is none.
    pub(crate) fn now() -> Option<Self> {
        let mut sum = Self::default();
        for thread in cpu_of_threads()? {
            *match thread.name.strip_prefix(OWN_THREADS) {
                _ if thread.is_main => &mut sum.main_s,
                Some(own) if own.starts_with("server") => &mut sum.server_s,
                Some(own) if own.starts_with("clients") => &mut sum.clients_s,
                Some(_) => &mut sum.producers_s,
                None => &mut sum.engine_s,
            } += thread.on_cpu.as_secs_f64();
        }
        Some(sum)
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            engine_s: self.engine_s - earlier.engine_s,
            server_s: self.server_s - earlier.server_s,
            clients_s: self.clients_s - earlier.clients_s,
            producers_s: self.producers_s - earlier.producers_s,
            main_s: self.main_s - earlier.main_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_process_has_memory_and_has_used_the_cpu() {
        assert!(crate::proc::resident_bytes().is_some_and(|bytes| bytes > 100_000));
        assert!(CpuTime::now().total_s() >= 0.0);
    }
}
