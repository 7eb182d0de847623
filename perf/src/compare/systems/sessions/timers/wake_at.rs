//! Wakes the loop's task at a time, to the nanosecond: a timerfd, as an event loop has it that owns
//! its timers.

use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(super) struct WakeAt {
    fd: AsyncFd<OwnedFd>,
    set_to: Option<Instant>,
}

impl WakeAt {
    pub(super) fn new() -> Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC);
        let fd = fd.context("cannot make a timerfd")?;
        // SAFETY: an `OwnedFd` is open, and stays the same one until the `AsyncFd` drops it. Nobody
        // gets it out, as it is behind a private field.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        let fd = fd.map_err(|why| anyhow!("the runtime refuses the timerfd: {why}"))?;
        Ok(Self { fd, set_to: None })
    }

    /// The task is woken at that time, and at no other. Returns whether the time has come.
    pub(super) fn set(&mut self, at: Option<Instant>, context: &mut Context<'_>) -> bool {
        if self.set_to != at {
            // Zero would disarm it.
            let delay = at.map(|at| at.saturating_duration_since(Instant::now()).as_nanos().max(1));
            let value = delay.map_or(0, |delay| i64::try_from(delay).unwrap_or(i64::MAX));
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value = Timespec { tv_sec: value / 1_000_000_000, tv_nsec: value % 1_000_000_000 };
            let spec = Itimerspec { it_interval: zero, it_value: value };
            if timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &spec).is_err() {
                return true;
            }
            self.set_to = at;
        }
        let mut has_come = false;
        // Each setting has an edge of its own, so nothing need be read.
        while let Poll::Ready(Ok(mut ready)) = self.fd.poll_read_ready(context) {
            ready.clear_ready();
            has_come = true;
        }
        if has_come {
            self.set_to = None;
        }
        has_come
    }
}
