//! What was survived.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use super::tally::{Ended, Injected, Op, Stop, Tally};
use crate::duration::show_nanos;
use crate::number::grouped;

/// The whole result; its JSON is this, field by field.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) producers: usize,
    pub(crate) seconds: f64,
    pub(crate) operations: BTreeMap<String, u64>,
    pub(crate) injected: BTreeMap<String, u64>,
    pub(crate) engines_started: u64,
    pub(crate) engines_stopped: BTreeMap<String, u64>,
    pub(crate) timeouts: BTreeMap<String, u64>,
    /// By engine.
    pub(crate) latest_ns: BTreeMap<String, u64>,
    pub(crate) memory: Memory,
    pub(crate) violations: u64,
    pub(crate) first_violations: Vec<String>,
    #[serde(skip)]
    sections: Vec<Section>,
}

/// Resident bytes, where the system tells.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Memory {
    pub(crate) at_start: Option<u64>,
    pub(crate) after_ten_seconds: Option<u64>,
    pub(crate) at_end: Option<u64>,
    pub(crate) after_shutdown: Option<u64>,
}

type Section = (&'static str, Vec<(&'static str, u64)>);

/// What a report is made of, besides the counts.
pub(crate) struct Frame {
    pub(crate) seed: u64,
    pub(crate) producers: usize,
    pub(crate) seconds: f64,
    pub(crate) memory: Memory,
    pub(crate) latest_ns: BTreeMap<String, u64>,
}

impl Report {
    pub(crate) fn new(frame: Frame, tally: &Tally, violations: u64, first_violations: Vec<String>) -> Self {
        let rows = |all: Vec<(&'static str, u64)>| {
            let map = all.iter().map(|&(text, count)| (text.trim().to_owned(), count)).collect();
            (all, map)
        };
        let (ops, operations) = rows(Op::ALL.iter().map(|&op| (op.text(), tally.op(op))).collect());
        let (faults, injected) = rows(Injected::ALL.iter().map(|&what| (what.text(), tally.injected(what))).collect());
        let (stops, engines_stopped) = rows(Stop::ALL.iter().map(|&how| (how.text(), tally.stopped(how))).collect());
        let (ends, timeouts) = rows(Ended::ALL.iter().map(|&how| (how.text(), tally.ended(how))).collect());
        Self {
            seed: frame.seed,
            producers: frame.producers,
            seconds: frame.seconds,
            operations,
            injected,
            engines_started: tally.engines.load(Ordering::Relaxed),
            engines_stopped,
            timeouts,
            latest_ns: frame.latest_ns,
            memory: frame.memory,
            violations,
            first_violations,
            sections: vec![
                ("operations", ops),
                ("faults injected", faults),
                ("engines stopped", stops),
                ("timeouts, by how they ended", ends),
            ],
        }
    }

    pub(crate) fn print(&self) {
        for (name, rows) in &self.sections {
            let mut table = Table::new();
            table.load_style(presets::UTF8_FULL_CONDENSED);
            table.set_header([*name, "count"]);
            for (text, count) in rows {
                table.add_row([Cell::new(text), right(grouped(*count))]);
            }
            println!("{table}");
        }
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header(["greatest lateness (held workers, slow tasks, and this machine's load included)", ""]);
        for (engine, &ns) in &self.latest_ns {
            table.add_row([Cell::new(engine), right(show_nanos(ns))]);
        }
        println!("{table}");
        let memory = |bytes: Option<u64>| bytes.map_or("unknown here".to_owned(), |b| format!("{} MB", b / 1_000_000));
        println!(
            "{} engines in {:.0} s, {} producers, seed {}.\n\
             Memory: {} at the start, {} after 10 s, {} at the end, {} after the shutdown.",
            grouped(self.engines_started),
            self.seconds,
            self.producers,
            self.seed,
            memory(self.memory.at_start),
            memory(self.memory.after_ten_seconds),
            memory(self.memory.at_end),
            memory(self.memory.after_shutdown),
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

fn right(content: String) -> Cell {
    Cell::new(content).set_alignment(CellAlignment::Right)
}
