//! The plot of a table: one bar for each system.

use anyhow::{Context, Result};
use plotters::prelude::*;

use crate::compare::report::{MetricOf, TableOf};

const WIDTH: u32 = 900;
const BAR: u32 = 24;
const OURS: RGBColor = RGBColor(0x00, 0x5f, 0xb8);
const THEIRS: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);

/// Draws the table's most telling figure, or nothing if no system has one.
pub(super) fn plot(table: &TableOf, reference: &str) -> Result<Option<String>> {
    let Some(metric) = metric(table) else { return Ok(None) };
    let value = |row: &crate::compare::report::Row| {
        let median = row.values.get(&metric.key)?.spread.median;
        Some((row.system.clone(), median, row.ours || row.system == reference))
    };
    // A system that broke a promise of a timer is in the table, and not in the race.
    let mut bars: Vec<_> = table.rows.iter().filter(|row| row.broken().is_empty()).filter_map(value).collect();
    bars.sort_by(
        |one, other| if metric.more_is_better { other.1.total_cmp(&one.1) } else { one.1.total_cmp(&other.1) },
    );
    let most = bars.iter().map(|bar| bar.1).fold(0.0, f64::max);
    if most == 0.0 {
        return Ok(None);
    }
    let mut svg = String::new();
    draw(&mut svg, metric, &bars, most).with_context(|| format!("cannot draw the plot of {}", table.case))?;
    Ok(Some(svg))
}

/// Returns what is drawn: the 99th percentile of what has percentiles, or else the first figure.
fn metric(table: &TableOf) -> Option<&MetricOf> {
    let of = |key: &str| table.metrics.iter().find(|metric| metric.key == key);
    if table.case.starts_with("w4") { of("p99_ms") } else { table.metrics.first() }
}

fn draw(svg: &mut String, metric: &MetricOf, bars: &[(String, f64, bool)], most: f64) -> Result<()> {
    let count = u32::try_from(bars.len())?;
    let area = SVGBackend::with_string(svg, (WIDTH, 70 + BAR * count)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .set_label_area_size(LabelAreaPosition::Left, 180)
        .set_label_area_size(LabelAreaPosition::Bottom, 40)
        .build_cartesian_2d(0.0..most * 1.12, 0.0..f64::from(count))?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc(if metric.more_is_better {
            format!("{}; more is better", metric.heading)
        } else {
            metric.heading.clone()
        })
        .draw()?;
    let black = ("sans-serif", 13).into_font().color(&BLACK);
    for (at, (system, value, ours)) in bars.iter().enumerate() {
        // The first is at the top.
        let top = f64::from(count) - at as f64;
        let colour = if *ours { OURS } else { THEIRS };
        chart.draw_series([Rectangle::new([(0.0, top - 0.85), (*value, top - 0.15)], colour.filled())])?;
        let decimals = metric.decimals;
        chart.draw_series([Text::new(
            format!("{value:.decimals$}"),
            (*value + most * 0.005, top - 0.3),
            black.clone(),
        )])?;
        let (x, y) = chart.backend_coord(&(0.0, top - 0.3));
        area.draw(&Text::new(system.clone(), (x - 175, y), black.clone()))?;
    }
    area.present()?;
    Ok(())
}
