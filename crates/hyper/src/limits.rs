//! The limits of a server's connections, as its author sets them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::StatusCode;
use tourbillon::Timer;

use crate::connection::{Connection, Settings};
use crate::io::LimitedIo;
use crate::service::LimitedService;

/// Limits for the connections of a hyper server: how long a client may take to send the header of a
/// request, how long it may be idle, and how long a request may take.
///
/// One value serves all connections. [`apply`](Self::apply) gives a connection its limits. It wraps
/// the stream and the service, so it goes with any builder of hyper and hyper-util, with a graceful
/// shutdown, with upgrades, and with TLS below it.
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
/// use hyper::server::conn::http1;
/// use hyper::service::service_fn;
/// use hyper::{Request, Response, StatusCode, body::Incoming};
/// use tourbillon::Timer;
/// use tourbillon_hyper::Limits;
///
/// async fn hello(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
///     Ok(Response::new("hello".to_owned()))
/// }
///
/// async fn serve<I>(io: I, limits: Limits) -> hyper::Result<()>
/// where
///     I: hyper::rt::Read + hyper::rt::Write + Unpin,
/// {
///     let (io, service) = limits.apply(io, service_fn(hello));
///     http1::Builder::new().serve_connection(io, service).await
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = Limits::new(Timer::new()?)
///     .header(Duration::from_secs(5))
///     .idle(Duration::from_secs(60))
///     .request(Duration::from_secs(30), StatusCode::GATEWAY_TIMEOUT);
/// // For each connection: `tokio::spawn(serve(TokioIo::new(stream), limits.clone()))`.
/// # drop(limits);
/// # Ok(())
/// # }
/// ```
///
/// # What each limit ends
///
/// | limit | its time begins | when it is up |
/// |---|---|---|
/// | [`header`](Self::header) | when the connection begins, and at the first byte of a later request | the connection ends with an error |
/// | [`idle`](Self::idle) | when the last answer has been written, or at the last byte of one that the client took | the connection is closed as if the client had closed it; or, if an answer is still to be written, it ends with an error |
/// | [`request`](Self::request) | when the service has to wait | the request is dropped, and answered with a status |
///
/// A limit that is not set does not exist. Nothing else closes a connection: while the service
/// works on a request, or on the body of its answer, only the limit of the request counts, and only
/// up to the answer. The errors are of [`ErrorKind::TimedOut`](std::io::ErrorKind::TimedOut), in a
/// [`hyper::Error`](hyper::Error) as its source. For a client that has never sent a byte hyper
/// reports no error, and hyper-util's `auto` builder reports the [`std::io::Error`] itself.
///
/// With HTTP/1, what a client still sends of a request's body after the whole answer counts as the
/// header of its next request. So a service that hands the body to another task should not answer
/// before that task has read it, or `header` may end the upload. The beginning of a header that
/// comes with the request before it is not seen: until more of it comes, the connection is idle.
/// With HTTP/2, such an upload is a sign of the client whenever it is given more window.
///
/// hyper's own `header_read_timeout` is not needed. It counts the time between requests, too, and
/// so can't be shorter than the time for which connections are kept.
///
/// # axum
///
/// `axum::serve` has no place for limits of a connection. Serve the router with hyper-util instead,
/// whose `TowerToHyperService::new(router)` is the service. The example
/// `integrations/examples/axum_limits.rs` is a complete server.
///
/// # HTTP/2, upgrades, TLS
///
/// * With HTTP/2 `header` counts up to the first request only. A connection is idle if it has no
///   stream, whatever pings come, and it may be kept for up to twice the time. The client is not
///   sent a GOAWAY. hyper's `keep_alive_interval` finds clients that have gone. Nothing ends a
///   stream whose client leaves its window shut while the service has more to send.
/// * A connection that has been upgraded, or has become a tunnel by CONNECT, has no limits any
///   more. With HTTP/2 a tunnel is one stream of many, and hyper does not say when it ends. So a
///   connection that has had one is never idle. `idle` still ends it if the client takes no byte,
///   and its other requests keep their limit.
/// * A TLS handshake comes before hyper. [`Timer::timeout`] limits it.
///
/// # Costs
///
/// A connection allocates once, and has one timeout, which each step moves. A request that is
/// answered at once moves it once, to a later time, which is one compare-and-swap. A request that
/// the service waits for has a timeout of its own, as with [`Timer::timeout`]. Nothing blocks, but
/// for a worker that is far behind: see [`Sleep`](tourbillon::Sleep). A connection keeps the engine
/// alive. If the engine is shut down, requests that wait are answered with 503 (Service
/// Unavailable), and connections that wait end.
#[derive(Clone, Debug)]
#[must_use = "limits limit nothing until they are applied to a connection"]
pub struct Limits {
    settings: Settings,
}

/// How often the limits have ended something. Made by [`Limits::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitStats {
    /// Connections that did not send a request's header in time.
    pub header: u64,
    /// Connections that were idle for too long, or did not take their answer.
    pub idle: u64,
    /// Requests that took too long, or waited when the engine was shut down.
    pub request: u64,
}

impl Limits {
    /// Makes limits that `timer` measures. None is set at first.
    pub fn new(timer: Timer) -> Self {
        Self { settings: Settings { timer, header: None, idle: None, request: None, counts: Arc::default() } }
    }

    /// Limits the time that a client may take to send the header of a request, its line included.
    /// Slow bytes don't give it more.
    pub fn header(mut self, limit: Duration) -> Self {
        self.settings.header = Some(limit);
        self
    }

    /// Limits the time that a connection may be silent between two requests, and the time that a
    /// client may take no byte of what is written to it.
    pub fn idle(mut self, limit: Duration) -> Self {
        self.settings.idle = Some(limit);
        self
    }

    /// Limits the time of a request up to its response, which includes the time that the service
    /// takes to read the request's body. A request that takes longer is answered with an empty
    /// response of this status. The time that the response's body takes is not limited.
    ///
    /// As with [`Timer::timeout`], the time counts from when the response is first polled and not
    /// ready.
    pub fn request(mut self, limit: Duration, status: StatusCode) -> Self {
        self.settings.request = Some((limit, status));
        self
    }

    /// Gives a connection its limits: to its stream, and to the service that answers its requests.
    /// Both must go to the same `serve_connection`.
    ///
    /// The body of the responses must have a default, which is the body of a late answer. That of
    /// axum has one, and so have `String`, and `BoxBody`, `Full` and `Empty` of http-body-util.
    pub fn apply<I, S>(&self, io: I, service: S) -> (LimitedIo<I>, LimitedService<S>) {
        let connection = Connection::new(self.settings.clone());
        (LimitedIo::new(io, Arc::clone(&connection)), LimitedService::new(service, connection))
    }

    /// Returns how often the limits have ended something, on all connections of this value and of
    /// its clones.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::Timer;
    /// use tourbillon_hyper::Limits;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::new(Timer::new()?).idle(Duration::from_secs(60));
    /// println!("{} connections were idle", limits.stats().idle);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self) -> LimitStats {
        let counts = &self.settings.counts;
        LimitStats {
            header: counts.header.load(Ordering::Relaxed),
            idle: counts.idle.load(Ordering::Relaxed),
            request: counts.request.load(Ordering::Relaxed),
        }
    }
}
