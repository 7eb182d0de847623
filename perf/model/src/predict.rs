//! From what one producer was measured to need, what two would need; and how far that is from what
//! they were measured to need.

use anyhow::{Context, Result};
use serde::Serialize;

use super::compare::statistics::ENOUGH;
use super::measured::{Distance, Figure, Measured};
use super::operation::{Operation, Timers};
use super::recording::Recording;
use super::replay::{Machine, Outcome, replay};

/// In per cent.
const TOLERANCE: f64 = 20.0;
/// So many operations have to be predicted, near and far, for the model to be believed.
const NEEDED: usize = 6;

/// An operation at one distance.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) operation: Operation,
    pub(crate) timers: Timers,
    pub(crate) distance: Distance,
    pub(crate) alone: Figure,
    pub(crate) two: Figure,
    pub(crate) modelled_ns: f64,
    pub(crate) error_percent: f64,
    pub(crate) transfers: f64,
    pub(crate) failed_exchanges: f64,
    pub(crate) waits: f64,
}

/// How many operations are predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) predicted: usize,
    /// Of them enough runs were measured at both distances.
    pub(crate) checked: usize,
    pub(crate) needed: usize,
}

/// What one thread is measured to need, and what its instructions take to need as much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calibration {
    pub(crate) instruction_ns: f64,
    /// Of an operation. What other threads do for it: they have cores of their own in the model.
    pub(crate) others_ns: f64,
}

impl Calibration {
    /// `alone` is the recording of one thread.
    pub(crate) fn new(alone: &Recording, measured: &Figure) -> Result<Self> {
        let unit = Machine { instruction_ns: 1.0, transfer_ns: 0.0, migrates: false };
        let instructions = replay(alone, unit)?.ns;
        Ok(Self { instruction_ns: measured.ns / instructions, others_ns: measured.others_ns })
    }

    /// An operation by the threads of a recording.
    pub(crate) fn model(&self, recording: &Recording, round_trip_ns: f64, migrates: bool) -> Result<Outcome> {
        let transfer_ns = round_trip_ns / 2.0;
        replay(recording, Machine { instruction_ns: self.instruction_ns, transfer_ns, migrates })
    }
}

/// Predicts an operation at each distance at which it was measured.
pub(crate) fn predict(
    timers: Timers,
    operation: Operation,
    [alone, two]: [&Recording; 2],
    measured: &Measured,
    migrates: bool,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for distance in Distance::ALL {
        let Some(measured_two) = measured.two(timers, operation, distance) else { continue };
        let measured_alone =
            measured.alone(timers, operation, distance).context("two producers were measured, and not one")?;
        let calibration = Calibration::new(alone, &measured_alone)?;
        let outcome = calibration.model(two, measured_two.round_trip_ns, migrates)?;
        rows.push(Row {
            operation,
            timers,
            distance,
            alone: measured_alone,
            two: measured_two,
            modelled_ns: outcome.ns,
            error_percent: (outcome.ns / measured_two.ns - 1.0) * 100.0,
            transfers: outcome.transfers,
            failed_exchanges: outcome.failed_exchanges,
            waits: outcome.waits,
        });
    }
    Ok(rows)
}

impl Row {
    /// Whether there are enough runs to say anything.
    pub(crate) fn is_checked(&self) -> bool {
        self.two.runs >= ENOUGH
    }

    pub(crate) fn is_predicted(&self) -> bool {
        self.is_checked() && self.error_percent.abs() <= TOLERANCE
    }
}

impl Verdict {
    /// Of what shares nothing there is nothing to predict, and it does not count.
    pub(crate) fn of(rows: &[Row]) -> Self {
        let shared = rows.iter().filter(|row| row.timers.is_shared() && row.distance == Distance::Near);
        let both = |near: &&Row| {
            let is_far =
                |row: &&Row| (row.operation, row.timers, row.distance) == (near.operation, near.timers, Distance::Far);
            rows.iter().find(is_far).map(|far| [**near, *far])
        };
        let pairs: Vec<_> = shared.filter_map(|near| both(&near)).collect();
        let count = |is: fn(&Row) -> bool| pairs.iter().filter(|pair| pair.iter().all(is)).count();
        Self { predicted: count(Row::is_predicted), checked: count(Row::is_checked), needed: NEEDED }
    }

    /// Whether the model may speak of more cores.
    pub(crate) fn is_believed(self) -> bool {
        self.predicted >= self.needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Access, Manner, Op};

    fn row(timers: Timers, operation: Operation, distance: Distance, error_percent: f64, runs: usize) -> Row {
        let figure = Figure { ns: 1.0, from_to_ns: [1.0; 2], others_ns: 0.0, round_trip_ns: 40.0, runs };
        let (modelled_ns, transfers, failed_exchanges, waits) = (1.0, 0.0, 0.0, 0.0);
        let (alone, two) = (figure, figure);
        Row { operation, timers, distance, alone, two, modelled_ns, error_percent, transfers, failed_exchanges, waits }
    }

    #[test]
    fn an_operation_is_predicted_if_it_is_near_and_far() {
        use Distance::{Far, Near};
        let (w1, w2, w3) = (Operation::W1, Operation::W2, Operation::W3);
        let rows = [
            row(Timers::Tokio, w1, Near, 20.0, ENOUGH),
            row(Timers::Tokio, w1, Far, -20.0, ENOUGH),
            row(Timers::Tokio, w2, Near, 0.0, ENOUGH),
            row(Timers::Tokio, w2, Far, 21.0, ENOUGH),
            // Too few runs; not measured near; and what shares nothing.
            row(Timers::Heap, w1, Near, 0.0, ENOUGH),
            row(Timers::Heap, w1, Far, 0.0, ENOUGH - 1),
            row(Timers::Heap, w3, Far, 0.0, ENOUGH),
            row(Timers::DelayQueue, w1, Near, 0.0, ENOUGH),
            row(Timers::DelayQueue, w1, Far, 0.0, ENOUGH),
        ];
        let verdict = Verdict::of(&rows);
        assert_eq!(verdict, Verdict { predicted: 1, checked: 2, needed: NEEDED });
        assert!(!verdict.is_believed());
        assert!(Verdict { predicted: NEEDED, ..verdict }.is_believed());
    }

    #[test]
    fn one_core_is_modelled_as_it_was_measured() {
        let ops = |at| vec![Op { instructions: 50, accesses: vec![] }, Op { instructions: 150, accesses: at }];
        let alone = Recording { lanes: vec![vec![ops(vec![]); 50].concat()], lines: 0, words: 0 };
        let measured = Figure { ns: 30.0, from_to_ns: [29.0, 31.0], others_ns: 5.0, round_trip_ns: 40.0, runs: 5 };
        let calibration = Calibration::new(&alone, &measured).expect("a calibration");
        let modelled = calibration.model(&alone, 40.0, true).expect("an outcome");
        assert!((modelled.ns - 30.0).abs() < 0.3, "{}", modelled.ns);
        // Two cores that write one line in each second operation.
        let access = Access { line: 0, word: 0, manner: Manner::ReadModifyWrite, at: 100 };
        let two = Recording { lanes: vec![vec![ops(vec![access]); 50].concat(); 2], lines: 1, words: 1 };
        let modelled = calibration.model(&two, 40.0, true).expect("an outcome");
        assert!((modelled.ns - 40.0).abs() < 1.0, "{}: half a transfer more", modelled.ns);
    }
}
