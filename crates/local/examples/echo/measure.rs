//! Measures the servers in turn, and prints what came out.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use comfy_table::{Cell, CellAlignment, Table, presets};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde::Serialize;

use crate::client::{self, Load};
use crate::server::pin;
use crate::{Options, Runtime, Timers};

/// One run of one server.
#[derive(Debug, Clone, Serialize)]
struct Run {
    runtime: Runtime,
    timers: Timers,
    round: usize,
    commit: String,
    connections: usize,
    idle_connections: usize,
    idle_ms: u64,
    seconds: f64,
    requests: u64,
    requests_per_second: f64,
    processor_ns_per_request: f64,
    fired: usize,
    late_ns_p50: Option<i64>,
    late_ns_p99: Option<i64>,
    late_ns_max: Option<i64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(!cfg!(debug_assertions), "a build for debugging measures something else: build with --release");
    ensure!(options.idle_connections <= options.connections, "more connections stop than there are");
    pin(1);
    let file = |path| OpenOptions::new().append(true).create(true).open(path);
    let mut json = options.json.as_ref().map(file).transpose().context("cannot write the file for --json")?;
    let commit = commit();
    let mut runs: BTreeMap<(Runtime, Timers), Vec<Run>> = BTreeMap::new();
    for round in 1..=options.rounds {
        for &runtime in &options.runtime {
            for &timers in &options.timers {
                if (runtime, timers) == (Runtime::Compio, Timers::RuntimeReset) {
                    continue;
                }
                eprintln!("{round} of {}: {runtime:?}, {timers:?}", options.rounds);
                let run = once(options, runtime, timers, round, &commit)
                    .with_context(|| format!("{runtime:?}, {timers:?}"))?;
                json.as_mut().map_or(Ok(()), |file| append(file, &run))?;
                runs.entry((runtime, timers)).or_default().push(run);
            }
        }
    }
    print(&runs);
    Ok(())
}

fn append(file: &mut File, run: &Run) -> Result<()> {
    let line = serde_json::to_string(run)?;
    writeln!(file, "{line}").context("cannot write the file for --json")
}

fn commit() -> String {
    let output = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"])
        .output()
        .ok()
        .filter(|output| output.status.success());
    output.map_or("unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn once(options: &Options, runtime: Runtime, timers: Timers, round: usize, commit: &str) -> Result<Run> {
    let mut server = Command::new(std::env::current_exe()?)
        .args(["--serve", "127.0.0.1:0", "--report"])
        .args(["--runtime", name(runtime)?.as_str(), "--timers", name(timers)?.as_str()])
        .args(["--idle-ms", &options.idle_ms.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the server")?;
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(server.id())?))?;
    let mut said = BufReader::new(server.stdout.take().context("the server's output is a pipe")?);
    let mut address = String::new();
    said.read_line(&mut address)?;
    let load = Load {
        connections: options.connections,
        idle_connections: options.idle_connections,
        idle: Duration::from_millis(options.idle_ms),
        is_limited: timers != Timers::None,
        time: Duration::from_secs(options.seconds),
    };
    let counted =
        client::send(address.trim().parse().context("the server does not say where it listens")?, load, || {
            Ok(Duration::from(clock_gettime(clock)?))
        });
    let late_ns = end(server, said)?;
    let counted = counted?;
    ensure!(late_ns.first().is_none_or(|&least| least >= 0), "a timeout was early by {} ns", -late_ns[0]);
    let at = |percent| late_ns.get(late_ns.len().saturating_sub(1) * percent / 100).copied();
    Ok(Run {
        runtime,
        timers,
        round,
        commit: commit.to_owned(),
        connections: options.connections,
        idle_connections: options.idle_connections,
        idle_ms: options.idle_ms,
        seconds: counted.time.as_secs_f64(),
        requests: counted.requests,
        requests_per_second: counted.requests as f64 / counted.time.as_secs_f64(),
        processor_ns_per_request: counted.processor_time.as_nanos() as f64 / counted.requests as f64,
        fired: late_ns.len(),
        late_ns_p50: at(50),
        late_ns_p99: at(99),
        late_ns_max: at(100),
    })
}

/// Returns the name that the options know.
fn name(value: impl Serialize) -> Result<String> {
    Ok(serde_json::to_value(value)?.as_str().context("it has a name")?.to_owned())
}

/// Ends the server, and returns how late its timeouts were, sorted.
fn end(mut server: Child, mut said: impl BufRead) -> Result<Vec<i64>> {
    drop(server.stdin.take());
    let mut line = String::new();
    said.read_line(&mut line)?;
    let status = server.wait()?;
    ensure!(status.success(), "the server ended with {status}");
    let mut late_ns: Vec<i64> = serde_json::from_str(&line).context("the server does not say how late it was")?;
    late_ns.sort_unstable();
    Ok(late_ns)
}

fn print(runs: &BTreeMap<(Runtime, Timers), Vec<Run>>) {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "runtime",
        "timers",
        "requests/s",
        "least to most",
        "CPU ns/request",
        "least to most",
        "fired",
        "late: p50 µs",
        "p99 µs",
        "most µs",
    ]);
    for ((runtime, timers), runs) in runs {
        let of = |figure: &dyn Fn(&Run) -> Option<f64>| {
            let mut figures: Vec<f64> = runs.iter().filter_map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures
        };
        let median = |figures: &[f64]| figures.get(figures.len() / 2).map_or("-".to_owned(), |f| format!("{f:.0}"));
        let range = |figures: &[f64]| match figures {
            [least, .., most] => format!("{least:.0} to {most:.0}"),
            _ => "-".to_owned(),
        };
        let micros = |late: Option<i64>| late.map(|ns| ns as f64 / 1_000.0);
        let rate = of(&|run| Some(run.requests_per_second));
        let spent = of(&|run| Some(run.processor_ns_per_request));
        let most = of(&|run| micros(run.late_ns_max));
        let cells = [
            median(&rate),
            range(&rate),
            median(&spent),
            range(&spent),
            runs.iter().map(|run| run.fired).sum::<usize>().to_string(),
            median(&of(&|run| micros(run.late_ns_p50))),
            median(&of(&|run| micros(run.late_ns_p99))),
            most.last().map_or("-".to_owned(), |most| format!("{most:.0}")),
        ];
        let names = [format!("{runtime:?}"), format!("{timers:?}")].map(Cell::new);
        let cells = cells.map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
        table.add_row(names.into_iter().chain(cells));
    }
    println!("{table}");
}
