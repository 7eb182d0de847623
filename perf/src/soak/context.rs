//! The state that the tasks and the producers of one engine share, and the clock and the violations
//! of a run.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use testkit::ledger::Ledger;
use testkit::record::Kind;
use tourbillon::{Clock, Timer};

use super::held::{Checked, Held};
use super::tally::Tally;
use crate::duration::nanos;

/// One for each engine.
pub(crate) struct TaskContext {
    pub(crate) checked: Arc<Checked>,
    /// For tasks that schedule. The thread that ends the engine takes it out.
    timer: RwLock<Option<Timer>>,
    /// Periodic timeouts for tasks to reset and cancel, if one thread runs all of this engine's
    /// tasks.
    pub(crate) board: Option<ArrayQueue<Held>>,
}

impl Deref for TaskContext {
    type Target = Checked;

    fn deref(&self) -> &Checked {
        &self.checked
    }
}

impl TaskContext {
    pub(crate) fn new(ledger: Ledger, tally: Arc<Tally>, board: Option<ArrayQueue<Held>>) -> Self {
        Self { checked: Arc::new(Checked { ledger, tally }), timer: RwLock::new(None), board }
    }

    pub(crate) fn timer(&self) -> Option<Timer> {
        self.timer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_timer(&self, timer: Timer) {
        *self.timer.write().unwrap_or_else(PoisonError::into_inner) = Some(timer);
    }

    pub(crate) fn take_timer(&self) -> Option<Timer> {
        self.timer.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the token of a timeout that is about to be scheduled, or `None` if there are too
    /// many.
    pub(crate) fn open(self: &Arc<Self>, kind: Kind, floor: u64) -> Option<Token> {
        let id = self.ledger.open(kind, floor)?;
        Some(Token { id, context: Arc::clone(self) })
    }

    /// Drops the handles on the board.
    pub(crate) fn clear_board(&self) {
        if let Some(board) = &self.board {
            while board.pop().is_some() {}
        }
    }
}

/// A capture of a closure. It tells the ledger when the closure runs, and when it is dropped.
pub(crate) struct Token {
    pub(crate) id: u64,
    pub(crate) context: Arc<TaskContext>,
}

impl Token {
    /// A run begins. Returns false if it must not go on.
    pub(crate) fn begin(&self) -> bool {
        self.context.ledger.begin(self.id)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.context.ledger.drop_closure(self.id);
    }
}

/// The system's clock and a jump that grows.
#[derive(Clone, Default)]
pub(crate) struct Jumping(Arc<AtomicU64>);

impl Jumping {
    pub(crate) fn jump(&self, by: Duration) {
        self.0.fetch_add(nanos(by), Ordering::SeqCst);
    }
}

impl Clock for Jumping {
    fn now(&self) -> Instant {
        // The jump first: a clock must not go back.
        let jump = Duration::from_nanos(self.0.load(Ordering::SeqCst));
        Instant::now() + jump
    }
}

/// More violations than these are counted only.
const SHOWN: usize = 50;

/// Promises that were broken: shown at once, and counted.
#[derive(Debug)]
pub(crate) struct Violations {
    seed: u64,
    /// How many there were, and the first of them.
    found: Mutex<(u64, Vec<String>)>,
}

impl Violations {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, found: Mutex::default() }
    }

    pub(crate) fn add(&self, what: &str) {
        let (count, first) = &mut *self.found();
        *count += 1;
        if first.len() < SHOWN {
            let text = format!("VIOLATION (seed {}): {what}", self.seed);
            eprintln!("{text}");
            first.push(text);
        }
    }

    pub(crate) fn found(&self) -> MutexGuard<'_, (u64, Vec<String>)> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
