//! The record that the tasks of the timeouts write when they run: that they ran, how late, and
//! whether they were allowed to.
//!
//! Tasks run on the engine's pool threads (or workers), many a millisecond. Each thread writes to a
//! page of its own, so that this bookkeeping is not what is measured; the lock of a page is only
//! ever contended by a reader that adds the pages up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;

use crate::duration;

/// The use of a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One of those without sockets.
    Population,
    /// An idle timeout, a deadline, or the end of a work step.
    Socket,
}

/// Pages; threads beyond this number share.
const PAGES: usize = 32;

/// A page of the tasks' record, or the sum of all pages.
#[derive(Debug, Clone)]
pub(super) struct Page {
    /// Tasks that ran, by kind.
    pub(super) fired: [u64; 2],
    /// Tasks that ran before their deadline.
    pub(super) early: u64,
    /// Tasks that ran although they, or their successor in the same place, had run already.
    pub(super) twice: u64,
    /// Tasks that ran although `cancel` had returned true.
    pub(super) after_cancel: u64,
    /// Lateness by kind: from the deadline that was asked for until the task reads the clock.
    pub(super) lateness_ns: [Histogram<u64>; 2],
}

impl Page {
    fn new() -> Self {
        let histogram = || Histogram::new(3).expect("three digits can be had");
        let lateness_ns = [histogram(), histogram()];
        Self { fired: [0; 2], early: 0, twice: 0, after_cancel: 0, lateness_ns }
    }

    pub(super) fn fired_in_all(&self) -> u64 {
        self.fired.iter().sum()
    }

    /// Notes how late a task of `kind` ran, or that it was early.
    pub(super) fn judge(&mut self, kind: Kind, deadline: Instant, ran: Instant) {
        match ran.checked_duration_since(deadline) {
            // It grows as far as it has to, so this can't fail.
            Some(late) => _ = self.lateness_ns[kind as usize].record(duration::nanos(late)),
            None => self.early += 1,
        }
    }

    fn add(&mut self, other: &Self) {
        self.fired.iter_mut().zip(other.fired).for_each(|(sum, fired)| *sum += fired);
        self.early += other.early;
        self.twice += other.twice;
        self.after_cancel += other.after_cancel;
        for (sum, histogram) in self.lateness_ns.iter_mut().zip(&other.lateness_ns) {
            let _ = sum.add(histogram);
        }
    }
}

/// A page for each thread.
#[derive(Debug)]
pub(super) struct Recorder {
    pages: Box<[CachePadded<Mutex<Page>>]>,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self { pages: (0..PAGES).map(|_| CachePadded::new(Mutex::new(Page::new()))).collect() }
    }

    /// A task of `kind` with this `deadline` ran at `ran`.
    pub(super) fn fired(&self, kind: Kind, deadline: Instant, ran: Instant) {
        let mut page = self.page();
        page.fired[kind as usize] += 1;
        page.judge(kind, deadline, ran);
    }

    /// A timeout had fired by `seen`, at a time that is not known.
    pub(super) fn had_fired(&self, deadline: Instant, seen: Instant) {
        self.page().early += u64::from(seen < deadline);
    }

    /// All pages added up.
    pub(super) fn sum(&self) -> Page {
        let mut sum = Page::new();
        self.pages.iter().for_each(|page| sum.add(&lock(page)));
        sum
    }

    /// The calling thread's page.
    pub(super) fn page(&self) -> MutexGuard<'_, Page> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % PAGES;
        }
        lock(&self.pages[MINE.with(|&page| page)])
    }
}

/// A page is whole after every line, so a task that panicked while it wrote does no harm.
fn lock(page: &Mutex<Page>) -> MutexGuard<'_, Page> {
    page.lock().unwrap_or_else(PoisonError::into_inner)
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
        recorder.fired(Kind::Socket, deadline, deadline);
        recorder.fired(Kind::Socket, deadline + Duration::from_nanos(3), deadline);
        let sum = recorder.sum();
        assert_eq!((sum.fired_in_all(), sum.early), (3, 1));
        assert_eq!(sum.lateness_ns.map(|histogram| histogram.len()), [1, 1]);
    }
}
