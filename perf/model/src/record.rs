//! Records operations: runs the subject under the stepper.

use anyhow::{Context, Result, ensure};

use super::operation::{Operation, Timers};
use super::recording::Recording;
use super::stepper::trace;
use super::subject;

/// How often Tourbillon is recorded. Its clock may notice that the stepper holds the counter back,
/// and then each operation reads the monotonic clock, too. It never does less than it would
/// otherwise, so the recording with the fewest instructions is kept.
const TIMES: usize = 4;

/// Records an operation by so many threads.
pub(crate) fn record(timers: Timers, operation: Operation, lanes: usize, shards: Option<usize>) -> Result<Recording> {
    let shown = shards.map_or_else(String::new, |shards| format!(", shards: {shards}"));
    eprintln!("{} of {}, threads: {lanes}{shown}", operation.title(), timers.id());
    let times = if timers == Timers::Tourbillon { TIMES } else { 1 };
    let recordings: Vec<_> =
        (0..times).map(|_| record_once(timers, operation, lanes, shards)).collect::<Result<_>>()?;
    let least = |one: &Recording, other: &Recording| one.instructions().total_cmp(&other.instructions());
    recordings.into_iter().min_by(least).context("nothing was recorded")
}

fn record_once(timers: Timers, operation: Operation, lanes: usize, shards: Option<usize>) -> Result<Recording> {
    let trace = trace(&mut subject::command(timers, operation, lanes, shards)?)?;
    let recording = Recording::of(&trace, timers.has_mutex());
    ensure!(recording.lanes.len() == lanes, "{} of {lanes} threads were recorded", recording.lanes.len());
    Ok(recording)
}
