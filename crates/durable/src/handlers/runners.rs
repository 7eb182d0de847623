//! Runs the handlers: on threads if they block, and on a runtime of the user's if they are async.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};

use super::futures::Slots;
use super::run::{AsRunner, Run, Surroundings, panicked};
use super::{Call, Handlers};
use crate::inbox::{End, Ended, Inbox};
use crate::store::Token;

/// The pools that run handlers. Each handler has its own, so none waits for another's.
pub(crate) struct Runners {
    pools: HashMap<Arc<str>, Pool>,
    surroundings: Surroundings,
    #[cfg(all(test, feature = "sqlite"))]
    by_hand: Option<Sender<Run>>,
}

enum Pool {
    Threads(Threads),
    Futures(Arc<Slots>),
}

/// The threads of one handler. It always has one; the others start when they are first needed.
struct Threads {
    sender: Sender<Run>,
    receiver: Receiver<Run>,
    threads: Vec<JoinHandle<()>>,
    /// The most of them.
    limit: usize,
}

impl Runners {
    /// For these handlers.
    pub(crate) fn new(handlers: &Handlers, surroundings: Surroundings) -> io::Result<Self> {
        let mut runners = Self::none(surroundings);
        for (name, handler) in handlers.here() {
            let surroundings = &runners.surroundings;
            let pool = match &handler.call {
                Call::Blocks(_) => {
                    let mut threads = Threads::new(handler.limit);
                    threads.grow(name, surroundings)?;
                    Pool::Threads(threads)
                }
                Call::Waits(call) => {
                    Pool::Futures(Arc::new(Slots::new(Arc::clone(call), handler.limit, surroundings.clone())))
                }
            };
            runners.pools.insert(Arc::clone(name), pool);
        }
        Ok(runners)
    }

    fn none(surroundings: Surroundings) -> Self {
        Self {
            pools: HashMap::new(),
            surroundings,
            #[cfg(all(test, feature = "sqlite"))]
            by_hand: None,
        }
    }

    /// No threads: the test gets what is to run.
    #[cfg(all(test, feature = "sqlite"))]
    pub(crate) fn by_hand(surroundings: Surroundings) -> (Self, Receiver<Run>) {
        let (sender, receiver) = crossbeam_channel::unbounded();
        let mut runners = Self::none(surroundings);
        runners.by_hand = Some(sender);
        (runners, receiver)
    }

    /// Has a timeout of the handler `name` run, of which `under_way` have not ended, with this one.
    pub(crate) fn run(&mut self, name: &Arc<str>, under_way: usize, run: Run) {
        #[cfg(all(test, feature = "sqlite"))]
        if let Some(by_hand) = &self.by_hand {
            return by_hand.send(run).expect("the test has the other end");
        }
        match self.pools.get_mut(name).expect("each handler has a pool") {
            Pool::Futures(slots) => slots.push(run),
            Pool::Threads(pool) => {
                if pool.threads.len() < under_way.min(pool.limit) {
                    // Without a thread more it waits for one that there is.
                    _ = pool.grow(name, &self.surroundings);
                }
                pool.sender.send(run).expect("the pool has the other end");
            }
        }
    }

    /// Ends the runs of a handler that wait for their turn, as not begun.
    pub(crate) fn give_up(&self, name: &str) {
        if let Some(pool) = self.pools.get(name) {
            pool.give_up(&self.surroundings.inbox);
        }
    }

    /// Begins no more runs. Those that wait end as not begun.
    pub(crate) fn abandon(&self) {
        // Relaxed: a run that still begins counts as begun before the stop.
        self.surroundings.abandoned.store(true, Ordering::Relaxed);
        self.pools.values().for_each(|pool| pool.give_up(&self.surroundings.inbox));
    }
}

impl Pool {
    /// Ends the runs that wait for their turn, as not begun.
    fn give_up(&self, inbox: &Inbox) {
        let not_begun = |run: Run| inbox.push_ended(Ended::not_begun(&run.due));
        match self {
            Self::Threads(pool) => pool.receiver.try_iter().for_each(not_begun),
            Self::Futures(slots) => slots.drain().into_iter().for_each(not_begun),
        }
    }
}

impl Threads {
    fn new(limit: usize) -> Self {
        let (sender, receiver) = crossbeam_channel::unbounded();
        Self { sender, receiver, threads: Vec::new(), limit }
    }

    fn grow(&mut self, name: &str, surroundings: &Surroundings) -> io::Result<()> {
        let (receiver, surroundings) = (self.receiver.clone(), surroundings.clone());
        let thread =
            thread::Builder::new().name(format!("tb-{name}")).spawn(move || carry_out(&receiver, &surroundings))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        self.abandon();
        let this = thread::current().id();
        // All senders first: one thread's last run must not wait for another pool.
        let (mut threads, mut futures) = (Vec::new(), Vec::new());
        for (_, pool) in self.pools.drain() {
            match pool {
                Pool::Threads(pool) => threads.extend(pool.threads),
                Pool::Futures(slots) => futures.push(slots),
            }
        }
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
            // A thread catches the panics of handlers.
            thread.join().expect("a handlers' thread does not panic");
        }
        futures.iter().for_each(|slots| slots.join());
    }
}

fn carry_out(receiver: &Receiver<Run>, surroundings: &Surroundings) {
    let _runner = AsRunner::enter();
    for Run { handler, due } in receiver {
        let Call::Blocks(call) = &handler.call else { unreachable!("it has no threads") };
        let (token, begun) = (Token::of(&due), Instant::now());
        let end = if surroundings.begin(&handler, &due) {
            // The state that a handler leaves behind when it panics is the user's.
            catch_unwind(AssertUnwindSafe(|| call(due))).map_or_else(panicked, End::Returned)
        } else {
            End::NotBegun
        };
        surroundings.inbox.push_ended(Ended { token, end, took: begun.elapsed() });
    }
}
