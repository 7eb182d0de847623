//! The result for people.

use super::report::{Report, Row, TableOf, Value};
use super::statistics::{ENOUGH, NEAR_NS};
use crate::text_table;

/// Prints all tables, and what is to be known to read them.
pub(crate) fn print(report: &Report) {
    println!(
        "{}; {} repetitions, each a process of its own, in turn; {:.1} minutes",
        report.machine, report.repeat, report.minutes
    );
    if report.scale < 1.0 {
        println!("At a scale of {}: too small to mean anything.", report.scale);
    }
    for table in &report.tables {
        print_table(table, &report.reference);
    }
    println!(
        "\nMedian, and below it least to most. x: times worse than {}: the time over its time, or its rate over the rate; near runs with\n\
         near ones. Runs are near if a round trip of a cache line between the two cores, taken just before, was below {} ns;\n\
         medians are of the near ones if there are {ENOUGH}, or else of all.",
        report.reference, NEAR_NS
    );
    for (system, explained) in &report.systems {
        println!("  {system}: {explained}");
    }
}

fn print_table(of: &TableOf, reference: &str) {
    let producers = match of.producers {
        1 => "1 producer".to_owned(),
        many => format!("{many} producers"),
    };
    println!("\n{} ({}, {producers})", of.title, of.case);
    let mut header = vec!["system", "runs"];
    header.extend(of.metrics.iter().map(|metric| metric.heading.as_str()));
    let cells = |row: &Row| {
        let mut cells = vec![row.system.clone(), row.tag()];
        cells.extend(of.metrics.iter().map(|metric| {
            let value = row.values.get(&metric.key);
            value.map_or("-".to_owned(), |value| show(value, metric.decimals, row.system == reference))
        }));
        cells
    };
    text_table::print(&header, of.rows.iter().map(cells), 2);
    for row in &of.rows {
        if let Some(why) = &row.not_measured {
            println!("  {}: not measured{}: {why}", row.system, if row.counted.1 > 0 { " in some runs" } else { "" });
        }
        for what in row.broken() {
            println!("  {}: {what}", row.system);
        }
    }
}

/// Two lines: the median and the ratio, `44.1 x3.12`, and below them the least and the most, unless
/// they are the same.
fn show(value: &Value, decimals: usize, is_reference: bool) -> String {
    let ratio = value.ratio.filter(|_| !is_reference).map_or(String::new(), |ratio| format!(" x{ratio:.2}"));
    let [median, least, most] = value.spread.texts(decimals);
    if least == most { format!("{median}{ratio}") } else { format!("{median}{ratio}\n{least} to {most}") }
}
