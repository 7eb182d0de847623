//! The user's handlers, and the threads that run them.

use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use crossbeam_channel::{Receiver, Sender};

use crate::clock::{Micros, WallClock};
use crate::due::{Due, Outcome};
use crate::inbox::{End, Ended, Inbox};
use crate::stats::Counters;
use crate::store::Token;

pub(crate) type Handler = Arc<dyn Fn(Due) -> Outcome + Send + Sync>;

/// The names that may be scheduled.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    /// `None` for those of other processes.
    by_name: HashMap<Arc<str>, Option<Handler>>,
}

impl Handlers {
    pub(crate) fn insert(&mut self, name: &str, handler: Option<Handler>) {
        self.by_name.insert(name.into(), handler);
    }

    /// Returns the name as it is kept, if it may be scheduled.
    pub(crate) fn name(&self, name: &str) -> Option<Arc<str>> {
        self.by_name.get_key_value(name).map(|(name, _)| Arc::clone(name))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.by_name.keys().map(ToString::to_string).collect();
        names.sort();
        names
    }

    /// The names of those that run in this process.
    pub(crate) fn here(&self) -> Vec<String> {
        let here = |(name, handler): (&Arc<str>, &Option<Handler>)| handler.is_some().then(|| name.to_string());
        self.by_name.iter().filter_map(here).collect()
    }

    pub(crate) fn run_here(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Handler> {
        self.by_name.get(name)?.as_ref()
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Until when this process's rows are its own. The writer renews it; handlers' threads ask before a
/// run.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    granted: Mutex<Option<Granted>>,
}

#[derive(Clone, Copy, Debug)]
struct Granted {
    real: Instant,
    wall: Micros,
    length: Duration,
}

impl Lease {
    /// Notes a lease that was asked for at this time.
    pub(crate) fn grant(&self, real: Instant, wall: Micros, length: Duration) {
        *self.granted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Granted { real, wall, length });
    }

    /// Whether it is certain that the lease has not ended. A machine that is suspended stops the
    /// one clock, and not the other.
    pub(crate) fn holds(&self, wall: Micros) -> bool {
        self.age(wall).is_some_and(|(age, length)| age < length)
    }

    /// Whether half of the lease is over, or there is none.
    pub(crate) fn is_half_over(&self, wall: Micros) -> bool {
        self.age(wall).is_none_or(|(age, length)| age >= length / 2)
    }

    fn age(&self, wall: Micros) -> Option<(Duration, Duration)> {
        let granted = (*self.granted.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some((granted.real.elapsed().max(wall.since(granted.wall)), granted.length))
    }
}

/// A run that a thread is to carry out.
pub(crate) struct Run {
    pub(crate) handler: Handler,
    pub(crate) due: Due,
}

/// The threads that run handlers. Each handler has its own, so none waits for another's.
pub(crate) struct Runners {
    pools: HashMap<Arc<str>, Pool>,
    /// The most of one handler.
    threads: usize,
    surroundings: Surroundings,
    abandoned: Arc<AtomicBool>,
    #[cfg(all(test, feature = "sqlite"))]
    by_hand: Option<Sender<Run>>,
}

/// The threads of one handler. It always has one; the others start when they are first needed.
struct Pool {
    sender: Sender<Run>,
    receiver: Receiver<Run>,
    threads: Vec<JoinHandle<()>>,
}

/// What a thread that runs handlers needs.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) wall: Arc<dyn WallClock>,
    pub(crate) counters: Arc<Counters>,
}

thread_local! {
    static IS_RUNNER: Cell<bool> = const { Cell::new(false) };
}

/// Whether a handler is calling.
pub(crate) fn is_runner() -> bool {
    IS_RUNNER.get()
}

impl Runners {
    /// For these handlers.
    pub(crate) fn new(names: &[String], threads: usize, surroundings: Surroundings) -> io::Result<Self> {
        let mut runners = Self {
            pools: HashMap::new(),
            threads,
            surroundings,
            abandoned: Arc::default(),
            #[cfg(all(test, feature = "sqlite"))]
            by_hand: None,
        };
        for name in names {
            let mut pool = Pool::new();
            pool.grow(name, &runners.surroundings, &runners.abandoned)?;
            runners.pools.insert(name.as_str().into(), pool);
        }
        Ok(runners)
    }

    /// No threads: the test gets what is to run.
    #[cfg(all(test, feature = "sqlite"))]
    pub(crate) fn by_hand(surroundings: Surroundings) -> (Self, Receiver<Run>) {
        let (sender, receiver) = crossbeam_channel::unbounded();
        let mut runners = Self::new(&[], 1, surroundings).expect("it starts no thread");
        runners.by_hand = Some(sender);
        (runners, receiver)
    }

    /// Has a timeout of the handler `name` run, of which `under_way` have not ended, with this one.
    pub(crate) fn run(&mut self, name: &Arc<str>, under_way: usize, run: Run) {
        #[cfg(all(test, feature = "sqlite"))]
        if let Some(by_hand) = &self.by_hand {
            return by_hand.send(run).expect("the test has the other end");
        }
        let pool = self.pools.get_mut(name).expect("each handler has a pool");
        if pool.threads.len() < under_way.min(self.threads) {
            // Without a thread more it waits for one that there is.
            _ = pool.grow(name, &self.surroundings, &self.abandoned);
        }
        pool.sender.send(run).expect("the pool has the other end");
    }

    /// Begins no more runs. Those that wait end as not begun.
    pub(crate) fn abandon(&self) {
        // Relaxed: whoever begins one more run has begun it before the stop.
        self.abandoned.store(true, Ordering::Relaxed);
    }
}

impl Pool {
    fn new() -> Self {
        let (sender, receiver) = crossbeam_channel::unbounded();
        Self { sender, receiver, threads: Vec::new() }
    }

    fn grow(&mut self, name: &str, surroundings: &Surroundings, abandoned: &Arc<AtomicBool>) -> io::Result<()> {
        let (receiver, surroundings) = (self.receiver.clone(), surroundings.clone());
        let abandoned = Arc::clone(abandoned);
        let thread = thread::Builder::new()
            .name(format!("tb-{name}"))
            .spawn(move || carry_out(&receiver, &surroundings, &abandoned))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        self.abandon();
        let this = thread::current().id();
        // All senders first: one thread's last run must not wait for another pool.
        let threads: Vec<_> = self.pools.drain().flat_map(|(_, pool)| pool.threads).collect();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
            // A thread catches the panics of handlers.
            thread.join().expect("a handlers' thread does not panic");
        }
    }
}

/// The drop of a panic's payload may panic as well.
fn panicked(payload: Box<dyn Any + Send>) -> End {
    if let Err(next) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(next);
    }
    End::Panicked
}

fn carry_out(receiver: &Receiver<Run>, surroundings: &Surroundings, abandoned: &AtomicBool) {
    IS_RUNNER.set(true);
    for Run { handler, due } in receiver {
        let token = Token::of(&due);
        let now = Micros::round_down(surroundings.wall.now());
        let begun = Instant::now();
        // While it waited for this thread, the clock may have gone back.
        let may_begin = now >= due.due && surroundings.lease.holds(now);
        let end = if abandoned.load(Ordering::Relaxed) || !may_begin {
            End::NotBegun
        } else {
            surroundings.counters.record_lateness(now.since(due.due));
            // What the handler has left behind a panic is the user's.
            catch_unwind(AssertUnwindSafe(|| handler(due))).map_or_else(panicked, End::Returned)
        };
        surroundings.inbox.push_ended(Ended { token, end, took: begun.elapsed() });
    }
}
