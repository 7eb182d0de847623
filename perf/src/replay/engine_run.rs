//! The replay on a clock stepped by hand: exact, and as fast as the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tourbillon::{Driver, ManualClock, Timeout, Timer};

use super::trace::{Counts, Trace};
use crate::duration;

/// Turns in a row that do nothing although the engine says there is something to do: more than any
/// engine needs to carry a timeout down all its levels.
const IDLE_TURNS_AT_MOST: u32 = 100_000;

/// What the tasks see.
#[derive(Debug)]
struct Connections {
    clock: ManualClock,
    begin: Instant,
    /// When each client's connection expires, in nanoseconds after the begin.
    deadlines: Vec<AtomicU64>,
    expired: AtomicU64,
    early: AtomicU64,
}

/// Replays a trace with a driven engine.
pub(super) fn run(trace: &Trace, keep_alive: Duration) -> Result<Counts> {
    let clock = ManualClock::new();
    let begin = clock.now();
    let (timer, mut driver) =
        Timer::builder().clock(clock.clone()).build_driven().context("the engine refused its options")?;
    let connections = Arc::new(Connections {
        clock: clock.clone(),
        begin,
        deadlines: (0..trace.clients).map(|_| AtomicU64::new(0)).collect(),
        expired: AtomicU64::new(0),
        early: AtomicU64::new(0),
    });
    let mut handles: Vec<Option<Timeout>> = Vec::new();
    handles.resize_with(trace.clients as usize, || None);
    let mut counts = Counts::default();

    for request in &trace.requests {
        clock.advance((begin + request.at).saturating_duration_since(clock.now()));
        // First the clock, then the request: one that comes at its deadline finds it expired.
        turn_until_quiet(&mut driver, &clock)?;
        counts.requests += 1;
        let place = request.client as usize;
        if handles[place].as_ref().is_some_and(|handle| handle.reset(keep_alive)) {
            counts.reset += 1;
        } else {
            let seen = Arc::clone(&connections);
            let timeout = timer
                .schedule(keep_alive, move || seen.expire(place))
                .map_err(|_| anyhow!("the engine refused a timeout"))?;
            handles[place] = Some(timeout);
            counts.opened += 1;
        }
        let deadline = duration::nanos(request.at.saturating_add(keep_alive));
        connections.deadlines[place].store(deadline, Ordering::Relaxed);
    }
    run_out(&timer, &mut driver, &clock)?;

    counts.expired = connections.expired.load(Ordering::Relaxed);
    let early = connections.early.load(Ordering::Relaxed);
    ensure!(early == 0, "the engine expired {early} connections before their deadline");
    counts.check(&timer.stats())?;
    Ok(counts)
}

impl Connections {
    fn expire(&self, place: usize) {
        let deadline = Duration::from_nanos(self.deadlines[place].load(Ordering::Relaxed));
        let early = self.clock.now() < self.begin + deadline;
        self.early.fetch_add(u64::from(early), Ordering::Relaxed);
        self.expired.fetch_add(1, Ordering::Relaxed);
    }
}

/// Turns until nothing is left that is due now. A turn has a budget, so one may not be enough.
fn turn_until_quiet(driver: &mut Driver, clock: &ManualClock) -> Result<()> {
    let mut idle_turns = 0;
    loop {
        let expired = driver.turn();
        if driver.next_wakeup().is_none_or(|next| next > clock.now()) {
            return Ok(());
        }
        idle_turns = if expired == 0 { idle_turns + 1 } else { 0 };
        ensure!(
            idle_turns < IDLE_TURNS_AT_MOST,
            "the engine says that something is due, but {IDLE_TURNS_AT_MOST} turns expired nothing"
        );
    }
}

/// Lets the clock run on, from one wake-up to the next, until all have expired.
fn run_out(timer: &Timer, driver: &mut Driver, clock: &ManualClock) -> Result<()> {
    turn_until_quiet(driver, clock)?;
    while timer.pending() > 0 {
        let Some(next) = driver.next_wakeup() else {
            bail!("{} timeouts are pending, but the engine knows no next wake-up", timer.pending());
        };
        clock.advance(next.saturating_duration_since(clock.now()));
        turn_until_quiet(driver, clock)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::trace::{exact, opens};
    use super::*;
    use proptest::prelude::*;

    fn agree(seconds: Vec<(i64, u32)>, keep_alive: Duration) {
        let trace = Trace::new(seconds);
        let counted = exact(&opens(&trace, keep_alive));
        assert_eq!(run(&trace, keep_alive).expect("a run"), counted, "keep-alive {keep_alive:?}");
    }

    #[test]
    fn ties_at_the_deadline_are_too_late() {
        let every_fifteen = (0..100).map(|n| (n * 15, 0)).collect();
        agree(every_fifteen, Duration::from_secs(15));
    }

    #[test]
    fn months_pass_between_two_requests() {
        agree(vec![(0, 0), (8_000_000, 0), (8_000_014, 0)], Duration::from_secs(15));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Gaps of the trace around the keep-alive, so that ties and near misses are common.
        #[test]
        fn agrees_with_the_count_by_sorting(
            millis in prop_oneof![0u64..5, 0u64..20_000, Just(15_000), 0u64..10_000_000],
            steps in prop::collection::vec((0i64..20, 0u32..8, prop::bool::weighted(0.01)), 0..300),
        ) {
            let mut now = 1_431_857_103;
            let mut seconds = Vec::new();
            for (gap, client, long) in steps {
                now += if long { gap * 100_000 } else { gap };
                seconds.push((now, client));
            }
            agree(seconds, Duration::from_millis(millis));
        }
    }
}
