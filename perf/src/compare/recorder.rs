//! A record of the timeouts of a run: it counts each that runs, once, and keeps how late it was.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;

use crate::duration::Epoch;

/// Timeouts that count down together. One counter for all would be fought over by a pool's threads,
/// and that would be measured instead; so would one of as many as a thread is given at a time.
const GROUP: u32 = 64;

/// In a word: the timeout has run, and the rest is its lateness and no longer its deadline.
const RAN: u64 = 1 << 63;
/// In a word that has `RAN`: it ran before its deadline, by as much as the rest says.
const EARLY: u64 = 1 << 62;

/// How often the waiting thread looks whether the last has run, although it was not woken.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// The number of a timeout that no thread waits for.
const STRAY: u32 = u32::MAX;

/// The task of a timeout: a pointer and a number, the least that a server's closure holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    recorder: &'static Recorder,
    number: u32,
}

impl Task {
    /// Runs it; called by the system under test, once, when it is due.
    #[inline]
    pub(crate) fn run(self) {
        self.recorder.ran(self.number);
    }
}

/// Counts the timeouts of a run. Leaked, as the timeouts of a process that ends with its run need
/// not be freed.
#[derive(Debug)]
pub(crate) struct Recorder {
    total: u32,
    epoch: Epoch,
    /// One for each timeout; none if only their count is wanted.
    words: Box<[AtomicU64]>,
    groups: Box<[CachePadded<AtomicU32>]>,
    groups_left: CachePadded<AtomicU32>,
    last_ran: OnceLock<Instant>,
    /// The thread that waits for the last timeout, which wakes it: one that looked again and again
    /// would be measured with the rest.
    waiting: OnceLock<Thread>,
    twice: AtomicU64,
    strays: AtomicU64,
}

/// How late the timeouts of a run were, in the sense of `tourbillon::Lateness`. Nothing is left out
/// here: each deadline is kept as it was asked for, and each task reads the clock.
#[derive(Debug)]
pub(crate) struct Lateness {
    /// An early run counts as zero.
    pub(crate) late_ns: Histogram<u64>,
    pub(crate) early: u64,
    pub(crate) missing: u64,
    pub(crate) twice: u64,
}

impl Recorder {
    /// For that many timeouts, of which only the count and the time of the last are kept.
    pub(crate) fn counting(total: u32) -> &'static Self {
        Self::new(total, 0)
    }

    /// For that many timeouts, of which the lateness of each is kept.
    pub(crate) fn timing(total: u32) -> &'static Self {
        Self::new(total, total)
    }

    fn new(total: u32, words: u32) -> &'static Self {
        let group = |start: u32| CachePadded::new(AtomicU32::new(GROUP.min(total - start)));
        let groups: Box<[_]> = (0..total).step_by(GROUP as usize).map(group).collect();
        let left = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        Box::leak(Box::new(Self {
            total,
            epoch: Epoch::start(),
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            groups,
            groups_left: CachePadded::new(AtomicU32::new(left)),
            last_ran: OnceLock::new(),
            waiting: OnceLock::new(),
            twice: AtomicU64::new(0),
            strays: AtomicU64::new(0),
        }))
    }

    /// A task that is counted apart: it is not expected to run.
    pub(crate) fn stray(&'static self) -> Task {
        Task { recorder: self, number: STRAY }
    }

    /// A task of the recorder's `total`.
    pub(crate) fn task(&'static self, number: u32) -> Task {
        Task { recorder: self, number }
    }

    /// The task, whose lateness will be counted from `deadline`.
    pub(crate) fn task_due(&'static self, number: u32, deadline: Instant) -> Task {
        self.words[number as usize].store(self.epoch.nanos(deadline), Ordering::Relaxed);
        self.task(number)
    }

    fn ran(&self, number: u32) {
        if number == STRAY {
            self.strays.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if let Some(word) = self.words.get(number as usize) {
            let now = self.epoch.nanos(Instant::now());
            // The system under test hands the task, and with it the deadline, from thread to
            // thread.
            let deadline = word.fetch_or(RAN, Ordering::Relaxed);
            if deadline & RAN != 0 {
                self.twice.fetch_add(1, Ordering::Relaxed);
                return;
            }
            let early = if now < deadline { EARLY } else { 0 };
            word.store(RAN | early | now.abs_diff(deadline), Ordering::Relaxed);
        }
        // AcqRel: the thread that counts the last one down has seen all the others' words.
        let group = &self.groups[(number / GROUP) as usize];
        if group.fetch_sub(1, Ordering::AcqRel) == 1 && self.groups_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.last_ran.get_or_init(Instant::now);
            if let Some(waiting) = self.waiting.get() {
                waiting.unpark();
            }
        }
    }

    /// Whether all have run.
    pub(crate) fn done(&self) -> bool {
        self.last_ran.get().is_some()
    }

    /// When the last has run.
    pub(crate) fn last_ran(&self) -> Option<Instant> {
        self.last_ran.get().copied()
    }

    /// How many ran that were not to run.
    pub(crate) fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// Fails unless every one of them has run, once.
    pub(crate) fn check(&self) -> Result<()> {
        let groups = (0..self.total).step_by(GROUP as usize).zip(&self.groups);
        for (first, group) in groups {
            let left = group.load(Ordering::Acquire).cast_signed();
            ensure!(left <= 0, "{left} timeouts from number {first} on have not run");
            ensure!(left == 0, "{} timeouts from number {first} on have run more than once", -left);
        }
        let twice = self.twice.load(Ordering::Relaxed);
        ensure!(twice == 0, "{twice} timeouts have run more than once");
        Ok(())
    }

    /// Returns how late the timeouts were whose lateness was kept.
    pub(crate) fn lateness(&self) -> Result<Lateness> {
        let twice = self.twice.load(Ordering::Relaxed);
        let mut lateness = Lateness { late_ns: Histogram::new(3)?, early: 0, missing: 0, twice };
        for word in &self.words {
            match word.load(Ordering::Acquire) {
                word if word & RAN == 0 => lateness.missing += 1,
                word if word & EARLY != 0 => {
                    lateness.early += 1;
                    lateness.late_ns.record(0)?;
                }
                word => lateness.late_ns.record(word & !RAN)?,
            }
        }
        Ok(lateness)
    }

    /// Waits on this thread, the only one that does.
    pub(crate) fn wait(&self, limit: Instant) -> Result<()> {
        self.waiting.get_or_init(thread::current);
        while !self.done() {
            let left = limit.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "not all of {} timeouts have run in time", self.total);
            // The last may have looked for somebody just before there was one.
            thread::park_timeout(left.min(SECOND_LOOK));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_once_and_only_then() {
        let recorder = Recorder::counting(3_000);
        for number in 0..2_999 {
            recorder.task(number).run();
        }
        assert!(!recorder.done() && recorder.check().is_err());
        recorder.stray().run();
        assert!(!recorder.done() && recorder.strays() == 1);
        recorder.task(2_999).run();
        assert!(recorder.done() && recorder.check().is_ok());
        recorder.task(7).run();
        assert!(recorder.check().is_err_and(|why| why.to_string().contains("more than once")));
    }

    #[test]
    fn early_late_missing_and_twice_are_told_apart() {
        let recorder = Recorder::timing(4);
        let now = Instant::now();
        recorder.task_due(0, now + Duration::from_secs(60)).run();
        recorder.task_due(1, now).run();
        let _missing = recorder.task_due(2, now);
        let twice = recorder.task_due(3, now);
        twice.run();
        twice.run();
        let Lateness { late_ns, early, missing, twice } = recorder.lateness().expect("a histogram");
        assert_eq!((early, missing, twice), (1, 1, 1));
        assert_eq!((late_ns.len(), late_ns.count_at(0)), (3, 1));
        assert!(late_ns.max() < 60_000_000_000);
        assert!(recorder.check().is_err());
    }
}
