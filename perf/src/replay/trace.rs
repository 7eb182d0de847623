//! A log file as a trace: which client made a request, and when, in the order of time.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde::Serialize;

use super::log_format;

/// Bad lines that are kept to be shown.
const SHOWN: usize = 5;

/// A request: when, after the first one, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) at: Duration,
    pub(crate) client: u32,
}

/// Requests in the order of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub(crate) requests: Vec<Request>,
    pub(crate) clients: u32,
    /// Requests that stood after a later one.
    pub(crate) out_of_order: usize,
}

impl Trace {
    /// Sorts requests, given as second and client, by time. Those of one second stay in the order
    /// they came in: a log knows no finer time.
    pub(crate) fn new(mut seconds: Vec<(i64, u32)>) -> Self {
        let mut latest = i64::MIN;
        let mut out_of_order = 0;
        for &(second, _) in &seconds {
            out_of_order += usize::from(second < latest);
            latest = latest.max(second);
        }
        seconds.sort_by_key(|&(second, _)| second);
        let first = seconds.first().map_or(0, |&(second, _)| second);
        let request =
            |&(second, client): &(i64, u32)| Request { at: Duration::from_secs(second.abs_diff(first)), client };
        Self {
            requests: seconds.iter().map(request).collect(),
            clients: seconds.iter().map(|&(_, client)| client + 1).max().unwrap_or(0),
            out_of_order,
        }
    }
}

/// A line that is none of a log.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BadLine {
    pub(crate) line: u64,
    pub(crate) why: String,
}

/// What was in a file.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Contents {
    pub(crate) lines: u64,
    pub(crate) bad_lines: u64,
    pub(crate) first_bad_lines: Vec<BadLine>,
    /// Lines that end within a quoted field after all fields that are needed.
    pub(crate) cut_off: u64,
    pub(crate) first_cut_off: Option<u64>,
    pub(crate) clients: u32,
    pub(crate) out_of_order: usize,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

/// Reads a log file. Lines that are none of a log are counted and left out.
pub(crate) fn read(path: &Path) -> Result<(Trace, Contents)> {
    let cannot_read = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(cannot_read)?;
    let is_folder = file.metadata().with_context(cannot_read)?.is_dir();
    ensure!(!is_folder, "cannot read {}: it is a folder, not a log file", path.display());
    read_lines(BufReader::new(file)).with_context(cannot_read)
}

pub(crate) fn read_lines(mut file: impl BufRead) -> Result<(Trace, Contents)> {
    let mut contents = Contents::default();
    let mut clients: HashMap<String, u32> = HashMap::new();
    let mut requests = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        // As bytes: what a client sent is not always UTF-8.
        let read = file.read_until(b'\n', &mut line);
        if read.with_context(|| format!("after line {}", contents.lines))? == 0 {
            break;
        }
        contents.lines += 1;
        let text = String::from_utf8_lossy(&line);
        match log_format::parse(text.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}')) {
            Ok(parsed) => {
                let next = u32::try_from(clients.len()).context("more clients than a u32 counts")?;
                let client = match clients.get(parsed.client) {
                    Some(&known) => known,
                    None => *clients.entry(parsed.client.to_owned()).or_insert(next),
                };
                requests.push((parsed.second, client));
                if parsed.cut_off {
                    contents.cut_off += 1;
                    contents.first_cut_off.get_or_insert(contents.lines);
                }
            }
            Err(why) => {
                contents.bad_lines += 1;
                if contents.first_bad_lines.len() < SHOWN {
                    let bad = BadLine { line: contents.lines, why: why.to_string() };
                    contents.first_bad_lines.push(bad);
                }
            }
        }
    }
    let shown = |second: Option<i64>| second.and_then(|s| Timestamp::from_second(s).ok()).map(|time| time.to_string());
    contents.from = shown(requests.iter().map(|&(second, _)| second).min());
    contents.to = shown(requests.iter().map(|&(second, _)| second).max());
    let trace = Trace::new(requests);
    contents.clients = trace.clients;
    contents.out_of_order = trace.out_of_order;
    Ok((trace, contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(client: &str, second: u32) -> String {
        format!("{client} - - [17/May/2015:10:05:{second:02} +0000] \"GET /\" 200 5\n")
    }

    #[test]
    fn sorts_by_time_and_keeps_the_order_within_a_second() {
        let file = [line("a", 7), line("b", 3), line("c", 7), line("a", 3)].concat();
        let (trace, contents) = read_lines(file.as_bytes()).expect("memory can be read");
        let order: Vec<_> = trace.requests.iter().map(|r| (r.at.as_secs(), r.client)).collect();
        assert_eq!(order, [(0, 1), (0, 0), (4, 0), (4, 2)]);
        assert_eq!((contents.clients, contents.out_of_order), (3, 2));
        assert_eq!(contents.from.as_deref(), Some("2015-05-17T10:05:03Z"));
    }

    #[test]
    fn bad_lines_are_counted_and_the_first_are_kept() {
        let mut file = line("a", 1).into_bytes();
        for _ in 0..9 {
            file.extend_from_slice(b"what \xff is this\r\n");
        }
        file.extend_from_slice(line("b", 2).replace('\n', "\r\n").as_bytes());
        file.extend_from_slice(b"c - - [17/May/2015:10:05:03 +0000] \"\xff\" 200 5 \"-\" \"cut");
        let (trace, contents) = read_lines(file.as_slice()).expect("memory can be read");
        assert_eq!(trace.requests.len(), 3);
        assert_eq!((contents.lines, contents.bad_lines, contents.cut_off), (12, 9, 1));
        assert_eq!(contents.first_bad_lines.len(), SHOWN);
        assert_eq!(contents.first_bad_lines[0].line, 2);
        assert_eq!(contents.first_cut_off, Some(12));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read(Path::new("no/such/file.log")).expect_err("it is not there");
        assert!(format!("{error:#}").contains("no/such/file.log"), "{error:#}");
        let error = read(Path::new(".")).expect_err("a folder");
        assert!(format!("{error:#}").contains("folder"), "{error:#}");
    }
}
