//! What was counted without a clock: instructions for each request, and which operations share a
//! cache line; and how dear that sharing is.

use maud::{Markup, html};

use crate::report::beside::Counts;
use crate::report::conflicts::{Relation, Table};
use crate::report::data::{Data, TableOf};
use crate::report::figures::SLOPES;
use crate::report::numbers::{short, times};
use crate::report::slope::Slope;
use crate::report::systems::{Kind, Look, look};

/// The timers that the others are compared with, as `instructions` calls them.
const OURS: &str = "tourbillon";

const INSTRUCTIONS: &str = "What a server executes in user space for one request, as callgrind counts \
    it: the difference of two runs, divided by the requests that the second has more. No clock is in \
    it, so a busy machine does not change it. The kernel's part, which is the larger one, is not in \
    it either. × says how many times those of ours.";
const CONFLICTS: &str = "For every pair of operations, one by each of two threads: the cache lines that \
    both touch and one writes, found by stepping through each operation, on its usual way, instruction \
    by instruction. Two operations without a letter share nothing there. The timeouts are different \
    ones: two threads that reset one timeout share its line, of course, and so do a producer and the \
    worker that expires it. The test of CI fails if a letter comes to stand where there is none.";

/// The instructions of servers. Nothing if there is no file with them.
pub(super) fn instructions(data: &Data) -> Markup {
    html! {
        @if !data.beside.counts.is_empty() {
            section #instructions {
                h2 { "Instructions for each request" } "\n"
                p { (INSTRUCTIONS) } "\n"
                @for counts in &data.beside.counts { (counted(counts)) }
            }
        }
    }
}

fn counted(counts: &Counts) -> Markup {
    let Counts { machine, requests, connections, .. } = counts;
    let connections =
        if *connections == 1 { "one connection".to_owned() } else { format!("{connections} connections") };
    html! {
        details open {
            summary {
                (short(*requests as f64)) " requests over " (connections) " "
                small { "(commit " (machine.commit) ", " (machine.rustc) ")" }
            }
            div.scroll {
                table {
                    tr { th { "Server" } th { "Timers" } th.n { "Instructions" } th.n { "Least to most" } } "\n"
                    @for (server, rows) in counts.servers() {
                        @let ours = rows.iter().find(|row| row.timers == OURS).map(|row| row.instructions.median);
                        @for row in rows {
                            @let is_ours = row.timers == OURS;
                            tr class=(if is_ours { "ours" } else { "other" }) {
                                td { (server) }
                                td { (row.timers) }
                                td.n {
                                    (short(row.instructions.median.round()))
                                    @if let Some(ours) = ours.filter(|_| !is_ours) {
                                        " " b { "×" (times(row.instructions.median / ours)) }
                                    }
                                }
                                td.n {
                                    (short(row.instructions.min.round())) " – "
                                    (short(row.instructions.max.round()))
                                }
                            } "\n"
                        }
                    }
                }
            }
        } "\n"
    }
}

/// The slopes of two producers' operations, as a table.
pub(super) fn slopes(data: &Data) -> Markup {
    let tables: Vec<(&str, &TableOf)> =
        SLOPES.iter().filter_map(|&(_, case, operation)| Some((operation, data.table(case, 2)?))).collect();
    let slope = |table: &TableOf, system: &str| Slope::of(table.row(system)?, "ns");
    let row = |system| {
        let (look, slopes) = (look(data, system), tables.iter().map(|(_, table)| slope(table, system)));
        (look, slopes.collect::<Vec<_>>())
    };
    let is_shown =
        |(look, slopes): &(Look, Vec<Option<Slope>>)| look.kind != Kind::Floor && slopes.iter().any(Option::is_some);
    let rows: Vec<_> = data.systems_in_order().into_iter().map(row).filter(is_shown).collect();
    html! {
        @if !rows.is_empty() {
            details open {
                summary { "Round trips of a cache line for each operation, with the standard error" }
                div.scroll {
                    table {
                        tr { th { "System" } @for (operation, _) in &tables { th.n { (operation) } } } "\n"
                        @for (look, slopes) in rows {
                            tr class=(if look.kind == Kind::Ours { "ours" } else { "other" }) {
                                td { (look.label) }
                                @for slope in slopes {
                                    td.n {
                                        @match slope {
                                            Some(slope) => {
                                                @let runs = slope.runs.len();
                                                (slope.text())
                                                small { "± " (format!("{:.2}", slope.error)) ", " (runs) " runs" }
                                            }
                                            None => "–",
                                        }
                                    }
                                }
                            } "\n"
                        }
                    }
                }
            } "\n"
        }
    }
}

/// The matrix of conflicts. Nothing if there is no file with it.
pub(super) fn conflicts(data: &Data) -> Markup {
    html! {
        @if let Some(table) = &data.beside.conflicts {
            p { (CONFLICTS) } "\n"
            @for &relation in table.relations.keys() { (matrix(table, relation)) }
        }
    }
}

fn matrix(table: &Table, relation: Relation) -> Markup {
    let legend = table.legend(relation);
    let columns = table.columns(relation);
    html! {
        @if legend.is_empty() {
            @let pairs = table.operations.len() * columns.len();
            p { b { (relation.explained()) } ": none, in any of " (pairs) " pairs." } "\n"
        } @else {
            details open {
                summary { (relation.explained()) }
                ul { @for (letter, name) in &legend { li { b { (letter) } ": " (name) } "\n" } }
                div.scroll {
                    table.matrix {
                        tr {
                            th {}
                            @for (number, column) in columns.iter().enumerate() {
                                th { @if relation.is_symmetric() { (number + 1) } @else { (column) } }
                            }
                        } "\n"
                        @for (number, row) in table.operations.iter().enumerate() {
                            tr {
                                td { (number + 1) " " (row) }
                                @for column in columns { td { (table.letters(relation, row, column)) } }
                            } "\n"
                        }
                    }
                }
            } "\n"
        }
    }
}
