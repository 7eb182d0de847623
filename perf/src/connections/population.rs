//! The timeouts without sockets: built before the run, then kept at their number while some are
//! reset, some cancelled and some left to expire.
//!
//! A producer owns a part of the slots. It works in beats of ten milliseconds: fill what has fired,
//! cancel and replace some, reset many. Each is a loop over at most 1,000 operations of one kind
//! between two readings of the clock, with everything random drawn before, so that "ns per
//! operation" is the operation: the call, its clock reading, and the storing of the handle.

use std::cell::RefCell;
use std::mem;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use tourbillon::{Timeout, Timer};

use super::counters::Account;
use super::slot_table::SlotTable;
use super::timed::Timed;

/// Operations between two readings of the clock, at most.
const BATCH: usize = 1_000;

/// How often a producer works.
const BEAT: Duration = Duration::from_millis(10);

/// What is reset and cancelled would expire after this, give or take half of it.
const KEPT: Duration = Duration::from_secs(10);

/// What is left to expire does so after this on average, from a third of it to five thirds.
const EXPIRING: Duration = Duration::from_secs(3);

/// The load one producer makes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) new_per_second: f64,
    pub(crate) resets_per_second: f64,
    /// Share of the new ones that are left to expire.
    pub(crate) expiring: f64,
}

/// What a producer did.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProducerOutcome {
    pub(crate) account: Account,
    pub(crate) cancelled_but_ran: u64,
    /// Building the population, before the run.
    pub(crate) build: Timed,
    /// `schedule`, of what will be reset and cancelled.
    pub(crate) schedule: Timed,
    /// `schedule_at`, of timeouts that are left to expire.
    pub(crate) schedule_at: Timed,
    pub(crate) reset: Timed,
    pub(crate) cancel: Timed,
}

impl ProducerOutcome {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.account += other.account;
        self.cancelled_but_ran += other.cancelled_but_ran;
        self.build.merge(&other.build);
        self.schedule.merge(&other.schedule);
        self.schedule_at.merge(&other.schedule_at);
        self.reset.merge(&other.reset);
        self.cancel.merge(&other.cancel);
    }
}

/// Counts of all producers, shown while the run is on.
#[derive(Debug, Default)]
pub(crate) struct Throughput {
    pub(crate) scheduled: CachePadded<AtomicU64>,
    pub(crate) reset: CachePadded<AtomicU64>,
    pub(crate) cancelled: CachePadded<AtomicU64>,
}

/// One producer and its part of the population.
#[derive(Debug)]
pub(crate) struct Producer {
    number: u32,
    table: Arc<SlotTable>,
    load: Load,
    /// In a cell, so that handles may be chosen while others are borrowed.
    random: RefCell<fastrand::Rng>,
    first: u32,
    handles: Vec<Option<Timeout>>,
    /// The idle timeout of a place that is reset and cancelled; `None` if it is left to expire.
    /// Each place has one of its own and keeps it, so that a reset pushes out, as a packet does.
    kept: Vec<Option<NonZeroU32>>,
    outcome: ProducerOutcome,
}

impl Producer {
    /// Takes all memory a producer needs for itself, so that what grows later is the engine's.
    pub(crate) fn new(number: u32, table: Arc<SlotTable>, load: Load, seed: u64) -> Self {
        let slots = table.range(number);
        let mut handles = Vec::new();
        handles.resize_with(slots.len(), || None);
        Self {
            number,
            table,
            load,
            random: RefCell::new(fastrand::Rng::with_seed(seed)),
            first: slots.start,
            kept: vec![None; slots.len()],
            handles,
            outcome: ProducerOutcome::default(),
        }
    }

    /// Fills all slots.
    pub(crate) fn build(&mut self, timer: &Timer) {
        let slots = self.slots();
        // As many expire as will in the run: what comes in a second, times how long it stays.
        let staying = self.load.new_per_second * self.load.expiring * self.life().as_secs_f64();
        let share = (staying / f64::from(slots).max(1.0)).min(1.0);
        let all: Vec<u32> = (0..slots).collect();
        for batch in all.chunks(BATCH) {
            self.fill(timer, batch, share);
        }
        self.outcome.build = mem::take(&mut self.outcome.schedule);
        self.outcome.build.merge(&mem::take(&mut self.outcome.schedule_at));
    }

    /// Keeps the load up until `end`.
    pub(crate) fn run(mut self, timer: &Timer, end: Instant, shown: &Throughput) -> ProducerOutcome {
        let begin = Instant::now();
        let (mut made, mut reset) = (0.0, 0.0);
        let mut beat = begin;
        while beat < end {
            // What is due by now, including what earlier beats could not do in time.
            let elapsed = begin.elapsed().min(end - begin).as_secs_f64();
            let before = self.outcome.account;
            let new = whole(self.load.new_per_second * elapsed - made);
            made += self.replace(timer, new) as f64;
            let resets = whole(self.load.resets_per_second * elapsed - reset);
            self.reset_some(resets);
            reset += resets as f64;
            let now = self.outcome.account;
            shown.scheduled.fetch_add(now.scheduled - before.scheduled, Ordering::Relaxed);
            shown.reset.fetch_add(now.reset - before.reset, Ordering::Relaxed);
            shown.cancelled.fetch_add(now.cancelled - before.cancelled, Ordering::Relaxed);
            beat += BEAT;
            thread::sleep(beat.saturating_duration_since(Instant::now()));
        }
        self.outcome
    }

    /// Schedules `new` timeouts, in place of what has fired, and of what it cancels for the rest.
    /// More if more has fired: the population keeps its number. Returns how many.
    fn replace(&mut self, timer: &Timer, new: usize) -> usize {
        let mut done = 0;
        let mut places = Vec::with_capacity(BATCH);
        loop {
            places.clear();
            while places.len() < BATCH
                && let Some(slot) = self.table.take_vacant(self.number)
            {
                places.push(slot - self.first);
            }
            let vacant = places.len();
            self.cancel_some(new.saturating_sub(done + vacant).min(BATCH - vacant), &mut places);
            if places.is_empty() {
                return done;
            }
            self.fill(timer, &places, self.load.expiring);
            done += places.len();
            if done >= new && vacant < BATCH {
                return done;
            }
        }
    }

    /// Cancels `count` random ones of those that are kept, and adds their places to `places`.
    fn cancel_some(&mut self, count: usize, places: &mut Vec<u32>) {
        // Taken out of the table before the clock is read, so that none is chosen twice. In a small
        // population all may be waiting to expire: then fewer are cancelled.
        let (mut chosen, mut handles) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for _ in 0..count * 4 {
            if chosen.len() == count {
                break;
            }
            if let Some((place, _)) = self.random_kept()
                && let Some(handle) = self.handles[place as usize].take()
            {
                chosen.push(place);
                handles.push(handle);
            }
        }
        let mut in_time = vec![false; chosen.len()];
        let since = Instant::now();
        for (handle, in_time) in handles.into_iter().zip(&mut in_time) {
            // The handle is dropped here too: a cancelled timeout is also let go.
            *in_time = handle.cancel();
        }
        self.outcome.cancel.add(chosen.len(), since);
        for (place, in_time) in chosen.into_iter().zip(in_time) {
            self.outcome.account.cancel(in_time);
            if !in_time {
                // It has fired: its place comes back through the queue of the vacant ones.
                continue;
            }
            if !self.table.cancelled(self.first + place) {
                self.outcome.cancelled_but_ran += 1;
            }
            places.push(place);
        }
    }

    /// Schedules a new timeout in each of `places`, a share of them left to expire.
    fn fill(&mut self, timer: &Timer, places: &[u32], expiring: f64) {
        let life = self.life();
        let now = Instant::now();
        let (mut kept, mut left) = (Vec::new(), Vec::new());
        for &place in places {
            let keep = self.random.borrow_mut().f64() >= expiring;
            let idle = keep.then(|| self.random_idle());
            self.kept[place as usize] = idle;
            self.handles[place as usize] = None;
            let delay = match idle {
                Some(idle) => millis(idle),
                None => life.mul_f64((1.0 + 4.0 * self.random.borrow_mut().f64()) / 3.0),
            };
            let deadline = now + delay;
            let task = SlotTable::arm(&self.table, self.first + place, deadline);
            if keep {
                kept.push((place, delay, task));
            } else {
                left.push((place, deadline, task));
            }
        }

        let mut armed = Vec::with_capacity(places.len());
        let count = kept.len();
        let since = Instant::now();
        for (place, delay, task) in kept {
            armed.push((place, timer.schedule(delay, task).ok()));
        }
        self.outcome.schedule.add(count, since);

        // With an exact deadline, so that "early" can be judged to the nanosecond.
        let count = left.len();
        let since = Instant::now();
        for (place, deadline, task) in left {
            armed.push((place, timer.schedule_at(deadline, task).ok()));
        }
        self.outcome.schedule_at.add(count, since);

        for (place, handle) in armed {
            if handle.is_some() {
                self.outcome.account.scheduled += 1;
            } else {
                self.outcome.account.refused += 1;
                self.table.refused(self.first + place);
            }
            self.handles[place as usize] = handle;
        }
    }

    /// Resets `count` random ones of those that are kept.
    fn reset_some(&mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            let want = left.min(BATCH);
            left -= want;
            let mut chosen: Vec<(u32, &Timeout, Duration)> = Vec::with_capacity(want);
            let mut throws = want * 4;
            while chosen.len() < want && throws > 0 {
                throws -= 1;
                if let Some((place, idle)) = self.random_kept()
                    && let Some(handle) = &self.handles[place as usize]
                {
                    chosen.push((place, handle, idle));
                }
            }
            let mut in_time = vec![false; chosen.len()];
            let since = Instant::now();
            for ((_, handle, delay), in_time) in chosen.iter().zip(&mut in_time) {
                *in_time = handle.reset(*delay);
            }
            self.outcome.reset.add(chosen.len(), since);
            for ((place, _, delay), in_time) in chosen.iter().zip(in_time) {
                self.outcome.account.reset(in_time);
                if in_time {
                    self.table.moved(self.first + place, since + *delay);
                }
            }
        }
    }

    /// A random place whose timeout is kept and pending, and its idle timeout; `None` if the dice
    /// fell on another.
    fn random_kept(&self) -> Option<(u32, Duration)> {
        let place = self.random.borrow_mut().u32(0..self.slots().max(1));
        let idle = (*self.kept.get(place as usize)?)?;
        self.table.is_armed(self.first + place).then(|| (place, millis(idle)))
    }

    fn random_idle(&self) -> NonZeroU32 {
        let half = u32::try_from(KEPT.as_millis() / 2).expect("seconds");
        NonZeroU32::MIN.saturating_add(self.random.borrow_mut().u32(half..half * 3))
    }

    fn slots(&self) -> u32 {
        u32::try_from(self.handles.len()).expect("a range of u32")
    }

    /// How long a timeout lives that is left to expire: short enough that they do not fill the
    /// whole population, however small it is.
    fn life(&self) -> Duration {
        let tenth = f64::from(self.slots()) / 10.0;
        let expiring = self.load.new_per_second * self.load.expiring;
        EXPIRING.min(Duration::from_secs_f64(tenth / expiring.max(1.0)))
    }
}

fn millis(idle: NonZeroU32) -> Duration {
    Duration::from_millis(u64::from(idle.get()))
}

/// The whole part of a number of operations; a little at a time, so it always fits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn whole(count: f64) -> usize {
    count.clamp(0.0, 1e9) as usize
}
