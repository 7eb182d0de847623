//! Where the threads of this process may run: the cores that it was given, and where its workers are pinned.

use std::io;
// Not through `sync`: where a worker is pinned is for statistics, and decides what is asked of the system, which models have no word for.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use core_affinity::CoreId;

use super::sched_hints;
use crate::sync::thread;

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
    let set = linux::set_for_new_threads();
    #[cfg(all(target_os = "linux", not(miri)))]
    let _pinned_again = set.as_ref().and_then(linux::UnpinnedWorker::for_now);
    let without_hints = sched_hints::without_hints();
    builder.spawn(move || {
        without_hints();
        #[cfg(all(target_os = "linux", not(miri)))]
        set.as_ref().into_iter().for_each(linux::put_current_thread);
        work()
    })
}

/// The core that a worker is pinned to, plus one, for all to see; 0 if none.
#[derive(Clone, Debug, Default)]
pub(crate) struct PinnedTo(Arc<AtomicUsize>);

impl PinnedTo {
    pub(crate) fn get(&self) -> Option<usize> {
        // SeqCst: see `UnpinnedWorker`.
        self.0.load(Ordering::SeqCst).checked_sub(1)
    }

    fn set(&self, core: usize) {
        self.0.store(core + 1, Ordering::SeqCst);
    }

    /// It is pinned no more.
    pub(crate) fn take(&self) -> Option<usize> {
        self.0.swap(0, Ordering::SeqCst).checked_sub(1)
    }
}

/// Pins the calling thread, a worker. False if the system refused; the thread then runs where it may.
pub(crate) fn pin_current_thread(core: usize, pinned_to: &PinnedTo) -> bool {
    let pinned = core_affinity::set_for_current(CoreId { id: core });
    if pinned {
        pinned_to.set(core);
        #[cfg(all(target_os = "linux", not(miri)))]
        linux::remember_pinned(pinned_to);
    }
    pinned
}

/// Whether the calling thread is still pinned to this core. Where that can't be asked it is.
pub(crate) fn is_pinned_here(core: usize) -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    return linux::is_pinned(0, core);
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        let _ = core;
        true
    }
}

/// Lets a worker of this process, by the system's number, run wherever the process may. False if it is not pinned to this core.
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

    /// The set that the process had when it was loaded.
    #[cfg(not(loom))]
    static GIVEN: OnceLock<cpu_set_t> = OnceLock::new();

    /// The loader calls this before `main`, or, if the engine is in a library that is opened later, at that time.
    #[cfg(not(loom))]
    extern "C" fn look_at_load() {
        if let Some(set) = main_thread_set() {
            // It is called once.
            let _ = GIVEN.set(set);
        }
    }

    // SAFETY: the section is an array of functions of this kind, which the loader calls one after the other. By then the C library can be
    // called, which every object that uses it stands behind. The function needs nothing else, and does not unwind.
    #[cfg(not(loom))]
    #[used]
    #[unsafe(link_section = ".init_array")]
    static AT_LOAD: extern "C" fn() = look_at_load;

    /// None if the loader has not called.
    #[cfg(not(loom))]
    fn set_at_load() -> Option<&'static cpu_set_t> {
        // Out of a library a linker takes only what is named. So here the entry is named by what needs it.
        std::hint::black_box(&raw const AT_LOAD);
        GIVEN.get()
    }

    #[cfg(loom)]
    fn set_at_load() -> Option<&'static cpu_set_t> {
        None
    }

    /// What the process was given (by its cpuset, by `taskset`), whatever its threads have pinned themselves to since: the first thread's
    /// set at load, and with it today's, because a cpuset may grow. From one that has shrunk the kernel takes away what is not in it when
    /// a thread asks for all.
    pub(super) fn process_set() -> Option<cpu_set_t> {
        let mut set = main_thread_set()?;
        if let Some(at_load) = set_at_load() {
            // SAFETY: the cores are below a set's length.
            cores_in(at_load).into_iter().for_each(|core| unsafe { CPU_SET(core, &mut set) });
        }
        Some(set)
    }

    /// The set for a thread that the calling one starts: the process's. But if the calling one is a thread of ours and stands with the
    /// first thread where it did not put itself, then somebody has moved the whole process (`taskset --all-tasks`), and the new thread
    /// goes with it.
    pub(super) fn set_for_new_threads() -> Option<cpu_set_t> {
        let was_moved = |main: &cpu_set_t| {
            let (Some(own), Some(here)) = (OWN.get(), set_of(0)) else { return false };
            cores_in(&here) != cores_in(&own) && cores_in(&here) == cores_in(main)
        };
        main_thread_set().filter(was_moved).or_else(process_set)
    }

    /// The first thread's number is the process's.
    fn main_thread_set() -> Option<cpu_set_t> {
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
        /// Where this thread, a worker, was pinned.
        static PINNED: OnceCell<PinnedTo> = const { OnceCell::new() };
        /// Where this thread, one of ours, has put itself.
        static OWN: Cell<Option<cpu_set_t>> = const { Cell::new(None) };
    }

    pub(super) fn remember_pinned(to: &PinnedTo) {
        PINNED.with(|pinned| _ = pinned.set(to.clone()));
        OWN.set(set_of(0));
    }

    /// Whether the calling thread is a worker that was pinned, and still is.
    fn is_pinned_worker() -> bool {
        // A thread that is in teardown, so that it has destroyed this turns no shard any more.
        PINNED.try_with(|pinned| pinned.get().is_some_and(|to| to.get().is_some())).unwrap_or(false)
    }

    /// For the calling thread, one of ours, as its first step.
    pub(super) fn put_current_thread(set: &cpu_set_t) {
        put(0, set);
        // Not what was asked for: the kernel takes away what is outside of the cpuset.
        OWN.set(set_of(0));
    }

    /// The calling thread, a pinned worker, may run on other cores, too, until this goes.
    pub(super) struct UnpinnedWorker {
        pinned: cpu_set_t,
        unpinned: cpu_set_t,
    }

    impl UnpinnedWorker {
        /// None if it is no pinned worker, or nobody can tell.
        pub(super) fn for_now(unpinned: &cpu_set_t) -> Option<Self> {
            let pinned = set_of(0).filter(|_| is_pinned_worker())?;
            put(0, unpinned);
            Some(Self { pinned, unpinned: *unpinned })
        }
    }

    impl Drop for UnpinnedWorker {
        fn drop(&mut self) {
            put(0, &self.pinned);
            // Another thread may give the pin up just now. It says so first, and then unpins the thread. If that comes after the step
            // above, all is well. If it came before, then so did what it said, as the kernel changes a thread's set under a lock.
            if !is_pinned_worker() {
                put(0, &self.unpinned);
            }
        }
    }

    pub(super) fn is_pinned(thread: libc::pid_t, core: usize) -> bool {
        set_of(thread).is_some_and(|set| cores_in(&set) == [core])
    }

    pub(super) fn unpin(thread: libc::pid_t, core: usize) -> bool {
        let Some(all) = process_set().filter(|_| is_pinned(thread, core)) else { return false };
        let mut others = all;
        // SAFETY: the core is in a set, so it is below a set's length.
        unsafe { CPU_CLR(core, &mut others) };
        // First elsewhere: a thread that waits for a core goes on doing so if it may run there.
        put(thread, &others);
        put(thread, &all)
    }

    /// Says where a thread, 0 being the calling one, may run. A refusal leaves it where it may run already.
    fn put(thread: libc::pid_t, set: &cpu_set_t) -> bool {
        // SAFETY: reads the set, whose own size it is told.
        unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), set) == 0 }
    }
}
