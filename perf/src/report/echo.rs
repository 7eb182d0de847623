//! What the echo servers of `integrations/local` have measured: a line of JSON for each run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::compare::statistics::Spread;

/// One run of one server. Further fields are left unread.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct EchoRun {
    pub(crate) runtime: String,
    pub(crate) timers: String,
    pub(crate) commit: String,
    pub(crate) connections: usize,
    pub(crate) idle_ms: u64,
    requests_per_second: f64,
    processor_ns_per_request: f64,
    late_ns_p50: Option<f64>,
    late_ns_p99: Option<f64>,
    late_ns_max: Option<f64>,
}

/// All runs of one server.
#[derive(Debug)]
pub(crate) struct EchoServer<'a> {
    pub(crate) runtime: &'a str,
    pub(crate) timers: &'a str,
    pub(crate) runs: Vec<&'a EchoRun>,
}

/// Reads a file of `scripts/echo`.
pub(super) fn read(path: &Path) -> Result<Vec<EchoRun>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let run = |line: &str| serde_json::from_str(line);
    let runs: Vec<EchoRun> = text
        .lines()
        .map(run)
        .collect::<Result<_, _>>()
        .with_context(|| format!("{} is not what the echo servers write with --json", path.display()))?;
    ensure!(!runs.is_empty(), "{} has no run", path.display());
    Ok(runs)
}

/// Groups the runs by server, in the order of their first runs.
pub(crate) fn servers(runs: &[EchoRun]) -> Vec<EchoServer<'_>> {
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut servers: Vec<EchoServer<'_>> = Vec::new();
    for run in runs {
        let place = *places.entry((&run.runtime, &run.timers)).or_insert(servers.len());
        if place == servers.len() {
            servers.push(EchoServer { runtime: &run.runtime, timers: &run.timers, runs: Vec::new() });
        }
        servers[place].runs.push(run);
    }
    servers
}

impl EchoServer<'_> {
    pub(crate) fn requests_per_second(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| run.requests_per_second))
    }

    pub(crate) fn processor_ns(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| run.processor_ns_per_request))
    }

    /// Returns the medians of the 50th and the 99th percentile, and the most of all runs, in ms.
    pub(crate) fn late_ms(&self) -> Option<[f64; 3]> {
        let of = |figure: fn(&EchoRun) -> Option<f64>| Spread::of(self.runs.iter().filter_map(|run| figure(run)));
        let (p50, p99) = (of(|run| run.late_ns_p50)?, of(|run| run.late_ns_p99)?);
        Some([p50.median, p99.median, of(|run| run.late_ns_max)?.max].map(|ns| ns / 1e6))
    }
}
