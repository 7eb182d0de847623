//! Instructions, as callgrind counts them in a copy of this process.

use std::path::Path;
use std::process::Command;
use std::{env, fs, process};

use super::meter::COLLECTED;
use super::operation::Operation;
use super::{Result, rounded};

/// Where a producer looks at the real clock, which it does every 16 µs. How much of that is
/// measured depends on how fast callgrind is, so operations look each time, and what the look costs
/// is not counted.
const LOOK: &str = "Counter::look";

/// Whether valgrind can be run here.
pub(crate) fn is_here() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Instructions of an operation on average, with what comes now and then. Fractions are left out,
/// which depend on how often a future, which looks at the clock twice, is interrupted in between.
pub(crate) fn instructions(operation: Operation) -> Result<f64> {
    let path = env::temp_dir().join(format!("tourbillon-costs-{}-{}", process::id(), operation.name()));
    let profile = profile(operation, &path).and_then(|()| {
        let profile = fs::read_to_string(&path).map_err(|error| error.to_string());
        fs::remove_file(&path).map_err(|error| error.to_string()).and(profile)
    })?;
    let counted = total(&profile).ok_or("callgrind has counted nothing")?;
    Ok(rounded(counted, operation.collected()).round())
}

/// Leaves a profile of the operation.
pub(crate) fn profile(operation: Operation, path: &Path) -> Result<()> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--collect-atstart=no", "--compress-strings=no"]);
    command.arg(format!("--toggle-collect={COLLECTED}")).arg(format!("--callgrind-out-file={}", path.display()));
    super::output(command.arg(program).args(["copy", "collect", operation.name()])).map(|_| ())
}

/// All instructions, without those of looks.
fn total(profile: &str) -> Option<u64> {
    let total = profile.lines().find_map(|line| line.strip_prefix("totals: "))?;
    let total: u64 = total.parse().ok().filter(|&instructions| instructions > 0)?;
    let (mut looks, mut lines) = (0, profile.lines());
    while let Some(line) = lines.next() {
        // Below it are `calls=TIMES LINE`, and `LINE INSTRUCTIONS`.
        if line.starts_with("cfn=") && line.contains(LOOK) {
            looks += lines.nth(1)?.split(' ').nth(1).map_or(Ok(0), str::parse::<u64>).ok()?;
        }
    }
    total.checked_sub(looks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_not_counted() {
        let look = "cfn=tourbillon::time::counter::Counter::look\ncalls=3 0 \n17 450\n";
        let other = "cfn=other\ncalls=2 0 \n19 20\n";
        assert_eq!(total(&format!("fn=caller\n16 10\n{look}{other}18 10\ntotals: 490\n")), Some(40));
        assert_eq!(total("totals: 0"), None);
        assert_eq!(total("nothing"), None);
    }
}
