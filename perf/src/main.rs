//! `tourbillon-perf`: the load generator of Tourbillon.
//!
//! Six jobs, a folder each. `connections` is the default. It puts the engine under the
//! load it was made for, real TCP connections and a million timeouts beside them, and reconciles
//! the counters at the end. `replay` runs a web server's access log through the engine and compares
//! it with an independent count. `compare` measures single operations, lateness, memory and
//! idleness beside other timers, and `report` makes a page of what it found. `instructions` counts
//! what a request costs a server, under callgrind. `soak` does all operations at random, with
//! faults, and checks the engine's promises for every timeout.

#[path = "../../integrations/src/accept/errors.rs"]
mod accept;
mod compare;
mod connections;
mod duration;
#[cfg(feature = "peers")]
mod instructions;
mod json_file;
mod number;
mod process;
mod replay;
mod report;
mod soak;
mod text_table;
#[cfg(feature = "peers")]
mod valgrind;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use compare::{CaseArgs, CompareArgs};
use connections::ConnectionsArgs;
use replay::ReplayArgs;
use report::ReportArgs;
use soak::SoakArgs;

/// The soak refuses engines memory; for all else it is the system's allocator.
#[global_allocator]
static ALLOCATOR: soak::Stingy = soak::Stingy;

/// Load generator and measuring tool for the Tourbillon timer engine.
///
/// Without a subcommand it runs `connections`: a TCP server on loopback with as many real clients
/// as the file-descriptor limit allows, and 1,000,000 timeouts without sockets beside them, for 20
/// seconds. All options below are those of `connections`.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    job: Option<Job>,
    #[command(flatten)]
    connections: ConnectionsArgs,
}

#[derive(Debug, Subcommand)]
enum Job {
    /// Real connections and 1,000,000 timeouts at once; the counters are reconciled at the end
    /// (default)
    Connections(ConnectionsArgs),
    /// Replay a web server's access log as a trace of keep-alive timeouts, and check the count
    Replay(ReplayArgs),
    /// Cost, lateness, memory and idleness beside other timers, in one run, as ratios
    Compare(CompareArgs),
    /// Instructions of a server for each request, with our timers, Tokio's, and none
    #[cfg(feature = "peers")]
    Instructions(instructions::InstructionsArgs),
    /// The server that `instructions` counts, which starts it
    #[cfg(feature = "peers")]
    #[command(hide = true)]
    Server(instructions::ServerArgs),
    /// A page with tables and plots, from what `compare --json` wrote
    Report(ReportArgs),
    /// One run of one case of `compare`, which starts it
    #[command(hide = true)]
    Case(CaseArgs),
    /// The server of sessions of W11, which callgrind counts
    #[cfg(all(feature = "peers", target_os = "linux"))]
    #[command(hide = true)]
    Sessions(compare::SessionsArgs),
    /// The clients of the server of sessions
    #[cfg(all(feature = "peers", target_os = "linux"))]
    #[command(hide = true)]
    SessionsLoad(compare::LoadArgs),
    /// Stress and soak: every operation at random, with faults; each timeout is accounted for
    Soak(SoakArgs),
}

const AFTER_HELP: &str = "\
Exit status: 0 when every check passed, 1 when a check failed or the run could not be done,
2 when the command line is wrong.

Durations take a unit: 250ms, 15s, 1m30s. Counts may be grouped: 1000000, 1_000_000 or 1,000,000.

Examples:
  tourbillon-perf                                       the main job, about 20 seconds
  tourbillon-perf --duration 3s --timeouts 50000 --connections 200
                                                        the same, short, for CI
  tourbillon-perf --json run.json                       and the result for machines
  tourbillon-perf soak --minutes 5                      everything at once, with faults, and checked
  tourbillon-perf help connections                      what it does, and what it checks

`help replay`, `help compare` and `help report` have examples of their own.";

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Whether all checks of the job passed.
    let outcome = match cli.job {
        None => connections::run(&cli.connections),
        Some(Job::Connections(args)) => connections::run(&args),
        Some(Job::Replay(args)) => replay::run(&args),
        Some(Job::Compare(args)) => compare::run(&args),
        #[cfg(feature = "peers")]
        Some(Job::Instructions(args)) => instructions::run(&args),
        #[cfg(feature = "peers")]
        Some(Job::Server(args)) => instructions::run_server(&args),
        Some(Job::Report(args)) => report::run(&args),
        Some(Job::Case(args)) => compare::run_case(&args),
        #[cfg(all(feature = "peers", target_os = "linux"))]
        Some(Job::Sessions(args)) => compare::run_sessions(&args),
        #[cfg(all(feature = "peers", target_os = "linux"))]
        Some(Job::SessionsLoad(args)) => compare::run_sessions_load(&args),
        Some(Job::Soak(args)) => soak::run(&args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        // The job has printed which check failed.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn top_level_options_work_without_naming_the_job() {
        let cli = Cli::try_parse_from(["tourbillon-perf", "--duration", "3s"]);
        assert!(cli.is_ok_and(|cli| cli.job.is_none()));
        let named = Cli::try_parse_from(["tourbillon-perf", "connections", "--duration", "3s"]);
        assert!(named.is_ok_and(|cli| matches!(cli.job, Some(Job::Connections(_)))));
    }
}
