//! W11: a server of sessions over UDP, as QUIC has them. Each datagram moves and cancels several
//! timers, and most replies are sent by one. The load comes from another process.
//!
//! `protocol` says which timers a session arms, and knows no system. `event_loop` serves all
//! sessions in one loop, with each timer of a session in `timers`; `tasks` has a task for each
//! session, and one timer in each (`session_timer`). Both run on one thread of Tokio, whatever the
//! timers are. `load` is the clients, and `control` the course of a run. `instructions` counts
//! under callgrind.

mod books;
mod control;
mod event_loop;
mod instructions;
mod load;
mod options;
mod plan;
mod protocol;
mod session_timer;
mod socket;
mod table;
mod tasks;
mod timers;
mod wire;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::runtime::Builder;

use super::names::Name;
use crate::compare::cases::{Amount, Metric, Work};
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::json_file;
use crate::verdict::Verdict;
use books::Counts;
use control::{Outcome, Stage};
pub(crate) use options::{LoadArgs, SessionsArgs};
use plan::{Length, Plan, Rate, Served};
use protocol::Protocol;
use session_timer::{NoTimer, PingoraTimer, SessionTimer};
use timers::Timers;

const SESSIONS: usize = 100_000;
const IDLE: Duration = Duration::from_secs(30);
const LENGTH: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_secs(1);
const CHAIN: u32 = 8;
const BYTES: usize = 64;

/// Measures a case of a system: the server in this process, the clients in another.
pub(in crate::compare) fn measure(name: Name, job: &Job) -> Result<Metrics> {
    let Work::Sessions { timers, tasks, amount } = job.case.work else { bail!("{} has no sessions", job.case.id) };
    if amount == Amount::Counted {
        return instructions::measure(name, timers, tasks, job.sizes);
    }
    let sessions = job.sizes.of(SESSIONS);
    let rate = match amount {
        Amount::Full => Rate::Full,
        _ => Rate::usual(sessions),
    };
    let plan = Plan {
        sessions,
        rate,
        under_way: sessions / 10,
        chain: CHAIN,
        bytes: BYTES,
        protocol: Protocol { timers, idle: IDLE },
        warm_up: job.time(WARM_UP),
        length: Length::Time(job.time(LENGTH)),
    };
    outcome(name, tasks, plan)?.metrics()
}

/// Measures what was asked for, and prints it.
pub(crate) fn run(args: &SessionsArgs) -> Result<Verdict> {
    json_file::check(args.json.as_deref())?;
    let metrics = outcome(args.system, args.tasks, args.plan())?.metrics()?;
    let value = |key: &str| metrics.get(key).unwrap_or(0.0);
    for Metric { key, heading, decimals, .. } in crate::compare::cases::SESSIONS {
        println!("{heading:<40} {:>14.decimals$}", value(key));
    }
    metrics.notes.iter().for_each(|note| println!("{note}"));
    if let Some(path) = &args.json {
        let values: std::collections::BTreeMap<_, _> = metrics.values.iter().copied().collect();
        json_file::write(path, &values)?;
    }
    Ok(Verdict::passed_if(value("early") == 0.0 && value("missing") == 0.0))
}

/// The clients, as a process of their own.
pub(crate) fn run_load(args: &LoadArgs) -> Result<Verdict> {
    let (server, plan) = args.plan();
    println!("{}", serde_json::to_string(&load::run(server, plan, std::io::stdin())?)?);
    Ok(Verdict::Passed)
}

fn outcome(name: Name, tasks: bool, plan: Plan) -> Result<Outcome> {
    pingora_timeout::fast_timeout::set_fast_timeout_to_tokio_threshold(None);
    match (tasks, name) {
        (false, Name::TourbillonDriven) => in_loop::<timers::driven::Driven>(plan),
        (false, Name::TourbillonInline) => in_loop::<timers::worker::Worker>(plan),
        (false, Name::Tokio) => in_loop::<timers::tokio_sleeps::Sleeps>(plan),
        (false, Name::DelayQueue) => in_loop::<timers::delay_queue::Queue>(plan),
        (false, Name::Pingora) => in_loop::<timers::pingora::Timeouts>(plan),
        (false, Name::NoTimers) => in_loop::<timers::bare::Bare>(plan),
        (true, Name::TourbillonFuture) => in_tasks::<tourbillon::Sleep>(plan),
        (true, Name::Tokio) => in_tasks::<tokio::time::Sleep>(plan),
        (true, Name::Pingora) => in_tasks::<PingoraTimer>(plan),
        (true, Name::NoTimers) => {
            let protocol = Protocol { timers: 0, ..plan.protocol };
            in_tasks::<NoTimer>(Plan { protocol, ..plan })
        }
        _ => bail!("{name} has no server of this kind; see sessions --help"),
    }
}

fn in_loop<T: Timers>(plan: Plan) -> Result<Outcome> {
    on_a_runtime(T::OF_TOKIO, plan, |stage| event_loop::serve::<T>(stage, plan))
}

fn in_tasks<S: SessionTimer>(plan: Plan) -> Result<Outcome> {
    on_a_runtime(S::OF_TOKIO, plan, |stage| tasks::serve::<S>(stage, plan))
}

/// Runs a server as a task of a runtime that has this thread only.
fn on_a_runtime<F>(with_time: bool, plan: Plan, serve: impl FnOnce(Stage) -> F) -> Result<Outcome>
where
    F: Future<Output = Result<Served>> + Send + 'static,
{
    let mut builder = Builder::new_current_thread();
    builder.enable_io();
    if with_time {
        builder.enable_time();
    }
    let runtime = builder.build().context("no tokio runtime")?;
    control::run(plan, |stage| {
        let server = runtime.spawn(serve(stage));
        runtime.block_on(server).context("the server has panicked")?
    })
}

impl Outcome {
    fn metrics(&self) -> Result<Metrics> {
        let Self { served: Served { books, left, refused }, seen, cpu_s, seconds } = self;
        let Counts { requests, duplicates, operations, stale, resent, rounds, .. } = books.measured();
        let all = books.now;
        let each = |count: f64| count / requests.max(1) as f64;
        let mut metrics = Metrics::of([
            ("rate", requests as f64 / seconds),
            ("cpu_ns", each(cpu_s * 1e9)),
            ("p50_ms", books.late_ms(0.5)),
            ("p99_ms", books.late_ms(0.99)),
            ("p999_ms", books.late_ms(0.999)),
            ("max_ms", books.late_ms(1.0)),
            ("operations", each(operations as f64)),
            ("batch", requests as f64 / rounds.max(1) as f64),
            ("early", all.early as f64),
            ("missing", (books.missing()? + seen.unanswered + seen.wrong) as f64),
            ("lost", seen.lost as f64),
            ("resent", resent as f64),
            ("closed", all.closed as f64),
        ]);
        metrics.notes = vec![
            format!(
                "server: {} requests and {} replies in all, {left} sessions left, {refused} datagrams refused",
                all.requests, all.replies
            ),
            format!("measured: {duplicates} duplicates, {stale} timers that had been cancelled or moved came up"),
            format!(
                "clients: {} requests, {} replies, {} once more; {:.0} % of a core",
                seen.requests,
                seen.replies,
                seen.again,
                100.0 * seen.cpu_s / seen.seconds.max(1e-9)
            ),
        ];
        Ok(metrics)
    }
}
