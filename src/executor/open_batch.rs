//! The batch that a thread of a pool runs. It lies open, so that another thread can take over what
//! waits behind a task that blocks. Who looks for that is the pool's business.

use crate::engine::{Batch, PART};
use crate::entry::{Marked, Part};
use crate::sync::{Mutex, Shown, lock};

/// The open batch of one thread, its *owner*. It takes a part at a time out of the batch, under the
/// lock, and then one timeout after the other out of that, without it.
#[derive(Debug)]
pub(super) struct OpenBatch {
    /// What the owner takes next. Others take from it only under the lock.
    part: Part<PART>,
    inner: Mutex<Inner>,
    /// How many batches the owner has begun.
    begun: Shown,
}

#[derive(Debug, Default)]
struct Inner {
    /// What is behind the part. `None` if the owner runs no batch, or what was left of it has been
    /// taken over.
    rest: Option<Batch>,
    /// How many parts the owner has taken, of this batch and of those before.
    parts: usize,
}

impl OpenBatch {
    pub(super) fn new() -> Self {
        Self { part: Part::new(), inner: Mutex::default(), begun: Shown::new(0) }
    }

    /// Notes that the owner begins a batch.
    pub(super) fn begin(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// Returns how many batches the owner has begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun.get()
    }

    /// Lays open what its owner is going to run, when nothing is left of what was open before.
    pub(super) fn open(&self, batch: Batch) {
        lock(&self.inner).rest = Some(batch);
    }

    /// Takes the next timeout. Only the owner calls this.
    #[inline]
    pub(super) fn take(&self) -> Option<Marked> {
        loop {
            // Another thread may take over what has just been filled in. Then it is still under the
            // lock, and the owner must not end before that.
            match self.part.take() {
                None if self.fill() => {}
                taken => return taken,
            }
        }
    }

    /// Fills in the next part. Returns false if nothing is left.
    #[inline(never)]
    fn fill(&self) -> bool {
        let mut inner = lock(&self.inner);
        let emptied = inner.rest.take_if(|rest| rest.len() == 0);
        if let Some(rest) = &mut inner.rest {
            // SAFETY: the owner has found none left in it. Only the owner fills it, and others use
            // it under the lock.
            unsafe { rest.move_part(&self.part) };
            inner.parts += 1;
            return true;
        }
        drop(inner);
        // The last one that holds a batch may end its engine: not under the lock.
        drop(emptied);
        false
    }

    /// Takes over all that nobody has begun. `begin` counts it as in flight.
    ///
    /// The owner, which is in flight too, has to look under the lock before it ends. So a shutdown
    /// that waits for both does not miss what `begin` counts under the lock.
    pub(super) fn take_over<R>(&self, begin: impl FnOnce(Batch) -> R) -> Option<R> {
        let mut inner = lock(&self.inner);
        let rest = inner.rest.as_mut()?;
        rest.put_back(&self.part);
        // An empty one is its owner's to drop.
        if rest.len() == 0 { None } else { inner.rest.take().map(begin) }
    }

    /// The same for the next part, for a thread that has nothing else to do.
    pub(super) fn take_part<R>(&self, begin: impl FnOnce(Batch) -> R) -> Option<R> {
        let mut inner = lock(&self.inner);
        let rest = inner.rest.as_mut().filter(|rest| rest.len() > 0)?;
        Some(begin(rest.split_off_part()))
    }

    /// Returns how far the owner has come, if there is something to take over.
    pub(super) fn progress(&self) -> Option<usize> {
        let inner = lock(&self.inner);
        let is_left = inner.rest.as_ref()?.len() > 0;
        let passed = self.part.passed();
        (is_left || passed.is_some()).then(|| inner.parts * (PART + 1) + passed.unwrap_or(PART))
    }
}
