//! The events that an operator should know of.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::panics::drop_quietly;
use crate::store::Token;

/// Something that an operator should know, and that no call's answer says.
/// [`Builder::on_event`](crate::Builder::on_event) hands it out. With the feature `tracing` it is
/// also an event of that crate, with the target `tourbillon_durable`.
///
/// Its `Display` is one line for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A handler has panicked. The timeout is tried again, or becomes a dead letter.
    Panicked {
        /// The key of the timeout.
        key: &'a str,
        /// Its generation.
        generation: i64,
        /// The number of the claim.
        attempt: u32,
    },
    /// The runtime of an async handler has dropped a run before its end: it shuts down, or its task
    /// was aborted. The timeout is tried again, or becomes a dead letter.
    Dropped {
        /// The key of the timeout.
        key: &'a str,
        /// Its generation.
        generation: i64,
        /// The number of the claim.
        attempt: u32,
    },
    /// The runtime of an async handler has not begun a run, and does not want it: it has shut down.
    /// The handler is paused in this process: see
    /// [`DurableTimer::pause`](crate::DurableTimer::pause).
    NotSpawned {
        /// The name of the handler.
        handler: &'a str,
    },
    /// A timeout was given up, and is among the dead letters.
    DeadLetter {
        /// The key of the timeout.
        key: &'a str,
        /// Its generation.
        generation: i64,
        /// The number of the last claim.
        attempt: u32,
    },
    /// A run has ended whose row is another process's by now, or was scheduled anew.
    Stale {
        /// The key of the timeout.
        key: &'a str,
        /// Its generation.
        generation: i64,
        /// The number of the claim.
        attempt: u32,
    },
    /// The store can't read or write one row. It is left alone, and tried again after a while. The
    /// others go on.
    SetAside {
        /// The row: its key, or where it is.
        row: &'a str,
        /// The reason that the store gave.
        reason: &'a str,
    },
    /// The wall clock has jumped, or the machine was suspended.
    ClockJumped {
        /// By so many microseconds.
        micros: i64,
    },
    /// The store can't carry out anything now. It is asked again and again.
    StoreFailed {
        /// The reason that it gave.
        reason: &'a str,
    },
    /// The connection to the store is lost. It is made again.
    Disconnected {
        /// The error that showed the loss.
        reason: &'a str,
    },
    /// The store carries out calls again, after [`StoreFailed`](Self::StoreFailed) or
    /// [`Disconnected`](Self::Disconnected).
    Reconnected,
    /// A process has died, or was silent for its lease, while it had claimed timeouts. So many of
    /// them are this process's now. They run one at a time, as one of them may have ended it.
    LeftBehind {
        /// How many.
        count: usize,
    },
    /// As many runs of a handler are under way as may be, others wait, and none has ended for a
    /// minute: they may hang. It is told once, until one ends.
    Full {
        /// The name of the handler.
        handler: &'a str,
        /// How many are under way: its limit.
        runs: usize,
        /// How long ago the oldest was claimed.
        oldest: Duration,
    },
    /// The timers have stopped.
    Stopped,
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked { key, generation, attempt } => {
                write!(f, "a handler has panicked: {key} (generation {generation}, attempt {attempt})")
            }
            Self::Dropped { key, generation, attempt } => {
                write!(f, "a runtime has dropped a run: {key} (generation {generation}, attempt {attempt})")
            }
            Self::NotSpawned { handler } => {
                write!(f, "the runtime of the handler {handler:?} takes no runs, so it is paused in this process")
            }
            Self::DeadLetter { key, generation, attempt } => {
                write!(f, "a timeout was given up: {key} (generation {generation}, attempt {attempt})")
            }
            Self::Stale { key, generation, attempt } => write!(
                f,
                "a run has ended whose row is not its own any more: {key} (generation {generation}, attempt {attempt})"
            ),
            Self::SetAside { row, reason } => write!(f, "a row was set aside: {row}: {reason}"),
            Self::ClockJumped { micros } => write!(f, "the wall clock has jumped by {micros} us"),
            Self::StoreFailed { reason } => write!(f, "the store has refused: {reason}"),
            Self::Disconnected { reason } => write!(f, "the connection to the store is lost: {reason}"),
            Self::Reconnected => f.write_str("connected to the store again"),
            Self::LeftBehind { count } => write!(
                f,
                "a process has left {count} claimed timeouts behind, which run one at a time: did a handler end it, or \
                 was it killed without `stop`?"
            ),
            Self::Full { handler, runs, oldest } => write!(
                f,
                "{runs} runs of {handler:?} are under way, as many as may be, and others wait: none has ended for a \
                 minute, and the oldest began {} s ago",
                oldest.as_secs()
            ),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

type Hook = dyn Fn(&Event<'_>) + Send + Sync;

/// Whom to tell.
#[derive(Clone, Default)]
pub(crate) struct Events(pub(crate) Option<Arc<Hook>>);

impl Events {
    pub(crate) fn tell(&self, event: Event<'_>) {
        trace(event);
        if let Some(hook) = &self.0 {
            // A panic of the user's hook ends no writer.
            drop_quietly(catch_unwind(AssertUnwindSafe(|| hook(&event))));
        }
    }

    pub(crate) fn panicked(&self, Token { key, generation, attempt }: &Token) {
        self.tell(Event::Panicked { key, generation: *generation, attempt: *attempt });
    }

    pub(crate) fn dropped(&self, Token { key, generation, attempt }: &Token) {
        self.tell(Event::Dropped { key, generation: *generation, attempt: *attempt });
    }

    pub(crate) fn dead_letter(&self, Token { key, generation, attempt }: &Token) {
        self.tell(Event::DeadLetter { key, generation: *generation, attempt: *attempt });
    }

    pub(crate) fn stale(&self, Token { key, generation, attempt }: &Token) {
        self.tell(Event::Stale { key, generation: *generation, attempt: *attempt });
    }
}

#[cfg(not(feature = "tracing"))]
fn trace(_event: Event<'_>) {}

#[cfg(feature = "tracing")]
fn trace(event: Event<'_>) {
    match event {
        Event::Panicked { .. } | Event::Dropped { .. } | Event::NotSpawned { .. } => {
            tracing::error!(target: "tourbillon_durable", "{event}");
        }
        Event::DeadLetter { .. } | Event::SetAside { .. } => {
            tracing::error!(target: "tourbillon_durable", "{event}");
        }
        Event::StoreFailed { .. } | Event::Disconnected { .. } => {
            tracing::error!(target: "tourbillon_durable", "{event}");
        }
        Event::Stale { .. } | Event::ClockJumped { .. } | Event::LeftBehind { .. } | Event::Full { .. } => {
            tracing::warn!(target: "tourbillon_durable", "{event}");
        }
        Event::Reconnected => tracing::info!(target: "tourbillon_durable", "{event}"),
        Event::Stopped => tracing::debug!(target: "tourbillon_durable", "{event}"),
    }
}
