//! How late timeouts ran, as figures.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

use crate::compare::metrics::Metrics;
use crate::compare::recorder::Lateness;

/// The distribution, in milliseconds.
pub(super) fn describe(lateness: &Lateness) -> Result<Metrics> {
    let mut histogram = Histogram::<u64>::new(3).context("no histogram")?;
    for &late in &lateness.late {
        histogram.record(late)?;
    }
    let at = |share: f64| histogram.value_at_quantile(share) as f64 / 1e6;
    Ok(Metrics::of([
        ("p50_ms", at(0.5)),
        ("p99_ms", at(0.99)),
        ("p999_ms", at(0.999)),
        ("max_ms", histogram.max() as f64 / 1e6),
        ("early", lateness.early as f64),
        ("missing", lateness.missing as f64),
        ("twice", lateness.twice as f64),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
