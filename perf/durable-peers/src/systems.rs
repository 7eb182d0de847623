//! The systems, and the settings each is measured with.

use std::{path::Path, sync::Arc};

use anyhow::Result;

use crate::peer::Peer;

mod apalis;
mod graphile;
mod node;
mod rustqueue;

/// One system with the fastest settings that its documentation names. No interval has a documented
/// minimum but pg-boss's, so 10 ms stands for it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub system: &'static str,
    pub version: &'static str,
    /// As the system calls them.
    pub settings: &'static str,
}

const fn case(system: &'static str, version: &'static str, settings: &'static str) -> Case {
    Case { system, version, settings }
}

pub const CASES: &[Case] = &[
    case(
        "apalis-postgres",
        "1.0.0",
        "batch_size 1000, parallelize, a poll strategy of ours, 10 ms, that loses no wake-up",
    ),
    case(
        "graphile_worker-rs",
        "0.14.1",
        "poll_interval 10 ms, LISTEN, concurrency 8, local_queue 500, complete_job_batch_delay 5 ms",
    ),
    case("rustqueue", "0.3.0", "tick_interval 10 ms, pull 1000 every 10 ms, ack_batch"),
    case("pg-boss", "12.38.0", "pollingIntervalSeconds 0.5 (minimum), batchSize 1000, burstWhenBatchFull"),
    case(
        "graphile-worker",
        "0.18.0",
        "pollInterval 10 ms, LISTEN, concurrentJobs 24, localQueue 500, completeJobBatchDelay 0",
    ),
];

impl Case {
    /// Opens a new instance on an empty database; or in a folder on the same disk, if it has files
    /// of its own.
    pub async fn open(&self, url: &str, folder: &Path) -> Result<Arc<dyn Peer>> {
        Ok(match self.system {
            "apalis-postgres" => Arc::new(apalis::Apalis::open(url).await?),
            "graphile_worker-rs" => Arc::new(graphile::Graphile::open(url).await?),
            "rustqueue" => Arc::new(rustqueue::Queue::open(folder)?),
            system => Arc::new(node::Node::open(system, url).await?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_that_are_installed() {
        let files = concat!(include_str!("../Cargo.toml"), include_str!("../js/package.json"));
        for Case { system, version, .. } in CASES {
            let name = system.trim_end_matches("-rs");
            let line = files.lines().find(|line| line.trim_start_matches([' ', '"']).starts_with(name));
            assert!(line.is_some_and(|line| line.contains(version)), "{system} {version}: {line:?}");
        }
    }
}
