//! The first screen: what was compared, the headline figures, and where another is ahead.

use maud::{Markup, html};

use super::ahead::{Ahead, LEVEL, OWNED, ahead, is_figure, listed};
use super::notes::NOT_RECORDED;
use crate::compare::report::Value;
use crate::report::data::{Data, Row, RunFile, TableOf};
use crate::report::numbers::{short, times};
use crate::report::systems::{Kind, look};

/// A row of the table: what is done, what is measured of it, the case, its producers, the figure,
/// its unit.
type Wanted = (&'static str, &'static str, &'static str, usize, &'static str, &'static str);

const HEADLINE: [Wanted; 19] = [
    ("Schedule", "one thread", "w1", 1, "ns", "ns"),
    ("Schedule", "CPU of the whole process", "w1", 1, "cpu_ns", "ns"),
    ("Schedule", "two threads together", "w1", 2, "mops", "M/s"),
    ("Schedule + cancel", "one thread", "w2", 1, "ns", "ns"),
    ("Schedule + cancel", "two threads together", "w2", 2, "mops", "M/s"),
    ("Reset", "one thread", "w3", 1, "ns", "ns"),
    ("Reset", "two threads together", "w3", 2, "mops", "M/s"),
    ("Lateness, tick of 1 ms", "99 % within", "w4", 1, "p99_ms", "ms"),
    ("Lateness, tick of 1 ms", "99.9 % within", "w4", 1, "p999_ms", "ms"),
    ("Lateness, tick of 1 ms", "CPU for 1,000,000", "w4", 1, "cpu_s", "s"),
    ("Lateness, tick of 100 µs", "99 % within", "w4-fine", 1, "p99_ms", "ms"),
    ("Lateness, tick of 100 µs", "CPU for 1,000,000", "w4-fine", 1, "cpu_s", "s"),
    ("Memory", "a pending timeout", "w5", 1, "bytes", "B"),
    ("Wake-ups in 5 s", "nothing pending", "w6-empty", 1, "wakeups", ""),
    ("Wake-ups in 5 s", "1,000,000 due in an hour", "w6", 1, "wakeups", ""),
    ("100,000 on one deadline", "all run within", "w7", 1, "ms", "ms"),
    ("100,000 on one deadline", "each reads the clock", "w7-clock", 1, "ms", "ms"),
    ("With 10,000,000 pending", "schedule", "w8-10m", 1, "schedule_ns", "ns"),
    ("With 10,000,000 pending", "reset", "w8-10m", 1, "reset_ns", "ns"),
];

pub(crate) fn write(data: &Data) -> Markup {
    let name = look(data, &data.reference).label;
    html! {
        h1 { (name) " beside other timers" } "\n"
        (warnings(data))
        (compared(data, &name))
        div.scroll {
            table.headline {
                tr {
                    th { "What" } th.n { (name) }
                    th colspan="2" { "Best other that threads can share" }
                    th colspan="2" { "Best with a single owner" }
                } "\n"
                @for (at, wanted) in HEADLINE.iter().enumerate() {
                    (headline(data, wanted, at > 0 && HEADLINE[at - 1].0 == wanted.0)) "\n"
                }
            }
        } "\n"
        (leads(data, &name))
        p.small {
            "× in the table says how many times better " (name) " is than the other, or worse where that is said. Near runs are "
            "compared with near ones, see " a href="#terms" { "the terms" } ". A system that ran a timeout of a case early, or lost "
            "one, is left out of that row. A lead below 0.5 % counts as level."
        } "\n"
        nav { @for (id, text) in NAV { a href={ "#" (id) } { (text) } " " } } "\n"
    }
}

/// What was compared, with versions and commits, and whether the reference kept its promises.
fn compared(data: &Data, name: &str) -> Markup {
    let each = |read: fn(&RunFile) -> String| {
        let mut found: Vec<String> = Vec::new();
        for text in data.files.iter().map(read) {
            if !found.contains(&text) {
                found.push(text);
            }
        }
        found
    };
    let commits = each(|file| file.commit().unwrap_or(NOT_RECORDED).to_owned());
    let repeats = each(|file| format!("{} run{}", file.repeat, if file.repeat == 1 { "" } else { "s" })).join(" or ");
    let machines = each(|file| format!("{} with {} cores", file.machine.processor, file.machine.cores)).join(", or ");
    let version = |package: &str| data.files.iter().rev().find_map(|file| file.machine.crates.get(package));
    let label = |system: &str| {
        let look = look(data, system);
        let version = look.package.and_then(|package| Some((package, version(package)?)));
        let label = match version {
            None => look.label,
            Some((package, version)) if package.starts_with(&look.label.to_lowercase().replace(' ', "_")) => {
                format!("{} {version}", look.label)
            }
            Some((package, version)) => format!("{} ({package} {version})", look.label),
        };
        (label, look.kind, look.variant)
    };
    let is_other = |one: &(String, Kind, bool)| matches!(one.1, Kind::Shared | Kind::Owned) && !one.2;
    let others = data.systems_in_order().into_iter().map(label).filter(is_other).map(|one| one.0);
    html! {
        p.lead {
            (label(&data.reference).0) " (commit" @if commits.len() > 1 { "s" } " " (commits.join(", ")) ") beside "
            (others.collect::<Vec<_>>().join(", ")) ". Medians of " (repeats) ", each in a process of its own, in turn, on "
            (machines) ". " (promises(data, name))
        } "\n"
    }
}

/// Says whether the reference, in all ways to use it, ran each timeout once and none early. Says
/// nothing if no case counted that.
fn promises(data: &Data, name: &str) -> Markup {
    let rows = data.tables.iter().flat_map(|table| &table.rows);
    let ours: Vec<_> = rows.filter(|row| look(data, &row.system).kind == Kind::Ours).collect();
    let text = |row: &&&Row| row.noted_early().map_or_else(|| row.broken().join(", "), str::to_owned);
    let broken: Vec<_> = ours.iter().filter(|row| !row.is_sound()).map(|row| text(&row)).collect();
    html! {
        @if !broken.is_empty() {
            span.worse { (name) " broke its promises: " (broken.join("; ")) "." }
        } @else if ours.iter().any(|row| row.median("early").is_some()) {
            (name) " ran no timeout early, lost none and ran none twice."
        }
    }
}

/// Each headline row in which another is ahead, and by how much.
fn leads(data: &Data, name: &str) -> Markup {
    let measured = |wanted: &&Wanted| ours(data, wanted).is_some();
    let rows: Vec<_> = HEADLINE.iter().filter(measured).collect();
    let lead = |&&(group, what, case, producers, key, _): &&Wanted| {
        let table = data.table(case, producers)?;
        let mut systems = ahead(data, table, key);
        systems.retain(|one: &Ahead<'_>| one.row.is_sound());
        (!systems.is_empty()).then(|| {
            html! { li { a href={ "#" (table.anchor()) } { (group) ", " (what) } ": " (listed(&systems)) } "\n" }
        })
    };
    let leads: Vec<_> = rows.iter().filter_map(lead).collect();
    html! {
        @if leads.is_empty() {
            p.ahead { "No other timer is ahead in any of the " (rows.len()) " rows measured." } "\n"
        } @else {
            div.ahead {
                h2 {
                    "Ahead of " (name) " in " (leads.len()) " of " (rows.len()) " rows, and how many times better; "
                    (OWNED) " has a single owner"
                } "\n"
                ul { @for lead in &leads { (lead) } }
            } "\n"
        }
    }
}

/// The reference's own figure, if it was measured.
fn ours(data: &Data, &(_, _, case, producers, key, _): &Wanted) -> Option<f64> {
    data.table(case, producers)?.row(&data.reference)?.median(key)
}

const NAV: [(&str, &str); 15] = [
    ("operations", "Operations"),
    ("lateness", "Lateness"),
    ("one-deadline", "One deadline"),
    ("pending", "By number pending"),
    ("producers", "By producers"),
    ("memory", "Memory"),
    ("idle", "Idle"),
    ("sessions", "UDP sessions"),
    ("sharing", "What threads share"),
    ("figures", "Every figure"),
    ("notes", "What to know"),
    ("terms", "Terms"),
    ("machine", "Machine"),
    ("systems", "Systems"),
    ("reproduce", "Reproduce"),
];

fn warnings(data: &Data) -> Markup {
    let debug = data.files.iter().any(|file| file.machine.debug_assertions);
    html! {
        @if data.scale() < 1.0 {
            p.warning { "A run at a scale of " (data.scale()) ", for trying things out: its figures mean nothing." } "\n"
        }
        @if debug { p.warning { "A build for debugging: its figures mean nothing." } "\n" }
    }
}

/// Returns the best of a kind in a case, by its median. A system that broke a timer's promise in
/// that case is left out.
fn best<'a>(data: &Data, table: &'a TableOf, key: &str, kind: Kind) -> Option<(&'a Row, Value)> {
    let more = table.metric(key)?.more_is_better;
    let there = table.rows.iter().filter(|row| look(data, &row.system).kind == kind && row.is_sound());
    let valued = there.filter_map(|row| Some((row, *row.values.get(key)?)));
    let valued = valued.filter(|(_, value)| is_figure(key, value));
    let better = |one: &Value, other: &Value| {
        let order = one.spread.median.total_cmp(&other.spread.median);
        if more { order.reverse() } else { order }
    };
    valued.min_by(|one, other| better(&one.1, &other.1))
}

/// A row. One that goes on with what the row above does names only what is measured.
fn headline(data: &Data, wanted: &Wanted, goes_on: bool) -> Markup {
    let &(group, what, case, producers, key, unit) = wanted;
    let what = if goes_on { format!("… {what}") } else { format!("{group}, {what}") };
    let Some((table, ours)) = data.table(case, producers).zip(ours(data, wanted)) else {
        return html! { tr.none { td { (what) } td.absent colspan="5" { "not in this run" } } };
    };
    let other = |kind| match best(data, table, key, kind) {
        Some((row, value)) => html! {
            td.n { (verdict(&value, ours)) }
            td { (look(data, &row.system).label) " " small { (with_unit(value.spread.median, unit)) } }
        },
        None => html! { td {} td { small { "none" } } },
    };
    html! { tr { td { (what) } td.n.mine { (with_unit(ours, unit)) } (other(Kind::Shared)) (other(Kind::Owned)) } }
}

fn with_unit(value: f64, unit: &str) -> String {
    format!("{} {unit}", short(value)).trim_end().to_owned()
}

/// How many times better the reference is. Two that never woke are level, without a ratio.
fn verdict(other: &Value, ours: f64) -> Markup {
    match other.ratio {
        Some(ratio) if ratio >= LEVEL => html! { b { "×" (times(ratio)) } },
        Some(ratio) if ratio > 0.0 => html! { span.worse { "×" (times(1.0 / ratio)) " worse" } },
        Some(0.0) => html! { span.worse { "×∞ worse" } },
        None if ours.total_cmp(&other.spread.median).is_eq() => html! { "level" },
        _ => html! {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::statistics::Spread;
    use crate::report::tests::data;

    #[test]
    fn the_first_screen_says_what_is_faster_and_what_is_slower_and_leaves_out_early_systems() {
        let text = write(&data()).into_string();
        let row =
            |what: &str| text.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what}: {text}"));
        let w1 = row("<td>Schedule, one thread</td>");
        assert!(
            w1.contains(">20 ns</td>") && w1.contains("×2.20 worse</span></td><td>Netty 4.1 <small>9.10 ns"),
            "{w1}"
        );
        let w2 = row("<td>Schedule + cancel, one thread</td>");
        assert!(w2.contains(">30 ns</td>") && w2.contains("<b>×3.33</b></td><td>Netty 4.1 <small>100 ns"), "{w2}");
        let w4 = row("<td>Lateness, tick of 1 ms, 99 % within</td>");
        assert!(w4.contains(">1.10 ms</td>"), "{w4}");
        let rows: Vec<_> = text.lines().filter(|line| line.contains("99.9 % within")).collect();
        assert!(rows.iter().any(|row| row.contains("<b>×2.00</b></td><td>Netty 4.1 <small>3 ms")), "{rows:?}");
        assert!(rows.iter().all(|row| !row.contains("hashed_wheel_timer")), "{rows:?}");
        assert!(text.contains("ran no timeout early, lost none and ran none twice"), "{text}");
        assert!(
            text.contains("<td>Reset, one thread</td><td class=\"absent\" colspan=\"5\">not in this run"),
            "{text}"
        );
    }

    #[test]
    fn the_first_screen_says_that_a_promise_was_broken_and_nothing_of_what_was_not_counted() {
        let mut data = data();
        let early = |data: &mut Data, count| {
            let w4 = data.tables.iter_mut().find(|table| table.case == "w4").expect("the case");
            w4.rows[0].values.get_mut("early").expect("a count").spread = Spread { median: 0.0, min: 0.0, max: count };
        };
        early(&mut data, 3.0);
        assert!(write(&data).into_string().contains("Tourbillon broke its promises: up to 3 early."));
        data.tables.retain(|table| table.case != "w4");
        let text = write(&data).into_string();
        assert!(!text.contains("broke its promises") && !text.contains("ran no timeout early"), "{text}");
    }

    #[test]
    fn nothing_beside_something_is_ahead_and_less_than_nothing_is_not() {
        let mut data = data();
        let w1 = data.tables.iter_mut().find(|table| table.case == "w1").expect("the case");
        let value = w1.rows[1].values.get_mut("ns").expect("a figure");
        (value.spread.median, value.ratio) = (-1.0, Some(-0.05));
        let text = write(&data).into_string();
        assert!(text.contains("in 1 of 7 rows") && !text.contains("∞"), "{text}");
        let other =
            |median, ratio| Value { spread: Spread { median, min: median, max: median }, ratio, compared: None };
        assert_eq!(verdict(&other(0.0, Some(0.0)), 4.0).into_string(), "<span class=\"worse\">×∞ worse</span>");
        assert_eq!(verdict(&other(0.0, None), 0.0).into_string(), "level");
        assert_eq!(verdict(&other(4.0, Some(0.996)), 4.0).into_string(), "<b>×1.00</b>");
    }

    #[test]
    fn the_first_screen_says_what_was_compared_and_each_row_in_which_another_is_ahead() {
        let text = write(&data()).into_string();
        assert!(text.contains("Tourbillon 0.1.0 (commit abc) beside Netty 4.1, "), "{text}");
        assert!(text.contains("Medians of 3 runs"), "{text}");
        // Two of W1, W2, two of W4, W5, W7. Netty is ahead in W1, in time and in CPU time.
        assert!(text.contains("Ahead of Tourbillon in 2 of 7 rows"), "{text}");
        let leads: Vec<_> = text.lines().filter(|line| line.contains("<li>")).collect();
        assert_eq!(leads.len(), 2, "{leads:?}");
        assert!(leads[0].contains("<a href=\"#w1-1\">Schedule, one thread</a>: Netty 4.1 <b>×2.20</b>"), "{leads:?}");
        assert!(leads[1].contains("Schedule, CPU of the whole process</a>: Netty 4.1 <b>×2.20</b>"), "{leads:?}");
    }
}
