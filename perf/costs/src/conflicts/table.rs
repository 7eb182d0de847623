//! The table of conflicts, as it is checked in. `tourbillon-perf report` has this file, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Where the two threads stand to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Relation {
    /// Two producers of one shard.
    SameShard,
    /// Two producers, each with a shard of its own.
    OtherShard,
    /// Two producers, each with an engine of its own.
    OtherEngine,
    /// A producer, and the thread that turns its shard.
    Worker,
}

/// What one of two threads does with a line: the operations that write it, and those that only read
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Touches {
    pub(crate) writes: BTreeSet<String>,
    pub(crate) reads: BTreeSet<String>,
}

/// A line that both threads touch, and one writes; or several that are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    /// What is in it.
    pub(crate) name: String,
    pub(crate) one: Touches,
    pub(crate) other: Touches,
}

/// All operations, and all lines in which two of them are in conflict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// Of a producer.
    pub(crate) operations: Vec<String>,
    /// Of the thread that turns a shard.
    pub(crate) turns: Vec<String>,
    pub(crate) relations: BTreeMap<Relation, BTreeSet<Line>>,
}

impl Relation {
    pub(crate) fn explained(self) -> &'static str {
        match self {
            Self::SameShard => "two producers of one shard",
            Self::OtherShard => "two producers, each with a shard of its own",
            Self::OtherEngine => "two producers, each with an engine of its own",
            Self::Worker => "a producer, and the thread that turns its shard",
        }
    }

    /// Whether either of the two may be the one, and either the other.
    pub(crate) fn is_symmetric(self) -> bool {
        self != Self::Worker
    }
}

impl Touches {
    fn touches(&self, operation: &str) -> bool {
        self.writes.contains(operation) || self.reads.contains(operation)
    }
}

impl Line {
    /// Whether two operations, the first by one thread and the second by the other, conflict in it.
    fn is_of(&self, first: &str, second: &str) -> bool {
        let is_written = self.one.writes.contains(first) || self.other.writes.contains(second);
        is_written && self.one.touches(first) && self.other.touches(second)
    }
}

impl Table {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("there is no table {}; scripts/costs --accept makes one", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a table of conflicts", path.display()))
    }

    /// The operations that stand in the columns. Those of the rows are a producer's.
    pub(crate) fn columns(&self, relation: Relation) -> &[String] {
        if relation.is_symmetric() { &self.operations } else { &self.turns }
    }

    /// The lines of a relation, each name once, with a letter for each.
    pub(crate) fn legend(&self, relation: Relation) -> Vec<(char, &str)> {
        let lines = self.relations.get(&relation).into_iter().flatten();
        let names: BTreeSet<&str> = lines.map(|line| line.name.as_str()).collect();
        ('a'..).zip(names).collect()
    }

    /// The letters of the lines in which two operations are in conflict.
    pub(crate) fn letters(&self, relation: Relation, row: &str, column: &str) -> String {
        let is_of = |line: &Line| line.is_of(row, column) || relation.is_symmetric() && line.is_of(column, row);
        let lines = || self.relations.get(&relation).into_iter().flatten();
        let is_in = |name: &str| lines().any(|line| line.name == name && is_of(line));
        self.legend(relation).into_iter().filter(|(_, name)| is_in(name)).map(|(letter, _)| letter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touches(writes: &[&str], reads: &[&str]) -> Touches {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Touches { writes: set(writes), reads: set(reads) }
    }

    #[test]
    fn two_operations_conflict_if_one_writes_what_the_other_touches() {
        let line = |name: &str, one, other| Line { name: name.to_owned(), one, other };
        let inbox = line("inbox", touches(&["schedule"], &[]), touches(&["schedule"], &["stats"]));
        let counts = line("counts", touches(&["schedule", "reset"], &[]), touches(&[], &["stats"]));
        let lines = BTreeSet::from([inbox, counts]);
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let table = Table {
            operations: names(&["schedule", "reset", "stats"]),
            turns: names(&["expire"]),
            relations: BTreeMap::from([(Relation::SameShard, lines.clone()), (Relation::Worker, lines)]),
        };
        assert_eq!(table.legend(Relation::SameShard), [('a', "counts"), ('b', "inbox")]);
        let letters = |row, column| table.letters(Relation::SameShard, row, column);
        assert_eq!(letters("schedule", "schedule"), "b");
        assert_eq!(letters("schedule", "stats"), "ab");
        assert_eq!(letters("stats", "schedule"), "ab", "either may be the one");
        assert_eq!(letters("reset", "stats"), "a");
        assert_eq!(letters("reset", "schedule"), "");
        assert_eq!(letters("stats", "stats"), "", "both read");
        assert_eq!(table.letters(Relation::Worker, "stats", "schedule"), "", "the worker is no producer");
        assert_eq!(table.letters(Relation::OtherShard, "schedule", "schedule"), "");
    }
}
