//! Finds the conflicts: which lines each thread touches in which operations, and which of them are
//! the same.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::subject;
use super::table::{Line, Relation, Table, Touches};
use super::{of_a_turn, producers, turned};
use crate::costs::{lane, usual};
use crate::operation::Operation;
use crate::places::{Place, places};
use crate::stepper::{Section, Trace, trace};
use crate::turn_thread;

/// A line of memory, as one thread touches it.
#[derive(Debug, Default)]
struct Touched {
    operations: Touches,
    /// The instructions that write it, and those that read it.
    writers: BTreeSet<u64>,
    readers: BTreeSet<u64>,
}

/// Has the operations done, and finds all conflicts.
pub(crate) fn measure() -> Result<Table> {
    let turns = Operation::shared().filter(|operation| !operation.is_producers());
    let turns: BTreeSet<&str> = turns.map(of_a_turn).collect();
    let relations = Relation::value_variants().iter().map(|&relation| Ok((relation, of_relation(relation)?)));
    Ok(Table {
        operations: producers().map(Operation::name).collect(),
        turns: turns.into_iter().map(str::to_owned).collect(),
        relations: relations.collect::<Result<_>>()?,
    })
}

fn of_relation(relation: Relation) -> Result<BTreeSet<Line>> {
    let trace = trace(&mut subject::command(relation)?)?;
    let [one, other] = [0, 1].map(|number| all_touched(&trace, number, relation));
    let (one, other) = (one?, other?);
    ensure!(!one.is_empty() && !other.is_empty(), "a thread has touched nothing");
    let in_conflict: Vec<_> = one
        .iter()
        .filter_map(|(line, touched)| Some((touched, other.get(line)?)))
        .filter(|(one, other)| !one.operations.writes.is_empty() || !other.operations.writes.is_empty())
        .collect();
    let addresses = in_conflict.iter().flat_map(|(one, other)| [one, other]);
    let addresses: BTreeSet<u64> =
        addresses.flat_map(|touched| touched.writers.iter().chain(&touched.readers)).copied().collect();
    let known = places_of(&addresses, trace.base)?;
    let named = in_conflict.into_iter().filter_map(|(one, other)| {
        let places = |of: fn(&Touched) -> &BTreeSet<u64>| {
            let addresses = of(one).iter().chain(of(other));
            addresses.filter_map(|address| known.get(address)).collect::<Vec<_>>()
        };
        let writers = places(|touched| &touched.writers);
        // What this program counts for itself.
        if writers.iter().any(|place| place.is_in("perf/costs/src/heap.rs")) {
            return None;
        }
        let name = super::names::name(&writers, &places(|touched| &touched.readers));
        let line = Line { name, one: one.operations.clone(), other: other.operations.clone() };
        // Of two producers either may be the first: the same one in each table.
        Some(if relation.is_symmetric() { turned(&line).min(line) } else { line })
    });
    Ok(named.collect())
}

/// The lines that a thread touches.
fn all_touched(trace: &Trace, number: usize, relation: Relation) -> Result<BTreeMap<u64, Touched>> {
    let mut lines = BTreeMap::<u64, Touched>::new();
    let turns = relation == Relation::Worker && number == turn_thread::LANE;
    let sections = lane(trace, number as u64);
    let labels: BTreeSet<u64> = sections.iter().map(|section| section.label).collect();
    for label in labels {
        let operation = *usize::try_from(label).ok().and_then(|at| Operation::all().get(at)).context("a label")?;
        let name = if turns { of_a_turn(operation).to_owned() } else { operation.name() };
        let of_label: Vec<&Section> = sections.iter().filter(|section| section.label == label).copied().collect();
        // Each turn goes another way, by what it finds.
        let path = if turns { None } else { usual(&of_label).map(|section| section.path.len()) };
        for section in of_label.iter().filter(|section| path.is_none_or(|path| section.path.len() == path)) {
            for (&line, writers) in &section.written {
                let touched = lines.entry(line).or_default();
                touched.operations.writes.insert(name.clone());
                touched.writers.extend(writers);
            }
            for (&line, readers) in &section.read {
                let touched = lines.entry(line).or_default();
                touched.operations.reads.insert(name.clone());
                touched.readers.extend(readers);
            }
        }
    }
    for touched in lines.values_mut() {
        let Touches { writes, reads } = &mut touched.operations;
        reads.retain(|operation| !writes.contains(operation));
    }
    Ok(lines)
}

fn places_of(addresses: &BTreeSet<u64>, base: u64) -> Result<BTreeMap<u64, Place>> {
    if addresses.is_empty() {
        return Ok(BTreeMap::new());
    }
    let offsets: Vec<u64> = addresses.iter().map(|address| address.wrapping_sub(base)).collect();
    Ok(addresses.iter().copied().zip(places(&offsets)?).collect())
}
