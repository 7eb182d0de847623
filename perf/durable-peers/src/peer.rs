//! What the measurements ask of a system.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use async_trait::async_trait;
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use serde::Serialize;

/// When a timeout is due: microseconds since 1970. It is the payload too, so that a handler needs
/// nothing else to know how late it is. All systems and the server are on one machine, so on one
/// clock.
pub type Due = i64;

pub const SECOND: Due = 1_000_000;

pub fn now() -> Due {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    Due::try_from(since.as_micros()).expect("the year is below 290,000")
}

/// How many pending timeouts one call of `fill` adds.
const FILL: usize = 1000;

/// A system with a database of its own, ready to schedule and to run timeouts.
#[async_trait]
pub trait Peer: Send + Sync {
    /// Schedules these timeouts through its own interface, in one call, and returns when they are
    /// durable.
    async fn schedule(&self, dues: &[Due]) -> Result<()>;

    /// Starts the workers, which report to `seen` until the peer's runtime ends.
    async fn work(&self, seen: Arc<Seen>) -> Result<()>;

    /// Schedules `pending` timeouts that are not due before a day has passed.
    async fn fill(&self, pending: usize) -> Result<()> {
        let first = now() + 86_400 * SECOND;
        let chunks: Vec<usize> = (0..pending).step_by(FILL).map(|start| FILL.min(pending - start)).collect();
        // Four at a time, as one connection alone leaves a core idle.
        for group in chunks.chunks(4) {
            try_join_all(group.iter().map(|&size| async move {
                // Anywhere within the next hour, so that an index is filled all over.
                let dues: Vec<Due> = (0..size).map(|_| first + fastrand::i64(0..3600 * SECOND)).collect();
                self.schedule(&dues).await
            }))
            .await?;
        }
        Ok(())
    }

    /// How many timeouts `producers` at once schedule within `time`, each waiting for its own to be
    /// durable before its next call of `batch`.
    async fn produce(&self, producers: usize, time: Duration, batch: usize) -> Result<u64> {
        let end = tokio::time::Instant::now() + time;
        let counts = try_join_all((0..producers).map(|_| async move {
            let mut count = 0;
            while tokio::time::Instant::now() < end {
                let first = now() + 86_400 * SECOND;
                let dues: Vec<Due> = (0..batch).map(|_| first + fastrand::i64(0..3600 * SECOND)).collect();
                self.schedule(&dues).await?;
                count += batch as u64;
            }
            anyhow::Ok(count)
        }))
        .await?;
        Ok(counts.into_iter().sum())
    }
}

/// The timeouts whose lateness counts: `count` of them from `start` on, `rate` a second.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub start: Due,
    pub rate: u64,
    pub count: u64,
}

impl Window {
    pub fn due(&self, index: u64) -> Due {
        self.start + Due::try_from(index * 1_000_000 / self.rate).expect("a window lasts minutes")
    }

    fn index(&self, due: Due) -> Option<usize> {
        let offset = u64::try_from(due - self.start).ok()?;
        // Rounded up, as `due` rounds down.
        let index = (offset * self.rate).div_ceil(1_000_000);
        (index < self.count).then_some(usize::try_from(index).ok()?)
    }
}

/// How late the timeouts of one load ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lateness {
    pub expected: u64,
    pub ran: u64,
    pub twice: u64,
    pub early: u64,
    /// How many were durable only after they were due, as the system schedules too slowly.
    pub scheduled_late: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// What the handlers report.
pub struct Seen(Mutex<State>);

struct State {
    window: Window,
    /// Which of the window ran.
    flags: Vec<bool>,
    found: Lateness,
    micros: Histogram<u64>,
}

impl Seen {
    /// Counts this window, and nothing else.
    pub fn new(window: Window) -> Self {
        let flags = vec![false; usize::try_from(window.count).expect("a window fits into memory")];
        let micros = Histogram::new(3).expect("three digits can be had");
        Self(Mutex::new(State { window, flags, found: Lateness::default(), micros }))
    }

    /// A handler ran `at` this time for the timeout that was due at `due`.
    pub fn ran(&self, due: Due, at: Due) {
        let mut state = self.0.lock().expect("no handler panics");
        let Some(index) = state.window.index(due) else { return };
        if std::mem::replace(&mut state.flags[index], true) {
            state.found.twice += 1;
            return;
        }
        state.found.ran += 1;
        state.found.early += u64::from(at < due);
        // It grows as far as it has to, so there is no error.
        let _ = state.micros.record(u64::try_from(at - due).unwrap_or(0));
    }

    pub fn result(&self) -> Lateness {
        let state = self.0.lock().expect("no handler panics");
        let ms = |share| state.micros.value_at_quantile(share) as f64 / 1000.0;
        Lateness { p50_ms: ms(0.5), p99_ms: ms(0.99), max_ms: ms(1.0), ..state.found.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_timeout_of_a_window_is_counted_once_and_others_are_not() {
        let window = Window { start: 1_000_000_000, rate: 300, count: 900 };
        let seen = Seen::new(window);
        for index in 0..window.count {
            let due = window.due(index);
            seen.ran(due, due + 1000);
            seen.ran(due, due + 9000);
        }
        for due in [window.start - 1, window.due(window.count), window.due(window.count + 5)] {
            seen.ran(due, due);
        }
        let found = seen.result();
        assert_eq!((found.ran, found.twice, found.early, found.p50_ms, found.max_ms), (900, 900, 0, 1.0, 1.0));
    }

    #[test]
    fn a_timeout_that_ran_before_it_was_due_is_early() {
        let window = Window { start: 1_000_000_000, rate: 300, count: 900 };
        let seen = Seen::new(window);
        seen.ran(window.due(3), window.due(3) - 1);
        assert_eq!((seen.result().ran, seen.result().early), (1, 1));
    }
}
