//! The process that is recorded: this program, started once more by itself.

#[path = "../../src/compare/workloads/delays.rs"]
mod delays;

use std::ops::RangeInclusive;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, process, thread};

use anyhow::{Context, Result, ensure};
use clap::Args;

use self::delays::{FAR, delay, random};
use super::compare::recorder::{Recorder, Task};
use super::compare::systems::plan::Plan;
use super::compare::systems::producer::Producer;
use super::compare::systems::system::System;
use super::compare::systems::{delay_queue, heap, locked_queue, tokio, tourbillon};
use super::meter::{Breakpoints, Mark, Meter};
use super::operation::{Operation, Timers};
use super::stepper::with_stack_above;
use super::turns::Turns;

/// What the process does. Not for people.
#[derive(Clone, Debug, Args)]
pub(crate) struct SubjectArgs {
    timers: Timers,
    operation: Operation,
    /// Threads.
    #[arg(long)]
    lanes: usize,
    /// Of Tourbillon; its default if not given.
    #[arg(long)]
    shards: Option<usize>,
}

/// Operations that are recorded, of all threads together. A step takes some 20 us.
const RECORDED: usize = 800;
/// And of each. With more, Tourbillon's clock would look at the monotonic clock in between, find
/// that the counter, which the stepper holds back, is wrong, and not trust it for a second.
const OF_EACH: RangeInclusive<usize> = 8..=400;
/// Timeouts that are pending when W1 is recorded, of all threads together. `compare` ends with a
/// million of each; a wheel does not care, and a heap of so many is two levels less deep.
const PENDING: usize = 200_000;
/// Timeouts that are reset in W3, of all threads together. As in `compare` with two.
const KEEP_ALIVES: usize = 200_000;
/// As in `compare`.
const RING: usize = 1_000;
const DELAY: Duration = Duration::from_secs(60);
/// Operations that a thread does in its turn while nothing is recorded.
const CHUNK: usize = 10;

/// How to start such a process.
pub(crate) fn command(timers: Timers, operation: Operation, lanes: usize, shards: Option<usize>) -> Result<Command> {
    let mut command = Command::new(env::current_exe().context("where is this program?")?);
    command.args(["subject", timers.id(), operation.case(), "--lanes", &lanes.to_string()]);
    if let Some(shards) = shards {
        command.args(["--shards", &shards.to_string()]);
    }
    Ok(command)
}

pub(crate) fn run(args: &SubjectArgs) -> Result<()> {
    match args.timers {
        Timers::Tourbillon => run_on::<tourbillon::Pooled>(args),
        Timers::Heap => run_on::<heap::Heap>(args),
        Timers::Tokio => run_on::<tokio::Sleeps>(args),
        Timers::DelayQueue => run_on::<delay_queue::Queues>(args),
        Timers::LockedDelayQueue => run_on::<locked_queue::LockedQueue>(args),
    }
}

fn run_on<S: System>(args: &SubjectArgs) -> Result<()> {
    let capacity = PENDING.max(KEEP_ALIVES) + (4 * RING + OF_EACH.end()) * args.lanes;
    let tick = Duration::from_millis(1);
    let plan = Plan { capacity: Some(capacity), producers: args.lanes, tick, shards: args.shards };
    let (system, turns) = (S::start(&plan)?, Turns::new(args.lanes));
    thread::scope(|scope| {
        for number in 0..args.lanes {
            let (system, turns) = (&system, &turns);
            scope.spawn(move || {
                if let Err(why) = with_stack_above(|| Lane::work(system, turns, number, args)) {
                    // The others wait for their turns.
                    eprintln!("{why:#}");
                    process::exit(101);
                }
            });
        }
    });
    // What is pending need not be freed.
    process::exit(0);
}

/// A thread with its part of the work.
struct Lane<'a, S: System> {
    system: &'a S,
    turns: &'a Turns,
    number: usize,
    lanes: usize,
    producer: S::Producer,
    task: Task,
    meter: Breakpoints,
}

impl<'a, S: System> Lane<'a, S> {
    fn work(system: &'a S, turns: &'a Turns, number: usize, args: &SubjectArgs) -> Result<()> {
        turns.join(number);
        let producer = turns.take(number, || system.producer())?;
        let (task, lanes) = (Recorder::counting(0).stray(), args.lanes);
        let meter = Breakpoints { mark: Mark::Step, lane: number, label: 0 };
        let mut lane = Self { system, turns, number, lanes, producer, task, meter };
        lane.warm_up()?;
        match args.operation {
            Operation::W1 => lane.schedule(),
            Operation::W2 => lane.ring(),
            Operation::W3 => lane.reset(),
        }
    }

    /// Starts the system's threads and what it keeps for this one. The producers' clock of
    /// Tourbillon knows its rate two milliseconds after it was first looked at.
    fn warm_up(&mut self) -> Result<()> {
        for _ in 0..2 {
            let mut warm = Default::default();
            self.turns.take(self.number, || self.producer.schedule(FAR[1], self.task, &mut warm))?;
            self.turns.take(self.number, || self.producer.cancel(&mut warm));
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn recorded(&self) -> usize {
        (RECORDED / self.lanes).clamp(*OF_EACH.start(), *OF_EACH.end())
    }

    /// Does it `n` times without recording it, a few in each turn.
    fn prepare(&mut self, n: usize, mut work: impl FnMut(&mut S::Producer, usize) -> Result<()>) -> Result<()> {
        let (turns, producer) = (self.turns, &mut self.producer);
        for first in (0..n).step_by(CHUNK) {
            let until = n.min(first + CHUNK);
            turns.take(self.number, || (first..until).try_for_each(|at| work(producer, at)))?;
        }
        // For the threads of the system to go to sleep again.
        turns.take(self.number, || ());
        thread::sleep(Duration::from_millis(50));
        Ok(())
    }

    /// Records it, one in each turn.
    fn record(&mut self, mut work: impl FnMut(&mut S::Producer, usize) -> Result<()>) -> Result<()> {
        for at in 0..self.recorded() {
            let (producer, meter, work) = (&mut self.producer, &mut self.meter, &mut work);
            self.turns.take(self.number, || meter.measure(1, || work(producer, at)))?;
        }
        Ok(())
    }

    fn schedule(&mut self) -> Result<()> {
        let task = self.task;
        let (before, each) = (PENDING / self.lanes, self.recorded());
        let mut random = random(self.number);
        let delays: Vec<_> = (0..before + each).map(|_| delay(&mut random, FAR[0], FAR[1])).collect();
        let mut handles = self.handles(before + each);
        self.turns.take(self.number, || handles.iter_mut().for_each(|handle| self.producer.reserve(handle)));
        self.prepare(before, |producer, at| producer.schedule(delays[at], task, &mut handles[at]))?;
        self.record(|producer, at| producer.schedule(delays[before + at], task, &mut handles[before + at]))
    }

    fn ring(&mut self) -> Result<()> {
        let task = self.task;
        let mut ring = self.handles(RING);
        self.prepare(RING, |producer, at| producer.schedule(DELAY, task, &mut ring[at]))?;
        let mut turn = |producer: &mut S::Producer, at: usize| {
            let handle = &mut ring[at % RING];
            ensure!(producer.cancel(handle), "a timeout was not cancelled, and none was due");
            producer.schedule(DELAY, task, handle)
        };
        self.prepare(2 * RING, &mut turn)?;
        self.record(turn)
    }

    fn reset(&mut self) -> Result<()> {
        let task = self.task;
        let n = (KEEP_ALIVES / self.lanes).min(KEEP_ALIVES / 2);
        let mut handles = self.handles(n);
        self.prepare(n, |producer, at| producer.schedule(DELAY, task, &mut handles[at]))?;
        // What is recorded is a reset in the wheel.
        self.turns.take(self.number, || self.producer.flush())?;
        let is_last = self.number + 1 == self.lanes;
        self.turns.take(self.number, || if is_last { self.system.settle() } else { Ok(()) })?;
        self.prepare(0, |_, _| Ok(()))?;
        let mut random = random(self.number);
        let order: Vec<usize> = (0..self.recorded()).map(|_| random.usize(..n)).collect();
        let deadline = Instant::now() + DELAY;
        self.record(|producer, at| {
            let reset = producer.reset(DELAY, deadline, &mut handles[order[at]]);
            ensure!(reset, "a reset was refused, and none was due");
            Ok(())
        })
    }

    fn handles(&self, n: usize) -> Vec<<S::Producer as Producer>::Handle> {
        let mut handles = Vec::new();
        handles.resize_with(n, Default::default);
        handles
    }
}
