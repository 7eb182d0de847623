//! The main job: real connections, and a million timeouts beside them, on one engine.
//!
//! ```text
//!   producers ──► schedule, reset, cancel ──► engine ──► tasks ──► recorder (allowed? how late?)
//!   clients ◄──► server ──► idle timeouts, deadlines ──┘     └──► signals to the server
//! ```
//!
//! [`counters`] adds up what callers and tasks counted and compares it with what the engine says.

mod clients;
mod counters;
mod fd_limit;
mod kind;
mod lane;
mod options;
mod outcome;
mod population;
mod producers;
mod progress;
mod recorder;
mod report;
mod server;
mod slot_table;
mod sockets;
mod tables;
mod timed;
mod wire;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::counters::reconcile;
use tourbillon::{Stats, Timer};

pub(crate) use options::ConnectionsArgs;

use crate::duration::{self, Epoch};
use crate::json_file;
use crate::number::{grouped_f64, grouped_len};
use crate::proc::resident_bytes;
use crate::process::{CpuByThread, CpuTime};
use crate::verdict::Verdict;
use counters::{Accounts, Closing};
use fd_limit::Plan;
use kind::Kind;
use lane::Control;
use options::Pace;
use outcome::{ClientsOutcome, ServerOutcome};
use population::{Load, Producer, ProducerOutcome, Throughput};
use producers::Producers;
use progress::Progress;
use recorder::Recorder;
use report::{Measured, Report};
use slot_table::SlotTable;
use sockets::Sockets;

/// Beyond its idle timeout, how long a silent client may take to be reaped before it counts as
/// forgotten.
const GRACE: Duration = Duration::from_secs(5);

/// Timeouts without sockets, at most: 500 million need 50 GB and more.
const TIMEOUTS_AT_MOST: usize = 500_000_000;

/// Runs the job and prints its tables.
pub(crate) fn run(args: &ConnectionsArgs) -> Result<Verdict> {
    json_file::check(args.json.as_deref())?;
    ensure!(
        args.timeouts <= TIMEOUTS_AT_MOST,
        "--timeouts {} is too many; at most {} are possible",
        grouped_len(args.timeouts),
        grouped_len(TIMEOUTS_AT_MOST)
    );
    let plan = Plan::make(args.connections)?;
    let pace = Pace::of(args, plan.connections)?;
    println!("{plan}");
    println!(
        "idle timeout {}; clients pause {} to {}, some {} messages a second in all; {:.0}% of them go silent",
        duration::exact(pace.idle_timeout),
        duration::show(pace.least_pause),
        duration::show(pace.most_pause),
        grouped_f64(pace.messages_per_second(plan.connections, args.work)),
        args.silent * 100.0
    );
    println!(
        "{} timeouts without sockets, {} new and {} resets a second; {} of load\n",
        grouped_len(args.timeouts),
        grouped_len(args.rate),
        grouped_len(args.resets),
        duration::exact(args.duration),
    );

    let report = perform(args, &plan, pace)?;
    report.print();
    if let Some(path) = &args.json {
        json_file::write(path, &report)?;
    }
    Ok(Verdict::passed_if(report.passed))
}

/// Builds the engine, runs the load, shuts the engine down, and reconciles the counters.
fn perform(args: &ConnectionsArgs, plan: &Plan, pace: Pace) -> Result<Report> {
    let epoch = Epoch::start();
    let recorder = Arc::new(Recorder::new());
    let control = Arc::new(Control::default());
    let shown = Arc::new(Throughput::default());
    let (table, producers) = prepare(args, epoch, &recorder)?;

    // From here to the next reading, what grows is the engine's memory.
    let memory_before = resident_bytes();
    let stage = progress::stage(format!("building {} timeouts", grouped_len(args.timeouts)));
    let timer = args.engine.build(args.timeouts)?;
    let producers = Producers::build(producers, &timer, &control, args.duration, &shown)?;
    let built_pending = timer.pending();
    let memory_after = resident_bytes();
    drop(stage);

    let stage = progress::stage(format!("opening {} connections", grouped_len(plan.connections)));
    let mut sockets = Sockets::start(args, plan, pace, &timer, epoch, &recorder, &control)?;
    sockets.wait_for_all()?;
    drop(stage);

    let (cpu, threads) = (CpuTime::now(), CpuByThread::now());
    let wakeups = timer.stats().wakeups;
    let begin = control.begin();
    producers.start();
    let mut progress =
        Progress::new(timer.clone(), sockets.lanes.clone(), shown, Arc::clone(&recorder), begin, args.duration);
    watch(&mut progress, &mut sockets, begin + args.duration, false)?;
    let load_s = begin.elapsed().as_secs_f64();
    let cpu = CpuTime::now().since(cpu);
    let threads = CpuByThread::now().zip(threads).map(|(now, then)| now.since(then));
    let wakeups = timer.stats().wakeups - wakeups;
    let pending_at_end = timer.pending();
    let produced = producers.join()?;

    // Longer than any silent client has left; most runs need none of it.
    let limit = Instant::now() + pace.idle_timeout + GRACE;
    watch(&mut progress, &mut sockets, limit, true)?;
    progress.clear();
    let (server, clients) = sockets.finish()?;

    let closing = close(&timer, &table, &recorder, &produced, &server, &clients)?;
    let measured = Measured {
        plan: plan.clone(),
        pace,
        load_s,
        cpu,
        threads,
        wakeups,
        pinned_to: closing.before.shards.iter().map(|shard| shard.pinned_to).collect(),
        pending_at_end,
        bytes_per_pending: memory_before
            .zip(memory_after)
            .filter(|_| built_pending > 0)
            .map(|(before, after)| after.saturating_sub(before) as f64 / built_pending as f64),
        built_pending,
    };
    Ok(Report::new(args, &measured, &produced, &server, &clients, &closing))
}

/// Everything the producers need for themselves, allocated and touched.
fn prepare(args: &ConnectionsArgs, epoch: Epoch, recorder: &Arc<Recorder>) -> Result<(Arc<SlotTable>, Vec<Producer>)> {
    let slots = u32::try_from(args.timeouts).context("--timeouts is too large")?;
    let count = match slots {
        0 => 0,
        _ => u32::try_from(args.producers).context("--producers is too large")?.min(slots),
    };
    let table = Arc::new(SlotTable::new(slots, count.max(1), epoch, Arc::clone(recorder)));
    let load = Load {
        new_per_second: args.rate as f64 / f64::from(count.max(1)),
        resets_per_second: args.resets as f64 / f64::from(count.max(1)),
        expiring: args.expiring,
    };
    let producers =
        (0..count).map(|n| Producer::new(n, Arc::clone(&table), load, args.seed.wrapping_add(u64::from(n)))).collect();
    Ok((table, producers))
}

/// Shows progress until `end`, or, when `for_reaps`, until no silent client is left.
fn watch(progress: &mut Progress, sockets: &mut Sockets, end: Instant, for_reaps: bool) -> Result<()> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || (for_reaps && sockets.unreaped() == 0) {
            return Ok(());
        }
        sockets.still_running()?;
        progress.show(for_reaps);
        thread::sleep(left.min(progress.pause()));
    }
}

/// Shuts the engine down and gathers all counts.
fn close(
    timer: &Timer,
    table: &SlotTable,
    recorder: &Recorder,
    produced: &ProducerOutcome,
    server: &ServerOutcome,
    clients: &ClientsOutcome,
) -> Result<Closing> {
    let before = quiet_stats(timer);
    let unfired = timer.shutdown().context("the engine would not shut down")?;
    let at_shutdown = recorder.fired_so_far();
    let after = timer.stats();
    // Whatever wrongly runs after shutdown gets a moment to show itself.
    thread::sleep(Duration::from_millis(50));
    let tasks = recorder.sum();

    let mut accounts = Accounts::default();
    *accounts.of(Kind::Population) = produced.account;
    accounts += server.accounts;
    accounts += clients.accounts;
    Ok(Closing {
        accounts,
        armed: table.armed(),
        cancelled_but_ran: produced.cancelled_but_ran,
        after_shutdown: tasks.fired_in_all() - at_shutdown,
        handed_back: unfired.len() as u64,
        tasks,
        before,
        after,
    })
}

/// The engine's counts at a moment when nothing is between two of them. They are summed over shards
/// while timeouts expire, so one reading may see a timeout neither pending nor fired.
fn quiet_stats(timer: &Timer) -> Stats {
    let mut stats = timer.stats();
    for _ in 0..500 {
        if reconcile(&stats).is_ok() {
            break;
        }
        thread::sleep(Duration::from_millis(1));
        stats = timer.stats();
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        args: ConnectionsArgs,
    }

    #[test]
    fn a_small_run_passes_all_checks() {
        let line = "perf --duration 600ms --timeouts 2000 --rate 20000 --resets 50000 --connections 20 --silent 25% \
                    --idle-timeout 500ms --io-threads 2 --producers 2";
        let args = Only::try_parse_from(line.split_whitespace()).expect("a right command line").args;
        let plan = Plan::make(args.connections).expect("forty descriptors");
        let pace = Pace::of(&args, plan.connections).expect("a sensible pace");
        let report = perform(&args, &plan, pace).expect("a run");
        assert!(report.passed, "{:?}", report.failures);
        assert!(report.operations.iter().all(|operation| operation.operations > 0), "{:?}", report.operations);
        let json = serde_json::to_string(&report).expect("a report is plain data");
        assert!(json.contains(r#""passed":true"#));
    }
}
