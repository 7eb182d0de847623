//! Measures the durable timeouts of other systems on a PostgreSQL server of its own, all with the
//! same work: how late timeouts run while many others are pending, and how many become durable a
//! second.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, ensure};
use clap::{ArgAction, Parser, ValueEnum};

mod measure;
mod peer;
mod report;
mod server;
mod systems;

use measure::{Load, Mode};
use report::{Failure, Machine, Report};
use server::Server;
use systems::{CASES, Case, Place};

#[derive(Debug, Parser)]
// The last of an option that is given twice counts, so that a script's load can be changed.
#[command(
    about = "Measures other systems' durable timeouts, on a PostgreSQL server of its own",
    args_override_self = true
)]
struct Options {
    /// Only these systems, by their names; see --list
    #[arg(long, action = ArgAction::Set, value_delimiter = ',')]
    systems: Vec<String>,
    /// Only these cases: `default`, `fast`, ...; see --list
    #[arg(long, action = ArgAction::Set, value_delimiter = ',')]
    cases: Vec<String>,
    /// What to measure
    #[arg(long, action = ArgAction::Set, value_delimiter = ',', default_values = ["lateness", "schedules"])]
    measure: Vec<Measure>,
    /// What goes on while timeouts fall due
    #[arg(long, action = ArgAction::Set, value_delimiter = ',', default_values = ["steady"])]
    mode: Vec<Mode>,
    /// Timeouts that are pending all the time, and due tomorrow
    #[arg(long, default_value_t = 100_000)]
    pending: usize,
    /// Timeouts that fall due a second
    #[arg(long, action = ArgAction::Set, value_delimiter = ',', default_values = ["500"])]
    rate: Vec<u64>,
    /// How long timeouts fall due, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many seconds before it is due a timeout is scheduled
    #[arg(long, default_value_t = 5)]
    lead: u64,
    /// How many schedule at once
    #[arg(long, default_value_t = 8)]
    producers: usize,
    /// How long the producers of `schedules` go on, in seconds
    #[arg(long, default_value_t = 5)]
    schedule_seconds: u64,
    /// How often each case has its turn
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Write the results to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// The folder of the JavaScript programs
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/js"))]
    js: PathBuf,
    /// Where the server's files go while it runs; what is measured is this disk
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Only list the systems and their cases
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measure {
    Lateness,
    Schedules,
}

impl Options {
    fn cases(&self) -> Result<Vec<&'static Case>> {
        for name in &self.systems {
            ensure!(CASES.iter().any(|case| case.system == name), "no system is named {name}; see --list");
        }
        for name in &self.cases {
            ensure!(CASES.iter().any(|case| case.name == name), "no case is named {name}; see --list");
        }
        let wanted = |names: &[String], name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
        let is_wanted = |case: &&Case| wanted(&self.systems, case.system) && wanted(&self.cases, case.name);
        Ok(CASES.iter().filter(is_wanted).collect())
    }

    fn loads(&self, rate: u64) -> Vec<Load> {
        let load = |&mode| Load {
            mode,
            rate,
            seconds: self.seconds,
            lead: self.lead,
            producers: self.producers,
            grace: Duration::from_secs(10),
        };
        self.mode.iter().map(load).collect()
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("durable-peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, and returns whether all could be measured.
fn run(options: &Options) -> Result<bool> {
    let cases = options.cases()?;
    if options.list {
        for case in cases {
            println!("{} {}, {}: {}", case.system, case.version, case.name, case.settings);
        }
        return Ok(true);
    }
    ensure!(options.rate.iter().all(|&rate| rate > 0), "a rate of 0 has nothing to measure");
    ensure!(options.producers > 0, "without producers there is nothing to measure");
    let load_before = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let server = Server::start(&options.dir)?;
    let mut report = Report {
        machine: Machine {
            cores: std::thread::available_parallelism()?.get(),
            postgres: server.version.clone(),
            postgres_settings: Server::settings(),
            sync_micros: server::sync_micros(server.files())?,
            load_before: load_before.trim().to_owned(),
        },
        lateness: Vec::new(),
        schedules: Vec::new(),
        failures: Vec::new(),
    };
    for round in 1..=options.rounds {
        for case in &cases {
            for &measure in &options.measure {
                if measure == Measure::Schedules && !case.has_schedules_of_its_own() {
                    continue;
                }
                eprintln!("round {round}: {}, {}: {measure:?}", case.system, case.name);
                if let Err(error) = turn(options, &server, case, measure, &mut report) {
                    eprintln!("  {error:#}");
                    report.failures.push(Failure { system: case.system, case: case.name, what: format!("{error:#}") });
                }
                // A session that is cut off loses nothing that was measured.
                if let Some(file) = &options.json {
                    report.write(file)?;
                }
            }
        }
    }
    println!("{}", report.tables());
    Ok(report.failures.is_empty())
}

/// One turn of a case, on a database and a runtime of its own.
fn turn(options: &Options, server: &Server, case: &Case, measure: Measure, report: &mut Report) -> Result<()> {
    let rates = if measure == Measure::Lateness { options.rate.as_slice() } else { &[0] };
    for &rate in rates {
        let runtime = tokio::runtime::Runtime::new()?;
        let loads = options.loads(rate);
        let measured = runtime.block_on(async {
            server.execute("postgres", &["drop database if exists peer with (force)", "create database peer"]).await?;
            let place = Place { server, url: server.url("peer"), js: &options.js };
            let peer = case.open(&place, options.pending).await.context("cannot open it")?;
            peer.fill(options.pending).await.context("cannot fill it")?;
            // As autovacuum has done in an older database; and nothing is left to be written.
            server.execute("peer", &["vacuum analyze", "checkpoint"]).await?;
            match measure {
                Measure::Lateness => {
                    for (load, lateness) in loads.iter().zip(measure::latenesses(&*peer, &loads).await?) {
                        eprintln!("  {:?} {rate}/s: {:?}", load.mode, lateness);
                        report.add_lateness(case, options.pending, *load, &lateness);
                    }
                }
                Measure::Schedules => {
                    let time = Duration::from_secs(options.schedule_seconds);
                    let schedules = measure::schedules(&*peer, options.producers, time).await?;
                    eprintln!("  {schedules:?}");
                    report.add_schedules(case, options.pending, options.producers, schedules);
                }
            }
            anyhow::Ok(())
        });
        // The workers have no other end.
        runtime.shutdown_timeout(Duration::from_secs(10));
        measured?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_given_again_replaces_what_it_was() {
        let options = ["durable-peers", "--rate", "200", "--pending", "5", "--rate", "500,5000", "--pending", "7"];
        let options = Options::try_parse_from(options).unwrap();
        assert_eq!((options.rate, options.pending), (vec![500, 5000], 7));
    }
}
