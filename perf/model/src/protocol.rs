//! How this machine's cores hand a line on: whether a read of a line that another core has written
//! takes it from there, so that a read-modify-write right after it needs no second transfer.

use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_utils::CachePadded;
use serde::Serialize;

use super::compare::ping_pong::round_trip_with;
use super::compare::statistics::Spread;

const ROUNDS: u32 = 20_000;
/// Of which the medians are taken.
const TRIES: usize = 9;

/// In transfers, of which a round trip of the ping-pong's line has two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Protocol {
    /// What a read-modify-write of a second line adds, which the other core has just written.
    pub(crate) read_modify_write: f64,
    /// What a read of that line and then a read-modify-write add.
    pub(crate) both: f64,
}

impl Protocol {
    /// None where there are no two cores.
    pub(crate) fn measure() -> Option<Self> {
        let add = |line: &AtomicU32| line.fetch_add(1, Ordering::AcqRel);
        let read_and_add = |line: &AtomicU32| {
            let seen = line.load(Ordering::Relaxed);
            // The other core waits for the ball meanwhile.
            line.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed).unwrap_or_else(|now| now)
        };
        let mut found = Vec::new();
        for _ in 0..TRIES {
            // Before and after, as the host may move the guest in between.
            let before = round_trip(|_| 0)?;
            let with = [round_trip(add)?, round_trip(read_and_add)?];
            let bare = f64::midpoint(before, round_trip(|_| 0)?);
            found.push(with.map(|with| (with - bare) / bare));
        }
        let middle = |which: usize| Some(Spread::of(found.iter().map(|found| found[which]))?.median);
        Some(Self { read_modify_write: middle(0)?, both: middle(1)? })
    }

    /// Whether the read takes the line.
    pub(crate) fn migrates(self) -> bool {
        self.both - self.read_modify_write < 0.5
    }
}

/// Nanoseconds of a round trip of a ball between two threads, each of which does something to a
/// second line before it sends the ball back.
fn round_trip(work: impl Fn(&AtomicU32) -> u32 + Sync) -> Option<f64> {
    let line = [CachePadded::new(AtomicU32::new(0))];
    // Each step needs what the one before gives, so that no core begins it before its time: no
    // number here reaches 1 << 31.
    round_trip_with(ROUNDS, |received| work(&line[(received >> 31) as usize]) >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_migrates_if_a_read_before_the_exchange_adds_little() {
        assert!(Protocol { read_modify_write: 1.0, both: 1.1 }.migrates());
        assert!(!Protocol { read_modify_write: 1.0, both: 2.0 }.migrates());
    }

    #[test]
    fn the_ball_comes_back() {
        if let Some(ns) = round_trip(|line| line.fetch_add(1, Ordering::AcqRel)) {
            assert!(ns > 0.0);
        }
    }
}
