//! Instructions, as callgrind counts them: over thousands of operations, with the now and then in
//! it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::meter::COLLECTED;
use super::operation::Operation;
use super::subject::{self, CALLGRIND, How};

/// Where valgrind is, if it is there.
pub(crate) fn find() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join("valgrind")).find(|path| path.is_file())
}

/// Instructions per operation.
pub(crate) fn instructions(valgrind: &Path, operation: Operation) -> Result<f64> {
    let file = std::env::temp_dir().join(format!("callgrind.out.{}.{}", operation.name(), std::process::id()));
    let subject = subject::command(operation, How::Callgrind, 1)?;
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--collect-atstart=no", &format!("--toggle-collect={COLLECTED}")]);
    command.arg(format!("--callgrind-out-file={}", file.display()));
    command.arg(subject.get_program()).args(subject.get_args());
    let output = command.stdin(Stdio::null()).output().context("cannot run valgrind")?;
    ensure!(output.status.success(), "valgrind failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&file).with_context(|| format!("callgrind wrote no {}", file.display()))?;
    let _ = fs::remove_file(&file);
    let total = total(&text).with_context(|| format!("callgrind wrote no total for {}", operation.name()))?;
    ensure!(total > 0, "callgrind has not found the function {COLLECTED}");
    #[expect(clippy::cast_precision_loss, reason = "a few millions")]
    Ok(total as f64 / CALLGRIND as f64)
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
