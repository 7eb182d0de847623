//! Instructions of a server for each request, as callgrind counts them: what a timer adds,
//! where processor time can't tell it from noise.
//!
//! A server runs under callgrind, in a process of its own, and answers a fixed number of requests
//! over loopback. It does so twice, with more requests the second time. The difference of the two
//! counts is the additional requests' alone, because all that happens at the start, at the end and
//! for each connection happens in both. Repetitions take turns.

mod callgrind;
mod client;
mod program;
mod server;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use crate::compare::ServerTimers;
use crate::compare::machine::Machine;
use crate::compare::statistics::Spread;
use crate::verdict::Verdict;
use crate::{json_file, number};
use client::{Kind, Load};
use program::Program;
pub(crate) use server::{ServerArgs, run as run_server};

/// Options of the count.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct InstructionsArgs {
    /// Which servers, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "echo,http")]
    servers: Vec<Server>,

    /// Another server's program, which then is counted instead of SERVERS: see below
    #[arg(long, value_name = "SERVER:TIMERS=COMMAND", value_parser = Program::parse, conflicts_with = "servers")]
    program: Vec<Program>,

    /// That server sends back what it reads, 64 bytes each time, and knows no HTTP
    #[arg(long, requires = "program", conflicts_with = "path")]
    echo: bool,

    /// What another server is asked for
    #[arg(long, default_value = "/", requires = "program")]
    path: String,

    /// Requests of which the average is taken; a fifth as many come first, in both runs
    #[arg(long, value_name = "N", default_value = "5000", value_parser = number::parse_positive)]
    requests: usize,

    /// Connections that send them
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::parse_positive)]
    connections: usize,

    /// How often each is counted
    #[arg(long, value_name = "N", default_value = "5", value_parser = number::parse_positive)]
    repeat: usize,

    /// Write the result, every count included, as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Servers:
  echo   64 bytes, which come back; a limit round each read and write
  http   hyper; a limit for each head, and one for each request
The limits are Tourbillon's, Tokio's, or there are none. Each server has one thread, and a timer's
own thread counts as well. The kernel's instructions do not: callgrind sees none of them.

A server is much slower under callgrind. What a timer does by the clock, such as to look each 10 ms
whether something is due, weighs so much more for each request than it does in service.

SERVER and TIMERS name another program in the table. {} in its COMMAND stands for the address that it
is to listen on, and spaces divide the arguments; it ends on SIGINT. scripts/pingora --instructions
counts a proxy so, and scripts/echo --instructions the echo servers of integrations/local.

Needs valgrind; no quiet machine.

Examples:
  cargo run --release -p tourbillon-perf --features peers -- instructions
  tourbillon-perf instructions --servers echo --requests 20000 --json counts.json
  tourbillon-perf instructions --program 'mine:tokio=target/release/server --listen {}'";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Server {
    Echo,
    Http,
}

/// Something to count: a program, and what to send to it.
struct Subject {
    server: String,
    timers: String,
    kind: Kind,
    command: Box<dyn Fn(&str) -> Command>,
}

/// What was counted.
#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    requests: usize,
    connections: usize,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    server: String,
    timers: String,
    /// For each request.
    instructions: Spread,
    /// More than without timers: the medians' difference.
    more: Option<f64>,
    counts: Vec<Count>,
}

/// One repetition.
#[derive(Debug, Clone, Copy, Serialize)]
struct Count {
    few: u64,
    many: u64,
    /// How long the longer run's requests took under callgrind.
    seconds: f64,
}

/// Counts what was asked for, prints it, and writes it down.
pub(crate) fn run(args: &InstructionsArgs) -> Result<Verdict> {
    json_file::check(args.json.as_deref())?;
    ensure!(!cfg!(debug_assertions), "a build for debugging has instructions of its own: build with --release");
    let subjects = subjects(args)?;
    let mut counts: BTreeMap<usize, Vec<Count>> = BTreeMap::new();
    for round in 1..=args.repeat {
        for (at, subject) in subjects.iter().enumerate() {
            eprintln!("{round} of {}: {}, {}", args.repeat, subject.server, subject.timers);
            let count = subject.count(args).with_context(|| format!("{}, {}", subject.server, subject.timers))?;
            counts.entry(at).or_default().push(count);
        }
    }
    let report = Report {
        machine: Machine::look(),
        requests: args.requests,
        connections: args.connections,
        rows: rows(&subjects, &counts, args.requests),
    };
    print(&report);
    if let Some(path) = &args.json {
        json_file::write(path, &report)?;
    }
    Ok(Verdict::Passed)
}

fn subjects(args: &InstructionsArgs) -> Result<Vec<Subject>> {
    if !args.program.is_empty() {
        let kind = if args.echo { Kind::Echo } else { Kind::Http };
        return Ok(args.program.iter().cloned().map(|program| Subject::of(program, kind)).collect());
    }
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut subjects = Vec::new();
    for server in &args.servers {
        let (name, kind) = match server {
            Server::Echo => ("echo", Kind::Echo),
            Server::Http => ("hyper", Kind::Http),
        };
        for timers in ServerTimers::value_variants() {
            let (program, timers) = (program.clone(), *timers);
            let command = move |listen: &str| server::command(&program, listen, kind == Kind::Http, timers);
            subjects.push(Subject {
                server: name.to_owned(),
                timers: timers.to_string(),
                kind,
                command: Box::new(command),
            });
        }
    }
    Ok(subjects)
}

impl Subject {
    fn of(program: Program, kind: Kind) -> Self {
        let (server, timers) = (program.server.clone(), program.timers.clone());
        Self { server, timers, kind, command: Box::new(move |listen| program.command(listen)) }
    }

    fn count(&self, args: &InstructionsArgs) -> Result<Count> {
        let few = args.requests.div_ceil(5);
        let mut seconds = 0.0;
        let mut once = |requests| {
            let load = Load { kind: self.kind, path: &args.path, connections: args.connections, requests };
            callgrind::instructions(&self.command, |address| {
                let since = Instant::now();
                client::send(address, load)?;
                seconds = since.elapsed().as_secs_f64();
                Ok(())
            })
        };
        let (few, many) = (once(few)?, once(few + args.requests)?);
        ensure!(many > few, "{many} instructions for more requests, and {few} for fewer");
        Ok(Count { few, many, seconds })
    }
}

fn rows(subjects: &[Subject], counts: &BTreeMap<usize, Vec<Count>>, requests: usize) -> Vec<Row> {
    let row = |(at, counts): (&usize, &Vec<Count>)| {
        let each = |count: &Count| (count.many - count.few) as f64 / requests as f64;
        let (server, timers) = (subjects[*at].server.clone(), subjects[*at].timers.clone());
        let instructions = Spread::of(counts.iter().map(each))?;
        Some(Row { server, timers, instructions, more: None, counts: counts.clone() })
    };
    let mut rows: Vec<Row> = counts.iter().filter_map(row).collect();
    let without: BTreeMap<String, f64> = rows
        .iter()
        .filter(|row| row.timers == "none")
        .map(|row| (row.server.clone(), row.instructions.median))
        .collect();
    for row in &mut rows {
        row.more = without.get(&row.server).map(|without| row.instructions.median - without);
    }
    rows
}

fn print(report: &Report) {
    let Report { machine, requests, connections, .. } = report;
    println!(
        "Instructions for each request under callgrind; {}, {}; commit {}; {requests} requests over {connections} \
         connection(s)",
        machine.processor, machine.rustc, machine.commit
    );
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["server", "timers", "instructions", "least to most", "more than none", "requests/s here"]);
    for row in &report.rows {
        let figure = |number: f64| number::grouped_f64(number);
        let Spread { median, min, max } = row.instructions;
        let more = row.more.filter(|_| row.timers != "none");
        let more = more.map_or("-".to_owned(), |more| format!("{more:+.0}"));
        let all = requests.div_ceil(5) + requests;
        let rate =
            Spread::of(row.counts.iter().map(|count| all as f64 / count.seconds)).map_or(0.0, |rate| rate.median);
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([
            Cell::new(&row.server),
            Cell::new(&row.timers),
            right(figure(median)),
            right(format!("{} to {}", figure(min), figure(max))),
            right(more),
            right(figure(rate)),
        ]);
    }
    println!("{table}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(timers: &str) -> Subject {
        let command = Box::new(|_: &str| Command::new("true"));
        Subject { server: "echo".to_owned(), timers: timers.to_owned(), kind: Kind::Echo, command }
    }

    #[test]
    fn what_is_in_both_runs_cancels_out() {
        let subjects = [subject("ours"), subject("none")];
        let count = |few, many| Count { few, many, seconds: 1.0 };
        let counts = BTreeMap::from([
            (0, vec![count(1_000, 13_000), count(9_000, 20_000), count(0, 13_000)]),
            (1, vec![count(1_000_000, 1_010_000)]),
        ]);
        let rows = rows(&subjects, &counts, 10);
        let ours = &rows[0].instructions;
        assert_eq!((ours.median, ours.min, ours.max, rows[0].more), (1_200.0, 1_100.0, 1_300.0, Some(200.0)));
        assert_eq!((rows[1].instructions.median, rows[1].more), (1_000.0, Some(0.0)));
    }
}
