//! The engine as the timer of QUIC connections. (Feature `quinn`.)
//!
//! A connection of quinn has one timer, and resets it with almost every packet. Most resets are to
//! a later time, which costs one compare-and-swap here.
//!
//! ```
//! use std::net::UdpSocket;
//! use std::sync::Arc;
//! use quinn::{Endpoint, EndpointConfig, TokioRuntime};
//! use tourbillon::Timer;
//!
//! /// A client with Tokio's tasks and sockets, and Tourbillon's timers. Must be called within a
//! /// Tokio runtime, which needs no timers of its own.
//! fn client(timer: &Timer, config: EndpointConfig) -> std::io::Result<Endpoint> {
//!     let runtime = tourbillon::quinn::Runtime::new(timer.clone(), Arc::new(TokioRuntime));
//!     let socket = UdpSocket::bind("0.0.0.0:0")?;
//!     Endpoint::new(config, None, socket, Arc::new(runtime))
//! }
//! ```

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use ::quinn::{AsyncTimer, AsyncUdpSocket};

use crate::future::Sleep;
use crate::timer::Timer;

/// Another runtime, with the timers and the time of an engine. For `quinn::Endpoint::new`.
///
/// A new timer is a [`Sleep`] in a box. [`Sleep`] says when a poll may wait, and how timers behave
/// while the engine is full, or after it has been shut down. Connections should end before their
/// engine does.
#[derive(Clone, Debug)]
pub struct Runtime {
    timer: Timer,
    others: Arc<dyn ::quinn::Runtime>,
}

impl Runtime {
    /// Makes a runtime that takes timers and the time from `timer`, and all else from `runtime`.
    #[must_use]
    pub fn new(timer: Timer, runtime: Arc<dyn ::quinn::Runtime>) -> Self {
        Self { timer, others: runtime }
    }
}

impl ::quinn::Runtime for Runtime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(self.timer.sleep_until(deadline))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.others.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        self.others.wrap_udp_socket(socket)
    }

    /// Returns the time of the engine's clock, by which its timers become ready. A
    /// [`ManualClock`](crate::ManualClock) thus moves connections' time, too.
    fn now(&self) -> Instant {
        self.timer.now()
    }
}

impl AsyncTimer for Sleep {
    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_at(deadline);
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, context)
    }
}
