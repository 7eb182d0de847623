//! What this program knows of each timeout without a socket, independently of the engine.
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

use super::kind::Kind;
use super::recorder::Recorder;
use crate::duration::Epoch;

const FREE: u64 = 0;
const ARMED: u64 = Fate::Pending as u64;
const FIRED: u64 = Fate::Ran as u64;

fn word(generation: u32, state: u64) -> u64 {
    u64::from(generation) << Fate::BITS | state
}

#[derive(Debug)]
struct Slot {
    word: AtomicU64,
    /// The deadline the user has asked for last, in nanoseconds since the epoch.
    deadline: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SlotTable {
    slots: Box<[Slot]>,
    /// Slots whose task has run, by producer: to be filled again.
    vacant: Box<[SegQueue<u32>]>,
    per_producer: u32,
    epoch: Epoch,
    recorder: Arc<Recorder>,
}

impl SlotTable {
    pub(crate) fn new(slots: u32, producers: u32, epoch: Epoch, recorder: Arc<Recorder>) -> Self {
        // Written and not only allocated, so that its memory counts before the population is built.
        let empty = || Slot { word: AtomicU64::new(FREE), deadline: AtomicU64::new(1) };
        Self {
            slots: (0..slots).map(|_| empty()).collect(),
            vacant: (0..producers).map(|_| SegQueue::new()).collect(),
            per_producer: slots.div_ceil(producers).max(1),
            epoch,
            recorder,
        }
    }

    /// The slots of a producer.
    pub(crate) fn range(&self, producer: u32) -> std::ops::Range<u32> {
        let end = u32::try_from(self.slots.len()).expect("made from a u32");
        let start = producer.saturating_mul(self.per_producer);
        start.min(end)..start.saturating_add(self.per_producer).min(end)
    }

    /// A slot of `producer` whose task has run.
    pub(crate) fn take_vacant(&self, producer: u32) -> Option<u32> {
        self.vacant[producer as usize].pop()
    }

    /// A new timeout will be scheduled for `slot`; returns its task, with captures of 16 bytes.
    ///
    /// `deadline` is what the user may count on: never later than what the engine will make of it.
    pub(crate) fn arm(table: &Arc<Self>, slot: u32, deadline: Instant) -> impl FnOnce() + Send + use<> {
        let this = &table.slots[slot as usize];
        let generation = generation(this.word.load(Ordering::Relaxed)).wrapping_add(1);
        this.deadline.store(table.epoch.nanos(deadline), Ordering::Relaxed);
        // Release: the task, which acquires this word, judges by the deadline above.
        this.word.store(word(generation, ARMED), Ordering::Release);
        let table = Arc::clone(table);
        move || table.run(slot, generation)
    }

    /// The engine refused the timeout `arm` was called for.
    pub(crate) fn refused(&self, slot: u32) {
        let this = &self.slots[slot as usize];
        let generation = generation(this.word.load(Ordering::Relaxed));
        this.word.store(word(generation, FREE), Ordering::Release);
    }

    /// `reset` was true. Only now, because a reset that comes too late leaves the old deadline.
    pub(crate) fn moved(&self, slot: u32, deadline: Instant) {
        let nanos = self.epoch.nanos(deadline);
        // Relaxed: a task that sees an older deadline is judged more kindly as to early, and
        // reports more lateness; both need a task that runs seconds before its new deadline.
        self.slots[slot as usize].deadline.store(nanos, Ordering::Relaxed);
    }

    /// `cancel` was true. False if the task has run all the same.
    pub(crate) fn cancelled(&self, slot: u32) -> bool {
        let this = &self.slots[slot as usize];
        let seen = this.word.load(Ordering::Relaxed);
        let Some(Ok(fate)) = Fate::in_word(seen).map(Fate::cancel) else { return false };
        let cancelled = word(generation(seen), fate as u64);
        this.word.compare_exchange(seen, cancelled, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the timeout in `slot` is pending, by this program's account.
    pub(crate) fn is_armed(&self, slot: u32) -> bool {
        is_armed(self.slots[slot as usize].word.load(Ordering::Relaxed))
    }

    /// Timeouts pending, by this program's account.
    pub(crate) fn armed(&self) -> u64 {
        let armed = |slot: &&Slot| is_armed(slot.word.load(Ordering::Acquire));
        self.slots.iter().filter(armed).count() as u64
    }

    fn run(&self, slot: u32, generation: u32) {
        let ran = Instant::now();
        let this = &self.slots[slot as usize];
        let fired = this.word.compare_exchange(
            word(generation, ARMED),
            word(generation, FIRED),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match fired {
            Ok(_) => {
                let deadline = self.epoch.at(this.deadline.load(Ordering::Relaxed));
                self.recorder.fired(Kind::Population, deadline, ran);
                self.vacant[(slot / self.per_producer) as usize].push(slot);
            }
            Err(seen) => match Fate::in_word(seen).map(Fate::run) {
                Some(Err(Fault::AfterCancel)) if self::generation(seen) == generation => self.recorder.after_cancel(),
                _ => self.recorder.twice(),
            },
        }
    }
}

fn is_armed(word: u64) -> bool {
    Fate::in_word(word) == Some(Fate::Pending)
}

fn generation(word: u64) -> u32 {
    u32::try_from(word >> Fate::BITS & u64::from(u32::MAX)).expect("masked to 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> (Arc<SlotTable>, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::new());
        let table = SlotTable::new(10, 3, Epoch::start(), Arc::clone(&recorder));
        (Arc::new(table), recorder)
    }

    #[test]
    fn a_task_runs_once() {
        let (table, recorder) = table();
        let first = SlotTable::arm(&table, 9, Instant::now());
        assert!(size_of_val(&first) <= 24);
        assert_eq!(table.armed(), 1);
        first();
        assert_eq!((table.armed(), recorder.fired_so_far()), (0, 1));
        assert_eq!(table.take_vacant(2), Some(9));

        // The place is used again, and the engine runs what ran before.
        let again = SlotTable::arm(&table, 9, Instant::now());
        table.run(9, 1);
        again();
        let sum = recorder.sum();
        assert_eq!((sum.twice, sum.fired_in_all()), (1, 2));
    }

    #[test]
    fn what_was_cancelled_must_not_run() {
        let (table, recorder) = table();
        let task = SlotTable::arm(&table, 0, Instant::now());
        assert!(table.cancelled(0));
        task();
        assert_eq!((recorder.sum().after_cancel, recorder.fired_so_far()), (1, 0));

        let task = SlotTable::arm(&table, 0, Instant::now());
        task();
        assert!(!table.cancelled(0), "it has run, so cancel may not have been true");
    }

    #[test]
    fn producers_share_all_slots_among_them() {
        let (table, _) = table();
        let all: Vec<u32> = (0..3).flat_map(|producer| table.range(producer)).collect();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }
}
