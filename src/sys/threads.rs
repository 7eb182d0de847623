//! What the engine's threads ask of the system, besides their cores.
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

    use libc::{SYS_sched_getattr, SYS_sched_setattr, c_int, c_uint, c_ulong, sched_attr};

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
        let slack_ns = c_ulong::try_from(slack(libc::PR_GET_TIMERSLACK, 0)).ok();
        let slice_ns = attributes().map(|attributes| attributes.sched_runtime);
        BEFORE.set(Some(SchedHints { slack_ns, slice_ns }));
        slack(libc::PR_SET_TIMERSLACK, SLACK_NS);
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
                slack(libc::PR_SET_TIMERSLACK, slack_ns);
            }
            if let Some(slice_ns) = slice_ns {
                // Also under the policies that may have been chosen since, which have slices too.
                set_slice(slice_ns, &[libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE]);
            }
        }
    }

    /// Reads or sets the calling thread's slack.
    fn slack(what: c_int, slack_ns: c_ulong) -> c_int {
        // SAFETY: the two calls take no pointer, and change no more than the thread's own slack.
        unsafe { libc::prctl(what, slack_ns) }
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
    use std::mem::MaybeUninit;
    use std::ptr;

    use libc::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGSEGV, SIGSYS, SIGTRAP};

    /// What a thread raises by a fault of its own, or is to be profiled by.
    const ITS_OWN: [libc::c_int; 8] = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGSEGV, SIGSYS, SIGTRAP];

    /// While this value lives, the calling thread takes no other signals. A new thread inherits
    /// that. The value is the mask from before.
    pub(super) struct Blocked(libc::sigset_t);

    impl Blocked {
        pub(super) fn all() -> Option<Self> {
            let (mut set, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            // SAFETY: 1. `sigfillset` initialises the set, and the numbers are signals. 2. The mask
            // from before is initialised if the call says that it did what was asked.
            unsafe {
                libc::sigfillset(set.as_mut_ptr());
                ITS_OWN.iter().for_each(|&signal| _ = libc::sigdelset(set.as_mut_ptr(), signal));
                let failed = libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), before.as_mut_ptr());
                (failed == 0).then(|| Self(before.assume_init()))
            }
        }
    }

    impl Drop for Blocked {
        fn drop(&mut self) {
            // SAFETY: the mask is the one that this thread had before.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
        }
    }
}
