//! Instructions of a server for each request, as callgrind counts them: what a timer adds,
//! where processor time can't tell it from noise.
//!
//! A server runs under callgrind, in a process of its own, and answers a fixed number of requests
//! over loopback. It does so twice, with more requests the second time. The difference of the two
//! counts is the additional requests' alone, because all that happens at the start, at the end and
//! for each connection happens in both. Repetitions take turns.

pub(crate) mod limits;
mod load;
mod server;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

use crate::compare::machine::Machine;
use crate::compare::statistics::Spread;
use crate::number::grouped_f64;
use crate::{json_file, number, text_table, valgrind};
use load::{Load, send};
pub(crate) use server::{ServerTimers, serve};

/// The placeholder for the address in a command.
const ADDRESS: &str = "{}";
/// How long a server may take until it listens: it is slow here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options of the count.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct InstructionsArgs {
    /// Another server's program, which then is counted instead: see below
    #[arg(long, value_name = "SERVER:TIMERS=COMMAND", value_parser = Program::parse)]
    program: Vec<Program>,

    /// That server sends back what it reads, 64 bytes each time, and knows no HTTP
    #[arg(long, requires = "program", conflicts_with = "path")]
    echo: bool,

    /// The path that another server is asked for
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
  echo    64 bytes, which come back; a limit round each read and write
  hyper   HTTP; a limit for each head, and one for each request
The limits are Tourbillon's, Tokio's, or there are none. Each server has one thread, and a timer's
own thread counts as well. The kernel's instructions do not: callgrind sees none of them.

A server is much slower under callgrind. The work that a timer does by the clock, such as a look
each 10 ms whether something is due, weighs so much more for each request than it does in service.

SERVER and TIMERS name another program in the table. {} in its COMMAND stands for the address that it
is to listen on, and spaces divide the arguments; it ends on SIGINT. scripts/pingora --instructions
counts a proxy so, and scripts/echo --instructions the echo servers of integrations/local.

Needs valgrind; no quiet machine.

Examples:
  cargo run --release -p tourbillon-perf --features peers -- instructions
  tourbillon-perf instructions --requests 20000 --json counts.json
  tourbillon-perf instructions --program 'mine:tokio=target/release/server --listen {}'";

/// A program to count, and what to call it in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    server: String,
    timers: String,
    words: Vec<String>,
}

/// The server that is counted. Not for people.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    listen: SocketAddr,

    #[arg(long, value_enum)]
    timers: ServerTimers,

    /// hyper, instead of an echo
    #[arg(long)]
    http: bool,
}

/// Serves until a signal ends the process.
pub(crate) fn run_server(args: &ServerArgs) -> Result<bool> {
    let _serving = serve(args.timers, args.http, args.listen)?;
    loop {
        thread::park();
    }
}

/// The result of a count.
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
pub(crate) fn run(args: &InstructionsArgs) -> Result<bool> {
    json_file::check(args.json.as_deref())?;
    ensure!(!cfg!(debug_assertions), "a build for debugging has instructions of its own: build with --release");
    let programs = if args.program.is_empty() { own_servers()? } else { args.program.clone() };
    let mut counts = vec![Vec::new(); programs.len()];
    for round in 1..=args.repeat {
        for (program, counts) in programs.iter().zip(&mut counts) {
            eprintln!("{round} of {}: {}, {}", args.repeat, program.server, program.timers);
            counts.push(program.count(args).with_context(|| format!("{}, {}", program.server, program.timers))?);
        }
    }
    let report = Report {
        machine: Machine::look(),
        requests: args.requests,
        connections: args.connections,
        rows: rows(&programs, counts, args.requests),
    };
    print(&report);
    json_file::write(args.json.as_deref(), &report)?;
    Ok(true)
}

/// This program's servers, with each kind of timers.
fn own_servers() -> Result<Vec<Program>> {
    let this = std::env::current_exe().context("cannot find this program's own file")?.display().to_string();
    let mut programs = Vec::new();
    for (name, option) in [("echo", None), ("hyper", Some("--http"))] {
        for timers in ["tourbillon", "tokio", "none"] {
            let words = [&this, "server", ADDRESS, "--timers", timers].into_iter().chain(option);
            let words = words.map(str::to_owned).collect();
            programs.push(Program { server: name.to_owned(), timers: timers.to_owned(), words });
        }
    }
    Ok(programs)
}

impl Program {
    /// Reads `SERVER:TIMERS=COMMAND`.
    fn parse(text: &str) -> Result<Self> {
        let (name, command) = text.split_once('=').context("no =COMMAND")?;
        let (server, timers) = name.split_once(':').context("no SERVER:TIMERS before the command")?;
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        ensure!(words.iter().skip(1).any(|word| word.contains(ADDRESS)), "no {ADDRESS} for the address in the command");
        Ok(Self { server: server.to_owned(), timers: timers.to_owned(), words })
    }

    fn count(&self, args: &InstructionsArgs) -> Result<Count> {
        let few = args.requests.div_ceil(5);
        // An own server that is no echo answers to any path.
        let path = (!args.echo && self.server != "echo").then(|| args.path.clone());
        let mut seconds = 0.0;
        let mut once = |requests| {
            let path = path.clone();
            self.instructions(|address| {
                seconds = send(&Load { address, path, connections: args.connections, requests })?;
                Ok(())
            })
        };
        let (few, many) = (once(few)?, once(few + args.requests)?);
        ensure!(many > few, "{many} instructions for more requests, and {few} for fewer");
        Ok(Count { few, many, seconds })
    }

    /// Starts the server under callgrind, has `drive` send to it, and ends it. Returns how many
    /// instructions the process has executed.
    fn instructions(&self, drive: impl FnOnce(SocketAddr) -> Result<()>) -> Result<u64> {
        // An address that nobody listens on now.
        let address = TcpListener::bind("127.0.0.1:0").context("no port is free")?.local_addr()?;
        let mut words = self.words.iter().map(|word| word.replace(ADDRESS, &address.to_string()));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        let mut server = valgrind::callgrind(&command);
        server.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = server.spawn().context("cannot run valgrind: apt-get install valgrind, or the like")?;
        let is_there = || child.try_wait().is_ok_and(|status| status.is_none());
        let driven = wait_until_it_listens(address, is_there).and_then(|()| drive(address));
        // It may have ended by itself, and then says why below.
        let _ = kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT);
        // Valgrind 3.19 holds a signal back while a server waits in `io_uring_enter`. The echo
        // servers of integrations/local end at such a message. Others have ended.
        let _ = TcpStream::connect(address).and_then(|mut stream| stream.write_all(&[b'Q'; 64]));
        let output = child.wait_with_output().context("cannot end the server")?;
        driven.with_context(|| format!("the server said: {}", String::from_utf8_lossy(&output.stderr)))?;
        valgrind::collected(&output.stderr)
    }
}

fn wait_until_it_listens(address: SocketAddr, mut is_there: impl FnMut() -> bool) -> Result<()> {
    let since = Instant::now();
    while TcpStream::connect(address).is_err() {
        ensure!(is_there(), "it ended before it listened");
        ensure!(since.elapsed() < PATIENCE, "it does not listen");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn rows(programs: &[Program], counts: Vec<Vec<Count>>, requests: usize) -> Vec<Row> {
    let row = |(program, counts): (&Program, Vec<Count>)| {
        let each = |count: &Count| (count.many - count.few) as f64 / requests as f64;
        let (server, timers) = (program.server.clone(), program.timers.clone());
        let instructions = Spread::of(counts.iter().map(each))?;
        Some(Row { server, timers, instructions, more: None, counts })
    };
    let mut rows: Vec<Row> = programs.iter().zip(counts).filter_map(row).collect();
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
    println!("Instructions for each request under callgrind; {requests} requests over {connections} connection(s)");
    println!("{machine}");
    let cells = |row: &Row| {
        let Spread { median, min, max } = row.instructions;
        let more = row.more.filter(|_| row.timers != "none");
        let all = requests.div_ceil(5) + requests;
        let rate =
            Spread::of(row.counts.iter().map(|count| all as f64 / count.seconds)).map_or(0.0, |rate| rate.median);
        [
            row.server.clone(),
            row.timers.clone(),
            grouped_f64(median),
            format!("{} to {}", grouped_f64(min), grouped_f64(max)),
            more.map_or("-".to_owned(), |more| format!("{more:+.0}")),
            grouped_f64(rate),
        ]
    };
    let header = ["server", "timers", "instructions", "least to most", "more than none", "requests/s here"];
    text_table::print(&header, report.rows.iter().map(cells), 2);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_that_are_in_both_runs_cancel_out() {
        let program = |timers| Program::parse(&format!("echo:{timers}=server {{}}")).expect("it can be read");
        let programs = [program("ours"), program("none")];
        let count = |few, many| Count { few, many, seconds: 1.0 };
        let ours = vec![count(1_000, 13_000), count(9_000, 20_000), count(0, 13_000)];
        let rows = rows(&programs, vec![ours, vec![count(1_000_000, 1_010_000)]], 10);
        let ours = &rows[0].instructions;
        assert_eq!((ours.median, ours.min, ours.max, rows[0].more), (1_200.0, 1_100.0, 1_300.0, Some(200.0)));
        assert_eq!((rows[1].instructions.median, rows[1].more), (1_000.0, Some(0.0)));
    }

    #[test]
    fn a_command_that_cannot_be_told_the_address_is_refused() {
        for text in ["proxy:ours", "proxy=target/proxy {}", "proxy:ours={}", "proxy:ours=target/proxy --listen"] {
            assert!(Program::parse(text).is_err(), "{text}");
        }
    }
}
