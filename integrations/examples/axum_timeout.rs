//! An axum server that gives each request half a second, measured by Tourbillon. It answers one
//! that takes longer with 504 and an error in JSON.
//!
//! ```toml
//! [dependencies]
//! axum = "0.8"
//! serde = { version = "1", features = ["derive"] }
//! tokio = { version = "1.49", features = ["io-util", "macros", "net", "rt-multi-thread"] }
//! tourbillon = { path = "../tourbillon", features = ["tower"] }
//! ```
//!
//! With an address it serves until it is stopped: `-- 127.0.0.1:7009`, and `curl -i
//! 127.0.0.1:7009/fast 127.0.0.1:7009/slow`. Without one it runs a client of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tourbillon::Timer;
use tourbillon::tower::TimeoutLayer;

const LIMIT: Duration = Duration::from_millis(500);

#[derive(Serialize)]
struct Error {
    error: &'static str,
}

/// The answer to a request that takes too long, and to one that waits in a shutdown of the timer.
fn too_late() -> Response {
    (StatusCode::GATEWAY_TIMEOUT, Json(Error { error: "too late" })).into_response()
}

pub(crate) fn app(timer: &Timer) -> Router {
    let sleeper = timer.clone();
    let slow = async move || {
        sleeper.sleep(Duration::from_secs(5)).await;
        "late\n"
    };
    let limit = TimeoutLayer::with_response(timer.clone(), LIMIT, too_late);
    Router::new().route("/fast", get(async || "here you are\n")).route("/slow", get(slow)).layer(limit)
}

/// Returns the whole answer as the client sees it.
async fn ask(server: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut client = TcpStream::connect(server).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let local = listener.local_addr()?;
    let server = axum::serve(listener, app(&Timer::new()?));
    if address.is_some() {
        return Ok(server.await?);
    }
    tokio::spawn(server.into_future());

    let fast = ask(local, "/fast").await?;
    println!("{fast}");
    assert!(fast.starts_with("HTTP/1.1 200 OK\r\n") && fast.ends_with("here you are\n"));

    let begun = Instant::now();
    let slow = ask(local, "/slow").await?;
    println!("{slow}\nafter {:.1?}", begun.elapsed());
    assert!(begun.elapsed() >= LIMIT);
    assert!(slow.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"));
    assert!(slow.contains("content-type: application/json\r\n") && slow.ends_with(r#"{"error":"too late"}"#));
    Ok(())
}
