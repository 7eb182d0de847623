//! This program's own record of each timeout without a socket, independent of the engine.
//!
//! A slot is the place of one timeout, and of its successors when it has fired or was cancelled.
//! Its word packs a generation, so that a task that runs twice is caught even when the place has
//! been used again, and a state, which is a [`Fate`] or free, and which only a compare-and-exchange
//! changes:
//!
//! ```text
//!   arm        (any, not armed)  -> (generation + 1, armed)   before `schedule`, by the producer
//!   the task   (mine, armed)     -> (mine, fired)             or it was not allowed to run
//!   cancelled  (mine, armed)     -> (mine, cancelled)         after a true `cancel`, producer
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_queue::SegQueue;
use testkit::record::{Fate, Fault};

use super::recorder::{Kind, Recorder};
use crate::duration::Epoch;

const ARMED: u64 = Fate::Pending as u64;

fn word(generation: u64, state: u64) -> u64 {
    generation << Fate::BITS | state
}

fn generation(word: u64) -> u64 {
    word >> Fate::BITS
}

fn is_armed(word: u64) -> bool {
    Fate::in_word(word) == Some(Fate::Pending)
}

#[derive(Debug)]
struct Slot {
    word: AtomicU64,
    /// The deadline the user has asked for last, in nanoseconds since the epoch.
    deadline: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    /// Slots whose task has run: to be filled again.
    vacant: SegQueue<u32>,
    epoch: Epoch,
    recorder: Arc<Recorder>,
}

impl Slots {
    pub(super) fn new(slots: u32, epoch: Epoch, recorder: Arc<Recorder>) -> Self {
        // Written and not only allocated, so that its memory counts before the population is built.
        let empty = |_| Slot { word: AtomicU64::new(0), deadline: AtomicU64::new(1) };
        Self { slots: (0..slots).map(empty).collect(), vacant: SegQueue::new(), epoch, recorder }
    }

    /// Returns a slot whose task has run.
    pub(super) fn take_vacant(&self) -> Option<u32> {
        self.vacant.pop()
    }

    /// A new timeout will be scheduled for `slot`; returns its task, with captures of 24 bytes.
    /// `deadline` is what the user may count on: never later than what the engine will make of it.
    pub(super) fn arm(slots: &Arc<Self>, slot: u32, deadline: Instant) -> impl FnOnce() + Send + use<> {
        let this = &slots.slots[slot as usize];
        let generation = generation(this.word.load(Ordering::Relaxed)) + 1;
        this.deadline.store(slots.epoch.nanos(deadline), Ordering::Relaxed);
        // Release: the task, which acquires this word, judges by the deadline above.
        this.word.store(word(generation, ARMED), Ordering::Release);
        let slots = Arc::clone(slots);
        move || slots.run(slot, generation)
    }

    /// The engine refused the timeout `arm` was called for.
    pub(super) fn refused(&self, slot: u32) {
        let this = &self.slots[slot as usize];
        this.word.store(word(generation(this.word.load(Ordering::Relaxed)), 0), Ordering::Release);
    }

    /// `reset` was true. Only now, because a reset that comes too late leaves the old deadline.
    pub(super) fn moved(&self, slot: u32, deadline: Instant) {
        // Relaxed: a task that sees an older deadline is judged more kindly as to early, and
        // reports more lateness; both need a task that runs seconds before its new deadline.
        self.slots[slot as usize].deadline.store(self.epoch.nanos(deadline), Ordering::Relaxed);
    }

    /// `cancel` was true. Returns false if the task has run all the same.
    pub(super) fn cancelled(&self, slot: u32) -> bool {
        let this = &self.slots[slot as usize];
        let seen = this.word.load(Ordering::Relaxed);
        let Some(Ok(fate)) = Fate::in_word(seen).map(Fate::cancel) else { return false };
        let cancelled = word(generation(seen), fate as u64);
        this.word.compare_exchange(seen, cancelled, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Returns whether the timeout in `slot` is pending, by this program's account.
    pub(super) fn is_armed(&self, slot: u32) -> bool {
        is_armed(self.slots[slot as usize].word.load(Ordering::Relaxed))
    }

    /// Returns how many are pending, by this program's account.
    pub(super) fn armed(&self) -> u64 {
        self.slots.iter().filter(|slot| is_armed(slot.word.load(Ordering::Acquire))).count() as u64
    }

    fn run(&self, slot: u32, generation: u64) {
        let this = &self.slots[slot as usize];
        let ran = Instant::now();
        // Acquire: pairs with the Release in `arm`.
        let fired = word(generation, Fate::Ran as u64);
        match this.word.compare_exchange(word(generation, ARMED), fired, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                let deadline = self.epoch.at(this.deadline.load(Ordering::Relaxed));
                self.recorder.fired(Kind::Population, deadline, ran);
                self.vacant.push(slot);
            }
            Err(seen) if self::generation(seen) == generation => match Fate::in_word(seen).map(Fate::run) {
                Some(Err(Fault::AfterCancel)) => self.recorder.page().after_cancel += 1,
                _ => self.recorder.page().twice += 1,
            },
            // Its place is another's: it ran, or was cancelled, before.
            Err(_) => self.recorder.page().twice += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> (Arc<Slots>, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::new());
        (Arc::new(Slots::new(10, Epoch::start(), Arc::clone(&recorder))), recorder)
    }

    #[test]
    fn a_task_runs_once() {
        let (slots, recorder) = slots();
        let first = Slots::arm(&slots, 9, Instant::now());
        assert_eq!(slots.armed(), 1);
        first();
        assert_eq!((slots.armed(), recorder.sum().fired_in_all(), slots.take_vacant()), (0, 1, Some(9)));
        // The place is used again, and the engine runs what ran before.
        let again = Slots::arm(&slots, 9, Instant::now());
        slots.run(9, 1);
        again();
        assert_eq!((recorder.sum().twice, recorder.sum().fired_in_all()), (1, 2));
    }

    #[test]
    fn a_cancelled_timeout_must_not_run() {
        let (slots, recorder) = slots();
        let task = Slots::arm(&slots, 0, Instant::now());
        assert!(slots.cancelled(0));
        task();
        assert_eq!((recorder.sum().after_cancel, recorder.sum().fired_in_all()), (1, 0));
        let task = Slots::arm(&slots, 0, Instant::now());
        task();
        assert!(!slots.cancelled(0), "it has run, so cancel may not have been true");
    }
}
