//! The command line.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};

use super::measured::Measured;
use super::operation::{Operation, Timers};
use super::predict::{Verdict, predict};
use super::protocol::Protocol;
use super::record::record;
use super::report::Report;
use super::scaling::curves;
use super::stepper::NotPermitted;
use super::subject::{self, SubjectArgs};
use super::turns::end_with_a_panic;

/// Replays recorded operations on modelled cores. First it has to predict what two producers were
/// measured to need; only then it speaks of more.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    job: Option<Job>,

    /// What `tourbillon-perf compare --cases w1,w2,w3 --json` has written, on this machine, today;
    /// may be given more than once
    #[arg(long, value_name = "FILE")]
    measured: Vec<PathBuf>,

    /// Write the result to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Job {
    #[command(hide = true)]
    Subject(SubjectArgs),
}

pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.job {
        Some(Job::Subject(args)) => {
            end_with_a_panic();
            subject::run(args)
        }
        None => run(&cli),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) if why.is::<NotPermitted>() => {
            eprintln!("{why}: nothing can be recorded here, so NOTHING WAS MODELLED");
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("error: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    ensure!(!cfg!(debug_assertions), "only what is built with --release does what was measured; see scripts/model");
    let measured = Measured::read(&cli.measured)?;
    let protocol = Protocol::measure();
    // Where there are no two cores nothing was measured with two, either.
    let migrates = protocol.is_some_and(Protocol::migrates);
    let mut rows = Vec::new();
    for operation in Operation::ALL {
        for timers in Timers::MEASURED {
            let recordings = [record(timers, operation, 1, None)?, record(timers, operation, 2, None)?];
            let predicted = predict(timers, operation, recordings.each_ref(), &measured, migrates)?;
            for row in &predicted {
                let (distance, error) = (row.distance.name(), row.error_percent);
                eprintln!("  {distance}: modelled {:.1}, measured {:.1}, {error:+.0} %", row.modelled_ns, row.two.ns);
            }
            rows.extend(predicted);
        }
    }
    let verdict = Verdict::of(&rows);
    let modelled = if verdict.is_believed() { Some(curves(&measured, migrates)?) } else { None };
    let report = Report { protocol, migrates, rows, verdict, modelled };
    report.print();
    if let Some(path) = &cli.json {
        let text = serde_json::to_string_pretty(&report).context("cannot turn the result into JSON")?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
