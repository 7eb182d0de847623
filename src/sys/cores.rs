//! The cores that this process may use, and the cores that its workers are pinned to.

use std::io;
// Not through `sync`: the pinned core goes to statistics and to system calls, which models can't
// express.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use core_affinity::CoreId;

use super::sched_hints;
use crate::sync::thread;

/// The cores that this process may use, by the operating system's numbers. Empty if the system
/// can't say.
pub(crate) fn allowed_cores() -> Vec<usize> {
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Some(set) = linux::process_set() {
        return linux::cores_in(&set);
    }
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

/// Starts a thread without the scheduling hints of a worker, which may run on all cores of the
/// process.
///
/// A new thread inherits its maker's set of cores, and starts there. So its first step is to ask
/// for all cores of the process. The maker may be a user's thread that is pinned anywhere, and
/// stays as it is. If the maker is a pinned worker, it is unpinned until the thread has been
/// started; otherwise the thread would have to wait for the worker to sleep before it could ask.
pub(crate) fn spawn_ordinary<T: Send + 'static>(
    builder: thread::Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<thread::JoinHandle<T>> {
    #[cfg(all(target_os = "linux", not(miri)))]
    let set = linux::set_for_new_threads();
    #[cfg(all(target_os = "linux", not(miri)))]
    let _pinned_again = set.as_ref().and_then(linux::UnpinnedWorker::for_now);
    let without_hints = sched_hints::without_hints();
    builder.spawn(move || {
        without_hints();
        #[cfg(all(target_os = "linux", not(miri)))]
        set.as_ref().into_iter().for_each(linux::move_current_thread);
        work()
    })
}

/// The core that a worker is pinned to, plus one, or 0 if it is not pinned. Any thread may read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PinnedTo(Arc<AtomicUsize>);

impl PinnedTo {
    pub(crate) fn get(&self) -> Option<usize> {
        // SeqCst: pairs with the swap in `take`. `UnpinnedWorker::drop` says why.
        self.0.load(Ordering::SeqCst).checked_sub(1)
    }

    fn set(&self, core: usize) {
        self.0.store(core + 1, Ordering::SeqCst);
    }

    /// Marks the worker as no longer pinned. Returns the core that it was pinned to.
    pub(crate) fn take(&self) -> Option<usize> {
        self.0.swap(0, Ordering::SeqCst).checked_sub(1)
    }
}

/// Pins the calling thread, which is a worker. Returns `false` if the system refused; the thread
/// then runs where it may.
pub(crate) fn pin_current_thread(core: usize, pinned_to: &PinnedTo) -> bool {
    let pinned = core_affinity::set_for_current(CoreId { id: core });
    if pinned {
        pinned_to.set(core);
        #[cfg(all(target_os = "linux", not(miri)))]
        linux::remember_pinned(pinned_to);
    }
    pinned
}

/// Returns whether the calling thread is still pinned to this core. Returns `true` on systems that
/// can't say.
pub(crate) fn is_pinned_here(core: usize) -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    return linux::is_pinned(0, core);
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        let _ = core;
        true
    }
}

/// Lets a worker of this process run on all cores of the process. `worker` is the thread's number
/// in the system. Returns `false` if the worker is not pinned to this core.
pub(crate) fn unpin(worker: i32, core: usize) -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    return linux::unpin(worker, core);
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        let _ = (worker, core);
        false
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use std::cell::{Cell, OnceCell};
    #[cfg(not(loom))]
    use std::sync::OnceLock;

    use libc::{CPU_CLR, CPU_ISSET, CPU_SET, CPU_SETSIZE, cpu_set_t};

    use super::PinnedTo;

    /// The set of cores that the process had when it was loaded.
    #[cfg(not(loom))]
    static GIVEN: OnceLock<cpu_set_t> = OnceLock::new();

    /// The loader calls this before `main`. If the engine is in a library that is opened later, the
    /// loader calls it at that time.
    #[cfg(not(loom))]
    extern "C" fn look_at_load() {
        if let Some(set) = main_thread_set() {
            // Never set before: the loader calls this function once.
            let _ = GIVEN.set(set);
        }
    }

    // SAFETY: the section is an array of functions of this type, which the loader calls one after
    // the other. The loader initializes the C library before every object that uses it, so the
    // function may call it. The function needs nothing else, and does not unwind.
    #[cfg(not(loom))]
    #[used]
    #[unsafe(link_section = ".init_array")]
    static AT_LOAD: extern "C" fn() = look_at_load;

    /// Returns `None` if the loader has not called.
    #[cfg(not(loom))]
    fn set_at_load() -> Option<&'static cpu_set_t> {
        // A linker takes only referenced items out of a library. So this function, which needs the
        // entry, references it.
        std::hint::black_box(&raw const AT_LOAD);
        GIVEN.get()
    }

    #[cfg(loom)]
    fn set_at_load() -> Option<&'static cpu_set_t> {
        None
    }

    /// The cores that the process was given, by its cpuset or by `taskset`, whatever its threads
    /// have pinned themselves to since. These are the main thread's cores at load and its cores
    /// today, because a cpuset may grow. A cpuset may also shrink: then a thread asks for all of
    /// them, and the kernel removes the cores that are not in the cpuset.
    pub(super) fn process_set() -> Option<cpu_set_t> {
        let mut set = main_thread_set()?;
        if let Some(at_load) = set_at_load() {
            cores_in(at_load).into_iter().for_each(|core| change(&mut set, core, true));
        }
        Some(set)
    }

    /// The set for a thread that the calling thread starts. As a rule that is the process's set.
    /// There is one exception. If the calling thread belongs to the engine, no longer has the set
    /// that it gave itself, and has the same set as the main thread, then the whole process has
    /// been moved (`taskset --all-tasks`). The new thread then gets the main thread's set.
    pub(super) fn set_for_new_threads() -> Option<cpu_set_t> {
        let was_moved = |main: &cpu_set_t| {
            let (Some(own), Some(here)) = (OWN.get(), set_of(0)) else { return false };
            cores_in(&here) != cores_in(&own) && cores_in(&here) == cores_in(main)
        };
        main_thread_set().filter(was_moved).or_else(process_set)
    }

    /// The main thread's set. Its number is the process's.
    fn main_thread_set() -> Option<cpu_set_t> {
        set_of(std::process::id().cast_signed())
    }

    /// The set of a thread; 0 is the calling thread.
    fn set_of(thread: libc::pid_t) -> Option<cpu_set_t> {
        // SAFETY: 1. A set of cores is an array of bits, for which zero is a valid value. 2. The
        // call writes to no more than the set, whose size it is given.
        unsafe {
            let mut set: cpu_set_t = std::mem::zeroed();
            let failed = libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), &raw mut set);
            (failed == 0).then_some(set)
        }
    }

    /// Puts a core into a set, or takes it out.
    fn change(set: &mut cpu_set_t, core: usize, is_in: bool) {
        assert!(core < 8 * size_of::<cpu_set_t>(), "core {core} is beyond a set");
        // SAFETY: the core is below the length of a set.
        unsafe { if is_in { CPU_SET(core, set) } else { CPU_CLR(core, set) } }
    }

    pub(super) fn cores_in(set: &cpu_set_t) -> Vec<usize> {
        let len = usize::try_from(CPU_SETSIZE).unwrap_or(0);
        // SAFETY: `core` is below the length of a set.
        (0..len).filter(|&core| unsafe { CPU_ISSET(core, set) }).collect()
    }

    thread_local! {
        /// Where this thread, a worker, was pinned.
        static PINNED: OnceCell<PinnedTo> = const { OnceCell::new() };
        /// The set that this thread, one of the engine's, gave itself.
        static OWN: Cell<Option<cpu_set_t>> = const { Cell::new(None) };
    }

    pub(super) fn remember_pinned(to: &PinnedTo) {
        PINNED.with(|pinned| _ = pinned.set(to.clone()));
        OWN.set(set_of(0));
    }

    /// Returns whether the calling thread is a worker that is still pinned.
    fn is_pinned_worker() -> bool {
        // A thread in teardown, which has destroyed `PINNED`, no longer turns a shard.
        PINNED.try_with(|pinned| pinned.get().is_some_and(|to| to.get().is_some())).unwrap_or(false)
    }

    /// Moves the calling thread to `set`. Each of the engine's threads calls this as its first
    /// step.
    pub(super) fn move_current_thread(set: &cpu_set_t) {
        set_affinity(0, set);
        // Not simply `set`: the kernel removes the cores that are not in the cpuset.
        OWN.set(set_of(0));
    }

    /// While this value lives, the calling thread, a pinned worker, may also run on other cores.
    pub(super) struct UnpinnedWorker {
        pinned: cpu_set_t,
        unpinned: cpu_set_t,
    }

    impl UnpinnedWorker {
        /// Returns `None` if the calling thread is not a pinned worker, or if the system can't say.
        pub(super) fn for_now(unpinned: &cpu_set_t) -> Option<Self> {
            let pinned = set_of(0).filter(|_| is_pinned_worker())?;
            set_affinity(0, unpinned);
            Some(Self { pinned, unpinned: *unpinned })
        }
    }

    impl Drop for UnpinnedWorker {
        fn drop(&mut self) {
            set_affinity(0, &self.pinned);
            // Another thread may be giving the pin up at the same time. It first clears `PinnedTo`,
            // and then unpins this worker. If its unpin comes after the `set_affinity` above, the
            // worker ends up unpinned. If its unpin came before, then so did the clear, because the
            // kernel changes a thread's set under a lock. The check below sees that.
            if !is_pinned_worker() {
                set_affinity(0, &self.unpinned);
            }
        }
    }

    pub(super) fn is_pinned(thread: libc::pid_t, core: usize) -> bool {
        set_of(thread).is_some_and(|set| cores_in(&set) == [core])
    }

    pub(super) fn unpin(thread: libc::pid_t, core: usize) -> bool {
        let Some(all) = process_set().filter(|_| is_pinned(thread, core)) else { return false };
        let mut others = all;
        change(&mut others, core, false);
        // First move the thread away from this core: a thread that waits for a core keeps waiting
        // for it while its set includes that core.
        set_affinity(thread, &others);
        set_affinity(thread, &all)
    }

    /// Sets where a thread may run; 0 is the calling thread. If the system refuses, the thread's
    /// set does not change.
    fn set_affinity(thread: libc::pid_t, set: &cpu_set_t) -> bool {
        // SAFETY: the call reads the set, and the size is that set's.
        unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), set) == 0 }
    }
}
