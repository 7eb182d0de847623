//! The result of the run: every number once, and which of them decide whether it passed.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::counters::{Closing, Line};
use super::fd_limit::Plan;
use super::options::{ConnectionsArgs, Pace};
use super::outcome::{ClientsOutcome, ServerOutcome};
use super::population::ProducerOutcome;
use super::timed::Timed;
use crate::process::{self, CpuByThread, CpuTime};

/// What was measured from outside while the load ran.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) plan: Plan,
    pub(crate) pace: Pace,
    pub(crate) load_s: f64,
    pub(crate) cpu: CpuTime,
    pub(crate) threads: Option<CpuByThread>,
    pub(crate) wakeups: u64,
    pub(crate) pinned_to: Vec<Option<usize>>,
    pub(crate) built_pending: usize,
    pub(crate) pending_at_end: usize,
    pub(crate) bytes_per_pending: Option<f64>,
}

/// The whole result; its JSON is this, field by field.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Every check held.
    pub(crate) passed: bool,
    /// The checks that did not.
    pub(crate) failures: Vec<String>,
    pub(crate) setup: Setup,
    pub(crate) connections: Connections,
    pub(crate) operations: Vec<Operation>,
    pub(crate) lateness: Vec<Lateness>,
    pub(crate) cost: Cost,
    pub(crate) reaping: Vec<Check>,
    // Under the name that readers of the JSON know.
    #[serde(rename = "books")]
    pub(crate) counters: Vec<Line>,
}

/// What was asked for.
#[derive(Debug, Serialize)]
pub(crate) struct Setup {
    pub(crate) connections: usize,
    pub(crate) why: String,
    pub(crate) idle_timeout_s: f64,
    pub(crate) request_timeout_s: f64,
    pub(crate) timeouts: usize,
    pub(crate) new_per_second: usize,
    pub(crate) resets_per_second: usize,
    pub(crate) duration_s: f64,
    pub(crate) seed: u64,
    pub(crate) cores: usize,
}

/// What happened on the sockets.
#[derive(Debug, Serialize)]
pub(crate) struct Connections {
    pub(crate) opened: u64,
    pub(crate) requests: u64,
    pub(crate) answered: u64,
    /// Requests whose deadline passed before the work was done.
    pub(crate) deadline_passed: u64,
    pub(crate) went_silent: u64,
    pub(crate) reaped: u64,
    /// The idle timeout fired while a message lay unread in the socket: the server kept them.
    pub(crate) rescued: u64,
    /// It fired while a request was being worked on: kept too.
    pub(crate) kept_at_work: u64,
    /// Clients that spoke too late by their own record and were rightly reaped: a busy machine.
    pub(crate) late_themselves: u64,
}

/// One kind of operation on the engine.
#[derive(Debug, Serialize)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) operations: u64,
    /// While the load ran.
    pub(crate) per_second: Option<f64>,
    /// As the caller saw it, on average; `None` where operations stand alone between system calls.
    pub(crate) ns_per_op: Option<f64>,
    /// Half of the operations were in loops that took less per operation.
    pub(crate) ns_per_op_median_loop: Option<f64>,
}

/// How late tasks ran after their deadline.
#[derive(Debug, Serialize)]
pub(crate) struct Lateness {
    pub(crate) of: &'static str,
    pub(crate) fired: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    pub(crate) max_ns: u64,
}

/// What it took.
#[derive(Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) load_s: f64,
    pub(crate) cpu: CpuTime,
    /// CPU time over the time all cores had.
    pub(crate) cpu_share_of_machine: f64,
    pub(crate) cpu_by_thread: Option<CpuByThread>,
    pub(crate) built_pending: usize,
    pub(crate) pending_at_end_of_load: usize,
    pub(crate) resident_bytes_per_pending: Option<f64>,
    pub(crate) worker_wakeups: u64,
    pub(crate) shards_pinned_to: Vec<Option<usize>>,
}

/// A count that must be what it should be.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) what: &'static str,
    pub(crate) count: u64,
    pub(crate) must_be: u64,
    pub(crate) holds: bool,
}

impl Report {
    pub(crate) fn new(
        args: &ConnectionsArgs,
        measured: &Measured,
        produced: &ProducerOutcome,
        server: &ServerOutcome,
        clients: &ClientsOutcome,
        closing: &Closing,
    ) -> Self {
        let reaping = reaping(measured.plan.connections as u64, server, clients);
        let counters = closing.reconcile();
        let failures: Vec<String> = reaping
            .iter()
            .filter(|check| !check.holds)
            .map(|c| format!("{}: {}, and must be {}", c.what, c.count, c.must_be))
            .chain(clients.closed_why.iter().map(|why| format!("  as the client saw it: {why}")))
            .chain(server.broken.iter().map(|why| format!("  as the server saw it: {why}")))
            .chain(counters.iter().filter(|line| !line.holds).map(ToString::to_string))
            .collect();
        Self {
            passed: failures.is_empty(),
            failures,
            setup: Setup {
                connections: measured.plan.connections,
                why: measured.plan.to_string(),
                idle_timeout_s: measured.pace.idle_timeout.as_secs_f64(),
                request_timeout_s: args.request_timeout.as_secs_f64(),
                timeouts: args.timeouts,
                new_per_second: args.rate,
                resets_per_second: args.resets,
                duration_s: args.duration.as_secs_f64(),
                seed: args.seed,
                cores: process::cores(),
            },
            connections: Connections {
                opened: clients.opened,
                requests: server.requests,
                answered: server.answered,
                deadline_passed: server.answered_late,
                went_silent: clients.went_silent,
                reaped: server.reaped,
                rescued: server.rescued,
                kept_at_work: server.kept_at_work,
                late_themselves: clients.late_themselves,
            },
            operations: operations(measured.load_s, produced, server, clients),
            lateness: vec![
                lateness("timeouts without sockets", &closing.tasks.population),
                lateness("connections and requests", &closing.tasks.sockets),
            ],
            cost: cost(measured),
            reaping,
            counters,
        }
    }
}

fn reaping(connections: u64, server: &ServerOutcome, clients: &ClientsOutcome) -> Vec<Check> {
    let check = |what, count, must_be| Check { what, count, must_be, holds: count == must_be };
    let accounted = clients.silent_reaped + clients.wrongly_reaped + clients.late_themselves;
    vec![
        check("connections opened", clients.opened, connections),
        check("connections accepted", server.accepted, clients.opened),
        check("silent clients reaped", clients.silent_reaped, clients.went_silent),
        check("silent clients forgotten", clients.silent_not_reaped, 0),
        check("reaped early", server.reaped_early, 0),
        check("reaped though they had spoken in time", clients.wrongly_reaped, 0),
        check("closed without a reason", clients.closed_without_reason, 0),
        check("reaped, as the clients saw it", accounted, server.reaped),
        check("connections left open by the server", server.left_open, 0),
    ]
}

fn operations(
    load_s: f64,
    produced: &ProducerOutcome,
    server: &ServerOutcome,
    clients: &ClientsOutcome,
) -> Vec<Operation> {
    let mut on_sockets = server.accounts;
    on_sockets += clients.accounts;
    let on_sockets = on_sockets.total();
    let timed = |name, timed: &Timed| Operation {
        name,
        operations: timed.operations,
        per_second: Some(timed.operations as f64 / load_s),
        ns_per_op: timed.mean(),
        ns_per_op_median_loop: timed.median(),
    };
    let counted = |name, operations| Operation {
        name,
        operations,
        per_second: None,
        ns_per_op: None,
        ns_per_op_median_loop: None,
    };
    let building = timed("schedule, building the population", &produced.build);
    vec![
        Operation { per_second: None, ..building },
        timed("schedule", &produced.schedule),
        timed("schedule_at", &produced.schedule_at),
        timed("reset", &produced.reset),
        timed("cancel", &produced.cancel),
        counted("schedule, by connections", on_sockets.scheduled),
        counted("reset, by connections", on_sockets.reset + on_sockets.reset_too_late),
        counted("cancel, by connections", on_sockets.cancelled + on_sockets.cancelled_too_late),
    ]
}

fn lateness(of: &'static str, histogram: &Histogram<u64>) -> Lateness {
    Lateness {
        of,
        fired: histogram.len(),
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: histogram.value_at_quantile(0.99),
        p999_ns: histogram.value_at_quantile(0.999),
        max_ns: histogram.max(),
    }
}

fn cost(measured: &Measured) -> Cost {
    Cost {
        load_s: measured.load_s,
        cpu: measured.cpu,
        cpu_share_of_machine: measured.cpu.total_s() / (measured.load_s * process::cores() as f64).max(1e-9),
        cpu_by_thread: measured.threads,
        built_pending: measured.built_pending,
        pending_at_end_of_load: measured.pending_at_end,
        resident_bytes_per_pending: measured.bytes_per_pending,
        worker_wakeups: measured.wakeups,
        shards_pinned_to: measured.pinned_to.clone(),
    }
}
