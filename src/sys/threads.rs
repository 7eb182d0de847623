//! Scheduling hints and signal masks of the engine's threads.
//!
//! A worker asks for scheduling hints, by which it runs soon after it is woken. They exist on Linux
//! only.
//!
//! Signals that are sent to the process are for the user's threads, which may wait for them by
//! `sigwait` or a signalfd. A thread of the engine that took one would end the process.

/// Sets the hints for the calling thread, a worker. If the system refuses, the thread stays as it
/// was.
pub(crate) fn ask_for_short_latency() {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    linux::ask();
}

/// Returns a function that undoes the hints. A thread inherits the hints of the worker that starts
/// it; if it calls this function, it gets the settings that the worker had before.
pub(crate) fn without_hints() -> impl FnOnce() + Send {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    return linux::before();
    #[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
    || ()
}

/// Runs `start`. The threads that it starts take no signal that is sent to the process.
pub(crate) fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    #[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri)))]
    let _again = unix::Blocked::all();
    start()
}

/// The hints.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod linux {
    use std::cell::Cell;

    use nix::libc::{self, SYS_sched_getattr, SYS_sched_setattr, c_int, c_uint, c_ulong, sched_attr};
    use nix::sys::prctl::{get_timerslack, set_timerslack};

    /// How much later than asked a timed wait may end, in nanoseconds. The default is 50 µs; 0
    /// would select the default.
    const SLACK_NS: c_ulong = 1;

    /// The shortest slice that the kernel gives.
    const SLICE_NS: u64 = 100_000;

    /// How the kernel's calls name the calling thread.
    const THIS: libc::pid_t = 0;
    const NO_FLAGS: c_uint = 0;

    thread_local! {
        /// The settings that this thread, a worker, had before it set the hints.
        static BEFORE: Cell<Option<SchedHints>> = const { Cell::new(None) };
    }

    /// A thread's settings. All functions here are about the calling thread. A field is `None` if
    /// the kernel does not report it.
    #[derive(Clone, Copy)]
    struct SchedHints {
        slack_ns: Option<c_ulong>,
        slice_ns: Option<u64>,
    }

    pub(super) fn ask() {
        let slack_ns = get_timerslack().ok().and_then(|ns| c_ulong::try_from(ns).ok());
        let slice_ns = attributes().map(|attributes| attributes.sched_runtime);
        BEFORE.set(Some(SchedHints { slack_ns, slice_ns }));
        let _ = set_timerslack(SLACK_NS);
        // Only under the default policy: somebody chose any other policy on purpose, and it has no
        // slices or is not meant to be fast.
        set_slice(SLICE_NS, &[libc::SCHED_OTHER]);
    }

    /// Returns a function that gives another thread the calling thread's earlier settings. It does
    /// nothing if the calling thread is no worker.
    pub(super) fn before() -> impl FnOnce() + Send {
        let before = BEFORE.get();
        move || {
            let Some(SchedHints { slack_ns, slice_ns }) = before else { return };
            if let Some(slack_ns) = slack_ns {
                let _ = set_timerslack(slack_ns);
            }
            if let Some(slice_ns) = slice_ns {
                // Also under the policies that may have been chosen since, which have slices too.
                set_slice(slice_ns, &[libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE]);
            }
        }
    }

    /// Sets the length of the calling thread's slices. Does nothing under a policy that is not
    /// among `policies`.
    ///
    /// Under the default policy, a woken thread usually waits until the thread that runs on its
    /// core has used up its slice, which takes some milliseconds. A thread with shorter slices need
    /// not wait, unless it has lately had more than its share. Shorter slices give it no more
    /// processor time. (EEVDF, of Stoica and Abdel-Wahab, in Linux since 6.6. A thread may choose
    /// its slices since 6.12; earlier kernels ignore the call.)
    fn set_slice(slice_ns: u64, policies: &[c_int]) {
        let Some(mut attributes) = attributes() else { return };
        if policies.contains(&attributes.sched_policy.cast_signed()) {
            attributes.sched_runtime = slice_ns;
            // SAFETY: the call reads no more than the size in the attributes, which the kernel has
            // filled in. All attributes but the slice stay as they were.
            unsafe { libc::syscall(SYS_sched_setattr, THIS, &raw const attributes, NO_FLAGS) };
        }
    }

    /// The attributes of the calling thread. Returns `None` if the kernel does not report them.
    fn attributes() -> Option<sched_attr> {
        // SAFETY: 1. All fields are numbers, for which zero is a valid value. 2. The call writes to
        // no more than the attributes, whose size it is given.
        unsafe {
            let mut attributes: sched_attr = std::mem::zeroed();
            let size = size_of::<sched_attr>();
            let failed = libc::syscall(SYS_sched_getattr, THIS, &raw mut attributes, size, NO_FLAGS);
            (failed == 0).then_some(attributes)
        }
    }
}

/// The mask of signals.
#[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri)))]
mod unix {
    use nix::sys::signal::Signal::{self, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGSEGV, SIGSYS, SIGTRAP};
    use nix::sys::signal::{SigSet, SigmaskHow};

    /// The signals that a thread raises by a fault of its own, and the signal of profilers.
    const ITS_OWN: [Signal; 8] = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGSEGV, SIGSYS, SIGTRAP];

    /// While this value lives, the calling thread takes no other signals. A new thread inherits
    /// that. The value is the mask from before.
    pub(super) struct Blocked(SigSet);

    impl Blocked {
        pub(super) fn all() -> Option<Self> {
            let mut set = SigSet::all();
            ITS_OWN.iter().for_each(|signal| set.remove(*signal));
            set.thread_swap_mask(SigmaskHow::SIG_SETMASK).ok().map(Self)
        }
    }

    impl Drop for Blocked {
        fn drop(&mut self) {
            let _ = self.0.thread_set_mask();
        }
    }
}
