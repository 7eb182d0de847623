//! `tourbillon-costs`: the countable costs of each operation, held to limits.
//!
//! Nothing here depends on time or on other programs. This program does one operation many times in
//! a copy of itself that has no other thread: under callgrind, which counts instructions, and with
//! an allocator that counts. The same program, compiled with `--cfg count_accesses`, counts
//! read-modify-writes and cache lines. `scripts/costs` compiles both.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, thread};

use tourbillon::ManualClock;

#[cfg(count_accesses)]
mod accesses;
mod bench;
mod meter;
mod operation;
mod table;
mod valgrind;

use bench::{Bench, LocalBench, Rounds};
use meter::{Collected, Counting, HeapAndWakeUps, Meter, Nothing};
use operation::Operation;
use table::{Costs, Table};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type Result<T> = std::result::Result<T, String>;

/// Operations in a round: fewer than wake a worker.
const ROUND: usize = 1_000;
/// Timeouts in a turn, of which a round is one.
const TURN: usize = 128;
/// Rounds whose instructions and accesses are counted.
const ROUNDS: usize = 4;
/// Rounds during which allocations and wake-ups are counted.
const HEAP_ROUNDS: usize = 100;

const USAGE: &str = "usage: tourbillon-costs --limits FILE --counting PROGRAM [--accept] [OPERATION...]
       tourbillon-costs --counting PROGRAM --explain OPERATION";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tourbillon-costs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<bool> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["copy", how, name] = words[..] {
        return be_measured(how, Operation::named(name).ok_or(USAGE)?).map(|()| true);
    }
    if cfg!(debug_assertions) {
        return Err("only what is built with --release costs what it costs; see scripts/costs".to_owned());
    }
    let (mut limits, mut counting, mut accepts, mut explain, mut operations) = (None, None, false, None, Vec::new());
    let named = |name: &str| Operation::named(name).ok_or_else(|| format!("there is no operation '{name}'\n{USAGE}"));
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
        match word {
            "--limits" => limits = Some(PathBuf::from(value()?)),
            "--counting" => counting = Some(PathBuf::from(value()?)),
            "--explain" => explain = Some(named(value()?)?),
            "--accept" => accepts = true,
            name => operations.push(named(name)?),
        }
    }
    let counting = counting.ok_or(USAGE)?;
    if let Some(operation) = explain {
        return explained(operation, &counting).map(|()| true);
    }
    let limits = limits.ok_or(USAGE)?;
    let known = Table::read(&limits).or_else(|error| if accepts { Ok(Table::default()) } else { Err(error) })?;
    let now = measure(if operations.is_empty() { Operation::ALL } else { &operations }, &counting)?;
    print!("{}", now.to_text());
    if accepts {
        if !valgrind::is_here() {
            return Err("without valgrind not all costs are known: nothing was written".to_owned());
        }
        return now.write_over(&known, &limits).map(|()| true);
    }
    let (above, other) = known.compare(&now);
    other.iter().for_each(|what| println!("{what}"));
    above.iter().for_each(|what| println!("ABOVE THE LIMIT: {what}"));
    if above.is_empty() {
        println!("{} operations: no cost is above its limit.", now.operations.len());
    } else {
        println!("scripts/costs --explain OPERATION shows where costs come from. If they are worth it, write them");
        println!("into {} with scripts/costs --accept, and say why in the commit's message.", limits.display());
    }
    Ok(above.is_empty())
}

/// Runs in a copy of this program: does the operation, for the meter that `how` names.
fn be_measured(how: &str, operation: Operation) -> Result<()> {
    match how {
        "collect" => {
            let (real_clock, looks) = (!operation.needs_manual_clock(), operation.reads_clock());
            do_rounds(operation, operation.in_round(), ROUNDS, real_clock, &mut Collected { looks });
        }
        "heap" => {
            let mut counts = HeapAndWakeUps::default();
            do_rounds(operation, ROUND, HEAP_ROUNDS, false, &mut counts);
            println!("{} {}", counts.wake_ups, counts.allocations);
        }
        #[cfg(count_accesses)]
        "accesses" => accesses::count(operation),
        #[cfg(count_accesses)]
        "explain" => accesses::explain(operation),
        _ => return Err(USAGE.to_owned()),
    }
    Ok(())
}

/// Does the operation in so many rounds, after some that are not measured. `real_clock` says which
/// clock producers read.
fn do_rounds(operation: Operation, n: usize, rounds: usize, real_clock: bool, meter: &mut impl Meter) {
    fn on(mut bench: impl Rounds, operation: Operation, n: usize, rounds: usize, meter: &mut impl Meter) {
        bench.rounds(operation, 4, n, &mut Nothing);
        bench.rounds(operation, rounds, n, meter);
    }
    if operation.is_local() {
        on(LocalBench::new(), operation, n, rounds, meter);
    } else {
        on(Bench::driven((!real_clock).then(ManualClock::new)), operation, n, rounds, meter);
    }
}

/// Measures the operations, one for each processor at a time.
fn measure(operations: &[Operation], counting: &PathBuf) -> Result<Table> {
    let valgrind = valgrind::is_here();
    if !valgrind {
        println!("There is no valgrind here: INSTRUCTIONS WERE NOT CHECKED.");
    }
    let (next, table) = (AtomicUsize::new(0), Mutex::new(Ok(Table::here())));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(&operation) = operations.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let costs = costs(operation, counting, valgrind);
                    let mut table = table.lock().expect("no thread panics");
                    match (&mut *table, costs) {
                        (Ok(table), Ok(costs)) => _ = table.operations.insert(operation.name().to_owned(), costs),
                        (Ok(_), Err(error)) => *table = Err(format!("{}: {error}", operation.name())),
                        (Err(_), _) => return,
                    }
                }
            });
        }
    });
    table.into_inner().expect("no thread panicked")
}

fn costs(operation: Operation, counting: &PathBuf, valgrind: bool) -> Result<Costs> {
    let numbers = |said: String| said.split_whitespace().map(|word| word.parse::<f64>().ok()).collect::<Vec<_>>();
    let accesses = numbers(output(Command::new(counting).args(["copy", "accesses", operation.name()]))?);
    let [exchanges, mean, written, other_shard, same_shard] = accesses[..] else {
        return Err(format!("{} was not compiled with --cfg count_accesses", counting.display()));
    };
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let heap = numbers(output(Command::new(this).args(["copy", "heap", operation.name()]))?);
    let instructions = if valgrind { Some(valgrind::instructions(operation)?) } else { None };
    Ok([exchanges, mean, written, other_shard, same_shard, heap[0], heap[1], instructions])
}

fn explained(operation: Operation, counting: &PathBuf) -> Result<()> {
    print!("{}", output(Command::new(counting).args(["copy", "explain", operation.name()]))?);
    let profile = env::temp_dir().join(format!("callgrind.out.{}", operation.name()));
    valgrind::profile(operation, &profile)?;
    println!("instructions of {} operations, with those of what each function calls:", operation.collected());
    println!("{}", output(Command::new("callgrind_annotate").arg("--inclusive=yes").arg(&profile))?);
    println!("See callgrind_annotate or kcachegrind with {}.", profile.display());
    Ok(())
}

/// Returns the standard output of a program that succeeds.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let failed = |what: String| format!("{program}: {what}");
    match command.output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)))),
        Err(error) => Err(failed(error.to_string())),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few millions")]
fn rounded(count: u64, operations: u64) -> f64 {
    (count as f64 / operations as f64 * 100.0).round() / 100.0
}
