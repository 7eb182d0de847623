//! How the engine under test is set up: the few options all jobs share.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tourbillon::{Builder, Inline, ThreadPool, Timer};

use crate::{duration, number};

/// Options of the engine; without them it is what `Timer::builder()` gives.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineOptions {
    /// Shards, each with a worker thread [default: the library's]
    #[arg(long, value_name = "N", value_parser = number::parse_positive)]
    pub(crate) shards: Option<usize>,

    /// Length of a tick; the timeouts of one tick run together [default: the library's, 1ms]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive)]
    pub(crate) tick: Option<Duration>,

    /// Threads of the pool that runs what expired; 0 runs it on the worker [default: the library's]
    #[arg(long, value_name = "N", value_parser = number::parse_count)]
    pub(crate) pool: Option<usize>,
}

impl EngineOptions {
    /// A builder with these options set.
    pub(crate) fn builder(&self) -> Builder {
        let mut builder = Timer::builder();
        if let Some(shards) = self.shards {
            builder = builder.shards(shards);
        }
        if let Some(tick) = self.tick {
            builder = builder.tick_duration(tick);
        }
        match self.pool {
            None => builder,
            Some(0) => builder.executor(Inline),
            Some(threads) => builder.executor(ThreadPool::new(threads)),
        }
    }

    /// An engine with memory reserved for `capacity` timeouts.
    pub(crate) fn build(&self, capacity: usize) -> Result<Timer> {
        self.builder().capacity(capacity).build().context("the engine refused its options")
    }
}
