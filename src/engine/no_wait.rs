//! Threads that wait for no worker, because a worker may wait for them.

use std::cell::Cell;
use std::marker::PhantomData;

#[cfg(loom)]
use crate::sync::LocalCell;

// Without a destructor, so that a thread that has destroyed its thread-locals can still read it.
#[cfg(not(loom))]
thread_local! {
    static MAY_WAIT: Cell<bool> = const { Cell::new(true) };
}
// A model runs all its threads on one thread of the system, so std's macro would give them one
// variable.
#[cfg(loom)]
loom::thread_local! {
    static MAY_WAIT: Cell<bool> = Cell::new(true);
}

/// Returns whether the calling thread may wait for a worker.
pub(super) fn may_wait() -> bool {
    MAY_WAIT.get()
}

/// While it exists, the calling thread waits for no worker: it takes new memory instead. A worker
/// has one, as two workers could wait for each other. So has a thread that holds a lock which a
/// worker may need.
#[must_use = "the thread may wait again when it is dropped"]
pub(crate) struct NoWait {
    before: bool,
    /// It belongs to its thread.
    not_send: PhantomData<*const ()>,
}

impl NoWait {
    pub(crate) fn begin() -> Self {
        let before = MAY_WAIT.get();
        MAY_WAIT.set(false);
        Self { before, not_send: PhantomData }
    }
}

impl Drop for NoWait {
    fn drop(&mut self) {
        MAY_WAIT.set(self.before);
    }
}
