//! A pool of threads with one queue.

use std::fmt;
use std::num::NonZero;

use super::expired::{OpenBatch, Owner};
use super::{Executor, Expired};
use crate::count::Stall;
use crate::events;
use crate::panics;
use crate::sync::{Arc, Condvar, Mutex, SegQueue, Shown, lock, thread};
use crate::sys::cores::spawn_ordinary;
use crate::sys::fork;
use crate::time::{real_time, saturating_ns};

/// A pool of threads that run expired timeouts. This is the default executor.
///
/// A batch that finds no idle thread starts one, up to the number given to [`new`](Self::new). The
/// threads end when the last clone of the pool has been dropped (an engine drops its own at
/// shutdown) and the queue is empty. A child that is forked after the pool was made does not have
/// the pool's threads; there, batches run on the worker.
///
/// A batch is up to 256 tasks that expired together. One thread runs them, one after the other. A
/// thread that has nothing else to do takes up to eight of those that another has not begun. One
/// that sleeps is called, or one is started, when a task has waited behind others for a millisecond
/// or two; for 64 at most if all threads were busy for a while. It is a worker that looks for that,
/// or a shutdown that waits for the pool. So there is no such help if the executor is a closure
/// that hands its batches to a pool.
///
/// If all threads are in tasks that do not end, the others wait. After a second
/// [`Health::stuck_pool`](crate::Health::stuck_pool) says so, and so does an event, with the
/// feature `tracing`.
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
    /// A thread of the pool takes the lock when the queue is empty. So do a thread that has just
    /// pushed, one that looks for help, and one that asks for the pool's health.
    crew: Mutex<Crew>,
    called: Condvar,
    max: usize,
    /// 1 if the last batch found no thread that was free.
    is_full: Shown,
    /// Of all threads together, while others wait for one.
    stall: Stall,
    /// 1 if it was told that all threads are stuck, and they still were at the last look.
    told: Shown,
    name: String,
    /// [`fork::generation`] when the pool was made.
    generation: u64,
}

/// The outcome of a look at a pool's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Help {
    /// Something waited behind another task, and a thread was called.
    Called,
    /// A batch runs. Nothing waits in it, or there is no thread for that now.
    NotNow,
    /// No batch runs.
    Never,
}

#[derive(Default)]
struct Crew {
    idle: usize,
    /// Idle threads that have been called and have not looked at the queue yet.
    called: usize,
    closed: bool,
    /// One of each thread.
    open: Vec<Arc<OpenBatch>>,
    /// From which of them something was taken last.
    taken_from: usize,
}

impl ThreadPool {
    /// Finds help for what waits behind a task that blocks: calls a thread if something waits.
    pub(crate) fn find_help(&self) -> Help {
        let shared = &self.owners.0;
        let crew = lock(&shared.crew);
        // A thread that was called may not have opened its batch yet.
        let is_busy = crew.idle.saturating_sub(crew.called) < crew.open.len();
        let steps = shared.look(&crew);
        let can_help = steps.is_some() && shared.has_free_thread(&crew);
        let (was_stuck, is_stuck) = (shared.told.get(), u64::from(shared.is_stuck(&crew, steps)));
        shared.told.set(is_stuck);
        drop(crew);
        if is_stuck > was_stuck {
            events::pool_is_stuck(shared.max);
        }
        if can_help {
            Shared::call(shared);
            return Help::Called;
        }
        if is_busy { Help::NotNow } else { Help::Never }
    }

    /// Returns whether the last batch found no thread that was free.
    pub(crate) fn is_full(&self) -> bool {
        self.owners.0.is_full.get() != 0
    }

    /// Returns whether all threads have been in their tasks for a second while others wait, and
    /// somebody has looked all the time.
    pub(crate) fn is_stuck(&self) -> bool {
        let shared = &self.owners.0;
        let crew = lock(&shared.crew);
        shared.is_stuck(&crew, shared.look(&crew))
    }

    /// Makes a pool of at most `threads` threads, or of one if `threads` is 0. Starts no thread
    /// yet.
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
            is_full: Shown::new(0),
            stall: Stall::none(),
            told: Shown::new(0),
            name: name.to_owned(),
            generation: fork::generation(),
        };
        Self { owners: Arc::new(Owners(Arc::new(shared))) }
    }

    /// Makes a pool with as many threads as the process has cores. It has at least two threads, so
    /// that one slow task does not hold up all others.
    pub(crate) fn by_cores(name: &str) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
        Self::named(cores.max(2), name)
    }
}

impl Crew {
    /// Takes a part of what another thread has not begun: of each in turn, so that what waits
    /// behind a task that blocks does not wait for all others.
    fn take_part(&mut self) -> Option<Expired> {
        (0..self.open.len()).find_map(|_| {
            self.taken_from = (self.taken_from + 1) % self.open.len();
            self.open[self.taken_from].take_part(Expired::begin)
        })
    }
}

impl Shared {
    /// Calls an idle thread, or starts one. Returns `false` if there is no thread at all to run the
    /// queue, now or later.
    fn call(this: &Arc<Self>) -> bool {
        let mut crew = lock(&this.crew);
        this.is_full.set(u64::from(!this.has_free_thread(&crew)));
        if crew.idle > crew.called {
            crew.called += 1;
            this.called.notify_one();
            return true;
        }
        if crew.open.len() < this.max {
            let (shared, own) = (Arc::clone(this), Owner::new());
            let batch = Arc::clone(&own.0);
            let name = format!("{}-{}", this.name, crew.open.len());
            let builder = thread::Builder::new().name(name);
            if spawn_ordinary(builder, move || shared.work(own)).is_ok() {
                crew.open.push(batch);
            }
        }
        !crew.open.is_empty()
    }

    /// Returns whether a batch would find a thread that is idle or can be started.
    fn has_free_thread(&self, crew: &Crew) -> bool {
        crew.idle > crew.called || crew.open.len() < self.max
    }

    /// Looks how far each thread has come. Returns the steps of all, if something waits for one.
    fn look(&self, crew: &Crew) -> Option<u64> {
        let (mut steps, mut waits) = (0, !self.queue.is_empty());
        for batch in &crew.open {
            let progress = batch.look();
            waits |= progress.is_some();
            steps += batch.begun.get() + progress.unwrap_or(0) as u64;
        }
        waits.then_some(steps)
    }

    /// Returns whether no thread is free, and none has begun a task for a second, although others
    /// wait. `steps` is what a [`look`](Self::look) has returned.
    fn is_stuck(&self, crew: &Crew, steps: Option<u64>) -> bool {
        let is_stuck = |steps| self.stall.is_stuck(steps, saturating_ns(real_time()));
        !self.has_free_thread(crew) && steps.is_some_and(is_stuck)
    }

    /// Runs batches until the pool is closed and the queue is empty.
    fn work(&self, mut own: Owner) {
        // `run` catches the panics of tasks. If it panics all the same, the pool must not lose the
        // thread, and what it has laid open is dropped, which runs it.
        let mut run = |expired: Expired| {
            if panics::catch(|| expired.run_open(&mut own)).is_none() {
                while let Some(left) = own.0.take_part(Expired::begin) {
                    drop(left);
                }
            }
        };
        loop {
            while let Some(expired) = self.queue.pop() {
                run(expired);
            }
            let mut crew = lock(&self.crew);
            if let Some(expired) = crew.take_part() {
                drop(crew);
                run(expired);
                continue;
            }
            // A thread that pushes first pushes, and then takes this lock. So either this thread
            // sees the push here, or the pushing thread sees this one idle.
            if !self.queue.is_empty() {
                continue;
            }
            if crew.closed {
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
            // The threads stayed in the parent, and the queue is a copy of what they run there.
            return expired.run();
        }
        shared.queue.push(expired);
        if !Shared::call(shared) {
            // The system has no thread for the pool, so run the batches here.
            while let Some(expired) = shared.queue.pop() {
                expired.run();
            }
        }
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
