//! Tourbillon beside other timers: W1 to W9, W11 and W12, in one run.
//!
//! Every run of every case is a process of its own: this program with the hidden job `case`, or a
//! program in another language. The systems take turns. Before each run two threads play ping-pong
//! with a cache line, because on a shared or virtual machine the time between two cores varies
//! most. Once, before all runs, [`away`] looks whether memory that waits stays where it is.

mod away;
mod cases;
mod child;
#[cfg(feature = "peers")]
mod client;
mod job;
pub(crate) mod machine;
mod measure;
mod orchestra;
mod ping_pong;
mod programs;
mod race;
mod recorder;
pub(crate) mod report;
pub(crate) mod statistics;
mod systems;
mod table;
mod workloads;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::{json_file, number};
use cases::{CASES, Case};
use job::Job;
use orchestra::Orchestra;
use systems::names::Name;
#[cfg(all(feature = "peers", target_os = "linux"))]
pub(crate) use systems::sessions::{LoadArgs, SessionsArgs, run as run_sessions, run_load as run_sessions_load};

/// Options of the comparison.
#[derive(Debug, Clone, Args)]
#[command(after_help = after_help())]
pub(crate) struct CompareArgs {
    /// Only these cases, separated by commas: a group (w1), a case (w1-cold), or `all` [default:
    /// the headline ones]
    #[arg(long, value_name = "CASES", value_delimiter = ',')]
    cases: Vec<String>,

    /// Only these systems, separated by commas [default: all that this program was built with, and
    /// those in programs of their own]
    #[arg(long, value_name = "SYSTEMS", value_enum, value_delimiter = ',')]
    systems: Vec<Name>,

    /// How often each case is measured
    #[arg(long, value_name = "N", default_value = "5", value_parser = number::parse_positive)]
    repeat: usize,

    /// Write the result, every run included, as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Compare builds of this program instead of systems: NAME=PATH, the first being what the
    /// others are compared with. They run the first of --systems, or `tourbillon`
    #[arg(long, value_name = "NAME=PATH", value_parser = parse_build)]
    build: Vec<(String, PathBuf)>,

    /// Where scripts/peers has put the other timers' programs [default: target/peers of the
    /// repository]
    #[arg(long, value_name = "FOLDER")]
    peers: Option<PathBuf>,

    #[command(flatten)]
    size: SizeArgs,
}

/// How large the workloads are; for trying things out.
#[derive(Debug, Clone, Copy, Args)]
struct SizeArgs {
    /// Share of the full number of timeouts and operations
    #[arg(long, hide = true, default_value_t = 1.0)]
    scale: f64,

    /// Share of the full times
    #[arg(long, hide = true, default_value_t = 1.0)]
    pace: f64,
}

/// The cases, by their titles, and what else there is to know.
fn after_help() -> String {
    let list = |headline| {
        let cases = CASES.iter().filter(|case| case.headline == headline);
        cases.map(|case| format!("  {:20} {}\n", case.id, case.title)).collect::<String>()
    };
    format!("Cases, by default:\n{}and if named, or with `all`:\n{}{AFTER_HELP}", list(true), list(false))
}

const AFTER_HELP: &str = "\
w1 to w3 and w9 are measured with 1 and with 2 producers, w8-producers with up to 16. In w6 all
systems are idle at once; else there is one at a time. All of the default takes some 45 minutes with
all systems, `all` far longer.

The timers that are Rust crates need the feature `peers`. Netty 4.1, scheduled-thread-pool,
libevent, libev and libuv need scripts/peers to have been run; netty-4.2, fork-join-pool and go
need scripts/peers --newer. A system that is not there is shown as not measured.

Examples:
  cargo run --release -p tourbillon-perf --features peers -- compare --json run.json
  tourbillon-perf compare --cases w2 --systems tourbillon,heap
  tourbillon-perf compare --cases w2,w3 --build old=a/tourbillon-perf --build new=b/tourbillon-perf";

/// Options of a run in a process of its own.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct CaseArgs {
    #[arg(long, value_enum)]
    system: Name,

    #[arg(long, value_parser = parse_case)]
    case: &'static Case,

    #[arg(long, default_value = "1", value_parser = number::parse_positive)]
    producers: usize,

    #[command(flatten)]
    size: SizeArgs,
}

impl SizeArgs {
    fn job(self, case: &'static Case, producers: usize) -> Job {
        Job { case, producers, scale: self.scale, pace: self.pace }
    }
}

fn parse_build(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err("a build is NAME=PATH, such as old=target/ab/old/tourbillon-perf".to_owned()),
    }
}

fn parse_case(text: &str) -> Result<&'static Case, String> {
    cases::find(text).ok_or_else(|| format!("there is no case {text}; see compare --help"))
}

/// The cases that were asked for, in the order in which they are measured.
fn chosen_cases(names: &[String]) -> Result<Vec<&'static Case>> {
    let named = |case: &Case, name: &String| name == "all" || name == case.id || name == case.group();
    for name in names {
        let known = CASES.iter().any(|case| named(case, name));
        anyhow::ensure!(known, "there is no case {name}; see compare --help for those there are");
    }
    let wanted =
        |case: &&Case| if names.is_empty() { case.headline } else { names.iter().any(|name| named(case, name)) };
    Ok(CASES.iter().filter(wanted).collect())
}

/// Measures what was asked for, prints it, and writes it down. Passes if Tourbillon kept its
/// promises in all runs.
pub(crate) fn run(args: &CompareArgs) -> Result<bool> {
    json_file::check(args.json.as_deref())?;
    let cases = chosen_cases(&args.cases)?;
    let orchestra = if args.build.is_empty() {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        Orchestra::of_systems(program, &args.systems, args.peers.as_deref())
    } else {
        Orchestra::of_builds(&args.build, args.systems.first().copied().unwrap_or(Name::Tourbillon))
    };
    if !cfg!(feature = "peers") && args.build.is_empty() {
        eprintln!("Without the timers that are Rust crates: for them build with --features peers.");
    }
    let report = orchestra.play(&cases, args.repeat, |case, producers| args.size.job(case, producers));
    table::print(&report);
    json_file::write(args.json.as_deref(), &report)?;
    Ok(orchestra::promises_kept(&report))
}

/// Measures one case of one system, here.
pub(crate) fn run_case(args: &CaseArgs) -> Result<bool> {
    measure::measure(args.system, &args.size.job(args.case, args.producers))?.print()?;
    // Ten million timeouts that are not needed any more would take long to be freed.
    std::process::exit(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_group_by_name_or_all() {
        let ids = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            chosen_cases(&names).map(|cases| cases.iter().map(|case| case.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["w1"]).expect("known"), ["w1", "w1-cold"]);
        assert_eq!(ids(&["w7", "w1-cold"]).expect("known"), ["w1-cold", "w7", "w7-clock"]);
        assert_eq!(ids(&["all"]).expect("known").len(), CASES.len());
        assert!(ids(&["w10"]).is_err());
    }

    #[test]
    fn builds_have_a_name_and_a_path() {
        assert_eq!(parse_build("old=a/b"), Ok(("old".to_owned(), PathBuf::from("a/b"))));
        assert!(parse_build("a/b").is_err() && parse_build("=a").is_err());
    }
}
