//! The options of `connections`, and the values they have when not given.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::number::grouped;
use crate::{duration, number, process};

/// Messages a second that all clients together send at most by default, for each core.
const MESSAGES_PER_SECOND_AND_CORE: usize = 5_000;
/// Connections that are opened for each core unless more are asked for.
const CONNECTIONS_PER_CORE: usize = 10_000;
const CONNECTIONS_AT_MOST: usize = 50_000;
/// File descriptors left for everything that is no connection.
const RESERVE: u64 = 200;
/// Share of the clients that go silent at a random time and must be reaped.
pub(super) const SILENT: f64 = 0.1;
/// Deadline of a request, cancelled by the answer; the server arms one, the client another.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Shortest and longest work step between request and answer.
pub(super) const SHORTEST_WORK: Duration = Duration::from_millis(1);
pub(super) const LONGEST_WORK: Duration = Duration::from_millis(20);

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

    /// Timeouts without sockets that are kept pending throughout; 0 for none
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = number::parse_count)]
    pub(super) timeouts: usize,

    /// New timeouts a second; as many are cancelled or expire
    #[arg(long, value_name = "N", default_value = "100000", value_parser = number::parse_count)]
    pub(super) rate: usize,

    /// Resets a second
    #[arg(long, value_name = "N", default_value = "500000", value_parser = number::parse_count)]
    pub(super) resets: usize,

    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
What runs: a TCP server on 127.0.0.1 and its clients, all in this process, so each connection takes
two file descriptors. A client sends a message of 16 bytes, waits for the answer, pauses, and sends
the next. The server resets the connection's idle timeout at each message, arms a deadline for the
request, works for 1 to 20 ms, answers and cancels the deadline. One client in ten goes silent at a
random time. All of these are timeouts of one engine, and so are --timeouts more without sockets.

What is checked (any miss: a line that names it, and exit status 1):
  reaping   each silent client is reaped, and none before its idle timeout
  counters  scheduled = fired + cancelled + still pending, counted by this program and by the engine
  tasks     none early, none twice, none after a cancel that returned true";

/// How many clients there are, and how often they speak.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) connections: usize,
    pub(super) idle_timeout: Duration,
    pub(super) least_pause: Duration,
    pub(super) most_pause: Duration,
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
            grouped(possible as u64)
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
            silent_until: args.duration.saturating_sub(idle_timeout + most_pause).max(args.duration / 4),
        })
    }
}
