//! What a thread of a pool has not begun of its batch. It lies open, so that an idle thread can
//! take it over while a task blocks its owner. Who calls an idle thread is the pool's business.

use crate::engine::{Batch, Opened};
use crate::sync::{Mutex, lock};

/// The open batch of one thread.
#[derive(Debug, Default)]
pub(super) struct OpenBatch {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    rest: Option<Batch>,
    /// How many parts the owner has taken, of this batch and of those before.
    parts: u64,
}

impl OpenBatch {
    /// Lays open what its owner does not begin yet.
    pub(super) fn open(&self, rest: Batch) {
        lock(&self.inner).rest = Some(rest);
    }

    /// Moves the next part to the owner's batch. Returns false if nothing is left. Only the owner
    /// calls this.
    pub(super) fn take_part(&self, own: &mut Opened<'_>) -> bool {
        let mut inner = lock(&self.inner);
        inner.parts += 1;
        let Some(rest) = &mut inner.rest else { return false };
        rest.move_part(own);
        let emptied = if rest.len() == 0 { inner.rest.take() } else { None };
        drop(inner);
        // The last one that holds a batch may end its engine: not under the lock.
        drop(emptied);
        true
    }

    /// Takes over what the owner has not begun. `begin` counts it as in flight.
    ///
    /// The owner, which is in flight too, has to look under the lock before it ends. So a shutdown
    /// that waits for both does not miss what `begin` counts under the lock.
    pub(super) fn take_over<R>(&self, begin: impl FnOnce(Batch) -> R) -> Option<R> {
        let mut inner = lock(&self.inner);
        inner.rest.take().map(begin)
    }

    /// Returns how many parts the owner has taken if there is something to take over.
    pub(super) fn parts(&self) -> Option<u64> {
        let inner = lock(&self.inner);
        inner.rest.as_ref().map(|_| inner.parts)
    }
}
