//! Clients of a server: each sends a request, waits for the answer, and sends again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::Barrier;

/// The requests to send.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) address: SocketAddr,
    /// The path of the HTTP requests; `None`: 64 bytes, which come back.
    pub(super) path: Option<String>,
    pub(super) connections: usize,
    /// Of all connections together.
    pub(super) requests: usize,
}

/// Sends, on one thread. Returns how many seconds it took.
///
/// # Errors
///
/// If a request is not answered as it should be.
pub(super) fn send(load: &Load) -> Result<f64> {
    rlimit::increase_nofile_limit(u64::MAX).context("cannot raise the limit of open files")?;
    Builder::new_current_thread().enable_all().build().context("no tokio runtime")?.block_on(speak(load))
}

async fn speak(load: &Load) -> Result<f64> {
    let all_there = Arc::new(Barrier::new(load.connections + 1));
    let mut clients = Vec::with_capacity(load.connections);
    for at in 0..load.connections {
        // One after the other, so that the listener's queue does not overflow.
        let stream = TcpStream::connect(load.address).await.context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        let mut client = Client::new(stream, load.path.clone()).await?;
        let all_there = Arc::clone(&all_there);
        // The first few make one more if it does not come out even.
        let requests = load.requests / load.connections + usize::from(at < load.requests % load.connections);
        clients.push(tokio::spawn(async move {
            all_there.wait().await;
            for _ in 0..requests {
                client.ask().await?;
            }
            anyhow::Ok(())
        }));
    }
    all_there.wait().await;
    let since = Instant::now();
    for client in clients {
        client.await.context("a client panicked")??;
    }
    Ok(since.elapsed().as_secs_f64())
}

enum Client {
    Echo(TcpStream),
    Http(SendRequest<Empty<Bytes>>, String),
}

impl Client {
    async fn new(stream: TcpStream, path: Option<String>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self::Echo(stream)) };
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self::Http(sender, path))
    }

    async fn ask(&mut self) -> Result<()> {
        match self {
            Self::Echo(stream) => {
                let (message, mut answer) = ([7; 64], [0; 64]);
                stream.write_all(&message).await?;
                stream.read_exact(&mut answer).await?;
                ensure!(answer == message, "the echo is another's");
            }
            Self::Http(sender, path) => {
                let request = Request::get(path.as_str()).header("host", "localhost").body(Empty::new())?;
                sender.ready().await.context("the server closed the connection")?;
                let answer = sender.send_request(request).await.context("no answer")?;
                ensure!(answer.status().is_success(), "the server answers {}", answer.status());
                ensure!(!answer.into_body().collect().await?.to_bytes().is_empty(), "the answer is empty");
            }
        }
        Ok(())
    }
}
