//! Curves, one for each system, on two logarithmic axes, each with its name at its end.

use anyhow::Result;
use plotters::coord::CoordTranslate;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

use plotters::prelude::*;

use super::{Anchor, Canvas, FAINT, GRID, INK, Plot, WIDTH, line, pixel, style, write};
use crate::report::systems::{Dot, Kind, Look};

const HEIGHT: u32 = 470;
/// Room for the names at the right.
const NAMES: u32 = 306;
/// From one name to the next.
const STEP: f64 = 18.0;

/// An axis: its label, its range, and its marks with their texts. Values are those of the data.
#[derive(Debug)]
pub(crate) struct Axis {
    pub(crate) label: &'static str,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) marks: Vec<(f64, String)>,
}

#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) look: Look,
    /// Stands behind its name.
    pub(crate) remark: Option<String>,
    pub(crate) points: Vec<(f64, f64)>,
    /// The places of dots. Elsewhere there is the line only.
    pub(crate) dots: Vec<(f64, f64)>,
}

impl Axis {
    /// Returns an axis between the round figures around the values. Its marks are 1, 2 and 5 times
    /// each power of ten, or only the powers if those are too many.
    pub(crate) fn around(label: &'static str, values: impl Iterator<Item = f64>, show: fn(f64) -> String) -> Self {
        let (least, most) =
            values.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
        let (least, most) = if least > most { (1.0, 10.0) } else { (least, most) };
        let digits: &[f64] = if most / least < 2e3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = floor_power(least) - 1;
        let round: Vec<f64> = (first..=floor_power(most) + 1)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
            .collect();
        let low = round.iter().rev().copied().find(|&mark| mark <= least).unwrap_or(least);
        let high = round.iter().copied().find(|&mark| mark >= most && mark > low).unwrap_or(most);
        let marks = round.into_iter().filter(|mark| (low..=high).contains(mark)).map(|mark| (mark, show(mark)));
        Self { label, low, high, marks: marks.collect() }
    }

    fn written(&self, at: f64) -> String {
        let mark = self.marks.iter().find(|(mark, _)| (mark / at - 1.0).abs() < 1e-9);
        mark.map_or(String::new(), |(_, text)| text.clone())
    }

    fn scale(&self) -> Scale {
        Scale { low: self.low, high: self.high, marks: self.marks.iter().map(|&(at, _)| at).collect() }
    }
}

/// The places of values and of the grid. These axes do not use plotters' own choice of marks.
struct Scale {
    low: f64,
    high: f64,
    marks: Vec<f64>,
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    /// Returns the place of a value. One beyond the axis is at its end.
    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln();
        pixel(f64::from(from) + share * f64::from(to - from))
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

#[expect(clippy::cast_possible_truncation, reason = "powers of ten are few")]
fn floor_power(value: f64) -> i32 {
    value.log10().floor() as i32
}

/// Draws the plot. A point beyond an axis is drawn at the end of the axis.
pub(crate) fn plot(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> Result<Plot> {
    super::draw(title, HEIGHT, |canvas| paint(canvas, x, y, series))
}

fn paint(canvas: &Canvas<'_>, x: &Axis, y: &Axis, series: &[Series]) -> Result<()> {
    let mut builder = ChartBuilder::on(canvas);
    builder.margin_top(14).margin_left(12).margin_right(NAMES).margin_bottom(8);
    builder.x_label_area_size(50).y_label_area_size(70);
    let mut chart = builder.build_cartesian_2d(x.scale(), y.scale())?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(FAINT)
        .label_style(style(13, FAINT, false, Anchor::Middle))
        .axis_desc_style(style(13, INK, false, Anchor::Middle))
        .x_labels(40)
        .y_labels(40)
        .x_label_formatter(&|&at| x.written(at))
        .y_label_formatter(&|&at| y.written(at))
        .x_desc(x.label)
        .y_desc(y.label)
        .draw()?;
    // Ours above the others.
    let order = |ours: bool| series.iter().filter(move |one| (one.look.kind == Kind::Ours) == ours);
    for one in order(false).chain(order(true)) {
        let width = if one.look.kind == Kind::Ours { 4 } else { 2 };
        chart.draw_series(LineSeries::new(one.points.iter().copied(), one.look.colour.stroke_width(width)))?;
        for &dot in &one.dots {
            draw_dot(chart.plotting_area(), dot, &one.look)?;
        }
    }
    let ends: Vec<_> = series.iter().filter_map(|one| Some((one, chart.backend_coord(one.points.last()?)))).collect();
    let bottom = chart.backend_coord(&(x.high, y.low));
    draw_names(canvas, &ends, bottom)
}

/// Draws a dot in its system's form and colour.
fn draw_dot<C: CoordTranslate>(area: &DrawingArea<SVGBackend<'_>, C>, at: C::From, look: &Look) -> Result<()>
where
    C::From: Clone,
{
    let size = if look.kind == Kind::Ours { 5 } else { 4 };
    let fill = if look.variant { super::PAPER.filled() } else { look.colour.filled() };
    let edge = look.colour.stroke_width(2);
    let square = [(-size, -size), (size, size)];
    let triangle = vec![(-size - 1, size), (0, -size - 1), (size + 1, size), (-size - 1, size)];
    let at = EmptyElement::at(at);
    match look.dot {
        Dot::Circle => area.draw(&(at + Circle::new((0, 0), size, fill) + Circle::new((0, 0), size, edge)))?,
        Dot::Square => area.draw(&(at + Rectangle::new(square, fill) + Rectangle::new(square, edge)))?,
        Dot::Triangle => {
            area.draw(&(at + Polygon::new(triangle.clone(), fill) + PathElement::new(triangle, edge)))?;
        }
        Dot::Cross => {
            let rising = PathElement::new(vec![(-size, size), (size, -size)], edge);
            area.draw(&(at + PathElement::new(square.to_vec(), edge) + rising))?;
        }
    }
    Ok(())
}

/// Draws each name beside the end of its curve, or as near as the other names allow, with a thin
/// line from there.
fn draw_names(canvas: &Canvas<'_>, ends: &[(&Series, (i32, i32))], (edge, bottom): (i32, i32)) -> Result<()> {
    let wanted: Vec<f64> = ends.iter().map(|&(_, (_, y))| f64::from(y)).collect();
    for ((one, end), y) in ends.iter().zip(spread_out(&wanted, 14.0, f64::from(bottom))) {
        let y = pixel(y);
        line(canvas, (end.0 + 6, end.1), (edge + 24, y), one.look.colour, 1)?;
        draw_dot(canvas, (edge + 31, y), &one.look)?;
        let bold = one.look.kind == Kind::Ours;
        let text = match &one.remark {
            Some(remark) => format!("{}, {remark}", one.look.label),
            None => one.look.label.clone(),
        };
        write(canvas, &text, (edge + 42, y), style(13, if bold { one.look.colour } else { INK }, bold, Anchor::Left))?;
    }
    debug_assert!(edge < pixel(f64::from(WIDTH)), "names are on the canvas");
    Ok(())
}

/// Moves places apart until they are a step from each other. They keep their order, and stay
/// between `top` and `bottom`.
fn spread_out(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&one, &other| wanted[one].total_cmp(&wanted[other]));
    let mut places = wanted.to_vec();
    let mut least = top;
    for &at in &order {
        places[at] = places[at].max(least);
        least = places[at] + STEP;
    }
    let mut most = bottom;
    for &at in order.iter().rev() {
        places[at] = places[at].min(most);
        most = places[at] - STEP;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::numbers::plain;

    #[test]
    fn names_never_touch_each_other_and_keep_their_order() {
        let places = spread_out(&[400.0, 10.0, 398.0, 399.0, 200.0], 14.0, 400.0);
        assert_eq!(places, [400.0, 14.0, 400.0 - 2.0 * STEP, 400.0 - STEP, 200.0]);
        let crowd = spread_out(&[300.0; 16], 14.0, 400.0);
        assert!(crowd.windows(2).all(|pair| pair[1] - pair[0] >= STEP - 1e-9) && crowd[15] <= 400.0, "{crowd:?}");
    }

    #[test]
    fn axes_begin_and_end_at_round_figures() {
        let axis = |values: &[f64]| {
            let axis = Axis::around("ns", values.iter().copied(), plain);
            (axis.low, axis.high, axis.marks.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(axis(&[13.0, 340.0]), (10.0, 500.0, "10 20 50 100 200 500".to_owned()));
        assert_eq!(axis(&[0.02, 3_000.0]), (0.01, 10_000.0, "0.01 0.1 1 10 100 1,000 10,000".to_owned()));
        assert_eq!(axis(&[10.0, 10.0]), (10.0, 20.0, "10 20".to_owned()));
        assert_eq!(axis(&[]).2, "1 2 5 10");
    }
}
