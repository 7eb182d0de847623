//! What this project inherits: the tests of the timers that came before it, rethought for its own promises, and what their
//! users asked for, line by line. One file for each, and `holes` for what their own tests leave open.

#[path = "../common/mod.rs"]
mod common;

mod demand;
mod dubbo;
mod holes;
mod kafka;
mod netty;
mod russell_luo;

use tourbillon::{Builder, ManualClock, Timer};

/// An engine with workers, on a clock that stands still until the test moves it.
fn with_workers(builder: Builder) -> (Timer, ManualClock) {
    let clock = ManualClock::new();
    let timer = builder.clock(clock.clone()).build().expect("the options make sense");
    (timer, clock)
}

/// The table in `demand.rs`: its lines, each with what stands in its last column.
fn table() -> impl Iterator<Item = (usize, &'static str)> {
    let cells = |row: &'static str| row.strip_prefix("//! | ")?.strip_suffix(" |")?.split_once(" | ");
    include_str!("demand.rs").lines().filter_map(cells).filter_map(|(line, rest)| {
        let (_, held_by) = rest.split_once(" | ")?;
        Some((line.parse().ok()?, held_by))
    })
}

#[test]
fn every_line_is_in_the_table_once_with_a_test_or_a_reason() {
    let lines: Vec<_> = table().map(|(line, _)| line).collect();
    assert_eq!(lines, (1..=56).collect::<Vec<_>>());
    for (line, held_by) in table() {
        assert!(held_by.contains("::") || held_by.starts_with("none: "), "line {line}: {held_by}");
    }
}

#[test]
fn every_test_that_the_table_names_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = table().flat_map(|(line, held_by)| held_by.split('`').map(move |name| (line, name)));
    for (line, file, name) in
        named.filter_map(|(line, name)| name.split_once("::").map(|(file, name)| (line, file, name)))
    {
        // A file of `tests` by its name there; any other by its path.
        let file = if file.contains("src/") { format!("{file}.rs") } else { format!("tests/{file}.rs") };
        let text = std::fs::read_to_string(root.join(&file));
        let text = text.unwrap_or_else(|error| panic!("line {line}: {file}: {error}"));
        assert!(text.contains(&format!("fn {name}(")), "line {line}: there is no {name} in {file}");
    }
}
