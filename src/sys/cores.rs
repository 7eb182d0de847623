//! The cores that this process may use, and the cores that its workers are pinned to.

use std::io;

use core_affinity::CoreId;

use super::threads::{self, without_signals};
use crate::sync::thread;

/// The cores that this process may use, by the operating system's numbers. Empty if the system
/// can't say.
pub(crate) fn allowed_cores() -> Vec<usize> {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    if let Some(set) = linux::process_set() {
        return linux::cores_in(&set);
    }
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

/// Starts a thread without the scheduling hints of a worker, which may run on all cores of the
/// process, and takes no signal that is sent to it.
///
/// A new thread inherits its maker's set of cores, and starts there. So its first step is to ask
/// for all cores of the process. The maker may be a user's thread that is pinned anywhere, and
/// stays as it is. If the maker is a thread of the engine, such as a pinned worker, it is unpinned
/// until the thread has been started; otherwise the thread would have to wait for the worker to
/// sleep before it could ask.
pub(crate) fn spawn_ordinary<T: Send + 'static>(
    builder: thread::Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<thread::JoinHandle<T>> {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    let set = linux::set_for_new_threads();
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    let _back_again = set.as_ref().and_then(linux::MovedForNow::to);
    let without_hints = threads::without_hints();
    let run = move || {
        without_hints();
        #[cfg(all(target_os = "linux", not(miri), not(loom)))]
        set.as_ref().into_iter().for_each(linux::move_current_thread);
        work()
    };
    without_signals(|| builder.spawn(run))
}

/// Pins the calling thread, which is a worker. Returns `false` if the system refused; the thread
/// then runs where it may.
pub(crate) fn pin_current_thread(core: usize) -> bool {
    let pinned = core_affinity::set_for_current(CoreId { id: core });
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    if pinned {
        linux::remember_own();
    }
    pinned
}

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod linux {
    use std::cell::Cell;
    use std::sync::OnceLock;

    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;

    const THIS_THREAD: Pid = Pid::from_raw(0);

    /// The set of cores that the process had when it was loaded.
    static GIVEN: OnceLock<CpuSet> = OnceLock::new();

    /// The loader calls this before `main`. If the engine is in a library that is opened later, the
    /// loader calls it at that time.
    extern "C" fn look_at_load() {
        if let Some(set) = main_thread_set() {
            // Never set before: the loader calls this function once.
            let _ = GIVEN.set(set);
        }
    }

    // SAFETY: the section is an array of functions of this type, which the loader calls one after
    // the other. The loader initializes the C library before every object that uses it, so the
    // function may call it. The function needs nothing else, and does not unwind.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static AT_LOAD: extern "C" fn() = look_at_load;

    /// The cores that the process was given, by its cpuset or by `taskset`, whatever its threads
    /// have pinned themselves to since. These are the main thread's cores at load and its cores
    /// today, because a cpuset may grow. A cpuset may also shrink: then a thread asks for all of
    /// them, and the kernel removes the cores that are not in the cpuset.
    pub(super) fn process_set() -> Option<CpuSet> {
        // A linker takes only referenced items out of a library. So this function, which needs the
        // entry, references it.
        std::hint::black_box(&raw const AT_LOAD);
        let mut set = main_thread_set()?;
        // There is none if the loader has not called.
        if let Some(at_load) = GIVEN.get() {
            cores_in(at_load).into_iter().for_each(|core| set.set(core).expect("a core of a set"));
        }
        Some(set)
    }

    /// The set for a thread that the calling thread starts. As a rule that is the process's set.
    /// There is one exception. If the calling thread belongs to the engine, no longer has the set
    /// that it gave itself, and has the same set as the main thread, then the whole process has
    /// been moved (`taskset --all-tasks`). The new thread then gets the main thread's set.
    pub(super) fn set_for_new_threads() -> Option<CpuSet> {
        let was_moved = |main: &CpuSet| {
            let (Some(own), Ok(here)) = (OWN.get(), sched_getaffinity(THIS_THREAD)) else { return false };
            here != own && here == *main
        };
        main_thread_set().filter(was_moved).or_else(process_set)
    }

    /// The main thread's set. Its number is the process's.
    fn main_thread_set() -> Option<CpuSet> {
        sched_getaffinity(Pid::this()).ok()
    }

    pub(super) fn cores_in(set: &CpuSet) -> Vec<usize> {
        (0..CpuSet::count()).filter(|core| set.is_set(*core) == Ok(true)).collect()
    }

    thread_local! {
        /// The set that this thread, one of the engine's, gave itself.
        static OWN: Cell<Option<CpuSet>> = const { Cell::new(None) };
    }

    /// The calling thread, one of the engine's, has set where it may run. The set is not simply
    /// what it asked for: the kernel removes the cores that are not in the cpuset.
    pub(super) fn remember_own() {
        OWN.set(sched_getaffinity(THIS_THREAD).ok());
    }

    /// Moves the calling thread to `set`. Each of the engine's threads calls this as its first
    /// step.
    pub(super) fn move_current_thread(set: &CpuSet) {
        move_to(set);
        remember_own();
    }

    /// While this value lives, the calling thread, one of the engine's, may run on other cores. The
    /// value is the set from before.
    pub(super) struct MovedForNow(CpuSet);

    impl MovedForNow {
        /// Returns `None` if the calling thread is not the engine's, or if the system can't say.
        pub(super) fn to(set: &CpuSet) -> Option<Self> {
            OWN.get()?;
            let before = sched_getaffinity(THIS_THREAD).ok()?;
            move_to(set);
            Some(Self(before))
        }
    }

    impl Drop for MovedForNow {
        fn drop(&mut self) {
            move_to(&self.0);
        }
    }

    /// Sets where the calling thread may run. If the system refuses, its set does not change.
    fn move_to(set: &CpuSet) {
        let _ = sched_setaffinity(THIS_THREAD, set);
    }
}
