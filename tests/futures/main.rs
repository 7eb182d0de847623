//! The promises of the futures, through the public API, with wakers that count, on manual clocks.

#[path = "../common/mod.rs"]
mod common;

mod ends;
mod global;
mod intervals;
mod sleeps;
mod timeouts;
#[cfg(feature = "tokio")]
mod wakes;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A task as a future sees it: it counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Task {
    woken: Arc<Woken>,
    waker: Waker,
}

impl Task {
    fn new() -> Self {
        let woken = Arc::<Woken>::default();
        Self { waker: Waker::from(Arc::clone(&woken)), woken }
    }

    fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(&self.waker))
    }

    fn poll_with<T>(&self, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        poll(&mut Context::from_waker(&self.waker))
    }

    /// Returns how often it was woken since the last call.
    fn woken(&self) -> usize {
        self.woken.0.swap(0, Ordering::SeqCst)
    }

    /// Returns whether nothing else holds its waker any more.
    fn is_forgotten(&self) -> bool {
        Arc::strong_count(&self.woken) == 2
    }
}
