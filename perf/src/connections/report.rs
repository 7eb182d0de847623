//! The result of the run: every number once, and which of them decide whether it passed.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;
use testkit::counters::{Counts, reconcile};
use tourbillon::Stats;

use super::clients::ClientsOutcome;
use super::population::Produced;
use super::recorder::{Kind, Page};
use super::server::ServerOutcome;
use crate::duration::show_nanos;
use crate::number::{grouped, grouped_f64};
use crate::text_table;

/// All that is known when the engine has been shut down.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) produced: Produced,
    pub(super) server: ServerOutcome,
    pub(super) clients: ClientsOutcome,
    /// The tasks' record.
    pub(super) tasks: Page,
    /// Timeouts without sockets that this program holds for pending.
    pub(super) armed: u64,
    /// Tasks that ran after shutdown had returned.
    pub(super) after_shutdown: u64,
    /// Timeouts that shutdown handed back.
    pub(super) handed_back: u64,
    /// The engine's own counts after the shutdown.
    pub(super) stats: Stats,
}

/// The whole result; its JSON is this, field by field.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Every check held.
    pub(super) passed: bool,
    pub(super) checks: Vec<Check>,
    /// The two ends' reports of connections that broke.
    pub(super) broken: Vec<String>,
    pub(super) connections: BTreeMap<&'static str, u64>,
    /// On timeouts without sockets.
    pub(super) operations: BTreeMap<&'static str, u64>,
    pub(super) lateness: Vec<Lateness>,
    /// Processor time, memory and the like, while the load ran.
    pub(super) cost: BTreeMap<&'static str, f64>,
}

/// A count of this program's, and what it must be.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) what: String,
    pub(super) count: u64,
    pub(super) must_be: u64,
}

/// How late tasks ran after their deadline.
#[derive(Debug, Serialize)]
pub(super) struct Lateness {
    pub(super) of: &'static str,
    pub(super) fired: u64,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
}

impl Closing {
    /// Returns the counts that must be what they should be.
    pub(super) fn checks(&self) -> Vec<Check> {
        let Self { produced, server, clients, tasks, .. } = self;
        let check = |what: &str, count, must_be| Check { what: what.to_owned(), count, must_be };
        let mut ours = produced.counts;
        ours += server.counts;
        ours += clients.counts;
        ours.fired = tasks.fired_in_all();
        let open = (ours.scheduled - ours.cancelled).saturating_sub(ours.fired);
        ours.returned = open;
        let against = ours.against(&Counts::of(&self.stats));
        let mut checks: Vec<_> = against.iter().map(|one| check(one.what, one.here, one.there)).collect();
        let whole = reconcile(&self.stats);
        let why = whole.as_ref().err().map_or(String::new(), |why| format!(" ({why})"));
        checks.extend([
            check("pending without sockets, and at shutdown no more", self.armed, self.handed_back.min(self.armed)),
            check("handed back by shutdown", self.handed_back, open),
            check(&format!("engine's counters that do not add up{why}"), u64::from(whole.is_err()), 0),
            check("refused", ours.rejected, 0),
            check("early", tasks.early, 0),
            check("run twice", tasks.twice, 0),
            check("run after cancel", tasks.after_cancel + produced.cancelled_but_ran, 0),
            check("run after shutdown", self.after_shutdown, 0),
            check("silent clients that were not reaped", clients.silent_not_reaped, 0),
            check("reaped before the idle timeout", server.reaped_early, 0),
            check("closed by the server without a word", clients.closed_why.len() as u64, 0),
            check("broken, as the server saw it", server.broken.len() as u64, 0),
        ]);
        checks
    }
}

impl Report {
    pub(super) fn new(closing: &Closing, cost: BTreeMap<&'static str, f64>) -> Self {
        let Closing { produced, server, clients, tasks, .. } = closing;
        let checks = closing.checks();
        let lateness = |(of, late): (&'static str, &Histogram<u64>)| Lateness {
            of,
            fired: late.len(),
            p50_ns: late.value_at_quantile(0.5),
            p99_ns: late.value_at_quantile(0.99),
            p999_ns: late.value_at_quantile(0.999),
            max_ns: late.max(),
        };
        Self {
            passed: checks.iter().all(Check::holds),
            checks,
            broken: clients.closed_why.iter().chain(&server.broken).cloned().collect(),
            connections: BTreeMap::from([
                ("opened", clients.opened),
                ("requests", server.requests),
                ("answered in time", server.answered),
                ("answered after the deadline", server.answered_late),
                ("clients that went silent", clients.went_silent),
                ("reaped", server.reaped),
                ("kept, a message lay unread", server.rescued),
                ("kept, a request was at work", server.kept_at_work),
                ("reaped, spoke too late themselves", clients.late_themselves),
            ]),
            operations: BTreeMap::from([
                ("scheduled", produced.counts.scheduled),
                ("reset", produced.counts.reset),
                ("cancelled", produced.counts.cancelled),
                ("fired", tasks.fired[Kind::Population as usize]),
            ]),
            lateness: ["without sockets", "of connections and requests"]
                .into_iter()
                .zip(&tasks.lateness_ns)
                .map(lateness)
                .collect(),
            cost,
        }
    }

    pub(super) fn print(&self) {
        for (header, counts) in [("connections", &self.connections), ("timeouts without sockets", &self.operations)] {
            let row = |(what, count): (&&str, &u64)| [(*what).to_owned(), grouped(*count)];
            text_table::print(&[header, ""], counts.iter().map(row), 1);
        }
        let lateness = |one: &Lateness| {
            let mut row = vec![one.of.to_owned(), grouped(one.fired)];
            row.extend([one.p50_ns, one.p99_ns, one.p999_ns, one.max_ns].map(show_nanos));
            row
        };
        let header = ["lateness", "fired", "p50", "p99", "p99.9", "max"];
        text_table::print(&header, self.lateness.iter().map(lateness), 1);
        let cost = self.cost.iter().map(|(what, value)| [(*what).to_owned(), number(*value)]);
        text_table::print(&["cost", ""], cost, 1);
        let check = |one: &Check| {
            let mark = if one.holds() { "ok" } else { "WRONG" };
            [one.what.clone(), grouped(one.count), grouped(one.must_be), mark.to_owned()]
        };
        text_table::print(&["check", "this program", "must be", ""], self.checks.iter().map(check), 1);
        for wrong in self.checks.iter().filter(|check| !check.holds()) {
            println!("FAILED: {}: {}, and must be {}", wrong.what, wrong.count, wrong.must_be);
        }
        self.broken.iter().take(20).for_each(|why| println!("  {why}"));
        if self.passed {
            println!("All checks hold: {} of them.", self.checks.len());
        }
    }
}

impl Check {
    pub(super) fn holds(&self) -> bool {
        self.count == self.must_be
    }
}

fn number(value: f64) -> String {
    if value < 1_000.0 { format!("{value:.2}") } else { grouped_f64(value) }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::Recorder;
    use super::*;
    use std::time::{Duration, Instant};
    use tourbillon::{ManualClock, Timer};

    /// The counts of a small engine: one timeout fired, one cancelled, one left, one reset.
    fn closing() -> Closing {
        let clock = ManualClock::new();
        let (timer, mut driver) = Timer::builder().clock(clock.clone()).build_driven().expect("the defaults");
        let (recorder, delay) = (Recorder::new(), Duration::from_secs(1));
        let (mut server, mut produced) = (ServerOutcome::default(), Produced::default());
        let fires = timer.schedule(delay, || ()).expect("room");
        let _left = timer.schedule(delay * 9, || ()).expect("room");
        let cancelled = timer.schedule(delay, || ()).expect("room");
        server.counts.scheduled = 1;
        server.counts.reset = u64::from(fires.reset(delay * 2));
        produced.counts.scheduled = 2;
        produced.counts.cancelled = u64::from(cancelled.cancel());
        clock.advance(delay * 3);
        while driver.turn() > 0 {}
        recorder.fired(Kind::Socket, Instant::now(), Instant::now());
        let handed_back = timer.shutdown().expect("the first").len() as u64;
        let (clients, tasks, stats) = (ClientsOutcome::default(), recorder.sum(), timer.stats());
        Closing { produced, server, clients, tasks, armed: 1, after_shutdown: 0, handed_back, stats }
    }

    #[test]
    fn right_counters_reconcile() {
        for check in closing().checks() {
            assert!(check.holds(), "{check:?}");
        }
    }

    #[test]
    fn wrong_counters_are_named() {
        let mut closing = closing();
        closing.produced.counts.cancelled += 1;
        closing.tasks.early = 3;
        closing.clients.silent_not_reaped = 1;
        let wrong: Vec<_> =
            closing.checks().into_iter().filter(|check| !check.holds()).map(|check| check.what).collect();
        let names =
            ["cancelled", "returned", "handed back by shutdown", "early", "silent clients that were not reaped"];
        assert_eq!(wrong, names);
    }
}
