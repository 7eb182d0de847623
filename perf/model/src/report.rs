//! What is printed, and the JSON.

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use super::measured::{Distance, Figure};
use super::predict::{Row, Verdict};
use super::protocol::Protocol;
use super::scaling::{Curve, cores};

/// The whole result.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) protocol: Option<Protocol>,
    pub(crate) migrates: bool,
    pub(crate) rows: Vec<Row>,
    pub(crate) verdict: Verdict,
    /// None if the model is not believed.
    pub(crate) modelled: Option<Vec<Curve>>,
}

impl Report {
    pub(crate) fn print(&self) {
        if let Some(Protocol { read_modify_write, both }) = self.protocol {
            println!(
                "In transfers, of which the ping-pong's round trip has two, a read-modify-write of a line that the other \
                 core has just written adds {read_modify_write:.2} here, and after a read of it {both:.2}."
            );
        }
        let moves = if self.migrates { "moves to its reader" } else { "is copied to its reader" };
        println!("So in the model a line that was written {moves}.");
        println!("{}", self.errors());
        self.print_verdict();
        if let Some(curves) = &self.modelled {
            for distance in Distance::ALL {
                println!("Modelled, {}: millions of operations a second by cores", distance.name());
                println!("{}", throughput(curves, distance));
            }
        }
    }

    fn errors(&self) -> Table {
        let mut table = table(&[
            "operation",
            "system",
            "distance",
            "P=1, ns",
            "others, ns",
            "transfer, ns",
            "P=2, ns",
            "runs",
            "modelled, ns",
            "error",
            "transfers",
            "failed",
            "waits",
        ]);
        for row in &self.rows {
            let names = [row.operation.title(), row.timers.id(), row.distance.name()].map(Cell::new);
            let (alone, two) = (&row.alone, &row.two);
            let mark = match (row.is_checked(), row.is_predicted()) {
                (false, _) => " (few runs)",
                (true, true) => "",
                (true, false) => " !",
            };
            let mut figures = vec![
                spread(alone),
                format!("{:.1}", alone.others_ns),
                format!("{:.1}", two.round_trip_ns / 2.0),
                spread(two),
                two.runs.to_string(),
                format!("{:.1}", row.modelled_ns),
                format!("{:+.0} %{mark}", row.error_percent),
            ];
            figures.extend([row.transfers, row.failed_exchanges, row.waits].map(|number| format!("{number:.2}")));
            table.add_row(names.into_iter().chain(figures.into_iter().map(right)));
        }
        table
    }

    fn print_verdict(&self) {
        for distance in Distance::ALL {
            let rows = || {
                let at = |row: &&Row| row.distance == distance && row.timers.is_shared() && row.is_checked();
                self.rows.iter().filter(at)
            };
            let predicted = rows().filter(|row| row.is_predicted()).count();
            println!("{}: within 20 % for {predicted} of {} operations", distance.name(), rows().count());
        }
        let Verdict { predicted, checked, needed } = self.verdict;
        println!(
            "The model predicts two cores within 20 %, near and far, for {predicted} of the {checked} operations that \
             were measured at both distances. (delay-queue shares nothing, and does not count.)"
        );
        if !self.verdict.is_believed() {
            println!("It takes {needed} for the model to be believed: NOTHING IS MODELLED BEYOND TWO CORES.");
        }
    }
}

fn throughput(curves: &[Curve], distance: Distance) -> Table {
    let cores: Vec<_> = cores().map(|cores| cores.to_string()).collect();
    let heading: Vec<_> = ["operation", "system"].into_iter().chain(cores.iter().map(String::as_str)).collect();
    let mut table = table(&heading);
    for curve in curves.iter().filter(|curve| curve.distance == distance) {
        let shards = curve.shards.map_or_else(String::new, |shards| format!(", {}", shards.name()));
        let system = format!("{}{shards}", curve.timers.id());
        let mops = curve.modelled_mops.iter().map(|(_, mops)| right(format!("{mops:.1}")));
        table.add_row([Cell::new(curve.operation.title()), Cell::new(system)].into_iter().chain(mops));
    }
    table
}

fn table(heading: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(heading);
    table
}

fn spread(figure: &Figure) -> String {
    let [least, most] = figure.from_to_ns;
    format!("{:.1} ({least:.1} to {most:.1})", figure.ns)
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
