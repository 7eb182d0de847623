//! What an operation costs, and how that is found out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::callgrind;
use super::operation::Operation;
use super::stepper::{Section, Trace, trace};
use super::subject::{self, How};

/// The costs of one operation; none where there is no such thing, or where it could not be found
/// out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Costs {
    /// Of the usual operation: the path through the code that most of them take.
    pub(crate) read_modify_writes: Option<f64>,
    /// Of all of them, on average.
    pub(crate) read_modify_writes_mean: Option<f64>,
    /// Outside of the stack, by the usual operation.
    pub(crate) lines_written: Option<f64>,
    /// Lines that a producer at one shard writes in the usual operation, and one at another shard
    /// writes, too, or reads.
    pub(crate) lines_shared_across_shards: Option<f64>,
    /// The same of two producers at one shard.
    pub(crate) lines_shared_in_shard: Option<f64>,
    /// Of 4,000 operations.
    pub(crate) system_calls: Option<f64>,
    /// Of 100,000 operations, with what has to come before each of them, and the worker's part.
    pub(crate) allocations: Option<f64>,
    /// Of the usual operation.
    pub(crate) instructions: Option<f64>,
    /// Of 10,000 operations, on average, on a driven engine with a clock that is moved by hand.
    pub(crate) instructions_by_callgrind: Option<f64>,
}

/// A cost, and how to talk about it.
#[derive(Debug)]
pub(crate) struct Cost {
    pub(crate) name: &'static str,
    pub(crate) heading: &'static str,
    pub(crate) of: fn(&Costs) -> Option<f64>,
    pub(crate) slack: Slack,
}

/// By how much a cost may be above the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slack {
    None,
    /// By what a few lines more in a turn are for one of its timeouts: a turn's own data may begin
    /// in the middle of a line.
    Share,
    /// By one: where the allocator has put a queue's block decides whether two places in it are in
    /// one line.
    One,
    /// By a few per cent: it depends on the compiler.
    SomePercent,
}

impl Cost {
    const fn new(name: &'static str, heading: &'static str, slack: Slack, of: fn(&Costs) -> Option<f64>) -> Self {
        Self { name, heading, of, slack }
    }
}

pub(crate) const ALL: [Cost; 9] = [
    Cost::new("read-modify-writes", "RMW", Slack::None, |costs| costs.read_modify_writes),
    Cost::new("read-modify-writes on average", "RMW,\nmean", Slack::None, |costs| costs.read_modify_writes_mean),
    Cost::new("cache lines written", "lines\nwritten", Slack::Share, |costs| costs.lines_written),
    Cost::new("cache lines shared with a producer of another shard", "shared,\nother shard", Slack::None, |costs| {
        costs.lines_shared_across_shards
    }),
    Cost::new("cache lines shared with a producer of the same shard", "shared,\nsame shard", Slack::One, |costs| {
        costs.lines_shared_in_shard
    }),
    Cost::new("system calls in 4,000 operations", "calls\nin 4,000", Slack::None, |costs| costs.system_calls),
    Cost::new("heap allocations in 100,000 operations", "allocations\nin 100,000", Slack::None, |costs| {
        costs.allocations
    }),
    Cost::new("instructions", "instr.", Slack::SomePercent, |costs| costs.instructions),
    Cost::new("instructions under callgrind", "instr.,\ncallgrind", Slack::SomePercent, |costs| {
        costs.instructions_by_callgrind
    }),
];

impl Costs {
    /// Measures one operation.
    pub(crate) fn measure(operation: Operation, means: Means<'_>) -> Result<Self> {
        let mut costs = Self { allocations: Some(allocations(operation)?), ..Self::default() };
        if means.trace {
            let trace = trace(&mut subject::command(operation, How::Step, 2)?)?;
            costs.take(&trace)?;
            if operation.is_producers() {
                costs.lines_shared_across_shards = Some(count(shared(&trace)?.len()));
                costs.lines_shared_in_shard = Some(count(shared(&trace_on_one_shard(operation)?)?.len()));
            }
            let calls = trace_calls(operation)?;
            costs.system_calls = Some(calls);
        }
        if let Some(valgrind) = means.valgrind {
            costs.instructions_by_callgrind = Some(rounded(callgrind::instructions(valgrind, operation)?));
        }
        Ok(costs)
    }

    /// Of two measurements of one operation, the lesser of each figure.
    pub(crate) fn least(&self, other: &Self) -> Self {
        let less = |of: fn(&Self) -> Option<f64>| match (of(self), of(other)) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        Self {
            read_modify_writes: less(|costs| costs.read_modify_writes),
            read_modify_writes_mean: less(|costs| costs.read_modify_writes_mean),
            lines_written: less(|costs| costs.lines_written),
            lines_shared_across_shards: less(|costs| costs.lines_shared_across_shards),
            lines_shared_in_shard: less(|costs| costs.lines_shared_in_shard),
            system_calls: less(|costs| costs.system_calls),
            allocations: less(|costs| costs.allocations),
            instructions: less(|costs| costs.instructions),
            instructions_by_callgrind: less(|costs| costs.instructions_by_callgrind),
        }
    }

    fn take(&mut self, trace: &Trace) -> Result<()> {
        let sections = lane(trace, 0);
        let usual = usual(&sections).context("nothing was measured")?;
        let operations = exactly(usual.operations);
        self.instructions = Some(rounded(exactly(usual.path.len() as u64) / operations));
        self.read_modify_writes = Some(rounded(count(usual.read_modify_writes.len()) / operations));
        self.lines_written = Some(rounded(count(usual.written.len()) / operations));
        let all: usize = sections.iter().map(|section| section.read_modify_writes.len()).sum();
        let operations: u64 = sections.iter().map(|section| section.operations).sum();
        self.read_modify_writes_mean = Some(rounded(count(all) / exactly(operations)));
        Ok(())
    }
}

/// With what costs can be found out here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means<'a> {
    pub(crate) trace: bool,
    pub(crate) valgrind: Option<&'a Path>,
}

fn trace_on_one_shard(operation: Operation) -> Result<Trace> {
    trace(&mut subject::command(operation, How::Step, 1)?)
}

fn trace_calls(operation: Operation) -> Result<f64> {
    let trace = trace(&mut subject::command(operation, How::Calls, 1)?)?;
    let operations: u64 = trace.sections.iter().map(|section| section.operations).sum();
    ensure!(operations == subject::CALLS as u64, "{operations} operations were watched");
    Ok(exactly(trace.sections.iter().map(|section| section.calls).sum()))
}

fn allocations(operation: Operation) -> Result<f64> {
    let mut command = subject::command(operation, How::Heap, 1)?;
    let output = command.output().context("cannot start this program once more")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let error = || format!("{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "allocations can't be counted: {}", error());
    said.trim().parse().with_context(error)
}

/// What one thread did.
pub(crate) fn lane(trace: &Trace, lane: u64) -> Vec<&Section> {
    trace.sections.iter().filter(|section| section.lane == lane).collect()
}

/// One of those that went the way most of them went.
pub(crate) fn usual<'a>(sections: &[&'a Section]) -> Option<&'a Section> {
    let mut lengths = BTreeMap::<usize, usize>::new();
    sections.iter().for_each(|section| *lengths.entry(section.path.len()).or_default() += 1);
    // Of two that are as frequent, the shorter one.
    let (usual, _) = lengths.into_iter().min_by_key(|&(length, times)| (std::cmp::Reverse(times), length))?;
    sections.iter().find(|section| section.path.len() == usual).copied()
}

/// Lines that one of two threads writes in its usual operations, and the other writes, or reads, in
/// its own.
pub(crate) fn shared(trace: &Trace) -> Result<BTreeSet<u64>> {
    let [first, second] = [0, 1].map(|number| touched_usually(&lane(trace, number)));
    let ((written, read), (written_too, read_too)) = (first.context("no lane 0")?, second.context("no lane 1")?);
    let mut shared: BTreeSet<u64> = written.intersection(&written_too).copied().collect();
    shared.extend(written.intersection(&read_too));
    shared.extend(written_too.intersection(&read));
    Ok(shared)
}

/// The lines that a thread's usual operations write, and those that they read.
fn touched_usually(sections: &[&Section]) -> Option<(BTreeSet<u64>, BTreeSet<u64>)> {
    let usual = usual(sections)?.path.len();
    let sections = || sections.iter().filter(|section| section.path.len() == usual);
    let written = sections().flat_map(|section| section.written.keys().copied()).collect();
    let read = sections().flat_map(|section| section.read.keys().copied()).collect();
    Some((written, read))
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[expect(clippy::cast_precision_loss, reason = "a few millions")]
fn exactly(number: u64) -> f64 {
    number as f64
}

fn count(number: usize) -> f64 {
    exactly(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(lane: u64, instructions: u64, written: &[u64], read: &[u64]) -> Section {
        Section {
            lane,
            operations: 1,
            path: (0..instructions).collect(),
            written: written.iter().map(|&line| (line, BTreeSet::new())).collect(),
            read: read.iter().map(|&line| (line, BTreeSet::new())).collect(),
            ..Section::default()
        }
    }

    #[test]
    fn the_usual_operation_is_the_most_frequent_and_of_two_the_shorter() {
        let sections = [3, 5, 5, 9].map(|n| section(0, n, &[], &[]));
        assert_eq!(usual(&sections.each_ref()).map(|section| section.path.len()), Some(5));
        let sections = [9, 5, 5, 9].map(|n| section(0, n, &[], &[]));
        assert_eq!(usual(&sections.each_ref()).map(|section| section.path.len()), Some(5));
        assert!(usual(&[]).is_none());
    }

    #[test]
    fn the_least_of_two_measurements_is_that_of_each_figure() {
        let one = Costs { instructions: Some(461.0), read_modify_writes: Some(6.0), ..Costs::default() };
        let two = Costs { instructions: Some(820.0), read_modify_writes: Some(5.0), ..Costs::default() };
        let least = Costs { instructions: Some(461.0), read_modify_writes: Some(5.0), ..Costs::default() };
        assert_eq!((one.least(&two), two.least(&one)), (least.clone(), least));
        assert_eq!(one.least(&Costs::default()), one, "what one of them could not find out the other knows");
    }

    #[test]
    fn a_line_is_shared_if_one_writes_it_and_the_other_writes_or_reads_it() {
        let trace = |second: Section| Trace { sections: vec![section(0, 1, &[1, 2], &[3, 4]), second], base: 0 };
        assert_eq!(shared(&trace(section(1, 1, &[5], &[3]))).ok().map(|lines| lines.len()), Some(0), "both read 3");
        assert_eq!(shared(&trace(section(1, 1, &[2], &[]))).ok().map(|lines| lines.len()), Some(1));
        assert_eq!(shared(&trace(section(1, 1, &[4], &[1, 2]))).ok().map(|lines| lines.len()), Some(3));
    }
}
