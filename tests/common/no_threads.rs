//! A process that can have no more threads, for a while.

use std::fs;
use std::thread;

/// Less than a thread's stack.
const ROOM: u64 = 1 << 20;

/// Runs `work` while the process can have no more threads. No thread may have ended before: its
/// stack would be used again.
pub(crate) fn without_threads<R>(work: impl FnOnce() -> R) -> R {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("a number of pages");
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `before` is valid for the write.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut before) }, 0);
    let limit = |to| {
        let limits = libc::rlimit { rlim_cur: to, rlim_max: before.rlim_max };
        // SAFETY: `limits` is valid for the read; the call only sets a number.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limits) }, 0);
    };
    limit(pages * 4096 + ROOM);
    assert!(thread::Builder::new().spawn(|| ()).is_err(), "or this test would show nothing");
    let answer = work();
    limit(before.rlim_cur);
    answer
}
