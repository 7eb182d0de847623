//! The result of a comparison: every run, and the medians. Its JSON is this, field by field, and
//! `report` reads it back without the runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cases::{Better, Case, Metric};
use super::child::Line;
use super::machine::Machine;
use super::statistics::{Selection, Spread};

/// The whole result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) repeat: usize,
    pub(crate) scale: f64,
    /// A round trip of a cache line below this is near.
    pub(crate) near_below_ns: f64,
    /// The system or build that the others are compared with.
    pub(crate) reference: String,
    pub(crate) minutes: f64,
    /// The meaning of each name.
    pub(crate) systems: BTreeMap<String, String>,
    pub(crate) tables: Vec<TableOf>,
}

/// A case with so many producers, and every system in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TableOf {
    pub(crate) case: String,
    pub(crate) title: String,
    pub(crate) producers: usize,
    pub(crate) metrics: Vec<MetricOf>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MetricOf {
    pub(crate) key: String,
    pub(crate) heading: String,
    pub(crate) more_is_better: bool,
    pub(crate) decimals: usize,
}

/// A system in a case. It has its runs first, and then what they come to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) system: String,
    /// Whether it is Tourbillon, which has promises to keep.
    #[serde(default)]
    pub(crate) ours: bool,
    /// Of which of the runs the medians are.
    pub(crate) selection: Selection,
    /// Of how many runs the medians are, and how many there are.
    #[serde(default)]
    pub(crate) counted: (usize, usize),
    pub(crate) values: BTreeMap<String, Value>,
    /// Why there is no figure; or why there are fewer runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_measured: Option<String>,
    #[serde(default, skip_deserializing)]
    pub(crate) runs: Vec<Run>,
}

/// One figure of one row: its spread, and how many times worse it is than the reference's.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Value {
    #[serde(flatten)]
    pub(crate) spread: Spread,
    /// How many times worse than the reference: 2 is twice the time, or half the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    /// Of which runs of both the ratio is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) compared: Option<Selection>,
}

/// One run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Run {
    pub(crate) repetition: usize,
    /// A round trip of a cache line between two cores, just before.
    pub(crate) ping_pong_ns: Option<f64>,
    /// From the start of its process to the end.
    pub(crate) seconds: f64,
    #[serde(flatten)]
    pub(crate) result: RunResult,
}

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum RunResult {
    Measured(Line),
    Failed { failed: String },
}

impl Run {
    /// Returns its line, or why there is none.
    pub(crate) fn line(&self) -> Result<&Line, &String> {
        match &self.result {
            RunResult::Measured(line) => Ok(line),
            RunResult::Failed { failed } => Err(failed),
        }
    }
}

impl TableOf {
    pub(crate) fn new(case: &'static Case, producers: usize, reference: &str, mut rows: Vec<Row>) -> Self {
        // Where it has no row, the first that has one: another way to use it.
        let row = rows.iter().find(|row| row.system == reference).or(rows.first());
        let reference = row.map_or(Vec::new(), |row| row.runs.clone());
        rows.iter_mut().for_each(|row| row.add_up(case, &reference));
        let metric = |metric: &Metric| MetricOf {
            key: metric.key.to_owned(),
            heading: metric.heading.to_owned(),
            more_is_better: metric.better == Better::More,
            decimals: metric.decimals,
        };
        Self {
            case: case.id.to_owned(),
            title: case.title.to_owned(),
            producers,
            metrics: case.work.metrics().iter().map(metric).collect(),
            rows,
        }
    }
}

impl Row {
    fn add_up(&mut self, case: &Case, reference: &[Run]) {
        let trips = round_trips(&self.runs);
        let selection = Selection::for_one(&trips);
        let compared = Selection::for_two(&trips, &round_trips(reference));
        let value = |metric: &'static Metric| {
            let spread = spread(&self.runs, selection, metric.key)?;
            let theirs = median_of(&self.runs, compared, metric);
            let ours = median_of(reference, compared, metric);
            let ratio = match metric.better {
                Better::Less => divide(theirs, ours),
                Better::More => divide(ours, theirs),
                Better::Neither => None,
            };
            Some((metric.key.to_owned(), Value { spread, ratio, compared: ratio.map(|_| compared) }))
        };
        self.values = case.work.metrics().iter().filter_map(value).collect();
        (self.selection, self.counted) = (selection, (selection.count(&trips), trips.len()));
        let failed = || self.runs.iter().find_map(|run| run.line().err().cloned());
        self.not_measured = self.not_measured.take().or_else(failed);
    }

    /// Returns of which of the runs the medians are: `near 4/5`, `all 5`.
    pub(crate) fn tag(&self) -> String {
        let (counted, all) = self.counted;
        match self.selection {
            _ if all == 0 => "-".to_owned(),
            Selection::Near => format!("near {counted}/{all}"),
            Selection::Far => format!("far {counted}/{all}"),
            Selection::All => format!("all {all}"),
        }
    }

    /// Returns which promises of a timer it broke: `up to 3 early`.
    pub(crate) fn broken(&self) -> Vec<String> {
        let words = [("early", "early"), ("missing", "never run"), ("twice", "run twice")];
        let most = |key| self.values.get(key).map_or(0.0, |value| value.spread.max);
        let found = words.iter().filter(|&&(key, _)| most(key) > 0.0);
        found.map(|&(key, what)| format!("up to {} {what}", most(key))).collect()
    }
}

/// The readings of the runs that measured something.
fn round_trips(runs: &[Run]) -> Vec<Option<f64>> {
    runs.iter().filter(|run| run.line().is_ok()).map(|run| run.ping_pong_ns).collect()
}

fn chosen(runs: &[Run], selection: Selection) -> impl Iterator<Item = &Line> {
    runs.iter().filter(move |run| selection.has(run.ping_pong_ns)).filter_map(|run| run.line().ok())
}

fn spread(runs: &[Run], selection: Selection, key: &str) -> Option<Spread> {
    Spread::of(chosen(runs, selection).filter_map(|line| line.metrics.get(key).copied()))
}

fn median_of(runs: &[Run], selection: Selection, metric: &Metric) -> Option<f64> {
    spread(runs, selection, metric.key).map(|spread| spread.median)
}

/// None if there is nothing to compare: no wake-ups of either are neither more nor less.
fn divide(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    let ratio = one? / other?;
    ratio.is_finite().then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cases::find;
    use crate::compare::child::Metrics;

    fn run(ping_pong_ns: f64, metrics: &[(&'static str, f64)]) -> Run {
        let metrics = Metrics { values: metrics.to_vec(), ..Metrics::default() };
        let line = Line::new("x", find("w2").expect("a case"), 1, metrics);
        Run { repetition: 1, ping_pong_ns: Some(ping_pong_ns), seconds: 0.0, result: RunResult::Measured(line) }
    }

    fn table(ours: Vec<Run>, theirs: Vec<Run>) -> TableOf {
        let row = |system: &str, runs| Row { system: system.to_owned(), ours: true, runs, ..Row::default() };
        TableOf::new(find("w2").expect("a case"), 1, "ours", vec![row("ours", ours), row("theirs", theirs)])
    }

    #[test]
    fn ratios_are_of_near_runs_with_near_runs() {
        let ours = [(45.0, 10.0), (45.0, 12.0), (350.0, 30.0), (46.0, 11.0), (44.0, 9.0)];
        let theirs = [(45.0, 40.0), (350.0, 400.0), (350.0, 410.0), (46.0, 44.0), (44.0, 42.0)];
        let runs = |of: [(f64, f64); 5]| of.map(|(trip, ns)| run(trip, &[("ns", ns), ("mops", 1e3 / ns)])).to_vec();
        let table = table(runs(ours), runs(theirs));
        let row = &table.rows[1];
        assert_eq!((row.selection, row.counted), (Selection::Near, (3, 5)));
        let ns = &row.values["ns"];
        assert_eq!((ns.spread.median, ns.compared), (42.0, Some(Selection::Near)));
        assert!((ns.ratio.expect("a ratio") - 42.0 / 10.5).abs() < 1e-9);
        // A rate is better if it is more, so the ratio is the other way round: theirs is so many
        // times worse.
        assert!(row.values["mops"].ratio.is_some_and(|ratio| ratio > 3.5));
        assert_eq!(table.rows[0].values["ns"].ratio, Some(1.0));
    }

    #[test]
    fn nothing_over_nothing_is_no_ratio_and_failures_are_told() {
        let none = |count| (0..count).map(|_| run(45.0, &[("ns", 0.0)])).collect::<Vec<_>>();
        let mut theirs = none(2);
        let failed = RunResult::Failed { failed: "it has no cancel".to_owned() };
        theirs.push(Run { repetition: 3, ping_pong_ns: Some(45.0), seconds: 0.0, result: failed });
        let table = table(none(3), theirs);
        let row = &table.rows[1];
        assert_eq!((row.values["ns"].ratio, row.counted), (None, (2, 2)));
        assert_eq!(row.not_measured.as_deref(), Some("it has no cancel"));
        let json = serde_json::to_value(&table).expect("plain data");
        assert_eq!(json["rows"][1]["runs"][2]["failed"], "it has no cancel");
        assert_eq!(json["rows"][1]["runs"][0]["metrics"]["ns"], 0.0);
    }
}
