//! How many connections this process may open, and why.

use std::fmt;
use std::fs;

use anyhow::{Context, Result, bail};
use rlimit::Resource;

use super::options::{Wanted, default_ceiling};
use crate::number::{grouped, grouped_len};

/// File descriptors left for everything that is no connection: listeners, pollers, files, the
/// terminal.
const RESERVE: u64 = 200;

/// Both ends of a connection are in this process.
const FDS_PER_CONNECTION: u64 = 2;

/// Connections to one listener. Each needs an ephemeral port of its own towards that listener; the
/// usual range has 28,232, and others use it too.
const PER_LISTENER_AT_MOST: usize = 20_000;

/// The number of connections that will be opened, and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    pub(crate) per_listener: usize,
    soft_before: u64,
    limit: u64,
    possible: usize,
    wanted: Option<Wanted>,
}

impl Plan {
    /// Raises the soft limit to the hard one and counts what it allows.
    pub(crate) fn make(wanted: Option<Wanted>) -> Result<Self> {
        let (soft_before, _) = Resource::NOFILE.get().context("cannot read the limit of open files (RLIMIT_NOFILE)")?;
        let limit = rlimit::increase_nofile_limit(u64::MAX)
            .context("cannot raise the soft limit of open files to the hard one")?;
        let possible = possible_within(limit);
        let connections = match wanted {
            None => possible.min(default_ceiling()),
            Some(Wanted::Max) => possible,
            Some(Wanted::Exactly(n)) if n > possible => bail!(
                "{} connections need {} file descriptors, and the limit is {}, of which {RESERVE} \
                 are kept for other things: at most {} are possible here (raise the hard limit with \
                 `ulimit -Hn`, or ask for fewer)",
                grouped_len(n),
                grouped(n as u64 * FDS_PER_CONNECTION),
                grouped(limit),
                grouped_len(possible)
            ),
            Some(Wanted::Exactly(n)) => n,
        };
        Ok(Self { connections, per_listener: per_listener(ephemeral_ports()), soft_before, limit, possible, wanted })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} connections: ", grouped_len(self.connections))?;
        match self.soft_before < self.limit {
            true => write!(
                f,
                "the fd limit was raised from {} to the hard one, {}; ",
                grouped(self.soft_before),
                grouped(self.limit)
            )?,
            false => write!(f, "the fd limit is {} (soft = hard); ", grouped(self.limit))?,
        }
        write!(
            f,
            "with {RESERVE} in reserve and {FDS_PER_CONNECTION} a connection it allows {}",
            grouped_len(self.possible)
        )?;
        match self.wanted {
            Some(Wanted::Exactly(_)) => write!(f, "; --connections asks for this many"),
            None if self.connections < self.possible => {
                write!(f, "; more than {} on this machine only with --connections", grouped_len(default_ceiling()))
            }
            _ => Ok(()),
        }
    }
}

/// Connections that fit into `limit` descriptors.
fn possible_within(limit: u64) -> usize {
    usize::try_from(limit.saturating_sub(RESERVE) / FDS_PER_CONNECTION).unwrap_or(usize::MAX)
}

/// Connections to give one listener when `ports` ephemeral ports are there: a fifth stays free.
fn per_listener(ports: Option<usize>) -> usize {
    ports.map_or(PER_LISTENER_AT_MOST, |ports| (ports / 5 * 4).clamp(1, PER_LISTENER_AT_MOST))
}

/// Size of the range of ephemeral ports, where the system tells (Linux).
fn ephemeral_ports() -> Option<usize> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = range.split_whitespace().map(str::parse::<usize>);
    let (low, high) = (ends.next()?.ok()?, ends.next()?.ok()?);
    (high + 1).checked_sub(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_descriptors_a_connection_and_a_reserve() {
        assert_eq!(possible_within(20_000), 9_900);
        assert_eq!(possible_within(1_024), 412);
        assert_eq!(possible_within(100), 0);
    }

    #[test]
    fn a_listener_gets_no_more_than_the_ports_allow() {
        assert_eq!(per_listener(Some(28_232)), 20_000);
        assert_eq!(per_listener(Some(1_000)), 800);
        assert_eq!(per_listener(None), 20_000);
    }

    #[test]
    fn asking_for_more_than_possible_says_how_many_are() {
        let refused = Plan::make(Some(Wanted::Exactly(usize::MAX / 4))).expect_err("too many");
        assert!(refused.to_string().contains("are possible here"), "{refused}");
    }
}
