//! The page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::compare::report::{Report, Row, TableOf, Value};

const STYLE: &str = "\
body { font: 15px/1.5 sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border-bottom: 1px solid #ccc; padding: .2rem .6rem; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; } td small { color: #666; display: block; }
tr.reference { font-weight: bold; } .broken { color: #b00; } svg { max-width: 100%; height: auto; }";

/// Returns the name of a table on the page and of its plot's file: `w2-1`.
pub(super) fn anchor(table: &TableOf) -> String {
    format!("{}-{}", table.case, table.producers)
}

/// Writes the page, with the plot of each table that has one.
pub(super) fn page(report: &Report, plots: &[Option<String>]) -> String {
    let Report { machine, .. } = report;
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { "Tourbillon beside other timers" } style { (PreEscaped(STYLE)) } }
            body {
                h1 { "Tourbillon beside other timers" }
                p {
                    (machine.processor) ", " (machine.cores) " cores, Linux " (machine.kernel) ", " (machine.rustc)
                    "; commit " (machine.commit) "; begun " (machine.started) "; each run a process of its own, in turn; "
                    (format!("{:.0}", report.minutes)) " minutes."
                    @if report.scale < 1.0 { b { " At a scale of " (report.scale) ": too small to mean anything." } }
                    @if machine.debug_assertions { b { " A build for debugging: no figure means anything." } }
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
    let [median, least, most] =
        [value.spread.median, value.spread.min, value.spread.max].map(|value| format!("{value:.decimals$}"));
    let ratio = value.ratio.filter(|_| !is_reference);
    html! {
        (median)
        @if let Some(ratio) = ratio { b { (format!(" ×{ratio:.2}")) } }
        @if least != most { small { (least) " – " (most) } }
    }
}
