//! The process that is measured: this program, started once more by itself.

use std::process::Command;
use std::{env, thread};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tourbillon::Timer;

use super::heap;
use super::local::LocalBench;
use super::meter::{Breakpoints, Collected, Mark, Meter, Nothing};
use super::operation::{Bench, Operation, Rounds};
use super::stepper::with_stack_above;
use super::turns::Turns;

/// What the process does. Not for people.
#[derive(Clone, Debug, Args)]
pub(crate) struct SubjectArgs {
    operation: Operation,
    how: How,
    /// Of an engine with threads.
    #[arg(long, default_value = "1")]
    shards: usize,
}

/// How the operation is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum How {
    /// Under a tracer, each operation step by step; a producer's by two threads, one after the
    /// other.
    Step,
    /// Under a tracer that counts system calls.
    Calls,
    /// Alone; prints how often it allocated.
    Heap,
    /// Under callgrind.
    Callgrind,
}

/// Operations that are stepped through: two refills of a thread's free list.
const STEPPED: usize = 128;
/// The same where only the lines matter that they touch.
const STEPPED_FOR_LINES: usize = 32;
/// During which system calls are counted: fewer than wake a worker because so many wait for it.
pub(crate) const CALLS: usize = 4_000;
/// During which allocations are counted, in rounds.
pub(crate) const HEAP: usize = 100_000;
/// Under callgrind, in rounds.
pub(crate) const CALLGRIND: usize = 10_000;
/// Operations in a round: fewer than wake a worker.
const ROUND: usize = 1_000;
const WARM_UP: usize = 4;

/// How to start such a process.
pub(crate) fn command(operation: Operation, how: How, shards: usize) -> Result<Command> {
    let mut command = Command::new(env::current_exe().context("where is this program?")?);
    let how = how.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    command.args(["subject", &operation.name(), &how, "--shards", &shards.to_string()]);
    Ok(command)
}

pub(crate) fn run(args: &SubjectArgs) {
    let operation = args.operation;
    match args.how {
        How::Step if operation.is_producers() => step_producers(operation, args.shards),
        How::Step => on_driven(operation, STEPPED, 1, &mut Breakpoints { mark: Mark::Step, lane: 0, label: 0 }),
        How::Calls if operation.is_producers() => count_producers_calls(operation),
        How::Calls => {
            on_driven(operation, ROUND, CALLS / ROUND, &mut Breakpoints { mark: Mark::Calls, lane: 0, label: 0 })
        }
        How::Heap => count_allocations(operation),
        How::Callgrind => on_driven(operation, ROUND, CALLGRIND / ROUND, &mut Collected),
    }
}

fn on_driven(operation: Operation, n: usize, rounds: usize, meter: &mut impl Meter) {
    if operation.is_local() {
        warm_and_measure(&mut LocalBench::new(n), operation, n, rounds, meter);
    } else {
        warm_and_measure(&mut Bench::driven(n), operation, n, rounds, meter);
    }
}

fn warm_and_measure(bench: &mut impl Rounds, operation: Operation, n: usize, rounds: usize, meter: &mut impl Meter) {
    bench.rounds(operation, WARM_UP, n, &mut Nothing);
    bench.rounds(operation, rounds, n, meter);
}

fn count_allocations(operation: Operation) {
    if operation.is_local() {
        count_allocations_on(&mut LocalBench::new(ROUND), operation);
    } else {
        count_allocations_on(&mut Bench::driven(ROUND), operation);
    }
}

fn count_allocations_on(bench: &mut impl Rounds, operation: Operation) {
    bench.rounds(operation, WARM_UP, ROUND, &mut Nothing);
    let before = heap::allocations();
    bench.rounds(operation, HEAP / ROUND, ROUND, &mut Nothing);
    println!("{}", heap::allocations() - before);
}

fn count_producers_calls(operation: Operation) {
    let mut bench = Bench::at(Bench::engine(1), CALLS);
    bench.rounds(operation, WARM_UP, CALLS, &mut Nothing);
    bench.rounds(operation, 1, CALLS, &mut Breakpoints { mark: Mark::Calls, lane: 0, label: 0 });
}

/// Two threads, each with a home shard of its own if there are two, which take turns. Neither gives
/// anything back before both have been measured, so that no entry goes from one to the other in
/// between.
fn step_producers(operation: Operation, shards: usize) {
    let (timer, turns) = (Bench::engine(shards), Turns::new(2));
    thread::scope(|scope| {
        for lane in 0..2 {
            let (timer, turns) = (timer.clone(), &turns);
            let n = if lane == 0 && shards > 1 { STEPPED } else { STEPPED_FOR_LINES };
            scope.spawn(move || with_stack_above(|| step_on_lane(operation, lane, n, timer, turns)));
        }
    });
    if shards > 1 {
        assert!(timer.stats().shards.iter().all(|shard| shard.scheduled > 0), "each thread has a shard of its own");
    }
}

fn step_on_lane(operation: Operation, lane: usize, n: usize, timer: Timer, turns: &Turns) {
    turns.join(lane);
    let mut bench = turns.take(lane, || Bench::at(timer, STEPPED));
    turns.take(lane, || bench.rounds(operation, WARM_UP, STEPPED, &mut Nothing));
    turns.take(lane, || bench.prepare(operation, n));
    turns.take(lane, || bench.measure(operation, n, &mut Breakpoints { mark: Mark::Step, lane, label: 0 }));
    turns.take(lane, || bench.clean());
}
