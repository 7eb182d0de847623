//! What a run found.

/// The figures of a run, by the keys of the case's metrics, and what else is to be known.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) values: Vec<(&'static str, f64)>,
    pub(crate) percentiles: Vec<(f64, f64)>,
    pub(crate) notes: Vec<String>,
}

impl Metrics {
    pub(crate) fn of<const N: usize>(values: [(&'static str, f64); N]) -> Self {
        Self { values: values.to_vec(), ..Self::default() }
    }
}
