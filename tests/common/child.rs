//! A forked child process, and its result. It is a file of its own, as not all packages that share
//! these files use libc.

use std::thread;
use std::time::Instant;

use crate::common::{MS, PATIENCE};

/// Runs `work` in a child, which exits with the status that `work` returns: 0 if all is well. A
/// panic exits with 99.
pub(crate) fn in_child(what: &str, work: impl FnOnce() -> i32) {
    // SAFETY: the child uses this library only, and leaves by `_exit`.
    in_child_by(|| unsafe { libc::fork() }, what, work);
}

/// Runs `work` in a child that `fork` has made, as [`in_child`] does.
pub(crate) fn in_child_by(fork: impl FnOnce() -> libc::pid_t, what: &str, work: impl FnOnce() -> i32) {
    let child = fork();
    assert!(child >= 0, "fork");
    if child == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(99);
        // SAFETY: `_exit` may be called at any time.
        unsafe { libc::_exit(code) };
    }
    let (start, mut status) = (Instant::now(), 0);
    loop {
        // SAFETY: `child` is this process's own child, and `status` is valid for the write.
        let waited = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        assert!(waited >= 0, "waitpid");
        if waited == child {
            break;
        }
        if start.elapsed() > PATIENCE {
            // SAFETY: `child` is this process's own child, and has not been waited for, so the id
            // is still its.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: `child` is this process's own child, and `status` is valid for the write.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            panic!("the child hangs: {what}");
        }
        thread::sleep(MS);
    }
    assert!(libc::WIFEXITED(status), "{what}: the child was killed, status {status}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "{what}: the step of the child that went wrong");
}
