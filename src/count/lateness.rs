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

/// A histogram of how late tasks began to run, from their deadlines on.
///
/// Each value is exact to a sixteenth. Timeouts that a shutdown returned, or fired before they were
/// due, are not recorded.
///
/// The clock is read for every 64th task of a batch. So a task may have begun later than is
/// recorded here, by the time that up to 63 tasks before it took.
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

    /// Returns the largest recorded value, exactly.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
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
    fn the_largest_value_has_the_last_bucket() {
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
        assert_eq!(highest_in(BUCKETS - 1), u64::MAX);
    }
}
