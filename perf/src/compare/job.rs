//! A case with all that a run of it has to know.

use std::time::Duration;

use super::cases::{Case, Work};
use super::systems::system::Plan;

/// A case that is to be measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) case: &'static Case,
    pub(crate) producers: usize,
    /// The share of the full numbers. Anything below 1 is for trying things out.
    pub(crate) scale: f64,
    /// The share of the full times of lateness and idleness.
    pub(crate) pace: f64,
}

impl Job {
    pub(crate) fn plan(&self, capacity: Option<usize>) -> Plan {
        let tick_us = match self.case.work {
            Work::Lateness { tick_us } => tick_us,
            _ => 1_000,
        };
        let tick = Duration::from_micros(tick_us.into());
        Plan { capacity, producers: self.producers, tick }
    }

    pub(crate) fn timeouts(&self) -> usize {
        // The rings of W2 and W13 are small in full size.
        if matches!(self.case.work, Work::Ring | Work::Tail) {
            self.case.timeouts
        } else {
            self.scaled(self.case.timeouts)
        }
    }

    pub(crate) fn operations(&self) -> usize {
        self.scaled(self.case.operations)
    }

    pub(crate) fn beside(&self) -> usize {
        self.scaled(self.case.beside)
    }

    /// Returns the least delay and the most.
    pub(crate) fn delays(&self) -> [Duration; 2] {
        let delays = self.case.delays_s.map(Duration::from_secs);
        if matches!(self.case.work, Work::Lateness { .. }) { delays.map(|delay| self.time(delay)) } else { delays }
    }

    pub(crate) fn time(&self, full: Duration) -> Duration {
        full.mul_f64(self.pace)
    }

    /// So many, or fewer, but enough for the workload to make sense; zero stays zero.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, times something up to 1")]
    pub(crate) fn scaled(&self, full: usize) -> usize {
        ((full as f64 * self.scale) as usize).max(full.min(100))
    }

    /// Returns the numbers of this job as a program in another language takes them.
    pub(crate) fn as_arguments(&self) -> Vec<String> {
        let micros = self.delays().map(|delay| delay.as_micros().to_string());
        let numbers = [
            ("--case", self.case.id.to_owned()),
            ("--work", self.case.work.id().to_owned()),
            ("--producers", self.producers.to_string()),
            ("--timeouts", self.timeouts().to_string()),
            ("--operations", self.operations().to_string()),
            ("--beside", self.beside().to_string()),
            ("--least-us", micros[0].clone()),
            ("--most-us", micros[1].clone()),
            ("--pace", self.pace.to_string()),
        ];
        numbers.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}
