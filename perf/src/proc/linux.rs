//! The readings, by the crate `procfs`.

use std::time::Duration;

use nix::unistd::gettid;
use procfs::process::{Process, Task};
use procfs::{CpuInfo, Current, Meminfo};

/// CPU time of a thread.
#[derive(Debug, Clone)]
pub(crate) struct ThreadCpu {
    /// At most 15 bytes of it.
    pub(crate) name: String,
    pub(crate) is_main: bool,
    pub(crate) on_cpu: Duration,
}

/// Resident set size in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    Some(Process::myself().ok()?.status().ok()?.vmrss? * 1024)
}

/// The scheduler's account of each thread that lives now.
pub(crate) fn cpu_of_threads() -> Option<Vec<ThreadCpu>> {
    let read = |task: Task| {
        let (name, account) = (task.stat().ok()?.comm, task.schedstat().ok()?);
        let on_cpu = Duration::from_nanos(account.sum_exec_runtime);
        Some(ThreadCpu { name, is_main: task.tid == task.pid, on_cpu })
    };
    Some(tasks()?.filter_map(read).collect())
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
