//! The replay on an engine: exact and as fast as the machine on a clock that is stepped by hand, or
//! on the real clock, sped up, with workers.
//!
//! Every deadline is planned: the request's time in the log plus the keep-alive, divided by the
//! speed. So on the real clock the noise of this machine decides only how late a request is made
//! and how late a task runs. Near a deadline either may put a request on the wrong side.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use tourbillon::{Driver, ManualClock, Timeout, Timer};

use super::trace::{Counts, Trace};
use crate::duration::nanos;

/// Turns in a row that do nothing although the engine says there is something to do: more than any
/// engine needs to carry a timeout down all its levels.
const IDLE_TURNS_AT_MOST: u32 = 100_000;
/// After the last deadline, how long a task may take to run before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// Real time left for the last connection to expire before a gap is skipped.
const BEFORE_A_SKIP: Duration = Duration::from_millis(20);

/// The outcome of a replay.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) counts: Counts,
    /// Connections that expired, or were gone, before their deadline.
    pub(super) early: u64,
    pub(super) lateness: Histogram<u64>,
    pub(super) took: Duration,
}

/// Who turns the engine.
#[derive(Debug)]
enum Turned {
    ByHand(Driver, ManualClock),
    ByWorkers,
}

/// The state that the tasks of the connections share.
#[derive(Debug)]
struct Connections {
    clock: Option<ManualClock>,
    begin: Instant,
    /// After the begin, in nanoseconds. By opened connection, not by client: a late task must not
    /// meet its successor's deadline.
    deadlines: Vec<AtomicU64>,
    early: AtomicU64,
    lateness: Mutex<Histogram<u64>>,
    expired: AtomicU64,
}

/// When each request is made after the begin.
///
/// On the real clock time in which no connection is open is left out.
pub(super) fn plan(trace: &Trace, keep_alive: Duration, speed: Option<f64>) -> Vec<Duration> {
    let Some(speed) = speed else { return trace.requests.iter().map(|request| request.at).collect() };
    let longest = keep_alive + BEFORE_A_SKIP.mul_f64(speed);
    let (mut at, mut before) = (Duration::ZERO, Duration::ZERO);
    let mut step = |request: Duration| {
        at += (request - before).min(longest);
        before = request;
        at.div_f64(speed)
    };
    trace.requests.iter().map(|request| step(request.at)).collect()
}

/// Replays a trace; with a speed, on the real clock.
pub(super) fn run(trace: &Trace, keep_alive: Duration, speed: Option<f64>) -> Result<Outcome> {
    let plan = plan(trace, keep_alive, speed);
    let keep_alive = speed.map_or(keep_alive, |speed| keep_alive.div_f64(speed));
    let (timer, mut turned) = start(trace.clients, speed).context("the engine refused its options")?;
    let clock = match &turned {
        Turned::ByHand(_, clock) => Some(clock.clone()),
        Turned::ByWorkers => None,
    };
    // A little later, so that the first request is made in time.
    let begin = timer.now() + Duration::from_millis(20);
    let connections = Arc::new(Connections {
        clock,
        begin,
        deadlines: trace.requests.iter().map(|_| AtomicU64::new(0)).collect(),
        early: AtomicU64::new(0),
        lateness: Mutex::new(Histogram::new(3)?),
        expired: AtomicU64::new(0),
    });
    let mut open: Vec<Option<(Timeout, usize)>> = Vec::new();
    open.resize_with(trace.clients as usize, || None);
    let mut counts = Counts::default();
    for (request, &at) in trace.requests.iter().zip(&plan) {
        // First the clock, then the request: one that comes at its deadline finds it expired.
        turned.reach(begin + at)?;
        let deadline = begin + at + keep_alive;
        let place = &mut open[request.client as usize];
        match place {
            Some((timeout, number)) if timeout.reset_at(deadline) => {
                connections.set_deadline(*number, deadline);
                counts.reset += 1;
            }
            gone => {
                if let Some((_, number)) = gone
                    && connections.lateness_of(*number).is_none()
                {
                    connections.early.fetch_add(1, Ordering::Relaxed);
                }
                let (number, tasks) = (usize::try_from(counts.opened)?, Arc::clone(&connections));
                tasks.set_deadline(number, deadline);
                let timeout = timer.schedule_at(deadline, move || tasks.expire(number));
                *gone = Some((timeout.map_err(|_| anyhow!("the engine refused a timeout"))?, number));
                counts.opened += 1;
            }
        }
        counts.requests += 1;
    }
    let last = begin + plan.last().copied().unwrap_or_default() + keep_alive;
    turned.run_out(&timer, last)?;
    let took = timer.now().saturating_duration_since(begin);
    // Waits for the last tasks.
    let unfired = timer.shutdown().context("the engine would not shut down")?.len();
    ensure!(unfired == 0, "shutdown handed back {unfired} timeouts, and none were pending");
    counts.expired = connections.expired.load(Ordering::Relaxed);
    counts.check(&timer.stats())?;
    let early = connections.early.load(Ordering::Relaxed);
    let lateness = connections.lateness.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Outcome { counts, early, lateness, took })
}

fn start(clients: u32, speed: Option<f64>) -> Result<(Timer, Turned)> {
    let Some(speed) = speed else {
        let clock = ManualClock::new();
        let (timer, driver) = Timer::builder().clock(clock.clone()).build_driven()?;
        return Ok((timer, Turned::ByHand(driver, clock)));
    };
    // A tenth of a second of the log, as finer steps tell nothing the log knows.
    let tick = Duration::from_millis(100).div_f64(speed).clamp(Duration::from_micros(50), Duration::from_millis(1));
    let timer = Timer::builder().tick_duration(tick).capacity(clients as usize).build()?;
    Ok((timer, Turned::ByWorkers))
}

impl Connections {
    fn set_deadline(&self, number: usize, deadline: Instant) {
        self.deadlines[number].store(nanos(deadline - self.begin), Ordering::Relaxed);
    }

    /// Returns how late it is for a connection to expire, or `None` if it would be early.
    fn lateness_of(&self, number: usize) -> Option<Duration> {
        let now = self.clock.as_ref().map_or_else(Instant::now, ManualClock::now);
        let deadline = Duration::from_nanos(self.deadlines[number].load(Ordering::Relaxed));
        now.checked_duration_since(self.begin + deadline)
    }

    fn expire(&self, number: usize) {
        match self.lateness_of(number) {
            Some(late) => {
                let mut lateness = self.lateness.lock().unwrap_or_else(PoisonError::into_inner);
                // It grows as far as it has to.
                let _ = lateness.record(nanos(late));
            }
            None => _ = self.early.fetch_add(1, Ordering::Relaxed),
        }
        self.expired.fetch_add(1, Ordering::Relaxed);
    }
}

impl Turned {
    /// Lets the time come, and the timeouts that are due by then expire. By hand none is left that
    /// is due.
    fn reach(&mut self, time: Instant) -> Result<()> {
        let Self::ByHand(driver, clock) = self else {
            thread::sleep(time.saturating_duration_since(Instant::now()));
            return Ok(());
        };
        clock.advance(time.saturating_duration_since(clock.now()));
        let mut idle_turns = 0;
        loop {
            let expired = driver.turn();
            if driver.next_wakeup().is_none_or(|next| next > clock.now()) {
                return Ok(());
            }
            // A turn has a budget, so one may not be enough.
            idle_turns = if expired == 0 { idle_turns + 1 } else { 0 };
            ensure!(
                idle_turns < IDLE_TURNS_AT_MOST,
                "the engine says that something is due, but {IDLE_TURNS_AT_MOST} turns expired nothing"
            );
        }
    }

    /// Lets all expire, by hand from one wake-up to the next.
    fn run_out(&mut self, timer: &Timer, last_deadline: Instant) -> Result<()> {
        while timer.pending() > 0 {
            let next = match self {
                Self::ByHand(driver, _) => driver.next_wakeup().context("the engine knows no next wake-up")?,
                Self::ByWorkers => Instant::now() + Duration::from_millis(1),
            };
            self.reach(next)?;
            let pending = timer.pending();
            ensure!(
                pending == 0 || timer.now() < last_deadline + PATIENCE,
                "{pending} timeouts are still pending {} s after the last deadline",
                PATIENCE.as_secs()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::exact;
    use super::*;
    use proptest::prelude::*;

    fn agree(seconds: Vec<(i64, u32)>, keep_alive: Duration) {
        let trace = Trace::new(seconds);
        let counted = exact(&trace, keep_alive);
        let outcome = run(&trace, keep_alive, None).expect("a run");
        assert_eq!((outcome.counts, outcome.early), (counted, 0), "keep-alive {keep_alive:?}");
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

    #[test]
    fn gaps_with_nothing_open_are_skipped() {
        let trace = Trace::new(vec![(0, 0), (10, 0), (3610, 0)]);
        let at = plan(&trace, Duration::from_secs(15), Some(1_000.0));
        assert_eq!(at.iter().map(Duration::as_millis).collect::<Vec<_>>(), [0, 10, 45]);
    }

    #[test]
    fn far_from_its_deadlines_the_real_clock_agrees() {
        let trace = Trace::new((0..30).map(|n| (n * 100, 0)).chain([(2_950, 0)]).collect());
        // 6,000 s are 600 ms here, and the gaps are 10 ms: even a busy machine keeps them apart.
        let outcome = run(&trace, Duration::from_secs(6_000), Some(10_000.0)).expect("a run");
        assert_eq!(outcome.counts, Counts { requests: 31, opened: 1, reset: 30, expired: 1 });
        assert_eq!(outcome.early, 0);
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
