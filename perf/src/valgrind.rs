//! Programs under callgrind.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// Returns a command that runs `subject` under callgrind, without standard input.
pub(crate) fn callgrind(subject: &Command) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(subject.get_program()).args(subject.get_args()).stdin(Stdio::null());
    command
}

/// Returns how many instructions callgrind has counted: what it says at the end, on standard error.
pub(crate) fn collected(said: &[u8]) -> Result<u64> {
    let said = String::from_utf8_lossy(said);
    count(&said).with_context(|| format!("callgrind says what can't be read: {said}"))
}

/// The count in `==12== Collected : 3456`.
fn count(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    line?.1.trim().parse().ok()
}
