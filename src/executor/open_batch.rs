//! The batch that a thread of a pool runs. It lies open, so that another thread can take what waits
//! in it. Who looks for that is the pool's business.

use crate::engine::{Batch, PART};
use crate::entry::{Marked, Part};
use crate::sync::{Arc, Mutex, Shown, lock};

/// The open batch of one thread, its [`Owner`]. It takes a part at a time out of the batch, under
/// the lock, and then one timeout after the other out of that, without it.
#[derive(Debug)]
pub(super) struct OpenBatch {
    /// What the owner takes next. Others take from it only under the lock.
    part: Part<PART>,
    inner: Mutex<Inner>,
    /// How many batches the owner has begun.
    pub(super) begun: Shown,
}

#[derive(Debug, Default)]
struct Inner {
    /// What is behind the part. `None` if the owner runs no batch.
    rest: Option<Batch>,
    /// How many parts the owner has taken, of this batch and of those before.
    parts: usize,
    /// How far the owner had come when somebody last looked.
    seen: usize,
}

/// What only the owner does. There is one for an open batch.
pub(super) struct Owner(Arc<OpenBatch>);

impl Owner {
    pub(super) fn new() -> Self {
        Self(Arc::new(OpenBatch { part: Part::new(), inner: Mutex::default(), begun: Shown::new(0) }))
    }

    /// Returns the batch, for those that may take from it under the lock.
    pub(super) fn batch(&self) -> &Arc<OpenBatch> {
        &self.0
    }

    /// Notes that the owner begins a batch.
    pub(super) fn begin(&mut self) {
        self.0.begun.set(self.0.begun.get() + 1);
    }

    /// Lays open what the owner is going to run. Nothing is left of what was open before.
    pub(super) fn open(&mut self, batch: Batch) {
        let left = lock(&self.0.inner).rest.replace(batch);
        let is_left = self.0.part.passed().is_some() || left.is_some_and(|left| left.len() > 0);
        assert!(!is_left, "a thread opens one batch at a time");
    }

    /// Takes the next timeout.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Marked> {
        loop {
            // Another thread may take what has just been filled in. Then it is still under the
            // lock, and the owner must not end before that.
            match self.0.part.take() {
                None if self.fill() => {}
                taken => return taken,
            }
        }
    }

    /// Fills in the next part. Returns false if nothing is left.
    #[inline(never)]
    fn fill(&mut self) -> bool {
        let mut inner = lock(&self.0.inner);
        let emptied = inner.rest.take_if(|rest| rest.len() == 0);
        if let Some(rest) = &mut inner.rest {
            // SAFETY: the owner has found none left in it. Only the owner fills it, and others use
            // it under the lock.
            unsafe { rest.move_part(&self.0.part) };
            inner.parts += 1;
            return true;
        }
        drop(inner);
        // The last one that holds a batch may end its engine: not under the lock.
        drop(emptied);
        false
    }
}

impl OpenBatch {
    /// Takes the next part, for a thread that has nothing else to do. That is what the owner has
    /// taken out already, if it has begun nothing since somebody looked, or nothing else is left.
    /// `begin` counts it as in flight.
    ///
    /// The owner, which is in flight too, has to look under the lock before it ends. So a shutdown
    /// that waits for both does not miss what `begin` counts under the lock.
    pub(super) fn take_part<R>(&self, begin: impl FnOnce(Batch) -> R) -> Option<R> {
        let mut inner = lock(&self.inner);
        let come = self.come(&inner);
        let is_stuck = std::mem::replace(&mut inner.seen, come) == come;
        let rest = inner.rest.as_mut()?;
        if is_stuck || rest.len() == 0 {
            rest.put_back(&self.part);
        }
        // An empty one is its owner's to drop.
        if rest.len() == 0 { None } else { Some(begin(rest.split_off(PART))) }
    }

    /// Returns how far the owner has come.
    fn come(&self, inner: &Inner) -> usize {
        inner.parts * (PART + 1) + self.part.passed().unwrap_or(PART)
    }

    /// Looks how far the owner has come, if there is something to take.
    pub(super) fn look(&self) -> Option<usize> {
        let mut inner = lock(&self.inner);
        inner.seen = self.come(&inner);
        let is_left = inner.rest.as_ref()?.len() > 0 || self.part.passed().is_some();
        is_left.then_some(inner.seen)
    }
}
