//! A child process that was forked off, and what it found. Apart, as not all packages that share the rest know libc.

use std::thread;
use std::time::Instant;

use crate::common::{MS, PATIENCE};

/// Runs `work` in a child, which leaves with what it returns: 0 if all is well. A panic is 99.
pub(crate) fn in_child(what: &str, work: impl FnOnce() -> i32) {
    // SAFETY: the child uses this library only, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(99);
        // SAFETY: always allowed.
        unsafe { libc::_exit(code) };
    }
    let (start, mut status) = (Instant::now(), 0);
    loop {
        // SAFETY: our own child, and a place for its status.
        let waited = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        assert!(waited >= 0, "waitpid");
        if waited == child {
            break;
        }
        if start.elapsed() > PATIENCE {
            // SAFETY: our own child, which has not been waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            panic!("the child hangs: {what}");
        }
        thread::sleep(MS);
    }
    assert!(libc::WIFEXITED(status), "{what}: the child was killed, status {status}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "{what}: the step of the child that went wrong");
}
