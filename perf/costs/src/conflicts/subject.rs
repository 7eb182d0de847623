//! The process in which two threads do all operations, one thread after the other.

use std::process::Command;
use std::{env, thread};

use anyhow::{Context, Result};
use clap::ValueEnum;
use tourbillon::Timer;

use super::Relation;
use crate::meter::{Breakpoints, Mark, Nothing};
use crate::operation::{Bench, Operation, Rounds};
use crate::stepper::with_stack_above;
use crate::turns::Turns;

/// How often each operation is done: enough to tell which way most of them go, and too few for
/// entries to be handed from thread to thread.
const EACH: usize = 6;
/// How often before that, for each.
const WARM_UP: usize = 2;

/// How to start such a process.
pub(super) fn command(relation: Relation) -> Result<Command> {
    let mut command = Command::new(env::current_exe().context("where is this program?")?);
    let relation = relation.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    command.args(["pairs", &relation]);
    Ok(command)
}

pub(crate) fn run(relation: Relation) {
    match relation {
        Relation::SameShard => {
            let engine = Bench::engine(1);
            by_two_producers([engine.clone(), engine]);
        }
        Relation::OtherShard => {
            let engine = Bench::engine(2);
            by_two_producers([engine.clone(), engine.clone()]);
            let shards = engine.stats().shards;
            assert!(shards.iter().all(|shard| shard.scheduled > 0), "each thread has a shard of its own");
        }
        Relation::OtherEngine => by_two_producers([Bench::engine(1), Bench::engine(1)]),
        Relation::Worker => by_a_producer_and_a_worker(),
    }
}

/// Two producers. Neither gives anything back before both have done all operations, so that no
/// entry goes from one to the other.
fn by_two_producers(timers: [Timer; 2]) {
    let turns = Turns::new(2);
    thread::scope(|scope| {
        for (lane, timer) in timers.into_iter().enumerate() {
            let turns = &turns;
            scope.spawn(move || with_stack_above(|| do_all(lane, &timer, turns)));
        }
    });
}

fn do_all(lane: usize, timer: &Timer, turns: &Turns) {
    turns.join(lane);
    let warm = |operation| {
        turns.take(lane, || {
            let mut bench = Bench::at(timer.clone(), EACH);
            bench.rounds(operation, WARM_UP, EACH, &mut Nothing);
            (operation, bench)
        })
    };
    let mut benches: Vec<_> = super::producers().map(warm).collect();
    for (operation, bench) in &mut benches {
        let mut meter = Breakpoints { mark: Mark::Step, lane, label: operation.number() };
        let each = operation.stepped(EACH);
        turns.take(lane, || bench.prepare(*operation, each));
        turns.take(lane, || bench.measure(*operation, each, &mut meter));
    }
    turns.take(lane, || drop(benches));
}

/// A producer does each of its operations, and another thread turns the shard after each: that is
/// when the worker meets what the producer has left to it.
fn by_a_producer_and_a_worker() {
    let (mut bench, turner) = Bench::turned_elsewhere(EACH);
    let turner = thread::spawn(|| turner.run());
    for operation in Operation::shared() {
        bench.rounds(operation, WARM_UP, EACH, &mut Nothing);
    }
    for operation in Operation::shared() {
        let each = operation.stepped(EACH);
        bench.prepare(operation, each);
        let mut meter = Breakpoints { mark: Mark::Step, lane: 0, label: operation.number() };
        bench.measure(operation, each, &mut meter);
        if operation.is_producers() {
            bench.turn_elsewhere(Operation::TakeIn);
        }
        bench.clean();
    }
    drop(bench);
    turner.join().expect("it ends with the bench");
}
