//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;

/// A Pingora proxy with a limit on all that it waits for
#[derive(Debug, Clone, Parser)]
pub(crate) struct Options {
    /// Where it listens
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,

    /// Where requests go
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) upstream: SocketAddr,

    /// Threads that serve
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) threads: usize,

    /// Milliseconds to connect to the upstream
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    connect: u64,

    /// Milliseconds for each read, of a response and of a request's body
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    read: u64,

    /// Milliseconds for each write
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    write: u64,

    /// Milliseconds for which an unused connection to the upstream is kept
    #[arg(long, value_name = "MS", default_value_t = 4_000)]
    idle: u64,

    /// Seconds for which a client's connection is kept between requests
    #[arg(long, value_name = "S", default_value_t = 60)]
    keep_alive: u64,

    /// No limit at all, except on the head of a connection's first request
    #[arg(long)]
    no_limits: bool,

    /// Tokio counts limits of a second or more, by Pingora's own setting
    #[arg(long)]
    pub(crate) tokio: bool,
}

impl Options {
    pub(crate) fn connect(&self) -> Option<Duration> {
        self.limit(self.connect)
    }

    pub(crate) fn read(&self) -> Option<Duration> {
        self.limit(self.read)
    }

    pub(crate) fn write(&self) -> Option<Duration> {
        self.limit(self.write)
    }

    pub(crate) fn idle(&self) -> Option<Duration> {
        self.limit(self.idle)
    }

    /// As Pingora has it: 0 is for ever.
    pub(crate) fn keep_alive_s(&self) -> u64 {
        if self.no_limits { 0 } else { self.keep_alive }
    }

    fn limit(&self, ms: u64) -> Option<Duration> {
        (!self.no_limits).then(|| Duration::from_millis(ms))
    }
}
