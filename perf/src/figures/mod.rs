//! First figures: what single operations cost, as their caller pays for them.
//!
//! Every case is measured on a fresh engine, several times, and shown with its least and most; and
//! before each time two threads play ping-pong with a cache line, because on a shared or virtual
//! machine the way between two cores is what varies most.

mod clump;
mod lap;
mod ping_pong;
mod report;
mod reset;
mod ring;
mod schedule;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::engine_options::EngineOptions;
use crate::{Verdict, json_file, number};
use lap::Lap;
use ping_pong::round_trip;
use report::{Figure, Report};

/// Options of the figures.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FiguresArgs {
    /// Only these cases, separated by commas [default: all]
    #[arg(long, value_name = "CASES", value_enum, value_delimiter = ',')]
    only: Vec<Case>,

    /// Threads that schedule, reset and cancel at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::parse_positive)]
    producers: usize,

    /// How often each case is measured
    #[arg(long, value_name = "N", default_value = "5", value_parser = number::parse_positive)]
    repeat: usize,

    /// Timeouts W1 schedules, per producer
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = number::parse_positive)]
    schedules: usize,

    /// Steps of W2 and resets of W3, per producer
    #[arg(long, value_name = "N", default_value = "4000000", value_parser = number::parse_positive)]
    steps: usize,

    /// Timeouts W7 has on one deadline
    #[arg(long, value_name = "N", default_value = "100000", value_parser = number::parse_positive)]
    clump: usize,

    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    engine: EngineOptions,
}

const AFTER_HELP: &str = "\
Cases (each repetition on a fresh engine):
  w1   schedule, capacity reserved: 1,000,000 with delays of 30 s to 60 s
  w2   schedule + cancel over a ring of 1,000: a step cancels the oldest and schedules a new one
  w3   reset of 100,000 keep-alives to now + 60 s, at random
  w7   100,000 on one deadline, from the deadline until the last has run; on a pool of 2, and inline

ns per op: the time of the loop over its operations, as one producer saw it (with several, the mean
of them). CPU ns per op: CPU time of the whole process from the start of the loop until the engine
has taken in what the loop gave it, over all operations. Ping-pong: a round trip of a cache line
between two threads on two cores, before each repetition.

Examples:
  tourbillon-perf figures
  tourbillon-perf figures --only w2 --repeat 9
  tourbillon-perf figures --only w1,w2 --producers 2 --json figures.json";

/// A case, by its number in the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    W1,
    W2,
    W3,
    W7,
}

/// Measures what was asked for and prints it.
pub(crate) fn run(args: &FiguresArgs) -> Result<Verdict> {
    json_file::check(args.json.as_deref())?;
    ensure!(args.clump <= u32::MAX as usize, "--clump is too large");
    let wanted = |case| args.only.is_empty() || args.only.contains(&case);
    let producers = args.producers;
    let mut figures = Vec::new();
    if wanted(Case::W1) {
        figures.push(measure(args, "W1 schedule, reserved", "ns per op", || {
            schedule::lap(&args.engine, producers, args.schedules)
        })?);
    }
    if wanted(Case::W2) {
        figures.push(measure(args, "W2 schedule + cancel, ring of 1,000", "ns per step", || {
            ring::lap(&args.engine, producers, args.steps)
        })?);
    }
    if wanted(Case::W3) {
        figures.push(measure(args, "W3 reset, random one of 100,000", "ns per op", || {
            reset::lap(&args.engine, producers, args.steps)
        })?);
    }
    if wanted(Case::W7) {
        let name = format!("W7 {} on one deadline", number::grouped_len(args.clump));
        figures.push(measure(args, &format!("{name}, pool of 2"), "ms", || {
            clump::lap(&args.engine, Some(2), producers, args.clump)
        })?);
        figures.push(measure(args, &format!("{name}, inline"), "ms", || {
            clump::lap(&args.engine, None, producers, args.clump)
        })?);
    }
    let report = Report::new(args.producers, args.repeat, figures);
    report.print();
    if let Some(path) = &args.json {
        json_file::write(path, &report)?;
    }
    Ok(Verdict::Passed)
}

/// Measures a case as often as asked.
fn measure(args: &FiguresArgs, name: &str, unit: &'static str, lap: impl Fn() -> Result<Lap>) -> Result<Figure> {
    let mut laps = Vec::with_capacity(args.repeat);
    let mut round_trips = Vec::with_capacity(args.repeat);
    for time in 1..=args.repeat {
        round_trips.extend(round_trip());
        laps.push(lap()?);
        eprintln!("{name}: {time} of {}", args.repeat);
    }
    Ok(Figure::new(name, unit, &laps, &round_trips))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        args: FiguresArgs,
    }

    #[test]
    fn every_case_can_be_measured() {
        let engine = Only::try_parse_from(["perf"]).expect("no options").args.engine;
        for lap in [
            schedule::lap(&engine, 2, 1_000),
            ring::lap(&engine, 2, 2_500),
            reset::lap(&engine, 1, 1_000),
            clump::lap(&engine, Some(2), 2, 3_000),
            clump::lap(&engine, None, 1, 3_000),
        ] {
            assert!(lap.expect("a lap").value > 0.0);
        }
    }

    #[test]
    fn cases_are_listed_with_commas() {
        let only = |list| Only::try_parse_from(["perf", "--only", list]).map(|only| only.args.only);
        assert_eq!(only("w1,w7").ok(), Some(vec![Case::W1, Case::W7]));
        assert!(only("w9").is_err());
    }
}
