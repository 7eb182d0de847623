//! How late timeouts ran, as figures.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

use crate::compare::metrics::Metrics;
use crate::compare::recorder::Lateness;

/// Points of the distribution: this many each time the rest of it halves, down to a millionth.
const POINTS_A_HALF: i32 = 5;
const HALVES: i32 = 20;

/// The distribution, in milliseconds.
pub(super) fn describe(lateness: &Lateness) -> Result<Metrics> {
    let mut histogram = Histogram::<u64>::new(3).context("no histogram")?;
    for &late in &lateness.late {
        histogram.record(late)?;
    }
    let at = |share: f64| histogram.value_at_quantile(share) as f64 / 1e6;
    let mut metrics = Metrics::of([
        ("p50_ms", at(0.5)),
        ("p99_ms", at(0.99)),
        ("p999_ms", at(0.999)),
        ("max_ms", histogram.max() as f64 / 1e6),
        ("early", lateness.early as f64),
        ("missing", lateness.missing as f64),
        ("twice", lateness.twice as f64),
    ]);
    metrics.percentiles = shares().map(|share| (share, at(share))).collect();
    Ok(metrics)
}

/// From none to all, closer and closer to the end: the usual axis of an HdrHistogram.
fn shares() -> impl Iterator<Item = f64> {
    let steps = (0..=HALVES * POINTS_A_HALF).map(|step| 1.0 - 0.5_f64.powf(f64::from(step) / f64::from(POINTS_A_HALF)));
    steps.chain([1.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_close_in_on_all() {
        let shares: Vec<_> = shares().collect();
        assert_eq!((shares[0], shares[5], shares[10]), (0.0, 0.5, 0.75));
        assert!(shares[100] > 0.999_999 && shares[100] < 1.0 && shares[101] == 1.0);
        assert!(shares.is_sorted());
    }

    #[test]
    fn a_distribution_is_described_in_milliseconds() {
        let late = (1..=1_000).map(|n| n * 1_000_000).collect();
        let metrics = describe(&Lateness { late, early: 3, missing: 2, twice: 1 }).expect("a histogram");
        let get = |key| metrics.get(key).ok();
        let near = |key, value: f64| assert!(get(key).is_some_and(|got| (got / value - 1.0).abs() < 0.01), "{key}");
        near("p50_ms", 500.0);
        near("p99_ms", 990.0);
        near("max_ms", 1_000.0);
        assert_eq!((get("early"), get("missing"), get("twice")), (Some(3.0), Some(2.0), Some(1.0)));
        assert_eq!(metrics.percentiles.len(), 102);
    }
}
