//! The figures: median, least and most of each case.

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use super::lap::Lap;
use crate::process;

/// Median, least and most.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { median, min, max })
    }
}

/// A case.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) value: Option<Spread>,
    pub(crate) cpu_ns_per_op: Option<Spread>,
    pub(crate) ping_pong_ns: Option<Spread>,
    /// Every measurement, in order.
    pub(crate) laps: Vec<f64>,
}

impl Figure {
    pub(crate) fn new(name: &str, unit: &'static str, laps: &[Lap], round_trips: &[f64]) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            value: Spread::of(laps.iter().map(|lap| lap.value)),
            cpu_ns_per_op: Spread::of(laps.iter().map(|lap| lap.cpu_ns_per_op)),
            ping_pong_ns: Spread::of(round_trips.iter().copied()),
            laps: laps.iter().map(|lap| lap.value).collect(),
        }
    }
}

/// The whole result; its JSON is this, field by field.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) producers: usize,
    pub(crate) repeat: usize,
    pub(crate) cores: usize,
    pub(crate) figures: Vec<Figure>,
}

impl Report {
    pub(crate) fn new(producers: usize, repeat: usize, figures: Vec<Figure>) -> Self {
        Self { producers, repeat, cores: process::cores(), figures }
    }

    pub(crate) fn print(&self) {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header(["case", "unit", "median", "min", "max", "CPU ns per op", "ping-pong ns"]);
        for figure in &self.figures {
            let value = |pick: fn(Spread) -> f64, decimals: usize| {
                right(figure.value.map_or("-".to_owned(), |v| format!("{:.decimals$}", pick(v))))
            };
            let decimals = if figure.unit == "ms" { 2 } else { 1 };
            table.add_row([
                Cell::new(&figure.name),
                Cell::new(figure.unit),
                value(|v| v.median, decimals),
                value(|v| v.min, decimals),
                value(|v| v.max, decimals),
                right(range(figure.cpu_ns_per_op, 1)),
                right(range(figure.ping_pong_ns, 0)),
            ]);
        }
        println!(
            "{} producer{}, {} repetitions each on a fresh engine, {} cores",
            self.producers,
            if self.producers == 1 { "" } else { "s" },
            self.repeat,
            self.cores
        );
        println!("{table}");
        println!("CPU and ping-pong: median (least to most) of the repetitions.");
    }
}

fn range(spread: Option<Spread>, decimals: usize) -> String {
    spread.map_or("-".to_owned(), |s| format!("{:.decimals$} ({:.decimals$} to {:.decimals$})", s.median, s.min, s.max))
}

fn right(content: String) -> Cell {
    Cell::new(content).set_alignment(CellAlignment::Right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let median = |values: &[f64]| Spread::of(values.iter().copied()).map(|s| s.median);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
