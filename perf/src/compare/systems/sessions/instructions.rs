//! Instructions of the server for each request, as callgrind counts them: the difference of a long
//! run and a short one. The kernel's are not counted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::Name;
use crate::compare::cases::Sizes;
use crate::compare::metrics::Metrics;

/// Sessions, of which a tenth have a request under way: a server is slower under callgrind by far,
/// and is to keep up.
const SESSIONS: usize = 5_000;
const SHORT: usize = 20_000;
const LONG: usize = 120_000;

pub(super) fn measure(name: Name, timers: usize, tasks: bool, sizes: Sizes) -> Result<Metrics> {
    let (short, long) = (sizes.of(SHORT).max(100), sizes.of(LONG).max(1_000));
    let run = |requests| count(name, timers, tasks, sizes.of(SESSIONS), requests);
    let ((few, few_batch), (many, batch)) = (run(short)?, run(long)?);
    ensure!(many > few, "{long} requests took {many} instructions, and {short} took {few}");
    let mut metrics = Metrics::of([("instructions", (many - few) as f64 / (long - short) as f64), ("batch", batch)]);
    metrics.notes =
        vec![format!("{few} instructions for {short} requests ({few_batch:.1} a round), {many} for {long}")];
    Ok(metrics)
}

/// Returns the instructions of a run, and the requests of a round.
fn count(name: Name, timers: usize, tasks: bool, sessions: usize, requests: usize) -> Result<(u64, f64)> {
    let program = std::env::current_exe().context("where is this program?")?;
    let file = |what: &str| std::env::temp_dir().join(format!("tourbillon-{}.{what}", std::process::id()));
    let (counts, json) = (file("callgrind"), file("json"));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", &format!("--callgrind-out-file={}", counts.display())])
        .arg(program)
        .args(["sessions", "--rate", "full", "--system", name.id(), "--timers", &timers.to_string()])
        .args(tasks.then_some("--tasks"))
        .args(["--sessions", &sessions.to_string(), "--requests", &requests.to_string(), "--json"])
        .arg(&json)
        .stdin(Stdio::null())
        .output()
        .context("cannot run valgrind")?;
    ensure!(output.status.success(), "valgrind failed: {}", String::from_utf8_lossy(&output.stderr));
    let total = total(&read(&counts)?).context("callgrind wrote no total")?;
    let found: serde_json::Value = serde_json::from_str(&read(&json)?).context("the server says what can't be read")?;
    let batch = found["batch"].as_f64().context("the server does not say how many requests a round has")?;
    Ok((total, batch))
}

/// Reads a file, and removes it.
fn read(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("no {}", PathBuf::from(path).display()))?;
    let _ = std::fs::remove_file(path);
    Ok(text)
}

fn total(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_total_is_found() {
        assert_eq!(super::total("version: 1\nfn=a\n1 5\n\ntotals: 1234\n"), Some(1234));
        assert_eq!(super::total("version: 1\n"), None);
    }
}
