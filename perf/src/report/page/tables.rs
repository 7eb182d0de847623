//! Every figure: a table for each case and number of producers.

use std::fmt::Write as _;

use crate::compare::report::Value;
use crate::report::data::{Data, Metric, Row, TableOf, word};
use crate::report::html::escape;
use crate::report::numbers::{short, times};
use crate::report::systems::{Kind, look};

pub(crate) fn write(data: &Data) -> String {
    let name = escape(&look(data, &data.reference).label);
    let mut out = format!(
        "<section id=\"figures\">\n<h2>Every figure</h2>\n<p>Each cell: the median, × how many times worse than {name} that is (2 is \
         twice the time, or half the rate; below 1 is better than {name}), and the least and the most. “Runs” says of which \
         runs the median is and how many there were; a ratio of other runs than those has its own word.</p>\n"
    );
    for table in &data.tables {
        out.push_str(&one(data, table));
    }
    out.push_str("</section>\n");
    out
}

fn one(data: &Data, table: &TableOf) -> String {
    let producers =
        if table.producers == 1 { "1 producer".to_owned() } else { format!("{} producers", table.producers) };
    let several = data.files.len() > 1;
    // Writing to a String can't fail, here and below.
    let mut out = format!(
        "<h3 id=\"{0}-{1}\">{2} <small>({0}, {producers})</small></h3>\n<div class=\"scroll\"><table>\n<tr><th>System</th>",
        escape(&table.case),
        table.producers,
        escape(&table.title)
    );
    if several {
        out.push_str("<th>File</th>");
    }
    out.push_str("<th>Runs</th>");
    for metric in &table.metrics {
        let _ = write!(out, "<th class=\"n\">{}</th>", escape(&metric.heading));
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        let look = look(data, &row.system);
        let class = match (look.kind, row.values.is_empty()) {
            (_, true) => "none",
            (Kind::Ours, _) => "ours",
            _ => "other",
        };
        let _ = write!(out, "<tr class=\"{class}\"><td>{}</td>", escape(&look.label));
        if several {
            let _ = write!(out, "<td>{}</td>", row.file + 1);
        }
        let why = row.not_measured.as_deref().map(escape);
        if row.values.is_empty() {
            let why = why.unwrap_or_else(|| "no figure in the data".to_owned());
            let _ = writeln!(out, "<td colspan=\"{}\">not measured: {why}</td></tr>", table.metrics.len() + 1);
            continue;
        }
        let some = why.map_or(String::new(), |why| format!("<small>not in all runs: {why}</small>"));
        let _ = write!(out, "<td>{}{some}</td>", row.tag());
        for metric in &table.metrics {
            let _ = write!(out, "<td class=\"n\">{}</td>", cell(data, row, metric));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
    out
}

fn cell(data: &Data, row: &Row, metric: &Metric) -> String {
    let Some(Value { spread, ratio, compared }) = row.values.get(&metric.key) else { return "–".to_owned() };
    let mut out = short(spread.median);
    if let Some(ratio) = ratio.filter(|_| row.system != data.reference) {
        let of =
            compared.filter(|&compared| compared != row.selection).map_or(String::new(), |of| format!(" {}", word(of)));
        let _ = write!(out, " <b>×{}{of}</b>", times(ratio));
    }
    if spread.min < spread.max {
        let _ = write!(out, "<small>{} – {}</small>", short(spread.min), short(spread.max));
    }
    out
}
