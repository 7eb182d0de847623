//! The tests of other timers, adapted to the promises of this one, and what their users asked for,
//! line by line. There is one file for each system, and `holes` for what their own tests leave
//! open. This file also checks that the tests exist that `demand.rs` and `comparison.tsv` name.

#[path = "../common/mod.rs"]
mod common;

mod demand;
mod dubbo;
mod holes;
mod kafka;
mod netty;
mod russell_luo;

/// Returns the lines of the table in `demand.rs`, each with its number and its last column.
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

/// Returns the names of tests in a cell: `file::name`, in backquotes.
fn tests_in(cell: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    cell.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::"))
}

/// Panics unless `file` has a function `name` that is marked as a test.
fn assert_is_a_test(file: &str, name: &str, named_in: &str) {
    // A file of `tests` has its name there; any other has its path.
    let file = if file.contains("src/") || file.contains("tests/") {
        format!("{file}.rs")
    } else {
        format!("tests/{file}.rs")
    };
    let text = std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(&file));
    let text = text.unwrap_or_else(|error| panic!("{named_in}: {file}: {error}"));
    let above = text.split_once(&format!("fn {name}(")).map(|(above, _)| above);
    let above = above.unwrap_or_else(|| panic!("{named_in}: there is no {name} in {file}"));
    let (above, _) = above.rsplit_once('\n').unwrap_or_default();
    let mut attributes =
        above.lines().rev().map(str::trim).take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    assert!(attributes.any(|line| line == "#[test]"), "{named_in}: {name} in {file} is no test");
}

#[test]
fn every_test_that_the_table_names_exists() {
    for (line, held_by) in table() {
        tests_in(held_by).for_each(|(file, name)| assert_is_a_test(file, name, &format!("line {line}")));
    }
}

/// Returns the rows of all tables in `docs/COMPARISON.md` that compare: a feature, and Tourbillon's
/// cell.
fn comparison() -> Vec<(&'static str, &'static str)> {
    let rows = include_str!("../../docs/COMPARISON.md").lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        // The table of versions has two columns. A head is no feature.
        (cells.len() > 2 && cells[0] != "Feature").then_some(cells)
    });
    let ours = |cells: Vec<&'static str>| {
        assert_eq!(cells.len(), 11, "{}", cells[0]);
        assert!(cells.iter().all(|cell| !cell.contains("::")), "{}: a test is named in the table", cells[0]);
        (cells[0], cells[10])
    };
    rows.map(ours).collect()
}

/// Returns the lines of `comparison.tsv`: a feature, and a test that holds its claim.
fn held_by() -> Vec<(&'static str, &'static str)> {
    let mut lines = include_str!("comparison.tsv").lines();
    assert_eq!(lines.next(), Some("feature\ttest"));
    lines.map(|line| line.split_once('\t').unwrap_or_else(|| panic!("one cell: {line}"))).collect()
}

#[test]
fn each_feature_that_the_comparison_claims_is_held_by_a_test() {
    let (features, held_by) = (comparison(), held_by());
    assert!(features.len() > 50, "{} features were found", features.len());
    for (feature, ours) in &features {
        let is_no = ours.starts_with("**N**");
        assert!(is_no || ours.starts_with("**Y**") || ours.starts_with("**P**"), "{feature}: {ours}");
        assert!(is_no || held_by.iter().any(|(name, _)| name == feature), "{feature}: no test");
    }
}

#[test]
fn every_test_that_the_comparison_names_exists_and_its_feature_too() {
    let held_by = held_by();
    for (feature, test) in &held_by {
        let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{feature}: {test}"));
        assert_is_a_test(file, name, feature);
    }
    // In the order of the tables, each feature once, and each line once.
    let mut named: Vec<_> = held_by.iter().map(|(feature, _)| *feature).collect();
    named.dedup();
    let features = comparison().into_iter().map(|(feature, _)| feature);
    assert_eq!(named, features.filter(|feature| named.contains(feature)).collect::<Vec<_>>());
    let lines: std::collections::HashSet<_> = held_by.iter().collect();
    assert_eq!(lines.len(), held_by.len(), "a line of comparison.tsv stands there twice");
}
