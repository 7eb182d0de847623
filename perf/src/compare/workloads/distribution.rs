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
