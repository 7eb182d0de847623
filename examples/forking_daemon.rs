//! A daemon that forks after its global engine has started. The child has a global engine of its
//! own, and the parent's goes on.
//!
//! ```toml
//! [dependencies]
//! libc = "0.2"
//! tourbillon = { path = "../tourbillon" }
//! ```
//!
//! A fork copies one thread. So the parent's engine has no threads in the child. It notices the
//! fork, on Linux and macOS, and refuses what would never run there. The section "After a fork" of
//! the crate docs has all the rules.

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::io::Error;
    use std::time::Duration;

    use tourbillon::Timer;

    let parents = Timer::global();
    // The first timeout starts the engine's threads.
    let log_rotation = parents.schedule(Duration::from_secs(3600), || println!("rotating the log"))?;

    // SAFETY: the child allocates, prints and starts threads. No other thread of this program holds
    // a lock of those now: the engine's threads sleep.
    match unsafe { libc::fork() } {
        -1 => return Err(Error::last_os_error().into()),
        0 => {
            let code = i32::from(daemon(parents).inspect_err(|error| eprintln!("the daemon: {error}")).is_err());
            // SAFETY: it only ends the process. Handlers and destructors are the parent's to run.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: it writes to `status` only.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the daemon has failed: {status}");
        }
    }
    assert!(log_rotation.is_pending() && log_rotation.cancel(), "the parent's timeouts are as they were");
    println!("parent: its engine goes on");
    Ok(())
}

/// Runs in the child.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn daemon(parents: &tourbillon::Timer) -> Result<(), Box<dyn std::error::Error>> {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use tourbillon::{Refusal, Timer};

    // A reference from before the fork stays the parent's. It gives the closure back.
    let refused = parents.schedule_detached(Duration::ZERO, || println!("child: here is what it gave back"));
    let refused = refused.expect_err("its threads are not here");
    assert_eq!(refused.kind(), Refusal::Forked);
    println!("child: the parent's engine says: {refused}");
    refused.into_inner()();

    // The child's own one. For other options than the defaults, call `build_global` before this.
    let (tell, told) = mpsc::channel();
    let begun = Instant::now();
    Timer::global().schedule_detached(Duration::from_millis(20), move || _ = tell.send(begun.elapsed()))?;
    let after = told.recv()?;
    assert!(after >= Duration::from_millis(20));
    println!("child: its own engine ran a timeout of 20 ms after {after:.1?}");
    Ok(())
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn main() {
    println!("an engine does not notice forks on this system");
}
