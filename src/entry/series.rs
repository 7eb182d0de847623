//! Periodic timeouts: when the next run is due. This file does not know of entries and threads.

use std::time::Duration;

use crate::time::{Moment, Subtick, Timeline, saturating_ns};

/// The behaviour of a fixed-rate timeout when a run ends so late that the next one was already due.
///
/// The k-th run is due k periods after the first deadline, however long runs take, so the schedule
/// does not drift. This option decides what happens if a run took five periods, or if the machine
/// stood still.
///
/// The names are those of Tokio's `MissedTickBehavior`. Tokio runs the overdue tick first, and
/// applies the behaviour afterwards; here it applies to the overdue run too.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use std::time::Duration;
/// use tourbillon::{ManualClock, MissedTicks, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let second = Duration::from_secs(1);
/// let runs_in_a_jump = |missed| -> Result<usize, Box<dyn std::error::Error>> {
///     let runs = Arc::new(AtomicUsize::new(0));
///     let count = Arc::clone(&runs);
///     let task = move || _ = count.fetch_add(1, Ordering::Relaxed);
///     let periodic = timer.schedule_at_fixed_rate_with(second, second, missed, task)?;
///     clock.advance(10 * second); // the machine stood still for 10 s
///     periodic.cancel();
///     Ok(runs.load(Ordering::Relaxed))
/// };
/// assert_eq!(runs_in_a_jump(MissedTicks::Skip)?, 1);
/// assert_eq!(runs_in_a_jump(MissedTicks::Delay)?, 1);
/// assert_eq!(runs_in_a_jump(MissedTicks::Burst)?, 10);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedTicks {
    /// The late run stands for all missed runs. The next run is at the first point of the schedule
    /// that lies in the future.
    #[default]
    Skip,
    /// The missed runs are made up for: they run at once, one after the other, until the schedule
    /// is caught up with.
    Burst,
    /// The schedule moves: the next run is one period from now, and later runs count from there.
    Delay,
}

impl MissedTicks {
    /// Returns when a run is due that follows the one due at `due_ns` and ended at `now_ns`. The
    /// period is not zero.
    pub(crate) fn next_ns(self, period_ns: u64, due_ns: u64, now_ns: u64) -> u64 {
        let next = due_ns.saturating_add(period_ns);
        match self {
            _ if next > now_ns => next,
            Self::Burst => next,
            Self::Delay => now_ns.saturating_add(period_ns),
            Self::Skip => next.saturating_add(((now_ns - next) / period_ns + 1).saturating_mul(period_ns)),
        }
    }
}

/// Decides when the next run is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Schedule {
    FixedRate {
        period: Duration,
        missed: MissedTicks,
    },
    FixedDelay(Duration),
    /// The task says when.
    AsTaskSays,
}

impl Schedule {
    /// Returns whether runs would follow each other without end.
    pub(crate) fn is_without_pause(self) -> bool {
        matches!(self, Self::FixedRate { period: Duration::ZERO, .. } | Self::FixedDelay(Duration::ZERO))
    }

    /// Returns when a run is due that follows the one due at `due_ns` and ended at `now_ns`, by
    /// the engine's time. `said` is the delay that the task has asked for, if it says when.
    fn next_ns(self, said: Duration, due_ns: u64, now_ns: u64) -> u64 {
        match self {
            Self::FixedRate { period, missed } => missed.next_ns(saturating_ns(period), due_ns, now_ns),
            Self::FixedDelay(delay) => now_ns.saturating_add(saturating_ns(delay)),
            // Not at once: a task that asks for that without end would starve all others.
            Self::AsTaskSays => now_ns.saturating_add(saturating_ns(said).max(1)),
        }
    }
}

/// When a periodic timeout is due again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextDue {
    pub(crate) deadline: Subtick,
    /// Whether that has come already, as in a burst.
    pub(crate) is_overdue: bool,
}

/// A closure that can be called again, with its schedule.
pub(crate) struct Series<F> {
    schedule: Schedule,
    /// When the next run is due: exactly by the schedule, and the deadline that it was armed with.
    /// If it expires with another, it was reset.
    due: Moment,
    pub(crate) task: F,
    /// Runs the task. Returns `None` if that was the last run. Otherwise it returns the delay that
    /// the task asks for, which counts only if the task says when.
    pub(super) run_task: fn(&mut F) -> Option<Duration>,
}

impl<F> Series<F> {
    pub(crate) fn new(schedule: Schedule, first: Moment, task: F, run_task: fn(&mut F) -> Option<Duration>) -> Self {
        Self { schedule, due: first, task, run_task }
    }

    /// Runs the run that expired at `deadline`. Returns when the next one is due, or `None` if that
    /// was the last.
    pub(super) fn run(&mut self, deadline: Subtick, timeline: &Timeline) -> Option<NextDue> {
        let scale = timeline.scale();
        if deadline != self.due.deadline {
            // The timeout was reset: the schedule goes on from there.
            self.due = Moment { ns: scale.ns_of(deadline), deadline };
        }
        let said = (self.run_task)(&mut self.task)?;
        // The task is not to blame for a clock that panics.
        let now_ns = timeline.try_now_ns().unwrap_or_else(|| scale.ns_of(deadline));
        let next_ns = self.schedule.next_ns(said, self.due.ns, now_ns);
        let deadline = scale.subtick_not_before(next_ns);
        // A task that asks for that without end runs once a tick.
        let is_at_once = said.is_zero() && matches!(self.schedule, Schedule::AsTaskSays);
        let deadline = if is_at_once { scale.end_of_tick(deadline) } else { deadline };
        self.due = Moment { ns: next_ns, deadline };
        Some(NextDue { deadline, is_overdue: deadline <= scale.subtick_at(now_ns) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn next(missed: MissedTicks, period_ns: u64, due_ns: u64, now_ns: u64) -> u64 {
        let period = Duration::from_nanos(period_ns);
        Schedule::FixedRate { period, missed }.next_ns(Duration::ZERO, due_ns, now_ns)
    }

    proptest! {
        #[test]
        fn a_rate_stays_on_its_schedule_and_skip_is_the_first_point_to_come(
            period in 1_u64..1_000, due in 0_u64..10_000, late in 0_u64..10_000,
        ) {
            let now = due + late;
            let points = || (1..).map(|k| due + k * period);
            prop_assert_eq!(next(MissedTicks::Burst, period, due, now), due + period);
            let skip = points().find(|&at| at > now);
            prop_assert_eq!(Some(next(MissedTicks::Skip, period, due, now)), skip);
            let delay = if due + period > now { due + period } else { now + period };
            prop_assert_eq!(next(MissedTicks::Delay, period, due, now), delay);
        }

        #[test]
        fn no_schedule_overflows(
            period in prop_oneof![1_u64..10, Just(u64::MAX), Just(u64::MAX / 2)],
            due in prop_oneof![0_u64..10, Just(u64::MAX - 1)], now in prop_oneof![0_u64..10, Just(u64::MAX - 1)],
        ) {
            for missed in [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay] {
                prop_assert!(next(missed, period, due, now) >= period.min(due));
            }
        }
    }

    #[test]
    fn a_run_late_by_a_whole_period_has_reached_the_next_point() {
        assert_eq!(next(MissedTicks::Skip, 10, 0, 10), 20);
        assert_eq!(next(MissedTicks::Delay, 10, 0, 10), 20);
        assert_eq!(next(MissedTicks::Burst, 10, 0, 10), 10);
    }

    #[test]
    fn an_answer_counts_from_the_end_of_the_run_and_is_never_at_once() {
        let after = |delay| Schedule::AsTaskSays.next_ns(delay, 5, 100);
        assert_eq!(after(Duration::from_nanos(7)), 107);
        assert_eq!(after(Duration::ZERO), 101);
        assert_eq!(after(Duration::MAX), 100 + saturating_ns(Duration::MAX));
    }

    #[test]
    fn a_fixed_delay_counts_from_the_end_of_the_run() {
        assert_eq!(Schedule::FixedDelay(Duration::from_nanos(10)).next_ns(Duration::ZERO, 5, 100), 110);
    }
}
