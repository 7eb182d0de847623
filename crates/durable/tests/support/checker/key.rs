//! The history of one key.

use std::collections::HashMap;

use crate::support::history::{Answer, Call, Micros, Op, OpId, Row, Run};

/// All calls are sorted by their begin, and the runs by their claim.
#[derive(Default)]
pub(crate) struct Key<'a> {
    pub(crate) schedules: Vec<&'a Op>,
    pub(crate) resets: Vec<&'a Op>,
    pub(crate) cancels: Vec<&'a Op>,
    pub(crate) gets: Vec<&'a Op>,
    pub(crate) runs: Vec<&'a Run>,
    /// For each schedule the time at which its row was certainly there, or had been.
    stored: HashMap<OpId, Micros>,
    by_id: HashMap<OpId, &'a Op>,
}

impl<'a> Key<'a> {
    pub(crate) fn add(&mut self, op: &'a Op) {
        match op.call {
            Call::Schedule { .. } | Call::ScheduleIfAbsent { .. } => self.schedules.push(op),
            Call::Reset { .. } => self.resets.push(op),
            Call::Cancel => self.cancels.push(op),
            Call::Get => self.gets.push(op),
        }
    }

    pub(crate) fn sort(&mut self) {
        for ops in [&mut self.schedules, &mut self.resets, &mut self.cancels, &mut self.gets] {
            ops.sort_by_key(|op| (op.begin, op.id));
        }
        self.runs.sort_by_key(|run| (run.claimed_at, run.generation, run.attempt));
        let answered = self.schedules.iter().filter(|op| op.generation().is_some()).map(|op| (op.id, op.end));
        let claimed = self.runs.iter().map(|run| (run.op, run.claimed_at));
        let seen = self.gets.iter().filter_map(|get| Some((row(get)?.op, get.end)));
        let mut stored = HashMap::new();
        for (op, at) in answered.chain(claimed).chain(seen) {
            stored.entry(op).and_modify(|first: &mut Micros| *first = at.min(*first)).or_insert(at);
        }
        self.stored = stored;
        self.by_id = self.schedules.iter().map(|op| (op.id, *op)).collect();
    }

    /// Returns a time at which the row of this schedule had been stored.
    pub(crate) fn stored(&self, schedule: OpId) -> Micros {
        self.stored.get(&schedule).copied().unwrap_or(Micros::MAX)
    }

    pub(crate) fn schedule(&self, id: OpId) -> Option<&'a Op> {
        self.by_id.get(&id).copied()
    }
}

/// Returns the row that a `get` has found.
pub(crate) fn row(get: &Op) -> Option<Row> {
    if let Answer::Found(row) = get.answer { row } else { None }
}

/// Returns those that began after `from` and before `to`.
pub(crate) fn begun_between<'a, 'o>(ops: &'a [&'o Op], from: Micros, to: Micros) -> impl Iterator<Item = &'o Op> + 'a {
    let first = ops.partition_point(|op| op.begin <= from);
    ops[first..].iter().copied().take_while(move |op| op.begin < to)
}
