//! What was survived.

use std::collections::BTreeMap;

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use super::tally::{COUNTS, Tally};
use crate::duration::show_nanos;
use crate::number::grouped;

/// The whole result; its JSON is this, field by field.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) producers: usize,
    pub(crate) seconds: f64,
    pub(crate) engines: u64,
    /// By section and name.
    pub(crate) counts: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// The greatest lateness, by engine.
    pub(crate) latest_ns: BTreeMap<String, u64>,
    /// Resident bytes at the start, after ten seconds, at the end, and after the shutdown.
    pub(crate) memory: [Option<u64>; 4],
    pub(crate) violations: u64,
    pub(crate) first_violations: Vec<String>,
}

/// Returns all counts by their sections.
pub(crate) fn counts(tally: &Tally) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
    let mut sections: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for &(section, what, name) in COUNTS {
        sections.entry(section).or_default().insert(name, tally.count(what));
    }
    sections
}

impl Report {
    pub(crate) fn print(&self) {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        for &(section, _, name) in COUNTS {
            table.add_row([Cell::new(section), Cell::new(name), right(grouped(self.counts[section][name]))]);
        }
        for (engine, &ns) in &self.latest_ns {
            table.add_row([Cell::new("greatest lateness"), Cell::new(engine), right(show_nanos(ns))]);
        }
        println!("{table}");
        let memory = |bytes: Option<u64>| bytes.map_or("unknown here".to_owned(), |b| format!("{} MB", b / 1_000_000));
        let [start, ten_seconds, end, after] = self.memory.map(memory);
        println!(
            "{} engines in {:.0} s, {} producers, seed {}.\n\
             Memory: {start} at the start, {ten_seconds} after 10 s, {end} at the end, {after} after the shutdown.",
            grouped(self.engines),
            self.seconds,
            self.producers,
            self.seed,
        );
        match self.violations {
            0 => println!("All promises held: none early, twice, after a cancel, or lost; and all counters reconcile."),
            count => {
                println!("FAILED: {} violations. The first:", grouped(count));
                self.first_violations.iter().take(5).for_each(|violation| println!("  {violation}"));
            }
        }
    }
}
