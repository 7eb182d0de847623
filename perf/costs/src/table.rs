//! The costs of all operations, as a table in a file, and whether one is above its limit.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::Result;

/// How far instructions may be from their limit. They depend on the compiler, and on which clock
/// producers read. All other costs are numbers of things.
const SAME_COMPILER: f64 = 0.03;
const OTHER_COMPILER: f64 = 0.15;

/// The costs, in the order of the table's columns.
const COLUMNS: [&str; 8] = [
    "read-modify-writes",
    "on-average",
    "lines-written",
    "shared-with-other-shard",
    "shared-in-shard",
    "wake-ups",
    "allocations",
    "instructions",
];
/// Its limit is zero, whatever a table says.
const SHARED_WITH_OTHER_SHARD: usize = 3;
const INSTRUCTIONS: usize = 7;

/// Costs of one operation; none where there is no such thing, or where it could not be found out.
pub(crate) type Costs = [Option<f64>; COLUMNS.len()];

/// The costs of operations, with the compiler and the clock that they were counted with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    compiler: String,
    clock: String,
    pub(crate) operations: BTreeMap<String, Costs>,
}

impl Table {
    /// An empty one, for here and now.
    pub(crate) fn here() -> Self {
        let clock = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        let rustc = super::output(Command::new("rustc").arg("--version")).unwrap_or_default();
        Self {
            compiler: format!("{} for {}", rustc.trim(), std::env::consts::ARCH),
            clock: clock.unwrap_or_default().trim().to_owned(),
            operations: BTreeMap::new(),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).ok_or_else(|| format!("{} is not a table of costs", path.display()))
    }

    /// Writes this table, with the rows of `known` that it does not have.
    pub(crate) fn write_over(&self, known: &Self, path: &Path) -> Result<()> {
        let mut all = self.clone();
        known.operations.iter().for_each(|(name, costs)| _ = all.operations.entry(name.clone()).or_insert(*costs));
        fs::write(path, all.to_text()).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("compiler: {}\nclock: {}\n\n{:26}", self.compiler, self.clock, "operation");
        COLUMNS.iter().for_each(|name| write!(text, " {name}").expect("a string"));
        for (operation, costs) in &self.operations {
            write!(text, "\n{operation:26}").expect("a string");
            for (name, cost) in COLUMNS.iter().zip(costs) {
                let cost = cost.map_or("-".to_owned(), |cost| cost.to_string());
                write!(text, " {cost:>width$}", width = name.len()).expect("a string");
            }
        }
        text + "\n"
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let compiler = lines.next()?.strip_prefix("compiler: ")?.to_owned();
        let clock = lines.next()?.strip_prefix("clock: ")?.to_owned();
        let headings = lines.nth(1)?.split_whitespace().skip(1);
        if !headings.eq(COLUMNS) {
            return None;
        }
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let name = words.next()?.to_owned();
            let costs: Vec<Option<f64>> = words.map(|word| word.parse().ok()).collect();
            Some((name, costs.try_into().ok()?))
        };
        Some(Self { compiler, clock, operations: lines.map(row).collect::<Option<_>>()? })
    }

    /// Compares each cost of `now` with its limit here. Returns what is above it, and what is below
    /// or could not be compared.
    pub(crate) fn compare(&self, now: &Self) -> (Vec<String>, Vec<String>) {
        let percent = if self.compiler == now.compiler { SAME_COMPILER } else { OTHER_COMPILER };
        let (mut above, mut other) = (Vec::new(), Vec::new());
        for (operation, costs) in &now.operations {
            let Some(limits) = self.operations.get(operation) else {
                above.push(format!("{operation}: has no limits"));
                continue;
            };
            for (number, (name, (limit, cost))) in COLUMNS.iter().zip(limits.iter().zip(costs)).enumerate() {
                let limit = if number == SHARED_WITH_OTHER_SHARD { limit.map(|_| 0.0) } else { *limit };
                let is_count = number != INSTRUCTIONS;
                let is_comparable = is_count || self.arch() == now.arch() && self.clock == now.clock;
                match (limit, cost) {
                    (None, None) => {}
                    (None, Some(cost)) => above.push(format!("{operation}: {name}: {cost}, and has no limit")),
                    (Some(limit), Some(cost)) if is_comparable => {
                        // Averages are rounded to hundredths.
                        let slack = if is_count { 0.0 } else { limit * percent } + 0.005;
                        let what = format!("{operation}: {name}: {cost}, and the limit is {limit}");
                        if *cost > limit + slack {
                            above.push(what);
                        } else if *cost < limit - slack {
                            other.push(format!("less: {what}"));
                        }
                    }
                    (Some(_), _) => other.push(format!("NOT CHECKED: {operation}: {name}")),
                }
            }
        }
        (above, other)
    }

    fn arch(&self) -> Option<&str> {
        self.compiler.rsplit(' ').next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(compiler: &str, instructions: Option<f64>, exchanges: f64, shared: f64) -> Table {
        let mut costs = [Some(1.0); COLUMNS.len()];
        (costs[0], costs[SHARED_WITH_OTHER_SHARD], costs[INSTRUCTIONS]) = (Some(exchanges), Some(shared), instructions);
        let operations = BTreeMap::from([("schedule".to_owned(), costs)]);
        Table { compiler: format!("rustc {compiler}"), clock: "tsc".to_owned(), operations }
    }

    fn compare(now: &Table) -> (usize, usize) {
        let (above, other) = table("1 for a", Some(100.0), 2.0, 0.0).compare(now);
        (above.len(), other.len())
    }

    #[test]
    fn one_thing_more_is_above_the_limit_and_one_less_is_told() {
        assert_eq!(compare(&table("1 for a", Some(100.0), 2.0, 0.0)), (0, 0));
        assert_eq!(compare(&table("1 for a", Some(100.0), 3.0, 0.0)), (1, 0));
        assert_eq!(compare(&table("1 for a", Some(100.0), 1.0, 0.0)), (0, 1));
        let shares = table("1 for a", Some(100.0), 2.0, 1.0);
        assert_eq!(shares.compare(&shares).0.len(), 1, "no limit allows this");
    }

    #[test]
    fn instructions_have_a_few_per_cent_and_more_with_another_compiler() {
        assert_eq!(compare(&table("1 for a", Some(102.9), 2.0, 0.0)), (0, 0));
        assert_eq!(compare(&table("1 for a", Some(104.0), 2.0, 0.0)), (1, 0));
        assert_eq!(compare(&table("2 for a", Some(114.0), 2.0, 0.0)), (0, 0));
        assert_eq!(compare(&table("2 for a", Some(116.0), 2.0, 0.0)), (1, 0));
        assert_eq!(compare(&table("1 for a", None, 2.0, 0.0)), (0, 1), "not checked");
        assert_eq!(compare(&table("1 for b", Some(500.0), 2.0, 0.0)), (0, 1), "not to be compared");
    }
}
