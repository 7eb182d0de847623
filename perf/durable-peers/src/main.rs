//! Measures the durable timeouts of other systems on a PostgreSQL server of its own, all with the
//! same work: how late timeouts run while many others are pending, and how many become durable a
//! second. Each system has the fastest settings that its documentation names.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, ensure};
use clap::{ArgAction, Parser};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

mod measure;
mod peer;
mod server;
mod systems;

use measure::{Load, Schedules};
use peer::Lateness;
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
    /// Timeouts that are pending all the time, and due tomorrow
    #[arg(long, default_value_t = 100_000)]
    pending: usize,
    /// Timeouts that fall due a second
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// How long timeouts fall due, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many seconds before it is due a timeout is scheduled
    #[arg(long, default_value_t = 5)]
    lead: u64,
    /// How many schedule at once
    #[arg(long, default_value_t = 8)]
    producers: usize,
    /// How long the producers go on when only schedules are counted, in seconds
    #[arg(long, default_value_t = 5)]
    schedule_seconds: u64,
    /// How often each system has its turn
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
    /// Only list the systems
    #[arg(long)]
    list: bool,
}

/// All that one command measured.
#[derive(Debug, Serialize)]
struct Report {
    cores: usize,
    postgres: String,
    /// The median of a durable write of 8 KiB, in microseconds.
    sync_micros: u64,
    /// The load averages before the first round: with more than nothing, others ran too.
    load_before: String,
    rounds: Vec<Round>,
}

/// One turn of a system.
#[derive(Debug, Serialize)]
struct Round {
    system: &'static str,
    version: &'static str,
    settings: &'static str,
    lateness: Option<Lateness>,
    schedules: Option<Schedules>,
    failed: Option<String>,
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
    for name in &options.systems {
        ensure!(CASES.iter().any(|case| case.system == name), "no system is named {name}; see --list");
    }
    let is_wanted = |case: &&Case| options.systems.is_empty() || options.systems.iter().any(|name| name == case.system);
    let cases: Vec<_> = CASES.iter().filter(is_wanted).collect();
    if options.list {
        cases.iter().for_each(|case| println!("{} {}: {}", case.system, case.version, case.settings));
        return Ok(true);
    }
    let load_before = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let server = Server::start(&options.dir)?;
    let mut report = Report {
        cores: std::thread::available_parallelism()?.get(),
        postgres: server.version.clone(),
        sync_micros: server::sync_micros(server.files())?,
        load_before: load_before.trim().to_owned(),
        rounds: Vec::new(),
    };
    for round in 1..=options.rounds {
        for case in &cases {
            eprintln!("round {round}: {}", case.system);
            let Case { system, version, settings } = **case;
            let mut one = Round { system, version, settings, lateness: None, schedules: None, failed: None };
            if let Err(error) = turn(options, &server, case, &mut one) {
                eprintln!("  {error:#}");
                one.failed = Some(format!("{error:#}"));
            }
            report.rounds.push(one);
            // A session that is cut off loses nothing that was measured.
            if let Some(file) = &options.json {
                let text = serde_json::to_string_pretty(&report)?;
                std::fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
            }
        }
    }
    println!("{}", report.table(&cases));
    Ok(report.rounds.iter().all(|round| round.failed.is_none()))
}

/// One turn of a system: lateness and then schedules, each on a database and a runtime of its own.
fn turn(options: &Options, server: &Server, case: &Case, round: &mut Round) -> Result<()> {
    for lateness in [true, false] {
        let runtime = tokio::runtime::Runtime::new()?;
        let measured = runtime.block_on(async {
            server.execute("postgres", &["drop database if exists peer with (force)", "create database peer"]).await?;
            let place = Place { server, url: server.url("peer"), js: &options.js };
            let peer = case.open(&place).await.context("cannot open it")?;
            peer.fill(options.pending).await.context("cannot fill it")?;
            // As autovacuum has done in an older database; and nothing is left to be written.
            server.execute("peer", &["vacuum analyze", "checkpoint"]).await?;
            if lateness {
                let Options { rate, seconds, lead, producers, .. } = *options;
                let load = Load { rate, seconds, lead, producers, grace: Duration::from_secs(10) };
                round.lateness = Some(measure::lateness(&*peer, load).await?);
                eprintln!("  {:?}", round.lateness);
            } else {
                let time = Duration::from_secs(options.schedule_seconds);
                round.schedules = Some(measure::schedules(&*peer, options.producers, time).await?);
                eprintln!("  {:?}", round.schedules);
            }
            anyhow::Ok(())
        });
        // The workers have no other end.
        runtime.shutdown_timeout(Duration::from_secs(10));
        measured?;
    }
    Ok(())
}

impl Report {
    /// Of several rounds the median.
    fn table(&self, cases: &[&Case]) -> String {
        let mut table = Table::new();
        let header =
            ["system", "p50 ms", "p99 ms", "max ms", "ran", "early", "twice", "durable/s", "in calls of 1,000"];
        table.load_style(presets::ASCII_MARKDOWN).set_header(header);
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        for case in cases {
            let rounds: Vec<_> = self.rounds.iter().filter(|round| round.system == case.system).collect();
            let late = |of: fn(&Lateness) -> f64| {
                median(rounds.iter().filter_map(|round| round.lateness.as_ref()).filter(|late| late.ran > 0).map(of))
            };
            let durable = |of: fn(&Schedules) -> Option<f64>| {
                median(rounds.iter().filter_map(|round| of(round.schedules.as_ref()?)))
            };
            table.add_row([
                format!("{} {}", case.system, case.version),
                late(|late| late.p50_ms),
                late(|late| late.p99_ms),
                late(|late| late.max_ms),
                late(|late| late.ran as f64),
                late(|late| late.early as f64),
                late(|late| late.twice as f64),
                durable(|schedules| Some(schedules.one_by_one)),
                durable(|schedules| schedules.in_batches),
            ]);
        }
        format!(
            "PostgreSQL {} with {}; {} cores; a durable write of 8 KiB takes {} us; load before: {}\n{table}",
            self.postgres,
            Server::settings(),
            self.cores,
            self.sync_micros,
            self.load_before,
        )
    }
}

fn median(figures: impl Iterator<Item = f64>) -> String {
    let mut sorted: Vec<_> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).map_or("none".to_owned(), |figure| format!("{figure:.1}"))
}
