//! An axum server that also limits its connections, which `axum::serve` cannot do: hyper-util
//! serves the router, and `Limits` ends a connection whose client sends no header within a second,
//! or is idle for two. A request that takes longer than half a second is answered with 504.
//!
//! ```text
//! cargo run -p tourbillon-integrations --example axum_limits -- 127.0.0.1:7011
//! nc 127.0.0.1 7011
//! curl -i 127.0.0.1:7011/slow
//! ```
//!
//! Without an address it runs clients of its own, and shows when each limit fires.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::{Router, routing::get};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tourbillon::Timer;
use tourbillon_hyper::Limits;
use tourbillon_integrations::{accept, start};

fn app(timer: Timer) -> Router {
    let slow = async move || {
        timer.sleep(Duration::from_secs(5)).await;
        "late\n"
    };
    Router::new().route("/fast", get(async || "here you are\n")).route("/slow", get(slow))
}

async fn serve(listener: TcpListener, timer: Timer) -> io::Result<()> {
    let app = app(timer.clone());
    let limits = Limits::new(timer.clone())
        .header(Duration::from_secs(1))
        .idle(Duration::from_secs(2))
        .request(Duration::from_millis(500), StatusCode::GATEWAY_TIMEOUT);
    loop {
        let (stream, peer) = accept(&listener, &timer).await?;
        let (io, service) = limits.apply(TokioIo::new(stream), TowerToHyperService::new(app.clone()));
        tokio::spawn(async move {
            // HTTP/1 and HTTP/2, with WebSockets and the like.
            let server = auto::Builder::new(TokioExecutor::new());
            if let Err(error) = server.serve_connection_with_upgrades(io, service).await {
                // What hyper says is `connection error`. Its source says which limit it was.
                println!("{peer}: {}", error.source().map_or_else(|| error.to_string(), ToString::to_string));
            }
        });
    }
}

/// Sends some bytes, and shows how the connection ends.
fn show(address: SocketAddr, name: &str, bytes: &str) -> io::Result<()> {
    let begun = Instant::now();
    let mut client = std::net::TcpStream::connect(address)?;
    client.write_all(bytes.as_bytes())?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    let status = answer.lines().next().unwrap_or("no answer");
    println!("{name}: {status}, closed after {:.2?}", begun.elapsed());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some((_runtime, local)) = start(serve)? else { return Ok(()) };
    show(local, "half a header", "GET /fast HTTP/1.1\r\nHost: ")?;
    show(local, "a request that is too slow", "GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    show(local, "a client that asks once, and is idle", "GET /fast HTTP/1.1\r\nHost: a\r\n\r\n")?;
    Ok(())
}
