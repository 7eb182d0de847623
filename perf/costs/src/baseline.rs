//! What the operations are known to cost, and whether they have come to cost more.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::costs::{ALL, Costs, Slack};

/// Instructions may change by this with the same compiler, and by more with another one.
const SAME_COMPILER: f64 = 0.03;
const OTHER_COMPILER: f64 = 0.15;
/// Numbers of things. (Averages are rounded to hundredths.)
const EXACT: f64 = 0.005;
/// Six lines in a turn of 128 timeouts.
const SHARE: f64 = 0.05;

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    pub(crate) rustc: String,
    /// Which clock the producers have: with another one they do other things.
    pub(crate) clock_source: String,
    pub(crate) operations: BTreeMap<String, Costs>,
}

/// What a comparison has found.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Findings {
    pub(crate) crept: Vec<String>,
    pub(crate) better: Vec<String>,
    /// What could not be compared.
    pub(crate) unchecked: Vec<String>,
}

impl Baseline {
    /// An empty one, for here and now.
    pub(crate) fn here() -> Self {
        let clock = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        let clock_source = clock.map_or_else(|_| "unknown".to_owned(), |clock| clock.trim().to_owned());
        Self { rustc: rustc(), clock_source, operations: BTreeMap::new() }
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("there is no baseline {}; scripts/costs --accept makes one", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a baseline", path.display()))
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("cannot turn the costs into JSON")?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }

    /// Takes what `now` does not know from `self`, to be written in its place.
    pub(crate) fn updated_by(&self, mut now: Baseline) -> Self {
        let mut operations = self.operations.clone();
        operations.append(&mut now.operations);
        Self { operations, ..now }
    }

    /// How far instructions may be from the baseline.
    pub(crate) fn tolerance(&self, now: &Self) -> f64 {
        if self.rustc == now.rustc { SAME_COMPILER } else { OTHER_COMPILER }
    }

    /// Without what another clock of the producers makes different.
    fn comparable(&self, now: &Self, costs: &Costs) -> Costs {
        let costs = costs.clone();
        if self.clock_source == now.clock_source { costs } else { Costs { instructions: None, ..costs } }
    }

    /// Whether an operation of `now` costs more than it did.
    pub(crate) fn has_crept(&self, now: &Self, operation: &str) -> bool {
        let costs = now.operations.get(operation).cloned();
        let only = costs.into_iter().map(|costs| (operation.to_owned(), costs)).collect();
        !self.compare(&Self { operations: only, ..now.clone() }).crept.is_empty()
    }

    /// Compares each cost of each operation of `now`.
    pub(crate) fn compare(&self, now: &Self) -> Findings {
        let mut findings = Findings::default();
        let tolerance = self.tolerance(now);
        for (operation, costs) in &now.operations {
            let costs = &self.comparable(now, costs);
            let Some(known) = self.operations.get(operation) else {
                findings.crept.push(format!("{operation}: is not in the baseline"));
                continue;
            };
            for cost in &ALL {
                let name = cost.name;
                match ((cost.of)(known), (cost.of)(costs)) {
                    (None, None) => {}
                    (Some(_), None) => findings.unchecked.push(format!("{operation}: {name}")),
                    (None, Some(now)) => {
                        findings.crept.push(format!("{operation}: {name}: {now}, which is not in the baseline"));
                    }
                    (Some(known), Some(now)) => {
                        let slack = match cost.slack {
                            Slack::None => EXACT,
                            Slack::Share => SHARE,
                            Slack::One => 1.0 + EXACT,
                            Slack::SomePercent => known * tolerance,
                        };
                        if now > known + slack {
                            findings.crept.push(format!("{operation}: {name}: {}", change(known, now)));
                        } else if now < known - slack {
                            findings.better.push(format!("{operation}: {name}: {}", change(known, now)));
                        }
                    }
                }
            }
        }
        findings
    }
}

fn change(known: f64, now: f64) -> String {
    let percent = if known > 0.0 { format!(" ({:+.1} %)", (now / known - 1.0) * 100.0) } else { String::new() };
    format!("baseline {known}, now {now}{percent}")
}

fn rustc() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map_or_else(|_| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(rustc: &str, costs: Costs) -> Baseline {
        let operations = BTreeMap::from([("schedule".to_owned(), costs)]);
        Baseline { rustc: rustc.to_owned(), clock_source: "tsc".to_owned(), operations }
    }

    fn known() -> Costs {
        Costs {
            read_modify_writes: Some(1.0),
            lines_shared_across_shards: Some(0.0),
            instructions: Some(100.0),
            ..Costs::default()
        }
    }

    fn compare(now: Costs) -> Findings {
        baseline("rustc 1", known()).compare(&baseline("rustc 1", now))
    }

    #[test]
    fn what_has_not_changed_is_found_to_be_the_same() {
        assert_eq!(compare(known()), Findings::default());
    }

    #[test]
    fn one_thing_more_is_reported_with_what_it_was_and_what_it_is() {
        let found = compare(Costs { read_modify_writes: Some(2.0), ..known() });
        assert_eq!(found.crept, ["schedule: read-modify-writes: baseline 1, now 2 (+100.0 %)"]);
        let found = compare(Costs { lines_shared_across_shards: Some(1.0), ..known() });
        assert_eq!(found.crept.len(), 1, "also from none");
    }

    #[test]
    fn instructions_have_a_few_per_cent() {
        assert_eq!(compare(Costs { instructions: Some(102.9), ..known() }), Findings::default());
        let found = compare(Costs { instructions: Some(104.0), ..known() });
        assert_eq!(found.crept, ["schedule: instructions: baseline 100, now 104 (+4.0 %)"]);
    }

    #[test]
    fn a_line_more_is_reported_and_a_turns_own_lines_may_lie_otherwise() {
        let lines = |lines| Costs { lines_written: Some(lines), ..known() };
        let crept = |of, now| baseline("rustc 1", lines(of)).compare(&baseline("rustc 1", lines(now))).crept.len();
        assert_eq!((crept(4.0, 5.0), crept(1.13, 1.14)), (1, 0));
    }

    #[test]
    fn another_compiler_may_need_more_instructions_but_nothing_else() {
        let known = baseline("rustc 1", known());
        let other = |costs| known.compare(&baseline("rustc 2", costs)).crept.len();
        let of = known.operations["schedule"].clone();
        assert_eq!(other(Costs { instructions: Some(114.0), ..of.clone() }), 0);
        assert_eq!(other(Costs { instructions: Some(116.0), ..of.clone() }), 1);
        assert_eq!(other(Costs { read_modify_writes: Some(1.1), ..of }), 1);
    }

    #[test]
    fn with_another_clock_instructions_are_not_compared() {
        let now = Costs { instructions: Some(500.0), ..known() };
        let now = Baseline { clock_source: "hpet".to_owned(), ..baseline("rustc 1", now) };
        let found = baseline("rustc 1", known()).compare(&now);
        assert_eq!((found.crept.len(), found.unchecked.len()), (0, 1));
    }

    #[test]
    fn what_has_become_less_is_no_failure_but_is_told() {
        let found = compare(Costs { read_modify_writes: Some(0.0), ..known() });
        assert_eq!((found.crept.len(), found.better.len()), (0, 1));
    }

    #[test]
    fn what_was_not_measured_is_told() {
        let found = compare(Costs { instructions: None, ..known() });
        assert_eq!(found.unchecked, ["schedule: instructions"]);
    }

    #[test]
    fn what_is_unknown_to_the_baseline_fails() {
        assert_eq!(compare(Costs { allocations: Some(0.0), ..known() }).crept.len(), 1);
        assert_eq!(Baseline::default().compare(&baseline("", known())).crept.len(), 1);
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written() {
        let path = std::env::temp_dir().join(format!("tourbillon-costs-{}.json", std::process::id()));
        let written = baseline("rustc 1", known());
        written.write(&path).expect("written");
        assert_eq!(Baseline::read(&path).expect("read"), written);
        std::fs::remove_file(&path).expect("there");
    }
}
