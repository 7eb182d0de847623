//! What a load generator says.

/// The requests that were answered, and how long they took.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) requests: f64,
    pub(super) seconds: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
    pub(super) errors: f64,
}
