//! Executors that misbehave, and the checker's account of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_queue::SegQueue;
use tourbillon::{Builder, Expired, Inline, ThreadPool};

use super::tally::{Count, Tally};

/// Where an engine's tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// The engine's own pool.
    Default,
    Inline,
    /// A pool of one thread.
    Slow,
    /// Drops one batch of [`EVERY`].
    Refusing,
    /// Panics on one batch of [`EVERY`].
    Panicking,
    /// Gives them to threads of its own.
    HandingOver,
}

impl Runner {
    pub(crate) const ALL: [Self; 6] =
        [Self::Default, Self::Inline, Self::Slow, Self::Refusing, Self::Panicking, Self::HandingOver];
}

/// One batch of these goes wrong.
const EVERY: u64 = 7;

/// Batches on their way to another thread.
pub(crate) struct Handover {
    queue: SegQueue<Expired>,
    /// Given, and not run to their end.
    under_way: AtomicUsize,
    owner_gone: AtomicUsize,
}

impl Handover {
    fn give(&self, expired: Expired) {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        self.queue.push(expired);
    }

    /// A thread's life: until the engine has gone and the queue is empty.
    fn work(&self) {
        loop {
            while let Some(expired) = self.queue.pop() {
                expired.run();
                self.under_way.fetch_sub(1, Ordering::SeqCst);
            }
            if self.owner_gone.load(Ordering::SeqCst) > 0 && self.queue.is_empty() {
                return;
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Waits until all that was handed over has run.
    pub(crate) fn wait(&self) {
        while self.under_way.load(Ordering::SeqCst) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Keeps the threads of a hand-over alive.
pub(crate) struct Hands(Arc<Handover>);

impl Hands {
    pub(crate) fn wait(&self) {
        self.0.wait();
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        self.0.owner_gone.store(1, Ordering::SeqCst);
    }
}

/// Gives a builder its executor. Returns the other threads, if it has such.
pub(crate) fn set(builder: Builder, runner: Runner, tally: &Arc<Tally>) -> (Builder, Option<Hands>) {
    let tally = Arc::clone(tally);
    let batches = AtomicU64::new(0);
    let is_turn = move || batches.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1;
    let builder = match runner {
        Runner::Default => builder,
        Runner::Inline => builder.executor(Inline),
        Runner::Slow => builder.executor(ThreadPool::new(1)),
        Runner::Refusing => builder.executor(move |expired: Expired| {
            if is_turn() {
                tally.did(Count::Refused);
                drop(expired);
            } else {
                expired.run();
            }
        }),
        Runner::Panicking => builder.executor(move |expired: Expired| {
            if is_turn() {
                tally.did(Count::ExecutorPanic);
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            expired.run();
        }),
        Runner::HandingOver => {
            let handover = Arc::new(Handover {
                queue: SegQueue::new(),
                under_way: AtomicUsize::new(0),
                owner_gone: AtomicUsize::new(0),
            });
            for _ in 0..2 {
                let handover = Arc::clone(&handover);
                thread::spawn(move || handover.work());
            }
            let hands = Hands(Arc::clone(&handover));
            let builder = builder.executor(move |expired: Expired| {
                tally.did(Count::HandedOver);
                handover.give(expired);
            });
            return (builder, Some(hands));
        }
    };
    (builder, None)
}
