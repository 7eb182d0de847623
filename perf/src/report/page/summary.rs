//! The first screen: three sentences and one table.

use maud::{Markup, html};

use crate::compare::report::Value;
use crate::report::data::{Data, Row, TableOf};
use crate::report::numbers::{short, times};
use crate::report::systems::{Kind, look};

/// A row of the table: what is measured, the case, its producers, the figure, its unit.
type Wanted = (&'static str, &'static str, usize, &'static str, &'static str);

const HEADLINE: [Wanted; 18] = [
    ("Schedule, one thread", "w1", 1, "ns", "ns"),
    ("… CPU of the whole process for it", "w1", 1, "cpu_ns", "ns"),
    ("… two threads together", "w1", 2, "mops", "M/s"),
    ("Schedule + cancel, one thread", "w2", 1, "ns", "ns"),
    ("… two threads together", "w2", 2, "mops", "M/s"),
    ("Reset, one thread", "w3", 1, "ns", "ns"),
    ("… two threads together", "w3", 2, "mops", "M/s"),
    ("Lateness, tick of 1 ms: 99 % within", "w4", 1, "p99_ms", "ms"),
    ("… 99.9 % within", "w4", 1, "p999_ms", "ms"),
    ("… CPU for 1,000,000", "w4", 1, "cpu_s", "s"),
    ("Lateness, tick of 100 µs: 99 % within", "w4-fine", 1, "p99_ms", "ms"),
    ("… CPU for 1,000,000", "w4-fine", 1, "cpu_s", "s"),
    ("Memory of a pending timeout", "w5", 1, "bytes", "B"),
    ("Wake-ups in 5 s, nothing pending", "w6-empty", 1, "wakeups", ""),
    ("… 1,000,000 due in an hour", "w6", 1, "wakeups", ""),
    ("100,000 on one deadline: all run within", "w7", 1, "ms", "ms"),
    ("Schedule with 10,000,000 pending", "w8-10m", 1, "schedule_ns", "ns"),
    ("Reset with 10,000,000 pending", "w8-10m", 1, "reset_ns", "ns"),
];

pub(crate) fn write(data: &Data) -> Markup {
    let name = look(data, &data.reference).label;
    let (first, machine) = (&data.files[0], &data.files[0].machine);
    html! {
        h1 { (name) " beside other timers" } "\n"
        (warnings(data))
        p.lead { @for sentence in sentences(data, &name) { (sentence) " " } } "\n"
        table.headline {
            tr {
                th { "What" } th.n { (name) }
                th colspan="2" { "Best other that threads can share" }
                th colspan="2" { "Best with a single owner" }
            } "\n"
            @for wanted in &HEADLINE { (headline(data, wanted)) "\n" }
        } "\n"
        p.small {
            "Medians, of " (first.repeat) " repetitions if all went well, each run in a process of its own, the systems in turn, on "
            (machine.processor) " with " (machine.cores) " cores. “×” is how many times better " (name) " is than it, or worse "
            "where that is said: near runs against near ones, see " a href="#terms" { "the terms" } ". A system that ran a timeout "
            "early in a case, or lost one, is left out there."
        } "\n"
        nav { @for (id, text) in NAV { a href={ "#" (id) } { (text) } " " } } "\n"
    }
}

const NAV: [(&str, &str); 13] = [
    ("operations", "Operations"),
    ("lateness", "Lateness"),
    ("one-deadline", "One deadline"),
    ("pending", "By number pending"),
    ("producers", "By producers"),
    ("memory", "Memory"),
    ("idle", "Idle"),
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

/// The best of a kind in a case, if any: by its median. In lateness only who kept the promises of a timer.
fn best<'a>(data: &Data, table: &'a TableOf, key: &str, kind: Kind) -> Option<(&'a Row, Value)> {
    let more = table.metric(key)?.more_is_better;
    let there = table.rows.iter().filter(|row| look(data, &row.system).kind == kind && row.is_sound());
    let valued = there.filter_map(|row| Some((row, *row.values.get(key)?)));
    // Less than nothing is an error of a measurement that is too small; no wake-ups are none.
    let valued = valued.filter(|(_, value)| value.spread.median > 0.0 || key == "wakeups");
    let better = |one: &Value, other: &Value| {
        let order = one.spread.median.total_cmp(&other.spread.median);
        if more { order.reverse() } else { order }
    };
    valued.min_by(|one, other| better(&one.1, &other.1))
}

fn headline(data: &Data, &(what, case, producers, key, unit): &Wanted) -> Markup {
    let table = data.table(case, producers);
    let ours = table.and_then(|table| table.row(&data.reference)).and_then(|row| row.median(key));
    let Some((table, ours)) = table.zip(ours) else {
        return html! { tr.none { td { (what) } td.absent colspan="5" { "not in this run" } } };
    };
    let other = |kind| match best(data, table, key, kind) {
        Some((row, value)) => html! {
            td.n { (verdict(value.ratio)) }
            td { (look(data, &row.system).label) " " small { (with_unit(value.spread.median, unit)) } }
        },
        None => html! { td {} td { small { "none" } } },
    };
    html! { tr { td { (what) } td.n.mine { (with_unit(ours, unit)) } (other(Kind::Shared)) (other(Kind::Owned)) } }
}

fn with_unit(value: f64, unit: &str) -> String {
    format!("{} {unit}", short(value)).trim_end().to_owned()
}

fn verdict(ratio: Option<f64>) -> Markup {
    match ratio {
        Some(ratio) if ratio >= 1.0 => html! { b { "×" (times(ratio)) } },
        Some(ratio) if ratio > 0.0 => html! { span.worse { "×" (times(1.0 / ratio)) " worse" } },
        _ => html! {},
    }
}

/// Returns it as words: `3.1 times faster than Netty`.
fn faster(data: &Data, case: &str, key: &str) -> Option<String> {
    let (row, value) = best(data, data.table(case, 1)?, key, Kind::Shared)?;
    let label = look(data, &row.system).label;
    match value.ratio? {
        ratio @ 1.05.. => Some(format!("{} times faster than {label}", times(ratio))),
        ratio @ 0.95.. => Some(format!("like {label}, at {}", times(ratio))),
        ratio if ratio > 0.0 => Some(format!("{} times slower than {label}", times(1.0 / ratio))),
        _ => None,
    }
}

fn sentences(data: &Data, name: &str) -> Vec<Markup> {
    let ours = |case: &str, key: &str| data.table(case, 1)?.row(&data.reference)?.median(key);
    let operation = |verb: &str, case: &str| {
        let ns = short(ours(case, "ns")?);
        let beside = faster(data, case, "ns");
        Some(html! { (verb) " in " b { (ns) " ns" } @if let Some(beside) = beside { " (" (beside) ")" } })
    };
    let operations = [("schedules a timeout", "w1"), ("schedules and cancels one", "w2"), ("pushes one out", "w3")];
    let operations: Vec<_> = operations.iter().filter_map(|&(verb, case)| operation(verb, case)).collect();
    let mut out = Vec::new();
    if !operations.is_empty() {
        out.push(html! {
            "With " (name) " a thread " (listed(&operations)) ": each beside the best other timer that threads can share."
        });
    }
    let row = data.table("w4", 1).and_then(|table| table.row(&data.reference));
    if let Some((row, (p99, p999))) = row.zip(ours("w4", "p99_ms").zip(ours("w4", "p999_ms"))) {
        let broken: Vec<_> = row.broken().into_iter().map(|text| html! { (text) }).collect();
        out.push(html! {
            "Of 1,000,000 timeouts at a tick of 1 ms 99 % run within " b { (short(p99)) " ms" }
            " of their deadline and 99.9 % within " b { (short(p999)) " ms" } "; "
            @if broken.is_empty() { "none early, lost or run twice" } @else { (listed(&broken)) } "."
        });
    }
    let rest = [
        ours("w5", "bytes").map(|bytes| html! { "a pending timeout takes " b { (short(bytes)) " bytes" } }),
        ours("w6-empty", "wakeups").map(|times| html! { "an idle engine wakes " b { (short(times)) } " times in 5 s" }),
        ours("w7", "ms")
            .map(|ms| html! { "100,000 on one deadline have all run " b { (short(ms)) " ms" } " after it" }),
    ];
    let rest: Vec<_> = rest.into_iter().flatten().collect();
    if !rest.is_empty() {
        out.push(html! { "Further, " (listed(&rest)) "." });
    }
    out
}

/// Returns `a, b and c`.
fn listed(parts: &[Markup]) -> Markup {
    html! {
        @for (at, part) in parts.iter().enumerate() {
            @if at > 0 { @if at + 1 == parts.len() { " and " } @else { ", " } }
            (part)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::data;

    #[test]
    fn the_first_screen_says_what_is_faster_and_what_is_slower_and_leaves_out_who_is_early() {
        let text = write(&data()).into_string();
        assert!(text.contains("schedules a timeout in <b>20 ns</b> (2.20 times slower than Netty)"), "{text}");
        assert!(text.contains("cancels one in <b>30 ns</b> (3.33 times faster than Netty)"), "{text}");
        assert!(text.contains("99 % run within <b>1.10 ms</b>") && text.contains("none early"), "{text}");
        let rows: Vec<_> = text.lines().filter(|line| line.contains("99.9 % within")).collect();
        assert!(rows.iter().any(|row| row.contains("<b>×2.00</b></td><td>Netty <small>3 ms")), "{rows:?}");
        assert!(rows.iter().all(|row| !row.contains("hashed_wheel_timer")), "{rows:?}");
        assert!(
            text.contains("<td>Reset, one thread</td><td class=\"absent\" colspan=\"5\">not in this run"),
            "{text}"
        );
    }
}
