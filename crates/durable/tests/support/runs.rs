//! Timers whose handler notes what it runs.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tourbillon_durable::{Builder, Due, DurableTimer, Outcome};

use super::{Start, Started, until};

/// How late a timeout may be while something is wrong with others.
pub(crate) const LATE: Duration = Duration::from_secs(1);
pub(crate) const FAR: Duration = Duration::from_secs(3_600);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The runs of the handler `close`.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<Mutex<Vec<Run>>>);

/// A run: what was due, and how late it began.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) due: Due,
    pub(crate) late: Duration,
}

impl Runs {
    /// Opens a store, with a short window and a short lease.
    pub(crate) fn open(&self, location: impl AsRef<Path>) -> Builder {
        let runs = self.clone();
        let close = move |due: Due| {
            let late = SystemTime::now().duration_since(due.due()).expect("it is never early");
            runs.0.lock().unwrap().push(Run { due, late });
            Outcome::Done
        };
        DurableTimer::open(location).unwrap().handler("close", close).window(ms(4_000)).lease(ms(4_000))
    }

    pub(crate) fn start(&self, location: impl AsRef<Path>) -> Started {
        self.open(location).started()
    }

    /// Those whose keys begin so.
    pub(crate) fn of(&self, prefix: &str) -> Vec<Run> {
        let runs = self.0.lock().unwrap();
        runs.iter().filter(|run| run.due.key().starts_with(prefix)).cloned().collect()
    }

    pub(crate) fn wait_for(&self, prefix: &str, count: usize) {
        until(|| self.of(prefix).len() == count);
    }

    /// Waits until all with this prefix have run, which must be soon enough.
    pub(crate) fn are_in_time(&self, prefix: &str, count: usize) {
        self.wait_for(prefix, count);
        let latest = self.of(prefix).into_iter().map(|run| run.late).max().expect("there is one");
        assert!(latest < LATE, "{prefix} was late by {latest:?}");
    }

    /// Checks that no token was handed out twice.
    pub(crate) fn have_tokens_of_their_own(&self) {
        let runs = self.0.lock().unwrap();
        let mut tokens: Vec<_> =
            runs.iter().map(|Run { due, .. }| (due.key(), due.generation(), due.attempt())).collect();
        tokens.sort_unstable();
        let count = tokens.len();
        tokens.dedup();
        assert_eq!(tokens.len(), count);
    }
}

pub(crate) fn schedule(timers: &DurableTimer, key: &str, delay: Duration) {
    timers.schedule(key, delay, "close", b"").unwrap().wait().unwrap();
}
