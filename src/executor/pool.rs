//! A pool of threads with one queue.

use std::fmt;
use std::num::NonZero;

use super::{Executor, Expired};
use crate::panics;
use crate::sync::thread;
use crate::sync::{Arc, Condvar, Mutex, SegQueue, lock};
use crate::sys::cores::spawn_ordinary;
use crate::sys::fork;

/// A pool of threads that run expired timeouts: the default executor. Threads start when they are first needed, one for
/// each batch that finds none idle, up to the number given, and end when the last clone of the pool is dropped (an engine
/// drops its own at shutdown) and the queue is empty. A batch is up to 256 tasks that expired together; they run one after the other, on
/// one thread. In a child that was forked off after the pool was made, where its threads are not, batches run on the worker.
///
/// Clones share one pool, so that several engines can share its threads:
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tourbillon::{ThreadPool, Timer};
///
/// let pool = ThreadPool::new(2);
/// let requests = Timer::builder().executor(pool.clone()).build()?;
/// let sessions = Timer::builder().executor(pool).build()?;
/// # drop((requests, sessions));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ThreadPool {
    /// Counts the pool's owners, without its threads.
    owners: Arc<Owners>,
}

struct Owners(Arc<Shared>);

struct Shared {
    queue: SegQueue<Expired>,
    /// Changed and looked at under the lock only, and only by threads about to sleep or by who has just pushed.
    crew: Mutex<Crew>,
    called: Condvar,
    max: usize,
    name: String,
    /// [`fork::generation`] at its making.
    generation: usize,
}

#[derive(Default)]
struct Crew {
    threads: usize,
    idle: usize,
    /// Idle threads that have been called and have not looked at the queue yet.
    called: usize,
    closed: bool,
}

impl ThreadPool {
    /// A pool of at most `threads` threads; at least one, whatever the number. Starts none yet.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self::named(threads, "tourbillon-pool")
    }

    pub(crate) fn named(threads: usize, name: &str) -> Self {
        let shared = Shared {
            queue: SegQueue::new(),
            crew: Mutex::new(Crew::default()),
            called: Condvar::new(),
            max: threads.max(1),
            name: name.to_owned(),
            generation: fork::generation(),
        };
        Self { owners: Arc::new(Owners(Arc::new(shared))) }
    }

    /// A pool as large as there are cores for this process, but of at least two threads, so that one slow task does not
    /// hold up all others.
    pub(crate) fn by_cores(name: &str) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
        Self::named(cores.max(2), name)
    }
}

impl Shared {
    /// Calls an idle thread, or starts one. False if there is no thread at all to run the queue, now or later.
    fn call(this: &Arc<Self>) -> bool {
        let mut crew = lock(&this.crew);
        if crew.idle > crew.called {
            crew.called += 1;
            this.called.notify_one();
            return true;
        }
        if crew.threads < this.max {
            let shared = Arc::clone(this);
            let name = format!("{}-{}", this.name, crew.threads);
            let builder = thread::Builder::new().name(name);
            if spawn_ordinary(builder, move || shared.work()).is_ok() {
                crew.threads += 1;
            }
        }
        crew.threads > 0
    }

    /// A thread's life.
    fn work(&self) {
        loop {
            while let Some(expired) = self.queue.pop() {
                // `run` catches what tasks do; should it panic all the same, the thread must not be lost with it.
                panics::catch(|| expired.run());
            }
            let mut crew = lock(&self.crew);
            // Whoever pushes, pushes first and takes this lock afterwards: so either this look sees the push, or the
            // pusher sees this thread idle.
            if !self.queue.is_empty() {
                continue;
            }
            if crew.closed {
                crew.threads -= 1;
                return;
            }
            crew.idle += 1;
            while crew.called == 0 && !crew.closed {
                crew = self.called.wait(crew).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            crew.called = crew.called.saturating_sub(1);
            crew.idle -= 1;
        }
    }
}

impl Executor for ThreadPool {
    fn execute(&self, expired: Expired) {
        let shared = &self.owners.0;
        if fork::is_forked_since(shared.generation) {
            // The threads stayed with the parent, and what is in the queue is a copy of what they run.
            return expired.run();
        }
        shared.queue.push(expired);
        if !Shared::call(shared) {
            // No thread can be had: better here than never.
            while let Some(expired) = shared.queue.pop() {
                expired.run();
            }
        }
    }

    fn runs_all(&self) -> bool {
        true
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        lock(&self.0.crew).closed = true;
        self.0.called.notify_all();
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("threads", &self.owners.0.max).finish_non_exhaustive()
    }
}
