//! The costs of this process: CPU time, which of its threads used it, and memory; and the machine
//! that it is on.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

pub(crate) use proc::{memory_kib, processor, resident_bytes, sleeps_of_others};

/// CPU time of the whole process since it started.
#[derive(Debug, Clone, Copy, Default)]
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

/// CPU seconds of the threads that live now, by the scheduler's account: of the engine (workers and
/// pool), of the TCP server, of the clients, and of the producers. The main thread, which only
/// draws the progress, is left out. `None` where there is no such account.
pub(crate) fn cpu_by_thread() -> Option<[f64; 4]> {
    let mut sums = [0.0; 4];
    for (name, seconds) in proc::cpu_of_others()? {
        let of = match name.strip_prefix(OWN_THREADS) {
            None => 0,
            Some(own) if own.starts_with("server") => 1,
            Some(own) if own.starts_with("clients") => 2,
            Some(_) => 3,
        };
        sums[of] += seconds;
    }
    Some(sums)
}

/// This process and the machine, as Linux shows them in `/proc`, by the crate `procfs`.
#[cfg(target_os = "linux")]
mod proc {
    use std::time::Duration;

    use nix::unistd::gettid;
    use procfs::process::{Process, Task};
    use procfs::{CpuInfo, Current, Meminfo};

    /// Resident set size in bytes.
    pub(crate) fn resident_bytes() -> Option<u64> {
        Some(Process::myself().ok()?.status().ok()?.vmrss? * 1024)
    }

    /// Names, of which 15 bytes are kept, and CPU seconds of all threads but the main one.
    pub(super) fn cpu_of_others() -> Option<impl Iterator<Item = (String, f64)>> {
        let read = |task: Task| {
            let (name, account) = (task.stat().ok()?.comm, task.schedstat().ok()?);
            Some((name, Duration::from_nanos(account.sum_exec_runtime).as_secs_f64()))
        };
        Some(tasks()?.filter(|task| task.tid != task.pid).filter_map(read))
    }

    /// How often the other threads of this process have gone to sleep.
    pub(crate) fn sleeps_of_others() -> Option<u64> {
        let own = gettid().as_raw();
        let sleeps = |task: Task| task.status().ok()?.voluntary_ctxt_switches;
        Some(tasks()?.filter(|task| task.tid != own).filter_map(sleeps).sum())
    }

    /// The threads that live now. A thread may end before it is read: then it is left out.
    fn tasks() -> Option<impl Iterator<Item = Task>> {
        Some(Process::myself().ok()?.tasks().ok()?.flatten())
    }

    /// The processor's name.
    pub(crate) fn processor() -> Option<String> {
        CpuInfo::current().ok()?.model_name(0).map(str::to_owned)
    }

    /// The machine's memory.
    pub(crate) fn memory_kib() -> Option<u64> {
        Some(Meminfo::current().ok()?.mem_total / 1024)
    }
}

/// Other systems show nothing.
#[cfg(not(target_os = "linux"))]
mod proc {
    pub(crate) fn resident_bytes() -> Option<u64> {
        None
    }

    pub(super) fn cpu_of_others() -> Option<Vec<(String, f64)>> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_process_has_memory_and_has_used_the_cpu() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
        assert!(CpuTime::now().total_s() >= 0.0);
    }
}
