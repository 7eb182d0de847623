//! The command line, the table, and the verdict.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use comfy_table::{Cell, CellAlignment, presets};

use super::baseline::{Baseline, Findings};
use super::callgrind;
use super::conflicts::{self, Relation, Table};
use super::costs::{ALL, Costs, Means};
use super::explain;
use super::operation::Operation;
use super::stepper::NotPermitted;
use super::subject::{self, SubjectArgs};
use super::turns::end_with_a_panic;

/// How often a cost is counted again before it is believed to have crept.
const AGAIN: usize = 3;

/// Counts what each operation costs, and fails if one has come to cost more than the baseline says.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    job: Option<Job>,

    /// Only these operations
    operations: Vec<Operation>,

    /// The file to compare with
    #[arg(long, value_name = "FILE", default_value = "perf/costs/baseline.json")]
    baseline: PathBuf,

    /// The table of conflicts to compare with
    #[arg(long, value_name = "FILE", default_value = "perf/costs/conflicts.json")]
    conflicts: PathBuf,

    /// Only the conflicts between operations, and no costs
    #[arg(long, conflicts_with_all = ["operations", "explain"])]
    only_conflicts: bool,

    /// Write what is found into the baseline, and into the table of conflicts
    #[arg(long)]
    accept: bool,

    /// Print where the instructions and the read-modify-writes of this operation come from
    #[arg(long, value_name = "OPERATION", conflicts_with = "accept")]
    explain: Option<Operation>,
}

#[derive(Debug, Subcommand)]
enum Job {
    #[command(hide = true)]
    Subject(SubjectArgs),
    #[command(hide = true)]
    Pairs { relation: Relation },
}

pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(job) = &cli.job {
        end_with_a_panic();
        match job {
            Job::Subject(args) => subject::run(args),
            Job::Pairs { relation } => conflicts::subject::run(*relation),
        }
        return ExitCode::SUCCESS;
    }
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<bool> {
    ensure!(!cfg!(debug_assertions), "only what is built with --release costs what it costs; see scripts/costs");
    if let Some(operation) = cli.explain {
        return explain::print(operation).map(|()| true);
    }
    // Some operations were named: the conflicts are of all with all.
    let conflicts = if cli.operations.is_empty() { check_conflicts(cli)? } else { true };
    Ok((cli.only_conflicts || check_costs(cli)?) && conflicts)
}

fn check_costs(cli: &Cli) -> Result<bool> {
    let operations = &if cli.operations.is_empty() { Operation::held() } else { cli.operations.clone() };
    let valgrind = callgrind::find();
    let mut means = Means { trace: true, valgrind: valgrind.as_deref() };
    let (mut now, notes) = measure(operations, &mut means)?;
    let known =
        if cli.accept { Baseline::read(&cli.baseline).unwrap_or_default() } else { Baseline::read(&cli.baseline)? };
    measure_again(operations, &known, &mut now, means)?;
    print_table(operations, &now);
    notes.iter().for_each(|note| println!("{note}"));
    ensure!(!cli.accept || notes.is_empty(), "a baseline has to have all figures, and some can't be had here");
    if cli.accept { accept(cli, &known, now) } else { Ok(judge(&known, &now)) }
}

/// Whether no two operations share a cache line that the table does not have.
fn check_conflicts(cli: &Cli) -> Result<bool> {
    let mut now = match conflicts::measure() {
        Err(error) if error.is::<NotPermitted>() => {
            println!("{error}: CONFLICTS BETWEEN OPERATIONS WERE NOT CHECKED.");
            return Ok(true);
        }
        now => now?,
    };
    if cli.accept {
        conflicts::accept(&now, &cli.conflicts)?;
        conflicts::print(&now);
        return Ok(true);
    }
    let known = Table::read(&cli.conflicts)?;
    // A worker that wakes in between touches more; see `measure_again`.
    for _ in 0..AGAIN {
        if conflicts::compare(&known, &now).is_empty() {
            break;
        }
        now = conflicts::measure()?;
    }
    conflicts::print(&now);
    let new = conflicts::compare(&known, &now);
    new.iter().for_each(|what| println!("NEW CONFLICT {what}"));
    if new.is_empty() {
        println!("No two operations have come to share a cache line.");
    }
    Ok(new.is_empty())
}

/// Measures the operations, with what there is; and says what there is not.
fn measure(operations: &[Operation], means: &mut Means<'_>) -> Result<(Baseline, Vec<String>)> {
    let (mut now, mut notes) = (Baseline::here(), Vec::new());
    if means.valgrind.is_none() {
        notes.push("There is no valgrind here: INSTRUCTIONS UNDER CALLGRIND WERE NOT CHECKED.".to_owned());
    }
    for &operation in operations {
        eprint!("{} ", operation.name());
        let costs = Costs::measure(operation, *means).or_else(|error| {
            let refused = error.downcast::<NotPermitted>()?;
            notes.push(format!("{refused}: READ-MODIFY-WRITES, CACHE LINES AND SYSTEM CALLS WERE NOT CHECKED."));
            means.trace = false;
            Costs::measure(operation, *means)
        })?;
        now.operations.insert(operation.name(), costs);
    }
    eprintln!();
    Ok((now, notes))
}

/// Measures what seems to cost more than it did again, and keeps the least of each figure.
///
/// On a loaded machine the copy that is stepped through does more now and then: its worker wakes in
/// between, or its clock is due to be looked at. It never does less.
fn measure_again(operations: &[Operation], known: &Baseline, now: &mut Baseline, means: Means<'_>) -> Result<()> {
    for _ in 0..AGAIN {
        for &operation in operations {
            let name = operation.name();
            if !known.has_crept(now, &name) {
                continue;
            }
            eprintln!("{name} once more");
            let costs = Costs::measure(operation, means)?.least(&now.operations[&name]);
            now.operations.insert(name, costs);
        }
    }
    Ok(())
}

fn print_table(operations: &[Operation], now: &Baseline) {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["operation"].into_iter().chain(ALL.iter().map(|cost| cost.heading)));
    for operation in operations {
        let costs = &now.operations[&operation.name()];
        let figure = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        let figures = ALL.iter().map(|cost| right(figure((cost.of)(costs))));
        table.add_row([Cell::new(operation.name())].into_iter().chain(figures));
    }
    println!("{}, clock source {}", now.rustc, now.clock_source);
    println!("{table}");
}

fn accept(cli: &Cli, known: &Baseline, now: Baseline) -> Result<bool> {
    let across = |costs: &Costs| costs.lines_shared_across_shards.is_some_and(|lines| lines > 0.0);
    let broken: Vec<_> = now.operations.iter().filter(|(_, costs)| across(costs)).map(|(name, _)| name).collect();
    ensure!(
        broken.is_empty(),
        "a baseline can't allow a cache line that producers of two shards share (see ARCHITECTURE.md); in {broken:?}"
    );
    known.updated_by(now).write(&cli.baseline)?;
    println!("Written to {}.", cli.baseline.display());
    Ok(true)
}

/// True if nothing crept.
fn judge(known: &Baseline, now: &Baseline) -> bool {
    let Findings { crept, better, unchecked } = known.compare(now);
    if known.rustc != now.rustc {
        println!("The baseline is of another compiler, {}.", known.rustc);
        println!(
            "Instructions may be {:.0} % off; scripts/costs --accept makes a baseline for this one.",
            known.tolerance(now) * 100.0
        );
    }
    if known.clock_source != now.clock_source {
        println!(
            "The baseline is of a machine with the clock source {}: producers do other things here.",
            known.clock_source
        );
    }
    unchecked.iter().for_each(|what| println!("NOT CHECKED  {what}"));
    better.iter().for_each(|what| println!("less         {what}"));
    if !better.is_empty() {
        println!("Some costs have become less: scripts/costs --accept holds them there.");
    }
    if crept.is_empty() {
        println!("{} operations: no cost has crept.", now.operations.len());
        return true;
    }
    for what in &crept {
        println!("CREPT        {what}");
    }
    println!(
        "Some costs have crept. scripts/costs --explain OPERATION shows where they come from. If they are worth it, take them \
         into the baseline with scripts/costs --accept, and say why in the commit's message."
    );
    false
}
