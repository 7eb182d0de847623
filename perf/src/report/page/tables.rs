//! Every figure: a table for each case and number of producers.

use maud::{Markup, html};

use crate::compare::report::Value;
use crate::report::data::{Data, Metric, Row, TableOf, word};
use crate::report::numbers::{short, times};
use crate::report::systems::{Kind, look};

pub(crate) fn write(data: &Data) -> Markup {
    let name = look(data, &data.reference).label;
    html! {
        section #figures {
            h2 { "Every figure" } "\n"
            p {
                "Each cell has the median, and below it the least and the most. × says how many times worse than " (name)
                " the median is: 2 is twice the time, or half the rate; below 1 is better than " (name) ". “Runs” says of which "
                "runs the median is, and how many runs there were. A ratio of other runs than those says of which."
            } "\n"
            @for table in &data.tables { (one(data, table)) }
        }
    }
}

fn one(data: &Data, table: &TableOf) -> Markup {
    let several = data.files.len() > 1;
    html! {
        details {
            summary { (table.title) " " small { "(" (table.name()) ")" } }
            div.scroll id=(table.anchor()) {
                table {
                    tr {
                        th { "System" }
                        @if several { th { "File" } }
                        th { "Runs" }
                        @for metric in &table.metrics { th.n { (metric.heading) } }
                    } "\n"
                    @for row in &table.rows { (line(data, table, row, several)) "\n" }
                }
            }
        } "\n"
    }
}

fn line(data: &Data, table: &TableOf, row: &Row, several: bool) -> Markup {
    let look = look(data, &row.system);
    let class = match (look.kind, row.values.is_empty()) {
        (_, true) => "none",
        (Kind::Ours, _) => "ours",
        _ => "other",
    };
    let why = row.not_measured.as_deref();
    html! {
        tr class=(class) {
            td { (look.label) }
            @if several { td { (row.file + 1) } }
            @if row.values.is_empty() {
                td colspan=(table.metrics.len() + 1) { "not measured: " (why.unwrap_or("no figure in the data")) }
            } @else {
                td { (row.tag()) @if let Some(why) = why { small { "not in all runs: " (why) } } }
                @for metric in &table.metrics { td.n { (cell(data, row, metric)) } }
            }
        }
    }
}

fn cell(data: &Data, row: &Row, metric: &Metric) -> Markup {
    let Some(Value { spread, ratio, compared }) = row.values.get(&metric.key) else { return html! { "–" } };
    let ratio = ratio.filter(|_| row.system != data.reference);
    html! {
        (short(spread.median))
        @if let Some(ratio) = ratio {
            " " b {
                "×" (times(ratio))
                @if let Some(of) = compared.filter(|&of| of != row.selection) { " " (word(of)) }
            }
        }
        @if spread.min < spread.max { small { (short(spread.min)) " – " (short(spread.max)) } }
    }
}
