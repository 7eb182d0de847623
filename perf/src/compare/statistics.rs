//! Medians, and which runs may be compared with which.
//!
//! The way of a cache line between two cores is short or long for a minute or so at a time, as the
//! host moves the guest, and whatever two threads share costs twice as much when it is long. So
//! every run carries the reading taken just before it, and near runs are compared with near ones.

use serde::{Deserialize, Serialize};

/// Below this a round trip of a cache line is near: the machines seen so far have some 45 ns or
/// some 350.
pub(crate) const NEAR_NS: f64 = 100.0;

/// So many runs of a kind are needed for a median of that kind alone.
pub(crate) const ENOUGH: usize = 3;

/// Median, least and most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { median, min, max })
    }

    /// The median, the least and the most, with so many decimals.
    pub(crate) fn texts(self, decimals: usize) -> [String; 3] {
        [self.median, self.min, self.max].map(|value| format!("{value:.decimals$}"))
    }
}

/// Which runs a median is taken of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Selection {
    Near,
    Far,
    #[default]
    All,
}

impl Selection {
    /// For a row by itself: the near runs if there are enough.
    pub(crate) fn for_one(round_trips: &[Option<f64>]) -> Self {
        if Self::Near.count(round_trips) >= ENOUGH { Self::Near } else { Self::All }
    }

    /// For a ratio: a kind of which both have enough, near before far; or all of both.
    pub(crate) fn for_two(one: &[Option<f64>], other: &[Option<f64>]) -> Self {
        let both = |kind: &Self| kind.count(one) >= ENOUGH && kind.count(other) >= ENOUGH;
        [Self::Near, Self::Far].into_iter().find(both).unwrap_or(Self::All)
    }

    /// Whether a run with this reading belongs to it. Without a reading (one core) only `All` has
    /// it.
    pub(crate) fn has(self, round_trip: Option<f64>) -> bool {
        match self {
            Self::Near => round_trip.is_some_and(|ns| ns < NEAR_NS),
            Self::Far => round_trip.is_some_and(|ns| ns >= NEAR_NS),
            Self::All => true,
        }
    }

    pub(crate) fn count(self, round_trips: &[Option<f64>]) -> usize {
        round_trips.iter().filter(|&&round_trip| self.has(round_trip)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Option<f64> = Some(45.0);
    const FAR: Option<f64> = Some(350.0);

    #[test]
    fn medians() {
        let median = |values: &[f64]| Spread::of(values.iter().copied()).map(|s| s.median);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(Spread::of([4.0, 1.0, 2.5].into_iter()), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    }

    #[test]
    fn a_row_is_near_only_with_enough_near_runs() {
        assert_eq!(Selection::for_one(&[NEAR, FAR, NEAR, NEAR, FAR]), Selection::Near);
        assert_eq!(Selection::for_one(&[NEAR, FAR, NEAR, FAR, FAR]), Selection::All);
        assert_eq!(Selection::for_one(&[None, None, None]), Selection::All);
    }

    #[test]
    fn like_is_compared_with_like() {
        let (mostly_near, mostly_far) = ([NEAR, NEAR, NEAR, FAR, FAR], [FAR, FAR, FAR, NEAR, NEAR]);
        assert_eq!(Selection::for_two(&mostly_near, &mostly_near), Selection::Near);
        assert_eq!(Selection::for_two(&mostly_far, &mostly_far), Selection::Far);
        assert_eq!(Selection::for_two(&mostly_near, &mostly_far), Selection::All);
        let both = [NEAR, NEAR, NEAR, FAR, FAR, FAR];
        assert_eq!(Selection::for_two(&mostly_far, &both), Selection::Far);
        assert_eq!(Selection::for_two(&both, &both), Selection::Near);
    }
}
