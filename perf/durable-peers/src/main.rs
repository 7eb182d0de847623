//! Measures the durable timeouts of other systems on a PostgreSQL server of its own, all with the
//! same work: how late timeouts run while many others are pending, and how many become durable a
//! second. Each system has the fastest settings that its documentation names.

use std::{io::Write, path::PathBuf, process::ExitCode, time::Duration, time::Instant};

use anyhow::{Context, Result, ensure};
use clap::{ArgAction, Parser};
use comfy_table::{CellAlignment, Table, presets};
use postgres::{Client, NoTls};
use serde::Serialize;
use tokio::runtime::Runtime;

mod measure;
mod peer;
#[path = "../../../crates/durable/tests/support/postgres.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod server;
mod systems;

use measure::{Load, Schedules};
use peer::Lateness;
use server::Server;
use systems::{CASES, Case};

/// How long the server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// What must not be changed by a package's defaults, or differs from those of PostgreSQL.
const SETTINGS: [&str; 4] = ["fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=256MB"];

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
    let server = Server::start_with("UTF8", &SETTINGS).context("scripts/durable-peers installs a PostgreSQL server")?;
    let version = server.connect()?.query_one("show server_version", &[])?.get(0);
    // What the server's first files have left to the system.
    nix::unistd::sync();
    let mut report = Report {
        cores: std::thread::available_parallelism()?.get(),
        postgres: version,
        sync_micros: sync_micros(&server)?,
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
        execute(server, "postgres", &["drop database if exists peer with (force)", "create database peer"])?;
        let runtime = Runtime::new()?;
        let measured = measure_one(options, server, case, round, lateness, &runtime);
        // The workers have no other end.
        runtime.shutdown_timeout(Duration::from_secs(10));
        measured?;
    }
    Ok(())
}

fn measure_one(
    options: &Options,
    server: &Server,
    case: &Case,
    round: &mut Round,
    lateness: bool,
    runtime: &Runtime,
) -> Result<()> {
    let peer = runtime.block_on(async {
        let peer = case.open(&url(server, "peer"), server.directory()).await.context("cannot open it")?;
        peer.fill(options.pending).await.context("cannot fill it")?;
        anyhow::Ok(peer)
    })?;
    // As autovacuum has done in an older database; and nothing is left to be written.
    execute(server, "peer", &["vacuum analyze", "checkpoint"])?;
    if lateness {
        let Options { rate, seconds, lead, producers, .. } = *options;
        let load = Load { rate, seconds, lead, producers, grace: Duration::from_secs(10) };
        round.lateness = Some(runtime.block_on(measure::lateness(&*peer, load))?);
        eprintln!("  {:?}", round.lateness);
    } else {
        let time = Duration::from_secs(options.schedule_seconds);
        round.schedules = Some(runtime.block_on(measure::schedules(&*peer, options.producers, time))?);
        eprintln!("  {:?}", round.schedules);
    }
    Ok(())
}

fn url(server: &Server, database: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{}/{database}", server.port())
}

/// Runs statements on a database, each in a transaction of its own.
fn execute(server: &Server, database: &str, statements: &[&str]) -> Result<()> {
    let mut client = Client::connect(&url(server, database), NoTls)?;
    statements.iter().try_for_each(|one| client.batch_execute(one).with_context(|| (*one).to_owned()))
}

/// How long the server's disk takes to make 8 KiB durable: the median of 200, in microseconds. It
/// bounds what one connection can commit in a second.
fn sync_micros(server: &Server) -> Result<u64> {
    let mut file = tempfile::tempfile_in(server.directory())?;
    let mut times = Vec::new();
    for _ in 0..200 {
        let started = Instant::now();
        file.write_all(&[7; 8192])?;
        file.sync_data()?;
        times.push(u64::try_from(started.elapsed().as_micros())?);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
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
            SETTINGS.join(", "),
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
