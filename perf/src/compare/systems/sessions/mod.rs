//! W11: a server of sessions over UDP, as QUIC has them. Each datagram moves and cancels several
//! timers, and most replies are sent by one. The load comes from another process.
//!
//! `protocol` says which timers a session arms, and knows no system. `event_loop` serves all
//! sessions in one loop, with each timer of a session in `timers`; `tasks` has a task for each
//! session, and one timer in each (`session_timer`). Both run on one thread of Tokio, whatever the
//! timers are. `load` is the clients, and `control` the course of a run.

mod books;
mod control;
mod event_loop;
mod load;
mod plan;
mod protocol;
mod session_timer;
mod socket;
mod table;
mod tasks;
mod timers;
mod wire;

use std::net::SocketAddrV4;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use tokio::runtime::Builder;

use super::names::Name;
use crate::compare::cases::{Amount, Work};
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::valgrind;
use crate::verdict::Verdict;
use books::Counts;
use control::{Outcome, Stage};
use plan::{Length, Plan, Served};
use protocol::Protocol;
use session_timer::{NoTimer, SessionTimer};
use timers::Timers;

const IDLE: Duration = Duration::from_secs(30);
const LENGTH: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_secs(1);
const CHAIN: u32 = 8;
/// Each of so many sessions has its turn within 20 s, as [`CHAIN`] requests follow each other.
const REQUESTS_A_SESSION: f64 = 0.4;
/// Requests of a short run and of a long one, under callgrind.
const COUNTED: [usize; 2] = [20_000, 120_000];

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
        length: Length::Time(job.time(LENGTH)),
    };
    if amount != Amount::Counted {
        return outcome(name, tasks, plan)?.metrics();
    }
    // The difference of a long run and a short one is the instructions of the additional requests.
    let [short, long] = COUNTED.map(|requests| job.scaled(requests).max(100));
    let run = |requests: usize| {
        let length = Length::Requests(requests as u64);
        count(name, tasks, Plan { warm_up: Duration::ZERO, length, ..plan })
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
pub(crate) fn run(args: &SessionsArgs) -> Result<Verdict> {
    let metrics = outcome(args.system, args.tasks, serde_json::from_str(&args.plan)?)?.metrics()?;
    println!("{}", metrics.get("batch")?);
    Ok(Verdict::passed_if(metrics.get("early")? == 0.0 && metrics.get("missing")? == 0.0))
}

/// The clients, as a process of their own.
pub(crate) fn run_load(args: &LoadArgs) -> Result<Verdict> {
    let plan = serde_json::from_str(&args.plan)?;
    println!("{}", serde_json::to_string(&load::run(args.server, plan, std::io::stdin())?)?);
    Ok(Verdict::Passed)
}

/// Returns the instructions of a run, and the requests of a round.
fn count(name: Name, tasks: bool, plan: Plan) -> Result<(u64, f64)> {
    let mut server = Command::new(std::env::current_exe().context("where is this program?")?);
    server.args(["sessions", "--system", name.id(), "--plan", &serde_json::to_string(&plan)?]);
    server.args(tasks.then_some("--tasks"));
    let output = valgrind::callgrind("valgrind", &[], &server).output().context("cannot run valgrind")?;
    ensure!(output.status.success(), "valgrind failed: {}", String::from_utf8_lossy(&output.stderr));
    let batch = String::from_utf8_lossy(&output.stdout).trim().parse().context("the server does not say its batch")?;
    Ok((valgrind::collected(&output.stderr)?, batch))
}

fn outcome(name: Name, tasks: bool, plan: Plan) -> Result<Outcome> {
    match (tasks, name) {
        (false, Name::TourbillonDriven) => in_loop::<timers::driven::Driven>(plan),
        (false, Name::Tokio) => in_loop::<timers::tokio_sleeps::Sleeps>(plan),
        (false, Name::DelayQueue) => in_loop::<timers::delay_queue::Queue>(plan),
        (false, Name::NoTimers) => in_loop::<timers::bare::Bare>(plan),
        (true, Name::TourbillonFuture) => in_tasks::<tourbillon::Sleep>(plan),
        (true, Name::Tokio) => in_tasks::<tokio::time::Sleep>(plan),
        (true, Name::NoTimers) => {
            let protocol = Protocol { timers: 0, ..plan.protocol };
            in_tasks::<NoTimer>(Plan { protocol, ..plan })
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
    fn metrics(&self) -> Result<Metrics> {
        let Self { served: Served { books, left, refused }, seen, cpu_s, seconds } = self;
        let Counts { requests, duplicates, stale, resent, rounds, .. } = books.measured();
        let all = books.now;
        let mut metrics = Metrics::of([
            ("rate", requests as f64 / seconds),
            ("cpu_ns", cpu_s * 1e9 / requests.max(1) as f64),
            ("p50_ms", books.late_ms(0.5)),
            ("p99_ms", books.late_ms(0.99)),
            ("p999_ms", books.late_ms(0.999)),
            ("max_ms", books.late_ms(1.0)),
            ("batch", requests as f64 / rounds.max(1) as f64),
            ("early", all.early as f64),
            ("missing", (books.missing()? + seen.unanswered + seen.wrong) as f64),
            ("lost", seen.lost as f64),
            ("resent", resent as f64),
            ("closed", all.closed as f64),
        ]);
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
