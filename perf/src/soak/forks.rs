//! Children that are forked off meanwhile: the engines refuse there, and the child's own runs.

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use tourbillon::{Refusal, Timer};

use super::Run;
use super::tally::Count;

/// How long a child may take: it starts threads on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// The exit status of a child that can't start a thread.
const STUCK: i32 = 3;

/// One child after the other until it is over.
pub(crate) fn run(run: &Run) {
    let mut rng = Rng::with_seed(run.seed ^ 0xF0_4C);
    while !run.is_over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(rng.u64(100..600)));
        let timers: Vec<Timer> = run.subjects.iter().filter_map(|subject| subject.timer()).collect();
        match one(&timers) {
            Ok(checked) => run.tally.did(if checked { Count::Fork } else { Count::ForkStuck }),
            Err(wrong) => run.violations.add(&format!("a forked child: {wrong}")),
        }
    }
}

/// Returns false if std can't start a thread in the child, so that it has checked nothing.
fn one(timers: &[Timer]) -> Result<bool> {
    // SAFETY: the child only uses the library, which other threads may be using during the fork,
    // and leaves by `_exit`.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let wrong = in_child(timers);
            // SAFETY: it may be called at any time.
            unsafe { libc::_exit(wrong) }
        }
        ForkResult::Parent { child } => wait(child),
    }
}

/// std holds a lock while a thread starts or ends. If one of the parent's did at the fork, no
/// thread of the child ever gets past it.
fn starts_threads() -> bool {
    let (tell, told) = channel();
    thread::spawn(move || tell.send(()));
    told.recv_timeout(PATIENCE / 6).is_ok()
}

/// Returns what is wrong, or 0.
fn in_child(timers: &[Timer]) -> i32 {
    for timer in timers {
        match timer.schedule_detached(Duration::ZERO, || ()) {
            Err(refused) if matches!(refused.kind(), Refusal::Forked | Refusal::Shutdown) => {}
            _ => return 1,
        }
    }
    if !starts_threads() {
        return STUCK;
    }
    let (tell, told) = channel();
    match Timer::global().schedule_detached(Duration::from_millis(1), move || _ = tell.send(())) {
        Ok(()) if told.recv_timeout(PATIENCE / 2).is_ok() => 0,
        _ => 2,
    }
}

fn wait(child: Pid) -> Result<bool> {
    let begin = Instant::now();
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG))? {
            WaitStatus::StillAlive => {}
            WaitStatus::Exited(_, 0) => return Ok(true),
            WaitStatus::Exited(_, STUCK) => return Ok(false),
            WaitStatus::Exited(_, 1) => bail!("an engine of its parent accepts"),
            WaitStatus::Exited(_, 2) => bail!("its own engine is silent"),
            WaitStatus::Exited(..) => bail!("a panic"),
            ended => bail!("it ended by {ended:?}"),
        }
        if begin.elapsed() > PATIENCE {
            kill(child, Signal::SIGKILL)?;
            waitpid(child, None)?;
            bail!("it hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
}
