//! Signals that are sent to the process are for the user's threads, which may wait for them by
//! `sigwait` or a signalfd. A thread of the engine that took one would end the process.

/// Runs `start`. The threads that it starts take no signal that is sent to the process.
pub(crate) fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    #[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri)))]
    let _again = unix::Blocked::all();
    start()
}

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
