//! The operations' accesses to memory that threads share, as `src/sync/count.rs` logs them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::sync_channel;
use std::thread;

use tourbillon::Timer;
use tourbillon::accesses::{Access, Kind};

use super::bench::{Bench, Rounds};
use super::meter::{Logged, Nothing};
use super::operation::Operation;
use super::{ROUNDS, do_rounds};

/// How often two threads do each operation: enough to tell which way most of them go, and too few
/// for entries to be handed from thread to thread.
const EACH: usize = 6;

/// Prints read-modify-writes of the usual operation, of all on average, lines written, and lines
/// shared with producers of another shard and of the same one.
pub(crate) fn count(operation: Operation) {
    let logs = logs(operation);
    let (operations, usual) = usual(&logs);
    let exchanges = |log: &[Access]| log.iter().filter(|access| access.kind == Kind::ReadModifyWrite).count();
    let all: usize = logs.iter().map(|(_, log)| exchanges(log)).sum();
    let written = touched(usual).values().filter(|&&writes| writes).count();
    print!("{} ", per(exchanges(usual), operations));
    print!("{} {} ", per(all, logs.iter().map(|(operations, _)| operations).sum()), per(written, operations));
    if operation.is_producers() {
        println!("{} {}", shared(operation, 2), shared(operation, 1));
    } else {
        println!("- -");
    }
}

/// Prints each access of the usual operation.
pub(crate) fn explain(operation: Operation) {
    let logs = logs(operation);
    let (operations, usual) = usual(&logs);
    let lines: BTreeSet<usize> = usual.iter().map(|access| access.line).collect();
    println!("{}: accesses to shared memory in {operations} operations", operation.name());
    for access in usual {
        let number = lines.range(..access.line).count();
        println!("line {number:3}  {:16} {}", format!("{:?}", access.kind), access.place);
    }
}

fn logs(operation: Operation) -> Vec<(usize, Vec<Access>)> {
    let mut logged = Logged::default();
    do_rounds(operation, operation.in_round(), ROUNDS, false, &mut logged);
    logged.0
}

/// Returns one of those that went the way most of them went; if two are as frequent, the shorter.
fn usual(logs: &[(usize, Vec<Access>)]) -> (usize, &[Access]) {
    let path = |log: &[Access]| log.iter().map(|access| (access.kind, access.place)).collect::<Vec<_>>();
    let mut paths = BTreeMap::<_, (usize, &(usize, Vec<Access>))>::new();
    logs.iter().for_each(|log| paths.entry(path(&log.1)).or_insert((0, log)).0 += 1);
    let most = paths.values().max_by_key(|(times, log)| (*times, std::cmp::Reverse(log.1.len())));
    let (operations, log) = most.expect("something was measured").1;
    (*operations, log)
}

/// The lines that were touched, and whether they were written.
fn touched(log: &[Access]) -> BTreeMap<usize, bool> {
    let mut lines = BTreeMap::new();
    log.iter().for_each(|access| *lines.entry(access.line).or_default() |= access.kind != Kind::Read);
    lines
}

/// Returns how many lines a producer touches in an operation, and another one in any of its own, if
/// one of the two writes them. The workers' accesses are not looked at, nor whether they sleep.
fn shared(operation: Operation, shards: usize) -> usize {
    let (timer, clock) = Bench::workers(shards);
    let at = || Bench::at(timer.clone(), clock.clone());
    let (send, theirs) = sync_channel(1);
    let (done, is_done) = sync_channel::<()>(1);
    thread::scope(|scope| {
        let mut bench = at();
        bench.rounds(operation, 2, EACH, &mut Nothing);
        // It gives nothing back before this thread has measured, too, so no entry is handed over.
        scope.spawn(move || {
            let producers = || Operation::ALL.iter().copied().filter(|operation| operation.is_producers());
            producers().for_each(|other| at().rounds(other, 2, EACH, &mut Nothing));
            let (mut lines, mut benches) = (BTreeMap::new(), Vec::new());
            for other in producers() {
                let mut bench = at();
                measured(&mut bench, other).into_iter().for_each(|(line, writes)| {
                    *lines.entry(line).or_default() |= writes;
                });
                benches.push(bench);
            }
            send.send(lines).expect("the other thread waits");
            let _ = is_done.recv();
        });
        let theirs: BTreeMap<usize, bool> = theirs.recv().expect("the other thread measures");
        let ours = measured(&mut bench, operation);
        drop(done);
        assert_home_shards(&timer);
        ours.iter().filter(|&(line, &writes)| theirs.get(line).is_some_and(|&written| written || writes)).count()
    })
}

/// The lines that the usual operation touches.
fn measured(bench: &mut Bench, operation: Operation) -> BTreeMap<usize, bool> {
    let mut logged = Logged::default();
    bench.prepare(operation, EACH);
    bench.measure(operation, EACH, &mut logged);
    let path = |log: &[Access]| log.iter().map(|access| access.place).collect::<Vec<_>>();
    let usual = path(usual(&logged.0).1);
    let logs = logged.0.iter().filter(|(_, log)| path(log) == usual);
    touched(&logs.flat_map(|(_, log)| log).copied().collect::<Vec<_>>())
}

fn assert_home_shards(timer: &Timer) {
    let idle = timer.stats().shards.iter().filter(|shard| shard.scheduled == 0).count();
    assert_eq!(idle, 0, "each thread has a shard of its own, if there are two");
}

fn per(count: usize, operations: usize) -> f64 {
    super::rounded(count as u64, operations as u64)
}
