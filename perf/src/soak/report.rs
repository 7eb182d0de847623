//! The result of a soak.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::tally::{COUNTS, Count, Tally};
use crate::duration::show_nanos;
use crate::number::grouped;
use crate::text_table;

/// The whole result.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) producers: usize,
    pub(crate) seconds: f64,
    pub(crate) tally: Arc<Tally>,
    /// The greatest lateness, by engine.
    pub(crate) latest_ns: BTreeMap<String, u64>,
    /// Resident bytes at the start, after ten seconds, at the end, and after the shutdown.
    pub(crate) memory: [Option<u64>; 4],
    pub(crate) violations: u64,
    pub(crate) first_violations: Vec<String>,
}

impl Report {
    pub(crate) fn print(&self) {
        let count = |&(section, what, name): &(&str, Count, &str)| {
            [section.to_owned(), name.to_owned(), grouped(self.tally.count(what))]
        };
        let latest = self.latest_ns.iter();
        let latest = latest.map(|(engine, &ns)| ["greatest lateness".to_owned(), engine.clone(), show_nanos(ns)]);
        text_table::print(&["", "", "count"], COUNTS.iter().map(count).chain(latest), 2);
        let memory = |bytes: Option<u64>| bytes.map_or("unknown here".to_owned(), |b| format!("{} MB", b / 1_000_000));
        let [start, ten_seconds, end, after] = self.memory.map(memory);
        println!(
            "{} engines in {:.0} s, {} producers, seed {}.\n\
             Memory: {start} at the start, {ten_seconds} after 10 s, {end} at the end, {after} after the shutdown.",
            grouped(self.tally.engines.load(Ordering::Relaxed)),
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
