//! A server that shuts down in order. On ctrl-c or SIGTERM it accepts no more, lets requests end
//! within a second, then gives the engine a little time to run what becomes due, and reports what
//! was left. A second ctrl-c ends it at once.
//!
//! ```toml
//! [dependencies]
//! hyper = { version = "1.8", features = ["http1", "server"] }
//! hyper-util = { version = "0.1.21", features = ["http1", "server-graceful", "tokio"] }
//! nix = { version = "0.31.3", features = ["signal"] }
//! tokio = { version = "1.49", features = ["macros", "net", "rt-multi-thread", "signal"] }
//! tourbillon = { path = "../tourbillon" }
//! ```
//!
//! With an address it serves until a signal comes: `-- 127.0.0.1:7010`, and `curl
//! 127.0.0.1:7010/800`, which takes 800 ms. Without one it sends itself the signal while a request
//! is under way.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use nix::sys::signal::Signal::SIGINT;
use tokio::net::TcpListener;
use tokio::signal::unix::{self, SignalKind};
use tokio::task::JoinSet;
use tourbillon::{Shutdown, Timer};

/// How long requests may take after ctrl-c.
const REQUESTS: Duration = Duration::from_secs(1);
/// How long the engine goes on after them.
const ENGINE: Duration = Duration::from_millis(200);
/// The delay between a request and its line in the log.
const LOG: Duration = Duration::from_millis(100);
const SESSION: Duration = Duration::from_secs(3600);

type Failure = Box<dyn Error + Send + Sync>;

/// Takes as many milliseconds as the path says.
async fn answer(request: Request<Incoming>, timer: Timer) -> Result<Response<String>, Failure> {
    let path = request.uri().path().to_owned();
    timer.sleep(Duration::from_millis(path.trim_start_matches('/').parse().unwrap_or(0))).await;
    // The shutdown must not lose the first timeout, and need not wait for the second.
    timer.schedule_detached(LOG, move || println!("log: {path} was answered"))?;
    timer.schedule_detached(SESSION, || println!("the session is over"))?;
    Ok(Response::new("here you are\n".to_owned()))
}

/// Serves until ctrl-c, and ends.
async fn serve(listener: TcpListener, timer: Timer, signals: [unix::Signal; 2]) -> Result<(), Failure> {
    let [mut ctrl_c, mut terminate] = signals;
    let (requests, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                // A client has gone, or descriptors have run out. Neither ends the server.
                Err(error) => {
                    println!("trying again: {error}");
                    timer.sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            // An error is the client's.
            Some(_) = connections.join_next() => continue,
            _ = ctrl_c.recv() => break,
            _ = terminate.recv() => break,
        };
        let timer = timer.clone();
        let service = service_fn(move |request| answer(request, timer.clone()));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        connections.spawn(requests.watch(connection));
    }
    drop(listener);
    println!("signal: no connection is accepted any more, and requests have {REQUESTS:?} to end");
    tokio::select! {
        ended = end(requests, connections, timer) => ended,
        _ = ctrl_c.recv() => {
            println!("ctrl-c again: not waiting for anything");
            std::process::exit(130)
        }
    }
}

async fn end<T: 'static>(requests: GracefulShutdown, mut connections: JoinSet<T>, timer: Timer) -> Result<(), Failure> {
    match timer.timeout(REQUESTS, requests.shutdown()).await {
        Ok(()) => println!("all requests have ended"),
        Err(elapsed) => {
            while connections.try_join_next().is_some() {}
            println!("requests that are cut off: {} ({elapsed})", connections.len());
        }
    }
    // The connections end before the engine does, whose shutdown ends what still sleeps.
    connections.shutdown().await;
    let left = timer.shutdown_async(Shutdown::Drain(ENGINE)).await?;
    println!("timeouts that are left: {}", left.len());
    for unfired in left {
        println!("  one is due in {:.0?}", unfired.deadline().saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// A client whose request is under way when the signal comes.
fn show(address: SocketAddr) -> io::Result<()> {
    let begun = Instant::now();
    let mut client = TcpStream::connect(address)?;
    write!(client, "GET /500 HTTP/1.1\r\nHost: a\r\n\r\n")?;
    thread::sleep(Duration::from_millis(200));
    nix::sys::signal::raise(SIGINT)?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    let status = answer.lines().next().unwrap_or("nothing");
    println!("the request that was under way: {status} after {:.0?}", begun.elapsed());
    println!("one that comes later: {:?}", TcpStream::connect(address).map_err(|error| error.kind()));
    if status.ends_with("200 OK") { Ok(()) } else { Err(io::Error::other("the request was not answered")) }
}

fn main() -> Result<(), Failure> {
    let address = std::env::args().nth(1);
    // No `enable_time`. Signals come through the same driver as sockets.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
        let local = listener.local_addr()?;
        // From here on these do not end the process by themselves.
        let signals = [unix::signal(SignalKind::interrupt())?, unix::signal(SignalKind::terminate())?];
        let client = address.is_none().then(|| thread::spawn(move || show(local)));
        serve(listener, Timer::new()?, signals).await?;
        Ok(client.map_or(Ok(()), |client| client.join().expect("it does not panic"))?)
    })
}
