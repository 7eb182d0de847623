//! The page: the result on the first screen, the plots, every figure, and how it was measured.

mod ahead;
mod beside;
mod echo;
mod notes;
mod summary;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::data::Data;
use super::figures::{Figure, SLOPES};
use super::html::printable;
use super::plot::dark_style;
use super::systems::look;

const STYLE: &str = include_str!("style.css");

/// A heading, its anchor, what a reader sees there, and the plots.
type Section = (&'static str, &'static str, &'static str, &'static [&'static str]);

const SECTIONS: [Section; 8] = [
    ("operations", "Single operations", OPERATIONS, &["w1", "w2", "w3"]),
    ("lateness", "Lateness", LATENESS, &["lateness-w4", "lateness-w4-fine", "lateness-w4-crowded"]),
    ("one-deadline", "Many on one deadline", ONE_DEADLINE, &["w7"]),
    ("pending", "Cost by the number pending", PENDING, &["pending-schedule", "pending-cancel", "pending-reset"]),
    (
        "producers",
        "Cost by the number of producers",
        PRODUCERS,
        &["producers-schedule", "producers-cancel", "producers-reset"],
    ),
    ("memory", "Memory", MEMORY, &["memory"]),
    ("idle", "Idle", IDLE, &["idle"]),
    ("sessions", "A server of sessions over UDP", SESSIONS_TEXT, &["sessions-cpu", "sessions-instructions"]),
];

const OPERATIONS: &str = "The thick bar is the time of one operation as the calling thread sees it. The thin bar below it is the \
    CPU time of the whole process for one operation, worker included. The thin line goes from the least run to the most. × says \
    how many times the time of the reference it is. With two producers it is the time of one operation of either. What \
    ends in an arrow goes on beyond the axis.";
const LATENESS: &str = "How late the callback of a timeout began, in ms after its deadline, for each share of 1,000,000 \
    timeouts due in 1 to 3 s. The rare worst ones are to the right. Lower is better. A callback that ran less than 0.01 ms \
    late, or early, is drawn at 0.01 ms. A system that ran any early has the share behind its name; its curve is no \
    achievement.";
const ONE_DEADLINE: &str = "The time from the deadline until the callback of the last of 100,000 timeouts has run, and the \
    CPU time of the process for each. The callbacks do nothing but count, or each reads the clock, as those of a server often \
    do.";
const PENDING: &str = "The time of one operation as one calling thread sees it, by the number of other timeouts pending. A \
    timing wheel promises a flat curve. A curve rises where memory no longer fits the caches, or where a structure has to be \
    searched.";
const PRODUCERS: &str = "The rate of all producers together. With more threads than cores, threads wait for a core and not \
    for the timer, so a good curve is flat from there on. A curve that falls has threads that wait for each other. Higher is \
    better.";
const MEMORY: &str = "The growth of resident memory for each pending timeout, with its handle and its callback. For the \
    timers of Java and Go it is the heap after a collection, which is less than the resident memory.";
const IDLE: &str = "How often the threads of a process woke in 5 s in which nothing was due. Each wake-up takes a core out of \
    its sleep.";

const SESSIONS_TEXT: &str = "What a server of 100,000 sessions pays for a request and its reply, by the number of \
    timers that it arms, moves or cancels for each. The load comes from another process over loopback. The floor \
    paces its replies by an array of slots, and has no other timer. Most of the processor time is the kernel's, for \
    the sockets; the instructions are those of the server alone.";

const SLOPES_TEXT: &str = "A cache line that both threads need goes from core to core, and how long \
    that takes changes with the way between the cores: tens of ns for a round trip, or hundreds. Each \
    dot is a run. Where the line through a system's dots rises, its operations wait for such a line. \
    The slope, behind the name, says for how many round trips each waits. A slope of zero means that \
    the distance costs nothing, and not that nothing is shared: see the table below.";

/// Returns the whole page.
pub(crate) fn write(data: &Data, figures: &[Figure]) -> String {
    let reference = look(data, &data.reference).label;
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (reference) " beside other timers" } "\n"
                style { (PreEscaped(STYLE)) (PreEscaped(dark_style())) }
            }
            body {
                main {
                    (summary::write(data))
                    @for section in &SECTIONS { (plots(section, figures)) }
                    (echo::table(data))
                    (beside::instructions(data))
                    (sharing(data, figures))
                    (tables::write(data))
                    (notes::honest(data))
                    (notes::terms(data))
                    (notes::machines(data))
                    (notes::systems(data))
                    (notes::reproduce(data))
                    footer {
                        "Written by " code { "tourbillon-perf report" } ", which writes to " code { "target/report" }
                        " unless " code { "--out" } " names another folder. The report in " code { "perf/report" }
                        " of the repository is rewritten only for a release."
                    } "\n"
                }
            }
        }
    };
    printable(&page.into_string())
}

/// What two threads share, and how dear that is.
fn sharing(data: &Data, figures: &[Figure]) -> Markup {
    html! {
        section #sharing {
            h2 { "What two threads share" } "
    "
            p { (SLOPES_TEXT) } "
    "
            @for (name, ..) in SLOPES { (plot_of(name, figures)) }
            (beside::slopes(data))
            (beside::conflicts(data))
        }
    }
}

/// A section of plots. A plot that has no data says which cases it needs.
fn plots(&(id, heading, text, names): &Section, figures: &[Figure]) -> Markup {
    html! {
        section id=(id) {
            h2 { (heading) } "\n"
            p { (text) } "\n"
            @for name in names { (plot_of(name, figures)) }
        }
    }
}

fn plot_of(name: &str, figures: &[Figure]) -> Markup {
    let figure = figures.iter().find(|figure| figure.name == name);
    html! {
        @if let Some(figure) = figure {
            @if let Some(plot) = &figure.plot {
                figure { figcaption { (figure.title) } div.scroll { (plot) } } "\n"
            } @else {
                p.absent { (figure.title) ": not in this run (needs " (figure.needs) ")." } "\n"
            }
        }
    }
}
