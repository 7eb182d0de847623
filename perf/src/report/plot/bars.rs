//! Bars, a row for each system and a column for each case, with ours in colour.

use anyhow::Result;

use super::{
    Anchor, BAR, BAR_LIGHT, Canvas, FAINT, GRID, INK, OURS_LIGHT, Plot, WIDTH, block, line, pixel, style, write,
};
use crate::report::data::{Row, TableOf};
use crate::report::numbers::{short, times};
use crate::report::systems::{Kind, Look, OURS};

const NAMES: f64 = 186.0;
const HEAD: u32 = 44;
const ROW: u32 = 30;
/// For the figures behind the longest bar.
const FIGURES: f64 = 118.0;
const GAP: f64 = 18.0;

/// A column: a case, and which of its figures is drawn.
#[derive(Debug)]
pub(crate) struct Panel<'a> {
    pub(crate) heading: String,
    pub(crate) table: &'a TableOf,
    pub(crate) key: &'static str,
    pub(crate) unit: &'static str,
    /// Drawn thin below it, in the same unit.
    pub(crate) below: Option<&'static str>,
}

/// A row, and what it looks like.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) system: String,
    pub(crate) look: Look,
}

/// The plot: the lines from the best of the first panel to the worst, then those that it does not have.
pub(crate) fn plot(title: &str, panels: &[Panel<'_>], mut lines: Vec<Line>) -> Result<Plot> {
    let order = |line: &Line| panels.iter().map(|panel| panel.median(line).unwrap_or(f64::MAX)).collect::<Vec<_>>();
    lines.retain(|line| panels.iter().any(|panel| panel.median(line).is_some()));
    lines.sort_by(|one, other| order(one).partial_cmp(&order(other)).unwrap_or(std::cmp::Ordering::Equal));
    let rows = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    super::draw(title, HEAD + rows * ROW + 10, |canvas| paint(canvas, panels, &lines))
}

impl Panel<'_> {
    fn row(&self, line: &Line) -> Option<&Row> {
        self.table.row(&line.system)
    }

    fn median(&self, line: &Line) -> Option<f64> {
        self.row(line)?.median(self.key)
    }

    /// What the longest bar stands for. A few that are far beyond the rest are cut there.
    fn end(&self, lines: &[Line]) -> f64 {
        let rows = lines.iter().filter_map(|line| self.row(line));
        let figures = |row: &Row| [row.median(self.key), self.below.and_then(|key| row.median(key))];
        let mut values: Vec<f64> = rows.flat_map(figures).flatten().collect();
        values.sort_by(f64::total_cmp);
        let most = values.last().copied().unwrap_or(1.0);
        let high = values.get(values.len() * 3 / 4).copied().unwrap_or(most);
        let end = if most > 4.0 * high && high > 0.0 { 2.0 * high } else { most };
        if end > 0.0 { end } else { 1.0 }
    }
}

fn paint(canvas: &Canvas<'_>, panels: &[Panel<'_>], lines: &[Line]) -> Result<()> {
    let middle = |at: usize| pixel(f64::from(HEAD) + (at as f64 + 0.5) * f64::from(ROW));
    for (at, one) in lines.iter().enumerate() {
        let ours = one.look.kind == Kind::Ours;
        let colour = if ours { OURS } else { INK };
        write(canvas, &one.look.label, (pixel(NAMES) - 8, middle(at)), style(13, colour, ours, Anchor::Right))?;
    }
    let width = (f64::from(WIDTH) - NAMES) / panels.len() as f64;
    for (number, panel) in panels.iter().enumerate() {
        let left = NAMES + number as f64 * width;
        let room = width - FIGURES - GAP;
        let end = panel.end(lines);
        write(canvas, &panel.heading, (pixel(left), 18), style(14, INK, true, Anchor::Left))?;
        for (at, one) in lines.iter().enumerate() {
            bar(canvas, panel, one, (left, room, end), middle(at))?;
        }
        line(canvas, (pixel(left), 34), (pixel(left), middle(lines.len()) - 10), GRID, 2)?;
    }
    Ok(())
}

fn bar(canvas: &Canvas<'_>, panel: &Panel<'_>, one: &Line, (left, room, end): (f64, f64, f64), y: i32) -> Result<()> {
    let Some((row, value)) = panel.row(one).and_then(|row| Some((row, row.values.get(panel.key)?))) else {
        return write(canvas, "not measured", (pixel(left) + 8, y), style(12, FAINT, false, Anchor::Left));
    };
    let ours = one.look.kind == Kind::Ours;
    let (colour, light) = if ours { (OURS, OURS_LIGHT) } else { (BAR, BAR_LIGHT) };
    // Memory can have shrunk in a run that was too small: less than nothing has no bar.
    let along = |value: f64| pixel(left + room * (value / end).clamp(0.0, 1.0));
    let (top, bottom) = if panel.below.is_some() { (y - 10, y + 4) } else { (y - 8, y + 8) };
    let mut far = value.spread.max;
    block(canvas, (pixel(left), top), (along(value.spread.median), bottom), colour)?;
    if let Some(below) = panel.below.and_then(|key| row.median(key)) {
        block(canvas, (pixel(left), bottom), (along(below), bottom + 5), light)?;
        far = far.max(below);
        cut(canvas, below > end, along(end), (bottom, bottom + 5))?;
    }
    if value.spread.min < value.spread.max {
        let centre = i32::midpoint(top, bottom);
        line(canvas, (along(value.spread.min), centre), (along(value.spread.max), centre), INK, 1)?;
        for tip in [value.spread.min, value.spread.max] {
            line(canvas, (along(tip), centre - 3), (along(tip), centre + 3), INK, 1)?;
        }
    }
    cut(canvas, value.spread.median > end, along(end), (top, bottom))?;
    let ratio = value.ratio.filter(|_| !ours || one.look.variant);
    let ratio = ratio.map_or(String::new(), |ratio| format!(" (×{})", times(ratio)));
    let text = format!("{} {}", short(value.spread.median), panel.unit).trim_end().to_owned() + &ratio;
    let place = along(far) + 7;
    write(canvas, &text, (place, y - 1), style(12, if ours { OURS } else { INK }, ours, Anchor::Left))
}

/// Two slanted gaps where a bar is longer than there is room for.
fn cut(canvas: &Canvas<'_>, is_cut: bool, x: i32, (top, bottom): (i32, i32)) -> Result<()> {
    if is_cut {
        for back in [10, 16] {
            line(canvas, (x - back - 3, bottom + 1), (x - back + 3, top - 1), super::PAPER, 3)?;
        }
    }
    Ok(())
}
