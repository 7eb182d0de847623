//! The ways to limit a read, but the runtimes' own.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::RawFd;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};
use tourbillon_local::{LocalSleep, LocalTimeout, LocalTimer};

/// The buffer comes back with the result, as with io_uring it has to.
pub(crate) type Read = (io::Result<usize>, Vec<u8>);

/// The idle timeout of one connection.
pub(crate) trait Limit {
    /// Waits for the read, or returns nothing if the time is over first.
    async fn read(&mut self, read: impl Future<Output = Read>) -> Option<Read>;
}

pub(crate) struct Unlimited;

impl Limit for Unlimited {
    async fn read(&mut self, read: impl Future<Output = Read>) -> Option<Read> {
        Some(read.await)
    }
}

/// A task that closes the socket. The read then ends by itself, so that nothing but the read has to
/// be polled.
pub(crate) struct TaskLimit {
    timeout: LocalTimeout,
    idle: Duration,
}

impl TaskLimit {
    pub(crate) fn new(timer: &LocalTimer, idle: Duration, fd: RawFd) -> Self {
        // The client may have closed it just now.
        let closes = move || _ = shutdown(fd, Shutdown::Both);
        Self { timeout: timer.schedule(idle, closes).expect("no limit on timeouts is set"), idle }
    }
}

impl Limit for TaskLimit {
    async fn read(&mut self, read: impl Future<Output = Read>) -> Option<Read> {
        if !self.timeout.reset(self.idle) {
            return None;
        }
        let read = read.await;
        (read.0.as_ref().is_ok_and(|&length| length > 0) || self.timeout.is_pending()).then_some(read)
    }
}

impl Drop for TaskLimit {
    fn drop(&mut self) {
        // The socket's number may be another's soon.
        self.timeout.cancel();
    }
}

/// A sleep that is reset.
pub(crate) struct SleepLimit {
    sleep: LocalSleep,
    idle: Duration,
}

impl SleepLimit {
    pub(crate) fn new(timer: &LocalTimer, idle: Duration) -> Self {
        Self { sleep: timer.sleep(idle), idle }
    }
}

impl Limit for SleepLimit {
    async fn read(&mut self, read: impl Future<Output = Read>) -> Option<Read> {
        self.sleep.reset(self.idle);
        first(read, Pin::new(&mut self.sleep)).await
    }
}

/// A time limit around each read.
pub(crate) struct TimeoutLimit {
    timer: LocalTimer,
    idle: Duration,
}

impl TimeoutLimit {
    pub(crate) fn new(timer: &LocalTimer, idle: Duration) -> Self {
        Self { timer: timer.clone(), idle }
    }
}

impl Limit for TimeoutLimit {
    async fn read(&mut self, read: impl Future<Output = Read>) -> Option<Read> {
        self.timer.timeout(self.idle, read).await.ok()
    }
}

/// Waits for the read, or for a sleep.
pub(crate) async fn first<S: Future>(read: impl Future<Output = Read>, mut sleep: Pin<&mut S>) -> Option<Read> {
    let mut read = pin!(read);
    poll_fn(|context| {
        if let Poll::Ready(read) = read.as_mut().poll(context) {
            return Poll::Ready(Some(read));
        }
        sleep.as_mut().poll(context).map(|_| None)
    })
    .await
}
