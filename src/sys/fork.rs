//! Detects that this process was forked after something was made.
//!
//! A word holds a number that no ancestor of this process has. In a child it is 0 until the child
//! asks for a number of its own. On Linux the kernel wipes the word at each fork, by whatever call.
//! Elsewhere, and before Linux 4.14, a handler of `pthread_atfork` does, which a raw `clone` does
//! not call.

/// What the number of a process is a multiple of. It leaves room below, see
/// [`PerThread`](crate::arena::PerThread).
pub(crate) const STEP: u64 = 1 << 40;

/// Returns the number of this process. A thing that was made under another number was made by an
/// ancestor, whose threads do not exist here.
#[inline]
pub(crate) fn generation() -> u64 {
    match imp::word() {
        0 => imp::number(),
        number => number,
    }
}

/// Returns [`generation`], or 0 in a child that has not asked for it yet.
#[inline]
pub(crate) fn word() -> u64 {
    imp::word()
}

/// Returns whether the process was forked since `generation` returned this number.
#[inline]
pub(crate) fn is_forked_since(number: u64) -> bool {
    generation() != number
}

/// Returns how many of this process's ancestors had a number.
pub(crate) fn ancestors() -> u64 {
    generation() / STEP - 1
}

#[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri), not(loom)))]
mod imp {
    use std::ptr;
    use std::sync::Once;
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    use super::STEP;

    /// The word, if the kernel does not wipe one.
    static PLAIN: AtomicU64 = AtomicU64::new(0);
    static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::from_ref(&PLAIN).cast_mut());
    /// The newest number. A child inherits that of its parent.
    static NEWEST: AtomicU64 = AtomicU64::new(0);

    fn place() -> &'static AtomicU64 {
        // SAFETY: it points to `PLAIN`, or to memory that is never unmapped. Acquire: pairs with
        // the release in `number`.
        unsafe { &*WORD.load(Ordering::Acquire) }
    }

    #[inline]
    pub(super) fn word() -> u64 {
        // Relaxed: the threads of a process see the number that they were born with.
        place().load(Ordering::Relaxed)
    }

    /// Gives this process a number.
    #[cold]
    #[inline(never)]
    pub(super) fn number() -> u64 {
        static BEGIN: Once = Once::new();
        BEGIN.call_once(|| match wiped_by_the_kernel() {
            Some(word) => WORD.store(word, Ordering::Release),
            None => {
                extern "C" fn wipe() {
                    PLAIN.store(0, Ordering::Relaxed);
                }
                // If the system refuses, because there is no memory, forks stay unnoticed.
                // SAFETY: the handler only changes an atomic, which a child of a process with
                // threads may do.
                unsafe { libc::pthread_atfork(None, None, Some(wipe)) };
            }
        });
        let number = NEWEST.fetch_add(1, Ordering::Relaxed).wrapping_add(1) * STEP;
        match place().compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => number,
            Err(number_of_another_thread) => number_of_another_thread,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn wiped_by_the_kernel() -> Option<*mut AtomicU64> {
        None
    }

    #[cfg(target_os = "linux")]
    fn wiped_by_the_kernel() -> Option<*mut AtomicU64> {
        use libc::{MADV_WIPEONFORK, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE};
        // The system rounds it up to a page.
        let bytes = size_of::<AtomicU64>();
        // SAFETY: new memory, of zeros, is mapped where nothing is. It stays mapped unless it is
        // refused.
        unsafe {
            let page = libc::mmap(ptr::null_mut(), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if page == MAP_FAILED {
                return None;
            }
            if libc::madvise(page, bytes, MADV_WIPEONFORK) != 0 {
                libc::munmap(page, bytes);
                return None;
            }
            Some(page.cast())
        }
    }
}

/// For systems without `fork`, or on which it can't be noticed.
#[cfg(not(all(any(target_os = "linux", target_os = "macos"), not(miri), not(loom))))]
mod imp {
    pub(super) fn word() -> u64 {
        super::STEP
    }

    pub(super) fn number() -> u64 {
        super::STEP
    }
}
