//! What all plots have in common: a canvas that becomes an SVG, its colours in the light and in the
//! dark, and the style of its text.

pub(crate) mod bars;
pub(crate) mod lines;

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use maud::{Markup, PreEscaped, Render, html};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::html::printable;

pub(crate) const WIDTH: u32 = 920;

pub(crate) const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
pub(crate) const INK: RGBColor = RGBColor(0x1A, 0x1D, 0x21);
pub(crate) const FAINT: RGBColor = RGBColor(0x5B, 0x64, 0x6E);
pub(crate) const GRID: RGBColor = RGBColor(0xE3, 0xE6, 0xEA);
/// The bars of the others. `BAR_LIGHT` and `OURS_LIGHT` are the thin bars below.
pub(crate) const BAR: RGBColor = RGBColor(0x98, 0xA2, 0xAE);
pub(crate) const BAR_LIGHT: RGBColor = RGBColor(0xC9, 0xCF, 0xD6);
pub(crate) const OURS_LIGHT: RGBColor = RGBColor(0x8F, 0xBD, 0xE8);

/// The colours of a light page, and those of a dark one. A plot names the light colour, and a style
/// sheet replaces it.
const DARK: [(&str, &str); 17] = [
    ("#FFFFFF", "#15181C"),
    ("#1A1D21", "#E8EAED"),
    ("#5B646E", "#A3ACB6"),
    ("#E3E6EA", "#2C3239"),
    ("#98A2AE", "#6B7683"),
    ("#C9CFD6", "#434B55"),
    ("#005FB8", "#5AB0FF"),
    ("#8FBDE8", "#2D6299"),
    ("#D58A00", "#F0B040"),
    ("#008A64", "#2FC79A"),
    ("#3FA0D8", "#7CCBF5"),
    ("#C0669A", "#E59BC6"),
    ("#D55E00", "#FF8A3D"),
    ("#882255", "#E0709F"),
    ("#8C8C2B", "#C6C65A"),
    ("#5A4FA8", "#A79CF2"),
    ("#777777", "#9A9A9A"),
];

pub(crate) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Returns the rules that turn a plot dark. A rule wins over the attribute that it names.
pub(crate) fn dark_style() -> String {
    let mut rules = String::from("@media (prefers-color-scheme: dark) {\n");
    for (light, dark) in DARK {
        // Writing to a String can't fail.
        let _ = writeln!(rules, "[fill=\"{light}\"] {{ fill: {dark} }} [stroke=\"{light}\"] {{ stroke: {dark} }}");
    }
    rules.push_str("}\n");
    rules
}

/// A plot: an SVG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plot {
    /// What a screen reader says.
    title: String,
    height: u32,
    /// The elements within the SVG.
    content: String,
}

/// Draws a plot. A screen reader says `title`.
pub(crate) fn draw(title: &str, height: u32, paint: impl FnOnce(&Canvas<'_>) -> Result<()>) -> Result<Plot> {
    let mut text = String::new();
    {
        let canvas = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        canvas.fill(&PAPER)?;
        paint(&canvas)?;
        canvas.present()?;
    }
    // The SVG element itself is written by `Plot`, with the title and the style in it.
    let content = text.split_once(">\n").and_then(|(_, rest)| rest.trim_end().strip_suffix("</svg>"));
    let content = content.context("plotters writes an SVG element")?;
    Ok(Plot { title: title.to_owned(), height, content: printable(content) })
}

impl Plot {
    fn svg(&self, style: Option<&str>) -> Markup {
        let (width, height) = (WIDTH, self.height);
        html! {
            svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label=(self.title)
                width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                "\n"
                @if let Some(style) = style { style { (PreEscaped(style)) } }
                (PreEscaped(&self.content))
            }
        }
    }

    /// Returns it as a file of its own, with its own rules for the dark.
    pub(crate) fn standalone(&self) -> String {
        self.svg(Some(&dark_style())).into_string()
    }
}

impl Render for Plot {
    fn render(&self) -> Markup {
        self.svg(None)
    }
}

/// The part of a text that is at its point.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Anchor {
    Left,
    Middle,
    Right,
}

/// Returns the style of a text that is `size` pixels high, with the centre of its height at its
/// point. Plotters takes a size that is larger by 1.24.
pub(crate) fn style(size: u32, colour: RGBColor, bold: bool, anchor: Anchor) -> TextStyle<'static> {
    let weight = if bold { FontStyle::Bold } else { FontStyle::Normal };
    let horizontal = match anchor {
        Anchor::Left => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::Right => HPos::Right,
    };
    let font = ("system-ui, sans-serif", f64::from(size) * 1.24, weight).into_font();
    font.color(&colour).pos(Pos::new(horizontal, VPos::Center))
}

pub(crate) fn write(canvas: &Canvas<'_>, text: &str, at: (i32, i32), style: TextStyle<'static>) -> Result<()> {
    canvas.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

pub(crate) fn line(canvas: &Canvas<'_>, from: (i32, i32), to: (i32, i32), colour: RGBColor, width: u32) -> Result<()> {
    canvas.draw(&PathElement::new(vec![from, to], colour.stroke_width(width)))?;
    Ok(())
}

/// Returns a position on the canvas.
#[expect(clippy::cast_possible_truncation, reason = "it is on the canvas")]
pub(crate) fn pixel(value: f64) -> i32 {
    value.round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::parse;

    #[test]
    fn a_plot_with_any_title_is_well_formed_and_has_its_dark_colours_with_it() {
        let paint = |canvas: &Canvas<'_>| write(canvas, "a<b & \"c\"", (10, 10), style(13, INK, false, Anchor::Left));
        let plot = draw("x < y & \"z\"", 40, paint).expect("a plot");
        parse(&plot.render().into_string(), |document| {
            assert_eq!(document.root_element().attribute("aria-label"), Some("x < y & \"z\""));
            let text =
                document.descendants().find(|node| node.has_tag_name("text") || node.tag_name().name() == "text");
            assert_eq!(text.and_then(|node| node.text()).map(str::trim), Some("a<b & \"c\""));
        });
        parse(&plot.standalone(), |document| {
            assert!(document.descendants().any(|node| node.tag_name().name() == "style"));
        });
    }

    #[test]
    fn each_colour_of_a_plot_has_a_dark_one() {
        let colours = [PAPER, INK, FAINT, GRID, BAR, BAR_LIGHT, OURS_LIGHT];
        let looks = crate::report::systems::all_colours();
        for RGBColor(red, green, blue) in colours.into_iter().chain(looks) {
            let light = format!("#{red:02X}{green:02X}{blue:02X}");
            assert!(DARK.iter().any(|&(one, _)| one == light), "{light}");
        }
    }
}
