//! Rules for runs: never early, each attempt once, in order, and one at a time.

use std::collections::HashMap;

use super::Rule;
use super::calm::Calm;
use super::key::Key;
use crate::support::history::{Micros, Op, OpId, Run};

/// A run starts after the deadline that it was told, and after the earliest that the row can have
/// had when it was claimed.
pub(crate) fn early(key: &Key<'_>, complain: &mut impl FnMut(Rule, String)) {
    for run in &key.runs {
        if run.start < run.due || run.claimed_at < run.due {
            complain(Rule::Early, format!("{run:?}"));
        }
        let Some(schedule) = key.schedule(run.op) else { continue };
        let stored = key.stored(run.op);
        // A reset after it, which was answered before the claim, has changed the deadline.
        let is_overwritten = |op: &Op| {
            let after = op.end.max(stored);
            key.resets.iter().any(|reset| reset.is_true() && reset.begin > after && reset.end <= run.claimed_at)
        };
        let resets = key
            .resets
            .iter()
            .filter(|reset| reset.may_have_happened() && reset.end >= schedule.begin && reset.begin <= run.claimed_at);
        let in_force = resets.copied().chain([schedule]).filter(|op| !is_overwritten(op));
        let earliest = in_force.filter_map(Op::due).min();
        if earliest.is_some_and(|earliest| run.start < earliest) {
            complain(Rule::Early, format!("{run:?}, and no deadline before {earliest:?}"));
        }
    }
}

pub(crate) fn twice(key: &Key<'_>, complain: &mut impl FnMut(Rule, String)) {
    let mut seen: HashMap<(i64, u32), &Run> = HashMap::new();
    for run in &key.runs {
        if let Some(first) = seen.insert((run.generation, run.attempt), run) {
            complain(Rule::Twice, format!("{first:?} and {run:?}"));
        }
    }
}

/// Generations grow from schedule to schedule, and (generation, attempt) from claim to claim.
pub(crate) fn disorder(key: &Key<'_>, complain: &mut impl FnMut(Rule, String)) {
    for pair in key.runs.windows(2) {
        let [first, next] = [pair[0], pair[1]];
        let grows = (first.generation, first.attempt) < (next.generation, next.attempt);
        if !grows && first.claimed_at < next.claimed_at {
            complain(Rule::Disorder, format!("{first:?} and then {next:?}"));
        }
    }
    let mut by_end: Vec<&Op> = key.schedules.iter().copied().filter(|op| op.generation().is_some()).collect();
    let by_begin = by_end.clone();
    by_end.sort_by_key(|op| op.end);
    let (mut ended, mut greatest) = (0, None);
    for op in by_begin {
        while ended < by_end.len() && by_end[ended].end < op.begin {
            greatest = greatest.max(by_end[ended].generation());
            ended += 1;
        }
        if op.generation() <= greatest {
            complain(Rule::Disorder, format!("{op:?} after generation {greatest:?}"));
        }
    }
}

/// Returns the runs of each row, in the order of their claims.
fn by_row<'a>(key: &Key<'a>) -> Vec<Vec<&'a Run>> {
    let mut rows: HashMap<OpId, Vec<&Run>> = HashMap::new();
    for run in &key.runs {
        rows.entry(run.op).or_default().push(run);
    }
    rows.into_values().collect()
}

pub(crate) fn overlap(key: &Key<'_>, calm: &Calm, complain: &mut impl FnMut(Rule, String)) {
    for runs in by_row(key) {
        for (at, next) in runs.iter().enumerate() {
            for first in &runs[..at] {
                let over = first.end.map_or(Micros::MAX, |(end, _)| end);
                if next.start < over && calm.held_its_lease(first.process, first.claimed_at, next.start) {
                    complain(Rule::Overlap, format!("{first:?} and {next:?}"));
                }
            }
        }
    }
}

/// While a row runs under its lease, only a schedule replaces it.
pub(crate) fn while_it_ran(key: &Key<'_>, calm: &Calm, complain: &mut impl FnMut(Rule, String)) {
    for op in key.resets.iter().chain(&key.cancels).filter(|op| op.is_true()) {
        let until = key.runs.partition_point(|run| run.claimed_at < op.begin);
        for run in &key.runs[..until] {
            let ran = run.start < op.begin && run.end.is_some_and(|(end, _)| end > op.end);
            let is_replaced = || {
                let mut others = key.schedules.iter().filter(|other| other.id != run.op);
                others.any(|other| other.begin <= op.end && other.end >= run.claimed_at)
            };
            if ran && calm.held_its_lease(run.process, run.claimed_at, op.end) && !is_replaced() {
                complain(Rule::WhileItRan, format!("{op:?} within {run:?}"));
            }
        }
    }
}

pub(crate) fn after_its_end(key: &Key<'_>, calm: &Calm, complain: &mut impl FnMut(Rule, String)) {
    for runs in by_row(key) {
        for pair in runs.windows(2) {
            let [first, next] = [pair[0], pair[1]];
            let Some(ended) = first.finished() else { continue };
            if calm.stored_its_end(first.process, first.claimed_at, ended) {
                complain(Rule::AfterItsEnd, format!("{first:?} and then {next:?}"));
            }
        }
    }
}
