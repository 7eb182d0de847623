//! Which core a worker runs on: only ever one out of the process's own cpuset.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use core_affinity::CoreId;

use super::prompt;
use crate::sync::thread;

/// Which cores the workers are pinned to. What came of it is in [`Stats`](crate::Stats): `ShardStats::pinned_to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pinning {
    /// Each worker gets a core of its own out of the process's cpuset if there are more cores than workers, so that at
    /// least one is left without; otherwise none is pinned. Engines of one process start at different cores.
    #[default]
    Auto,
    /// The operating system decides, and may move workers about.
    None,
    /// Worker i is pinned to core `cores[i % cores.len()]`. Each must be in the process's cpuset.
    Cores(Vec<usize>),
}

/// The cores that this process may use, by the operating system's numbers; none where it can't be asked.
pub(crate) fn allowed_cores() -> Vec<usize> {
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Some(set) = linux::process_set() {
        return linux::cores_in(&set);
    }
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

/// Starts a thread that has nothing of what a worker has asked for, and may run on all cores that the process may use. A new thread
/// inherits where its maker may run, and begins there. So it asks for all cores first of all: its maker may be a thread of the user's,
/// pinned anywhere, and is left as it is. And a worker is unpinned until the thread has been started, which would otherwise wait for the
/// worker to sleep before it could ask.
pub(crate) fn spawn_ordinary<T: Send + 'static>(
    builder: thread::Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<thread::JoinHandle<T>> {
    #[cfg(all(target_os = "linux", not(miri)))]
    let _pinned_again = linux::UnpinnedWorker::for_now();
    let no_more_prompt_than_before = prompt::no_more_prompt_than_before();
    builder.spawn(|| {
        no_more_prompt_than_before();
        unpin_current_thread();
        work()
    })
}

fn unpin_current_thread() {
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Some(set) = linux::process_set() {
        linux::set_for_current(&set);
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use std::cell::Cell;

    use libc::{CPU_ISSET, CPU_SETSIZE, cpu_set_t};

    /// The set of the process's first thread, which is what the process was given (by its cpuset, by taskset), whatever the
    /// calling thread is pinned to.
    pub(super) fn process_set() -> Option<cpu_set_t> {
        // SAFETY: no preconditions.
        set_of(unsafe { libc::getpid() })
    }

    /// The set of a thread, 0 being the calling one.
    fn set_of(thread: libc::pid_t) -> Option<cpu_set_t> {
        // SAFETY: a set of cores is an array of bits, for which zero is a value.
        let mut set: cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the size is the set's own.
        let failed = unsafe { libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), &raw mut set) };
        (failed == 0).then_some(set)
    }

    pub(super) fn cores_in(set: &cpu_set_t) -> Vec<usize> {
        let len = usize::try_from(CPU_SETSIZE).unwrap_or(0);
        // SAFETY: below the set's length.
        (0..len).filter(|&core| unsafe { CPU_ISSET(core, set) }).collect()
    }

    thread_local! {
        /// Whether this thread is a worker that was pinned.
        static PINNED: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn remember_pinned() {
        PINNED.set(true);
    }

    /// The calling thread, a pinned worker, may run wherever the process may, until this goes.
    pub(super) struct UnpinnedWorker {
        pinned: cpu_set_t,
    }

    impl UnpinnedWorker {
        /// None if it is no pinned worker, or nobody can tell.
        pub(super) fn for_now() -> Option<Self> {
            if !PINNED.get() {
                return None;
            }
            let (all, pinned) = (process_set()?, set_of(0)?);
            set_for_current(&all);
            Some(Self { pinned })
        }
    }

    impl Drop for UnpinnedWorker {
        fn drop(&mut self) {
            set_for_current(&self.pinned);
        }
    }

    pub(super) fn set_for_current(set: &cpu_set_t) {
        // A refusal leaves the thread where it may run.
        // SAFETY: 0 is the calling thread; the size is the set's own.
        unsafe { libc::sched_setaffinity(0, size_of::<cpu_set_t>(), set) };
    }
}

/// Where the next engine with automatic pinning starts to count, so that engines don't all sit on one core.
static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Pinning {
    /// A core for each of `shards` workers, as far as there is one. `allowed` is what [`allowed_cores`] said.
    pub(crate) fn plan(&self, shards: usize, allowed: &[usize]) -> Vec<Option<usize>> {
        match self {
            Pinning::None => vec![None; shards],
            Pinning::Cores(cores) => (0..shards).map(|shard| cores.get(shard % cores.len().max(1)).copied()).collect(),
            Pinning::Auto if shards < allowed.len() => {
                // From the last core down: interrupts tend to be served by the first.
                let first = NEXT.fetch_add(shards, Ordering::Relaxed);
                let core = |shard| allowed[allowed.len() - 1 - (first + shard) % allowed.len()];
                (0..shards).map(|shard| Some(core(shard))).collect()
            }
            Pinning::Auto => vec![None; shards],
        }
    }
}

/// Pins the calling thread. False if the system refused; the thread then runs where it may.
pub(super) fn pin_current_thread(core: usize) -> bool {
    let pinned = core_affinity::set_for_current(CoreId { id: core });
    #[cfg(all(target_os = "linux", not(miri)))]
    if pinned {
        linux::remember_pinned();
    }
    pinned
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn automatic_pinning_gives_each_worker_a_core_of_its_own_or_none() {
        let allowed = [1, 3, 5, 7];
        for shards in 1..4 {
            let plan: std::collections::BTreeSet<_> = Pinning::Auto.plan(shards, &allowed).into_iter().collect();
            assert_eq!(plan.len(), shards);
            assert!(plan.iter().all(|core| core.is_some_and(|core| allowed.contains(&core))));
        }
        for shards in 4..9 {
            assert_eq!(Pinning::Auto.plan(shards, &allowed), vec![None; shards]);
        }
    }

    #[test]
    fn given_cores_are_used_in_turn() {
        let pinning = Pinning::Cores(vec![2, 4]);
        assert_eq!(pinning.plan(3, &[]), [Some(2), Some(4), Some(2)]);
    }
}
