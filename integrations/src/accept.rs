//! How a server accepts connections. Neither a client that fails nor a shortage of descriptors ends
//! it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tourbillon::Timer;

mod errors;

use errors::{Next, PAUSE};

/// Returns the next connection. While there are no descriptors for it, tries again from time to
/// time, by this timer.
///
/// Dropping the future loses no connection.
///
/// # Errors
///
/// The listener is broken, and no connection will ever come.
pub async fn accept(listener: &TcpListener, timer: &Timer) -> io::Result<(TcpStream, SocketAddr)> {
    let mut said = false;
    loop {
        match listener.accept().await {
            Ok(accepted) => return Ok(accepted),
            Err(error) => match errors::after(&error) {
                Next::Skip => {}
                Next::Wait => {
                    say_once(&mut said, &error);
                    timer.sleep(PAUSE).await;
                }
                Next::Fail => return Err(error),
            },
        }
    }
}

fn say_once(said: &mut bool, error: &io::Error) {
    if !std::mem::replace(said, true) {
        eprintln!("trying to accept every {PAUSE:?} from now on: {error}");
    }
}

/// A listener for `axum::serve`. axum's own sleeps by Tokio's timer when descriptors run out, and
/// panics if the runtime has none.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    timer: Timer,
}

impl Listener {
    /// Sleeps by this timer.
    #[must_use]
    pub fn new(listener: TcpListener, timer: Timer) -> Self {
        Self { listener, timer }
    }
}

impl axum::serve::Listener for Listener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match accept(&self.listener, &self.timer).await {
                Ok(accepted) => return accepted,
                // axum takes no error, so the listener reports it to the operator, again and again.
                Err(error) => {
                    eprintln!("no connection can be accepted: {error}");
                    self.timer.sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
