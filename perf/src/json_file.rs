//! A result written for machines, and read again.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes `result` as indented JSON, if a path was given. Called last, so that a path that can't be
/// written to does not cost the run: the tables have been printed by then.
pub(crate) fn write(path: Option<&Path>, result: &impl Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let mut text = serde_json::to_string_pretty(result).context("cannot turn the result into JSON")?;
    text.push('\n');
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads what [`write()`] has written. `what` says of which command it has to be.
pub(crate) fn read<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not what `{what} --json` writes", path.display()))
}

/// Says early what [`write()`] would only say at the end of a run: that the folder is not there.
pub(crate) fn check(path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    anyhow::ensure!(!path.is_dir(), "cannot write {}: it is a folder", path.display());
    anyhow::ensure!(folder.is_dir(), "cannot write {}: there is no folder {}", path.display(), folder.display());
    Ok(())
}
