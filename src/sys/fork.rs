//! Detects that this process was forked after something was made.

/// Returns how many forks lie between this process and its ancestor that first called this. A thing
/// that was made under another number was made by an ancestor, whose threads do not exist here.
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
        // If the system refuses, because there is no memory, forks stay unnoticed.
        // SAFETY: the handler only changes an atomic and calls `FIRST`. Both are allowed in a child
        // of a process with threads; `first_in_children` asks that of `FIRST`.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    imp::FORKS.load(Ordering::Relaxed)
}

/// Makes every child that is forked from now on call `run`. The child's only thread calls it before
/// the fork is counted. Both happen in one handler, because handlers of others may run between two.
/// Only the first `run` is used.
///
/// # Safety
/// `run` does only what is allowed in a child of a process with threads: it changes atomics, and
/// thread-locals that have no destructor.
#[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri), not(loom)))]
pub(crate) unsafe fn first_in_children(run: extern "C" fn()) {
    generation();
    // Fails if another thread has set it already.
    let _ = imp::FIRST.set(run);
}

/// Returns whether the process was forked since `generation` returned this number.
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

/// For systems without `fork`, or on which it can't be noticed.
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
