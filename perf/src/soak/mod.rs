//! Stress and soak: every operation at random, faults on purpose, and every timeout accounted for.
//!
//! ```text
//!   producers ──► all operations, announced and settled ──► engines ──► tasks ──┐
//!       │                                                                      ▼
//!       └───────────────────────────────► ledger: a record per timeout ◄── run? dropped? allowed?
//! ```
//!
//! [`testkit::record`] knows what may happen next to a timeout, [`testkit::ledger`] reconciles an
//! engine at its end, [`player`] is a producer.

mod churn;
mod context;
mod executors;
mod forks;
mod held;
mod player;
mod report;
mod stingy;
mod subject;
mod tally;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use crossbeam_queue::ArrayQueue;
use fastrand::Rng;
use tourbillon::WaitStrategy;

use crate::number::{self, grouped};
use crate::process::resident_bytes;
use context::{Jumping, Violations};
use executors::Runner;
use player::{LetterBox, Player};
use report::Report;
pub(crate) use stingy::Stingy;
use subject::{Plan, Subject};
use tally::{Count, Tally};
use work::{Body, Place, Way};

/// Options of the soak.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SoakArgs {
    /// How long, in minutes [default: 1, if no seconds are given]
    #[arg(long, value_name = "N", value_parser = number::parse_positive)]
    minutes: Option<usize>,

    /// How long, in seconds; on top of the minutes
    #[arg(long, value_name = "N", value_parser = number::parse_positive)]
    seconds: Option<usize>,

    /// Threads that do all operations at random
    #[arg(long, value_name = "P", default_value = "4", value_parser = number::parse_positive)]
    producers: usize,

    /// Seed of all choices [default: another each time; it is printed]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Fork no children off: ThreadSanitizer does not follow them
    #[arg(long)]
    no_forks: bool,
}

const AFTER_HELP: &str = "\
Nine engines live as long as the run, with another executor or clock each: the default pool;
inline; one that refuses batches, with a limit on what is pending; one that panics; one that hands
batches to other threads; one that hands them to a runtime, whose thread is blocked now and then; a
clock that jumps by days; a pool of one thread; driven. Beside them
short-lived ones of all kinds are started, used, and stopped in all ways with work left.

Checked for every timeout, by its id: never early, never twice, not after a cancel that returned
true, not before the deadline of a reset that returned true; its closure dropped exactly once; and
at each engine's end all of them accounted for, by id and by the engine's own counts.

A violation is printed with the timeout's last operations, and fails the run. The seed repeats the
choices, and not how threads meet.

Children are forked off: there the engines refuse, and the child's own engine runs.

Not covered: memory that is refused to anything but an engine's arena; and the order in which
timeouts run. A deadline that two threads reset at once is not checked against the later of the
two.";

const A_LINE: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The state that all threads of a run share.
struct Run {
    seed: u64,
    subjects: Arc<Vec<Arc<Subject>>>,
    boxes: Vec<LetterBox>,
    tally: Arc<Tally>,
    violations: Arc<Violations>,
    is_over: AtomicBool,
}

/// Soaks and prints what was survived.
pub(crate) fn run(args: &SoakArgs) -> Result<bool> {
    ensure!(args.producers <= 1_000, "--producers {} is too many", grouped(args.producers as u64));
    let minutes = args.minutes.unwrap_or(usize::from(args.seconds.is_none()));
    let seconds = minutes.saturating_mul(60).saturating_add(args.seconds.unwrap_or(0));
    let length = Duration::from_secs(seconds as u64);
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("soak: {} s, {} producers, seed {seed}", grouped(seconds as u64), args.producers);
    let report = perform(args.producers, seed, length, !args.no_forks)?;
    report.print();
    Ok(report.violations == 0)
}

fn perform(producers: usize, seed: u64, length: Duration, may_fork: bool) -> Result<Report> {
    let mut memory = [resident_bytes(), None, None, None];
    let (tally, violations) = (Arc::<Tally>::default(), Arc::new(Violations::new(seed)));
    let built: Result<Vec<_>> =
        plans().iter().map(|(plan, _)| Subject::build(plan, &tally, &violations).map(Arc::new)).collect();
    let run = Run {
        seed,
        subjects: Arc::new(built?),
        boxes: (0..producers).map(|_| Arc::new(ArrayQueue::new(256))).collect(),
        tally,
        violations,
        is_over: AtomicBool::new(false),
    };
    let begin = Instant::now();
    let outcome: Result<()> = thread::scope(|scope| {
        let run = &run;
        let producers: Vec<_> = (0..producers).map(|at| scope.spawn(move || produce(run, at))).collect();
        let churn = scope.spawn(move || churn::run(run.seed ^ 0xC0FFEE, &run.tally, &run.violations, &run.is_over));
        let disturb = scope.spawn(move || disturb(run));
        let forks = may_fork.then(|| scope.spawn(move || forks::run(run)));
        watch(run, begin, length, &mut memory);
        memory[2] = resident_bytes();
        // Under the producers' hands.
        for (subject, (_, how)) in run.subjects.iter().zip(plans()) {
            subject.stop(how);
        }
        run.is_over.store(true, Ordering::Relaxed);
        for producer in producers {
            producer.join().map_err(|_| anyhow!("a producer panicked"))?;
        }
        disturb.join().map_err(|_| anyhow!("the thread that disturbs panicked"))?;
        forks.map_or(Ok(()), |forks| forks.join()).map_err(|_| anyhow!("the thread that forks panicked"))?;
        churn.join().map_err(|_| anyhow!("the thread of the short-lived engines panicked"))?
    });
    outcome?;
    run.boxes.iter().for_each(|letters| while letters.pop().is_some() {});
    run.subjects.iter().for_each(|subject| subject.reconcile());
    memory[3] = resident_bytes();
    let of_subject = |subject: &Arc<Subject>| Some((subject.name.clone(), subject.latest()?));
    let mut latest_ns: BTreeMap<String, u64> = run.subjects.iter().filter_map(of_subject).collect();
    latest_ns.insert("short-lived".to_owned(), run.tally.latest.load(Ordering::Relaxed));
    let (violations, first_violations) = run.violations.found().clone();
    Ok(Report {
        seed,
        producers,
        seconds: begin.elapsed().as_secs_f64(),
        latest_ns,
        memory,
        violations,
        first_violations,
        tally: run.tally,
    })
}

/// The long-lived engines, and how they end.
fn plans() -> [(Plan, Count); 9] {
    let new = Plan::new;
    let two = |name, runner| Plan { shards: 2, ..new(name, runner) };
    let hybrid = WaitStrategy::Hybrid { spin: Duration::from_micros(100) };
    [
        (two("pool", Runner::Default), Count::StopCancel),
        (Plan { wait: hybrid, ..new("inline", Runner::Inline) }, Count::StopFireNow),
        (Plan { limit: Some(1_500), ..two("refusing", Runner::Refusing) }, Count::StopDrain),
        (Plan { cramped: true, ..new("panicking", Runner::Panicking) }, Count::StopRace),
        (two("handing over", Runner::HandingOver), Count::StopCancel),
        (two("spawning", Runner::Spawning), Count::StopFireNow),
        (Plan { jumping: Some(Jumping::default()), ..two("jumping", Runner::Default) }, Count::StopCancel),
        (two("slow", Runner::Slow), Count::StopDrain),
        (Plan { driven: true, ..two("driven", Runner::Default) }, Count::StopDriven),
    ]
}

/// A producer, which dies now and then, and is replaced.
fn produce(run: &Run, at: usize) {
    let mut rng = Rng::with_seed(run.seed.wrapping_add(at as u64 + 1));
    let mut others = run.boxes.clone();
    others.swap_remove(at);
    while !run.is_over.load(Ordering::Relaxed) {
        let mut player = Player::new(
            rng.u64(..),
            Arc::clone(&run.subjects),
            Arc::clone(&run.tally),
            Arc::clone(&run.boxes[at]),
            others.clone(),
        );
        let operations = rng.u32(1_000..60_000);
        // A thread of its own, joined by its handle: that waits for its locals, too.
        let is_over = Arc::new(AtomicBool::new(false));
        let must_end = Arc::clone(&is_over);
        let life = thread::spawn(move || {
            player.play(operations, || must_end.load(Ordering::Relaxed));
            player.die();
        });
        while !life.is_finished() {
            is_over.store(run.is_over.load(Ordering::Relaxed), Ordering::Relaxed);
            thread::sleep(Duration::from_millis(5));
        }
        if life.join().is_err() {
            run.violations.add("a call of a producer panicked");
        }
        run.tally.did(Count::Thread);
    }
}

/// Jumps of the clock, and a runtime that stands still.
fn disturb(run: &Run) {
    let mut rng = Rng::with_seed(run.seed ^ 0xD157);
    while !run.is_over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(rng.u64(50..400)));
        executors::block_the_runtime(Duration::from_millis(rng.u64(1..50)));
        run.tally.did(Count::Blocked);
        let Some(subject) = rng.choice(run.subjects.iter()) else { return };
        if let (Some(timer), Some(clock)) = (subject.timer(), &subject.jumping) {
            clock.jump(DAY);
            run.tally.did(Count::Day);
            // Workers sleep by the real clock: something that is due now wakes each.
            for key in 0..32_u8 {
                let place = Place::Shard(timer.shard_for(&key));
                let _ = work::once(&subject.context, &place, Way::Detached(Duration::ZERO), Body::Plain);
            }
        }
    }
}

/// A line every 10 s, until the time is over.
fn watch(run: &Run, begin: Instant, length: Duration, memory: &mut [Option<u64>; 4]) {
    let mut next = A_LINE;
    while begin.elapsed() < length {
        thread::sleep(length.saturating_sub(begin.elapsed()).min(Duration::from_millis(100)));
        run.subjects.iter().for_each(|subject| subject.look());
        if begin.elapsed() >= next {
            next += A_LINE;
            let resident = resident_bytes();
            memory[1] = memory[1].or(resident);
            eprintln!(
                "soak: {:.0} of {} s, {} operations, {} engines, {} MB, {} violations",
                begin.elapsed().as_secs_f64(),
                length.as_secs(),
                grouped(run.tally.operations()),
                run.tally.engines.load(Ordering::Relaxed),
                resident.unwrap_or(0) / 1_000_000,
                run.violations.found().0,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tally::COUNTS;
    use super::*;

    #[test]
    fn a_short_run_passes_and_has_done_every_kind_of_thing() {
        let report = perform(2, 42, Duration::from_millis(1_500), true).expect("engines");
        assert_eq!(report.first_violations, Vec::<String>::new());
        let done = [Count::Schedule, Count::Rate, Count::Sent, Count::ResetTook, Count::CancelTook];
        for what in done.into_iter().chain([Count::Fork, Count::Blocked]) {
            assert!(report.tally.count(what) > 0, "{what:?}");
        }
        let stops = COUNTS.iter().filter(|(section, ..)| *section == "engines stopped");
        assert!(stops.map(|&(_, what, _)| report.tally.count(what)).sum::<u64>() >= 9);
    }
}
