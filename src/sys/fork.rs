//! Whether this process is a child that was forked after something was made.

/// How often this process, or one that it descends from, was forked since the first call. What was made under another number
/// than today's was made by an ancestor, whose threads are not here.
#[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri), not(loom)))]
pub(crate) fn generation() -> usize {
    use std::sync::Once;
    use std::sync::atomic::Ordering;

    extern "C" fn in_child() {
        if let Some(run) = imp::FIRST.get() {
            run();
        }
        imp::FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        // A refusal (there is no memory) leaves forks unnoticed.
        // SAFETY: what is registered here only changes atomics and thread-locals without destructors, which is allowed in a child of
        // a process with threads.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    imp::FORKS.load(Ordering::Relaxed)
}

/// Has `run` called in every child that is forked off from now on, by its only thread, before the fork is counted: both in one handler,
/// as those of others may come between two. For one `run` only.
#[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri), not(loom)))]
pub(crate) fn first_in_children(run: extern "C" fn()) {
    generation();
    // Set already: by another thread.
    let _ = imp::FIRST.set(run);
}

/// Whether there was a fork since `generation` was the number. After a call of `generation`.
#[inline]
pub(crate) fn is_forked_since(generation: usize) -> bool {
    imp::forks() != generation
}

#[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri), not(loom)))]
mod imp {
    use std::sync::atomic::{AtomicUsize, Ordering};

    pub(super) static FORKS: AtomicUsize = AtomicUsize::new(0);
    pub(super) static FIRST: std::sync::OnceLock<extern "C" fn()> = std::sync::OnceLock::new();

    #[inline]
    pub(super) fn forks() -> usize {
        FORKS.load(Ordering::Relaxed)
    }
}

/// Where there is no fork, or none that could be noticed.
#[cfg(not(all(any(target_os = "linux", target_os = "macos"), not(miri), not(loom))))]
pub(crate) fn generation() -> usize {
    0
}

#[cfg(not(all(any(target_os = "linux", target_os = "macos"), not(miri), not(loom))))]
mod imp {
    pub(super) fn forks() -> usize {
        0
    }
}
