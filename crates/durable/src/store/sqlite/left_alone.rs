//! The rows that scans leave alone, as they can't be read.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::time::{Duration, Instant};

/// A row that can't be read is tried again after this time: somebody may have repaired it.
const PAUSE: Duration = Duration::from_secs(60);

/// They are known by their rowids: any other value of a row may be the one that can't be read.
#[derive(Default)]
pub(super) struct LeftAlone {
    until: HashMap<i64, Instant>,
    /// Stretches of indexes that can't be read.
    damages: HashSet<String>,
    /// The reasons that no scan has returned yet.
    news: Vec<String>,
}

impl LeftAlone {
    pub(super) fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    pub(super) fn contains(&self, rowid: i64) -> bool {
        self.until.get(&rowid).is_some_and(|until| Instant::now() < *until)
    }

    /// Leaves a row alone, for the reason that `what` says.
    pub(super) fn add(&mut self, rowid: i64, what: String) {
        if self.until.insert(rowid, Instant::now() + PAUSE).is_none() {
            self.news.push(what);
        }
    }

    pub(super) fn add_damages(&mut self, damages: Vec<String>) {
        for damage in damages {
            if self.damages.insert(damage.clone()) {
                self.news.push(damage);
            }
        }
    }

    /// The row has been read or written. Or it is another one by now: SQLite uses rowids again.
    pub(super) fn remove(&mut self, rowid: i64) {
        self.until.remove(&rowid);
    }

    /// Returns what was added since it was asked last.
    pub(super) fn news(&mut self) -> Vec<String> {
        mem::take(&mut self.news)
    }
}
