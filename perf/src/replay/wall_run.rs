//! The replay on the real clock, sped up, with real workers.
//!
//! Every deadline is planned: the request's time in the log plus the keep-alive, divided by the
//! speed. So the noise of this machine decides only two things: how late a request is made, and how
//! late a task runs. A request that comes close to a deadline may find it on the wrong side for
//! either reason, and this file tells which.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use tourbillon::{Timeout, Timer};

use super::trace::{Counts, Trace};
use crate::duration;

/// After the last deadline, how long a task may take to run before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// Real time left for the last connection to expire before a gap is skipped.
const BEFORE_A_SKIP: Duration = Duration::from_millis(20);

/// What came of it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) counts: Counts,
    /// For each request, whether it opened a connection.
    pub(super) opens: Vec<bool>,
    /// Timeouts that were gone although request and deadline say that they should not be.
    pub(super) gone_early: u64,
    pub(super) seen: Seen,
    pub(super) took: Duration,
    /// Log time that was skipped because no connection was open.
    pub(super) skipped: Duration,
}

/// What the tasks see.
#[derive(Debug)]
struct Tasks {
    begin: Instant,
    /// By opened connection, not by client: a late task must not meet its successor's deadline.
    deadlines: Vec<AtomicU64>,
    seen: Mutex<Seen>,
}

/// What the tasks saw.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    expired: u64,
    /// Tasks that ran before their deadline.
    pub(super) early: u64,
    pub(super) lateness: Histogram<u64>,
}

/// When each request is made after the begin, in real time, and the log time left out before it.
pub(super) fn plan(trace: &Trace, keep_alive: Duration, speed: f64) -> (Vec<Duration>, Duration) {
    let longest = keep_alive + BEFORE_A_SKIP.mul_f64(speed);
    let (mut at, mut before, mut skipped) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut plan = Vec::with_capacity(trace.requests.len());
    for request in &trace.requests {
        let mut gap = request.at - before;
        before = request.at;
        if gap > longest {
            skipped += gap - longest;
            gap = longest;
        }
        at += gap;
        plan.push(at.div_f64(speed));
    }
    (plan, skipped)
}

/// Replays a trace with workers on the real clock.
pub(super) fn run(trace: &Trace, keep_alive: Duration, speed: f64) -> Result<Outcome> {
    let (plan, skipped) = plan(trace, keep_alive, speed);
    let real_keep_alive = keep_alive.div_f64(speed);
    // A tenth of a second of the log, as finer steps tell nothing the log knows.
    let tick = Duration::from_millis(100).div_f64(speed).clamp(Duration::from_micros(50), Duration::from_millis(1));
    let timer = Timer::builder()
        .tick_duration(tick)
        .capacity(trace.clients as usize)
        .build()
        .context("the engine refused its options")?;
    let lateness = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).context("the histogram refused its bounds")?;
    let nothing = Seen { expired: 0, early: 0, lateness };
    let tasks = Arc::new(Tasks {
        // A little later, so that the first request is made in time.
        begin: Instant::now() + Duration::from_millis(20),
        deadlines: trace.requests.iter().map(|_| AtomicU64::new(0)).collect(),
        seen: Mutex::new(nothing.clone()),
    });
    let mut outcome = Outcome {
        counts: Counts::default(),
        opens: Vec::with_capacity(plan.len()),
        gone_early: 0,
        seen: nothing,
        took: Duration::ZERO,
        skipped,
    };
    let mut open: Vec<Option<Connection>> = Vec::new();
    open.resize_with(trace.clients as usize, || None);
    for (request, &at) in trace.requests.iter().zip(&plan) {
        thread::sleep((tasks.begin + at).saturating_duration_since(Instant::now()));
        let deadline = at + real_keep_alive;
        let place = &mut open[request.client as usize];
        let reset =
            place.as_mut().is_some_and(|connection| connection.reset(&tasks, deadline, &mut outcome.gone_early));
        if !reset {
            *place = Some(Connection::open(&timer, &tasks, outcome.counts.opened, deadline)?);
            outcome.counts.opened += 1;
        } else {
            outcome.counts.reset += 1;
        }
        outcome.counts.requests += 1;
        outcome.opens.push(!reset);
    }
    drop(open);
    run_out(&timer, plan.last().copied().unwrap_or_default() + real_keep_alive, &tasks)?;
    outcome.took = Instant::now().saturating_duration_since(tasks.begin);
    close(&timer, &tasks, &mut outcome)?;
    Ok(outcome)
}

/// A client's connection, and its deadline after the begin.
#[derive(Debug)]
struct Connection {
    handle: Timeout,
    number: usize,
    deadline: Duration,
}

impl Connection {
    fn open(timer: &Timer, tasks: &Arc<Tasks>, number: u64, deadline: Duration) -> Result<Self> {
        let number = usize::try_from(number).context("more connections than memory")?;
        tasks.deadlines[number].store(duration::nanos(deadline), Ordering::Relaxed);
        let seen = Arc::clone(tasks);
        let handle = timer
            .schedule_at(tasks.begin + deadline, move || seen.expire(number))
            .map_err(|_| anyhow!("the engine refused a timeout"))?;
        Ok(Self { handle, number, deadline })
    }

    /// Pushes the deadline out, if it has not expired; counts it if it is gone before its time.
    fn reset(&mut self, tasks: &Tasks, deadline: Duration, gone_early: &mut u64) -> bool {
        if self.handle.reset_at(tasks.begin + deadline) {
            tasks.deadlines[self.number].store(duration::nanos(deadline), Ordering::Relaxed);
            self.deadline = deadline;
            return true;
        }
        *gone_early += u64::from(Instant::now() < tasks.begin + self.deadline);
        false
    }
}

impl Tasks {
    fn expire(&self, number: usize) {
        let ran = Instant::now();
        let nanos = self.deadlines[number].load(Ordering::Relaxed);
        let deadline = self.begin + Duration::from_nanos(nanos);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.expired += 1;
        match ran.checked_duration_since(deadline) {
            Some(late) => seen.lateness.saturating_record(duration::nanos(late)),
            None => seen.early += 1,
        }
    }
}

/// Waits until all have expired.
fn run_out(timer: &Timer, last_deadline: Duration, tasks: &Tasks) -> Result<()> {
    let limit = tasks.begin + last_deadline + PATIENCE;
    while timer.pending() > 0 {
        ensure!(
            Instant::now() < limit,
            "{} timeouts are still pending {} after the last deadline",
            timer.pending(),
            duration::show(PATIENCE)
        );
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Shuts the engine down, which waits for the last tasks, and compares what it counted.
fn close(timer: &Timer, tasks: &Tasks, outcome: &mut Outcome) -> Result<()> {
    let unfired = timer.shutdown().context("the engine would not shut down")?.len();
    outcome.seen = tasks.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    outcome.counts.expired = outcome.seen.expired;
    ensure!(unfired == 0, "shutdown handed back {unfired} timeouts, and none were pending");
    outcome.counts.check(&timer.stats())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP_ALIVE: Duration = Duration::from_secs(15);

    #[test]
    fn gaps_with_nothing_open_are_skipped() {
        let trace = Trace::new(vec![(0, 0), (10, 0), (3610, 0)]);
        let speed = 1_000.0;
        let (at, skipped) = plan(&trace, KEEP_ALIVE, speed);
        let millis: Vec<_> = at.iter().map(Duration::as_millis).collect();
        assert_eq!(millis, [0, 10, 45]);
        assert_eq!(skipped, Duration::from_secs(3565));
    }

    #[test]
    fn far_from_its_deadlines_the_real_clock_agrees() {
        let trace = Trace::new((0..30).map(|n| (n * 100, 0)).chain([(2_950, 0)]).collect());
        let speed = 10_000.0;
        // 6,000 s are 600 ms here, and the gaps are 10 ms: even a busy machine keeps them apart.
        let outcome = run(&trace, Duration::from_secs(6_000), speed).expect("a run");
        assert_eq!(outcome.counts, Counts { requests: 31, opened: 1, reset: 30, expired: 1 });
        assert_eq!((outcome.seen.early, outcome.gone_early), (0, 0));
    }
}
