//! The report: one page with its plots, made from the files of `compare --json`.
//!
//! `data` reads and merges runs, and `beside` reads what other commands have counted. `systems`
//! names each system and gives it a look. `figures` chooses the plots, `plot` draws them, and
//! `page` writes the HTML. Each figure of the page is in the JSON. Where nothing was measured, the
//! page says that it is not in the run.

mod beside;
#[path = "../../costs/src/conflicts/table.rs"]
mod conflicts;
mod data;
mod echo;
mod figures;
mod html;
mod numbers;
mod page;
mod plot;
mod slope;
mod systems;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::verdict::Verdict;
use data::Data;

pub(crate) use beside::Beside;
pub(crate) use data::RunFile;

/// Options of the report.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReportArgs {
    /// Files of `compare --json`; a row of a later file replaces the same row of an earlier one;
    /// slopes are of the runs of all
    #[arg(required = true, value_name = "RUN.json")]
    runs: Vec<PathBuf>,

    /// Files of `instructions --json`
    #[arg(long, value_name = "COUNTS.json")]
    instructions: Vec<PathBuf>,

    /// Files of the echo servers of integrations/local: scripts/echo
    #[arg(long, value_name = "RUNS.jsonl")]
    echo: Vec<PathBuf>,

    /// The table of conflicts that `scripts/costs` keeps: perf/costs/conflicts.json
    #[arg(long, value_name = "FILE")]
    conflicts: Option<PathBuf>,

    /// The folder for index.html and the plots; plots there that this run does not have are removed
    #[arg(long, value_name = "FOLDER", default_value = "target/report")]
    out: PathBuf,
}

const AFTER_HELP: &str = "\
The page needs no script and no other file: the plots are in it. Each plot is in a file of its own,
too. Only runs with the same reference and at the same scale can be merged. Ratios stay within the
run that they are from.

The page goes to target/report unless --out names another folder. The committed report, in
perf/report, is rewritten only for a release, from a full run of all cases.

Examples:
  cargo run --release -p tourbillon-perf --features peers -- compare --json run.json
  cargo run --release -p tourbillon-perf -- report run.json
  tourbillon-perf report run.json large.json --out perf/report   (all cases, for a release)
  tourbillon-perf report run.json --instructions counts.json --conflicts perf/costs/conflicts.json";

/// Reads the runs, and writes the page.
pub(crate) fn run(args: &ReportArgs) -> Result<Verdict> {
    let files = args.runs.iter().map(|path| RunFile::read(path)).collect::<Result<_>>()?;
    let beside = Beside::read(&args.instructions, &args.echo, args.conflicts.as_deref())?;
    write(files, beside, &args.out)?;
    Ok(Verdict::Passed)
}

/// Writes index.html and the plots. Removes a plot of an earlier report that this one does not
/// have, so that nothing old stands beside the page.
pub(crate) fn write(files: Vec<RunFile>, beside: Beside, folder: &Path) -> Result<()> {
    let data = Data { beside, ..Data::merged(files)? };
    let figures = figures::all(&data)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let save = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let mut plots = 0;
    for figure in &figures {
        let name = format!("{}.svg", figure.name);
        if let Some(plot) = &figure.plot {
            save(&name, &plot.standalone())?;
            plots += 1;
        } else if folder.join(&name).exists() {
            fs::remove_file(folder.join(&name)).with_context(|| format!("cannot remove the old {name}"))?;
        }
    }
    save("index.html", &page::write(&data, &figures))?;
    println!("{}: the page; beside it {plots} plots", folder.join("index.html").display());
    Ok(())
}

#[cfg(test)]
mod tests;
