//! A run of a handler, and the state that all runs share.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Handler, Lease};
use crate::clock::{Micros, WallClock};
use crate::due::Due;
use crate::inbox::{End, Inbox};
use crate::panics::drop_quietly;
use crate::stats::Counters;

/// A run that is to be carried out.
pub(crate) struct Run {
    pub(crate) handler: Arc<Handler>,
    pub(crate) due: Due,
}

/// The state that all runs share.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) wall: Arc<dyn WallClock>,
    pub(crate) counters: Arc<Counters>,
    /// Whether a stop has begun.
    pub(crate) abandoned: Arc<AtomicBool>,
}

impl Surroundings {
    /// Whether a run may begin now. Notes how late it is.
    pub(super) fn begin(&self, handler: &Handler, due: &Due) -> bool {
        let now = Micros::round_down(self.wall.now());
        // While it waited for its turn, the clock may have gone back.
        let is_held_up = self.abandoned.load(Ordering::Relaxed) || handler.is_paused();
        let may_begin = now >= due.due && self.lease.holds(now) && !is_held_up;
        if may_begin {
            self.counters.record_lateness(now.since(due.due));
        }
        may_begin
    }
}

thread_local! {
    static IS_RUNNER: Cell<bool> = const { Cell::new(false) };
}

/// Whether a handler is calling.
pub(crate) fn is_runner() -> bool {
    IS_RUNNER.get()
}

/// Until it is dropped, this thread runs a handler.
pub(super) struct AsRunner {
    before: bool,
}

impl AsRunner {
    pub(super) fn enter() -> Self {
        Self { before: IS_RUNNER.replace(true) }
    }
}

impl Drop for AsRunner {
    fn drop(&mut self) {
        IS_RUNNER.set(self.before);
    }
}

pub(super) fn panicked(payload: Box<dyn Any + Send>) -> End {
    drop_quietly(payload);
    End::Panicked
}
