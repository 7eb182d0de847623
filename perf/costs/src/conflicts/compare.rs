//! Whether there are conflicts that the checked-in table does not have.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::table::{Line, Relation, Table, Touches};
use super::turned;

/// Returns what is new, a line of text for each.
pub(crate) fn compare(known: &Table, now: &Table) -> Vec<String> {
    let lines = now.relations.iter().flat_map(|(&relation, lines)| lines.iter().map(move |line| (relation, line)));
    let new = lines.filter(|&(relation, line)| !is_known(known, relation, line));
    new.map(|(relation, line)| format!("{}: {}", relation.explained(), described(line))).collect()
}

/// The operation that reads what all threads and shards count, and so shares lines with all.
const STATS: &str = "stats";

/// Writes the table, unless it has what no table may have: a line that producers share who share
/// nothing by the engine's design. (Only [`STATS`] looks at all of them.)
pub(crate) fn accept(now: &Table, path: &Path) -> Result<()> {
    for relation in [Relation::OtherShard, Relation::OtherEngine] {
        let lines = now.relations.get(&relation).into_iter().flatten();
        let lines: Vec<_> = lines.filter(|line| !is_for_stats(line)).map(described).collect();
        ensure!(lines.is_empty(), "{} can't share a cache line (see ARCHITECTURE.md): {lines:?}", relation.explained());
    }
    let text = serde_json::to_string_pretty(now).context("cannot turn the table into JSON")?;
    fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    println!("Written to {}.", path.display());
    Ok(())
}

fn is_for_stats(line: &Line) -> bool {
    let is_stats = |touches: &Touches| touches.writes.iter().chain(&touches.reads).all(|operation| operation == STATS);
    is_stats(&line.one) || is_stats(&line.other)
}

fn is_known(known: &Table, relation: Relation, line: &Line) -> bool {
    let within = |known: &Line| is_within(&line.one, &known.one) && is_within(&line.other, &known.other);
    let mut lines = known.relations.get(&relation).into_iter().flatten().filter(|known| known.name == line.name);
    lines.any(|known| within(known) || relation.is_symmetric() && within(&turned(known)))
}

fn is_within(now: &Touches, known: &Touches) -> bool {
    let is_read = |operation| known.reads.contains(operation) || known.writes.contains(operation);
    now.writes.is_subset(&known.writes) && now.reads.iter().all(is_read)
}

fn described(line: &Line) -> String {
    let list = |operations: &BTreeSet<String>| operations.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let touches =
        |touches: &Touches| format!("writes it in ({}), reads it in ({})", list(&touches.writes), list(&touches.reads));
    format!("{}: one {}; the other {}", line.name, touches(&line.one), touches(&line.other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn touches(writes: &[&str], reads: &[&str]) -> Touches {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Touches { writes: set(writes), reads: set(reads) }
    }

    fn table(relation: Relation, one: Touches, other: Touches) -> Table {
        let line = Line { name: "inbox".to_owned(), one, other };
        Table {
            operations: Vec::new(),
            turns: Vec::new(),
            relations: BTreeMap::from([(relation, BTreeSet::from([line]))]),
        }
    }

    #[test]
    fn a_line_or_an_operation_that_is_not_in_the_table_is_new_and_less_is_not() {
        let whole = || (touches(&["schedule", "reset"], &["stats"]), touches(&["schedule"], &[]));
        let known = table(Relation::SameShard, whole().0, whole().1);
        let new = |relation, one, other| compare(&known, &table(relation, one, other)).len();
        let schedule = || touches(&["schedule"], &[]);
        assert_eq!(new(Relation::SameShard, whole().0, whole().1), 0);
        assert_eq!(new(Relation::SameShard, whole().1, whole().0), 0, "either may be the one");
        assert_eq!(new(Relation::SameShard, touches(&["reset"], &[]), schedule()), 0, "less");
        assert_eq!(new(Relation::SameShard, touches(&[], &["reset"]), schedule()), 0, "less");
        assert_eq!(new(Relation::SameShard, touches(&["stats"], &[]), schedule()), 1, "it was only read");
        assert_eq!(new(Relation::SameShard, touches(&["cancel"], &[]), schedule()), 1, "another operation");
        assert_eq!(new(Relation::OtherShard, whole().0, whole().1), 1, "another relation");
    }

    #[test]
    fn a_producer_is_not_taken_for_the_worker() {
        let (producer, worker) = (|| touches(&["schedule"], &[]), || touches(&["expire"], &[]));
        let known = table(Relation::Worker, producer(), worker());
        assert_eq!(compare(&known, &table(Relation::Worker, producer(), worker())).len(), 0);
        assert_eq!(compare(&known, &table(Relation::Worker, worker(), producer())).len(), 1);
    }
}
