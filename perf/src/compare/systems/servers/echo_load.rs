//! Clients of the echo server, in a process of their own: each sends 64 bytes, waits for them, and
//! sends again.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::Barrier;

use super::load::Load;
use crate::verdict::Verdict;

/// Not for people.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct EchoArgs {
    address: SocketAddr,
    connections: usize,
    seconds: f64,
}

/// What the clients saw.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    requests: u64,
    seconds: f64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    errors: u64,
}

/// Starts the process, and reads what it says.
pub(super) fn start(address: SocketAddr, connections: usize, time: Duration) -> Result<Load> {
    let args = EchoArgs { address, connections, seconds: time.as_secs_f64() };
    // A test's own program is another.
    let seen = if cfg!(test) { see(args) } else { see_from_outside(args) }?;
    let ms = |ns: u64| ns as f64 / 1e6;
    Ok(Load {
        requests: seen.requests as f64,
        seconds: seen.seconds,
        p50_ms: ms(seen.p50_ns),
        p99_ms: ms(seen.p99_ns),
        p999_ms: ms(seen.p999_ns),
        errors: seen.errors as f64,
    })
}

fn see_from_outside(args: EchoArgs) -> Result<Seen> {
    let program = std::env::current_exe().context("where is this program?")?;
    let arguments = [args.address.to_string(), args.connections.to_string(), args.seconds.to_string()];
    let output = Command::new(program).arg("echo-load").args(arguments).output().context("cannot start the clients")?;
    ensure!(output.status.success(), "the clients failed: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("the clients say what can't be read")
}

/// The clients themselves, on one thread.
fn see(args: EchoArgs) -> Result<Seen> {
    rlimit::increase_nofile_limit(u64::MAX).context("cannot raise the limit of open files")?;
    let runtime = Builder::new_current_thread().enable_all().build().context("no tokio runtime")?;
    runtime.block_on(speak(args))
}

/// The same as a process.
pub(crate) fn run(args: &EchoArgs) -> Result<Verdict> {
    println!("{}", serde_json::to_string(&see(*args)?)?);
    Ok(Verdict::Passed)
}

async fn speak(args: EchoArgs) -> Result<Seen> {
    let (over, errors) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let all_there = Arc::new(Barrier::new(args.connections + 1));
    let mut clients = Vec::with_capacity(args.connections);
    for _ in 0..args.connections {
        // One after the other, so that the listener's queue does not overflow.
        let stream = TcpStream::connect(args.address).await.context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        let (over, errors, all_there) = (Arc::clone(&over), Arc::clone(&errors), Arc::clone(&all_there));
        clients.push(tokio::spawn(async move {
            all_there.wait().await;
            let mut histogram = Histogram::<u64>::new(3).expect("three digits can be had");
            if client(stream, &over, &mut histogram).await.is_err() {
                errors.fetch_add(1, Ordering::Relaxed);
            }
            histogram
        }));
    }
    all_there.wait().await;
    let since = Instant::now();
    tokio::time::sleep(Duration::from_secs_f64(args.seconds)).await;
    over.store(true, Ordering::Relaxed);
    let seconds = since.elapsed().as_secs_f64();
    let mut sum = Histogram::<u64>::new(3)?;
    for client in clients {
        sum.add(client.await.context("a client panicked")?)?;
    }
    ensure!(sum.is_empty() || sum.max() > 1_000, "no answer takes less than a microsecond: {} ns", sum.max());
    let at = |quantile| sum.value_at_quantile(quantile);
    let errors = errors.load(Ordering::Relaxed);
    Ok(Seen { requests: sum.len(), seconds, p50_ns: at(0.5), p99_ns: at(0.99), p999_ns: at(0.999), errors })
}

async fn client(mut stream: TcpStream, over: &AtomicBool, histogram: &mut Histogram<u64>) -> Result<()> {
    let message = [7; 64];
    let mut answer = [0; 64];
    while !over.load(Ordering::Relaxed) {
        let since = Instant::now();
        stream.write_all(&message).await?;
        stream.read_exact(&mut answer).await?;
        ensure!(answer == message, "the echo is another's");
        // It grows as far as it has to: what saturates is what it holds as yet.
        histogram.record(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX))?;
    }
    Ok(())
}
