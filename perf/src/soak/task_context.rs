//! What an engine's tasks and producers use: the ledger, the timer, and periodic timeouts to reset
//! and cancel.

use std::sync::{Arc, PoisonError, RwLock};

use crossbeam_queue::ArrayQueue;
use testkit::record::Kind;
use tourbillon::Timer;

use super::held::Held;
use super::ledger::Ledger;

/// One for each engine.
pub(crate) struct TaskContext {
    pub(crate) ledger: Arc<Ledger>,
    /// For tasks that schedule. The thread that ends the engine takes it out.
    timer: RwLock<Option<Timer>>,
    /// Periodic timeouts for tasks to reset and cancel, if one thread runs all of this engine's
    /// tasks.
    pub(crate) board: Option<ArrayQueue<Held>>,
}

impl TaskContext {
    pub(crate) fn new(ledger: Arc<Ledger>, board: Option<ArrayQueue<Held>>) -> Self {
        Self { ledger, timer: RwLock::new(None), board }
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

    /// The token of a timeout that is about to be scheduled. Returns `None` if there are too many.
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
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.context.ledger
    }

    /// A run begins. Returns false if it must not go on.
    pub(crate) fn begin(&self) -> bool {
        self.ledger().begin(self.id)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.ledger().drop_closure(self.id);
    }
}
