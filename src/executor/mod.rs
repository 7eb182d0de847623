//! Where expired timeouts run: on a pool of threads, on the worker itself, or on an executor of the
//! user's. It also knows whose tasks a thread is running.

mod expired;
mod pool;
#[cfg(feature = "tokio")]
mod runtime;

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

pub use expired::Expired;
pub(crate) use expired::run_here;
pub(crate) use pool::Help;
pub use pool::ThreadPool;
#[cfg(feature = "tokio")]
pub(crate) use runtime::Runtime;

use crate::engine::{Due, Shared};
use crate::panics::CatchUnwind;

/// Where an engine's expired timeouts run.
///
/// [`ThreadPool`] (the default), [`Inline`], every `Fn(Expired)`, `Arc`s of these, and a
/// `Box<dyn Executor>` implement it. With the feature `tokio`, `tokio::runtime::Handle` does, and
/// with `rayon`, `rayon::ThreadPool`.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Expired, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (send, receive) = std::sync::mpsc::channel();
/// let timer = Timer::builder().executor(move |expired: Expired| {
///     // A batch may be sent to where it should run.
///     let _ = send.send(expired);
/// }).build()?;
/// timer.schedule_detached(Duration::from_millis(5), || println!("runs on the main thread"))?;
/// receive.recv()?.run();
/// # Ok(())
/// # }
/// ```
pub trait Executor: Send + Sync + 'static {
    /// Runs a batch, or arranges for another thread to run it.
    ///
    /// The worker calls this, and does nothing else meanwhile, so it should return soon. If it
    /// drops the batch, or panics, the batch runs at once on the worker: an expired timeout is
    /// never lost.
    fn execute(&self, expired: Expired);
}

impl<F: Fn(Expired) + Send + Sync + 'static> Executor for F {
    fn execute(&self, expired: Expired) {
        self(expired);
    }
}

// Not for every `Box<E>`: a boxed closure is a closure, and an executor for that reason.
impl Executor for Box<dyn Executor> {
    fn execute(&self, expired: Expired) {
        (**self).execute(expired);
    }
}

impl<E: Executor + ?Sized> Executor for Arc<E> {
    fn execute(&self, expired: Expired) {
        (**self).execute(expired);
    }
}

/// Runs expired timeouts on the worker that expired them. There is no hand-over, so this has the
/// least latency. Tasks must be short and never block: while one runs, its shard's other timeouts
/// wait.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Inline, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The tasks only wake others, so they run on the worker.
/// let timer = Timer::builder().executor(Inline).build()?;
/// let waiter = std::thread::current();
/// timer.schedule_detached(Duration::from_millis(5), move || waiter.unpark())?;
/// std::thread::park();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Inline;

impl Executor for Inline {
    fn execute(&self, expired: Expired) {
        expired.run();
    }
}

/// The executor of an engine, and what the engine knows of it if it is one of ours.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    executor: CatchUnwind<Arc<dyn Executor>>,
    pub(crate) is_inline: bool,
    pub(crate) pool: Option<ThreadPool>,
    /// The runtime that it is, to wake futures.
    #[cfg(feature = "tokio")]
    pub(crate) runtime: Option<::tokio::runtime::Handle>,
}

impl Chosen {
    pub(crate) fn new(executor: impl Executor) -> Self {
        let any: &dyn Any = &executor;
        let shared = || any.downcast_ref::<Arc<ThreadPool>>().map(|pool| &**pool);
        let pool = any.downcast_ref::<ThreadPool>().or_else(shared).cloned();
        #[cfg(feature = "tokio")]
        let runtime = any.downcast_ref::<::tokio::runtime::Handle>().cloned();
        let is_inline = any.is::<Inline>();
        Self {
            executor: CatchUnwind::new(Arc::new(executor)),
            is_inline,
            pool,
            #[cfg(feature = "tokio")]
            runtime,
        }
    }

    /// Whether every batch that the executor is given is sure to run. A shutdown then waits for all
    /// of them.
    pub(crate) fn runs_all(&self) -> bool {
        self.is_inline || self.pool.is_some()
    }

    pub(crate) fn execute(&self, expired: Expired) {
        self.executor.execute(expired);
    }

    /// Returns whether it is a pool whose threads are all stuck in tasks while others wait.
    pub(crate) fn is_stuck(&self) -> bool {
        self.pool.as_ref().is_some_and(ThreadPool::is_stuck)
    }

    /// Finds help for what waits behind a task that blocks. A worker that has handed over a batch
    /// asks before it sleeps, and so does a shutdown that waits.
    pub(crate) fn find_help(&self) -> Help {
        self.pool.as_ref().map_or(Help::Never, ThreadPool::find_help)
    }
}

/// Runs what is due in a turn, each timeout as soon as it is claimed, on the thread that turns the
/// shard.
pub(crate) fn run_in_turn(due: &mut Due<'_>) {
    run_as(due.shared().id(), || due.run());
}

/// Calls a hook as if it were a task: its panics are reported, and a shutdown that it asks for is
/// refused.
pub(crate) fn call_hook(shared: &Shared, hook: impl FnOnce()) {
    let told = run_as(shared.id(), || catch_unwind(AssertUnwindSafe(hook)));
    told.unwrap_or_else(|panic| shared.report(panic));
}

/// An engine whose task a thread is running. `outer` is what the thread was running before: a task
/// may turn another engine.
struct Frame {
    engine: u64,
    outer: *const Frame,
}

#[cfg(not(loom))]
thread_local! {
    /// The innermost engine; null if the thread runs no task.
    static RUNNING: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}
// A model runs all its threads on one thread of the system, so std's macro would give them one
// variable.
#[cfg(loom)]
loom::thread_local! {
    static RUNNING: Cell<*const Frame> = Cell::new(ptr::null());
}

/// Runs `work` as a part of the engine.
pub(crate) fn run_as<R>(engine: u64, work: impl FnOnce() -> R) -> R {
    /// Takes the frame out of the list, also if `work` panics.
    struct Leave(*const Frame);
    impl Drop for Leave {
        fn drop(&mut self) {
            RUNNING.with(|running| running.set(self.0));
        }
    }
    let outer = RUNNING.with(Cell::get);
    let this = Frame { engine, outer };
    RUNNING.with(|running| running.set(&this));
    let _leave = Leave(outer);
    work()
}

/// Returns whether the calling thread is running a task of this engine.
pub(crate) fn is_running_a_task_of(engine: u64) -> bool {
    let mut next = RUNNING.with(Cell::get);
    // SAFETY: `run_as` keeps each `Frame` on the stack of this thread for as long as it is in the
    // list. Its guard takes the frame out before that, also if the work panics.
    while let Some(this) = unsafe { next.as_ref() } {
        if this.engine == engine {
            return true;
        }
        next = this.outer;
    }
    false
}

/// Returns whether the calling thread is running a task of any engine.
pub(crate) fn is_running_a_task() -> bool {
    !RUNNING.with(Cell::get).is_null()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_is_not_running_any_more() {
        let panicked = catch_unwind(AssertUnwindSafe(|| run_as(7, || run_as(8, || panic!("on purpose")))));
        assert!(panicked.is_err() && !is_running_a_task());
        run_as(9, || assert_eq!([7, 8, 9].map(is_running_a_task_of), [false, false, true]));
    }
}
