//! W11: a server of sessions over UDP, as QUIC has them. Each datagram moves and cancels several
//! timers, and most replies are sent by one. The load comes from another process.
//!
//! `protocol` says which timers a session arms, and knows no system. `event_loop` serves all
//! sessions in one loop, with each timer of a session in `timers`; `tasks` has a task for each
//! session, and one timer in each. Both run on one thread of Tokio, whatever the timers are. `load`
//! is the clients, and `control` the course of a run.

mod books;
mod control;
mod event_loop;
mod load;
mod protocol;
mod socket;
mod tasks;
mod timers;

use std::net::SocketAddrV4;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

use super::names::Name;
use crate::compare::cases::{Amount, Work};
use crate::compare::child::Metrics;
use crate::compare::job::Job;
use crate::compare::workloads::quantiles_ms;
use crate::valgrind;
use books::Books;
use control::{Outcome, Stage};
use protocol::Protocol;
use tasks::SessionTimer;
use timers::Timers;

const IDLE: Duration = Duration::from_secs(30);
const LENGTH: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_secs(1);
const CHAIN: u32 = 8;
/// Each of so many sessions has its turn within 20 s, as [`CHAIN`] requests follow each other.
const REQUESTS_A_SESSION: f64 = 0.4;
/// Requests of a short run and of a long one, under callgrind.
const COUNTED: [usize; 2] = [20_000, 120_000];

/// When the load ends.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Until {
    Time(Duration),
    /// So many have been answered, of all sessions together.
    Requests(usize),
}

/// A run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Plan {
    sessions: usize,
    /// Requests a second, as long as the server keeps up; `None`: as fast as it answers.
    rate: Option<f64>,
    /// So many sessions have a request under way at any time, at most: a server that does not keep
    /// up is not buried.
    under_way: usize,
    /// Requests of a session, one after the other, before it rests and another has its turn.
    chain: u32,
    protocol: Protocol,
    warm_up: Duration,
    until: Until,
}

/// The server's account of a run.
#[derive(Debug)]
struct Served {
    books: Books,
    /// Sessions that are there still.
    left: usize,
    /// Datagrams that the kernel did not take.
    refused: u64,
}

/// Measures a case of a system: the server in this process, the clients in another.
pub(in crate::compare) fn measure(name: Name, job: &Job) -> Result<Metrics> {
    let Work::Sessions { timers, tasks, amount } = job.case.work else { bail!("{} has no sessions", job.case.id) };
    let sessions = job.timeouts();
    let plan = Plan {
        sessions,
        rate: (amount == Amount::Fixed).then_some(REQUESTS_A_SESSION * sessions as f64),
        under_way: (sessions / 10).max(1),
        chain: CHAIN,
        protocol: Protocol { timers, idle: IDLE },
        warm_up: job.time(WARM_UP),
        until: Until::Time(job.time(LENGTH)),
    };
    if amount != Amount::Counted {
        return outcome(name, tasks, plan)?.metrics();
    }
    // The difference of a long run and a short one is the instructions of the additional requests.
    let [short, long] = COUNTED.map(|requests| job.scaled(requests).max(100));
    let run = |requests: usize| {
        count(name, tasks, Plan { warm_up: Duration::ZERO, until: Until::Requests(requests), ..plan })
    };
    let ((few, _), (many, batch)) = (run(short)?, run(long)?);
    ensure!(many > few, "{long} requests took {many} instructions, and {short} took {few}");
    Ok(Metrics::of([("instructions", (many - few) as f64 / (long - short) as f64), ("batch", batch)]))
}

/// A run by itself, which callgrind counts. Not for people.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionsArgs {
    #[arg(long, value_enum)]
    system: Name,
    #[arg(long)]
    tasks: bool,
    /// As JSON.
    #[arg(long)]
    plan: String,
}

/// The clients. Not for people.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadArgs {
    #[arg(long)]
    server: SocketAddrV4,
    /// As JSON.
    #[arg(long)]
    plan: String,
}

/// Serves once, and prints how many requests a round had.
pub(crate) fn run(args: &SessionsArgs) -> Result<bool> {
    let outcome = outcome(args.system, args.tasks, serde_json::from_str(&args.plan)?)?;
    println!("{}", outcome.batch());
    Ok(outcome.served.books.now.early == 0 && outcome.missing()? == 0)
}

/// The clients, as a process of their own.
pub(crate) fn run_load(args: &LoadArgs) -> Result<bool> {
    let plan = serde_json::from_str(&args.plan)?;
    println!("{}", serde_json::to_string(&load::run(args.server, plan, std::io::stdin())?)?);
    Ok(true)
}

/// Returns the instructions of a run, and the requests of a round.
fn count(name: Name, tasks: bool, plan: Plan) -> Result<(u64, f64)> {
    let mut server = Command::new(std::env::current_exe().context("where is this program?")?);
    server.args(["sessions", "--system", name.id(), "--plan", &serde_json::to_string(&plan)?]);
    server.args(tasks.then_some("--tasks"));
    let output = valgrind::callgrind(&server).output().context("cannot run valgrind")?;
    ensure!(output.status.success(), "valgrind failed: {}", String::from_utf8_lossy(&output.stderr));
    let batch = String::from_utf8_lossy(&output.stdout).trim().parse().context("the server does not say its batch")?;
    Ok((valgrind::collected(&output.stderr)?, batch))
}

fn outcome(name: Name, tasks: bool, plan: Plan) -> Result<Outcome> {
    match (tasks, name) {
        (false, Name::TourbillonDriven) => in_loop::<timers::Driven>(plan),
        (false, Name::Tokio) => in_loop::<timers::Sleeps>(plan),
        (false, Name::NoTimers) => in_loop::<timers::Bare>(plan),
        (true, Name::TourbillonFuture) => in_tasks::<tourbillon::Sleep>(plan),
        (true, Name::TourbillonDriven) => in_tasks::<tasks::Turned>(plan),
        (true, Name::Tokio) => in_tasks::<tokio::time::Sleep>(plan),
        (true, Name::NoTimers) => {
            // Nothing is paced, so no timer is ever made.
            let plan = Plan { protocol: Protocol { timers: 0, ..plan.protocol }, ..plan };
            on_a_runtime(false, plan, |stage| tasks::serve::<tokio::time::Sleep>(stage, plan))
        }
        _ => bail!("{name} has no server of this kind"),
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
    /// Requests of a round.
    fn batch(&self) -> f64 {
        let books = &self.served.books;
        books.measured(|counts| counts.requests) as f64 / books.measured(|counts| counts.rounds).max(1) as f64
    }

    fn missing(&self) -> Result<u64> {
        Ok(self.served.books.missing()? + self.seen.unanswered + self.seen.wrong)
    }

    fn metrics(&self) -> Result<Metrics> {
        let Self { served: Served { books, left, refused }, seen, cpu_s, seconds } = self;
        let requests = books.measured(|counts| counts.requests);
        let (duplicates, stale) = (books.measured(|counts| counts.duplicates), books.measured(|counts| counts.stale));
        let all = books.now;
        let mut metrics = Metrics::of([
            ("rate", requests as f64 / seconds),
            ("cpu_ns", cpu_s * 1e9 / requests.max(1) as f64),
            ("batch", self.batch()),
            ("early", all.early as f64),
            ("missing", self.missing()? as f64),
            ("lost", seen.lost as f64),
            ("resent", books.measured(|counts| counts.resent) as f64),
            ("closed", all.closed as f64),
        ]);
        metrics.values.extend(quantiles_ms(&books.lateness_ns));
        metrics.notes = vec![
            format!(
                "server: {} requests, {} replies, {left} sessions left, {refused} datagrams refused; measured: \
                 {duplicates} duplicates, {stale} timers that had been cancelled or moved came up",
                all.requests, all.replies
            ),
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
