//! The result of a replay.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::engine::Outcome;
use super::trace::{Contents, Counts};
use crate::duration::{exact, show_nanos};
use crate::number::grouped;

/// The whole result; its JSON is this, field by field.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) file: String,
    pub(super) keep_alive_s: f64,
    /// Of the real clock.
    pub(super) speed: Option<f64>,
    pub(super) contents: Contents,
    /// The engine's counts.
    pub(super) counts: Counts,
    /// The counts by sorting.
    pub(super) check_by_sorting: Counts,
    pub(super) agree: bool,
    /// Ran, or were gone, before their deadline.
    pub(super) early: u64,
    pub(super) lateness_p50_ns: u64,
    pub(super) lateness_p99_ns: u64,
    pub(super) lateness_max_ns: u64,
    pub(super) took_s: f64,
    /// Nothing is wrong. On the real clock, a difference the noise explains is not.
    pub(super) passed: bool,
}

impl Report {
    pub(super) fn new(
        file: &Path,
        keep_alive: Duration,
        speed: Option<f64>,
        contents: Contents,
        outcome: &Outcome,
        check_by_sorting: Counts,
    ) -> Self {
        let Outcome { counts, early, lateness, took } = outcome;
        let agree = *counts == check_by_sorting;
        let all_expired = counts.requests == check_by_sorting.requests
            && counts.opened + counts.reset == counts.requests
            && counts.expired == counts.opened;
        Self {
            file: file.display().to_string(),
            keep_alive_s: keep_alive.as_secs_f64(),
            speed,
            contents,
            counts: *counts,
            check_by_sorting,
            agree,
            early: *early,
            lateness_p50_ns: lateness.value_at_quantile(0.5),
            lateness_p99_ns: lateness.value_at_quantile(0.99),
            lateness_max_ns: lateness.max(),
            took_s: took.as_secs_f64(),
            passed: *early == 0 && (agree || speed.is_some() && all_expired),
        }
    }

    /// Prints the result, below what [`print_contents`] has said of the file.
    pub(super) fn print(&self) {
        println!("\n{}", sentence(self.counts));
        match self.agree {
            true => println!("check by sorting: agree"),
            false if self.speed.is_some() => println!("exact answer, by sorting: {}", sentence(self.check_by_sorting)),
            false => println!("check by sorting: DIFFER: {}", sentence(self.check_by_sorting)),
        }
        if self.speed.is_some() {
            println!(
                "lateness p50 {}, p99 {}, max {}; early {}; took {:.1} s",
                show_nanos(self.lateness_p50_ns),
                show_nanos(self.lateness_p99_ns),
                show_nanos(self.lateness_max_ns),
                self.early,
                self.took_s
            );
        }
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
        grouped(requests as u64),
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
            grouped(contents.out_of_order as u64)
        );
    }
}

/// Says how it will be replayed, and how long that takes at that speed.
pub(super) fn print_manner(keep_alive: Duration, real: Option<(f64, Duration)>) {
    let keep_alive = exact(keep_alive);
    match real {
        None => println!("keep-alive {keep_alive}, on a clock stepped by hand: exact"),
        Some((speed, takes)) => println!(
            "keep-alive {keep_alive}, on the real clock {speed} times as fast, with real workers: some {takes:.2?}, \
             without the time in which no connection is open\n  counts may differ a little from the exact ones, as \
             the log knows whole seconds"
        ),
    }
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
