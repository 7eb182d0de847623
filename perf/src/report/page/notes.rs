//! What has to be known to believe it: who broke a promise, who can't do what, where another is ahead; the terms; the machine;
//! and how to do it again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::compare::machine::Machine;
use crate::report::data::{Data, RunFile, TableOf};
use crate::report::html::escape;
use crate::report::numbers::{short, times};
use crate::report::systems::{Kind, look};

/// Below this another is ahead, rather than level.
const AHEAD: f64 = 0.95;

pub(crate) fn honest(data: &Data) -> String {
    let mut out = "<section id=\"notes\">\n<h2>What to know before believing it</h2>\n".to_owned();
    list(&mut out, "Where another is ahead", ahead(data), "Nowhere in this run, level ones aside.");
    list(&mut out, "Who ran a timeout early, lost one, or ran one twice", broken(data), "Nobody in this run.");
    list(&mut out, "Who can't do what, or was not measured", cannot(data), "Everybody was measured everywhere.");
    out.push_str("<h3>How the others are used</h3>\n<ul>\n");
    for text in GENEROUS {
        let _ = writeln!(out, "<li>{}</li>", escape(text));
    }
    out.push_str("</ul>\n</section>\n");
    out
}

const GENEROUS: [&str; 6] = [
    "Each as its documentation tells a demanding user to; where that leaves room, in its favour. Tourbillon always carries a \
     closure with a pointer and a number.",
    "Netty: one TimerTask for all in W1 to W3 and W8, and two rounds for the compiler before the clock starts. Its bytes are \
     those of its heap after a collection.",
    "tokio: a Sleep without a task, and a waker that runs the callback itself; with a task as its documentation shows \
     it, it costs more (“a task each”).",
    "DelayQueue and nexus-timer have a single owner and share nothing: with two producers there are two of them, which no \
     other thread can reach. They show what the data structure costs without the sharing.",
    "nexus-timer reads no clock, so its user does: for each operation, or (“rounds”) for each 16th.",
    "CPU of the whole process goes from the start of the loop until what was scheduled has been taken in, so that what a \
     background thread does later is in it.",
];

fn list(out: &mut String, heading: &str, entries: Vec<String>, none: &str) {
    let _ = writeln!(out, "<h3>{heading}</h3>");
    if entries.is_empty() {
        let _ = writeln!(out, "<p>{none}</p>");
        return;
    }
    out.push_str("<ul>\n");
    for entry in entries {
        let _ = writeln!(out, "<li>{entry}</li>");
    }
    out.push_str("</ul>\n");
}

fn named(table: &TableOf) -> String {
    let case = escape(&table.case);
    let producers = if table.producers == 1 { String::new() } else { format!(", {} producers", table.producers) };
    format!("<a href=\"#{case}-{}\">{case}{producers}</a>", table.producers)
}

/// Each figure in which another system, which is no floor, is better.
fn ahead(data: &Data) -> Vec<String> {
    let mut entries = Vec::new();
    for table in &data.tables {
        for metric in &table.metrics {
            let better = |row: &&_| {
                let row: &crate::report::data::Row = row;
                let ratio = row.values.get(&metric.key).and_then(|value| value.ratio);
                let kind = look(data, &row.system).kind;
                matches!(kind, Kind::Shared | Kind::Owned) && ratio.is_some_and(|ratio| ratio < AHEAD)
            };
            let who: Vec<_> = table
                .rows
                .iter()
                .filter(better)
                .map(|row| {
                    let look = look(data, &row.system);
                    let ratio = row.values.get(&metric.key).and_then(|value| value.ratio).unwrap_or(1.0);
                    let owned = if look.kind == Kind::Owned { ", single owner" } else { "" };
                    let unsound = if row.is_sound() { "" } else { ", but early or lossy" };
                    format!("{} (×{}{owned}{unsound})", escape(&look.label), times(ratio))
                })
                .collect();
            if !who.is_empty() {
                entries.push(format!("{}, {}: {}", named(table), escape(&metric.heading), who.join(", ")));
            }
        }
    }
    entries
}

fn broken(data: &Data) -> Vec<String> {
    let words = [("early", "early"), ("missing", "never run"), ("twice", "run twice")];
    let mut entries = Vec::new();
    for table in &data.tables {
        for row in table.rows.iter().filter(|row| !row.is_sound()) {
            let what: Vec<_> = words
                .iter()
                .filter(|&&(key, _)| row.most(key) > 0.0)
                .map(|&(key, what)| format!("up to {} {what}", short(row.most(key))))
                .collect();
            let label = escape(&look(data, &row.system).label);
            let what = row.noted_early().map_or_else(|| format!("{} in a run", what.join(", ")), escape);
            entries.push(format!("{}: {label}: {what}", named(table)));
        }
    }
    entries
}

/// By system and reason, with the cases.
fn cannot(data: &Data) -> Vec<String> {
    let mut reasons: BTreeMap<(usize, &str, &str), Vec<String>> = BTreeMap::new();
    let order = data.systems_in_order();
    for table in &data.tables {
        for row in &table.rows {
            let Some(why) = &row.not_measured else { continue };
            let place = order.iter().position(|&system| system == row.system).unwrap_or(0);
            reasons.entry((place, &row.system, why)).or_default().push(named(table));
        }
    }
    let entry = |((_, system, why), cases): (&(usize, &str, &str), &Vec<String>)| {
        format!("{}: {} ({})", escape(&look(data, system).label), escape(why), cases.join("; "))
    };
    reasons.iter().map(entry).collect()
}

pub(crate) fn terms(data: &Data) -> String {
    let near = short(data.files[0].near_below_ns);
    let terms = [
        ("Producer", "A thread that schedules, cancels and resets.".to_owned()),
        ("As the caller sees it", "The time of its loop, divided by its operations.".to_owned()),
        (
            "CPU of the whole process",
            "What all threads of the process spent for it, divided by the operations.".to_owned(),
        ),
        (
            "Near and far",
            format!(
                "Two cores of a shared machine are a short or a long way apart, for a minute or so at a time, as the host moves \
                 its guests; whatever two threads share costs twice as much when it is long. Before each run two threads play \
                 ping-pong with a cache line: below {near} ns a round trip it is near, else far. Medians are of the near runs if \
                 there are three, or else of all (“all 5 (1 near)”); ratios are of near runs with near ones, or far with far, \
                 if both have three, or else of all with all."
            ),
        ),
        ("Lateness", "From the deadline that was asked for until the callback begins.".to_owned()),
        ("Tick", "The grain of a timer's wheel: a timeout waits up to one tick for the next.".to_owned()),
        (
            "Percentile",
            "99 % within 1 ms: one of a hundred took longer. The axis of the plots is 1/(1-p), logarithmic.".to_owned(),
        ),
        ("W1 to W8", "The workloads; the title of each table says what is done.".to_owned()),
        ("Floor", "No timer: one load and one compare-and-swap, the least that a reset can cost.".to_owned()),
    ];
    let mut out = "<section id=\"terms\">\n<h2>What the terms mean</h2>\n<dl>\n".to_owned();
    for (term, meaning) in terms {
        let _ = writeln!(out, "<dt>{term}</dt><dd>{}</dd>", escape(&meaning));
    }
    out.push_str("</dl>\n</section>\n");
    out
}

/// A line of the table of machines.
type Fact = (&'static str, fn(&RunFile) -> String);

pub(crate) fn machines(data: &Data) -> String {
    fn of(read: fn(&Machine) -> &str, file: &RunFile) -> String {
        read(&file.machine).to_owned()
    }
    let facts: [Fact; 11] = [
        ("Processor", |file| format!("{}, {} cores", file.machine.processor, file.machine.cores)),
        ("Memory", |file| of(|machine| &machine.memory, file)),
        ("Linux", |file| of(|machine| &machine.kernel, file)),
        ("Clock source", |file| of(|machine| &machine.clock_source, file)),
        ("Huge pages", |file| of(|machine| &machine.transparent_huge_pages, file)),
        ("Compiler", |file| of(|machine| &machine.rustc, file)),
        ("Commit", |file| of(|machine| &machine.commit, file)),
        ("Started", |file| of(|machine| &machine.started, file)),
        ("Repetitions", |file| file.repeat.to_string()),
        ("Scale", |file| file.scale.to_string()),
        ("Minutes", |file| format!("{:.1}", file.minutes)),
    ];
    let mut out = "<section id=\"machine\">\n<h2>The machine</h2>\n<div class=\"scroll\"><table>\n".to_owned();
    if data.files.len() > 1 {
        out.push_str("<tr><th></th>");
        for file in 1..=data.files.len() {
            let _ = write!(out, "<th>File {file}</th>");
        }
        out.push_str("</tr>\n");
    }
    for (what, read) in facts {
        let cells = data.files.iter().map(|file| format!("<td>{}</td>", escape(&read(file)))).collect::<String>();
        let _ = writeln!(out, "<tr><td>{what}</td>{cells}</tr>");
    }
    out.push_str("</table></div>\n");
    if data.files.len() > 1 {
        out.push_str("<p>Each row of the tables is from one file; ratios are within it.</p>\n");
    }
    out.push_str("</section>\n");
    out
}

pub(crate) fn systems(data: &Data) -> String {
    let mut out = "<section id=\"systems\">\n<h2>The systems</h2>\n<div class=\"scroll\"><table>\n<tr><th>System</th><th>Kind</th>\
                   <th>Version</th><th>How it is used</th><th>What its runs noted</th></tr>\n"
        .to_owned();
    for system in data.systems_in_order() {
        let look = look(data, system);
        let version = look.package.and_then(|name| {
            let version = data.files.iter().rev().find_map(|file| file.machine.crates.get(name))?;
            Some(format!("{name} {version}"))
        });
        let _ = writeln!(
            out,
            "<tr><td>{}<small>{}</small></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&look.label),
            escape(system),
            look.kind.word(),
            escape(version.as_deref().unwrap_or("")),
            escape(data.systems.get(system).map_or("", String::as_str)),
            noted(data, system).iter().map(|note| escape(note)).collect::<Vec<_>>().join("<br/>")
        );
    }
    out.push_str("</table></div>\n</section>\n");
    out
}

/// What the runs of a system said about themselves, once for all that differ in figures only.
fn noted(data: &Data, system: &str) -> Vec<String> {
    let mut notes: BTreeMap<String, (String, Vec<&str>)> = BTreeMap::new();
    let mut cases = Vec::new();
    for table in &data.tables {
        let Some(row) = table.row(system) else { continue };
        for note in row.runs.iter().flat_map(|run| &run.notes) {
            let form = note.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect::<String>();
            let entry = notes.entry(form.replace("##", "#")).or_insert_with(|| (note.clone(), Vec::new()));
            if !entry.1.contains(&table.case.as_str()) {
                entry.1.push(&table.case);
            }
        }
        if !row.values.is_empty() && !cases.contains(&table.case) {
            cases.push(table.case.clone());
        }
    }
    let text = |(note, of): (String, Vec<&str>)| {
        if of.len() == cases.len() { note } else { format!("{}: {note}", of.join(", ")) }
    };
    notes.into_values().map(text).collect()
}

pub(crate) fn reproduce(data: &Data) -> String {
    let commit = escape(&data.files[0].machine.commit);
    format!(
        "<section id=\"reproduce\">\n<h2>Do it again</h2>\n<p>On a machine that does nothing else; `all` takes some 40 minutes, the \
         default some 20. Absolute figures move with the machine: compare the ratios.</p>\n<pre>git checkout {commit}\n\
         scripts/peers    # for Netty: Java and Debian's libnetty-java\n\
         cargo run --release -p tourbillon-perf --features peers -- compare --json run.json\n\
         cargo run --release -p tourbillon-perf --features peers -- compare --cases all --json all.json\n\
         cargo run --release -p tourbillon-perf -- report run.json all.json</pre>\n\
         <p>How each workload is run is in <code>perf/src/compare/</code>, how each system is used in \
         <code>perf/src/compare/systems/</code> and <code>perf/java/</code>, what was tried and what limits the figures in \
         <code>perf/NOTES.md</code>.</p>\n</section>\n"
    )
}
