//! Rules for rows: nothing is lost, nothing comes back, nothing is made up.

use std::collections::HashMap;

use super::Rule;
use super::key::{Key, begun_between, row};
use crate::support::history::{Call, Micros, Op, OpId};

/// Each run and each row that was seen belongs to a schedule of this key. It has the generation
/// that this was answered, or, after a reset, a greater one.
pub(crate) fn invented(
    number: u32,
    key: &Key<'_>,
    schedules: &HashMap<OpId, &Op>,
    complain: &mut impl FnMut(Rule, String),
) {
    let runs = key.runs.iter().map(|run| (run.op, run.generation, run.claimed_at, format!("{run:?}")));
    let seen = key.gets.iter().filter_map(|get| {
        let row = row(get)?;
        Some((row.op, row.generation, get.end, format!("{get:?}")))
    });
    for (op, generation, at, what) in runs.chain(seen) {
        let Some(schedule) = schedules.get(&op) else {
            complain(Rule::Invented, format!("nobody scheduled {what}"));
            continue;
        };
        if schedule.key != number || schedule.begin > at || schedule.is_false() {
            complain(Rule::Invented, format!("{what} is not of {schedule:?}"));
            continue;
        }
        let Some(answered) = schedule.generation() else { continue };
        let may_be_reset =
            || key.resets.iter().any(|op| op.may_have_happened() && op.end >= schedule.begin && op.begin <= at);
        if generation < answered || (generation > answered && !may_be_reset()) {
            complain(Rule::Invented, format!("generation {generation} in {what} is not that of {schedule:?}"));
        }
    }
}

/// The key had a row at some time in `from..=by`.
#[derive(Clone, Copy)]
struct Evidence {
    from: Micros,
    by: Micros,
    /// A run that was claimed before can't have finished that row.
    claimed_from: Micros,
}

/// A `get` finds the row unless something can have removed it since the last evidence of it. So
/// does a `schedule_if_absent`, which schedules only if it finds none.
pub(crate) fn lost(key: &Key<'_>, complain: &mut impl FnMut(Rule, String)) {
    let answered = key.schedules.iter().filter(|op| op.generation().is_some());
    let reset = key.resets.iter().filter(|op| op.is_true());
    let written = answered.chain(reset).map(|op| Evidence { from: op.begin, by: op.end, claimed_from: op.begin });
    let claimed = (key.runs.iter().map(|run| run.claimed_at)).map(|at| Evidence { from: at, by: at, claimed_from: at });
    let strong = Newest::new(written.chain(claimed).collect());
    let if_absent = || key.schedules.iter().filter(|op| matches!(op.call, Call::ScheduleIfAbsent { .. }));
    let seen = key.gets.iter().filter(|get| row(get).is_some()).chain(if_absent().filter(|op| op.is_false()));
    let weak =
        Newest::new(seen.map(|get| Evidence { from: get.begin, by: get.end, claimed_from: Micros::MIN }).collect());
    let scheduled = if_absent().filter(|op| op.generation().is_some());
    for get in key.gets.iter().filter(|get| row(get).is_none()).chain(scheduled) {
        for newest in [&strong, &weak] {
            let Some(evidence) = newest.before(get.begin) else { continue };
            let cancelled =
                key.cancels.iter().any(|op| op.may_have_happened() && op.end >= evidence.from && op.begin <= get.end);
            if cancelled {
                continue;
            }
            let first = key.runs.partition_point(|run| run.claimed_at < evidence.claimed_from);
            let finished = key.runs[first..].iter().any(|run| run.finished().is_some_and(|at| at <= get.end));
            if !finished {
                let (from, by) = (evidence.from, evidence.by);
                complain(Rule::Lost, format!("it had a row in {from}..{by}, and nothing removed it until {get:?}"));
            }
        }
    }
}

/// Finds the newest evidence that is older than a time.
struct Newest {
    by_end: Vec<(Micros, Evidence)>,
}

impl Newest {
    fn new(mut all: Vec<Evidence>) -> Self {
        all.sort_by_key(|evidence| evidence.by);
        let mut newest: Option<Evidence> = None;
        let by_end = all.into_iter().map(|evidence| {
            let so_far = newest.filter(|so_far| so_far.from >= evidence.from).unwrap_or(evidence);
            newest = Some(so_far);
            (evidence.by, so_far)
        });
        Self { by_end: by_end.collect() }
    }

    fn before(&self, time: Micros) -> Option<Evidence> {
        let after = self.by_end.partition_point(|(by, _)| *by < time);
        after.checked_sub(1).map(|at| self.by_end[at].1)
    }
}

/// A `schedule_if_absent` that has not scheduled has found the row of some schedule. No cancel had
/// removed that before.
pub(crate) fn found_nothing(key: &Key<'_>, complain: &mut impl FnMut(Rule, String)) {
    for op in key.schedules.iter().filter(|op| op.is_false()) {
        let is_gone = |schedule: &Op| {
            begun_between(&key.cancels, key.stored(schedule.id), op.begin)
                .any(|cancel| cancel.is_true() && cancel.end < op.begin)
        };
        let mut others = key.schedules.iter().filter(|other| other.may_have_happened() && other.begin <= op.end);
        if others.all(|schedule| is_gone(schedule)) {
            complain(Rule::FoundNothing, format!("{op:?}"));
        }
    }
}

/// A row that was cancelled or replaced is neither claimed nor seen any more.
pub(crate) fn undead(key: &Key<'_>, complain: &mut impl FnMut(Rule, String)) {
    let claims = key.runs.iter().map(|run| (run.op, run.claimed_at, format!("{run:?}")));
    let seen = key.gets.iter().filter_map(|get| Some((row(get)?.op, get.begin, format!("{get:?}"))));
    for (op, at, what) in claims.chain(seen) {
        let stored = key.stored(op);
        let cancelled = begun_between(&key.cancels, stored, at).filter(|op| op.is_true());
        let replaced = begun_between(&key.schedules, stored, at).filter(|op| op.generation().is_some());
        if let Some(by) = cancelled.chain(replaced).find(|op| op.end < at) {
            complain(Rule::Undead, format!("{what}, though stored at {stored}, and ended by {by:?}"));
        }
    }
}

/// A row that runs for the first time has waited until its deadline, and so has one that is seen
/// unclaimed, if that is not before. A reset or a cancel within that time had to answer true.
///
/// After the deadline it may have been claimed. A claim whose answer was lost is made again under
/// the same number, and one that is given back before its run leaves nothing to be seen.
pub(crate) fn false_answers(key: &Key<'_>, complain: &mut impl FnMut(Rule, String)) {
    let mut untouched: HashMap<OpId, Micros> = HashMap::new();
    let claims = key.runs.iter().filter(|run| run.attempt == 1);
    let claims = claims.map(|run| (run.op, run.generation, run.due));
    let seen = key.gets.iter().filter_map(|get| {
        let row = row(get).filter(|row| row.attempts == 0)?;
        let due = key.schedule(row.op)?.due()?;
        Some((row.op, row.generation, get.begin.min(due)))
    });
    let all: Vec<_> = claims.chain(seen).collect();
    let generations: HashMap<OpId, i64> =
        key.schedules.iter().filter_map(|op| Some((op.id, op.generation()?))).collect();
    for (op, generation, at) in all {
        if generations.get(&op) == Some(&generation) {
            untouched.entry(op).and_modify(|last| *last = at.max(*last)).or_insert(at);
        }
    }
    for answer in key.resets.iter().chain(&key.cancels).filter(|op| op.is_false()) {
        let waited = key.schedules.iter().find(|schedule| {
            let until = untouched.get(&schedule.id).copied().unwrap_or(Micros::MIN);
            schedule.generation().is_some() && schedule.end < answer.begin && answer.end < until
        });
        if let Some(schedule) = waited {
            let until = untouched[&schedule.id];
            complain(Rule::FalseAnswer, format!("{answer:?}, though {schedule:?} waited until {until}"));
        }
    }
}
