//! Detects that this process was forked after something was made.
//!
//! A word holds a number that no ancestor of this process has. In a child it is 0 until the child
//! asks for a number of its own. On Linux the kernel wipes the word at each fork, by whatever call.
//! Elsewhere, and before Linux 4.14, a handler of `pthread_atfork` does, which a raw `clone` does
//! not call.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri), not(loom)))]
use nix::libc;

/// The number of a process is a multiple of this. That leaves room below, see
/// [`PerThread`](crate::arena::PerThread).
const STEP: u64 = 1 << 40;

/// The word, alone in its pages, as the kernel wipes whole pages. In a static, so that a look
/// needs no pointer.
#[cfg_attr(all(target_os = "linux", target_arch = "x86_64"), repr(align(4096)))]
#[cfg_attr(all(target_os = "linux", not(target_arch = "x86_64")), repr(align(65536)))]
struct Alone(AtomicU64);

static WORD: Alone = Alone(AtomicU64::new(0));
/// The newest number. A child inherits that of its parent.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// Returns [`generation`], or 0 in a process that has not asked for it yet.
#[inline]
pub(crate) fn word() -> u64 {
    // Relaxed: the threads of a process see the number that they were born with.
    WORD.0.load(Ordering::Relaxed)
}

/// Returns the number of this process. A thing that was made under another number was made by an
/// ancestor, whose threads do not exist here.
#[inline]
pub(crate) fn generation() -> u64 {
    match word() {
        0 => number(),
        number => number,
    }
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

/// Gives this process a number.
#[cold]
#[inline(never)]
fn number() -> u64 {
    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        wipe_at_forks();
        // Here, so that the first process has the first number, whichever of its threads asks.
        WORD.0.store(new(), Ordering::Relaxed);
    });
    if word() == 0 {
        // Fails if another thread was first.
        let _ = WORD.0.compare_exchange(0, new(), Ordering::Relaxed, Ordering::Relaxed);
    }
    word()
}

fn new() -> u64 {
    (NEWEST.fetch_add(1, Ordering::Relaxed) + 1) * STEP
}

/// Has the word wiped in each child, where there is `fork`, and it can be noticed.
fn wipe_at_forks() {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    if is_wiped_by_the_kernel() {
        return;
    }
    #[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri), not(loom)))]
    {
        extern "C" fn wipe() {
            WORD.0.store(0, Ordering::Relaxed);
        }
        // If the system refuses, because there is no memory, forks stay unnoticed.
        // SAFETY: the handler only changes an atomic, which a child of a process with threads may
        // do.
        unsafe { libc::pthread_atfork(None, None, Some(wipe)) };
    }
}

/// Asks the kernel to wipe the word. It does so only with memory that is no file's, as zeroed
/// statics are behind their first page.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
fn is_wiped_by_the_kernel() -> bool {
    let (place, bytes) = ((&raw const WORD).cast_mut(), size_of::<Alone>());
    let page = super::memory::page_size();
    // SAFETY: the pages are the word's alone, as their size divides its. So what the kernel zeroes
    // in a child is nothing else.
    let advise = |advice| unsafe { libc::madvise(place.cast(), bytes, advice) == 0 };
    // Some emulators answer that they did what they do not know.
    page > 0 && bytes.is_multiple_of(page) && !advise(-1) && advise(libc::MADV_WIPEONFORK)
}
