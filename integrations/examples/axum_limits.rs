//! An axum server that also limits its connections, which `axum::serve` cannot do: hyper-util
//! serves the router, and `Limits` ends a connection whose client sends no header within 0.3 s, or
//! is idle for 0.6 s. A request that takes longer than 0.4 s is answered with 504.
//!
//! ```toml
//! [dependencies]
//! axum = "0.8"
//! hyper-util = { version = "0.1.21", features = ["http2", "server-auto", "service", "tokio"] }
//! tokio = { version = "1.49", features = ["io-util", "macros", "net", "rt-multi-thread"] }
//! tourbillon = { path = "../tourbillon" }
//! tourbillon-hyper = { path = "../tourbillon/crates/hyper" }
//! ```
//!
//! With an address it serves until it is stopped: `-- 127.0.0.1:7011`, `nc 127.0.0.1 7011`, and
//! `curl -i 127.0.0.1:7011/slow`. Without one it runs clients of its own.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::{Router, routing::get};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tourbillon::Timer;
use tourbillon_hyper::Limits;

const HEADER: Duration = Duration::from_millis(300);
const REQUEST: Duration = Duration::from_millis(400);
const IDLE: Duration = Duration::from_millis(600);

fn app(timer: Timer) -> Router {
    let slow = async move || {
        timer.sleep(Duration::from_secs(5)).await;
        "late\n"
    };
    Router::new().route("/fast", get(async || "here you are\n")).route("/slow", get(slow))
}

async fn serve(listener: TcpListener, timer: Timer) {
    let app = app(timer.clone());
    let limits = Limits::new(timer.clone()).header(HEADER).idle(IDLE).request(REQUEST, StatusCode::GATEWAY_TIMEOUT);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // A client has gone, or descriptors have run out. Neither ends the server.
            Err(error) => {
                println!("trying again: {error}");
                timer.sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (io, service) = limits.apply(TokioIo::new(stream), TowerToHyperService::new(app.clone()));
        tokio::spawn(async move {
            // HTTP/1 and HTTP/2, with WebSockets and the like.
            let server = auto::Builder::new(TokioExecutor::new());
            if let Err(error) = server.serve_connection_with_upgrades(io, service).await {
                // hyper's error reads `connection error`. Its source says which limit it was.
                println!("{peer}: {}", error.source().map_or_else(|| error.to_string(), ToString::to_string));
            }
        });
    }
}

/// Sends some bytes, and asserts how the answer begins, and that the connection ends by the limit.
async fn show(server: SocketAddr, name: &str, bytes: &str, answered: &str, limit: Duration) -> io::Result<()> {
    let begun = Instant::now();
    let mut client = TcpStream::connect(server).await?;
    client.write_all(bytes.as_bytes()).await?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await?;
    println!("{name}: {:?}, closed after {:.2?}", answer.lines().next(), begun.elapsed());
    assert!(answer.starts_with(answered) && (answer.is_empty() == answered.is_empty()), "{answer}");
    assert!(begun.elapsed() >= limit);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let local = listener.local_addr()?;
    let server = tokio::spawn(serve(listener, Timer::new()?));
    if address.is_some() {
        return Ok(server.await?);
    }
    show(local, "half a header", "GET /fast HTTP/1.1\r\nHost: ", "", HEADER).await?;
    let slow = "GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    show(local, "a request that is too slow", slow, "HTTP/1.1 504", REQUEST).await?;
    let once = "GET /fast HTTP/1.1\r\nHost: a\r\n\r\n";
    show(local, "a client that asks once, and is idle", once, "HTTP/1.1 200", IDLE).await?;
    Ok(())
}
