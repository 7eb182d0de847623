//! The systems, and the settings each is measured with.

use std::{path::Path, sync::Arc};

use anyhow::Result;

use crate::{peer::Peer, server::Server};

mod apalis;
mod graphile;
mod node;
mod rustqueue;
mod underway;

/// One system with one choice of settings.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub system: &'static str,
    pub version: &'static str,
    /// `default`, or what the choice is for.
    pub name: &'static str,
    /// The settings themselves, as the system calls them.
    pub settings: &'static str,
}

const fn case(system: &'static str, version: &'static str, name: &'static str, settings: &'static str) -> Case {
    Case { system, version, name, settings }
}

const APALIS: &str = "1.0.0";
const GRAPHILE_RS: &str = "0.14.1";
const UNDERWAY: &str = "0.2.0";
const RUSTQUEUE: &str = "0.3.0";
const PG_BOSS: &str = "12.38.0";
const GRAPHILE: &str = "0.18.0";

/// Every case. The first of each system has its defaults, and the last the fastest that its
/// documentation names: no interval has a documented minimum but pg-boss's, so 10 ms stands for it.
pub const CASES: &[Case] = &[
    case("apalis-postgres", APALIS, "default", "no poll strategy, batch_size 10"),
    case("apalis-postgres", APALIS, "interval", "poll_with_interval 10 ms, batch_size 1000, parallelize"),
    case("apalis-postgres", APALIS, "fast", "as interval, with a poll strategy of ours that loses no wake-up"),
    case("graphile_worker-rs", GRAPHILE_RS, "default", "poll_interval 1 s, LISTEN, concurrency = cores"),
    case("graphile_worker-rs", GRAPHILE_RS, "batched", "poll_interval 1 s, LISTEN, local_queue 500"),
    case(
        "graphile_worker-rs",
        GRAPHILE_RS,
        "fast",
        "poll_interval 10 ms, LISTEN, concurrency 8, local_queue 500, complete_job_batch_delay 5 ms",
    ),
    case("underway", UNDERWAY, "default", "run (poll 1 min), LISTEN, concurrency = cores"),
    case("underway", UNDERWAY, "fast", "run_every 10 ms, LISTEN, concurrency 8"),
    case("rustqueue", RUSTQUEUE, "default", "run_worker (poll 500 ms, one at a time), tick_interval 1 s"),
    case("rustqueue", RUSTQUEUE, "fast", "tick_interval 10 ms, pull 1000 every 10 ms, ack_batch"),
    case("pg-boss", PG_BOSS, "default", "pollingIntervalSeconds 2, batchSize 1, localConcurrency 1"),
    case("pg-boss", PG_BOSS, "batched", "pollingIntervalSeconds 2, batchSize 1000, burstWhenBatchFull"),
    case("pg-boss", PG_BOSS, "fast", "pollingIntervalSeconds 0.5 (minimum), batchSize 1000, burstWhenBatchFull"),
    case(
        "pg-boss",
        PG_BOSS,
        "notify",
        "as fast, useListenNotify, notifyPollingIntervalSeconds 0.5, localConcurrency 2",
    ),
    case("graphile-worker", GRAPHILE, "default", "pollInterval 2 s, LISTEN, concurrentJobs 1"),
    case(
        "graphile-worker",
        GRAPHILE,
        "fast",
        "pollInterval 10 ms, LISTEN, concurrentJobs 24, localQueue 500, completeJobBatchDelay 0",
    ),
];

/// Where a case's system keeps what it keeps.
pub struct Place<'a> {
    pub server: &'a Server,
    pub url: String,
    /// The folder of the JavaScript programs, with their `node_modules`.
    pub js: &'a Path,
}

impl Case {
    /// Whether it schedules in a way that no case of its system before does.
    pub fn has_schedules_of_its_own(&self) -> bool {
        self.name == "default" || self.system == "rustqueue"
    }

    /// A new instance on an empty database.
    pub async fn open(&self, place: &Place<'_>, pending: usize) -> Result<Arc<dyn Peer>> {
        let fast = self.name == "fast";
        Ok(match self.system {
            "apalis-postgres" => Arc::new(apalis::Apalis::open(&place.url, self.name).await?),
            "graphile_worker-rs" => Arc::new(graphile::Graphile::open(&place.url, self.name).await?),
            "underway" => Arc::new(underway::Underway::open(&place.url, fast).await?),
            "rustqueue" => rustqueue::open(place.server.files(), fast, pending).await?,
            system => Arc::new(node::Node::open(place.js, system, self.name, &place.url).await?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_that_are_installed() {
        let rust = include_str!("../Cargo.toml");
        let js = include_str!("../js/package.json");
        for (file, line) in [
            (rust, format!("apalis-postgres = \"={APALIS}\"")),
            (rust, format!("graphile_worker = {{ version = \"={GRAPHILE_RS}\"")),
            (rust, format!("underway = \"={UNDERWAY}\"")),
            (rust, format!("rustqueue = {{ version = \"={RUSTQUEUE}\"")),
            (js, format!("\"pg-boss\": \"{PG_BOSS}\"")),
            (js, format!("\"graphile-worker\": \"{GRAPHILE}\"")),
        ] {
            assert!(file.contains(&line), "{line}");
        }
    }

    #[test]
    fn the_first_case_of_each_system_has_its_defaults() {
        let mut systems = Vec::new();
        for case in CASES {
            if !systems.contains(&case.system) {
                systems.push(case.system);
                assert_eq!(case.name, "default", "{}", case.system);
            }
        }
        assert_eq!(systems.len(), 6);
    }
}
