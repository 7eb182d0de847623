//! What other commands have found: instructions for each request, conflicts between operations, and
//! the runs of the echo servers.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;

use super::conflicts::Table;
use super::echo::{self, EchoRun};
use crate::compare::machine::Machine;
use crate::compare::statistics::Spread;
use crate::json_file;

/// All of it, as far as there is any.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) counts: Vec<Counts>,
    pub(crate) echo: Vec<EchoRun>,
    pub(crate) conflicts: Option<Table>,
}

/// A file of `instructions --json`. Further fields of it are left unread.
#[derive(Debug, Deserialize)]
pub(crate) struct Counts {
    pub(crate) machine: Machine,
    pub(crate) requests: usize,
    pub(crate) connections: usize,
    pub(crate) rows: Vec<CountsRow>,
}

/// A server with one kind of timers.
#[derive(Debug, Deserialize)]
pub(crate) struct CountsRow {
    pub(crate) server: String,
    pub(crate) timers: String,
    /// For each request.
    pub(crate) instructions: Spread,
}

impl Beside {
    pub(crate) fn read(counts: &[PathBuf], echo: &[PathBuf], conflicts: Option<&Path>) -> Result<Self> {
        let counts = counts.iter().map(|path| json_file::read(path, "instructions")).collect::<Result<_>>()?;
        let echo = echo.iter().map(|path| echo::read(path)).collect::<Result<Vec<_>>>()?.concat();
        Ok(Self { counts, echo, conflicts: conflicts.map(Table::read).transpose()? })
    }
}

impl Counts {
    /// Returns the servers, each once, with all their rows.
    pub(crate) fn servers(&self) -> Vec<(&str, Vec<&CountsRow>)> {
        let mut servers: Vec<(&str, Vec<&CountsRow>)> = Vec::new();
        for row in &self.rows {
            match servers.iter_mut().find(|(server, _)| *server == row.server) {
                Some((_, rows)) => rows.push(row),
                None => servers.push((&row.server, vec![row])),
            }
        }
        servers
    }
}
