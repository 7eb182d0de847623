//! The result of a replay.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::trace::{Contents, Counts, Trace};
use super::wall_run::Outcome;
use crate::duration::{exact, show, show_nanos};
use crate::number::{grouped, grouped_len};

/// The whole result; its JSON is this, field by field.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) file: String,
    pub(super) keep_alive_s: f64,
    pub(super) contents: Contents,
    /// What the engine came to.
    pub(super) counts: Counts,
    /// What sorting came to.
    pub(super) check_by_sorting: Counts,
    pub(super) agree: bool,
    pub(super) real_clock: Option<RealClock>,
    /// Nothing is wrong. On the real clock, a difference the noise explains is not.
    pub(super) passed: bool,
}

/// What is known besides when the clock is the real one.
#[derive(Debug, Serialize)]
pub(super) struct RealClock {
    pub(super) speed: f64,
    pub(super) took_s: f64,
    pub(super) skipped_log_time_s: f64,
    /// Requests that found it expired, and by the log should not have.
    pub(super) opened_instead_of_reset: u64,
    /// Requests that found it alive, and by the log should not have.
    pub(super) reset_instead_of_opened: u64,
    /// Of them: came exactly at the deadline.
    pub(super) ties: u64,
    /// Ran, or were gone, before their deadline.
    pub(super) early: u64,
    pub(super) lateness_p50_ns: u64,
    pub(super) lateness_p99_ns: u64,
    pub(super) lateness_max_ns: u64,
}

impl RealClock {
    pub(super) fn new(trace: &Trace, keep_alive: Duration, speed: f64, opens: &[bool], outcome: &Outcome) -> Self {
        let mut this = Self {
            speed,
            took_s: outcome.took.as_secs_f64(),
            skipped_log_time_s: outcome.skipped.as_secs_f64(),
            opened_instead_of_reset: 0,
            reset_instead_of_opened: 0,
            ties: 0,
            early: outcome.seen.early + outcome.gone_early,
            lateness_p50_ns: outcome.seen.lateness.value_at_quantile(0.5),
            lateness_p99_ns: outcome.seen.lateness.value_at_quantile(0.99),
            lateness_max_ns: outcome.seen.lateness.max(),
        };
        let mut before = vec![None; trace.clients as usize];
        for ((request, &exact), &real) in trace.requests.iter().zip(opens).zip(&outcome.opens) {
            let last: Option<Duration> = before[request.client as usize].replace(request.at);
            match (exact, real) {
                (false, true) => this.opened_instead_of_reset += 1,
                (true, false) => {
                    this.reset_instead_of_opened += 1;
                    this.ties += u64::from(last.is_some_and(|last| request.at - last == keep_alive));
                }
                _ => {}
            }
        }
        this
    }
}

impl Report {
    pub(super) fn new(
        file: &Path,
        keep_alive: Duration,
        contents: Contents,
        counts: Counts,
        check_by_sorting: Counts,
        real_clock: Option<RealClock>,
    ) -> Self {
        let agree = counts == check_by_sorting;
        let passed = match &real_clock {
            None => agree,
            Some(real) => {
                real.early == 0
                    && counts.requests == check_by_sorting.requests
                    && counts.opened + counts.reset == counts.requests
                    && counts.expired == counts.opened
            }
        };
        Self {
            file: file.display().to_string(),
            keep_alive_s: keep_alive.as_secs_f64(),
            contents,
            counts,
            check_by_sorting,
            agree,
            real_clock,
            passed,
        }
    }

    /// Prints the result, below what [`print_contents`] has said of the file.
    pub(super) fn print(&self) {
        let Some(real) = &self.real_clock else {
            println!("\n{}", sentence(self.counts));
            match self.agree {
                true => println!("check by sorting: agree"),
                false => println!("check by sorting: DIFFER: {}", sentence(self.check_by_sorting)),
            }
            return;
        };
        println!("\nreal clock    {}", sentence(self.counts));
        println!("exact answer  {}", sentence(self.check_by_sorting));
        println!(
            "{} requests came at their deadline or just after it, and were there before it had expired ({} of them \
             exactly at it); {} should have come just before it, and came after it",
            grouped(real.reset_instead_of_opened),
            grouped(real.ties),
            grouped(real.opened_instead_of_reset),
        );
        println!(
            "lateness p50 {}, p99 {}, max {}; early {}; took {:.1} s",
            show_nanos(real.lateness_p50_ns),
            show_nanos(real.lateness_p99_ns),
            show_nanos(real.lateness_max_ns),
            real.early,
            real.took_s
        );
        if !self.passed {
            println!("FAILED: every connection opened must expire, once, and none before its deadline");
        }
    }
}

/// Says what was in the file.
pub(super) fn print_contents(file: &Path, contents: &Contents, requests: usize) {
    println!(
        "{}: {} lines, {} requests by {} clients, {} to {}",
        file.display(),
        grouped(contents.lines),
        grouped_len(requests),
        grouped(u64::from(contents.clients)),
        contents.from.as_deref().unwrap_or("never"),
        contents.to.as_deref().unwrap_or("never"),
    );
    if contents.bad_lines > 0 {
        println!(
            "  {} lines are no log lines and were left out; the first are {:?}",
            grouped(contents.bad_lines),
            contents.first_bad_lines
        );
    }
    if contents.out_of_order > 0 {
        println!(
            "  {} requests stand after a later one in the file: sorted by time; those of one second stay in the \
             file's order",
            grouped_len(contents.out_of_order)
        );
    }
}

/// Says how it will be replayed.
pub(super) fn print_manner(keep_alive: Duration, speed: Option<(f64, Duration, Duration)>) {
    let Some((speed, real, skipped)) = speed else {
        println!("keep-alive {}, on a clock stepped by hand: exact", exact(keep_alive));
        return;
    };
    println!(
        "keep-alive {}, on the real clock {} times as fast, with real workers: some {}; left out: {} in which no \
         connection is open\n  counts may differ a little from the exact ones, as the log knows whole seconds, {} \
         each here",
        exact(keep_alive),
        speed,
        show(real),
        show(skipped.div_f64(speed)),
        show(Duration::from_secs(1).div_f64(speed))
    );
}

fn sentence(counts: Counts) -> String {
    format!(
        "{} requests, {} opened, {} reset, {} expired",
        grouped(counts.requests),
        grouped(counts.opened),
        grouped(counts.reset),
        grouped(counts.expired)
    )
}
