//! W10: servers, which users put a timer into. An echo server and an HTTP server run on Tokio, with
//! limits of ours, of Tokio's, or none. The load comes from another process.
//!
//! Each request of the echo arms a limit for the read and one for the write. Each request of HTTP
//! arms hyper's limit for the head and one round the handler, which is not ready at once. Nothing
//! ever fires, as in a healthy server.

mod limits;
mod load;

use std::convert::Infallible;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
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

pub(crate) use load::{Load, Seen, ServerLoadArgs, Until, run as run_load, send};

use super::names::Name;
use crate::compare::cases::Work;
use crate::compare::child::Metrics;
use crate::compare::job::Job;
use crate::connections::accept;
use crate::process::CpuTime;
use limits::{Limits, None as NoLimits, Ours, Tokios};
use load::send_from_outside;

/// How long the load lasts.
const LOAD: Duration = Duration::from_secs(5);
const HEAD: Duration = Duration::from_secs(30);
const REQUEST: Duration = Duration::from_secs(10);
const READ: Duration = Duration::from_secs(60);

/// Runs the server in this process, and the load in another.
pub(in crate::compare) fn measure(name: Name, job: &Job) -> Result<Metrics> {
    let Work::Server { http } = job.case.work else { bail!("{} is no server", job.case.id) };
    let connections = job.timeouts();
    rlimit::increase_nofile_limit(u64::MAX).context("cannot raise the limit of open files")?;
    let timers = match name {
        Name::TourbillonFuture => ServerTimers::Tourbillon,
        Name::Tokio => ServerTimers::Tokio,
        _ => ServerTimers::None,
    };
    let (runtime, address) = serve(timers, http, (Ipv4Addr::LOCALHOST, 0).into(), None)?;
    let time = job.time(LOAD).max(Duration::from_secs(1));
    let before = CpuTime::now();
    let path = http.then(|| "/".to_owned());
    let seen: Seen = send_from_outside(&Load { address, path, connections, until: Until::Time(time) })?;
    let cpu_s = CpuTime::now().since(before).total_s();
    runtime.shutdown_background();
    Ok(Metrics::of([
        ("rps", seen.requests as f64 / seen.seconds),
        ("p50_ms", seen.p50_ms),
        ("p99_ms", seen.p99_ms),
        ("p999_ms", seen.p999_ms),
        ("cpu_us", cpu_s * 1e6 / seen.requests.max(1) as f64),
    ]))
}

/// Whose limits a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerTimers {
    Tourbillon,
    Tokio,
    None,
}

impl fmt::Display for ServerTimers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

/// Starts a server, which goes on until its runtime is dropped. Returns where it listens.
pub(crate) fn serve(
    timers: ServerTimers,
    http: bool,
    address: SocketAddr,
    threads: Option<usize>,
) -> Result<(Runtime, SocketAddr)> {
    match timers {
        ServerTimers::Tourbillon => start(Ours::start()?, http, address, threads),
        ServerTimers::Tokio => start(Tokios, http, address, threads),
        ServerTimers::None => start(NoLimits, http, address, threads),
    }
}

/// Starts a server on as many threads, or on one for each core.
fn start<L: Limits>(
    limits: L,
    http: bool,
    address: SocketAddr,
    threads: Option<usize>,
) -> Result<(Runtime, SocketAddr)> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_io();
    if L::OF_TOKIO {
        builder.enable_time();
    }
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    let runtime = builder.build().context("no tokio runtime")?;
    let listener = runtime.block_on(TcpListener::bind(address)).context("cannot listen")?;
    let address = listener.local_addr().context("a listener has an address")?;
    runtime.spawn(listen(listener, limits, http));
    Ok((runtime, address))
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
        let Ok(Ok(read @ 1..)) = limits.limit(READ, stream.read(&mut buffer)).await else { return };
        let Ok(Ok(())) = limits.limit(REQUEST, stream.write_all(&buffer[..read])).await else { return };
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
                Ok(body) => (200, body),
                Err(limits::Over) => (504, Full::default()),
            };
            Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap_or_default())
        }
    });
    let mut server = http1::Builder::new();
    limits.give_to(&mut server, HEAD);
    // An error is the client's, as above.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}
