//! How long operations of one kind took, by loops of them.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::duration::{nanos, nanos_per};

/// A loop of fewer operations says more of the clock than of them.
const TELLING: usize = 50;

/// Loops are kept in hundredths of a nanosecond per operation, up to a millisecond.
const LONGEST: u64 = 100_000_000;

/// Operations of one kind, the time they took, and how it was spread over the loops.
#[derive(Debug, Clone)]
pub(crate) struct Timed {
    pub(crate) operations: u64,
    time: Duration,
    /// By operations, so that a long loop counts for more than a short one.
    loops: Histogram<u64>,
}

impl Default for Timed {
    fn default() -> Self {
        let loops = Histogram::new_with_bounds(1, LONGEST, 2).expect("bounds that a histogram takes");
        Self { operations: 0, time: Duration::ZERO, loops }
    }
}

impl Timed {
    /// Adds a loop that has just ended.
    pub(crate) fn add(&mut self, operations: usize, since: Instant) {
        let took = since.elapsed();
        self.time += took;
        self.operations += operations as u64;
        if operations >= TELLING {
            let operations = operations as u64;
            self.loops.saturating_record_n((nanos(took) * 100 / operations).max(1), operations);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.time += other.time;
        // Both have the same bounds, so this can't fail.
        let _ = self.loops.add(&other.loops);
    }

    /// All time over all operations: what the caller paid, other programs' turns on the core
    /// included.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.operations > 0).then(|| nanos_per(self.time, self.operations))
    }

    /// Half of the operations were in loops that took less per operation: mostly what it costs when
    /// no other thread wants the core.
    pub(crate) fn median(&self) -> Option<f64> {
        (!self.loops.is_empty()).then(|| self.loops.value_at_quantile(0.5) as f64 / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_was_interrupted_moves_the_mean_and_not_the_median() {
        let mut timed = Timed::default();
        let ago = |time| Instant::now().checked_sub(time).expect("a machine that has been up for a while");
        for _ in 0..9 {
            timed.add(1_000, ago(Duration::from_millis(1)));
        }
        timed.add(1_000, ago(Duration::from_millis(100)));
        let (mean, median) = (timed.mean().unwrap_or(0.0), timed.median().unwrap_or(0.0));
        assert!((1_000.0..1_300.0).contains(&median), "{median}");
        assert!(mean > 10_000.0, "{mean}");
    }
}
