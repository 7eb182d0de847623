//! The plots, and the data that goes into each.

use anyhow::Result;

use super::data::{Data, Row, TableOf};
use super::numbers::{percent, plain, round_number};
use super::plot::Plot;
use super::plot::bars::{self, Line, Panel};
use super::plot::lines::{self, Axis, Series};
use super::slope::Slope;
use super::systems::look;

/// A timeout that ran sooner after its deadline is drawn here.
const LEAST_LATENESS_MS: f64 = 0.01;
/// The number of timeouts that the workload of lateness schedules at full size.
const LATENESS_TIMEOUTS: f64 = 1e6;
/// The marks of an axis of percentiles, as HdrHistogram has them.
const SHARES: [(f64, &str); 7] = [
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.999_99, "99.999 %"),
    (0.999_999, "99.9999 %"),
];
const PENDING: [(&str, f64); 4] = [("w8-10k", 1e4), ("w8-100k", 1e5), ("w8-1m", 1e6), ("w8-10m", 1e7)];
/// By the timer operations of a request. None can't stand on a logarithmic axis.
const SESSIONS: [(&str, f64); 4] = [("w11-1", 1.0), ("w11-2", 2.0), ("w11-4", 4.0), ("w11-8", 8.0)];
const COUNTED: [(&str, f64); 4] =
    [("w11-counted-1", 1.0), ("w11-counted-2", 2.0), ("w11-counted-4", 4.0), ("w11-counted-8", 8.0)];
const BY_PRODUCERS: &str = "w8-producers";

/// The names of all plots, which are the names of their files.
pub(crate) const NAMES: [&str; 20] = [
    "w1",
    "w2",
    "w3",
    "w7",
    "lateness-w4",
    "lateness-w4-fine",
    "lateness-w4-crowded",
    "pending-schedule",
    "pending-cancel",
    "pending-reset",
    "producers-schedule",
    "producers-cancel",
    "producers-reset",
    "memory",
    "idle",
    "sessions-cpu",
    "sessions-instructions",
    "slope-w1",
    "slope-w2",
    "slope-w3",
];
/// The cases whose slopes are drawn: the plot, the case, and its operation.
pub(crate) const SLOPES: [(&str, &str, &str); 3] =
    [("slope-w1", "w1", "Schedule"), ("slope-w2", "w2", "Schedule and cancel"), ("slope-w3", "w3", "Reset")];

/// A plot, or the cases that it would need.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) title: String,
    pub(crate) plot: Option<Plot>,
    pub(crate) needs: &'static str,
}

/// A panel: its heading, its case and producers, the figure, the unit behind each figure, what the
/// axis counts, and the figure drawn below.
type Wanted = (&'static str, &'static str, usize, &'static str, &'static str, &'static str, Option<&'static str>);

const EACH: &str = "ns per operation (thin: CPU, whole process)";
const CPU: Option<&str> = Some("cpu_ns");

/// Returns all plots, in the order in which [`NAMES`] has them.
pub(crate) fn all(data: &Data) -> Result<Vec<Figure>> {
    let one_two =
        |case| [("1 producer", case, 1, "ns", "ns", EACH, CPU), ("2 producers", case, 2, "ns", "ns", EACH, CPU)];
    let burst = [
        ("Until the last has run", "w7", 1, "ms", "ms", "ms after the deadline", None),
        ("CPU of the process", "w7", 1, "cpu_ns", "ns", "ns of CPU time per timeout", None),
        ("Until the last has run, each reads the clock", "w7-clock", 1, "ms", "ms", "ms after the deadline", None),
    ];
    let each = "resident bytes per timeout";
    let memory = [
        ("1,000,000 pending", "w5", 1, "bytes", "B", each, None),
        ("10,000,000 pending", "w5-10m", 1, "bytes", "B", each, None),
    ];
    let woken = "wake-ups in 5 s";
    let idle = [
        ("Nothing pending", "w6-empty", 1, "wakeups", "", woken, None),
        ("1,000,000 due in an hour", "w6", 1, "wakeups", "", woken, None),
    ];
    let mut figures = vec![
        bar_plot(data, "w1", "Schedule, capacity reserved: ns per operation", "w1", &one_two("w1"))?,
        bar_plot(data, "w2", "Schedule and cancel: ns per pair", "w2", &one_two("w2"))?,
        bar_plot(data, "w3", "Reset: ns per operation", "w3", &one_two("w3"))?,
        bar_plot(data, "w7", "100,000 timeouts on one deadline", "w7 and w7-clock", &burst)?,
        lateness(data, "lateness-w4", "w4", "Lateness by percentile, tick of 1 ms")?,
        lateness(data, "lateness-w4-fine", "w4-fine", "Lateness by percentile, tick of 100 µs or none")?,
        lateness(
            data,
            "lateness-w4-crowded",
            "w4-crowded",
            "Lateness by percentile, tick of 1 ms, 10,000,000 more pending",
        )?,
    ];
    let operations = [
        ("schedule", "schedule_ns", "schedule_mops"),
        ("cancel", "cancel_ns", "cancel_mops"),
        ("reset", "reset_ns", "reset_mops"),
    ];
    for (at, (operation, ns, _)) in operations.into_iter().enumerate() {
        figures.push(pending(data, NAMES[7 + at], operation, ns)?);
    }
    for (at, (operation, _, rate)) in operations.into_iter().enumerate() {
        figures.push(producers(data, NAMES[10 + at], operation, rate)?);
    }
    figures.push(bar_plot(data, "memory", "Resident bytes per pending timeout", "w5 and w5-10m", &memory)?);
    figures.push(bar_plot(data, "idle", "Wake-ups in 5 s of idleness", "w6-empty and w6", &idle)?);
    let cpu = ("sessions-cpu", "CPU ns of the server per request", "cpu_ns", "w11-1 to w11-8");
    figures.push(sessions(data, cpu, &SESSIONS)?);
    let instructions = "instructions of the server per request, without the kernel";
    let instructions = ("sessions-instructions", instructions, "instructions", "w11-counted-1 to w11-counted-8");
    figures.push(sessions(data, instructions, &COUNTED)?);
    for (name, case, operation) in SLOPES {
        figures.push(slope(data, name, case, operation)?);
    }
    Ok(figures)
}

fn bar_plot(data: &Data, name: &'static str, title: &str, needs: &'static str, wanted: &[Wanted]) -> Result<Figure> {
    let measured = |table: &TableOf, key| table.rows.iter().any(|row| row.median(key).is_some());
    let panel = |&(heading, case, producers, key, unit, axis, below): &Wanted| {
        let table = data.table(case, producers).filter(|table| measured(table, key))?;
        Some(Panel { heading: heading.to_owned(), table, key, unit, axis, below })
    };
    let panels: Vec<_> = wanted.iter().filter_map(panel).collect();
    let line = |system: &str| Line { system: system.to_owned(), look: look(data, system) };
    let lines = data.systems_in_order().into_iter().map(line).collect();
    let plot = if panels.is_empty() { None } else { Some(bars::plot(title, &panels, lines)?) };
    Ok(Figure { name, title: title.to_owned(), plot, needs })
}

fn lateness(data: &Data, name: &'static str, case: &'static str, title: &str) -> Result<Figure> {
    let rows = data.table(case, 1).map(|table| table.rows.as_slice()).unwrap_or_default();
    let series: Vec<_> = rows.iter().filter_map(|row| lateness_of(data, row)).collect();
    let reached = series.iter().flat_map(|one| &one.points).map(|point| point.0).fold(1.0, f64::max);
    let marks: Vec<_> = SHARES
        .iter()
        .map(|&(share, text)| (1.0 / (1.0 - share), text.to_owned()))
        .filter(|(at, _)| *at <= reached * 1.5)
        .collect();
    let x = Axis { label: "percentile of the timeouts", low: 1.0, high: reached * 1.06, marks };
    let values = series.iter().flat_map(|one| &one.points).map(|point| point.1);
    let y = Axis::around("ms after the deadline", values, plain);
    let plot = if series.is_empty() { None } else { Some(lines::plot(title, &x, &y, &series)?) };
    Ok(Figure { name, title: title.to_owned(), plot, needs: case })
}

fn lateness_of(data: &Data, row: &Row) -> Option<Series> {
    let within = row.percentiles.iter().filter(|&&(share, _)| share < 1.0);
    let points: Vec<_> = within.map(|&(share, ms)| (1.0 / (1.0 - share), ms.max(LEAST_LATENESS_MS))).collect();
    points.first()?;
    let dot = |&(share, _): &(f64, &str)| {
        let at = 1.0 / (1.0 - share);
        // The first reading at or beyond the share: readings are close to each other.
        points.iter().copied().find(|point| point.0 >= at * 0.999)
    };
    let dots = SHARES.iter().filter_map(dot).collect();
    let early = row.median("early").unwrap_or(0.0) / (LATENESS_TIMEOUTS * data.scale());
    let missing = row.median("missing").unwrap_or(0.0) / (LATENESS_TIMEOUTS * data.scale());
    let remark = [(early, "early"), (missing, "lost")].into_iter().find(|(share, _)| *share > 0.0);
    let remark = remark.map(|(share, what)| format!("{} {what}", percent(share)));
    Some(Series { look: look(data, &row.system), remark, points, dots })
}

fn pending(data: &Data, name: &'static str, operation: &str, key: &str) -> Result<Figure> {
    let at = |&(case, timeouts): &(&str, f64)| Some((timeouts * data.scale(), data.table(case, 1)?));
    let tables: Vec<_> = PENDING.iter().filter_map(at).collect();
    let title = format!("{operation} by number pending: ns per operation, one producer");
    growth(data, name, title, ("timeouts pending", "ns per operation"), &tables, key, "w8-10k to w8-10m")
}

fn producers(data: &Data, name: &'static str, operation: &str, key: &str) -> Result<Figure> {
    let of_case = |table: &&TableOf| table.case == BY_PRODUCERS;
    let tables: Vec<_> = data.tables.iter().filter(of_case).map(|table| (table.producers as f64, table)).collect();
    let title = format!("{operation} by number of producers: millions a second, all producers together");
    growth(data, name, title, ("producer threads", "million operations a second"), &tables, key, BY_PRODUCERS)
}

/// A plot: its name, what its axis counts, the figure, and the cases that it needs.
type BySessions = (&'static str, &'static str, &'static str, &'static str);

fn sessions(data: &Data, (name, up, key, needs): BySessions, cases: &[(&str, f64)]) -> Result<Figure> {
    let tables: Vec<_> = cases.iter().filter_map(|&(case, timers)| Some((timers, data.table(case, 1)?))).collect();
    let title = format!("{up}, by timer operations");
    growth(data, name, title, ("timer operations per request", up), &tables, key, needs)
}

/// The runs of a case with two producers, by how far the cores were from each other.
fn slope(data: &Data, name: &'static str, case: &'static str, operation: &str) -> Result<Figure> {
    let rows = data.table(case, 2).map(|table| table.rows.as_slice()).unwrap_or_default();
    let one = |row: &Row| {
        let slope = Slope::of(row, "ns")?;
        let (least, most) = slope.range();
        // A straight line is a curve on logarithmic axes. The last point is the end of the line.
        let at = |step: i32| least * (most / least).powf(f64::from(step) / 40.0);
        let points = (0..=40).map(|step| (at(step), slope.at(at(step)))).filter(|point| point.1 > 0.0).collect();
        let remark = Some(slope.text());
        Some(Series { look: look(data, &row.system), remark, points, dots: slope.runs })
    };
    let series: Vec<_> = rows.iter().filter_map(one).collect();
    let title = format!("{operation}, two producers: ns per operation, by the way between the cores");
    let dots = || series.iter().flat_map(|one| &one.dots);
    let x = Axis::around("ns of a cache line's round trip, just before the run", dots().map(|dot| dot.0), plain);
    let y = Axis::around("ns per operation", dots().map(|dot| dot.1), plain);
    let plot = if series.is_empty() { None } else { Some(lines::plot(&title, &x, &y, &series)?) };
    Ok(Figure { name, title, plot, needs: "three near runs and three far ones" })
}

/// A figure of several tables, drawn by the number in which they differ.
fn growth(
    data: &Data,
    name: &'static str,
    title: String,
    (across, up): (&'static str, &'static str),
    tables: &[(f64, &TableOf)],
    key: &str,
    needs: &'static str,
) -> Result<Figure> {
    let mut tables = tables.to_vec();
    tables.sort_by(|one, other| one.0.total_cmp(&other.0));
    let one = |system: &str| {
        let point = |&(at, table): &(f64, &TableOf)| Some((at, table.row(system)?.median(key)?)).filter(|p| p.1 > 0.0);
        let points: Vec<_> = tables.iter().filter_map(point).collect();
        let dots = points.clone();
        (!points.is_empty()).then(|| Series { look: look(data, system), remark: None, points, dots })
    };
    let series: Vec<_> = data.systems_in_order().into_iter().filter_map(one).collect();
    let marks: Vec<_> = tables.iter().map(|&(at, _)| (at, round_number(at))).collect();
    let (low, high) = (tables.first().map_or(1.0, |first| first.0), tables.last().map_or(1.0, |last| last.0));
    // A little room at both sides keeps the dots off the axis.
    let room = (high / low).powf(0.03).max(1.05);
    let x = Axis { label: across, low: low / room, high: high * room, marks };
    let y = Axis::around(up, series.iter().flat_map(|one| &one.points).map(|point| point.1), plain);
    let plot = if series.is_empty() { None } else { Some(lines::plot(&title, &x, &y, &series)?) };
    Ok(Figure { name, title, plot, needs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{data, parse};

    #[test]
    fn each_plot_is_well_formed_the_same_each_time_and_names_each_system_that_has_a_figure() {
        let (once, again) = (all(&data()).expect("plots"), all(&data()).expect("plots"));
        assert_eq!(once.iter().map(|figure| figure.name).collect::<Vec<_>>(), NAMES);
        for (one, other) in once.iter().zip(&again) {
            assert_eq!(one.plot, other.plot, "{}", one.name);
            let Some(plot) = &one.plot else { continue };
            parse(&plot.standalone(), |document| {
                assert_eq!(document.root_element().attribute("aria-label"), Some(&*one.title))
            });
        }
        let texts = |name| {
            let figure = once.iter().find(|figure| figure.name == name).expect("a name");
            let mut texts = Vec::new();
            parse(&figure.plot.as_ref().expect("a plot").standalone(), |document| {
                let text = document.descendants().filter(|node| node.tag_name().name() == "text");
                texts = text.filter_map(|node| Some(node.text()?.trim().to_owned())).collect();
            });
            texts
        };
        let w2 = texts("w2");
        assert!(
            ["Tourbillon", "Netty 4.1", "odd <name> & \"more\"", "30 ns", "100 ns (×3.33)"]
                .iter()
                .all(|text| w2.iter().any(|one| one == text)),
            "{w2:?}"
        );
        assert!(!w2.contains(&"hashed_wheel_timer".to_owned()), "it has no figure there");
        assert!([EACH, "0", "200"].iter().all(|text| w2.iter().any(|one| one == text)), "an axis: {w2:?}");
        let burst = texts("w7");
        assert!(["ms after the deadline", "3 ms"].iter().all(|text| burst.iter().any(|one| one == text)), "{burst:?}");
        let lateness = texts("lateness-w4");
        for text in
            ["50 %", "90 %", "99 %", "99.9 %", "99.99 %", "Tourbillon", "Netty 4.1", "hashed_wheel_timer, 12 % early"]
        {
            assert!(lateness.iter().any(|one| one == text), "no {text} in {lateness:?}");
        }
        let pending = texts("pending-reset");
        assert!(
            ["10 K", "1 M", "Tourbillon", "Netty 4.1"].iter().all(|text| pending.iter().any(|one| one == text)),
            "{pending:?}"
        );
    }

    #[test]
    fn a_plot_without_data_is_not_drawn() {
        let figures = all(&data()).expect("plots");
        let drawn: Vec<_> = figures.iter().filter(|figure| figure.plot.is_some()).map(|figure| figure.name).collect();
        assert_eq!(
            drawn,
            ["w1", "w2", "w7", "lateness-w4", "pending-schedule", "pending-cancel", "pending-reset", "memory"]
        );
    }
}
