//! The report: one page with a table and a plot for each case, made from what `compare --json`
//! writes.
//!
//! Each figure of the page is in the JSON. The page is an artifact, and nothing commits it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::compare::report::{MetricOf, Report, Row, TableOf, Value};
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
  cargo run --release -p tourbillon-perf -- report perf/data/report-2026-11-29.json";

/// Reads the run, and writes the page.
pub(crate) fn run(args: &ReportArgs) -> Result<bool> {
    let report: Report = json_file::read(&args.run, "compare")?;
    let folder = &args.out;
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let save = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let plots: Vec<_> = report.tables.iter().map(|table| plot(table, &report.reference)).collect();
    for (table, plot) in report.tables.iter().zip(&plots) {
        if let Some(plot) = plot {
            save(&format!("{}.svg", anchor(table)), plot)?;
        }
    }
    save("index.html", &page(&report, &plots))?;
    println!("{}: the page; beside it {} plots", folder.join("index.html").display(), plots.iter().flatten().count());
    Ok(true)
}

const STYLE: &str = "\
body { font: 15px/1.5 sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border-bottom: 1px solid #ccc; padding: .2rem .6rem; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; } td small { color: #666; display: block; }
tr.reference { font-weight: bold; } .broken { color: #b00; } svg { max-width: 100%; height: auto; }";

/// Returns the name of a table on the page and of its plot's file: `w2-1`.
fn anchor(table: &TableOf) -> String {
    format!("{}-{}", table.case, table.producers)
}

/// Writes the page, with the plot of each table that has one.
fn page(report: &Report, plots: &[Option<String>]) -> String {
    let Report { machine, .. } = report;
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { "Tourbillon beside other timers" } style { (PreEscaped(STYLE)) } }
            body {
                h1 { "Tourbillon beside other timers" }
                p {
                    (machine) "; begun " (machine.started) "; each run a process of its own, in turn; "
                    (format!("{:.0}", report.minutes)) " minutes."
                    @if report.scale < 1.0 { b { " At a scale of " (report.scale) ": too small to mean anything." } }
                }
                p {
                    "Each cell has the median, how many times worse it is than " (report.reference)
                    " (2 is twice the time, or half the rate), and the least and the most. Runs are near if a round "
                    "trip of a cache line between two cores, taken just before, was below " (report.near_below_ns)
                    " ns; medians are of the near ones if there are enough, and near is compared with near."
                }
                nav { @for table in &report.tables { a href=(format!("#{}", anchor(table))) { (anchor(table)) } " " } }
                @for (table, plot) in report.tables.iter().zip(plots) { (section(table, plot.as_deref(), &report.reference)) }
                h2 { "Systems" }
                table { @for (system, how) in &report.systems { tr { td { (system) } td { (how) } } } }
                h2 { "Versions" }
                p { @for (name, version) in &machine.crates { (name) " " (version) "; " } }
            }
        }
    };
    markup.into_string()
}

fn section(table: &TableOf, plot: Option<&str>, reference: &str) -> Markup {
    html! {
        h2 id=(anchor(table)) { (table.title) @if table.producers > 1 { ", " (table.producers) " producers" } }
        @if let Some(plot) = plot { (PreEscaped(plot)) }
        table {
            tr {
                th { "System" } th { "Runs" }
                @for metric in &table.metrics { th.n { (metric.heading) } }
            }
            @for row in &table.rows { (line(table, row, reference)) }
        }
    }
}

fn line(table: &TableOf, row: &Row, reference: &str) -> Markup {
    let is_reference = row.system == reference;
    html! {
        tr.reference[is_reference] {
            td {
                (row.system)
                @for what in row.broken() { small.broken { (what) } }
                @if let Some(why) = &row.not_measured { small { "not measured: " (why) } }
            }
            td { (row.tag()) }
            @for metric in &table.metrics {
                td.n { @if let Some(value) = row.values.get(&metric.key) { (cell(value, metric.decimals, is_reference)) } }
            }
        }
    }
}

fn cell(value: &Value, decimals: usize, is_reference: bool) -> Markup {
    let [median, least, most] = value.spread.texts(decimals);
    let ratio = value.ratio.filter(|_| !is_reference);
    html! {
        (median)
        @if let Some(ratio) = ratio { b { (format!(" ×{ratio:.2}")) } }
        @if least != most { small { (least) " – " (most) } }
    }
}

const OURS: &str = "#005fb8";
const THEIRS: &str = "#9aa5b1";

/// Draws the table's most telling figure as bars, or nothing if no system has one.
fn plot(table: &TableOf, reference: &str) -> Option<String> {
    let metric = metric(table)?;
    let value = |row: &Row| {
        let median = row.values.get(&metric.key)?.spread.median;
        Some((row.system.clone(), median, row.ours || row.system == reference))
    };
    // A system that broke a promise of a timer is in the table, and not in the race.
    let mut bars: Vec<_> = table.rows.iter().filter(|row| row.broken().is_empty()).filter_map(value).collect();
    bars.sort_by(|one, other| one.1.total_cmp(&other.1));
    if metric.more_is_better {
        bars.reverse();
    }
    let most = bars.iter().map(|bar| bar.1).fold(0.0, f64::max);
    let svg = html! {
        svg
            xmlns="http://www.w3.org/2000/svg"
            viewBox={ "0 0 900 " (30 + 24 * bars.len()) }
            font-family="sans-serif"
            font-size="13"
        {
            text x="180" y="16" { (metric.heading) @if metric.more_is_better { "; more is better" } }
            @for (at, (system, value, ours)) in bars.iter().enumerate() {
                @let (y, width) = (30 + 24 * at, value / most * 640.0);
                text x="5" y=(y + 13) { (system) }
                rect x="180" y=(y) width=(width) height="17" fill=(if *ours { OURS } else { THEIRS }) {}
                text x=(184.0 + width) y=(y + 13) { (format!("{value:.0$}", metric.decimals)) }
            }
        }
    };
    (most > 0.0).then(|| svg.into_string())
}

/// Returns what is drawn: the 99th percentile of what has percentiles, or else the first figure.
fn metric(table: &TableOf) -> Option<&MetricOf> {
    let of = |key: &str| table.metrics.iter().find(|metric| metric.key == key);
    if table.case.starts_with("w4") { of("p99_ms") } else { table.metrics.first() }
}

#[cfg(test)]
mod tests;
