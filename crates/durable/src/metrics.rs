//! Publishes [`DurableTimer::stats`] through the crate `metrics`. With the feature `metrics`.
//!
//! Each counter is `tourbillon_durable_<name>_total`, with the name of its field in
//! [`Stats`](crate::Stats): `tourbillon_durable_claimed_total`, for example. The gauges are
//! `tourbillon_durable_waiting`, `tourbillon_durable_held`, `tourbillon_durable_running`, and
//! `tourbillon_durable_lateness_seconds` with the label `quantile`: 0.5, 0.99 and 1.

use metrics::{counter, gauge};

use crate::timers::DurableTimer;

/// Publishes all of them once. Call it at each scrape, or every few seconds. Does not block.
///
/// ```
/// # use tourbillon_durable::{DurableTimer, Outcome};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timeouts.db");
/// # let timer = tourbillon::Timer::new()?;
/// # let timers = DurableTimer::open(path.to_str().unwrap())?
/// #     .handler("close_order", |_due| Outcome::Done)
/// #     .start(&timer)?;
/// tourbillon_durable::metrics::publish(&timers);
/// # Ok(())
/// # }
/// ```
pub fn publish(timers: &DurableTimer) {
    let stats = timers.stats();
    for (name, value) in stats.counters() {
        counter!(format!("tourbillon_durable_{name}_total")).absolute(value);
    }
    for (name, value) in [("waiting", stats.waiting), ("held", stats.held), ("running", stats.running)] {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        gauge!(format!("tourbillon_durable_{name}")).set(value as f64);
    }
    for (quantile, lateness) in [("0.5", stats.lateness_p50), ("0.99", stats.lateness_p99), ("1", stats.lateness_max)] {
        gauge!("tourbillon_durable_lateness_seconds", "quantile" => quantile).set(lateness.as_secs_f64());
    }
}
