//! Random delays with a fixed seed, the same for every system.

use std::time::Duration;

use fastrand::Rng;

/// A delay between the two, to the microsecond.
pub(super) fn delay(random: &mut Rng, from: Duration, to: Duration) -> Duration {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random.u64(micros(from)..micros(to)))
}

/// Each producer's own random numbers, the same in every run.
pub(super) fn random(producer: usize) -> Rng {
    Rng::with_seed(0x0a02_bd1f ^ producer as u64)
}

/// Delays of timeouts that must not expire while they are measured.
pub(super) const FAR: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(60)];
