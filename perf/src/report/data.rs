//! The files of `compare --json`, as far as the page needs them, and their merging into one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::compare::machine::Machine;
use crate::compare::report::Value;
use crate::compare::statistics::Selection;
use crate::json_file;

use super::beside::Beside;
use super::numbers::short;

/// A file of `compare --json`. Further fields of it are left unread.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RunFile {
    pub(crate) machine: Machine,
    pub(crate) repeat: usize,
    pub(crate) scale: f64,
    pub(crate) near_below_ns: f64,
    pub(crate) reference: String,
    pub(crate) minutes: f64,
    pub(crate) systems: BTreeMap<String, String>,
    pub(crate) tables: Vec<TableOf>,
    /// The cases and the systems of its tables, which [`Data::merged`] takes out.
    #[serde(skip)]
    pub(crate) cases: Vec<String>,
    #[serde(skip)]
    pub(crate) measured: Vec<String>,
}

/// A case with a number of producers.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TableOf {
    pub(crate) case: String,
    pub(crate) title: String,
    pub(crate) producers: usize,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Metric {
    pub(crate) key: String,
    pub(crate) heading: String,
    pub(crate) more_is_better: bool,
}

/// A system in a case.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Row {
    pub(crate) system: String,
    pub(crate) selection: Selection,
    pub(crate) values: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) percentiles: Vec<(f64, f64)>,
    #[serde(default)]
    pub(crate) not_measured: Option<String>,
    pub(crate) runs: Vec<Run>,
    /// Those of the rows that it replaces.
    #[serde(skip)]
    pub(crate) earlier: Vec<Run>,
    /// The file that it is from, by its place.
    #[serde(skip)]
    pub(crate) file: usize,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Run {
    pub(crate) ping_pong_ns: Option<f64>,
    #[serde(default)]
    pub(crate) metrics: BTreeMap<String, f64>,
    #[serde(default)]
    pub(crate) failed: Option<String>,
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

impl RunFile {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        json_file::read(path, "compare")
    }

    /// Returns the commit that was measured. An old file may have none, and `compare` may have had
    /// no repository to ask.
    pub(crate) fn commit(&self) -> Option<&str> {
        Some(self.machine.commit.as_str()).filter(|commit| !["", "unknown"].contains(commit))
    }
}

/// All data that the page shows.
#[derive(Debug)]
pub(crate) struct Data {
    /// The files, without their tables.
    pub(crate) files: Vec<RunFile>,
    /// The system that the others are compared with.
    pub(crate) reference: String,
    pub(crate) systems: BTreeMap<String, String>,
    pub(crate) tables: Vec<TableOf>,
    /// What other commands have found.
    pub(crate) beside: Beside,
}

impl Data {
    /// Merges files in their order. A row of a later file replaces the same row of an earlier one.
    /// The whole row is replaced, with its ratios, which are within its own run. The runs of all
    /// files are kept, for the slopes.
    ///
    /// # Errors
    ///
    /// If there is no file, or if two files differ in their reference or their scale.
    pub(crate) fn merged(mut files: Vec<RunFile>) -> Result<Self> {
        let first = files.first().context("there is no run to report")?;
        let (reference, scale) = (first.reference.clone(), first.scale);
        let mut data = Self {
            files: Vec::new(),
            reference,
            systems: BTreeMap::new(),
            tables: Vec::new(),
            beside: Beside::default(),
        };
        for (at, file) in files.iter_mut().enumerate() {
            let (theirs, ours) = (&file.reference, &data.reference);
            ensure!(
                theirs == ours,
                "run {} compares with {theirs}, the first with {ours}: they can't be merged",
                at + 1
            );
            ensure!(
                file.scale.total_cmp(&scale).is_eq(),
                "run {} is at a scale of {}, the first at {scale}: they can't be merged",
                at + 1,
                file.scale
            );
            data.systems.extend(file.systems.clone());
            for mut table in std::mem::take(&mut file.tables) {
                add(&mut file.cases, &table.case);
                table.rows.iter().for_each(|row| add(&mut file.measured, &row.system));
                table.rows.iter_mut().for_each(|row| row.file = at);
                data.take_in(table);
            }
        }
        data.tables.sort_by_key(|table| place(&table.case));
        data.files = files;
        Ok(data)
    }

    fn take_in(&mut self, table: TableOf) {
        let same = |other: &&mut TableOf| other.case == table.case && other.producers == table.producers;
        let Some(there) = self.tables.iter_mut().find(same) else {
            self.tables.push(table);
            return;
        };
        for metric in table.metrics {
            if !there.metrics.contains(&metric) {
                there.metrics.push(metric);
            }
        }
        for mut row in table.rows {
            match there.rows.iter_mut().find(|other| other.system == row.system) {
                Some(other) => {
                    row.earlier.append(&mut other.earlier);
                    row.earlier.append(&mut other.runs);
                    *other = row;
                }
                None => there.rows.push(row),
            }
        }
    }

    pub(crate) fn table(&self, case: &str, producers: usize) -> Option<&TableOf> {
        self.tables.iter().find(|table| table.case == case && table.producers == producers)
    }

    /// Returns all systems that have a row, in the order of the first table that has them.
    pub(crate) fn systems_in_order(&self) -> Vec<&str> {
        let mut order = Vec::new();
        for row in self.tables.iter().flat_map(|table| &table.rows) {
            if !order.contains(&row.system.as_str()) {
                order.push(&row.system);
            }
        }
        order
    }

    pub(crate) fn scale(&self) -> f64 {
        self.files[0].scale
    }
}

fn add(names: &mut Vec<String>, name: &String) {
    if !names.contains(name) {
        names.push(name.clone());
    }
}

/// Returns the place of a table, which is that of its case in `compare`. A case that `compare` no
/// longer knows stands last.
fn place(case: &str) -> usize {
    crate::compare::case_place(case).unwrap_or(usize::MAX)
}

impl TableOf {
    /// Returns its anchor on the page: `w2-1`.
    pub(crate) fn anchor(&self) -> String {
        format!("{}-{}", self.case, self.producers)
    }

    /// Returns what it is called in text: `w2`, or `w2, 2 producers`.
    pub(crate) fn name(&self) -> String {
        match self.producers {
            1 => self.case.clone(),
            many => format!("{}, {many} producers", self.case),
        }
    }

    pub(crate) fn row(&self, system: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.system == system)
    }

    pub(crate) fn metric(&self, key: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.key == key)
    }
}

impl Row {
    pub(crate) fn median(&self, key: &str) -> Option<f64> {
        self.values.get(key).map(|value| value.spread.median)
    }

    /// Returns the most of a figure over the runs, or nothing if it has none.
    pub(crate) fn most(&self, key: &str) -> f64 {
        self.values.get(key).map_or(0.0, |value| value.spread.max)
    }

    /// Returns whether it ran each timeout once, and none early.
    pub(crate) fn is_sound(&self) -> bool {
        ["early", "missing", "twice"].iter().all(|key| self.most(key) == 0.0) && self.noted_early().is_none()
    }

    /// Returns which promises of a timer it broke: `up to 3 early`.
    pub(crate) fn broken(&self) -> Vec<String> {
        let words = [("early", "early"), ("missing", "never run"), ("twice", "run twice")];
        let found = words.iter().filter(|&&(key, _)| self.most(key) > 0.0);
        found.map(|&(key, what)| format!("up to {} {what}", short(self.most(key)))).collect()
    }

    /// Returns the note of a run on one deadline that was over before the deadline.
    pub(crate) fn noted_early(&self) -> Option<&str> {
        let notes = self.runs.iter().flat_map(|run| &run.notes);
        notes.map(String::as_str).find(|note| note.ends_with("before the deadline"))
    }

    /// Returns which runs its medians are of: `near 4/5`, `all 5 (1 near)`.
    pub(crate) fn tag(&self) -> String {
        let trips: Vec<_> = self.runs.iter().filter(|run| run.failed.is_none()).map(|run| run.ping_pong_ns).collect();
        let (all, near) = (trips.len(), Selection::Near.count(&trips));
        match self.selection {
            _ if all == 0 => "-".to_owned(),
            Selection::All => format!("all {all} ({near} near)"),
            some => format!("{} {}/{all}", word(some), some.count(&trips)),
        }
    }
}

/// Returns its word on the page.
pub(crate) fn word(selection: Selection) -> &'static str {
    match selection {
        Selection::Near => "near",
        Selection::Far => "far",
        Selection::All => "all",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{first_run, second_run};

    #[test]
    fn later_rows_replace_earlier_ones_and_tables_stand_in_order() {
        let data = Data::merged(vec![first_run(), second_run()]).expect("one reference");
        let cases: Vec<_> = data.tables.iter().map(|table| (table.case.as_str(), table.producers)).collect();
        let of = |case| cases.iter().position(|&(one, _)| one == case).expect("the case");
        assert!(of("w1") < of("w2") && of("w2") < of("w4") && of("w4") < of("w8-10k") && of("w7") < of("w8-10k"));
        let w2 = data.table("w2", 1).expect("the case");
        let (ours, netty) = (w2.row("tourbillon").expect("a row"), w2.row("netty").expect("a row"));
        assert_eq!((ours.file, ours.median("ns")), (1, Some(30.0)));
        assert_eq!((netty.file, netty.median("ns")), (0, Some(100.0)));
        assert_eq!((ours.tag(), netty.tag()), ("near 3/3".to_owned(), "all 3 (2 near)".to_owned()));
    }

    #[test]
    fn runs_with_another_reference_or_scale_are_not_merged() {
        let with = |change: fn(&mut RunFile)| {
            let mut other = second_run();
            change(&mut other);
            Data::merged(vec![first_run(), other]).expect_err("not alike").to_string()
        };
        assert!(with(|run| run.reference = "old".to_owned()).contains("run 2 compares with old"));
        assert!(with(|run| run.scale = 0.5).contains("a scale of 0.5"));
        assert!(Data::merged(Vec::new()).is_err());
    }
}
