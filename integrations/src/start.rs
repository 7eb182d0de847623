//! How the examples of HTTP servers start.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tourbillon::Timer;

/// Starts a server on a runtime without a time driver.
///
/// If the command line has an address, the server listens there, and this returns `None` when it
/// has ended. Otherwise it listens at some address, for as long as the caller keeps the runtime,
/// and this returns both.
///
/// # Errors
///
/// The address is none or can't be had, or the server has failed.
pub fn start<F>(serve: impl FnOnce(TcpListener, Timer) -> F) -> Result<Option<(Runtime, SocketAddr)>, Box<dyn Error>>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let address = std::env::args().nth(1);
    // No `enable_time`.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build()?;
    let listener = runtime.block_on(TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")))?;
    let local = listener.local_addr()?;
    let server = runtime.spawn(serve(listener, Timer::new()?));
    if address.is_some() {
        runtime.block_on(server)??;
        return Ok(None);
    }
    Ok(Some((runtime, local)))
}
