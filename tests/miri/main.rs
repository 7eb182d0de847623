//! Small engines, few timeouts, two or three threads: each test is over in some thousand steps. So
//! Miri and ThreadSanitizer get through it many times, each time by another schedule
//! (`scripts/miri`, `scripts/tsan`). They check the engine's memory. The tests themselves check
//! that each task is run or dropped exactly once, and that the counters reconcile.
//!
//! Tasks carry a box and read it when they run: the thread that runs one must have seen all of it.

#[path = "../common/mod.rs"]
mod common;
mod endings;
mod given_up;
mod periodic;
mod races;
mod sequences;
mod sleeps;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use tourbillon::{Builder, Inline, ThreadPool, Timer};

use common::Random;

/// Returns a number of things: fewer under Miri, where each costs a thousand times as much.
pub(crate) const fn few(under_miri: usize, otherwise: usize) -> usize {
    if cfg!(miri) { under_miri } else { otherwise }
}

/// Where random numbers begin. Under Miri its own seed decides, as it decides the keys of hash
/// maps.
pub(crate) fn seeds() -> Range<u64> {
    if cfg!(miri) {
        let seed = RandomState::new().build_hasher().finish() >> 1;
        seed..seed + 1
    } else {
        0..20
    }
}

/// Miri reports a leak if a thread lives when the tests are over, and no thread waits for the end
/// of an engine's threads. Its clock goes on only when all threads wait, so this takes only as long
/// as those threads need.
pub(crate) fn let_threads_end() {
    if cfg!(miri) {
        thread::sleep(Duration::from_secs(1));
    }
}

/// An engine with a small wheel.
pub(crate) fn small() -> Builder {
    Timer::builder().ticks_per_wheel(4).levels(3)
}

/// Each way to run tasks. Under Miri one of them, as its seed decides.
pub(crate) fn with_workers() -> impl Iterator<Item = Builder> {
    let mut all = vec![
        small().executor(Inline),
        small().executor(ThreadPool::new(1)),
        small().shards(2).executor(ThreadPool::new(2)),
    ];
    if cfg!(miri) {
        all.swap(0, Random::new(seeds().start).below(3));
        all.truncate(1);
    }
    all.into_iter()
}

/// How often each task has run, and how often it has been dropped, run or not. The orderings are
/// relaxed, so that they add no order to the engine's own.
#[derive(Clone)]
pub(crate) struct Ledger(Arc<[Line]>);

#[derive(Default)]
struct Line {
    runs: AtomicU32,
    drops: AtomicU32,
}

/// A task's capture.
struct Ticket {
    ledger: Ledger,
    id: Box<usize>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.ledger.0[*self.id].drops.fetch_add(1, Ordering::Relaxed);
    }
}

impl Ticket {
    fn run(&self) {
        self.ledger.0[*self.id].runs.fetch_add(1, Ordering::Relaxed);
    }
}

impl Ledger {
    pub(crate) fn new(len: usize) -> Self {
        Self((0..len).map(|_| Line::default()).collect())
    }

    fn ticket(&self, id: usize) -> Ticket {
        Ticket { ledger: self.clone(), id: Box::new(id) }
    }

    /// Returns a task that needs no allocation by the engine.
    pub(crate) fn task(&self, id: usize) -> impl FnOnce() + Send + use<> {
        let ticket = self.ticket(id);
        move || ticket.run()
    }

    /// Returns a task that needs one.
    pub(crate) fn large_task(&self, id: usize) -> impl FnOnce() + Send + use<> {
        let (ticket, numbers) = (self.ticket(id), [id; 9]);
        move || {
            assert_eq!(numbers, [*ticket.id; 9]);
            ticket.run();
        }
    }

    /// Returns a task for a periodic timeout.
    pub(crate) fn repeating_task(&self, id: usize) -> impl FnMut() + Send + use<> {
        let ticket = self.ticket(id);
        move || ticket.run()
    }

    pub(crate) fn runs_of(&self, id: usize) -> u32 {
        self.0[id].runs.load(Ordering::Relaxed)
    }

    /// Returns how many tasks have run.
    pub(crate) fn ran(&self) -> usize {
        (0..self.0.len()).filter(|&id| self.runs_of(id) > 0).count()
    }

    fn drops_of(&self, id: usize) -> u32 {
        self.0[id].drops.load(Ordering::Relaxed)
    }

    pub(crate) fn all_are_dropped(&self) -> bool {
        (0..self.0.len()).all(|id| self.drops_of(id) > 0)
    }

    /// Asserts that all tasks are gone, each once, and none has run twice.
    pub(crate) fn assert_closed(&self) {
        for id in 0..self.0.len() {
            assert_eq!(self.drops_of(id), 1, "drops of task {id}");
            assert!(self.runs_of(id) <= 1, "task {id} ran {} times", self.runs_of(id));
        }
    }
}

/// Delays around the sizes of small wheels, in ms, and now and then none, and never.
pub(crate) fn delay(random: &mut Random) -> Duration {
    const ODD: [u64; 8] = [0, 1, 3, 4, 5, 16, 63, 500];
    match random.below(10) {
        9 => Duration::MAX,
        8 => Duration::from_millis(random.next() % 200),
        n => Duration::from_millis(ODD[n]),
    }
}
