//! The tests of other timers, rethought for the promises of this one, and what their users asked
//! for, line by line. One file for each system, and `holes` for what their own tests leave open.
//! This file also checks that the tests exist that `demand.rs` and `comparison.tsv` name.

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

/// The names of tests in a cell: `file::name`, in backquotes.
fn tests_in(cell: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    cell.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::"))
}

fn assert_exists(file: &str, name: &str, named_in: &str) {
    // A file of `tests` by its name there; any other by its path.
    let file = if file.contains("src/") || file.contains("tests/") {
        format!("{file}.rs")
    } else {
        format!("tests/{file}.rs")
    };
    let text = std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(&file));
    let text = text.unwrap_or_else(|error| panic!("{named_in}: {file}: {error}"));
    assert!(text.contains(&format!("fn {name}(")), "{named_in}: there is no {name} in {file}");
}

#[test]
fn every_test_that_the_table_names_exists() {
    for (line, held_by) in table() {
        tests_in(held_by).for_each(|(file, name)| assert_exists(file, name, &format!("line {line}")));
    }
}

#[test]
fn every_test_that_the_readmes_table_names_exists_and_what_it_says_we_have_is_held_by_one() {
    let readme = include_str!("../../README.md");
    let (_, section) = readme.split_once("\n## Features against systems\n").expect("the section is there");
    let section = section.split("\n## ").next().expect("the first");
    // The first cell is the feature, the last but one is ours. Head and rule are no features.
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")).skip(1);
    let mut features = 0;
    for row in rows {
        let cells: Vec<_> = row.split(" | ").collect();
        let (feature, [.., ours, held_by]) = (cells[0], &cells[..]) else { panic!("one cell: {row}") };
        assert_eq!(cells.len(), 12, "{feature}");
        let is_no = ours.starts_with("**N**");
        assert!(is_no || ours.starts_with("**Y**") || ours.starts_with("**P**"), "{feature}: {ours}");
        assert!(is_no || tests_in(held_by).next().is_some(), "{feature}: no test");
        tests_in(held_by).for_each(|(file, name)| assert_exists(file, name, feature));
        features += 1;
    }
    assert!(features > 50, "{features} features were found");
}
