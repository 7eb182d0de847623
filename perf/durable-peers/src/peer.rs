//! What the measurements ask of a system.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, bail};
use async_trait::async_trait;
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;

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
    /// Whether its interface has a call that schedules several timeouts in one transaction.
    fn has_batch(&self) -> bool;

    /// Schedules these timeouts through its own interface, and returns when they are durable: in
    /// one call if there are several, which it is asked for only if it has a call for them.
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

/// What the handlers report.
pub struct Seen {
    state: Mutex<State>,
}

struct State {
    window: Option<(Window, Vec<bool>)>,
    ran: u64,
    twice: u64,
    early: u64,
    lateness: Histogram<u64>,
}

/// What ran of a window, and how late, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    pub ran: u64,
    pub twice: u64,
    pub early: u64,
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

impl Default for Seen {
    fn default() -> Self {
        let lateness = Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("the bounds are in order");
        Seen { state: Mutex::new(State { window: None, ran: 0, twice: 0, early: 0, lateness }) }
    }
}

impl Seen {
    /// Counts this window from now on, and no other.
    pub fn watch(&self, window: Window) {
        let mut state = self.state.lock().expect("no handler panics");
        let flags = vec![false; usize::try_from(window.count).expect("a window fits into memory")];
        state.window = Some((window, flags));
        (state.ran, state.twice, state.early) = (0, 0, 0);
        state.lateness.reset();
    }

    /// A handler ran `at` this time for the timeout that was due at `due`.
    pub fn ran(&self, due: Due, at: Due) {
        let mut state = self.state.lock().expect("no handler panics");
        let State { window: Some((window, flags)), ran, twice, early, lateness } = &mut *state else { return };
        let Some(index) = window.index(due) else { return };
        if std::mem::replace(&mut flags[index], true) {
            *twice += 1;
            return;
        }
        *ran += 1;
        *early += u64::from(at < due);
        lateness.saturating_record(u64::try_from(at - due).unwrap_or(0));
    }

    pub fn count(&self) -> u64 {
        self.state.lock().expect("no handler panics").ran
    }

    pub fn result(&self) -> Ran {
        let state = self.state.lock().expect("no handler panics");
        let lateness = &state.lateness;
        Ran {
            ran: state.ran,
            twice: state.twice,
            early: state.early,
            p50: lateness.value_at_quantile(0.5),
            p99: lateness.value_at_quantile(0.99),
            max: lateness.max(),
        }
    }
}

/// For a system without a call for several.
pub fn only_one(dues: &[Due]) -> Result<Due> {
    match dues {
        &[due] => Ok(due),
        _ => bail!("{} timeouts in one call of a system that has no such call", dues.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { start: 1_000_000_000, rate: 300, count: 900 };

    #[test]
    fn each_timeout_of_a_window_is_counted_once() {
        let seen = Seen::default();
        seen.watch(WINDOW);
        for index in 0..WINDOW.count {
            let due = WINDOW.due(index);
            seen.ran(due, due + 1000);
            seen.ran(due, due + 9000);
        }
        let result = seen.result();
        assert_eq!((result.ran, result.twice, result.early), (900, 900, 0));
        assert_eq!((result.p50, result.p99, result.max), (1000, 1000, 1000));
    }

    #[test]
    fn what_is_due_outside_the_window_is_not_counted() {
        let seen = Seen::default();
        seen.watch(WINDOW);
        for due in [WINDOW.start - 1, WINDOW.due(WINDOW.count), WINDOW.due(WINDOW.count + 5)] {
            seen.ran(due, due);
        }
        assert_eq!(seen.count(), 0);
    }

    #[test]
    fn a_timeout_that_ran_before_it_was_due_is_early() {
        let seen = Seen::default();
        seen.watch(WINDOW);
        seen.ran(WINDOW.due(3), WINDOW.due(3) - 1);
        assert_eq!(seen.result(), Ran { ran: 1, twice: 0, early: 1, p50: 0, p99: 0, max: 0 });
    }
}
