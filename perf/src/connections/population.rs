//! The timeouts without sockets: built before the run, then kept at their number while some are
//! reset, some cancelled and some left to expire. `compare` measures what such operations cost.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use testkit::counters::Counts;
use tourbillon::{Timeout, Timer};

use super::slots::Slots;
use super::{SEED, count_schedule};

/// How often the producer works.
const BEAT: Duration = Duration::from_millis(10);
/// A timeout that is reset and cancelled would expire after this, give or take half of it:
/// milliseconds.
const KEPT_MS: u64 = 10_000;
/// Share of the new timeouts that are left to expire; the others are reset and cancelled at random.
const EXPIRING: f64 = 0.3;
/// A timeout that is left to expire does so after this on average, from a third of it to five
/// thirds.
const LIFE: Duration = Duration::from_secs(3);
/// How often the dice are thrown for a timeout that can be reset or cancelled. In a small
/// population all may be waiting to expire.
const THROWS: usize = 4;

/// The load to make, a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) new: f64,
    pub(super) resets: f64,
}

/// The producer's counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Produced {
    pub(super) counts: Counts,
    /// `cancel` was true, although the task had run.
    pub(super) cancelled_but_ran: u64,
}

/// The producer and its timeouts.
#[derive(Debug)]
pub(super) struct Population {
    slots: Arc<Slots>,
    load: Load,
    random: fastrand::Rng,
    handles: Vec<Option<Timeout>>,
    /// The idle timeout of a place that is reset and cancelled; `None` if it is left to expire. A
    /// place keeps its own, so that a reset pushes out, as a packet does.
    kept: Vec<Option<Duration>>,
    produced: Produced,
}

impl Population {
    /// Takes all memory the producer needs for itself, so that what grows later is the engine's.
    pub(super) fn new(slots: Arc<Slots>, count: usize, load: Load) -> Self {
        let mut handles = Vec::new();
        handles.resize_with(count, || None);
        let random = fastrand::Rng::with_seed(SEED);
        Self { slots, load, random, handles, kept: vec![None; count], produced: Produced::default() }
    }

    /// Fills all slots.
    pub(super) fn build(&mut self, timer: &Timer) {
        // As many expire as will in the run: what comes in a second, times how long it stays.
        let staying = self.load.new * EXPIRING * self.life().as_secs_f64();
        let share = (staying / (self.handles.len() as f64).max(1.0)).min(1.0);
        (0..self.handles.len()).for_each(|place| self.schedule(timer, place, share));
    }

    /// Keeps the load up until `end`.
    pub(super) fn run(mut self, timer: &Timer, end: Instant) -> Produced {
        let begin = Instant::now();
        let (mut made, mut reset) = (0.0, 0.0);
        let mut beat = begin;
        while beat < end {
            // The work of all this time is due, with what earlier beats could not do in time.
            let elapsed = begin.elapsed().min(end - begin).as_secs_f64();
            // More than that if more has fired: the population keeps its number.
            while let Some(place) = self.slots.take_vacant() {
                self.schedule(timer, place as usize, EXPIRING);
                made += 1.0;
            }
            while made < self.load.new * elapsed {
                self.replace_one(timer);
                made += 1.0;
            }
            while reset < self.load.resets * elapsed {
                self.reset_one();
                reset += 1.0;
            }
            beat += BEAT;
            thread::sleep(beat.saturating_duration_since(Instant::now()));
        }
        self.produced
    }

    /// Schedules a timeout in a place that is free, and leaves it to expire with this chance.
    fn schedule(&mut self, timer: &Timer, place: usize, expiring: f64) {
        let slot = u32::try_from(place).expect("slots are counted by 32 bits");
        let keep = (self.random.f64() >= expiring)
            .then(|| Duration::from_millis(self.random.u64(KEPT_MS / 2..KEPT_MS * 3 / 2)));
        self.kept[place] = keep;
        let handle = match keep {
            Some(delay) => timer.schedule(delay, Slots::arm(&self.slots, slot, Instant::now() + delay)).ok(),
            None => {
                // With an exact deadline, so that "early" can be judged to the nanosecond.
                let deadline = Instant::now() + self.life().mul_f64((1.0 + 4.0 * self.random.f64()) / 3.0);
                timer.schedule_at(deadline, Slots::arm(&self.slots, slot, deadline)).ok()
            }
        };
        count_schedule(&mut self.produced.counts, handle.is_some());
        if handle.is_none() {
            self.slots.refused(slot);
        }
        self.handles[place] = handle;
    }

    /// Cancels one of those that are kept, and schedules another in its place.
    fn replace_one(&mut self, timer: &Timer) {
        let Some((place, slot, _)) = self.random_kept() else { return };
        // One that has fired comes back through the queue of the vacant ones.
        if self.handles[place].take().is_some_and(|handle| handle.cancel()) {
            self.produced.counts.cancelled += 1;
            self.produced.cancelled_but_ran += u64::from(!self.slots.cancelled(slot));
            self.schedule(timer, place, EXPIRING);
        }
    }

    /// Pushes one of those that are kept out, by its own idle timeout.
    fn reset_one(&mut self) {
        let Some((place, slot, idle)) = self.random_kept() else { return };
        let now = Instant::now();
        if self.handles[place].as_ref().is_some_and(|handle| handle.reset(idle)) {
            self.produced.counts.reset += 1;
            self.slots.moved(slot, now + idle);
        }
    }

    /// Returns a random place whose timeout is kept and pending, and its idle timeout.
    fn random_kept(&mut self) -> Option<(usize, u32, Duration)> {
        (0..THROWS).find_map(|_| {
            let place = self.random.usize(..self.handles.len().max(1));
            let idle = (*self.kept.get(place)?)?;
            let slot = u32::try_from(place).ok()?;
            self.slots.is_armed(slot).then_some((place, slot, idle))
        })
    }

    /// How long a timeout lives that is left to expire: short enough that they do not fill the
    /// whole population, however small it is.
    fn life(&self) -> Duration {
        let tenth = self.handles.len() as f64 / 10.0;
        LIFE.min(Duration::from_secs_f64(tenth / (self.load.new * EXPIRING).max(1.0)))
    }
}
