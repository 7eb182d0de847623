//! A log file as a trace: which client made a request, and when, in the order of time. And the
//! count without an engine: sort by client and time, and compare neighbours.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde::Serialize;
use tourbillon::Stats;

use super::log_format;

/// Bad lines whose numbers are kept.
const SHOWN: usize = 5;

/// A request: when, after the first one, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) at: Duration,
    pub(super) client: u32,
}

/// Requests in the order of time.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    pub(super) requests: Vec<Request>,
    pub(super) clients: u32,
}

impl Trace {
    /// Sorts requests, given as second and client, by time. Those of one second stay in the order
    /// they came in: a log knows no finer time.
    pub(super) fn new(mut seconds: Vec<(i64, u32)>) -> Self {
        seconds.sort_by_key(|&(second, _)| second);
        let first = seconds.first().map_or(0, |&(second, _)| second);
        let request =
            |&(second, client): &(i64, u32)| Request { at: Duration::from_secs(second.abs_diff(first)), client };
        Self {
            requests: seconds.iter().map(request).collect(),
            clients: seconds.iter().map(|&(_, client)| client + 1).max().unwrap_or(0),
        }
    }
}

/// A summary of a log file.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Contents {
    pub(super) lines: u64,
    pub(super) bad_lines: u64,
    pub(super) first_bad_lines: Vec<u64>,
    pub(super) clients: u32,
    /// Requests that stand after a later one.
    pub(super) out_of_order: usize,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

/// Reads a log file. Lines that are none of a log are counted and left out.
pub(super) fn read(path: &Path) -> Result<(Trace, Contents)> {
    let cannot_read = || format!("cannot read {}", path.display());
    read_lines(BufReader::new(File::open(path).with_context(cannot_read)?)).with_context(cannot_read)
}

fn read_lines(mut file: impl BufRead) -> Result<(Trace, Contents)> {
    let mut contents = Contents::default();
    let mut clients: HashMap<String, u32> = HashMap::new();
    let mut requests = Vec::new();
    let mut line = Vec::new();
    // As bytes: what a client sent is not always UTF-8.
    while file.read_until(b'\n', &mut line)? > 0 {
        contents.lines += 1;
        let text = String::from_utf8_lossy(&line);
        match log_format::parse(text.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}')) {
            Some((client, second)) => {
                let next = u32::try_from(clients.len()).context("more clients than a u32 counts")?;
                requests.push((second, *clients.entry(client.to_owned()).or_insert(next)));
            }
            None => {
                contents.bad_lines += 1;
                if contents.first_bad_lines.len() < SHOWN {
                    contents.first_bad_lines.push(contents.lines);
                }
            }
        }
        line.clear();
    }
    let mut latest = i64::MIN;
    for &(second, _) in &requests {
        contents.out_of_order += usize::from(second < latest);
        latest = latest.max(second);
    }
    let shown = |second: Option<i64>| Some(Timestamp::from_second(second?).ok()?.to_string());
    contents.from = shown(requests.iter().map(|&(second, _)| second).min());
    contents.to = shown(requests.iter().map(|&(second, _)| second).max());
    let trace = Trace::new(requests);
    contents.clients = trace.clients;
    Ok((trace, contents))
}

/// The counts of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    pub(super) requests: u64,
    /// Connections opened: by a client's first request, and by each that comes too late.
    pub(super) opened: u64,
    /// Requests within the keep-alive.
    pub(super) reset: u64,
    /// Connections that have expired at the end: all of them.
    pub(super) expired: u64,
}

impl Counts {
    /// Fails unless the engine has counted the same.
    pub(super) fn check(&self, stats: &Stats) -> Result<()> {
        ensure!(
            (stats.scheduled, stats.fired, stats.reset, stats.pending) == (self.opened, self.expired, self.reset, 0),
            "the engine counts {stats:?}, and this program {self:?}"
        );
        Ok(())
    }
}

/// The exact answer: a request opens a connection if it is its client's first, or comes a
/// keep-alive or more after the one before it.
pub(super) fn exact(trace: &Trace, keep_alive: Duration) -> Counts {
    let mut by_client: Vec<_> = trace.requests.iter().map(|request| (request.client, request.at)).collect();
    by_client.sort_unstable();
    let is_within = |pair: &&[(u32, Duration)]| pair[0].0 == pair[1].0 && pair[1].1 - pair[0].1 < keep_alive;
    let (requests, reset) = (by_client.len() as u64, by_client.windows(2).filter(is_within).count() as u64);
    Counts { requests, opened: requests - reset, reset, expired: requests - reset }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(client: &str, second: u32) -> String {
        format!("{client} - - [17/May/2015:10:05:{second:02} +0000] \"GET /\" 200 5\n")
    }

    #[test]
    fn requests_are_sorted_by_time_and_keep_their_order_within_a_second() {
        let file = [line("a", 7), line("b", 3), "what is this\r\n".to_owned(), line("c", 7), line("a", 3)].concat();
        let (trace, contents) = read_lines(file.as_bytes()).expect("memory can be read");
        let order: Vec<_> = trace.requests.iter().map(|r| (r.at.as_secs(), r.client)).collect();
        assert_eq!(order, [(0, 1), (0, 0), (4, 0), (4, 2)]);
        assert_eq!((contents.clients, contents.out_of_order, contents.first_bad_lines), (3, 2, vec![3]));
        assert_eq!(contents.from.as_deref(), Some("2015-05-17T10:05:03Z"));
    }

    #[test]
    fn at_the_deadline_is_too_late() {
        let trace = Trace::new(vec![(0, 0), (14, 0), (29, 0), (29, 1), (43, 0)]);
        let counts = exact(&trace, Duration::from_secs(15));
        assert_eq!((counts.opened, counts.reset, counts.expired), (3, 2, 3));
    }
}
