//! A handle with its record. Each call through the handle is announced to the ledger before, and
//! settled after.

use std::sync::Arc;
use std::time::{Duration, Instant};

use testkit::ledger::{Ledger, scoped};
use testkit::record::{Fault, Scope};
use tourbillon::{Timeout, TimeoutGuard};

use super::tally::{Count, Tally};

/// The ledger of one engine's timeouts, and the tally of the run.
pub(crate) struct Checked {
    pub(crate) ledger: Ledger,
    pub(crate) tally: Arc<Tally>,
}

/// A handle. Dropping it lets go of the timeout, or cancels it if it is a guard.
pub(crate) struct Held {
    id: u64,
    checked: Arc<Checked>,
    /// Only taken out when this goes.
    timeout: Option<TimeoutGuard>,
    is_guard: bool,
}

impl Held {
    /// Notes that a timeout was accepted, and perhaps gave a handle.
    pub(crate) fn accepted(checked: &Arc<Checked>, id: u64, timeout: Option<Timeout>) -> Option<Self> {
        checked.ledger.accepted();
        let Some(timeout) = timeout else {
            checked.ledger.let_go(id);
            return None;
        };
        let timeout = Some(timeout.cancel_on_drop());
        Some(Self { id, checked: Arc::clone(checked), timeout, is_guard: false })
    }

    fn timeout(&self) -> Option<&Timeout> {
        self.timeout.as_deref()
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.checked.ledger
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.timeout().is_some_and(Timeout::is_pending)
    }

    pub(crate) fn reset(&self, delay: Duration) -> bool {
        let floor = self.checked.ledger.floor_in(delay);
        self.reset_with(floor, |timeout| timeout.reset(delay))
    }

    pub(crate) fn reset_at(&self, at: Instant) -> bool {
        let floor = self.checked.ledger.floor_at(at);
        self.reset_with(floor, |timeout| timeout.reset_at(at))
    }

    fn reset_with(&self, floor: u64, reset: impl FnOnce(&Timeout) -> bool) -> bool {
        let Some(timeout) = self.timeout() else { return false };
        let took = self.checked.ledger.reset(self.id, floor, || reset(timeout));
        if took {
            self.checked.tally.did(Count::ResetTook);
        }
        took
    }

    pub(crate) fn cancel(&self) -> bool {
        let Some(timeout) = self.timeout() else { return false };
        self.checked.tally.did(Count::Cancel);
        let took = self.checked.ledger.cancel(self.id, || timeout.cancel());
        if took {
            self.checked.tally.did(Count::CancelTook);
        }
        // The timeout is over, whatever `cancel` returned, and the handle says so.
        if timeout.is_pending() || took && (!timeout.is_cancelled() || timeout.is_expired()) {
            self.checked.ledger.fault(self.id, Fault::HandleDisagrees);
        }
        took
    }

    /// Gives it to one more thread: from here on two may cancel it at once.
    pub(crate) fn share(self) -> Arc<Self> {
        self.checked.ledger.share(self.id);
        Arc::new(self)
    }

    /// Makes a guard of it.
    pub(crate) fn guard(&mut self) {
        self.is_guard = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let timeout = self.timeout.take();
        if self.is_guard {
            self.checked.tally.did(Count::Guard);
            self.checked.ledger.may_be_cancelled(self.id);
            scoped(Scope::Cancelling, || drop(timeout));
        } else {
            drop(timeout.map(TimeoutGuard::into_timeout));
        }
        self.checked.ledger.let_go(self.id);
    }
}
