//! The options of `connections`, and the values they have when not given.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tourbillon::{Inline, ThreadPool, Timer};

use crate::number::grouped_len;
use crate::{duration, number, process};

/// Messages a second that all clients together send at most by default, for each core.
const MESSAGES_PER_SECOND_AND_CORE: usize = 5_000;
/// Connections that are opened for each core unless more are asked for.
const CONNECTIONS_PER_CORE: usize = 10_000;
const CONNECTIONS_AT_MOST: usize = 50_000;
/// File descriptors left for everything that is no connection.
const RESERVE: u64 = 200;

/// Options of the main job.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConnectionsArgs {
    /// How long the load runs; opening, and waiting for the last silent client to be reaped, come
    /// on top
    #[arg(long, default_value = "20s", value_parser = duration::parse_positive)]
    pub(super) duration: Duration,

    /// Real TCP connections [default: as many as the fd limit allows, at most 10,000 for each core
    /// and 50,000 in all]
    #[arg(long, value_name = "N", value_parser = number::parse_positive)]
    pub(super) connections: Option<usize>,

    /// Idle timeout of a connection, reset at each of its messages [default: a fifth of --duration
    /// within 1s to 4s, longer for many connections: four times the mean pause of a client that the
    /// cores can bear]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive)]
    idle_timeout: Option<Duration>,

    /// Deadline of a request, cancelled by the answer; the server arms one, the client another
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse_positive)]
    request_timeout: Duration,

    /// Longest work step between request and answer; each takes 1ms to this, by chance
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = duration::parse_positive)]
    work: Duration,

    /// Share of the clients that go silent at a random time and must be reaped
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = number::parse_percent)]
    pub(super) silent: f64,

    /// Timeouts without sockets that are kept pending throughout; 0 for none
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = number::parse_count)]
    pub(super) timeouts: usize,

    /// New timeouts a second; as many are cancelled or expire
    #[arg(long, value_name = "N", default_value = "100000", value_parser = number::parse_count)]
    pub(super) rate: usize,

    /// Resets a second
    #[arg(long, value_name = "N", default_value = "500000", value_parser = number::parse_count)]
    pub(super) resets: usize,

    /// Share of the new timeouts that are left to expire, after up to 5s; the others are reset and
    /// cancelled at random
    #[arg(long, value_name = "PERCENT", default_value = "30%", value_parser = number::parse_percent)]
    pub(super) expiring: f64,

    /// Seed of everything random, for the same load again
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) seed: u64,

    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    #[command(flatten)]
    pub(super) engine: EngineOptions,
}

const AFTER_HELP: &str = "\
What runs: a TCP server on 127.0.0.1 and its clients, all in this process, so each connection takes
two file descriptors. A client sends a message of 16 bytes, waits for the answer, pauses, and sends
the next. The server resets the connection's idle timeout at each message, arms a deadline for the
request, works for --work, answers and cancels the deadline. All of these are timeouts of one
engine, and so are --timeouts more without sockets.

What is checked (any miss: a line that names it, and exit status 1):
  reaping   each silent client is reaped, and none before its idle timeout
  counters  scheduled = fired + cancelled + still pending, counted by this program and by the engine
  tasks     none early, none twice, none after a cancel that returned true";

/// Options of the engine; without them it is what `Timer::builder()` gives.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Engine")]
pub(super) struct EngineOptions {
    /// Shards, each with a worker thread [default: the library's]
    #[arg(long, value_name = "N", value_parser = number::parse_positive)]
    shards: Option<usize>,

    /// Length of a tick; the timeouts of one tick run together [default: the library's, 1ms]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive)]
    tick: Option<Duration>,

    /// Threads of the pool that runs what expired; 0 runs it on the worker [default: the library's]
    #[arg(long, value_name = "N", value_parser = number::parse_count)]
    pool: Option<usize>,
}

impl EngineOptions {
    /// An engine with memory reserved for `capacity` timeouts.
    pub(super) fn build(&self, capacity: usize) -> Result<Timer> {
        let mut builder = Timer::builder().capacity(capacity);
        if let Some(shards) = self.shards {
            builder = builder.shards(shards);
        }
        if let Some(tick) = self.tick {
            builder = builder.tick_duration(tick);
        }
        let builder = match self.pool {
            None => builder,
            Some(0) => builder.executor(Inline),
            Some(threads) => builder.executor(ThreadPool::new(threads)),
        };
        builder.build().context("the engine refused its options")
    }
}

/// How often clients speak, and how long either end waits for the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) connections: usize,
    pub(super) idle_timeout: Duration,
    pub(super) least_pause: Duration,
    pub(super) most_pause: Duration,
    pub(super) request_timeout: Duration,
    pub(super) longest_work: Duration,
    pub(super) silent_share: f64,
    /// The part of the run within which a client goes silent: early enough that the last of them is
    /// due before the end, if the run is long enough for that.
    pub(super) silent_until: Duration,
}

impl Pace {
    /// Raises the limit of open files, and chooses what was not given.
    pub(super) fn of(args: &ConnectionsArgs) -> Result<Self> {
        let limit = rlimit::increase_nofile_limit(u64::MAX).context("cannot raise the limit of open files")?;
        let possible = usize::try_from(limit.saturating_sub(RESERVE) / 2).unwrap_or(usize::MAX);
        let default = (process::cores() * CONNECTIONS_PER_CORE).min(CONNECTIONS_AT_MOST).min(possible);
        let connections = args.connections.unwrap_or(default);
        ensure!(
            (1..=possible).contains(&connections),
            "the limit of open files allows at most {} connections here, two files each: see `ulimit -Hn`",
            grouped_len(possible)
        );
        let bearable = connections as f64 / (process::cores() * MESSAGES_PER_SECOND_AND_CORE) as f64;
        let by_run = (args.duration / 5).clamp(Duration::from_secs(1), Duration::from_secs(4));
        let idle_timeout = args.idle_timeout.unwrap_or(by_run.max(Duration::from_secs_f64(4.0 * bearable)));
        let most_pause = idle_timeout * 2 / 5;
        Ok(Self {
            connections,
            idle_timeout,
            least_pause: idle_timeout / 10,
            most_pause,
            request_timeout: args.request_timeout,
            longest_work: args.work,
            silent_share: args.silent,
            silent_until: args.duration.saturating_sub(idle_timeout + most_pause).max(args.duration / 4),
        })
    }
}
