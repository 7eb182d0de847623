//! What `compare --json` has measured.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::compare::statistics::{ENOUGH, Spread};
use super::operation::{Operation, Timers};

/// Of the two cores from each other, by the ping-pong before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Distance {
    Near,
    Far,
}

impl Distance {
    pub(crate) const ALL: [Self; 2] = [Self::Near, Self::Far];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// The file; of its fields those that are needed here.
#[derive(Debug, Deserialize)]
pub(crate) struct Measured {
    near_below_ns: f64,
    tables: Vec<Table>,
}

#[derive(Debug, Deserialize)]
struct Table {
    case: String,
    producers: usize,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    system: String,
    runs: Vec<Run>,
}

#[derive(Debug, Deserialize)]
struct Run {
    ping_pong_ns: Option<f64>,
    /// None if the run failed.
    #[serde(default)]
    metrics: BTreeMap<String, f64>,
}

/// Medians of some runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// In which each producer does one operation, by the throughput of all. Not as the producers
    /// see it: if one is done before the other, that one goes on alone.
    pub(crate) ns: f64,
    /// The least and the most of the runs.
    pub(crate) from_to_ns: [f64; 2],
    /// Of an operation: what other threads of the process did for it.
    pub(crate) others_ns: f64,
    pub(crate) round_trip_ns: f64,
    pub(crate) runs: usize,
}

impl Measured {
    /// Reads some such files, of one day and one machine.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self> {
        let mut all: Option<Self> = None;
        for path in paths {
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            let one: Self = serde_json::from_str(&text)
                .with_context(|| format!("{} is not a file of `compare --json`", path.display()))?;
            match &mut all {
                Some(all) => all.tables.extend(one.tables),
                None => all = Some(one),
            }
        }
        all.context("what was measured? (--measured FILE)")
    }

    /// Of one producer: of the runs at that distance if there are enough, because a worker on the
    /// other core may take lines away; otherwise of all.
    pub(crate) fn alone(&self, timers: Timers, operation: Operation, distance: Distance) -> Option<Figure> {
        let runs = self.runs(timers, operation, 1);
        let at_distance: Vec<_> = runs.iter().copied().filter(|run| self.is_at(run, distance)).collect();
        figure(if at_distance.len() >= ENOUGH { &at_distance } else { &runs }, 1)
    }

    /// Of two producers, of the runs at that distance.
    pub(crate) fn two(&self, timers: Timers, operation: Operation, distance: Distance) -> Option<Figure> {
        let runs = self.runs(timers, operation, 2);
        figure(&runs.into_iter().filter(|run| self.is_at(run, distance)).collect::<Vec<_>>(), 2)
    }

    /// A round trip of a line at that distance: the median of all runs of two producers.
    pub(crate) fn round_trip(&self, distance: Distance) -> Option<f64> {
        let tables = self.tables.iter().filter(|table| table.producers == 2);
        let runs = tables.flat_map(|table| &table.rows).flat_map(|row| &row.runs);
        Some(Spread::of(runs.filter(|run| self.is_at(run, distance)).filter_map(|run| run.ping_pong_ns))?.median)
    }

    fn runs(&self, timers: Timers, operation: Operation, producers: usize) -> Vec<&Run> {
        let table = |table: &&Table| table.case == operation.case() && table.producers == producers;
        let rows = self.tables.iter().filter(table).flat_map(|table| &table.rows);
        let runs = rows.filter(|row| row.system == timers.id()).flat_map(|row| &row.runs);
        runs.filter(|run| run.metrics.contains_key("mops")).collect()
    }

    fn is_at(&self, run: &Run, distance: Distance) -> bool {
        run.ping_pong_ns.is_some_and(|ns| (ns < self.near_below_ns) == (distance == Distance::Near))
    }
}

fn figure(runs: &[&Run], producers: u32) -> Option<Figure> {
    let metric = |run: &Run, key: &str| run.metrics.get(key).copied();
    let ns = runs.iter().filter_map(|run| Some(f64::from(producers) * 1e3 / metric(run, "mops")?));
    let others = runs.iter().filter_map(|run| Some((metric(run, "cpu_ns")? - metric(run, "ns")?).max(0.0)));
    let ns = Spread::of(ns)?;
    Some(Figure {
        ns: ns.median,
        from_to_ns: [ns.min, ns.max],
        others_ns: Spread::of(others).map_or(0.0, |others| others.median),
        round_trip_ns: Spread::of(runs.iter().filter_map(|run| run.ping_pong_ns))?.median,
        runs: runs.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let run = |trip: f64, ns: f64, cpu: f64, mops: f64| {
            let metrics = format!(r#"{{"ns": {ns}, "cpu_ns": {cpu}, "mops": {mops}}}"#);
            format!(r#"{{"repetition": 1, "ping_pong_ns": {trip}, "metrics": {metrics}}}"#)
        };
        let failed = r#"{"repetition": 2, "ping_pong_ns": 45, "failed": "it has no cancel"}"#;
        let table = |producers: usize, runs: &[String]| {
            let rows = format!(r#"[{{"system": "tourbillon", "runs": [{}]}}]"#, runs.join(", "));
            format!(r#"{{"case": "w1", "producers": {producers}, "rows": {rows}}}"#)
        };
        let alone = [
            run(45.0, 10.0, 12.0, 100.0),
            run(350.0, 40.0, 50.0, 25.0),
            run(44.0, 20.0, 19.0, 50.0),
            failed.to_owned(),
        ];
        let two = [
            run(46.0, 30.0, 40.0, 50.0),
            run(350.0, 150.0, 300.0, 10.0),
            run(352.0, 310.0, 300.0, 5.0),
            run(351.0, 200.0, 190.0, 8.0),
        ];
        let tables = [table(1, &alone), table(2, &two)].join(", ");
        let text = format!(r#"{{"near_below_ns": 100, "tables": [{tables}], "repeat": 4}}"#);
        serde_json::from_str(&text).expect("as `compare` writes it")
    }

    #[test]
    fn figures_are_medians_of_runs_at_one_distance() {
        let far = measured().two(Timers::Tourbillon, Operation::W1, Distance::Far).expect("runs");
        let from_to_ns = [200.0, 400.0];
        assert_eq!(far, Figure { ns: 250.0, from_to_ns, others_ns: 0.0, round_trip_ns: 351.0, runs: 3 });
        let near = measured().two(Timers::Tourbillon, Operation::W1, Distance::Near).expect("a run");
        assert_eq!((near.ns, near.others_ns, near.runs), (40.0, 10.0, 1));
        assert_eq!(measured().round_trip(Distance::Far), Some(351.0));
        assert_eq!(measured().two(Timers::Heap, Operation::W1, Distance::Far), None);
    }

    #[test]
    fn one_producer_has_the_runs_of_both_distances_if_there_are_few() {
        let alone = measured().alone(Timers::Tourbillon, Operation::W1, Distance::Near).expect("runs");
        assert_eq!((alone.ns, alone.others_ns, alone.runs), (20.0, 2.0, 3));
    }
}
