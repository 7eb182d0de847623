//! What a timer does in a container, or beside busy neighbours: fewer cores than it thought, a part
//! of a core, a core that goes away, a core that somebody else keeps.
//!
//! Each scene is set up from outside, by the system's own means. In it the cases of `compare` run,
//! each in a process of its own, and the systems take turns.

mod cgroup;
mod scene;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use super::cases::{Sizes, find};
use super::job::Job;
use super::line::Line;
use super::machine::Machine;
use super::statistics::Spread;
use super::systems::names::Name;
use crate::verdict::Verdict;
use crate::{json_file, number};
use scene::Scene;

/// Options of the scenes.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ContainersArgs {
    /// Only these scenes, separated by commas [default: all]
    #[arg(long, value_name = "SCENES", value_enum, value_delimiter = ',')]
    scenes: Vec<Scene>,

    /// These systems of `compare`, separated by commas
    #[arg(
        long,
        value_name = "SYSTEMS",
        value_enum,
        value_delimiter = ',',
        default_value = "tourbillon,tourbillon-unpinned,tourbillon-8-shards,heap"
    )]
    systems: Vec<Name>,

    /// How often each is measured
    #[arg(long, value_name = "N", default_value = "5", value_parser = number::parse_positive)]
    repeat: usize,

    /// Write the result, every run included, as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Share of the full number of timeouts and operations
    #[arg(long, hide = true, default_value_t = 1.0)]
    scale: f64,

    /// Share of the full times
    #[arg(long, hide = true, default_value_t = 1.0)]
    pace: f64,
}

const AFTER_HELP: &str = "\
Scenes:
  alone        nothing else, for comparison
  twice        two processes of the same kind at once
  one-core     the process was given one core
  half-a-core  a quota of 50 ms in each 100 ms (cgroups: cpu.max, or cpu.cfs_quota_us)
  cores-taken  a cpuset of two cores loses one while timeouts are pending
  busy-nice    a busy thread of another process on core 0, with a nice value of -20
  busy-fifo    the same with the real-time policy SCHED_FIFO
In each: lateness of 1,000,000 timeouts due in 1 to 3 s (the case w4 of `compare`), and schedule +
cancel by two threads (w2). On Linux, as root, with setpriv, taskset and chrt of util-linux.

Example:
  cargo run --release -p tourbillon-perf -- containers --scenes alone,half-a-core";

/// What one system did in one scene.
#[derive(Debug, Serialize)]
struct Row {
    scene: String,
    system: &'static str,
    #[serde(skip)]
    ours: bool,
    /// Of the case w4.
    lateness: Vec<Line>,
    /// Of the case w2 with two producers.
    throughput: Vec<Line>,
    /// Why there are fewer runs, or none.
    failed: Option<String>,
}

/// All that was found.
#[derive(Debug, Serialize)]
struct Found {
    machine: Machine,
    repeat: usize,
    rows: Vec<Row>,
}

/// Measures what was asked for, prints it, and writes it down.
pub(crate) fn run(args: &ContainersArgs) -> Result<Verdict> {
    json_file::check(args.json.as_deref())?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let scenes = if args.scenes.is_empty() { Scene::value_variants() } else { &args.scenes };
    let mut rows = Vec::new();
    for &scene in scenes {
        let mut of_scene: Vec<Row> = args.systems.iter().map(|&system| Row::new(scene, system)).collect();
        for repetition in 0..args.repeat {
            for (row, &system) in of_scene.iter_mut().zip(&args.systems) {
                eprintln!("{} of {}: {}, {system}", repetition + 1, args.repeat, scene.name());
                row.measure(args, &program, scene, system, repetition);
            }
        }
        rows.extend(of_scene);
    }
    let found = Found { machine: Machine::look(), repeat: args.repeat, rows };
    print(&found);
    if let Some(path) = &args.json {
        json_file::write(path, &found)?;
    }
    Ok(Verdict::passed_if(found.rows.iter().all(Row::kept_promises)))
}

impl Row {
    fn new(scene: Scene, system: Name) -> Self {
        let (lateness, throughput) = (Vec::new(), Vec::new());
        Self { scene: scene.name(), system: system.id(), ours: system.is_ours(), lateness, throughput, failed: None }
    }

    fn measure(&mut self, args: &ContainersArgs, program: &Path, scene: Scene, system: Name, repetition: usize) {
        let job = |id, producers| {
            let case = find(id).context("there is no such case")?;
            Ok::<_, anyhow::Error>(Job::new(case, producers, Sizes::scaled(args.scale), args.pace))
        };
        let measured = |id, producers| scene.measure(program, system, &job(id, producers)?, repetition);
        match measured("w4", 1) {
            Ok(lines) => self.lateness.extend(lines),
            Err(why) => self.failed = Some(format!("{why:#}")),
        }
        if scene.lasts() {
            match measured("w2", 2) {
                Ok(lines) => self.throughput.extend(lines),
                Err(why) => self.failed = Some(format!("{why:#}")),
            }
        }
    }

    /// Whether none of ours was early, lost, or run twice.
    fn kept_promises(&self) -> bool {
        !self.ours || self.failed.is_none() && self.lateness.iter().all(|line| line.broken().is_none())
    }
}

/// The spread of a figure over the runs.
fn spread(lines: &[Line], key: &str) -> Option<Spread> {
    Spread::of(lines.iter().filter_map(|line| line.metrics.get(key).copied()))
}

/// The figures of a row: the heading, the case's, and its key.
const FIGURES: [(&str, bool, &str); 6] = [
    ("p50 ms", true, "p50_ms"),
    ("p99 ms", true, "p99_ms"),
    ("p99.9 ms", true, "p999_ms"),
    ("max ms", true, "max_ms"),
    ("CPU s", true, "cpu_s"),
    ("M/s, two threads", false, "mops"),
];

fn print(found: &Found) {
    let Found { machine, repeat, rows } = found;
    println!(
        "{}, {} cores, Linux {}, {}; commit {}; {repeat} repetitions, each a process of its own, in turn",
        machine.processor, machine.cores, machine.kernel, machine.rustc, machine.commit
    );
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["scene", "system", "runs"].into_iter().chain(FIGURES.iter().map(|figure| figure.0)));
    for row in rows {
        let figure = |&(_, is_lateness, key): &(&str, bool, &str)| {
            let lines = if is_lateness { &row.lateness } else { &row.throughput };
            let text = spread(lines, key)
                .map_or("-".to_owned(), |Spread { median, min, max }| format!("{median:.3}\n{min:.3} to {max:.3}"));
            Cell::new(text).set_alignment(CellAlignment::Right)
        };
        let names = [Cell::new(&row.scene), Cell::new(row.system), Cell::new(row.lateness.len())];
        table.add_row(names.into_iter().chain(FIGURES.iter().map(figure)));
    }
    println!("{table}");
    println!(
        "Median, and below it least to most. Lateness is of 1,000,000 due in 1 to 3 s (w4); M/s of schedule + cancel (w2)."
    );
    let failed: BTreeMap<_, _> =
        rows.iter().filter_map(|row| Some(((&row.scene, row.system), row.failed.as_ref()?))).collect();
    for ((scene, system), why) in failed {
        println!("  {scene}, {system}: not measured in all runs: {why}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_fails_if_it_broke_a_promise_or_did_not_end_and_others_do_not() {
        let line = |early: f64| {
            let mut line = Line::new("x", find("w4").expect("a case"), 1);
            line.set("early", early);
            line
        };
        let row = |system, early, failed: Option<&str>| Row {
            lateness: vec![line(0.0), line(early)],
            failed: failed.map(str::to_owned),
            ..Row::new(Scene::Alone, system)
        };
        assert!(row(Name::Tourbillon, 0.0, None).kept_promises());
        assert!(!row(Name::Tourbillon, 1.0, None).kept_promises());
        assert!(!row(Name::TourbillonUnpinned, 0.0, Some("it hangs")).kept_promises());
        assert!(row(Name::Heap, 1.0, Some("it hangs")).kept_promises());
    }
}
