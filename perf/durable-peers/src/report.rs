//! The results: as JSON, and as tables.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::{
    measure::{Lateness, Load, Mode, Schedules},
    systems::Case,
};

/// All that one command measured.
#[derive(Debug, Serialize)]
pub struct Report {
    pub machine: Machine,
    pub lateness: Vec<LatenessRow>,
    pub schedules: Vec<SchedulesRow>,
    pub failures: Vec<Failure>,
}

#[derive(Debug, Serialize)]
pub struct Machine {
    pub cores: usize,
    pub postgres: String,
    pub postgres_settings: String,
    /// The median of a durable write of 8 KiB, in microseconds.
    pub sync_micros: u64,
    /// The load averages before the first round: with more than nothing, others ran too.
    pub load_before: String,
}

#[derive(Debug, Serialize)]
pub struct LatenessRow {
    pub system: &'static str,
    pub version: &'static str,
    pub case: &'static str,
    pub settings: &'static str,
    pub mode: Mode,
    pub pending: usize,
    pub rate: u64,
    pub expected: u64,
    pub rounds: Vec<LatenessRound>,
}

#[derive(Debug, Serialize)]
pub struct LatenessRound {
    pub ran: u64,
    pub ran_twice: u64,
    pub ran_early: u64,
    pub scheduled_late: u64,
    /// These are of those that ran, and absent if none did.
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct SchedulesRow {
    pub system: &'static str,
    pub version: &'static str,
    pub case: &'static str,
    pub pending: usize,
    pub producers: usize,
    pub one_by_one_per_second: Vec<f64>,
    pub in_batches_per_second: Vec<f64>,
}

#[derive(Debug, Serialize)]
pub struct Failure {
    pub system: &'static str,
    pub case: &'static str,
    pub what: String,
}

impl Report {
    pub fn add_lateness(&mut self, case: &Case, pending: usize, load: Load, lateness: &Lateness) {
        let ran = &lateness.ran;
        let millis = |micros: u64| (ran.ran > 0).then_some(micros as f64 / 1000.0);
        let round = LatenessRound {
            ran: ran.ran,
            ran_twice: ran.twice,
            ran_early: ran.early,
            scheduled_late: lateness.late_schedules,
            p50_ms: millis(ran.p50),
            p99_ms: millis(ran.p99),
            max_ms: millis(ran.max),
        };
        let same = |row: &&mut LatenessRow| {
            (row.system, row.case, row.mode, row.rate) == (case.system, case.name, load.mode, load.rate)
        };
        match self.lateness.iter_mut().find(same) {
            Some(row) => row.rounds.push(round),
            None => self.lateness.push(LatenessRow {
                system: case.system,
                version: case.version,
                case: case.name,
                settings: case.settings,
                mode: load.mode,
                pending,
                rate: load.rate,
                expected: lateness.expected,
                rounds: vec![round],
            }),
        }
    }

    pub fn add_schedules(&mut self, case: &Case, pending: usize, producers: usize, schedules: Schedules) {
        let same = |row: &SchedulesRow| (row.system, row.case) == (case.system, case.name);
        let index = self.schedules.iter().position(same).unwrap_or_else(|| {
            self.schedules.push(SchedulesRow {
                system: case.system,
                version: case.version,
                case: case.name,
                pending,
                producers,
                one_by_one_per_second: Vec::new(),
                in_batches_per_second: Vec::new(),
            });
            self.schedules.len() - 1
        });
        let row = &mut self.schedules[index];
        row.one_by_one_per_second.push(schedules.one_by_one);
        row.in_batches_per_second.extend(schedules.in_batches);
    }

    pub fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
    }

    /// The tables: of several rounds the median, and the best in brackets.
    pub fn tables(&self) -> String {
        let mut text = format!(
            "PostgreSQL {} with {}; {} cores; a durable write of 8 KiB takes {} us; load before: {}\n",
            self.machine.postgres,
            self.machine.postgres_settings,
            self.machine.cores,
            self.machine.sync_micros,
            self.machine.load_before,
        );
        let mut loads: BTreeMap<(u64, bool), Vec<&LatenessRow>> = BTreeMap::new();
        for row in &self.lateness {
            loads.entry((row.rate, row.mode == Mode::Quiet)).or_default().push(row);
        }
        for ((rate, quiet), rows) in loads {
            let mode = if quiet { "nothing is scheduled meanwhile" } else { "as many are scheduled meanwhile" };
            text += &format!("\nlateness, {rate} due a second, {} pending, {mode}\n", rows[0].pending);
            text += &format!("{}\n", lateness_table(&rows));
        }
        if let Some(row) = self.schedules.first() {
            text += &format!("\ndurable schedules a second, {} producers, {} pending\n", row.producers, row.pending);
            text += &format!("{}\n", self.schedules_table());
        }
        for failure in &self.failures {
            text += &format!("\n{}, {}: {}", failure.system, failure.case, failure.what);
        }
        text
    }

    fn schedules_table(&self) -> Table {
        let mut table = table(&["system", "case", "one by one", "in calls of 1,000"], 2);
        for row in &self.schedules {
            table.add_row([
                format!("{} {}", row.system, row.version),
                row.case.to_owned(),
                most(&row.one_by_one_per_second),
                most(&row.in_batches_per_second),
            ]);
        }
        table
    }
}

fn lateness_table(rows: &[&LatenessRow]) -> Table {
    let mut table = table(&["system", "case", "p50 ms", "p99 ms", "max ms", "ran", "scheduled late", "settings"], 2);
    for row in rows {
        let figure =
            |of: fn(&LatenessRound) -> Option<f64>| least(&row.rounds.iter().filter_map(of).collect::<Vec<_>>());
        let fewest = row.rounds.iter().map(|round| round.ran).min().unwrap_or(0);
        let late = row.rounds.iter().map(|round| round.scheduled_late).max().unwrap_or(0);
        let mut ran = format!("{fewest} of {}", row.expected);
        for (count, what) in [
            (row.rounds.iter().map(|round| round.ran_early).max(), "early"),
            (row.rounds.iter().map(|round| round.ran_twice).max(), "twice"),
        ] {
            if let Some(count @ 1..) = count {
                ran += &format!(", {count} {what}");
            }
        }
        table.add_row([
            format!("{} {}", row.system, row.version),
            row.case.to_owned(),
            figure(|round| round.p50_ms),
            figure(|round| round.p99_ms),
            figure(|round| round.max_ms),
            ran,
            late.to_string(),
            row.settings.to_owned(),
        ]);
    }
    table
}

fn table(header: &[&str], numbers_from: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header);
    for column in table.column_iter_mut().skip(numbers_from).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// The median, and the least as the best in brackets.
fn least(figures: &[f64]) -> String {
    with_best(figures, |sorted| sorted[0], 1)
}

/// The median, and the most as the best in brackets.
fn most(figures: &[f64]) -> String {
    with_best(figures, |sorted| sorted[sorted.len() - 1], 0)
}

fn with_best(figures: &[f64], best: fn(&[f64]) -> f64, digits: usize) -> String {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => "none".to_owned(),
        1 => format!("{:.digits$}", sorted[0]),
        _ => format!("{:.digits$} ({:.digits$})", median(&sorted), best(&sorted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ran_is_not_on_time() {
        let ran = crate::peer::Ran { ran: 0, twice: 0, early: 0, p50: 0, p99: 0, max: 0 };
        let lateness = Lateness { expected: 10, late_schedules: 0, ran };
        let mut report = Report {
            machine: Machine {
                cores: 2,
                postgres: "15".to_owned(),
                postgres_settings: String::new(),
                sync_micros: 1,
                load_before: String::new(),
            },
            lateness: Vec::new(),
            schedules: Vec::new(),
            failures: Vec::new(),
        };
        let load = Load {
            mode: Mode::Quiet,
            rate: 10,
            seconds: 1,
            lead: 1,
            producers: 1,
            grace: std::time::Duration::from_secs(1),
        };
        report.add_lateness(&crate::systems::CASES[0], 5, load, &lateness);
        assert!(report.tables().contains("none"), "{}", report.tables());
        assert!(!report.tables().contains(" 0.0 "), "{}", report.tables());
        assert_eq!(report.lateness[0].rounds[0].p99_ms, None);
    }

    #[test]
    fn a_figure_of_several_rounds_is_its_median_and_its_best() {
        assert_eq!(least(&[3.0, 1.0, 2.0]), "2.0 (1.0)");
        assert_eq!(most(&[3.0, 1.0]), "2 (3)");
        assert_eq!(least(&[3.04]), "3.0");
        assert_eq!(most(&[]), "none");
    }
}
