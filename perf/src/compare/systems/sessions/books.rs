//! What the server counts, and how late its pacing timers are: from the deadline that was asked for
//! until the session's next step, so with the time until a future that was woken is polled.

use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Result;
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
#[derive(Debug, Default)]
pub(super) struct Phase(AtomicU8);

impl Phase {
    const OPENING: u8 = 0;
    const OPEN: u8 = 1;
    const MEASURE: u8 = 2;
    const AFTER: u8 = 3;

    pub(super) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) != Self::OPENING
    }

    /// From now on it counts.
    pub(super) fn begin(&self) {
        self.0.store(Self::MEASURE, Ordering::Relaxed);
    }

    /// From now on it counts no more.
    pub(super) fn end(&self) {
        self.0.store(Self::AFTER, Ordering::Relaxed);
    }
}

/// The counts, those that count for the result, and the lateness meanwhile.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) now: Counts,
    begin: Counts,
    end: Counts,
    lateness_ns: Histogram<u64>,
    phase: u8,
}

impl Books {
    pub(super) fn new() -> Self {
        let lateness_ns = Histogram::new(3).expect("three digits can be had");
        Self { now: Counts::default(), begin: Counts::default(), end: Counts::default(), lateness_ns, phase: 0 }
    }

    /// Is called in each round, with whether all sessions are open.
    pub(super) fn follow(&mut self, phase: &Phase, is_open: bool) {
        self.now.rounds += 1;
        if is_open && !phase.is_open() {
            phase.0.store(Phase::OPEN, Ordering::Relaxed);
        }
        let phase = phase.0.load(Ordering::Relaxed);
        if phase == self.phase {
            return;
        }
        match phase {
            Phase::OPEN => {}
            Phase::MEASURE => {
                self.begin = self.now;
                self.lateness_ns.reset();
            }
            _ => self.end = self.now,
        }
        self.phase = phase;
    }

    /// A pacing timer has come up.
    pub(super) fn paced(&mut self, now_ns: u64, deadline_ns: u64) {
        self.now.replies += 1;
        self.now.early += u64::from(now_ns < deadline_ns);
        if self.phase != Phase::AFTER {
            // It grows as far as it has to, so there is no error. What saturates does not grow.
            let _ = self.lateness_ns.record(now_ns.saturating_sub(deadline_ns));
        }
    }

    /// Returns how much a count has grown from [`Phase::begin`] to [`Phase::end`].
    pub(super) fn measured(&self, count: fn(&Counts) -> u64) -> u64 {
        count(&self.end) - count(&self.begin)
    }

    /// Returns the milliseconds within which that share of the pacing timers came up.
    pub(super) fn late_ms(&self, share: f64) -> f64 {
        self.lateness_ns.value_at_quantile(share) as f64 / 1e6
    }

    /// Returns how many requests were taken in and never answered.
    ///
    /// # Errors
    ///
    /// If more were answered than taken in.
    pub(super) fn missing(&self) -> Result<u64> {
        let over = self.now.replies + self.now.dropped;
        let missing = self.now.requests.checked_sub(over);
        missing.ok_or_else(|| anyhow::anyhow!("{} requests and {over} replies", self.now.requests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_what_came_between_the_beginning_and_the_end() {
        let (mut books, phase) = (Books::new(), Phase::default());
        let go = |books: &mut Books, count| {
            for at in 0..count {
                books.now.requests += 1;
                books.paced(2_000_000 + at, 1_000_000);
            }
            books.follow(&phase, true);
        };
        go(&mut books, 3);
        phase.begin();
        books.follow(&phase, true);
        go(&mut books, 4);
        phase.end();
        books.follow(&phase, true);
        go(&mut books, 5);
        assert_eq!((books.measured(|counts| counts.requests), books.measured(|counts| counts.replies)), (4, 4));
        assert_eq!((books.now.requests, books.missing().expect("no more replies than requests")), (12, 0));
        assert!((books.late_ms(0.5) - 1.0).abs() < 0.01);
        books.now.replies += 1;
        assert!(books.missing().is_err());
    }
}
