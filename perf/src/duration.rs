//! Durations: read from the command line, turned into nanoseconds, and shown to people.

use std::time::{Duration, Instant};

/// Reads `250ms`, `15s`, `1m 30s`; for clap.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim())
        .map_err(|why| format!("{why}; a duration is a number and a unit, such as 250ms, 15s or 1m30s"))
}

/// As [`parse`], but zero makes no sense here.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("must be longer than zero".to_owned()),
        duration => Ok(duration),
    }
}

/// Nanoseconds, saturating: 584 years fit.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// As the user would write it: `1m 30s`.
pub(crate) fn exact(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Two decimals and a unit: `1.24ms`.
pub(crate) fn show_nanos(nanos: u64) -> String {
    format!("{:.2?}", Duration::from_nanos(nanos))
}

/// Instants as nanoseconds since the start of a run, so that they fit into one atomic word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Epoch(Instant);

impl Epoch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds from the start to `instant`; what lies before it is zero.
    pub(crate) fn nanos(self, instant: Instant) -> u64 {
        nanos(instant.saturating_duration_since(self.0))
    }

    /// The instant `nanos` nanoseconds after the start.
    pub(crate) fn at(self, nanos: u64) -> Instant {
        self.0 + Duration::from_nanos(nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_refused_with_a_hint() {
        let refused = parse("15").expect_err("no unit");
        assert!(refused.contains("15s"), "{refused}");
        assert_eq!(parse("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(exact(Duration::from_millis(90_500)), "1m 30s 500ms");
        assert!(parse_positive("0s").is_err());
    }
}
