//! The server's counts, and how late its pacing timers are: from the deadline that was asked for
//! until the session's next step, so with the time until a future that was woken is polled.

use anyhow::{Context, Result};
use crossbeam_utils::atomic::AtomicCell;
use hdrhistogram::Histogram;

/// Counts since the server started.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Datagrams that came in and were new.
    pub(super) requests: u64,
    /// Those that had been there before.
    pub(super) duplicates: u64,
    /// Requests that were answered.
    pub(super) replies: u64,
    /// Requests whose session ended before the reply was due.
    pub(super) dropped: u64,
    /// Replies that the loss timer has sent again.
    pub(super) resent: u64,
    /// Sessions that were idle for too long.
    pub(super) closed: u64,
    /// Timers that came up though they had been cancelled or moved.
    pub(super) stale: u64,
    /// Pacing timers that came up before their time.
    pub(super) early: u64,
    /// Times that the server looked for datagrams and for what is due.
    pub(super) rounds: u64,
}

/// The parts of a run. The server says when all sessions are open. Then the control sets them, and
/// the server follows. Nothing is published with them: the counts are the server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Opening,
    Open,
    /// It counts.
    Measure,
    /// It counts no more.
    After,
}

/// The counts, those that count for the result, and the lateness meanwhile.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) now: Counts,
    begin: Counts,
    end: Counts,
    /// Of the pacing timers.
    pub(super) lateness_ns: Histogram<u64>,
    phase: Phase,
}

impl Books {
    pub(super) fn new() -> Self {
        let lateness_ns = Histogram::new(3).expect("three digits can be had");
        let (now, begin, end) = Default::default();
        Self { now, begin, end, lateness_ns, phase: Phase::Opening }
    }

    /// Is called in each round, with whether all sessions are open.
    pub(super) fn follow(&mut self, phase: &AtomicCell<Phase>, is_open: bool) {
        self.now.rounds += 1;
        if is_open && phase.load() == Phase::Opening {
            phase.store(Phase::Open);
        }
        let phase = phase.load();
        match phase {
            same if same == self.phase => {}
            Phase::Opening | Phase::Open => {}
            Phase::Measure => {
                self.begin = self.now;
                self.lateness_ns.reset();
            }
            Phase::After => self.end = self.now,
        }
        self.phase = phase;
    }

    /// A pacing timer has come up.
    pub(super) fn paced(&mut self, now_ns: u64, deadline_ns: u64) {
        self.now.replies += 1;
        self.now.early += u64::from(now_ns < deadline_ns);
        if self.phase != Phase::After {
            // It grows as far as it has to, so there is no error. An early timer counts as zero.
            let _ = self.lateness_ns.record(now_ns.saturating_sub(deadline_ns));
        }
    }

    /// Returns how much a count has grown while it was measured.
    pub(super) fn measured(&self, count: fn(&Counts) -> u64) -> u64 {
        count(&self.end) - count(&self.begin)
    }

    /// Returns how many requests were taken in and never answered.
    ///
    /// # Errors
    ///
    /// If more were answered than taken in.
    pub(super) fn missing(&self) -> Result<u64> {
        let over = self.now.replies + self.now.dropped;
        let requests = self.now.requests;
        requests.checked_sub(over).with_context(|| format!("{requests} requests and {over} replies"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_counts_are_those_between_the_beginning_and_the_end() {
        let (mut books, phase) = (Books::new(), AtomicCell::new(Phase::Opening));
        let go = |books: &mut Books, count| {
            for at in 0..count {
                books.now.requests += 1;
                books.paced(2_000_000 + at, 1_000_000);
            }
            books.follow(&phase, true);
        };
        go(&mut books, 3);
        phase.store(Phase::Measure);
        books.follow(&phase, true);
        go(&mut books, 4);
        phase.store(Phase::After);
        books.follow(&phase, true);
        go(&mut books, 5);
        assert_eq!((books.measured(|counts| counts.requests), books.measured(|counts| counts.replies)), (4, 4));
        assert_eq!((books.now.requests, books.missing().expect("no more replies than requests")), (12, 0));
        assert!(books.lateness_ns.value_at_quantile(0.5).abs_diff(1_000_000) < 10_000);
        books.now.replies += 1;
        assert!(books.missing().is_err());
    }
}
