//! An engine on which very many timeouts are cancelled, beside the others: its memory is bounded
//! all the while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use fastrand::Rng;
use tourbillon::{Inline, Timer};

use super::tally::{Op, Tally};
use super::violations::Violations;
use crate::garbage::Churn;

/// A round, and the rest after it, in which the other engines have the processors.
const ROUND: Duration = Duration::from_millis(400);
const REST: Duration = Duration::from_millis(1_600);

/// One engine after the other until it is over, a few rounds each.
pub(crate) fn run(seed: u64, tally: &Tally, violations: &Violations, is_over: &AtomicBool) -> Result<()> {
    let mut rng = Rng::with_seed(seed);
    while !is_over.load(Ordering::Relaxed) {
        let churn = Churn { producers: rng.usize(1..4), live: rng.usize(1_000..40_000), resets: rng.bool() };
        let limit = *rng.choice(&[10, 100, 100_000]).unwrap_or(&100_000);
        let timer = Timer::builder().executor(Inline).expiry_limit(limit).build()?;
        for _ in 0..5 {
            let round_is_over = AtomicBool::new(false);
            let outcome = churn.run(&timer, &round_is_over, || {
                let end = Instant::now() + ROUND;
                while Instant::now() < end && !is_over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(10));
                    let capacity = timer.stats().capacity;
                    if capacity > churn.bound() {
                        violations.add(&format!("memory for {capacity} timeouts, {churn:?}, limit {limit}"));
                    }
                }
                round_is_over.store(true, Ordering::Relaxed);
            });
            if outcome.lost > 0 || timer.pending() > 0 {
                violations.add(&format!("{} cancels of {churn:?} were too late", outcome.lost));
            }
            tally.did_many(Op::Churned, outcome.steps);
            timer.shrink();
            let end = Instant::now() + REST;
            while Instant::now() < end && !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
        }
        match timer.shutdown() {
            Ok(unfired) if unfired.is_empty() => {}
            other => violations.add(&format!("a shutdown of what is all cancelled: {other:?}")),
        }
    }
    Ok(())
}
