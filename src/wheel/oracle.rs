//! What a wheel *is*: a set of things with deadlines, of which those are due whose deadline has
//! come. Forty lines, too simple to doubt, to compare the real wheel with.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Oracle {
    by_id: BTreeMap<usize, u64>,
}

impl Oracle {
    pub(super) fn insert(&mut self, id: usize, deadline: u64) {
        assert!(self.by_id.insert(id, deadline).is_none());
    }

    pub(super) fn reset(&mut self, id: usize, deadline: u64) {
        *self.by_id.get_mut(&id).expect("it is pending") = deadline;
    }

    pub(super) fn cancel(&mut self, id: usize) {
        assert!(self.by_id.remove(&id).is_some());
    }

    /// Returns those that are due, with their deadlines.
    pub(super) fn due(&self, now: u64) -> Vec<(usize, u64)> {
        self.by_id.iter().filter(|(_, deadline)| **deadline <= now).map(|(id, deadline)| (*id, *deadline)).collect()
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.by_id.values().copied().min()
    }

    pub(super) fn deadline(&self, id: usize) -> Option<u64> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn ids(&self) -> Vec<usize> {
        self.by_id.keys().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}
