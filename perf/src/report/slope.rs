//! How much dearer an operation of two threads gets as the two cores get farther from each other.
//!
//! A line that both threads need goes from core to core. How long that takes is what the ping-pong
//! before each run has measured. So the slope of an operation's time over it says how many round
//! trips of a line stand on the operation's critical path. A slope of zero means that the distance
//! costs nothing, and not that nothing is shared.

use super::data::{Row, Run};
use crate::compare::statistics::{ENOUGH, Selection};

/// A straight line through the runs of one system in one case.
#[derive(Debug, PartialEq)]
pub(crate) struct Slope {
    /// Round trips of a line for each operation.
    pub(crate) slope: f64,
    /// Its standard error.
    pub(crate) error: f64,
    /// The time of an operation if a round trip took none.
    at_zero: f64,
    /// A round trip in ns, and the time of an operation in ns, for each run.
    pub(crate) runs: Vec<(f64, f64)>,
}

impl Slope {
    /// Fits a line through the runs of all files by least squares. Returns nothing unless there are
    /// near runs and far runs enough to tell a slope from noise.
    pub(crate) fn of(row: &Row, key: &str) -> Option<Self> {
        let runs = || row.runs.iter().chain(&row.earlier);
        let trips: Vec<_> = runs().map(|run| run.ping_pong_ns).collect();
        let is_there = |kind: Selection| kind.count(&trips) >= ENOUGH;
        if !is_there(Selection::Near) || !is_there(Selection::Far) {
            return None;
        }
        let run = |run: &Run| Some((run.ping_pong_ns?, *run.metrics.get(key)?));
        Self::through(runs().filter_map(run).collect())
    }

    fn through(runs: Vec<(f64, f64)>) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "a few runs")]
        let n = runs.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| runs.iter().map(of).sum::<f64>() / n;
        let (mean_x, mean_y) = (mean(|run| run.0), mean(|run| run.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| runs.iter().map(|&(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>();
        let spread = sum(&|x, _| x * x);
        if n < 3.0 || spread <= 0.0 {
            return None;
        }
        let slope = sum(&|x, y| x * y) / spread;
        let left = sum(&|x, y| (y - slope * x).powi(2));
        let error = (left / (n - 2.0) / spread).sqrt();
        Some(Self { slope, error, at_zero: mean_y - slope * mean_x, runs })
    }

    /// The time of an operation where a round trip takes this long.
    pub(crate) fn at(&self, round_trip: f64) -> f64 {
        self.at_zero + self.slope * round_trip
    }

    /// Its figure, without a sign if it is nothing.
    pub(crate) fn text(&self) -> String {
        let text = format!("{:.2}", self.slope);
        text.strip_prefix("-0.00").map_or(text.clone(), |_| "0.00".to_owned())
    }

    /// The least round trip of the runs, and the longest.
    pub(crate) fn range(&self) -> (f64, f64) {
        let trips = || self.runs.iter().map(|run| run.0);
        (trips().fold(f64::MAX, f64::min), trips().fold(f64::MIN, f64::max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_goes_to_and_fro_once_for_each_operation_is_a_slope_of_one() {
        let runs = [(40.0, 60.0), (45.0, 65.0), (340.0, 360.0), (350.0, 370.0)];
        let slope = Slope::through(runs.to_vec()).expect("enough runs");
        assert!((slope.slope - 1.0).abs() < 1e-9 && slope.error < 1e-9, "{slope:?}");
        assert!((slope.at(100.0) - 120.0).abs() < 1e-9);
        assert_eq!(slope.range(), (40.0, 350.0));
        let none = Slope::through(runs.iter().map(|&(x, _)| (x, 15.0)).collect()).expect("enough runs");
        assert!(none.slope.abs() < 1e-9);
        let text = |slope| Slope { slope, error: 0.0, at_zero: 0.0, runs: Vec::new() }.text();
        assert_eq!([-0.004, 0.0, -0.126, 2.159].map(text), ["0.00", "0.00", "-0.13", "2.16"]);
    }

    #[test]
    fn noise_is_in_the_error() {
        let runs = [(40.0, 50.0), (44.0, 70.0), (340.0, 330.0), (350.0, 400.0)];
        let slope = Slope::through(runs.to_vec()).expect("enough runs");
        // What is left over is 1,922.4 in two degrees of freedom.
        assert!((slope.slope - 1.0102).abs() < 0.0001, "{slope:?}");
        assert!((slope.error - 0.1023).abs() < 0.0001, "{slope:?}");
    }

    #[test]
    fn without_three_near_and_three_far_runs_there_is_no_slope() {
        let row = |trips: &[f64]| {
            let runs: Vec<_> = trips
                .iter()
                .map(|trip| serde_json::json!({"ping_pong_ns": trip, "metrics": {"ns": 2.0 * trip}}))
                .collect();
            let row = serde_json::json!({"system": "x", "selection": "all", "values": {}, "runs": runs});
            serde_json::from_value::<Row>(row).expect("a row")
        };
        assert!(Slope::of(&row(&[40.0, 41.0, 42.0, 340.0, 341.0]), "ns").is_none());
        let slope = Slope::of(&row(&[40.0, 41.0, 42.0, 340.0, 341.0, 342.0]), "ns").expect("enough runs");
        assert!((slope.slope - 2.0).abs() < 1e-9);
        let mut replaced = row(&[40.0, 41.0, 342.0]);
        replaced.earlier = row(&[42.0, 340.0, 341.0]).runs;
        assert_eq!(Slope::of(&replaced, "ns").map(|slope| slope.runs.len()), Some(6), "of all files");
    }
}
