//! A schedule that the engine refused.

use testkit::record::Scope;
use tourbillon::{Refusal, ScheduleError};

use super::ledger::{Ledger, scoped};
use super::tally::{Injected, Op};

/// Notes that it was refused, and drops what came back.
pub(crate) fn refuse<F>(ledger: &Ledger, error: ScheduleError<F>, how_many: u64) {
    (0..how_many).for_each(|_| ledger.rejected());
    let (full, closed) = (error.is_full(), error.is_shutdown());
    if full {
        ledger.tally.did_many(Op::Full, how_many);
        ledger.tally.inject(Injected::Full);
    }
    if closed {
        ledger.tally.did_many(Op::Closed, how_many);
    }
    let no_memory = error.kind() == Refusal::OutOfMemory;
    if no_memory {
        ledger.tally.did_many(Op::NoMemory, how_many);
        ledger.tally.inject(Injected::NoMemory);
    }
    if !full && !closed && !no_memory {
        ledger.violation("a timeout was refused for no reason that there is");
    }
    scoped(Scope::Refused, || drop(error.into_inner()));
}

/// A refusal with what came back, whatever that was.
pub(crate) struct Refused(Box<dyn FnOnce(&Ledger)>);

impl Refused {
    pub(crate) fn of<F: 'static>(error: ScheduleError<F>) -> Self {
        Self(Box::new(move |ledger| refuse(ledger, error, 1)))
    }

    pub(crate) fn note(self, ledger: &Ledger) {
        (self.0)(ledger);
    }
}
