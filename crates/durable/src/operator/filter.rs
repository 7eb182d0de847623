//! The filter of an operator's call.

use std::time::Duration;

/// How many rows a list has at most.
pub(crate) const MOST: u32 = 10_000;

/// Selects timeouts, or dead letters: those that meet all conditions that were given. Without a
/// condition it selects all of them.
///
/// ```
/// use std::time::Duration;
/// use tourbillon_durable::Filter;
///
/// // A customer's that should have run a minute ago, and have not.
/// let late = Filter::new().prefix("customer:7:").overdue(Duration::from_secs(60));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub(crate) key: Option<String>,
    pub(crate) prefix: Option<String>,
    pub(crate) handler: Option<String>,
    pub(crate) overdue: Option<Duration>,
    pub(crate) running: Option<bool>,
    pub(crate) without_handler: bool,
    pub(crate) after: Option<(String, i64)>,
    pub(crate) limit: Option<u32>,
}

impl Filter {
    /// Begins with all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only this key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Only keys that begin with this text, byte for byte. No character stands for another one.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Only those of the handler with this name.
    #[must_use]
    pub fn handler(mut self, name: impl Into<String>) -> Self {
        self.handler = Some(name.into());
        self
    }

    /// Only what came up this long ago or longer, by the clock of the store, and does not run.
    ///
    /// In a fleet that is well nothing is overdue by more than some milliseconds.
    #[must_use]
    pub fn overdue(mut self, by: Duration) -> Self {
        self.overdue = Some(by);
        self
    }

    /// Only what runs, if this is true, or only what does not.
    ///
    /// A timeout runs if a process has claimed it whose lease has not ended. No dead letter runs.
    #[must_use]
    pub fn running(mut self, running: bool) -> Self {
        self.running = Some(running);
        self
    }

    /// Only those whose handler no live process has. They wait until one has it.
    ///
    /// A process writes the names of its handlers beside its lease. If a live one has not, because
    /// it is of an older version, then nobody knows, and the call fails:
    /// [`OperatorError::UnknownHandlers`](crate::OperatorError::UnknownHandlers).
    #[must_use]
    pub fn without_handler(mut self) -> Self {
        self.without_handler = true;
        self
    }

    /// Lists go on after this key: the last one of the page before. It need not be there any more.
    #[must_use]
    pub fn after(mut self, key: impl Into<String>) -> Self {
        self.after = Some((key.into(), i64::MAX));
        self
    }

    /// Lists of dead letters go on after this one. A key may have several, each of a generation.
    #[must_use]
    pub fn after_letter(mut self, key: impl Into<String>, generation: i64) -> Self {
        self.after = Some((key.into(), generation));
        self
    }

    /// Lists have so many rows at most. By default 100, and never more than 10,000.
    #[must_use]
    pub fn limit(mut self, rows: u32) -> Self {
        self.limit = Some(rows);
        self
    }
}
