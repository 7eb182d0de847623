//! A child that was forked has no writer: its calls are refused at once, and nothing hangs.

#![cfg(unix)]

mod stores;

use std::time::{Duration, Instant};

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use stores::{Start, each_store, until};
use tourbillon_durable::{CommitError, DurableTimer, Outcome, Refused};

const HOUR: Duration = Duration::from_secs(3_600);

/// Runs `child` in a child of this process, and returns its exit code.
fn in_child(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child allocates, which the C library allows after a fork, and calls nothing that
    // takes a lock that another thread of this test may have held.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let code = i32::from(!child());
            // SAFETY: it ends the child at once, with no destructors, as is right after a fork.
            unsafe { nix::libc::_exit(code) }
        }
        ForkResult::Parent { child } => {
            let begun = Instant::now();
            loop {
                match waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap() {
                    WaitStatus::Exited(_, code) => return code,
                    WaitStatus::StillAlive if begun.elapsed() < Duration::from_secs(20) => {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    other => {
                        _ = nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL);
                        panic!("the child: {other:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_forked_child_is_refused_at_once_and_its_parent_goes_on() {
    each_store(|place| {
        let timers = DurableTimer::open(place.url()).unwrap().handler("close", |_due| Outcome::Done).started();
        timers.schedule("before", HOUR, "close", b"").unwrap().wait().unwrap();
        let (waited, polled) = (timers.get("before").unwrap(), timers.get("before").unwrap());
        let handle = timers.clone();
        let code = in_child(move || {
            let waited = matches!(waited.wait(), Err(CommitError::Forked));
            let polled = matches!(pollster::block_on(polled), Err(CommitError::Forked));
            let refused = handle.schedule("child", HOUR, "close", b"").err() == Some(Refused::Forked);
            _ = (handle.stats(), format!("{handle:?}"));
            handle.stop();
            drop(handle);
            waited && polled && refused
        });
        assert_eq!(code, 0);
        timers.schedule("after", Duration::ZERO, "close", b"").unwrap().wait().unwrap();
        until(|| timers.stats().completed == 1);
        timers.stop();
    });
}
