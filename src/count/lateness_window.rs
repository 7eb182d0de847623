//! The lateness of the last minute, by a ring of snapshots. Runs cost nothing more for it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Lateness;

/// What "the last minute" is, at least.
const SPAN: Duration = Duration::from_secs(60);
/// A snapshot is kept if the one before is at least as old.
const STEP: Duration = Duration::from_secs(5);

/// The lateness of the last minute, for a dashboard.
///
/// [`Stats::lateness`](crate::Stats::lateness) counts from the engine's start, so a bad minute
/// after a good day does not show in its percentiles. A window keeps some earlier snapshots, and
/// subtracts the one of a minute ago. Have one for each histogram: for the engine, and for each
/// shard if you want to. It holds up to 14 snapshots of 8 KB each, and reads no clock.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{LatenessWindow, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let mut window = LatenessWindow::new(timer.now(), timer.stats().lateness);
/// let (watched, show) = (timer.clone(), Duration::from_secs(1));
/// let dashboard = timer.schedule_at_fixed_rate(show, show, move || {
///     let last_minute = window.advance(watched.now(), watched.stats().lateness);
///     println!("p99 {:?}, {} runs", last_minute.percentile(99.0), last_minute.count());
/// })?;
/// # assert!(dashboard.cancel());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LatenessWindow {
    /// The oldest first. There is one at least, and the second is less than a minute old.
    earlier: VecDeque<(Instant, Lateness)>,
}

impl LatenessWindow {
    /// Makes a window that begins `now`, with the snapshot of this moment. Allocates.
    #[must_use]
    pub fn new(now: Instant, lateness: Lateness) -> Self {
        Self { earlier: VecDeque::from([(now, lateness)]) }
    }

    /// Takes the snapshot of this moment, and returns the lateness of the minute up to `now`.
    /// Allocates.
    ///
    /// In the first minute this is the lateness since the window began. Afterwards it is that of a
    /// little more than a minute: by less than 5 s and the time between two calls. So call it every
    /// few seconds.
    pub fn advance(&mut self, now: Instant, lateness: Lateness) -> Lateness {
        let has_age = |age: Duration, (at, _): &(Instant, Lateness)| now.saturating_duration_since(*at) >= age;
        while self.earlier.get(1).is_some_and(|second| has_age(SPAN, second)) {
            self.earlier.pop_front();
        }
        let last_minute = self.earlier.front().map_or_else(Lateness::default, |(_, first)| lateness.since(first));
        if self.earlier.back().is_none_or(|last| has_age(STEP, last)) {
            self.earlier.push_back((now, lateness));
        }
        last_minute
    }
}
