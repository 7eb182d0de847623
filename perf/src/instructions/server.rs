//! The servers that are counted: an echo server and an HTTP server on Tokio, with limits of ours,
//! of Tokio's, or none.
//!
//! Each request of the echo arms a limit for the read and one for the write. Each request of HTTP
//! arms hyper's limit for the head and one round the handler, which is not ready at once. Nothing
//! ever fires, as in a healthy server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use super::limits::{Limits, Ours, Tokios, Unlimited};
use crate::connections::accept;
use crate::process::OWN_THREADS;

const HEAD: Duration = Duration::from_secs(30);
const REQUEST: Duration = Duration::from_secs(10);
const READ: Duration = Duration::from_secs(60);

/// The timers that a server's limits use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerTimers {
    Tourbillon,
    Tokio,
    None,
}

/// Starts a server on one thread, which goes on until its runtime is dropped.
pub(crate) fn serve(timers: ServerTimers, http: bool, address: SocketAddr) -> Result<Runtime> {
    match timers {
        ServerTimers::Tourbillon => start(Ours::start()?, http, address),
        ServerTimers::Tokio => start(Tokios, http, address),
        ServerTimers::None => start(Unlimited, http, address),
    }
}

fn start<L: Limits>(limits: L, http: bool, address: SocketAddr) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).thread_name(format!("{OWN_THREADS}server")).enable_io();
    if L::OF_TOKIO {
        builder.enable_time();
    }
    let runtime = builder.build().context("no tokio runtime")?;
    let listener = runtime.block_on(TcpListener::bind(address)).context("cannot listen")?;
    runtime.spawn(listen(listener, limits, http));
    Ok(runtime)
}

async fn listen<L: Limits>(listener: TcpListener, limits: L, http: bool) {
    loop {
        let stream = match accept(&listener).await {
            Ok(stream) => stream,
            Err(why) => return eprintln!("{why:#}"),
        };
        let _ = stream.set_nodelay(true);
        if http {
            tokio::spawn(serve_http(stream, limits.clone()));
        } else {
            tokio::spawn(echo(stream, limits.clone()));
        }
    }
}

async fn echo<L: Limits>(mut stream: TcpStream, limits: L) {
    let mut buffer = [0; 1024];
    loop {
        let Some(Ok(read @ 1..)) = limits.limit(READ, stream.read(&mut buffer)).await else { return };
        let Some(Ok(())) = limits.limit(REQUEST, stream.write_all(&buffer[..read])).await else { return };
    }
}

async fn serve_http<L: Limits>(stream: TcpStream, limits: L) {
    let service = service_fn(|_: Request<Incoming>| {
        let answer = limits.limit(REQUEST, async {
            // As if something were waited for: a limit round what is ready at once costs nothing to
            // speak of.
            tokio::task::yield_now().await;
            Full::new(Bytes::from_static(b"Hello, world!"))
        });
        async move {
            let (status, body) = match answer.await {
                Some(body) => (200, body),
                None => (504, Full::default()),
            };
            Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap_or_default())
        }
    });
    let mut server = http1::Builder::new();
    limits.give_to(&mut server, HEAD);
    // An error is the client's, as above.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}
