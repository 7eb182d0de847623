//! The scheduling policy of a thread. By a system call, as musl's function only fails. It is a file
//! of its own, as not all packages that share these files use libc.

/// Puts the calling thread under a policy. Returns false if the thread lacks the privileges for
/// that.
pub(crate) fn choose(policy: libc::c_int, priority: libc::c_int) -> bool {
    // SAFETY: 0 is the calling thread. Linux reads the priority and no more, and it is valid for
    // the read.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}
