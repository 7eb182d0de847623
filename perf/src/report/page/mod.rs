//! The page: what came out, in three sentences and a table; the plots; every figure; and how it was measured.

mod notes;
mod summary;
mod tables;

use super::data::Data;
use super::figures::Figure;
use super::html::escape;
use super::plot::dark_style;
use super::systems::look;

const STYLE: &str = include_str!("style.css");

/// The whole page. It is well-formed XML, too, so that a parser can check it.
pub(crate) fn write(data: &Data, figures: &[Figure]) -> String {
    let reference = escape(&look(data, &data.reference).label);
    let style = format!("{STYLE}\n{}", dark_style());
    let sections = [
        summary::write(data),
        section("operations", "Single operations", OPERATIONS, figures, &["w1", "w2", "w3"]),
        section("lateness", "Lateness", LATENESS, figures, &["lateness-w4", "lateness-w4-fine", "lateness-w4-crowded"]),
        section("one-deadline", "Many on one deadline", ONE_DEADLINE, figures, &["w7"]),
        section(
            "pending",
            "Cost against the number pending",
            PENDING,
            figures,
            &["pending-schedule", "pending-cancel", "pending-reset"],
        ),
        section(
            "producers",
            "Cost against the number of producers",
            PRODUCERS,
            figures,
            &["producers-schedule", "producers-cancel", "producers-reset"],
        ),
        section("memory", "Memory", MEMORY, figures, &["memory"]),
        section("idle", "Idle", IDLE, figures, &["idle"]),
        tables::write(data),
        notes::honest(data),
        notes::terms(data),
        notes::machines(data),
        notes::systems(data),
        notes::reproduce(data),
    ];
    let body = sections.concat();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{reference} beside other timers</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

const OPERATIONS: &str = "The thick bar is the time of one operation as the calling thread sees it, the thin bar below it the \
    CPU time of the whole process for it, worker included; the thin line goes from the least run to the most. × is how many \
    times the time of the reference. With two producers it is the time of one operation of either. A bar with two gaps \
    goes on beyond the edge.";
const LATENESS: &str = "How late the callback of a timeout began, in ms after its deadline, for each share of 1,000,000 timeouts \
    due in 1 to 3 s: to the right are the rare worst ones. Lower is better. What is sooner than 0.01 ms, or early, is drawn \
    at 0.01 ms; who ran any early has the share behind its name, and its curve is no achievement.";
const ONE_DEADLINE: &str = "From the deadline until the callback of the last of 100,000 has run, and what the process spent \
    for each.";
const PENDING: &str = "One operation as one calling thread sees it, while so many others are pending. A flat curve is what a \
    timing wheel promises; what rises is memory that is no longer in the caches, or a structure that has to be searched.";
const PRODUCERS: &str = "All producers together. With more threads than cores they wait for a core, not for the timer, so from \
    there on a good curve is flat; one that falls has threads that wait for each other. Higher is better.";
const MEMORY: &str = "The growth of resident memory for each pending timeout, with its handle and its callback. Of Netty it is \
    the Java heap after a collection, which is less than what is resident.";
const IDLE: &str = "How often the threads of a process were woken in 5 s in which nothing was due. Each wake-up takes a core out \
    of its sleep.";

/// A heading, what is to be seen, and the plots; or that they are not in this run.
fn section(id: &str, heading: &str, text: &str, figures: &[Figure], names: &[&str]) -> String {
    let mut out = format!("<section id=\"{id}\">\n<h2>{heading}</h2>\n<p>{}</p>\n", escape(text));
    for figure in figures.iter().filter(|figure| names.contains(&figure.name)) {
        let title = escape(&figure.title);
        match &figure.svg {
            Some(svg) => {
                out.push_str(&format!(
                    "<figure>\n<figcaption>{title}</figcaption>\n<div class=\"scroll\">{svg}</div></figure>\n"
                ));
            }
            None => {
                out.push_str(&format!("<p class=\"absent\">{title}: not in this run (needs {}).</p>\n", figure.needs))
            }
        }
    }
    out.push_str("</section>\n");
    out
}
