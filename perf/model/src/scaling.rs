//! Throughput by the number of cores, as the model has it: only for a model that is believed.

use anyhow::{Context, Result};
use serde::Serialize;

use super::lines::MOST_CORES;
use super::measured::{Distance, Measured};
use super::operation::{Operation, Timers};
use super::predict::Calibration;
use super::record::record;

/// Of Tourbillon, by the number of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shards {
    One,
    OneForFourCores,
    OneForTwoCores,
}

impl Shards {
    fn of(self, cores: usize) -> usize {
        match self {
            Self::One => 1,
            Self::OneForFourCores => (cores / 4).max(1),
            Self::OneForTwoCores => (cores / 2).max(1),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::One => "1 shard",
            Self::OneForFourCores => "1 for 4 cores",
            Self::OneForTwoCores => "1 for 2 cores",
        }
    }
}

/// A system, and whose measurement says what an instruction of it takes.
const SYSTEMS: [(Timers, Timers, Option<Shards>); 6] = [
    (Timers::Tourbillon, Timers::Tourbillon, Some(Shards::One)),
    (Timers::Tourbillon, Timers::Tourbillon, Some(Shards::OneForFourCores)),
    (Timers::Tourbillon, Timers::Tourbillon, Some(Shards::OneForTwoCores)),
    (Timers::Tokio, Timers::Tokio, None),
    (Timers::Heap, Timers::Heap, None),
    (Timers::LockedDelayQueue, Timers::DelayQueue, None),
];

/// Throughput of an operation by the number of cores. Modelled.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Curve {
    pub(crate) operation: Operation,
    pub(crate) timers: Timers,
    pub(crate) shards: Option<Shards>,
    pub(crate) distance: Distance,
    /// Cores, and millions of operations a second.
    pub(crate) modelled_mops: Vec<(usize, f64)>,
}

/// The numbers of cores that are modelled: 1, 2, 4 and so on.
pub(crate) fn cores() -> impl Iterator<Item = usize> {
    (0..).map(|doubled| 1 << doubled).take_while(|&cores| cores <= MOST_CORES)
}

/// Models all systems. Each number of cores is recorded anew, with as many threads.
pub(crate) fn curves(measured: &Measured, migrates: bool) -> Result<Vec<Curve>> {
    let mut curves = Vec::new();
    for operation in Operation::ALL {
        for (timers, calibrated_by, shards) in SYSTEMS {
            curves.extend(curves_of(operation, timers, calibrated_by, shards, measured, migrates)?);
        }
    }
    Ok(curves)
}

/// One for each distance.
fn curves_of(
    operation: Operation,
    timers: Timers,
    calibrated_by: Timers,
    shards: Option<Shards>,
    measured: &Measured,
    migrates: bool,
) -> Result<Vec<Curve>> {
    let alone = record(calibrated_by, operation, 1, None)?;
    let mut curves = Vec::new();
    for distance in Distance::ALL {
        let Some(round_trip_ns) = measured.round_trip(distance) else { continue };
        let figure = measured.alone(calibrated_by, operation, distance).context("one producer was not measured")?;
        let calibration = Calibration::new(&alone, &figure)?;
        let curve = Curve { operation, timers, shards, distance, modelled_mops: Vec::new() };
        curves.push((curve, calibration, round_trip_ns));
    }
    for cores in cores() {
        let shards = shards.map(|shards| shards.of(cores));
        let recording = record(timers, operation, cores, shards)?;
        for (curve, calibration, round_trip_ns) in &mut curves {
            let ns = calibration.model(&recording, *round_trip_ns, migrates)?.ns;
            curve.modelled_mops.push((cores, mops(cores, ns, shards, calibration.others_ns)));
        }
    }
    Ok(curves.into_iter().map(|(curve, ..)| curve).collect())
}

/// Of all cores together; no more than the workers can take.
fn mops(cores: usize, ns: f64, shards: Option<usize>, worker_ns: f64) -> f64 {
    let workers = shards.map_or(f64::INFINITY, |shards| shards as f64 * 1e3 / worker_ns);
    (cores as f64 * 1e3 / ns).min(workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_double() {
        assert_eq!(cores().collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 128]);
    }

    #[test]
    fn workers_bound_the_throughput() {
        assert_eq!(mops(10, 50.0, None, 10.0), 200.0);
        assert_eq!(mops(10, 50.0, Some(1), 10.0), 100.0);
        assert_eq!(mops(10, 50.0, Some(4), 10.0), 200.0);
        assert_eq!(mops(10, 50.0, Some(1), 0.0), 200.0);
    }

    #[test]
    fn there_is_a_shard_however_few_the_cores() {
        let of = |cores: usize| [Shards::One, Shards::OneForFourCores, Shards::OneForTwoCores].map(|s| s.of(cores));
        assert_eq!((of(1), of(2), of(128)), ([1, 1, 1], [1, 1, 1], [1, 32, 64]));
    }
}
