//! What a run found.

#[cfg(any(test, all(feature = "peers", target_os = "linux")))]
use anyhow::{Context, Result};

/// The figures of a run, by the keys of the case's metrics, and what else is to be known.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) values: Vec<(&'static str, f64)>,
    pub(crate) notes: Vec<String>,
}

impl Metrics {
    pub(crate) fn of<const N: usize>(values: [(&'static str, f64); N]) -> Self {
        Self { values: values.to_vec(), ..Self::default() }
    }

    /// The figure of that key.
    #[cfg(any(test, all(feature = "peers", target_os = "linux")))]
    pub(crate) fn get(&self, key: &str) -> Result<f64> {
        let found = self.values.iter().find(|(name, _)| *name == key);
        found.map(|&(_, value)| value).with_context(|| format!("there is no {key}"))
    }
}
