//! The options of `connections`, and the values they have when not given.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use crate::engine_options::EngineOptions;
use crate::{duration, number, process};

/// Messages a second that all clients together send at most by default, for each core; with more
/// connections each of them speaks less often. A message costs some 25 µs of CPU, both sides of the
/// loopback and the answer included.
const MESSAGES_PER_SECOND_AND_CORE: usize = 5_000;

/// Connections that are opened for each core unless more are asked for: with these a client still
/// speaks every other second, and can be reaped within a short run.
const CONNECTIONS_PER_CORE: usize = 10_000;

/// More connections than this are opened only when asked for, whatever the cores: each takes memory
/// in the kernel, and many systems have no real limit of file descriptors.
const CEILING: usize = 50_000;

/// Connections opened at most unless more are asked for.
pub(crate) fn default_ceiling() -> usize {
    (process::cores() * CONNECTIONS_PER_CORE).clamp(2 * CONNECTIONS_PER_CORE, CEILING)
}

/// Options of the main job.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConnectionsArgs {
    /// How long the load runs; opening, and waiting for the last silent client to be reaped, come
    /// on top
    #[arg(long, default_value = "20s", value_parser = duration::parse_positive)]
    pub(crate) duration: Duration,

    /// Real TCP connections: a number, or `max` [default: as many as the fd limit allows, at most
    /// 10,000 for each core and 50,000 in all]
    #[arg(long, value_name = "N|max")]
    pub(crate) connections: Option<Wanted>,

    /// Idle timeout of a connection, reset at each of its messages [default: a fifth of --duration
    /// within 1s to 4s, longer for many connections: four times the mean pause of a client that the
    /// cores can bear]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive)]
    pub(crate) idle_timeout: Option<Duration>,

    /// Deadline of a request, cancelled by the answer; the server arms one, the client another
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse_positive)]
    pub(crate) request_timeout: Duration,

    /// Longest work step between request and answer; each takes 1ms to this, by chance
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = duration::parse_positive)]
    pub(crate) work: Duration,

    /// Share of the clients that go silent at a random time and must be reaped
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = number::parse_percent)]
    pub(crate) silent: f64,

    /// Pairs of a server thread and a client thread
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::parse_positive)]
    pub(crate) io_threads: usize,

    /// Timeouts without sockets that are kept pending throughout; 0 for none
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = number::parse_count)]
    pub(crate) timeouts: usize,

    /// New timeouts a second; as many are cancelled or expire
    #[arg(long, value_name = "N", default_value = "100000", value_parser = number::parse_count)]
    pub(crate) rate: usize,

    /// Resets a second
    #[arg(long, value_name = "N", default_value = "500000", value_parser = number::parse_count)]
    pub(crate) resets: usize,

    /// Share of the new timeouts that are left to expire, after up to 5s; the others are reset and
    /// cancelled at random
    #[arg(long, value_name = "PERCENT", default_value = "30%", value_parser = number::parse_percent)]
    pub(crate) expiring: f64,

    /// Threads that schedule, reset and cancel the timeouts without sockets
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::parse_positive)]
    pub(crate) producers: usize,

    /// Seed of everything random, for the same load again
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,

    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) engine: EngineOptions,
}

const AFTER_HELP: &str = "\
What runs: a TCP server on 127.0.0.1 and its clients, all in this process, so each connection takes
two file descriptors. A client sends a message of 16 bytes, waits for the answer, pauses, and sends
the next. The server resets the connection's idle timeout at each message, arms a deadline for the
request, works for --work, answers and cancels the deadline. All of these are timeouts of one
engine, and so are --timeouts more without sockets.

What is checked (any miss: a line that names it, and exit status 1):
  reaping   each silent client is reaped, none before its idle timeout, no other client ever
  counters  scheduled = fired + cancelled + still pending, counted by this program and by the engine
  promises  none early, none twice, none after its cancel, none after shutdown

How ns per operation is measured: the producers do up to 1,000 operations of one kind in a row and
read the clock before and after; what is random in them was drawn before. The table has the mean,
and the median of these loops, which does not move when another program takes the core for a
while.

Examples:
  tourbillon-perf --duration 3s --timeouts 50000 --connections 200
  tourbillon-perf --connections max --io-threads 2 --idle-timeout 10s
  tourbillon-perf --timeouts 10_000_000 --connections 0 --resets 1_000_000";

/// What `--connections` may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// This many, or an error.
    Exactly(usize),
    /// All the limit allows.
    Max,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => Ok(Self::Max),
            _ => number::parse_count(text).map(Self::Exactly).map_err(|why| format!("{why}, or `max`")),
        }
    }
}

/// How the clients speak and how long the server waits for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) idle_timeout: Duration,
    /// A client pauses between an answer and its next message for `least_pause` to `most_pause`.
    pub(crate) least_pause: Duration,
    pub(crate) most_pause: Duration,
}

impl Pace {
    /// A client that speaks is never silent for more than half the idle timeout by its own doing,
    /// so that a loaded machine has the other half to be late in.
    pub(crate) fn of(args: &ConnectionsArgs, connections: usize) -> Result<Self> {
        let messages_per_second = process::cores().clamp(2, 8) * MESSAGES_PER_SECOND_AND_CORE;
        let affordable = Duration::from_secs_f64(connections as f64 / messages_per_second as f64);
        let idle_timeout = args.idle_timeout.unwrap_or_else(|| {
            (args.duration / 5).clamp(Duration::from_secs(1), Duration::from_secs(4)).max(affordable * 4)
        });
        let least = args.work * 4;
        ensure!(
            connections == 0 || idle_timeout >= least,
            "--idle-timeout {} is too short for a --work of {}: a client that waits for its answer cannot speak; give it at \
             least {}, or less work",
            duration::exact(idle_timeout),
            duration::exact(args.work),
            duration::exact(least)
        );
        Ok(Self { idle_timeout, least_pause: idle_timeout / 10, most_pause: idle_timeout * 2 / 5 })
    }

    /// Messages that `connections` clients send together, in a second and on average.
    pub(crate) fn messages_per_second(self, connections: usize, work: Duration) -> f64 {
        connections as f64 / ((self.least_pause + self.most_pause + work) / 2).as_secs_f64()
    }

    /// The part of the run within which a client goes silent: early enough that the last of them is
    /// due before the end, if the run is long enough for that.
    pub(crate) fn silent_until(self, run: Duration) -> Duration {
        run.saturating_sub(self.idle_timeout + self.most_pause).max(run / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        args: ConnectionsArgs,
    }

    fn args(line: &[&str]) -> ConnectionsArgs {
        Only::try_parse_from([&["perf"], line].concat()).expect("a right command line").args
    }

    #[test]
    fn the_idle_timeout_follows_the_run_and_the_number_of_connections() {
        let idle = |line: &[&str], n| Pace::of(&args(line), n).map(|p| p.idle_timeout).ok();
        assert_eq!(idle(&["--duration", "3s"], 200), Some(Duration::from_secs(1)));
        assert_eq!(idle(&[], 200), Some(Duration::from_secs(4)));
        assert!(idle(&[], 200_000) >= Some(Duration::from_secs(20)));
        assert_eq!(idle(&["--idle-timeout", "7s"], 50_000), Some(Duration::from_secs(7)));
    }

    #[test]
    fn connections_are_a_number_or_max() {
        assert_eq!(args(&["--connections", "max"]).connections, Some(Wanted::Max));
        assert_eq!(args(&["--connections", "1_000"]).connections, Some(Wanted::Exactly(1_000)));
        assert!(Only::try_parse_from(["perf", "--connections", "many"]).is_err());
    }
}
