//! The report: one page with a table and a plot for each case, made from files of `compare --json`.
//!
//! Each figure of the page is in the JSON. The page is an artifact, and nothing commits it.

mod merge;
mod page;
mod plot;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::Verdict;
use crate::json_file;

/// Options of the report.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReportArgs {
    /// Files of `compare --json`; a row of a later file replaces the same row of an earlier one
    #[arg(required = true, value_name = "RUN.json")]
    runs: Vec<PathBuf>,

    /// The folder for index.html and the plots
    #[arg(long, value_name = "FOLDER", default_value = "target/report")]
    out: PathBuf,
}

const AFTER_HELP: &str = "\
The page needs no script and no other file: the plots are in it. Each plot is in a file of its own,
too. Only runs with the same reference and at the same scale can be merged. Ratios stay within the
run that they are from. perf/data has the figures of earlier reports.

Examples:
  cargo run --release -p tourbillon-perf --features peers -- compare --json run.json
  cargo run --release -p tourbillon-perf -- report run.json
  cargo run --release -p tourbillon-perf -- report perf/data/report-2026-11-25.json";

/// Reads the runs, and writes the page.
pub(crate) fn run(args: &ReportArgs) -> Result<Verdict> {
    let files = args.runs.iter().map(|path| json_file::read(path, "compare")).collect::<Result<Vec<_>>>()?;
    let report = merge::merged(files)?;
    let folder = &args.out;
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let save = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let plots = report.tables.iter().map(|table| plot::plot(table, &report.reference)).collect::<Result<Vec<_>>>()?;
    for (table, plot) in report.tables.iter().zip(&plots) {
        if let Some(plot) = plot {
            save(&format!("{}.svg", page::anchor(table)), plot)?;
        }
    }
    save("index.html", &page::page(&report, &plots))?;
    println!("{}: the page; beside it {} plots", folder.join("index.html").display(), plots.iter().flatten().count());
    Ok(Verdict::Passed)
}

#[cfg(test)]
mod tests;
