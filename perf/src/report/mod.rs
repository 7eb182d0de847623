//! The report: a page that stands by itself, and its plots, from what `compare --json` wrote.
//!
//! `data` reads and merges runs; `systems` says what each system is called and looks like; `figures` chooses what is
//! drawn, `plot` draws it; `page` writes the HTML. There is no figure in it that is not in the JSON: what was not
//! measured is said not to be in the run.

mod data;
mod figures;
mod html;
mod numbers;
mod page;
mod plot;
mod systems;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::verdict::Verdict;
use data::Data;

pub(crate) use data::RunFile;

/// Options of the report.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReportArgs {
    /// What `compare --json` wrote; a row of a later file takes the place of the same row of an earlier one
    #[arg(required = true, value_name = "RUN.json")]
    runs: Vec<PathBuf>,

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
  tourbillon-perf report run.json large.json --out perf/report   (all cases, for a release)";

/// Reads the runs and writes the page.
pub(crate) fn run(args: &ReportArgs) -> Result<Verdict> {
    let files = args.runs.iter().map(|path| RunFile::read(path)).collect::<Result<_>>()?;
    write(files, &args.out)?;
    Ok(Verdict::Passed)
}

/// Writes index.html and the plots. A plot of an earlier report that this one does not have is removed, so that nothing old
/// stands beside it.
pub(crate) fn write(files: Vec<RunFile>, folder: &Path) -> Result<()> {
    let data = Data::merged(files)?;
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
