//! The result of one run of one case: one line of JSON, the same from every program that
//! measures.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cases::Case;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) system: String,
    pub(crate) case: String,
    pub(crate) producers: usize,
    /// By the keys of the case's metrics.
    pub(crate) metrics: BTreeMap<String, f64>,
    /// What else is to be known about the run: versions, settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// What a run found: figures by the keys of the case's metrics, and what else is to be known.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) values: Vec<(&'static str, f64)>,
    pub(crate) notes: Vec<String>,
}

impl Metrics {
    pub(crate) fn of<const N: usize>(values: [(&'static str, f64); N]) -> Self {
        Self { values: values.to_vec(), ..Self::default() }
    }
}

impl Line {
    pub(crate) fn new(system: &str, case: &Case, producers: usize, Metrics { values, notes }: Metrics) -> Self {
        let metrics = values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Self { system: system.to_owned(), case: case.id.to_owned(), producers, metrics, notes }
    }

    /// Which promise of a timer was broken, and how often, if one was.
    pub(crate) fn broken(&self) -> Option<String> {
        let count = |key| self.metrics.get(key).copied().filter(|&count| count > 0.0);
        ["early", "missing", "twice"].into_iter().find_map(|key| Some(format!("{} timeouts {key}", count(key)?)))
    }

    pub(crate) fn print(&self) -> Result<()> {
        println!("{}", serde_json::to_string(self).context("cannot turn the result into JSON")?);
        Ok(())
    }

    /// Finds the line in what a program printed: the last one that is an object. A peer may print
    /// things of its own.
    pub(crate) fn read(output: &str, case: &Case) -> Result<Self> {
        let text = output.lines().rfind(|line| line.starts_with('{')).context("it printed no result")?;
        let line: Self = serde_json::from_str(text).with_context(|| format!("it printed {text:?}"))?;
        ensure!(line.case == case.id, "it was to measure {}, and measured {}", case.id, line.case);
        let strange = |(key, value): (&String, &f64)| {
            (!value.is_finite() || case.metrics().iter().all(|metric| metric.key != key))
                .then(|| format!("{key}={value}"))
        };
        let strange: Vec<_> = line.metrics.iter().filter_map(strange).collect();
        ensure!(strange.is_empty(), "of {} it reported {}, which makes no sense", case.id, strange.join(", "));
        Ok(line)
    }
}
