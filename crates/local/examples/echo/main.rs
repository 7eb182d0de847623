//! Echo servers with an idle timeout, on monoio, compio and glommio, with the runtime's timers and
//! with Tourbillon's. Without `--serve` it measures them, one after the other, in turn.
//!
//! ```text
//! cargo run --release -p tourbillon-local --all-features --example echo -- --json echo.jsonl
//! ```
//!
//! A server has one thread, and pushes the timeout of a connection out at every read. If the
//! timeout fires, it closes the connection. The server is a process on a core of its own. The
//! client is on another core. Most of its connections send one message after the other, as fast as
//! they can. Some stop now and then, and wait until the server closes them.

mod client;
mod limits;
mod measure;
mod on_compio;
mod on_glommio;
mod on_monoio;
mod server;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};

use server::Server;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Runtime {
    Monoio,
    Compio,
    Glommio,
}

/// How a server limits each read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Timers {
    /// Not at all
    None,
    /// The runtime's `timeout` around each read
    Runtime,
    /// One sleep of the runtime for each connection, reset at each read; compio has none
    RuntimeReset,
    /// One `LocalTimeout` for each connection, reset at each read; its task closes the socket
    Tourbillon,
    /// One `LocalSleep` for each connection, reset at each read
    TourbillonSleep,
    /// `LocalTimer::timeout` around each read
    TourbillonTimeout,
}

/// Echo servers with an idle timeout, by the runtime's timers and by Tourbillon's
#[derive(Debug, Parser)]
#[command(after_help = AFTER_HELP)]
struct Options {
    /// Runtimes, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "monoio,compio,glommio")]
    runtime: Vec<Runtime>,

    /// Timers, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "none,runtime,runtime-reset,tourbillon,tourbillon-sleep,tourbillon-timeout"
    )]
    timers: Vec<Timers>,

    /// Connections of the client
    #[arg(long, value_name = "N", default_value = "1000")]
    connections: usize,

    /// How many of the connections stop now and then
    #[arg(long, value_name = "N", default_value = "50")]
    idle_connections: usize,

    /// How long a connection may be idle, in milliseconds
    #[arg(long, value_name = "MS", default_value = "500")]
    idle_ms: u64,

    /// How long each run measures, after one second of warming up
    #[arg(long, value_name = "S", default_value = "5")]
    seconds: u64,

    /// How often each is measured, in turn
    #[arg(long, value_name = "N", default_value = "5")]
    rounds: usize,

    /// Append each run to this file, as a line of JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Serve on this address with the first of the runtimes and of the timers, and measure nothing
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<SocketAddr>,

    /// Not for people: serve until standard input ends, and then say how late timeouts were
    #[arg(long, requires = "serve", hide = true)]
    report: bool,
}

const AFTER_HELP: &str = "\
The table has, for each server, the median of the runs: requests a second, the processor time of the
server for each request, and how late the timeouts were that fired. A timeout is late by the time
from its deadline until the connection's own task knows.

Instructions for each request, under callgrind:
  tourbillon-perf instructions --echo --program \\
    'monoio:tourbillon=target/release/examples/echo --runtime monoio --timers tourbillon --serve {}'";

fn main() -> Result<()> {
    let options = Options::parse();
    let Some(listen) = options.serve else { return measure::run(&options) };
    let (runtime, timers) = (options.runtime[0], options.timers[0]);
    let server = Server::new(listen, timers, Duration::from_millis(options.idle_ms), options.report);
    match runtime {
        Runtime::Monoio => on_monoio::serve(&server),
        Runtime::Compio => on_compio::serve(&server),
        Runtime::Glommio => on_glommio::serve(&server),
    }
}
