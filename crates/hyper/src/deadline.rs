//! The one deadline of a limited connection: what the server waits for, and since when.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tourbillon::Sleep;

use crate::connection::{Connection, Requests};
use crate::frames::may_serve;

/// The event that the server waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The rest of a request's header. The time counts from its first byte, or from the start of
    /// the connection.
    Header,
    /// Any sign of the client: the first byte of a request, or that it takes what was written to
    /// it.
    Client,
}

/// One sleep for the whole connection. Each step of the connection only notes that the time is to
/// count anew, and the next poll that has to wait moves the sleep. So a request that is read and
/// answered at once moves it once.
#[derive(Debug)]
pub(super) struct Deadline {
    connection: Arc<Connection>,
    sleep: Sleep,
    /// The wait that the sleep limits. `None` if the time is to count anew.
    armed: Option<Wait>,
    /// The requests as of the last look.
    seen: Requests,
    /// Whether a header has begun. That of the first request begins with the connection.
    is_in_header: bool,
    /// Whether the client does not take what is written to it.
    is_stalled: bool,
    is_over: bool,
}

impl Deadline {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        let sleep = connection.settings.timer.sleep(Duration::MAX);
        let (armed, seen) = (None, Requests::default());
        Self { connection, sleep, armed, seen, is_in_header: true, is_stalled: false, is_over: false }
    }

    /// Notes that bytes have come.
    pub(super) fn on_read(&mut self) {
        self.look();
        // Else they belong to a request's body, or to frames of HTTP/2 that may be pings.
        if !self.seen.are_served() && !self.connection.is_http_2() {
            self.is_in_header = true;
            self.has_moved();
        }
    }

    /// Polls the limit because nothing has come. Returns the end of the stream for a connection
    /// that has been idle for too long: hyper then closes it as if the client had.
    pub(super) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.look();
        if self.connection.is_upgraded() {
            return Poll::Pending;
        }
        if self.seen.are_served() {
            // Requests of HTTP/2 may end on another thread, and nothing wakes this task then. So
            // look again from time to time.
            if self.connection.is_http_2() && !self.is_stalled && self.poll_limit(context).is_ready() {
                self.armed = None;
                let _ = self.poll_limit(context);
            }
            return Poll::Pending;
        }
        match ready!(self.poll_limit(context)) {
            Wait::Client if !self.is_stalled => {
                self.end(Wait::Client);
                Poll::Ready(Ok(()))
            }
            wait => Poll::Ready(Err(self.end(wait))),
        }
    }

    /// Notes that some of `bytes` have been written, or polls the limit because none could be.
    pub(super) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Else they are pings and settings, or answer those of the client, which it may send for
        // ever.
        let serves = match &written {
            Poll::Ready(Ok(count)) if self.connection.is_http_2() && !self.is_stalled => {
                bytes.get(..*count).is_none_or(may_serve)
            }
            _ => true,
        };
        if serves { self.poll_written(context, written) } else { written }
    }

    /// Notes that the client takes what is written to it, or polls the limit because it does not.
    pub(super) fn poll_written<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_stalled = false;
            self.has_moved();
            return written;
        }
        self.look();
        if self.connection.is_upgraded() {
            return Poll::Pending;
        }
        if !std::mem::replace(&mut self.is_stalled, true) {
            self.has_moved();
        }
        let wait = ready!(self.poll_limit(context));
        Poll::Ready(Err(self.end(wait)))
    }

    /// Begins to wait for the next request, if the last answer is on its way. hyper flushes after
    /// each answer, and need not read after it.
    pub(super) fn on_flush(&mut self, context: &mut Context<'_>) {
        if std::mem::replace(&mut self.is_stalled, false) {
            self.has_moved();
        }
        self.look();
        let is_waiting = !self.seen.are_served() && !self.connection.is_upgraded();
        if is_waiting && self.armed.is_none() && self.poll_limit(context).is_ready() {
            // The next read says so.
            context.waker().wake_by_ref();
        }
    }

    /// Looks whether requests have begun or ended: then the time counts anew.
    fn look(&mut self) {
        let requests = self.connection.requests();
        if requests != self.seen {
            self.seen = requests;
            self.is_in_header = false;
            self.armed = None;
        }
    }

    /// Notes a sign of the client. It does not give a header more time.
    fn has_moved(&mut self) {
        if self.armed == Some(Wait::Client) {
            self.armed = None;
        }
    }

    fn poll_limit(&mut self, context: &mut Context<'_>) -> Poll<Wait> {
        let settings = &self.connection.settings;
        let (wait, limit) = match settings.header {
            Some(limit) if self.is_in_header && !self.seen.are_served() => (Wait::Header, Some(limit)),
            _ => (Wait::Client, settings.idle),
        };
        let Some(limit) = limit else { return Poll::Pending };
        if self.armed != Some(wait) {
            self.armed = Some(wait);
            self.sleep.reset(limit);
        }
        Pin::new(&mut self.sleep).poll(context).map(|()| wait)
    }

    /// Counts the end of the connection, once, and returns the error for it.
    fn end(&mut self, wait: Wait) -> io::Error {
        let counts = &self.connection.settings.counts;
        let (count, text) = match wait {
            Wait::Header => (&counts.header, "the client did not send a request's header in time"),
            Wait::Client => (&counts.idle, "the client did not take its answer in time"),
        };
        if !std::mem::replace(&mut self.is_over, true) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        io::Error::new(io::ErrorKind::TimedOut, text)
    }
}
