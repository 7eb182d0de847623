//! Instructions, as callgrind counts them: over thousands of operations, with the now and then in
//! it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::meter::COLLECTED;
use super::operation::Operation;
use super::subject::{self, CALLGRIND, How};
use super::valgrind;

/// Where valgrind is, if it is there.
pub(crate) fn find() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join("valgrind")).find(|path| path.is_file())
}

/// Instructions per operation.
pub(crate) fn instructions(program: &Path, operation: Operation) -> Result<f64> {
    let options = ["--collect-atstart=no".to_owned(), format!("--toggle-collect={COLLECTED}")];
    let subject = subject::command(operation, How::Callgrind, 1)?;
    let output = valgrind::callgrind(program, &options, &subject).output().context("cannot run valgrind")?;
    ensure!(output.status.success(), "valgrind failed: {}", String::from_utf8_lossy(&output.stderr));
    let total = valgrind::collected(&output.stderr).with_context(|| operation.name().to_owned())?;
    ensure!(total > 0, "callgrind has not found the function {COLLECTED}");
    #[expect(clippy::cast_precision_loss, reason = "a few millions")]
    Ok(total as f64 / CALLGRIND as f64)
}
