//! Executors that misbehave, and the checker's account of it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tourbillon::{Expired, Inline, ThreadPool};

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
    /// Gives them to threads that are not the engine's.
    HandingOver,
    /// Gives them to a runtime that stands still now and then.
    Spawning,
}

impl Runner {
    pub(crate) const ALL: [Self; 7] =
        [Self::Default, Self::Inline, Self::Slow, Self::Refusing, Self::Panicking, Self::HandingOver, Self::Spawning];

    /// Whether its batches begin on threads that are not the engine's.
    pub(crate) fn holds_batches(self) -> bool {
        matches!(self, Self::HandingOver | Self::Spawning)
    }
}

/// A runtime of one thread, and one of two.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| runtime(1));
static THREADS: LazyLock<Runtime> = LazyLock::new(|| runtime(2));

fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).build().expect("there is room for a thread")
}

/// Has the thread of the one do nothing else for a while.
pub(crate) fn block_the_runtime(length: Duration) {
    RUNTIME.spawn(async move { thread::sleep(length) });
}

/// One batch of these goes wrong.
const EVERY: u64 = 7;

/// Gives a builder its executor. Returns how many batches are under way on other threads, if it has
/// such.
pub(crate) fn set(
    builder: tourbillon::Builder,
    runner: Runner,
    tally: &Arc<Tally>,
) -> (tourbillon::Builder, Option<Arc<AtomicUsize>>) {
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
        Runner::HandingOver | Runner::Spawning => {
            let runtime = if runner == Runner::Spawning { &RUNTIME } else { &THREADS };
            let under_way = Arc::<AtomicUsize>::default();
            let given = Arc::clone(&under_way);
            let builder = builder.executor(move |expired: Expired| {
                tally.did(Count::HandedOver);
                given.fetch_add(1, Ordering::SeqCst);
                let given = Arc::clone(&given);
                runtime.spawn(async move {
                    expired.run();
                    given.fetch_sub(1, Ordering::SeqCst);
                });
            });
            return (builder, Some(under_way));
        }
    };
    (builder, None)
}
