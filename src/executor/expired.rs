//! A batch of expired timeouts, as an executor gets it.

use std::fmt;

use super::open_batch::Owner;
use super::runs::run_as;
use crate::engine::Batch;
use crate::sync::Ordering;

/// A batch of expired timeouts, or of futures to be woken. [`run`](Self::run) runs it. Dropping it
/// runs it, too.
///
/// ```
/// use std::sync::mpsc::channel;
/// use std::time::Duration;
/// use tourbillon::{Expired, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (send, batches) = channel::<Expired>();
/// let timer = Timer::builder().executor(move |batch| _ = send.send(batch)).build()?;
/// timer.schedule_detached(Duration::from_millis(5), || println!("on the main thread"))?;
/// let batch = batches.recv()?;
/// assert_eq!(batch.len(), 1);
/// batch.run();
/// # Ok(())
/// # }
/// ```
#[must_use = "an expired batch should be run; dropping it runs it here and now"]
pub struct Expired {
    batch: Batch,
    /// Whether the batch counts as in flight from the start, as the executor is sure to run it. A
    /// shutdown waits for it then. Otherwise it counts from when it begins to run.
    is_awaited: bool,
    /// Whether its owner has begun to run it.
    begun: bool,
}

impl Expired {
    /// Returns how many timeouts are left in the batch. It is an upper bound on those that will
    /// run: some may have been cancelled or put off since.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a batch that is given to an executor is never empty")]
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Runs all timeouts in the batch, one after the other, on the calling thread. If a timeout
    /// panics, the panic is caught, counted, and given to the builder's `on_panic`; the others
    /// still run.
    pub fn run(mut self) {
        self.run_all(Batch::run);
    }

    /// Like [`run`](Self::run), but lays open what it has not begun.
    pub(super) fn run_open(mut self, open: &mut Owner) {
        if self.len() == 1 {
            return self.run();
        }
        open.open(self.batch.split_off(usize::MAX));
        // SAFETY: `open` got all of this batch, and has made sure that nothing else is left there.
        self.run_all(|batch, may_go_back| unsafe { batch.run_from(|| open.take(), may_go_back) });
    }

    /// Makes a batch that is in flight from now on: a shutdown waits for it.
    pub(crate) fn begin(batch: Batch) -> Self {
        batch.shared().in_flight.begin();
        Self { batch, is_awaited: true, begun: false }
    }

    /// Makes a batch that is in flight once it begins to run.
    pub(crate) fn uncounted(batch: Batch) -> Self {
        Self { batch, is_awaited: false, begun: false }
    }

    fn run_all(&mut self, run: impl FnOnce(&mut Batch, bool)) {
        let in_flight = &self.batch.shared().in_flight;
        if !std::mem::replace(&mut self.begun, true) {
            if !self.is_awaited {
                in_flight.begin();
            }
            in_flight.run();
        }
        // A shutdown waits for a batch that is counted from the start, so it can have back what has
        // not begun. A batch that a user's executor holds stays that executor's own.
        let may_go_back = self.is_awaited;
        run_as(self.batch.shared().id(), || run(&mut self.batch, may_go_back));
    }
}

impl Drop for Expired {
    fn drop(&mut self) {
        if self.batch.len() > 0 {
            if !self.begun {
                self.batch.shared().caller_ran.fetch_add(self.batch.len() as u64, Ordering::Relaxed);
            }
            self.run_all(Batch::run);
        }
        if self.is_awaited || self.begun {
            self.batch.shared().in_flight.end();
        }
    }
}

impl fmt::Debug for Expired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expired").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Runs a batch on the calling thread, or wakes its futures. The driven mode uses this.
pub(crate) fn run_here(batch: Batch) {
    Expired::begin(batch).run();
}
