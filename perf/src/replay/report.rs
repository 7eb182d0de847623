//! The result of a replay.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::count::Counts;
use super::trace::{Contents, Trace};
use super::wall_run::{Outcome, Speed};
use crate::duration::{exact, show, show_nanos};
use crate::number::{grouped, grouped_len};

/// The whole result; its JSON is this, field by field.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) file: String,
    pub(crate) keep_alive_s: f64,
    pub(crate) contents: Contents,
    /// What the engine came to.
    pub(crate) counts: Counts,
    /// What sorting came to.
    pub(crate) check_by_sorting: Counts,
    pub(crate) agree: bool,
    pub(crate) real_clock: Option<RealClock>,
    /// Nothing is wrong. On the real clock, a difference the noise explains is not.
    pub(crate) passed: bool,
}

/// What is known besides when the clock is the real one.
#[derive(Debug, Serialize)]
pub(crate) struct RealClock {
    pub(crate) speed: f64,
    pub(crate) took_s: f64,
    pub(crate) skipped_log_time_s: f64,
    /// Requests that found it expired, and by the log should not have.
    pub(crate) opened_instead_of_reset: u64,
    /// Requests that found it alive, and by the log should not have.
    pub(crate) reset_instead_of_opened: u64,
    /// Of them: came exactly at the deadline.
    pub(crate) ties: u64,
    pub(crate) latest_request_ns: u64,
    pub(crate) gone_early: u64,
    pub(crate) early: u64,
    pub(crate) lateness_p50_ns: u64,
    pub(crate) lateness_p99_ns: u64,
    pub(crate) lateness_max_ns: u64,
}

impl RealClock {
    pub(crate) fn new(trace: &Trace, keep_alive: Duration, speed: Speed, opens: &[bool], outcome: &Outcome) -> Self {
        let mut this = Self {
            speed: speed.factor,
            took_s: outcome.took.as_secs_f64(),
            skipped_log_time_s: outcome.skipped.as_secs_f64(),
            opened_instead_of_reset: 0,
            reset_instead_of_opened: 0,
            ties: 0,
            latest_request_ns: crate::duration::nanos(outcome.latest_request),
            gone_early: outcome.gone_early,
            early: outcome.early,
            lateness_p50_ns: outcome.lateness.value_at_quantile(0.5),
            lateness_p99_ns: outcome.lateness.value_at_quantile(0.99),
            lateness_max_ns: outcome.lateness.max(),
        };
        let mut before = vec![None; trace.clients as usize];
        for ((request, &exact), &real) in trace.requests.iter().zip(opens).zip(&outcome.opens) {
            let last: Option<Duration> = before[request.client as usize].replace(request.at);
            match (exact, real) {
                (false, true) => this.opened_instead_of_reset += 1,
                (true, false) => {
                    this.reset_instead_of_opened += 1;
                    let tie = last.is_some_and(|last| request.at - last == keep_alive);
                    this.ties += u64::from(tie);
                }
                _ => {}
            }
        }
        this
    }

    /// Nothing ran, or was gone, before its deadline.
    fn keeps_the_promise(&self) -> bool {
        self.early == 0 && self.gone_early == 0
    }
}

impl Report {
    pub(crate) fn new(
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
                real.keeps_the_promise()
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
    pub(crate) fn print(&self) {
        if let Some(real) = &self.real_clock {
            return self.print_real(real);
        }
        println!("\n{}", sentence(self.counts));
        match self.agree {
            true => println!("check by sorting: agree"),
            false => println!("check by sorting: DIFFER: {}", sentence(self.check_by_sorting)),
        }
    }

    fn print_real(&self, real: &RealClock) {
        println!("\nreal clock    {}", sentence(self.counts));
        println!("exact answer  {}", sentence(self.check_by_sorting));
        if self.counts == self.check_by_sorting && real.opened_instead_of_reset + real.reset_instead_of_opened == 0 {
            println!("check by sorting: agree, request by request");
        } else {
            println!("check by sorting: differ, as it may on the real clock:");
            println!(
                "  {} requests came at their deadline or just after it, and were there before it \
                 had expired ({} of them exactly at it)",
                grouped(real.reset_instead_of_opened),
                grouped(real.ties)
            );
            println!(
                "  {} requests should have come just before their deadline, and came after it{}",
                grouped(real.opened_instead_of_reset),
                match real.latest_request_ns {
                    0 => String::new(),
                    ns => format!(": this program was up to {} late", show_nanos(ns)),
                }
            );
        }
        println!(
            "lateness p50 {}, p99 {}, max {}; early {}; took {:.1} s",
            show_nanos(real.lateness_p50_ns),
            show_nanos(real.lateness_p99_ns),
            show_nanos(real.lateness_max_ns),
            real.early + real.gone_early,
            real.took_s
        );
        if !real.keeps_the_promise() {
            println!("FAILED: {} expired before their deadline", real.early + real.gone_early);
        } else if !self.passed {
            println!("FAILED: every connection opened must expire, once");
        }
    }
}

/// Says what was in the file.
pub(crate) fn print_contents(file: &Path, contents: &Contents, requests: usize) {
    println!(
        "{}: {} lines, {} requests by {} clients{}",
        file.display(),
        grouped(contents.lines),
        grouped_len(requests),
        grouped(u64::from(contents.clients)),
        match (&contents.from, &contents.to) {
            (Some(from), Some(to)) => format!(", {from} to {to}"),
            _ => String::new(),
        }
    );
    if contents.bad_lines > 0 {
        println!("  {} lines are no log lines and were left out:", grouped(contents.bad_lines));
        for bad in &contents.first_bad_lines {
            println!("    line {}: {}", bad.line, bad.why);
        }
        let more = contents.bad_lines - contents.first_bad_lines.len() as u64;
        if more > 0 {
            println!("    and {} more", grouped(more));
        }
    }
    if let Some(first) = contents.first_cut_off {
        println!(
            "  {} with all fields that are needed but an end that was cut off (the first is line \
             {first}): taken",
            match contents.cut_off {
                1 => "1 line".to_owned(),
                n => format!("{} lines", grouped(n)),
            }
        );
    }
    if contents.out_of_order > 0 {
        println!(
            "  {} requests stand after a later one in the file: sorted by time; those of one second \
             stay in the file's order",
            grouped_len(contents.out_of_order)
        );
    }
}

/// Says how it will be replayed.
pub(crate) fn print_manner(keep_alive: Duration, speed: Option<(Speed, Duration, Duration)>) {
    let Some((speed, real, skipped)) = speed else {
        println!("keep-alive {}, on a clock stepped by hand: exact", exact(keep_alive));
        return;
    };
    println!(
        "keep-alive {}, on the real clock {} times as fast, with real workers: some {}",
        exact(keep_alive),
        speed.factor,
        show(real)
    );
    if !skipped.is_zero() {
        println!(
            "  left out: {} of real time in which no connection is open (--with-gaps waits \
             through them)",
            show(skipped.div_f64(speed.factor))
        );
    }
    println!(
        "  counts may differ a little from the exact ones: the log knows whole seconds, {} each \
         here, so a request within this machine's noise of its deadline may find it on either side",
        show(Duration::from_secs(1).div_f64(speed.factor))
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
