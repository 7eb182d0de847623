//! A batch of expired timeouts, as an executor gets it. While a thread of a pool runs it, it is
//! open, so that another thread can take the timeouts that wait in it. The pool decides which
//! thread looks for them.

use std::fmt;

use super::run_as;
use crate::engine::{Batch, PART};
use crate::entry::{Marked, Part};
use crate::sync::{Arc, Mutex, Ordering, Shown, lock};

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
        open.0.begun.set(open.0.begun.get() + 1);
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

/// The open batch of one thread, its [`Owner`]. It takes a part at a time out of the batch, under
/// the lock, and then one timeout after the other out of that, without it.
#[derive(Debug)]
pub(super) struct OpenBatch {
    /// The timeouts that the owner takes next. Others take from it only under the lock.
    part: Part<PART>,
    inner: Mutex<Inner>,
    /// How many batches the owner has begun.
    pub(super) begun: Shown,
}

#[derive(Debug, Default)]
struct Inner {
    /// The timeouts behind the part. `None` if the owner runs no batch.
    rest: Option<Batch>,
    /// How many parts the owner has taken, of this batch and of those before.
    parts: usize,
    /// How far the owner had come when somebody last looked.
    seen: usize,
}

/// The owner's side of an open batch, which has one owner. Others may take from the batch under its
/// lock.
pub(super) struct Owner(pub(super) Arc<OpenBatch>);

impl Owner {
    pub(super) fn new() -> Self {
        Self(Arc::new(OpenBatch { part: Part::new(), inner: Mutex::default(), begun: Shown::new(0) }))
    }

    /// Lays open what the owner is going to run. Nothing is left of what was open before.
    fn open(&mut self, batch: Batch) {
        let left = lock(&self.0.inner).rest.replace(batch);
        let is_left = self.0.part.passed().is_some() || left.is_some_and(|left| left.len() > 0);
        assert!(!is_left, "a thread opens one batch at a time");
    }

    /// Takes the next timeout.
    #[inline]
    fn take(&mut self) -> Option<Marked> {
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
