//! How rows are printed: aligned, or as JSON.

use std::fmt::Write as _;
use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};
use tourbillon_durable::{DeadLetterRow, HandlerRow, ProcessRow, TimeoutRow};

use crate::time;

/// The text of a cell without a value.
const NONE: &str = "-";

/// Where the answers go.
pub(crate) struct Out<'a, W> {
    pub(crate) json: bool,
    pub(crate) out: &'a mut W,
}

impl<W: Write> Out<'_, W> {
    /// Prints a text, or an object.
    pub(crate) fn answer(&mut self, text: &str, json: &Value) -> Result<()> {
        if self.json {
            writeln!(self.out, "{json}")?;
        } else {
            writeln!(self.out, "{text}")?;
        }
        Ok(())
    }

    /// Prints rows below each other, with a line of titles, or an object for each.
    pub(crate) fn table<T: Shown>(&mut self, rows: Vec<T>) -> Result<()> {
        if self.json {
            return rows.iter().try_for_each(|row| self.answer("", &row.json()));
        }
        if rows.is_empty() {
            return Ok(());
        }
        let titles = T::TITLES.iter().map(|title| (*title).to_owned()).collect();
        let lines: Vec<Vec<String>> = [titles].into_iter().chain(rows.iter().map(Shown::cells)).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..T::TITLES.len()).map(width).collect();
        for line in lines {
            let mut text = String::new();
            for (cell, width) in line.iter().zip(&widths) {
                write!(text, "{cell:width$}  ")?;
            }
            writeln!(self.out, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

/// A row that can be printed.
pub(crate) trait Shown {
    const TITLES: &'static [&'static str];
    fn cells(&self) -> Vec<String>;
    fn json(&self) -> Value;
    /// Returns the name of the row, behind which the next page begins.
    fn name(&self) -> String {
        String::new()
    }
}

impl Shown for TimeoutRow {
    const TITLES: &'static [&'static str] =
        &["KEY", "DUE", "LATE", "HANDLER", "STATE", "CLAIMS", "FAILED", "PROCESS", "PAYLOAD"];

    fn cells(&self) -> Vec<String> {
        let state = match (self.running, self.process) {
            (true, _) => "running",
            (false, Some(_)) => "in a wheel",
            (false, None) => "pending",
        };
        vec![
            plain(&self.key),
            time::text(self.due),
            time::late(self.due).unwrap_or_else(|| NONE.to_owned()),
            plain(&self.handler),
            state.to_owned(),
            self.attempts.to_string(),
            self.failures.to_string(),
            self.process.map_or_else(|| NONE.to_owned(), |process| process.to_string()),
            format!("{} B", self.payload_len),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "key": self.key,
            "due": time::json(self.due),
            "handler": self.handler,
            "generation": self.generation,
            "attempts": self.attempts,
            "failures": self.failures,
            "running": self.running,
            "process": self.process,
            "payload_len": self.payload_len,
        })
    }

    fn name(&self) -> String {
        self.key.clone()
    }
}

impl Shown for DeadLetterRow {
    const TITLES: &'static [&'static str] = &["KEY", "GENERATION", "DIED", "DUE", "HANDLER", "CLAIMS", "PAYLOAD"];

    fn cells(&self) -> Vec<String> {
        vec![
            plain(&self.key),
            self.generation.to_string(),
            time::text(self.died_at),
            time::text(self.due),
            plain(&self.handler),
            self.attempts.to_string(),
            format!("{} B", self.payload_len),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "key": self.key,
            "generation": self.generation,
            "died_at": time::json(self.died_at),
            "due": time::json(self.due),
            "handler": self.handler,
            "attempts": self.attempts,
            "payload_len": self.payload_len,
        })
    }

    fn name(&self) -> String {
        format!("{} --after-generation {}", self.key, self.generation)
    }
}

impl Shown for HandlerRow {
    const TITLES: &'static [&'static str] = &["HANDLER", "PENDING", "OVERDUE", "RUNNING", "OLDEST", "PROCESSES"];

    fn cells(&self) -> Vec<String> {
        let processes = if self.processes == 0 { "none".to_owned() } else { self.processes.to_string() };
        vec![
            plain(&self.handler),
            self.pending.to_string(),
            self.overdue.to_string(),
            self.running.to_string(),
            self.oldest.map_or_else(|| NONE.to_owned(), time::text),
            processes,
        ]
    }

    fn json(&self) -> Value {
        json!({
            "handler": self.handler,
            "pending": self.pending,
            "overdue": self.overdue,
            "running": self.running,
            "oldest": self.oldest.map(time::json),
            "processes": self.processes,
        })
    }
}

impl Shown for ProcessRow {
    const TITLES: &'static [&'static str] = &["PROCESS", "LEASE", "TIMEOUTS", "RUNNING", "HANDLERS"];

    fn cells(&self) -> Vec<String> {
        let handlers = match &self.handlers {
            None => "unknown: an older version".to_owned(),
            Some(names) if names.is_empty() => NONE.to_owned(),
            Some(names) => names.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", "),
        };
        vec![
            self.process.to_string(),
            if self.live { format!("{} left", time::length(self.lease_left)) } else { "ended".to_owned() },
            self.timeouts.to_string(),
            self.running.to_string(),
            handlers,
        ]
    }

    fn json(&self) -> Value {
        json!({
            "process": self.process,
            "lease_until": time::json(self.lease_until),
            "lease_left": self.lease_left.as_secs_f64(),
            "live": self.live,
            "timeouts": self.timeouts,
            "running": self.running,
            "handlers": self.handlers,
        })
    }
}

/// A text as it can stand on a terminal: without what would move its cursor.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|char| {
            let escape = char.is_control().then(|| char.escape_default());
            let itself = escape.is_none().then_some(char);
            escape.into_iter().flatten().chain(itself)
        })
        .collect()
}

/// A payload as text, or as the bytes that it has.
pub(crate) fn payload(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => plain(text),
        Err(_) => bytes.iter().fold("0x".to_owned(), |hex, byte| format!("{hex}{byte:02x}")),
    }
}
