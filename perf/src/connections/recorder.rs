//! What the tasks of the timeouts write down when they run: that they ran, how late, and whether
//! they were allowed to.
//!
//! Tasks run on the engine's pool threads (or workers), many a millisecond. Each thread writes to a
//! ledger of its own, so that this bookkeeping is not what is measured; the lock of a ledger is
//! only ever contended by a reader that adds them up.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;

use super::kind::{KINDS, Kind};
use crate::duration;

/// Ledgers; threads beyond this number share.
const LEDGERS: usize = 32;

/// Lateness, from the deadline that was asked for until the task reads the clock, is kept with
/// three digits up to an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// What tasks have written down.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    /// Tasks that ran, by kind.
    pub(crate) fired: [u64; KINDS],
    /// Tasks that ran before their deadline, and by how much at most.
    pub(crate) early: u64,
    pub(crate) earliest_by_ns: u64,
    /// Tasks that ran although they, or their successor in the same place, had run already.
    pub(crate) twice: u64,
    /// Tasks that ran although `cancel` had returned true.
    pub(crate) after_cancel: u64,
    /// Lateness of the timeouts without sockets.
    pub(crate) population: Histogram<u64>,
    /// Lateness of the timeouts of connections, requests and work steps.
    pub(crate) sockets: Histogram<u64>,
}

impl Ledger {
    fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .expect("1 ns to an hour with three digits are bounds a histogram takes");
        Self {
            fired: [0; KINDS],
            early: 0,
            earliest_by_ns: 0,
            twice: 0,
            after_cancel: 0,
            population: histogram.clone(),
            sockets: histogram,
        }
    }

    /// Tasks that ran, of every kind.
    pub(crate) fn fired_in_all(&self) -> u64 {
        self.fired.iter().sum()
    }

    fn judge(&mut self, kind: Kind, deadline: Instant, ran: Instant) {
        match ran.checked_duration_since(deadline) {
            Some(late) => {
                let histogram = match kind {
                    Kind::Population => &mut self.population,
                    _ => &mut self.sockets,
                };
                histogram.saturating_record(duration::nanos(late));
            }
            None => self.early(deadline, ran),
        }
    }

    fn early(&mut self, deadline: Instant, ran: Instant) {
        let by = duration::nanos(deadline.duration_since(ran));
        self.early += 1;
        self.earliest_by_ns = self.earliest_by_ns.max(by);
    }

    fn add(&mut self, other: &Self) {
        for (sum, fired) in self.fired.iter_mut().zip(other.fired) {
            *sum += fired;
        }
        self.early += other.early;
        self.earliest_by_ns = self.earliest_by_ns.max(other.earliest_by_ns);
        self.twice += other.twice;
        self.after_cancel += other.after_cancel;
        // Both have the same bounds, so adding can't fail; if it did, the counts above would show
        // more than the histogram holds.
        let _ = self.population.add(&other.population);
        let _ = self.sockets.add(&other.sockets);
    }
}

/// One ledger a thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    ledgers: Box<[CachePadded<Mutex<Ledger>>]>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { ledgers: (0..LEDGERS).map(|_| CachePadded::new(Mutex::new(Ledger::new()))).collect() }
    }

    /// A task of `kind` with this `deadline` ran at `ran`.
    pub(crate) fn fired(&self, kind: Kind, deadline: Instant, ran: Instant) {
        let mut ledger = self.mine();
        ledger.fired[kind as usize] += 1;
        ledger.judge(kind, deadline, ran);
    }

    /// A task of `kind` ran; whether it was on time is judged elsewhere, with [`Self::judge`].
    pub(crate) fn fired_unjudged(&self, kind: Kind) {
        self.mine().fired[kind as usize] += 1;
    }

    /// Judges a task that was counted before.
    pub(crate) fn judge(&self, kind: Kind, deadline: Instant, ran: Instant) {
        self.mine().judge(kind, deadline, ran);
    }

    /// A timeout had fired by `seen`, at a time that is not known. Counts it only if `seen` is
    /// early.
    pub(crate) fn had_fired(&self, deadline: Instant, seen: Instant) {
        if seen < deadline {
            self.mine().early(deadline, seen);
        }
    }

    /// A task ran that had run before.
    pub(crate) fn twice(&self) {
        self.mine().twice += 1;
    }

    /// A task ran that had been cancelled.
    pub(crate) fn after_cancel(&self) {
        self.mine().after_cancel += 1;
    }

    /// Tasks that ran until now, of every kind.
    pub(crate) fn fired_so_far(&self) -> u64 {
        self.ledgers.iter().map(|ledger| lock(ledger).fired_in_all()).sum()
    }

    /// All ledgers added up.
    pub(crate) fn sum(&self) -> Ledger {
        let mut sum = Ledger::new();
        for ledger in &self.ledgers {
            sum.add(&lock(ledger));
        }
        sum
    }

    fn mine(&self) -> MutexGuard<'_, Ledger> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: Cell<Option<usize>> = const { Cell::new(None) };
        }
        let index = MINE.get().unwrap_or_else(|| {
            let index = NEXT.fetch_add(1, Ordering::Relaxed) % LEDGERS;
            MINE.set(Some(index));
            index
        });
        lock(&self.ledgers[index])
    }
}

/// A ledger is whole after every line, so a task that panicked while it wrote does no harm.
fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn early_and_late_are_told_apart() {
        let recorder = Recorder::new();
        let deadline = Instant::now();
        recorder.fired(Kind::Population, deadline, deadline + Duration::from_micros(5));
        recorder.fired(Kind::Work, deadline, deadline);
        recorder.fired(Kind::Work, deadline + Duration::from_nanos(3), deadline);
        let sum = recorder.sum();
        assert_eq!((sum.fired_in_all(), sum.early, sum.earliest_by_ns), (3, 1, 3));
        assert_eq!((sum.population.len(), sum.sockets.len()), (1, 1));
        assert_eq!(recorder.fired_so_far(), 3);
    }
}
