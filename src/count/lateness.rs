//! How late tasks began to run: counts in buckets, each at most a sixteenth of its value wide.
//!
//! The buckets are those of HdrHistogram (Tene): linear within each power of two. The thread that
//! runs a batch counts on its own stack first, in a window of some buckets, because the timeouts of
//! a tick are late by nearly the same. It adds its counts to the shard's at the end: one
//! read-modify-write for each bucket that was hit, and not for each timeout.

// Not through `sync`: these are statistics, which no protocol depends on and which would only slow
// models down.
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SUB_BITS: u32 = 4;
const SUBS: u64 = 1 << SUB_BITS;
/// The number of buckets that 64-bit values need.
const BUCKETS: usize = ((64 - SUB_BITS as usize) + 1) << SUB_BITS;

/// The lateness counts of one shard.
#[derive(Debug)]
pub(crate) struct Latenesses {
    counts: Box<[AtomicU64]>,
    max_ns: AtomicU64,
}

impl Latenesses {
    pub(crate) fn new() -> Self {
        Self { counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), max_ns: AtomicU64::new(0) }
    }

    pub(crate) fn snapshot(&self) -> Lateness {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Lateness { counts, max_ns: self.max_ns.load(Ordering::Relaxed) }
    }
}

/// Buckets of a window: those of two powers of two.
const WINDOW: usize = 2 << SUB_BITS;

/// Collects the lateness of one batch, and adds it to a shard's counts.
pub(crate) struct Recorder<'a> {
    into: &'a Latenesses,
    /// The window begins at this bucket.
    first: usize,
    window: [u32; WINDOW],
    /// A bit for each bucket of the window that is not 0.
    hit: u32,
    /// The bucket of the last values, and how many of them are not in the window yet.
    last: usize,
    times: u32,
    max_ns: u64,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(into: &'a Latenesses) -> Self {
        Self { into, first: 0, window: [0; WINDOW], hit: 0, last: 0, times: 0, max_ns: 0 }
    }

    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.max_ns = self.max_ns.max(ns);
        self.count_last();
        self.times = 1;
        let bucket = bucket_of(ns);
        self.last = bucket % WINDOW;
        if bucket - self.last != self.first {
            self.flush();
            self.first = bucket - self.last;
        }
        self.hit |= 1 << self.last;
    }

    /// Records the same value as the last call did.
    #[inline]
    pub(crate) fn record_again(&mut self) {
        self.times += 1;
    }

    #[inline]
    fn count_last(&mut self) {
        // It is less than that anyway; so the compiler knows.
        self.window[self.last % WINDOW] += std::mem::take(&mut self.times);
    }

    #[inline(never)]
    fn flush(&mut self) {
        while self.hit != 0 {
            let at = self.hit.trailing_zeros() as usize;
            self.hit &= self.hit - 1;
            let times = std::mem::take(&mut self.window[at]);
            self.into.counts[self.first + at].fetch_add(u64::from(times), Ordering::Relaxed);
        }
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        self.count_last();
        self.flush();
        if self.max_ns > self.into.max_ns.load(Ordering::Relaxed) {
            self.into.max_ns.fetch_max(self.max_ns, Ordering::Relaxed);
        }
    }
}

fn bucket_of(ns: u64) -> usize {
    // Below 2 · SUBS each value has its own bucket.
    let shift = (u64::BITS - (ns | SUBS).leading_zeros()) - SUB_BITS - 1;
    #[expect(clippy::cast_possible_truncation, reason = "less than the number of buckets")]
    let bucket = ((u64::from(shift) << SUB_BITS) + (ns >> shift)) as usize;
    bucket
}

/// Returns the largest value of a bucket.
fn highest_in(bucket: usize) -> u64 {
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    let sub = (bucket - (shift << SUB_BITS)) as u64;
    u64::try_from(((u128::from(sub) + 1) << shift) - 1).unwrap_or(u64::MAX)
}

/// A histogram of how late tasks began to run.
///
/// # What lateness is
///
/// The lateness of a run is the time at which its task begins, or at which its future is woken,
/// minus the deadline that the caller asked for. That deadline is the instant that was given, or
/// the time of the call plus the delay. Both are in the engine's time, which stands still in a
/// pause of a [`PausableClock`](crate::PausableClock). So lateness has in it:
///
/// * the wait for others. A worker runs the timeouts of one tick together, when the last of them is
///   due, so up to one tick of their lateness is the wait for that. A timeout that is alone in its
///   tick waits for the end of its [part](crate::Builder::tick_duration) only;
/// * the time that the system takes to wake a thread;
/// * the turn of the worker, and the tasks that run before this one.
///
/// A recorded value differs from that as follows:
///
/// * *The deadline's rounding is left out.* A deadline is rounded up to a part of a tick, and a
///   delay counts from a clock that may be some 20 µs ahead. So a value may lack as much, and a
///   [part of a tick](crate::Builder::tick_duration), which may be the whole.
/// * *The clock is read for every 64th task of a batch.* A value may lack the time that up to 63
///   tasks before it took.
/// * *A delay of zero counts from the tick that has come.* A value may have up to one tick too
///   much. The same holds for an instant that has passed, by a
///   [clock of your own](crate::Builder::clock).
/// * *A value is exact to a sixteenth*, which is the width of a bucket.
///
/// Timeouts that a shutdown returned, or fired before they were due, are not recorded.
///
/// # Of an interval
///
/// A snapshot is of the time since the engine's start. Take two, and [`since`](Self::since) has
/// what came between them.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let lateness = timer.stats().lateness;
/// println!("{} timeouts: {:?} at most", lateness.count(), lateness.max());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Lateness {
    counts: Vec<u64>,
    max_ns: u64,
}

impl Lateness {
    /// Returns the number of recorded values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the lateness that `percent` percent of the values do not exceed.
    ///
    /// `percent` is between 0 and 100; a value outside is replaced by the nearer end. Returns zero
    /// if the histogram is empty.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = tourbillon::Timer::new()?;
    /// let lateness = timer.stats().lateness;
    /// println!("p50 {:?}, p99.9 {:?}", lateness.percentile(50.0), lateness.percentile(99.9));
    /// println!("max {:?}", lateness.max());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        let total = self.count();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share"
        )]
        let rank = ((percent.clamp(0.0, 100.0) / 100.0 * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        Duration::from_nanos(bucket.map_or(0, |bucket| highest_in(bucket).min(self.max_ns)))
    }

    /// Returns the largest recorded value. Exact in a snapshot. [Of an interval](Self::since) it
    /// may be too large by a sixteenth.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// Returns how many values are at most `bound`, which are the values of all buckets that end by
    /// then. Values that are less than a sixteenth below `bound` may be missing. The count is exact
    /// if `bound` is 2^n - 1 ns, because a bucket ends there.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon::{ManualClock, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let (timer, mut driver) = Timer::builder().clock(clock.clone()).build_driven()?;
    /// timer.schedule_detached(Duration::from_millis(1), || ())?;
    /// clock.advance(Duration::from_millis(5)); // 4 ms too far
    /// driver.turn();
    /// let lateness = timer.stats().lateness;
    /// let at_most = |ms| lateness.count_at_most(Duration::from_millis(ms));
    /// assert_eq!((at_most(3), at_most(5)), (0, 1));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn count_at_most(&self, bound: Duration) -> u64 {
        let bound_ns = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        let bucket = bucket_of(bound_ns);
        let ends = bucket + usize::from(highest_in(bucket) == bound_ns);
        self.counts.iter().take(ends).sum()
    }

    /// Returns the histogram of what was recorded after `earlier`, an earlier snapshot of the same
    /// engine or shard. Allocates. If `earlier` is not that, the result means nothing.
    ///
    /// The percentiles are as exact as those of a snapshot. The maximum is exact if it is also the
    /// greatest value since the engine's start. Otherwise only its bucket is known, and the maximum
    /// is the end of that bucket, or the greatest value since the start if that is in the same one.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = tourbillon::Timer::new()?;
    /// let before = timer.stats().lateness;
    /// std::thread::sleep(std::time::Duration::from_millis(10)); // of traffic
    /// let lateness = timer.stats().lateness.since(&before);
    /// println!("{} runs meanwhile, p99 {:?}", lateness.count(), lateness.percentile(99.0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.counts.iter().chain(std::iter::repeat(&0));
        let counts: Vec<_> = self.counts.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect();
        let highest = counts.iter().rposition(|count| *count > 0);
        let max_ns = highest.map_or(0, |bucket| highest_in(bucket).min(self.max_ns));
        Self { counts, max_ns }
    }

    /// Returns the sum of the values in seconds, each as the middle of its bucket. So the sum is
    /// exact to a 32nd.
    #[cfg(any(feature = "metrics", test))]
    pub(crate) fn sum_s(&self) -> f64 {
        let lowest_in = |bucket: usize| bucket.checked_sub(1).map_or(0, |before| highest_in(before) + 1);
        let middle_s = |bucket| (lowest_in(bucket) as f64 + highest_in(bucket) as f64) / 2.0 / 1e9;
        self.counts.iter().enumerate().map(|(bucket, &count)| count as f64 * middle_s(bucket)).sum()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Lateness");
        fields.field("count", &self.count());
        for (name, percent) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)] {
            fields.field(name, &self.percentile(percent));
        }
        fields.field("max", &self.max()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_holds_its_values_and_is_a_sixteenth_wide_at_most(shift in 0_u32..64, ns in any::<u64>()) {
            let ns = ns >> shift;
            let bucket = bucket_of(ns);
            prop_assert!(bucket < BUCKETS);
            let high = highest_in(bucket);
            prop_assert!(high >= ns && high - ns <= ns / SUBS, "{ns} in {bucket}, up to {high}");
            prop_assert!(bucket == 0 || highest_in(bucket - 1) < ns);
        }

        #[test]
        fn percentiles_are_those_of_the_sorted_values_to_a_sixteenth(
            mut values in proptest::collection::vec(0_u64..1 << 40, 1..200), percent in 0.0_f64..100.0,
        ) {
            let into = Latenesses::new();
            let mut recorder = Recorder::new(&into);
            values.iter().for_each(|&ns| recorder.record(ns));
            drop(recorder);
            let seen = into.snapshot();
            values.sort_unstable();
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
            let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
            let (exact, said) = (values[rank - 1], u64::try_from(seen.percentile(percent).as_nanos()).expect("64 bits"));
            prop_assert!(said >= exact && said - exact <= exact / SUBS, "{said} for {exact}");
            prop_assert_eq!(seen.count(), values.len() as u64);
            prop_assert_eq!(seen.percentile(100.0), seen.max());
        }

        #[test]
        fn latenesses_after_a_snapshot_are_as_if_they_were_recorded_alone(
            before in proptest::collection::vec(0_u64..1 << 40, 0..50), after in proptest::collection::vec(0_u64..1 << 40, 0..50),
        ) {
            let (both, alone) = (Latenesses::new(), Latenesses::new());
            let record = |into, values: &[u64]| {
                let mut recorder = Recorder::new(into);
                values.iter().for_each(|&ns| recorder.record(ns));
            };
            record(&both, &before);
            let earlier = both.snapshot();
            record(&both, &after);
            record(&alone, &after);
            let (seen, alone) = (both.snapshot().since(&earlier), alone.snapshot());
            prop_assert_eq!(&seen.counts, &alone.counts);
            prop_assert!(seen.max_ns >= alone.max_ns && seen.max_ns - alone.max_ns <= alone.max_ns / SUBS);
            if alone.max_ns > earlier.max_ns {
                prop_assert_eq!(seen.max_ns, alone.max_ns);
            }
            prop_assert_eq!(both.snapshot().since(&Lateness::default()), both.snapshot());
        }
    }

    #[test]
    fn two_shards_lateness_is_added_bucket_by_bucket() {
        let of = |values: &[u64]| {
            let into = Latenesses::new();
            let mut recorder = Recorder::new(&into);
            values.iter().for_each(|&ns| recorder.record(ns));
            drop(recorder);
            into.snapshot()
        };
        let mut sum = Lateness::default();
        sum.add(&of(&[3, 3, 5]));
        sum.add(&of(&[3, 70, 1 << 50]));
        assert_eq!(sum, of(&[3, 3, 3, 5, 70, 1 << 50]));
        sum.add(&of(&[4]));
        assert_eq!((sum.count(), sum.max()), (7, Duration::from_nanos(1 << 50)), "the greater one stays");
    }

    #[test]
    fn a_sum_is_exact_to_a_32nd_and_counts_of_powers_of_two_are_exact() {
        let (into, mut values) = (Latenesses::new(), Vec::new());
        let mut recorder = Recorder::new(&into);
        for power in 0..50 {
            values.extend([(1 << power) - 1, 1 << power, (1 << power) + (1 << power) / 3]);
        }
        values.iter().for_each(|&ns| recorder.record(ns));
        drop(recorder);
        let seen = into.snapshot();
        let exact = values.iter().sum::<u64>() as f64 / 1e9;
        assert!((seen.sum_s() - exact).abs() <= exact / 32.0, "{} for {exact}", seen.sum_s());
        for power in 0..50 {
            let bound = (1_u64 << power) - 1;
            let at_most = values.iter().filter(|&&ns| ns <= bound).count();
            assert_eq!(seen.count_at_most(Duration::from_nanos(bound)), at_most as u64, "2^{power}");
        }
        assert_eq!((Lateness::default().sum_s(), Lateness::default().count_at_most(Duration::MAX)), (0.0, 0));
        assert_eq!(seen.count_at_most(Duration::MAX), seen.count());
    }

    #[test]
    fn the_largest_value_has_the_last_bucket() {
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
        assert_eq!(highest_in(BUCKETS - 1), u64::MAX);
    }
}
