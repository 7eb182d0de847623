//! What a reader has to know to believe the page: the systems that are ahead, broke a promise or
//! cannot do something; the terms; the machine; and how to do it again.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::compare::machine::Machine;
use crate::report::data::{Data, Metric, Row, RunFile, TableOf};
use crate::report::numbers::short;
use crate::report::systems::{is_known, look};

pub(crate) fn honest(data: &Data) -> Markup {
    let used = GENEROUS.map(|text| html! { (text) });
    html! {
        section #notes {
            h2 { "What to know before believing it" } "\n"
            (list("Where another is ahead, in every figure; * has a single owner", &ahead(data), "nowhere in this run"))
            (list("What ran a timeout early, lost one, or ran one twice", &broken(data), "nothing in this run"))
            (list("What a system cannot do, or was not measured at", &cannot(data), "everything was measured"))
            (list("How the others are used", &used, ""))
        }
    }
}

/// Stands in place of a commit that the file of a run does not have.
pub(super) const NOT_RECORDED: &str = "not recorded";
/// What `git describe` adds if the work tree had changes.
const DIRTY: &str = "-dirty";

const GENEROUS: [&str; 8] = [
    "Each is used as its documentation tells a demanding user to. Where that leaves room, the choice is in its favour. \
     Tourbillon always carries a closure with a pointer and a number.",
    "Netty and the JDK's timers have one task for all timeouts in W1 to W3 and W8, two rounds for the compiler before the \
     clock starts, and a heap of huge pages touched before. Go has one function for all there, and its collector waits. \
     Their bytes are those of the heap after a collection.",
    "tokio: a Sleep without a task, with a waker that runs the callback itself. With a task, as its documentation shows \
     it, it costs more (“a task each”).",
    "DelayQueue, nexus-timer, bitwheel and io_uring have a single owner and share nothing. Two producers have one each, \
     which no other thread can reach. They show what the data structure costs without the sharing.",
    "nexus-timer reads no clock. Its user reads it for each operation or, as “rounds”, for each 16th. Its \
     TimeoutQueue (“one duration”) has one duration for all, also where a workload asks for different ones.",
    "bitwheel has a fixed number of places. What finds none is in its BTreeMap: nearly all of W1 and W3. io_uring gets \
     64 operations with each system call.",
    "libevent, libev and libuv have a loop for each producer, too, and its cached time is updated for each 16th operation. \
     libevent's common timeout holds where all delays are the same, in W2 and W3.",
    "CPU of the whole process is counted from the start of the loop until the engine has taken in what was scheduled. It \
     includes what a background thread does later.",
];

/// A list, folded, with its length in sight.
fn list(heading: &str, entries: &[Markup], none: &str) -> Markup {
    html! {
        @if entries.is_empty() {
            p { (heading) ": " (none) "." } "\n"
        } @else {
            details {
                summary { (heading) " (" (entries.len()) ")" }
                ul { @for entry in entries { li { (entry) } "\n" } }
            } "\n"
        }
    }
}

/// A section, folded.
fn folded(id: &str, heading: &str, content: &Markup) -> Markup {
    html! {
        section {
            details { summary { h2 { (heading) } } div id=(id) { (content) } }
        } "\n"
    }
}

fn link(table: &TableOf) -> Markup {
    html! { a href={ "#" (table.anchor()) } { (table.name()) } }
}

/// Each figure in which another system, which is no floor, is better.
fn ahead(data: &Data) -> Vec<Markup> {
    let figures = data.tables.iter().flat_map(|table| table.metrics.iter().map(move |metric| (table, metric)));
    let entry = |(table, metric): (&TableOf, &Metric)| {
        let systems = super::ahead::ahead(data, table, &metric.key);
        (!systems.is_empty())
            .then(|| html! { (link(table)) ", " (metric.heading) ": " (super::ahead::listed(&systems)) })
    };
    figures.filter_map(entry).collect()
}

fn broken(data: &Data) -> Vec<Markup> {
    let rows = data.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    let entry = |(table, row): (&TableOf, &Row)| {
        let found = row.noted_early().map_or_else(|| format!("{} in a run", row.broken().join(", ")), str::to_owned);
        html! { (link(table)) ": " (look(data, &row.system).label) ": " (found) }
    };
    rows.filter(|(_, row)| !row.is_sound()).map(entry).collect()
}

/// The cases that a system has no figure for, by system and reason.
fn cannot(data: &Data) -> Vec<Markup> {
    let mut reasons: BTreeMap<(usize, &str, &str), Vec<&TableOf>> = BTreeMap::new();
    let order = data.systems_in_order();
    for table in &data.tables {
        for row in &table.rows {
            let Some(why) = &row.not_measured else { continue };
            let place = order.iter().position(|&system| system == row.system).unwrap_or(0);
            reasons.entry((place, &row.system, why)).or_default().push(table);
        }
    }
    let entry = |(&(_, system, why), tables): (&(usize, &str, &str), &Vec<&TableOf>)| {
        html! {
            (look(data, system).label) ": " (why) " ("
            @for (at, table) in tables.iter().enumerate() { @if at > 0 { "; " } (link(table)) }
            ")"
        }
    };
    reasons.iter().map(entry).collect()
}

pub(crate) fn terms(data: &Data) -> Markup {
    let near = short(data.files[0].near_below_ns);
    let terms = [
        ("Producer", "A thread that schedules, cancels and resets.".to_owned()),
        ("As the caller sees it", "The time of the caller's loop, divided by its operations.".to_owned()),
        (
            "CPU of the whole process",
            "The CPU time of all threads of the process, divided by the operations.".to_owned(),
        ),
        (
            "Near and far",
            format!(
                "Two cores of a shared machine are a short or a long way apart, for a minute or so at a time, as the host moves \
                 its guests. Data that two threads share costs twice as much when the way is long. Before each run two threads \
                 play ping-pong with a cache line. The run is near if a round trip takes less than {near} ns, and far otherwise. \
                 Medians are of the near runs if there are three, and otherwise of all (“all 5 (1 near)”). Ratios are of near \
                 runs with near ones, or of far with far, if both have three, and otherwise of all with all."
            ),
        ),
        ("Lateness", "The time from the deadline that the caller asked for until the callback begins.".to_owned()),
        ("Tick", "The grain of a timer's wheel. A timeout waits up to one tick for the next.".to_owned()),
        (
            "Percentile",
            "99 % within 1 ms: one of a hundred took longer. The axis of the plots is 1/(1-p), logarithmic.".to_owned(),
        ),
        ("W1 to W8", "The workloads. The title of each table says what is done.".to_owned()),
        ("Floor", "No timer, but one load and one compare-and-swap: the least that a reset can cost.".to_owned()),
    ];
    let content = html! { dl { @for (term, meaning) in &terms { dt { (term) } dd { (meaning) } "\n" } } };
    folded("terms", "What the terms mean", &content)
}

/// A row of the table of machines.
type Fact = (&'static str, fn(&RunFile) -> String);

pub(crate) fn machines(data: &Data) -> Markup {
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
        ("Commit", |file| file.commit().unwrap_or(NOT_RECORDED).to_owned()),
        ("Started", |file| of(|machine| &machine.started, file)),
        ("Repetitions", |file| file.repeat.to_string()),
        ("Scale", |file| file.scale.to_string()),
        ("Minutes", |file| format!("{:.1}", file.minutes)),
    ];
    let several = data.files.len() > 1;
    let content = html! {
        div.scroll {
            table {
                @if several {
                    tr { th {} @for file in 1..=data.files.len() { th { "File " (file) } } } "\n"
                }
                @for (fact, read) in &facts {
                    tr { td { (fact) } @for file in &data.files { td { (read(file)) } } } "\n"
                }
            }
        }
        @if several { p { "Each row of the tables is from one file, and its ratios are within that file." } "\n" }
    };
    folded("machine", "The machine", &content)
}

pub(crate) fn systems(data: &Data) -> Markup {
    let version = |name: &str| data.files.iter().rev().find_map(|file| file.machine.crates.get(name));
    let content = html! {
        div.scroll {
            table {
                tr {
                    @for heading in ["System", "Kind", "Version", "How it is used", "What its runs noted"] {
                        th { (heading) }
                    }
                } "\n"
                @for system in data.systems_in_order() {
                    @let look = look(data, system);
                    tr {
                        td { (look.label) small { (system) } }
                        td { (look.kind.word()) }
                        td {
                            @if let Some((name, version)) = look.package.and_then(|name| Some((name, version(name)?))) {
                                (name) " " (version)
                            }
                        }
                        td { @if let Some(used) = data.systems.get(system) { (used) } }
                        td { @for note in noted(data, system) { div { (note) } } }
                    } "\n"
                }
            }
        }
    };
    folded("systems", "The systems", &content)
}

/// Returns the notes of a system's runs. Notes that differ only in figures are one.
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

pub(crate) fn reproduce(data: &Data) -> Markup {
    let files = 1..=data.files.len();
    let minutes = data.files.iter().map(|file| file.minutes).sum::<f64>();
    html! {
        section #reproduce {
            h2 { "Do it again" } "\n"
            p {
                "On a machine that does nothing else. It takes some " (minutes.ceil()) " min, without the builds. Absolute "
                "figures move with the machine: compare the ratios."
            } "\n"
            pre {
                @for (number, file) in files.clone().zip(&data.files) { (again(number, file)) "\n" }
                "cargo run --release -p tourbillon-perf -- report"
                @for number in files { " run" (number) ".json" }
            } "\n"
            p {
                "How each workload is run is in " code { "perf/src/compare/" } ", how each system is used in "
                code { "perf/src/compare/systems/" } ", " code { "perf/java/" } " and " code { "perf/go/" }
                ", what was tried and what limits the figures in " code { "perf/NOTES.md" } "."
            } "\n"
        }
    }
}

/// Returns whether scripts/peers prepares the system.
fn needs_peers(system: &str) -> bool {
    system.starts_with("netty") || ["scheduled-thread-pool", "libevent", "libev", "libuv"].contains(&system)
}

/// Returns whether scripts/peers prepares it only with `--newer`.
fn needs_newer(system: &str) -> bool {
    system.starts_with("netty-4.2") || ["fork-join-pool", "go"].contains(&system)
}

/// The commands that measure one file again, at its own commit.
fn again(number: usize, file: &RunFile) -> Markup {
    let measured = |wanted: fn(&str) -> bool| file.measured.iter().any(|system| wanted(system));
    let builds = file.measured.iter().any(|system| !is_known(system));
    html! {
        "# run " (number) ", started " (file.machine.started) ", at commit " (file.commit().unwrap_or(NOT_RECORDED)) "\n"
        @if let Some(commit) = file.commit() {
            "git checkout " (commit.trim_end_matches(DIRTY))
            @if commit.ends_with(DIRTY) { "    # with changes that were not committed" }
            "\n"
        }
        @if measured(needs_newer) {
            "scripts/peers --newer    # Java and Netty, Debian's and newer ones, and Go\n"
        } @else if measured(needs_peers) {
            "scripts/peers    # Java, and Debian's Netty, libevent, libev and libuv\n"
        }
        "cargo run --release -p tourbillon-perf --features peers -- compare --repeat " (file.repeat)
        @if file.scale < 1.0 { " --scale " (file.scale) }
        " \\\n    --cases " (file.cases.join(",")) " \\\n   "
        @if builds {
            @for build in &file.measured { " --build " (build) "=PATH" }
        } @else {
            " --systems " (file.measured.join(","))
        }
        " \\\n    --json run" (number) ".json\n"
    }
}
