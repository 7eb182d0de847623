//! An HTTP server that waits half a second for a request's header. hyper measures it by Tourbillon.
//! The Tokio runtime has sockets here, and no timer. hyper counts the time between requests, too,
//! so a connection is kept for half a second at most. `axum_limits` tells the two apart.
//!
//! ```toml
//! [dependencies]
//! hyper = { version = "1.8", features = ["http1", "server"] }
//! hyper-util = { version = "0.1.21", features = ["tokio"] }
//! tokio = { version = "1.49", features = ["io-util", "net", "rt-multi-thread"] }
//! tourbillon = { path = "../tourbillon", features = ["hyper"] }
//! ```
//!
//! With an address it serves until it is stopped: `-- 127.0.0.1:7008`, and `nc 127.0.0.1 7008`.
//! Without one it runs a client that sends half a header.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tourbillon::Timer;

const HEADER: Duration = Duration::from_millis(500);

async fn hello(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new("hello\n".to_owned()))
}

pub(crate) async fn serve(listener: TcpListener, timer: Timer) {
    let mut server = http1::Builder::new();
    server.timer(timer.clone()).header_read_timeout(HEADER);
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
        let connection = server.serve_connection(TokioIo::new(stream), service_fn(hello));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                println!("{peer}: {error}");
            }
        });
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    // No `enable_time`.
    Builder::new_multi_thread().enable_io().build()?.block_on(async {
        let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
        let local = listener.local_addr()?;
        let server = tokio::spawn(serve(listener, Timer::new()?));
        if address.is_some() {
            return Ok(server.await?);
        }
        let mut client = TcpStream::connect(local).await?;
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await?;
        let mut status = [0; 15];
        client.read_exact(&mut status).await?;
        assert_eq!(&status, b"HTTP/1.1 200 OK");

        let begun = Instant::now();
        let mut slow = TcpStream::connect(local).await?;
        slow.write_all(b"GET / HTTP/1.1\r\nHost: ").await?;
        slow.read_to_end(&mut Vec::new()).await?;
        println!("half a header: closed after {:.2?}", begun.elapsed());
        assert!(begun.elapsed() >= HEADER);
        Ok(())
    })
}
