//! An axum server that gives each request a second, measured by Tourbillon, and answers 408 to
//! those that take longer.
//!
//! ```text
//! cargo run -p tourbillon-integrations --example axum_timeout -- 127.0.0.1:7009
//! curl -i 127.0.0.1:7009/fast 127.0.0.1:7009/slow
//! ```
//!
//! Without an address it runs a client of its own, and shows the answers.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::{Router, routing::get};
use tokio::net::TcpListener;
use tourbillon::Timer;
use tourbillon::tower::TimeoutLayer;
use tourbillon_integrations::{Listener, start};

fn app(timer: &Timer) -> Router {
    let sleeper = timer.clone();
    let slow = async move || {
        sleeper.sleep(Duration::from_secs(5)).await;
        "late\n"
    };
    let limit = TimeoutLayer::with_status(timer.clone(), Duration::from_secs(1), StatusCode::REQUEST_TIMEOUT);
    Router::new().route("/fast", get(async || "here you are\n")).route("/slow", get(slow)).layer(limit)
}

pub(crate) async fn serve(listener: TcpListener, timer: Timer) -> std::io::Result<()> {
    let app = app(&timer);
    axum::serve(Listener::new(listener, timer), app).await
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some((_runtime, local)) = start(serve)? else { return Ok(()) };
    for path in ["/fast", "/slow"] {
        let mut client = std::net::TcpStream::connect(local)?;
        let begun = Instant::now();
        write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        println!("{path}: {} after {:.2?}", answer.lines().next().unwrap_or("nothing"), begun.elapsed());
    }
    Ok(())
}
