//! The options of one run by hand, and those of the load.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::plan::{Length, Plan, Rate};
use super::protocol::Protocol;
use super::wire::{LONGEST, SHORTEST};
use crate::compare::systems::names::Name;
use crate::{duration, number};

/// Options of one run.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SessionsArgs {
    /// Whose timers the server has
    #[arg(long, value_enum, default_value = "tourbillon-driven")]
    pub(super) system: Name,

    /// Timer operations of each request
    #[arg(long, value_name = "N", default_value = "4", value_parser = parse_timers)]
    pub(super) timers: usize,

    /// A task for each session, with one timer, instead of one loop for all
    #[arg(long)]
    pub(super) tasks: bool,

    #[arg(long, value_name = "N", default_value = "100000", value_parser = number::parse_positive)]
    pub(super) sessions: usize,

    /// Requests a second, or `full`: as fast as the server answers [default: 0.4 for each session]
    #[arg(long, value_name = "N|full")]
    pub(super) rate: Option<RateArg>,

    /// How long it is measured
    #[arg(long, default_value = "5s", value_parser = duration::parse_positive)]
    pub(super) duration: Duration,

    /// Stop after so many requests instead
    #[arg(long, value_name = "N", value_parser = number::parse_positive)]
    pub(super) requests: Option<usize>,

    /// A session without a datagram for so long ends
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_positive)]
    pub(super) idle: Duration,

    /// Requests of a session, one after the other, before it rests
    #[arg(long, value_name = "N", default_value = "8", value_parser = number::parse_positive)]
    pub(super) chain: usize,

    /// Sessions with a request under way, at most [default: a tenth of them]
    #[arg(long, value_name = "N", value_parser = number::parse_positive)]
    pub(super) under_way: Option<usize>,

    /// Bytes of a datagram
    #[arg(long, value_name = "N", default_value = "64", value_parser = parse_bytes)]
    pub(super) bytes: usize,

    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
A server of sessions over UDP, as QUIC has them, in this process, and its clients in another. Each
request finds its session by a connection id and pushes its idle deadline out; it acknowledges the
reply before, so that the loss timer is cancelled; its own reply is paced by 1 to 50 ms, sent
with others by one system call, and watched by the loss timer again. That is --timers 4. 2 has no
loss timer, 1 no pacing either, 0 no timer at all; 8 has an acknowledgement timer, cancelled and
set, and stream and keep-alive deadlines, pushed out.

Systems: tourbillon-driven (the loop turns the engine), tourbillon-inline (its worker wakes the
loop), tokio (a Sleep for each timer, reset), delay-queue (one for all), pingora, no-timers (the
floor: replies are paced by an array of slots). With --tasks, as quinn has it: tourbillon-future,
tokio, pingora, no-timers (nothing is paced).

It fails if a request was not answered, or a pacing timer came up early. `compare --cases w11`
runs all systems in turn, several times each, and makes tables with medians and ratios.

Examples:
  tourbillon-perf sessions                                  ours, 40,000 requests a second
  tourbillon-perf sessions --system tokio --rate full       tokio's, as fast as it goes
  tourbillon-perf compare --cases w11 --json w11.json       all of them";

/// Not for people.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadArgs {
    server: SocketAddrV4,
    sessions: usize,
    /// Zero: as fast as the server answers.
    rate: f64,
    under_way: usize,
    chain: u32,
    bytes: usize,
    /// Zero: until standard input ends.
    requests: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum RateArg {
    Full,
    Each(usize),
}

impl std::str::FromStr for RateArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "full" { Ok(Self::Full) } else { number::parse_positive(text).map(Self::Each) }
    }
}

fn parse_timers(text: &str) -> Result<usize, String> {
    match number::parse_count(text)? {
        timers @ (0 | 1 | 2 | 4 | 8) => Ok(timers),
        _ => Err("must be 0, 1, 2, 4 or 8".to_owned()),
    }
}

fn parse_bytes(text: &str) -> Result<usize, String> {
    let bytes = number::parse_count(text)?;
    let fits = (SHORTEST..=LONGEST).contains(&bytes);
    if fits { Ok(bytes) } else { Err(format!("must be {SHORTEST} to {LONGEST}")) }
}

impl SessionsArgs {
    pub(super) fn plan(&self) -> Plan {
        let rate = match self.rate {
            Some(RateArg::Full) => Rate::Full,
            Some(RateArg::Each(rate)) => Rate::Fixed(rate as f64),
            None => Rate::usual(self.sessions),
        };
        let length = match self.requests {
            Some(requests) => Length::Requests(requests as u64),
            None => Length::Time(self.duration),
        };
        Plan {
            sessions: self.sessions,
            rate,
            under_way: self.under_way.unwrap_or((self.sessions / 10).max(1)),
            chain: u32::try_from(self.chain).unwrap_or(u32::MAX),
            bytes: self.bytes,
            protocol: Protocol { timers: self.timers, idle: self.idle },
            warm_up: if self.requests.is_some() { Duration::ZERO } else { Duration::from_secs(1) },
            length,
        }
    }
}

impl LoadArgs {
    pub(super) fn of(server: SocketAddrV4, plan: Plan) -> Self {
        let rate = match plan.rate {
            Rate::Fixed(rate) => rate,
            Rate::Full => 0.0,
        };
        let requests = match plan.length {
            Length::Requests(requests) => requests,
            Length::Time(_) => 0,
        };
        let Plan { sessions, under_way, chain, bytes, .. } = plan;
        Self { server, sessions, rate, under_way, chain, bytes, requests }
    }

    pub(super) fn as_arguments(&self) -> [String; 7] {
        [
            self.server.to_string(),
            self.sessions.to_string(),
            self.rate.to_string(),
            self.under_way.to_string(),
            self.chain.to_string(),
            self.bytes.to_string(),
            self.requests.to_string(),
        ]
    }

    /// Returns the server, and the plan as far as the load has to know it.
    pub(super) fn plan(&self) -> (SocketAddrV4, Plan) {
        let plan = Plan {
            sessions: self.sessions,
            rate: if self.rate > 0.0 { Rate::Fixed(self.rate) } else { Rate::Full },
            under_way: self.under_way,
            chain: self.chain,
            bytes: self.bytes,
            protocol: Protocol { timers: 0, idle: Duration::ZERO },
            warm_up: Duration::ZERO,
            length: match self.requests {
                0 => Length::Time(Duration::ZERO),
                requests => Length::Requests(requests),
            },
        };
        (self.server, plan)
    }
}
