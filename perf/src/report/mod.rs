//! The report: one page with a table and a plot for each case, made from what `compare --json`
//! writes.
//!
//! Each figure of the page is in the JSON. The page is an artifact, and nothing commits it.

mod page;
mod plot;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::Verdict;
use crate::compare::report::Report;
use crate::json_file;

/// Options of the report.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReportArgs {
    /// The file that `compare --json` wrote
    #[arg(value_name = "RUN.json")]
    run: PathBuf,

    /// The folder for index.html and the plots
    #[arg(long, value_name = "FOLDER", default_value = "target/report")]
    out: PathBuf,
}

const AFTER_HELP: &str = "\
The page needs no script and no other file: the plots are in it. Each plot is in a file of its own,
too. perf/data has the figures of earlier reports.

Examples:
  cargo run --release -p tourbillon-perf --features peers -- compare --json run.json
  cargo run --release -p tourbillon-perf -- report run.json
  cargo run --release -p tourbillon-perf -- report perf/data/report-2026-11-25.json";

/// Reads the run, and writes the page.
pub(crate) fn run(args: &ReportArgs) -> Result<Verdict> {
    let report: Report = json_file::read(&args.run, "compare")?;
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
