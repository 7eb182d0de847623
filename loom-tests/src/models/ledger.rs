//! Tasks whose outcome is recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::alloc::Track;
use loom::cell::UnsafeCell;

/// Records the outcome of tasks. It counts outside of loom, so that counting orders nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    ran: AtomicUsize,
    dropped: AtomicUsize,
    /// One for each task.
    ends: std::sync::Mutex<Vec<Arc<End>>>,
}

/// A task writes to it when it has run, or is dropped, and the ledger reads it when it closes. So
/// loom fails the model if nothing orders the one before the other.
#[derive(Debug)]
struct End(UnsafeCell<()>);

// SAFETY: the model's threads share the cell, and loom checks that no two accesses to it race.
unsafe impl Send for End {}
// SAFETY: the model's threads share the cell, and loom checks that no two accesses to it race.
unsafe impl Sync for End {}

impl Ledger {
    /// Returns a task that counts its run and its drop. Loom reports it if it leaks, or if it
    /// reaches another thread without the order in memory that this takes.
    pub(super) fn task(&self) -> impl FnOnce() + Send + use<> {
        let end = Arc::new(End(UnsafeCell::new(())));
        self.ends().push(Arc::clone(&end));
        let coin = Coin { ledger: self.clone(), captured: UnsafeCell::new(()), end, ran: false, _leak: Track::new(()) };
        move || coin.run()
    }

    /// Returns a task that can be called again. Loom checks that each call happens after the one
    /// before. Its drop counts as that of a task that never ran.
    pub(super) fn repeated<R, T: FnMut() -> R + Send>(&self, mut task: T) -> impl FnMut() -> R + Send + use<R, T> {
        let end = Arc::new(End(UnsafeCell::new(())));
        self.ends().push(Arc::clone(&end));
        let coin = Coin { ledger: self.clone(), captured: UnsafeCell::new(()), end, ran: false, _leak: Track::new(()) };
        move || {
            coin.captured.with_mut(|_| ());
            task()
        }
    }

    fn ends(&self) -> std::sync::MutexGuard<'_, Vec<Arc<End>>> {
        self.0.ends.lock().expect("no panic")
    }

    pub(super) fn ran(&self) -> usize {
        self.0.ran.load(Ordering::Relaxed)
    }

    /// Returns the number of tasks that were dropped without having run.
    pub(super) fn dropped(&self) -> usize {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Asserts that every task has come to its end, which is visible here: this number ran, and all
    /// others were dropped.
    pub(super) fn assert_closed(&self, ran: usize) {
        let ends = self.ends();
        let made = ends.len();
        assert_eq!((self.ran(), self.dropped()), (ran, made - ran), "(ran, dropped) of {made} tasks");
        ends.iter().for_each(|end| end.0.with(|_| ()));
    }
}

struct Coin {
    ledger: Ledger,
    captured: UnsafeCell<()>,
    end: Arc<End>,
    ran: bool,
    _leak: Track<()>,
}

// SAFETY: loom checks that threads hand the cell over in order.
unsafe impl Send for Coin {}

impl Coin {
    fn run(mut self) {
        self.ran = true;
    }
}

impl Drop for Coin {
    fn drop(&mut self) {
        self.captured.with_mut(|_| ());
        self.end.0.with_mut(|_| ());
        let count = if self.ran { &self.ledger.0.ran } else { &self.ledger.0.dropped };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
