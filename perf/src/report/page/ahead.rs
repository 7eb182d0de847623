//! The systems that are better than the reference in a figure, and by how much.

use maud::{Markup, html};

use crate::compare::report::Value;
use crate::report::data::{Data, Row, TableOf};
use crate::report::numbers::times;
use crate::report::systems::{Kind, Look, look};

/// A system is ahead below this ratio. From here on the two are level: a lead would show as ×1.00.
pub(super) const LEVEL: f64 = 0.995;

/// Stands behind the name of a system with a single owner.
pub(super) const OWNED: &str = "*";

/// A system that is better than the reference in one figure of a table.
#[derive(Debug)]
pub(super) struct Ahead<'a> {
    pub(super) row: &'a Row,
    look: Look,
    ratio: f64,
}

/// Returns the systems that are ahead, the farthest first. A floor is no timer, so it is not there.
pub(super) fn ahead<'a>(data: &Data, table: &'a TableOf, key: &str) -> Vec<Ahead<'a>> {
    let one = |row: &'a Row| {
        let (look, ratio) = (look(data, &row.system), row.values.get(key)?.ratio?);
        let is_timer = matches!(look.kind, Kind::Shared | Kind::Owned);
        let is_better = is_figure(key, row.values.get(key)?) && (0.0..LEVEL).contains(&ratio);
        (is_timer && is_better).then_some(Ahead { row, look, ratio })
    };
    let mut found: Vec<_> = table.rows.iter().filter_map(one).collect();
    found.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    found
}

/// Returns whether a median is a true figure. Nothing, or less, is the error of a measurement that
/// was too small, except that no wake-ups are true.
pub(super) fn is_figure(key: &str, value: &Value) -> bool {
    value.spread.median > 0.0 || key == "wakeups"
}

impl Ahead<'_> {
    /// Returns its name, by how many times it is better, and what to know of it.
    fn text(&self) -> Markup {
        let lead = if self.ratio > 0.0 { times(1.0 / self.ratio) } else { "∞".to_owned() };
        html! {
            (self.look.label) @if self.look.kind == Kind::Owned { (OWNED) } " " b { "×" (lead) }
            @if !self.row.is_sound() { " (early or lossy)" }
        }
    }
}

/// Returns them as text, separated by semicolons.
pub(super) fn listed(systems: &[Ahead<'_>]) -> Markup {
    html! { @for (at, one) in systems.iter().enumerate() { @if at > 0 { "; " } (one.text()) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::data;

    #[test]
    fn a_lead_is_told_with_its_factor_and_an_early_system_as_such() {
        let data = data();
        let text = |case, key| listed(&ahead(&data, data.table(case, 1).expect("a case"), key)).into_string();
        assert_eq!(text("w1", "ns"), "Netty 4.1 <b>×2.20</b>");
        assert_eq!(text("w4", "p999_ms"), "hashed_wheel_timer <b>×1.43</b> (early or lossy)");
        assert_eq!(text("w2", "ns"), "");
    }
}
