//! When a run that has failed is tried again.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::panics::drop_quietly;

/// How long a timeout waits after a run that has failed: one that has panicked, or has answered
/// [`Outcome::Retry`](crate::Outcome::Retry). By default 1 s, 2 s, 4 s and so on, up to 10 minutes.
/// After a run that has ended its process it is always the default.
///
/// ```
/// use std::time::Duration;
/// use tourbillon_durable::RetryPolicy;
///
/// let seconds = Duration::from_secs;
/// // 5 s, 10 s, 20 s and so on, up to an hour, each longer or shorter by up to a tenth.
/// let _ = RetryPolicy::exponential(seconds(5), seconds(3_600)).jitter(0.1);
/// // Each after 30 s.
/// let _ = RetryPolicy::fixed(seconds(30));
/// // After 1 s, 16 s, 81 s and so on.
/// let _ = RetryPolicy::by(move |failures| seconds(u64::from(failures).pow(4)));
/// ```
#[derive(Clone)]
#[must_use]
pub struct RetryPolicy {
    delay: Delay,
    jitter: f64,
}

#[derive(Clone)]
enum Delay {
    Exponential { first: Duration, longest: Duration },
    By(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

impl RetryPolicy {
    /// Waits for `first` after the first failure, and after each other for twice as long as after
    /// the one before, but not for longer than `longest`.
    pub fn exponential(first: Duration, longest: Duration) -> Self {
        Self { delay: Delay::Exponential { first, longest }, jitter: 0.0 }
    }

    /// Waits for the same time after each failure.
    pub fn fixed(delay: Duration) -> Self {
        Self::exponential(delay, delay)
    }

    /// Waits for what `delay` returns for the number of failures, which is 1 after the first.
    ///
    /// The writer calls it, and everything waits for it meanwhile, so let it not block. If it
    /// panics, the delay is that of the default.
    pub fn by(delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Self { delay: Delay::By(Arc::new(delay)), jitter: 0.0 }
    }

    /// Makes each delay longer or shorter by chance, by at most this part of it, 0 to 1. So what
    /// has failed together is not tried again together. By default 0.
    pub fn jitter(mut self, part: f64) -> Self {
        self.jitter = part;
        self
    }

    /// Whether the part of a delay that chance may add is one.
    pub(crate) fn has_sound_jitter(&self) -> bool {
        (0.0..=1.0).contains(&self.jitter)
    }

    /// The delay after so many failures, at least one.
    pub(crate) fn delay(&self, failures: u32) -> Duration {
        let delay = match &self.delay {
            Delay::Exponential { first, longest } => {
                let times = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
                first.saturating_mul(times).min(*longest)
            }
            Delay::By(delay) => {
                let delay = catch_unwind(AssertUnwindSafe(|| delay(failures)));
                delay.unwrap_or_else(|payload| {
                    drop_quietly(payload);
                    Self::default().delay(failures)
                })
            }
        };
        let factor = 1.0 + self.jitter * (2.0 * fastrand::f64() - 1.0);
        if self.jitter == 0.0 {
            delay
        } else {
            Duration::try_from_secs_f64(delay.as_secs_f64() * factor).unwrap_or(delay)
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1), Duration::from_secs(600))
    }
}

impl fmt::Debug for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RetryPolicy");
        if let Delay::Exponential { first, longest } = &self.delay {
            debug.field("first", first).field("longest", longest);
        }
        debug.field("jitter", &self.jitter).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn delays(policy: &RetryPolicy, failures: &[u32]) -> Vec<u64> {
        failures.iter().map(|&failures| policy.delay(failures).as_secs()).collect()
    }

    #[test]
    fn a_delay_doubles_from_the_first_to_the_longest_and_stays_there() {
        let failures = [1, 2, 3, 9, 10, 11, 33, 34, u32::MAX];
        let default = RetryPolicy::default();
        assert_eq!(delays(&default, &failures), [1, 2, 4, 256, 512, 600, 600, 600, 600]);
        let all = RetryPolicy::exponential(7 * SECOND, Duration::MAX);
        assert_eq!(delays(&all, &failures[..3]), [7, 14, 28]);
        assert!(all.delay(u32::MAX) >= all.delay(33), "it does not begin anew");
        assert_eq!(delays(&RetryPolicy::fixed(30 * SECOND), &failures[..3]), [30, 30, 30]);
    }

    #[test]
    fn a_function_gets_the_failures_and_its_panic_leaves_the_default() {
        let squares = RetryPolicy::by(|failures| failures.pow(2) * SECOND);
        assert_eq!(delays(&squares, &[1, 2, 3]), [1, 4, 9]);
        let panics = RetryPolicy::by(|_| panic!("as the test wants it"));
        assert_eq!(delays(&panics, &[1, 2, 3]), [1, 2, 4]);
    }

    #[test]
    fn jitter_makes_a_delay_longer_and_shorter_by_its_part_at_most() {
        let policy = RetryPolicy::fixed(100 * SECOND).jitter(0.1);
        let delays: Vec<_> = (0..1_000).map(|_| policy.delay(1)).collect();
        assert!(delays.iter().all(|delay| (90 * SECOND..=110 * SECOND).contains(delay)));
        assert!(delays.iter().any(|delay| *delay < 95 * SECOND) && delays.iter().any(|delay| *delay > 105 * SECOND));
        let longest = RetryPolicy::fixed(Duration::MAX).jitter(1.0);
        assert!(longest.delay(1) <= Duration::MAX);
    }
}
