//! The state that the parts of one limited connection share: its limits, and how many requests are
//! being served.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use hyper::{StatusCode, Version};
use tourbillon::Timer;

/// The limits of a server's connections.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) timer: Timer,
    pub(super) header: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) request: Option<(Duration, StatusCode)>,
    pub(super) counts: Arc<Counts>,
}

/// How often each limit has ended something.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) header: AtomicU64,
    pub(super) idle: AtomicU64,
    pub(super) request: AtomicU64,
}

/// One connection. Its stream and its service are two values, which hyper may use on different
/// threads (for HTTP/2). All accesses are `Relaxed`: nothing else is read by what they say, and the
/// stream looks again.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) settings: Settings,
    /// How many requests are being served (the lower 32 bits), and how many have begun or ended
    /// (the upper ones).
    requests: AtomicU64,
    kind: AtomicU8,
}

const HTTP_1: u8 = 0;
const HTTP_2: u8 = 1;
const UPGRADED: u8 = 2;

/// Each request that begins or ends adds this to [`Connection::requests`], above its lower bits.
const CHANGE: u64 = 1 << 32;

/// The requests of a connection at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests(u64);

impl Requests {
    /// Returns whether one is being served.
    pub(super) fn are_served(self) -> bool {
        !self.0.is_multiple_of(CHANGE)
    }
}

impl Connection {
    pub(super) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self { settings, requests: AtomicU64::new(0), kind: AtomicU8::new(HTTP_1) })
    }

    /// Begins to serve a request.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> Serving {
        if version == Version::HTTP_2 && self.kind.load(Ordering::Relaxed) == HTTP_1 {
            self.kind.store(HTTP_2, Ordering::Relaxed);
        }
        self.requests.fetch_add(CHANGE + 1, Ordering::Relaxed);
        Serving(Arc::clone(self))
    }

    /// From now on the connection speaks another protocol. With HTTP/2 one of its streams does, and
    /// nobody is told when that ends: it counts as a request that ends with the connection.
    pub(super) fn upgrade(&self) {
        if self.is_http_2() {
            self.requests.fetch_add(CHANGE + 1, Ordering::Relaxed);
        } else {
            self.kind.store(UPGRADED, Ordering::Relaxed);
        }
    }

    pub(super) fn is_http_2(&self) -> bool {
        self.kind.load(Ordering::Relaxed) == HTTP_2
    }

    pub(super) fn is_upgraded(&self) -> bool {
        self.kind.load(Ordering::Relaxed) == UPGRADED
    }

    pub(super) fn requests(&self) -> Requests {
        Requests(self.requests.load(Ordering::Relaxed))
    }
}

/// A request that is being served, until this is dropped.
#[derive(Debug)]
pub(super) struct Serving(Arc<Connection>);

impl Serving {
    pub(super) fn connection(&self) -> &Connection {
        &self.0
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.requests.fetch_add(CHANGE - 1, Ordering::Relaxed);
    }
}
