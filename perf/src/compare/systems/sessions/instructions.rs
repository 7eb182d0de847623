//! Instructions of the server for each request, as callgrind counts them: the difference of a long
//! run and a short one. The kernel's are not counted.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Name;
use crate::compare::cases::Sizes;
use crate::compare::metrics::Metrics;
use crate::valgrind;

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
    let json = std::env::temp_dir().join(format!("tourbillon-{}.json", std::process::id()));
    let mut server = Command::new(std::env::current_exe().context("where is this program?")?);
    server
        .args(["sessions", "--rate", "full", "--system", name.id(), "--timers", &timers.to_string()])
        .args(tasks.then_some("--tasks"))
        .args(["--sessions", &sessions.to_string(), "--requests", &requests.to_string(), "--json"])
        .arg(&json);
    let output = valgrind::callgrind("valgrind", &[], &server).output().context("cannot run valgrind")?;
    ensure!(output.status.success(), "valgrind failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&json).with_context(|| format!("no {}", json.display()))?;
    let _ = std::fs::remove_file(&json);
    let found: serde_json::Value = serde_json::from_str(&text).context("the server says what can't be read")?;
    let batch = found["batch"].as_f64().context("the server does not say how many requests a round has")?;
    Ok((valgrind::collected(&output.stderr)?, batch))
}
