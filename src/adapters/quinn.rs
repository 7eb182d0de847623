//! The engine as the timer of QUIC connections. (Feature `quinn`.)
//!
//! A connection of quinn has one timer, which is moved with almost every packet: to later, mostly, which is one compare-and-swap here.
//!
//! ```
//! use std::net::UdpSocket;
//! use std::sync::Arc;
//! use quinn::{Endpoint, EndpointConfig, TokioRuntime};
//! use tourbillon::Timer;
//!
//! /// A client: Tokio's tasks and sockets, our timers. Called within a Tokio runtime, which needs no timers of its own.
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

use crate::{Sleep, Timer};

/// Another runtime, with the timers and the time of an engine: for `quinn::Endpoint::new`.
///
/// A new timer is a [`Sleep`] in a box. Nothing of the engine blocks. While the engine is full, or once it has been shut down, timers are as
/// [`Sleep`] says: connections should end before their engine does.
#[derive(Clone, Debug)]
pub struct Runtime {
    timer: Timer,
    others: Arc<dyn ::quinn::Runtime>,
}

impl Runtime {
    /// What `runtime` is, but for the time, which is `timer`'s.
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

    /// What the engine's clock says, by which its timers are ready: a [`ManualClock`](crate::ManualClock) moves connections' time, too.
    fn now(&self) -> Instant {
        self.timer.now()
    }
}

#[cfg_attr(docsrs, doc(cfg(feature = "quinn")))]
impl AsyncTimer for Sleep {
    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_at(deadline);
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, context)
    }
}
