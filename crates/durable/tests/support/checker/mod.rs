//! Checks a history against what the crate promises. A rule complains only of what no order of the
//! calls within their begins and ends can explain.
//!
//! A *row* here is what one schedule has stored. Its runs and its resets belong to it, whatever
//! their generations are.

mod calm;
mod key;
mod rows;
mod runs;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use crate::support::history::{History, Op, OpId};
use calm::Calm;
use key::Key;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// Something ran before its deadline.
    Early,
    /// A row that was answered has gone, and nothing has removed it.
    Lost,
    /// One (key, generation, attempt) was given to two handlers.
    Twice,
    /// Two runs of one row at one time, though the first one's lease can't have ended.
    Overlap,
    /// A row was claimed or seen after it was cancelled or replaced.
    Undead,
    /// A run or a row that no call has scheduled.
    Invented,
    /// A reset or a cancel that answered false, though the row was there and waited for its
    /// deadline.
    FalseAnswer,
    /// A `schedule_if_absent` that found a row, though none can have been there.
    FoundNothing,
    /// A later schedule or run of a key with a smaller generation or attempt, or one generation for
    /// two rows.
    Disorder,
    /// A reset or a cancel that answered true while the row ran under its lease.
    WhileItRan,
    /// A run after one that finished, though that one's lease can't have ended.
    AfterItsEnd,
}

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) key: u32,
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, key {}: {}", self.rule, self.key, self.what)
    }
}

/// Returns some violations of each rule, for people.
pub(crate) fn report(violations: &[Violation]) -> String {
    const SHOWN: usize = 5;
    let mut by_rule: BTreeMap<Rule, Vec<&Violation>> = BTreeMap::new();
    for violation in violations {
        by_rule.entry(violation.rule).or_default().push(violation);
    }
    let lines = by_rule.iter().flat_map(|(rule, violations)| {
        let heading = format!("{} violations of {rule:?}, such as:", violations.len());
        [heading].into_iter().chain(violations.iter().take(SHOWN).map(|violation| format!("    {violation}")))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns all that breaks a promise.
pub(crate) fn check(history: &History, lease: Duration) -> Vec<Violation> {
    let calm = Calm::new(&history.beats, lease);
    let mut keys: BTreeMap<u32, Key<'_>> = BTreeMap::new();
    for op in &history.ops {
        keys.entry(op.key).or_default().add(op);
    }
    for run in &history.runs {
        keys.entry(run.key).or_default().runs.push(run);
    }
    let schedules: HashMap<OpId, &Op> =
        (history.ops.iter()).filter(|op| op.is_schedule()).map(|op| (op.id, op)).collect();
    let mut found = shared_generations(history);
    for (&number, key) in &mut keys {
        key.sort();
        let mut complain = |rule, what| found.push(Violation { rule, key: number, what });
        rows::invented(number, key, &schedules, &mut complain);
        rows::lost(key, &mut complain);
        rows::undead(key, &mut complain);
        rows::false_answers(key, &mut complain);
        rows::found_nothing(key, &mut complain);
        runs::early(key, &mut complain);
        runs::twice(key, &mut complain);
        runs::disorder(key, &mut complain);
        runs::overlap(key, &calm, &mut complain);
        runs::while_it_ran(key, &calm, &mut complain);
        runs::after_its_end(key, &calm, &mut complain);
    }
    found
}

/// Finds generations that two rows have had, of whatever keys.
fn shared_generations(history: &History) -> Vec<Violation> {
    let answered = history.ops.iter().filter_map(|op| Some((op.generation()?, op.id, op.key)));
    let claimed = history.runs.iter().map(|run| (run.generation, run.op, run.key));
    let mut owners: HashMap<i64, OpId> = HashMap::new();
    let mut found = Vec::new();
    for (generation, op, key) in answered.chain(claimed) {
        let owner = *owners.entry(generation).or_insert(op);
        if owner != op {
            let what = format!("generation {generation} is of the schedules {owner} and {op}");
            found.push(Violation { rule: Rule::Disorder, key, what });
        }
    }
    found
}
