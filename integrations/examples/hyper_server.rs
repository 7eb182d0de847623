//! An HTTP server that waits two seconds for a request's header. hyper measures them by Tourbillon.
//! The Tokio runtime has sockets here, and no timer. hyper counts the time between requests, too,
//! so a connection is kept for two seconds at most. The example `axum_limits` tells the two apart.
//!
//! ```text
//! cargo run -p tourbillon-integrations --example hyper_server -- 127.0.0.1:7008
//! nc 127.0.0.1 7008
//! ```
//!
//! Without an address it runs a client that sends half a header, and shows when the server closes
//! it.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tourbillon::Timer;
use tourbillon_integrations::{accept, start};

async fn hello(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new("hello\n".to_owned()))
}

pub(crate) async fn serve(listener: TcpListener, timer: Timer) -> std::io::Result<()> {
    let mut server = http1::Builder::new();
    server.timer(timer.clone()).header_read_timeout(Duration::from_secs(2));
    loop {
        let (stream, peer) = accept(&listener, &timer).await?;
        let connection = server.serve_connection(TokioIo::new(stream), service_fn(hello));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                println!("{peer}: {error}");
            }
        });
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some((_runtime, local)) = start(serve)? else { return Ok(()) };
    let mut slow = std::net::TcpStream::connect(local)?;
    let begun = Instant::now();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: ")?;
    slow.read_to_end(&mut Vec::new())?;
    println!("half a header: closed after {:.2?}", begun.elapsed());
    Ok(())
}
