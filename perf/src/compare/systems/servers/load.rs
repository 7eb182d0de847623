//! Clients of a server, in a process of their own: each sends a request, waits for the answer, and
//! sends again.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::Barrier;

use crate::Verdict;

/// When the load ends.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Until {
    Time(Duration),
    /// So many have been answered, of all connections together.
    Requests(usize),
}

/// What to send.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    /// What is asked for by HTTP; `None`: 64 bytes, which come back.
    pub(crate) path: Option<String>,
    pub(crate) connections: usize,
    pub(crate) until: Until,
}

/// What the clients saw.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
}

/// Not for people.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerLoadArgs {
    /// As JSON.
    load: String,
}

/// The clients as a process.
pub(crate) fn run(args: &ServerLoadArgs) -> Result<Verdict> {
    println!("{}", serde_json::to_string(&send(&serde_json::from_str(&args.load)?)?)?);
    Ok(Verdict::Passed)
}

/// Sends from another process, so that the clients' processor time is not the server's.
pub(super) fn send_from_outside(load: &Load) -> Result<Seen> {
    // A test's own program is another.
    if cfg!(test) {
        return send(load);
    }
    let program = std::env::current_exe().context("where is this program?")?;
    let output = Command::new(program).args(["server-load", &serde_json::to_string(load)?]).output();
    let output = output.context("cannot start the clients")?;
    ensure!(output.status.success(), "the clients failed: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("the clients say what can't be read")
}

/// Sends, on one thread.
///
/// # Errors
///
/// If a request is not answered as it should be.
pub(crate) fn send(load: &Load) -> Result<Seen> {
    rlimit::increase_nofile_limit(u64::MAX).context("cannot raise the limit of open files")?;
    Builder::new_current_thread().enable_all().build().context("no tokio runtime")?.block_on(speak(load))
}

async fn speak(load: &Load) -> Result<Seen> {
    let all_there = Arc::new(Barrier::new(load.connections + 1));
    let mut clients = Vec::with_capacity(load.connections);
    for at in 0..load.connections {
        // One after the other, so that the listener's queue does not overflow.
        let stream = TcpStream::connect(load.address).await.context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        let (mut client, until) = (Client::new(stream, load.path.clone()).await?, load.until);
        let (connections, all_there) = (load.connections, Arc::clone(&all_there));
        clients.push(tokio::spawn(async move {
            all_there.wait().await;
            let (begin, mut histogram) = (Instant::now(), Histogram::<u64>::new(3)?);
            let goes_on = |done: u64| match until {
                Until::Time(length) => begin.elapsed() < length,
                // The first few make one more if it does not come out even.
                Until::Requests(all) => done < (all / connections + usize::from(at < all % connections)) as u64,
            };
            while goes_on(histogram.len()) {
                let since = Instant::now();
                client.ask().await?;
                histogram.record(u64::try_from(since.elapsed().as_nanos())?)?;
            }
            anyhow::Ok(histogram)
        }));
    }
    all_there.wait().await;
    let since = Instant::now();
    let mut sum = Histogram::<u64>::new(3)?;
    for client in clients {
        sum.add(client.await.context("a client panicked")??)?;
    }
    let ms = |quantile| sum.value_at_quantile(quantile) as f64 / 1e6;
    let (p50_ms, p99_ms, p999_ms) = (ms(0.5), ms(0.99), ms(0.999));
    Ok(Seen { requests: sum.len(), seconds: since.elapsed().as_secs_f64(), p50_ms, p99_ms, p999_ms })
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
