//! Bars: a row for each system and a panel for each case, with ours in colour.

use anyhow::Result;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::SegmentedCoord;
use plotters::coord::types::{RangedCoordf64, RangedCoordusize};
use plotters::prelude::*;

use super::{Anchor, BAR, BAR_LIGHT, Canvas, FAINT, GRID, INK, OURS_LIGHT, Plot, WIDTH, style, write};
use crate::report::data::{Row, TableOf};
use crate::report::numbers::{plain, short, times};
use crate::report::systems::{Kind, Look, OURS};

/// Room for the names at the left.
const NAMES: u32 = 186;
/// Room for a panel's heading.
const HEAD: u32 = 34;
/// Room for an axis: its marks, and what it counts.
const AXIS: u32 = 46;
/// Room for the figures behind the longest bar.
const FIGURES: u32 = 134;

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, SegmentedCoord<RangedCoordusize>>>;

/// A panel: a case, and which of its figures is drawn.
#[derive(Debug)]
pub(crate) struct Panel<'a> {
    pub(crate) heading: String,
    pub(crate) table: &'a TableOf,
    pub(crate) key: &'static str,
    /// Stands behind each figure.
    pub(crate) unit: &'static str,
    /// What the axis counts, with its unit.
    pub(crate) axis: &'static str,
    /// A second figure, drawn thin below the first, in the same unit.
    pub(crate) below: Option<&'static str>,
}

/// A row, and what it looks like.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) system: String,
    pub(crate) look: Look,
}

/// Draws the plot: the lines from the best of the first panel to the worst, then the lines that the
/// first panel does not have.
pub(crate) fn plot(title: &str, panels: &[Panel<'_>], mut lines: Vec<Line>) -> Result<Plot> {
    let order = |line: &Line| panels.iter().map(|panel| panel.median(line).unwrap_or(f64::MAX)).collect::<Vec<_>>();
    lines.retain(|line| panels.iter().any(|panel| panel.median(line).is_some()));
    lines.sort_by(|one, other| order(one).partial_cmp(&order(other)).unwrap_or(std::cmp::Ordering::Equal));
    let rows = Rows { lines: lines.len(), paired: panels.iter().any(|panel| panel.below.is_some()) };
    let height = HEAD + rows.height() + AXIS;
    super::draw(title, height, |canvas| {
        let count = u32::try_from(panels.len().max(1)).unwrap_or(u32::MAX);
        let width = (WIDTH - NAMES) / count;
        let mut rest = canvas.clone();
        for (at, panel) in panels.iter().enumerate() {
            let names = if at == 0 { NAMES } else { 0 };
            let (area, right) = rest.split_horizontally(names + width);
            paint(&area, panel, &lines, rows, names)?;
            rest = right;
        }
        Ok(())
    })
}

/// Where bars stand: each has a segment of the vertical axis, which counts from the bottom.
/// A line of two bars has a third segment, which keeps it apart from the next line.
#[derive(Debug, Clone, Copy)]
struct Rows {
    lines: usize,
    paired: bool,
}

impl Rows {
    fn segments(self) -> usize {
        // One segment alone has no extent in plotters.
        (self.lines * if self.paired { 3 } else { 1 }).max(2)
    }

    fn height(self) -> u32 {
        let each = if self.paired { 12 } else { 25 };
        u32::try_from(self.segments()).map_or(u32::MAX, |segments| segments * each)
    }

    /// The segment of a line's first bar.
    fn first(self, line: usize) -> usize {
        self.segments() - 1 - if self.paired { 3 * line } else { line }
    }

    /// The segment of the bar below the first.
    fn second(self, line: usize) -> usize {
        self.first(line) - 1
    }

    /// The middle of a line.
    fn middle(self, line: usize) -> SegmentValue<usize> {
        let first = self.first(line);
        if self.paired { SegmentValue::Exact(first) } else { SegmentValue::CenterOf(first) }
    }
}

impl Panel<'_> {
    fn row(&self, line: &Line) -> Option<&Row> {
        self.table.row(&line.system)
    }

    fn median(&self, line: &Line) -> Option<f64> {
        self.row(line)?.median(self.key)
    }

    /// Where the axis ends: a few bars that are far beyond the rest are cut there, and so are
    /// whiskers that are far beyond all bars.
    fn end(&self, lines: &[Line]) -> f64 {
        let rows = || lines.iter().filter_map(|line| self.row(line));
        let figures = |row: &Row| [row.median(self.key), self.below.and_then(|key| row.median(key))];
        let mut values: Vec<f64> = rows().flat_map(figures).flatten().collect();
        values.sort_by(f64::total_cmp);
        let most = values.last().copied().unwrap_or(1.0);
        let high = values.get(values.len() * 3 / 4).copied().unwrap_or(most);
        let whisker = rows().map(|row| row.most(self.key)).fold(most, f64::max);
        let end = if most > 4.0 * high && high > 0.0 { 2.0 * high } else { whisker.min(1.25 * most) };
        if end > 0.0 { end } else { 1.0 }
    }
}

/// Draws a panel, with the names of the lines if there is room for them.
fn paint(area: &Canvas<'_>, panel: &Panel<'_>, lines: &[Line], rows: Rows, names: u32) -> Result<()> {
    let end = panel.end(lines);
    let mut builder = ChartBuilder::on(area);
    builder.margin_top(HEAD).margin_left(names).margin_right(FIGURES).x_label_area_size(AXIS);
    let mut chart = builder.build_cartesian_2d(0.0..end, (0..rows.segments() - 1).into_segmented())?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(FAINT)
        .label_style(style(12, FAINT, false, Anchor::Middle))
        .axis_desc_style(style(12, INK, false, Anchor::Middle))
        .x_labels(5)
        .x_label_formatter(&|&at| plain(at))
        .x_desc(panel.axis)
        .draw()?;
    // Plotters draws a vertical axis only together with labels, and all labels in one style: the
    // names are drawn one by one, since ours is in bold.
    let axis = [(0.0, SegmentValue::Exact(0)), (0.0, SegmentValue::Last)];
    chart.draw_series(LineSeries::new(axis, FAINT))?;
    write(area, &panel.heading, (i32::try_from(names)?, 16), style(14, INK, true, Anchor::Left))?;
    for (at, line) in lines.iter().enumerate() {
        if names > 0 {
            let (colour, ours) = ink(line);
            let style = style(13, colour, ours, Anchor::Right);
            let name = Text::new(line.look.label.clone(), (-8, 0), style);
            chart.draw_series([EmptyElement::at((0.0, rows.middle(at))) + name])?;
        }
        bars(&mut chart, panel, line, rows, at, end)?;
    }
    Ok(())
}

/// The colour of a line's text, and whether the line is ours.
fn ink(line: &Line) -> (RGBColor, bool) {
    let ours = line.look.kind == Kind::Ours;
    (if ours { OURS } else { INK }, ours)
}

/// Draws the bars of a line, with the figures behind them.
fn bars(chart: &mut Chart<'_, '_>, panel: &Panel<'_>, line: &Line, rows: Rows, at: usize, end: f64) -> Result<()> {
    let (colour, ours) = ink(line);
    let Some((row, value)) = panel.row(line).and_then(|row| Some((row, row.values.get(panel.key)?))) else {
        let text = Text::new("not measured", (8, 0), style(12, FAINT, false, Anchor::Left));
        chart.draw_series([EmptyElement::at((0.0, rows.middle(at))) + text])?;
        return Ok(());
    };
    // Memory can have shrunk in a run that was too small: less than nothing has no bar.
    let along = |value: f64| value.clamp(0.0, end);
    let (dark, light) = if ours { (OURS, OURS_LIGHT) } else { (BAR, BAR_LIGHT) };
    let spread = value.spread;
    let (first, margin) = (rows.first(at), if rows.paired { 0 } else { 5 });
    let bar = Histogram::horizontal(chart).style(dark.filled()).margin(margin);
    chart.draw_series(bar.data([(first, along(spread.median))]))?;
    let middle = SegmentValue::CenterOf(first);
    if spread.min < spread.max {
        let [least, median, most] = [spread.min, spread.median, spread.max].map(along);
        let whisker = ErrorBar::new_horizontal(middle.clone(), least, median, most, INK.stroke_width(1), 5);
        chart.draw_series([whisker])?;
    }
    let ratio = value.ratio.filter(|_| !ours || line.look.variant);
    let ratio = ratio.map_or(String::new(), |ratio| format!(" (×{})", times(ratio)));
    let text = format!("{} {}", short(spread.median), panel.unit).trim_end().to_owned() + &ratio;
    let text_style = style(12, colour, ours, Anchor::Left);
    label(chart, (along(spread.max), middle), (text, text_style), spread.max > end)?;
    if let Some(below) = panel.below.and_then(|key| row.median(key)) {
        let second = rows.second(at);
        let bar = Histogram::horizontal(chart).style(light.filled()).margin(2);
        chart.draw_series(bar.data([(second, along(below))]))?;
        let text = format!("{} {}", short(below), panel.unit);
        let text_style = style(10, FAINT, false, Anchor::Left);
        label(chart, (along(below), SegmentValue::CenterOf(second)), (text, text_style), below > end)?;
    }
    Ok(())
}

/// Writes behind a bar. A bar or a whisker that goes on beyond the axis ends in an arrow.
fn label(
    chart: &mut Chart<'_, '_>,
    end: (f64, SegmentValue<usize>),
    (text, style): (String, TextStyle<'static>),
    is_cut: bool,
) -> Result<()> {
    if is_cut {
        let arrow = Polygon::new(vec![(1, -5), (9, 0), (1, 5)], INK.filled());
        let text = Text::new(text, (14, 0), style);
        chart.draw_series([EmptyElement::at(end) + arrow + text])?;
    } else {
        chart.draw_series([EmptyElement::at(end) + Text::new(text, (7, 0), style)])?;
    }
    Ok(())
}
