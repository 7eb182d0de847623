//! A web server's access log as a trace of keep-alive timeouts.
//!
//! A client's first request opens its connection and arms a timeout; each further request strictly
//! before the deadline resets it; one at or after the deadline finds it expired and opens a new
//! one. The same is counted a second time without an engine, by sorting, and both must agree.

mod engine;
mod log_format;
mod report;
mod trace;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use crate::duration::{self, exact};
use crate::json_file;
use report::Report;

/// A keep-alive beyond ten years is a typing error.
const LONGEST_KEEP_ALIVE: Duration = Duration::from_secs(3_660 * 86_400);

/// On the real clock a keep-alive must be some ticks long, or the answer is noise.
const SHORTEST_REAL_KEEP_ALIVE: Duration = Duration::from_micros(250);

/// Options of the replay.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReplayArgs {
    /// Access log in Common or Combined Log Format
    file: PathBuf,

    /// How long a connection lives after its last request
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_keep_alive)]
    keep_alive: Duration,

    /// Replay on the real clock, with so many seconds of the log in a second [default: a clock that
    /// is stepped by hand]
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed)]
    speed: Option<f64>,

    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
A client is the first field of a line. Its first request opens its connection and arms a timeout of
--keep-alive. Each further request before the deadline resets it; one at or after the deadline finds
it expired and opens a new one. At the end the clock runs on until all have expired. Requests are
sorted by time first, those of one second stay in the file's order.

The engine's answer is compared with a count by sorting (client, time), which knows no timeouts. On
the manual clock they must be equal. On the real clock a request that comes at its deadline, give or
take this machine's noise, may find it on either side; the difference is shown, and only a timeout
that expires early, twice or never is a failure.

Exit status: 0 when the counts agree (real clock: when no promise is broken), 1 otherwise.

Examples:
  tourbillon-perf replay perf/data/sample.log --keep-alive 15s
  tourbillon-perf replay access.log --keep-alive 1m30s --json replay.json
  tourbillon-perf replay access.log --speed 1000      an hour of the log in 3.6 s, real workers";

/// Replays the log and prints what came of it.
pub(crate) fn run(args: &ReplayArgs) -> Result<bool> {
    let speed = args.speed()?;
    json_file::check(args.json.as_deref())?;
    let (trace, contents) = trace::read(&args.file)?;
    report::print_contents(&args.file, &contents, trace.requests.len());
    ensure!(
        contents.lines == 0 || !trace.requests.is_empty(),
        "no line of {} is in Common or Combined Log Format",
        args.file.display()
    );

    let takes = |speed| engine::plan(&trace, args.keep_alive, Some(speed)).last().copied().unwrap_or_default();
    report::print_manner(args.keep_alive, speed.map(|speed| (speed, takes(speed))));
    let outcome = engine::run(&trace, args.keep_alive, speed)?;
    let by_sorting = trace::exact(&trace, args.keep_alive);
    let report = Report::new(&args.file, args.keep_alive, speed, contents, &outcome, by_sorting);
    report.print();
    json_file::write(args.json.as_deref(), &report)?;
    Ok(report.passed)
}

impl ReplayArgs {
    /// The speed, if the clock is the real one.
    fn speed(&self) -> Result<Option<f64>> {
        let Some(factor) = self.speed else { return Ok(None) };
        let highest = self.keep_alive.as_secs_f64() / SHORTEST_REAL_KEEP_ALIVE.as_secs_f64();
        ensure!(
            factor <= highest,
            "at --speed {factor} a keep-alive of {} lasts less than {}, which is noise; at most --speed {highest} makes sense",
            exact(self.keep_alive),
            exact(SHORTEST_REAL_KEEP_ALIVE)
        );
        Ok(Some(factor))
    }
}

fn parse_keep_alive(text: &str) -> Result<Duration, String> {
    let keep_alive = duration::parse(text)?;
    if keep_alive <= LONGEST_KEEP_ALIVE { Ok(keep_alive) } else { Err("a keep-alive is at most ten years".to_owned()) }
}

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.001..=1e9).contains(&factor) => Ok(factor),
        _ => Err("a speed is a number such as 1000: seconds of the log in one real second".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample's numbers were counted by another program in another language.
    #[test]
    fn the_sample_comes_to_what_is_known_of_it() {
        let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample.log");
        let (trace, contents) = trace::read(&sample).expect("the sample is in the repository");
        assert_eq!((contents.bad_lines, contents.clients, contents.out_of_order), (0, 8, 71));
        for (seconds, opened, reset) in [(15, 169, 71), (60, 82, 158)] {
            let keep_alive = Duration::from_secs(seconds);
            let counts = engine::run(&trace, keep_alive, None).expect("a run").counts;
            assert_eq!((counts.requests, counts.opened, counts.reset, counts.expired), (240, opened, reset, opened));
            assert_eq!(trace::exact(&trace, keep_alive), counts);
        }
    }
}
