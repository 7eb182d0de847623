//! The counts of callers and tasks, against an engine's own.

use std::fmt;
use std::ops::AddAssign;

use tourbillon::{ShardStats, Stats};

/// How many timeouts had which outcome. A program, a model or an engine has counted them. Each
/// field is as in [`Stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is explained in Stats")]
pub struct Counts {
    pub scheduled: u64,
    pub fired: u64,
    pub repeated: u64,
    pub cancelled: u64,
    pub returned: u64,
    pub rejected: u64,
    pub panicked: u64,
    pub reset: u64,
    pub pending: u64,
}

impl Counts {
    /// Returns what an engine has counted.
    pub fn of(stats: &Stats) -> Self {
        Self {
            scheduled: stats.scheduled,
            fired: stats.fired,
            repeated: stats.repeated,
            cancelled: stats.cancelled,
            returned: stats.returned,
            rejected: stats.rejected,
            panicked: stats.panicked,
            reset: stats.reset,
            pending: stats.pending as u64,
        }
    }

    /// Returns what one shard has counted. Panics are counted for the whole engine only.
    pub fn of_shard(shard: &ShardStats) -> Self {
        Self {
            scheduled: shard.scheduled,
            fired: shard.fired,
            repeated: shard.repeated,
            cancelled: shard.cancelled,
            returned: shard.returned,
            rejected: shard.rejected,
            panicked: 0,
            reset: shard.reset,
            pending: shard.pending as u64,
        }
    }

    /// Returns the sum of all outcomes, and of what is pending.
    pub fn parts(&self) -> u64 {
        self.fired + self.cancelled + self.returned + self.pending
    }

    /// Compares the accepted timeouts with their outcomes: each has had exactly one, or is still
    /// pending. A run of a periodic timeout that was not its last is a run more.
    pub fn whole(&self) -> Comparison {
        Comparison {
            what: "scheduled + repeated, and its parts",
            here: self.scheduled + self.repeated,
            there: self.parts(),
        }
    }

    /// Compares each of these counts with the engine's.
    pub fn against(&self, engine: &Self) -> [Comparison; 9] {
        let compare = |what, count: fn(&Self) -> u64| Comparison { what, here: count(self), there: count(engine) };
        [
            compare("scheduled", |counts| counts.scheduled),
            compare("rejected", |counts| counts.rejected),
            compare("reset", |counts| counts.reset),
            compare("fired", |counts| counts.fired),
            compare("repeated", |counts| counts.repeated),
            compare("cancelled", |counts| counts.cancelled),
            compare("returned", |counts| counts.returned),
            compare("panicked", |counts| counts.panicked),
            compare("pending", |counts| counts.pending),
        ]
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.fired += other.fired;
        self.repeated += other.repeated;
        self.cancelled += other.cancelled;
        self.returned += other.returned;
        self.rejected += other.rejected;
        self.panicked += other.panicked;
        self.reset += other.reset;
        self.pending += other.pending;
    }
}

/// A count here, beside the count that it must be equal to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The name of the count.
    pub what: &'static str,
    /// This program's count, or the whole.
    pub here: u64,
    /// The engine's count, or the sum of the parts.
    pub there: u64,
}

impl Comparison {
    /// Returns true if the two are equal.
    pub fn holds(&self) -> bool {
        self.here == self.there
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} here, {} there", self.what, self.here, self.there)
    }
}

/// Checks the counters of an engine at rest against each other: in each shard, and in all together,
/// every accepted timeout has had exactly one outcome, or is still pending; and the engine's
/// counters are the sums of its shards'.
///
/// # Errors
///
/// Returns the first comparison that does not hold, and where.
pub fn reconcile(stats: &Stats) -> Result<(), String> {
    let total = Counts::of(stats);
    let mut sum = Counts { panicked: total.panicked, ..Counts::default() };
    for (index, shard) in stats.shards.iter().enumerate() {
        let shard = Counts::of_shard(shard);
        check(shard.whole(), || format!("shard {index}"))?;
        sum += shard;
    }
    for comparison in sum.against(&total) {
        check(comparison, || "the sum of the shards, and the engine".to_owned())?;
    }
    check(total.whole(), || "the engine".to_owned())?;
    // A thread may just be ending its batch.
    if stats.completed > stats.fired {
        return Err(format!("the engine: {} completed, of {} that fired", stats.completed, stats.fired));
    }
    Ok(())
}

fn check(comparison: Comparison, place: impl FnOnce() -> String) -> Result<(), String> {
    if comparison.holds() { Ok(()) } else { Err(format!("{}: {comparison}", place())) }
}

/// Checks the counters of an engine at rest against each other, as [`reconcile`] does.
///
/// # Panics
///
/// Panics if they do not reconcile.
#[track_caller]
pub fn assert_counters_reconcile(stats: &Stats) {
    if let Err(what) = reconcile(stats) {
        panic!("the counters do not reconcile: {what}: {stats:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MS;
    use tourbillon::{ManualClock, Timer};

    /// The counters of an engine of two shards: of four timeouts one has fired, one was cancelled,
    /// and two are pending, one of them reset.
    fn stats() -> Stats {
        let clock = ManualClock::new();
        let builder = Timer::builder().clock(clock.clone()).shards(2);
        let (timer, mut driver) = builder.build_driven().expect("the options make sense");
        timer.schedule_detached(MS, || ()).expect("accepted");
        assert!(timer.schedule(MS, || ()).expect("accepted").cancel());
        timer.schedule_detached(9 * MS, || ()).expect("accepted");
        assert!(timer.schedule(MS, || ()).expect("accepted").reset(9 * MS));
        clock.advance(2 * MS);
        while driver.turn() > 0 {}
        timer.stats()
    }

    #[test]
    fn counters_of_an_engine_reconcile() {
        let stats = stats();
        let counts = Counts { scheduled: 4, fired: 1, cancelled: 1, pending: 2, reset: 1, ..Counts::default() };
        assert_eq!(Counts::of(&stats), counts);
        assert_eq!((reconcile(&stats), counts.parts()), (Ok(()), 4));
        assert!(counts.against(&Counts::of(&stats)).iter().all(Comparison::holds));
        assert_counters_reconcile(&stats);
    }

    #[test]
    fn a_timeout_that_has_no_outcome_is_found_and_so_is_one_that_has_two() {
        for (fired, what) in [(0, "4 here, 3 there"), (2, "4 here, 5 there")] {
            let mut wrong = stats();
            wrong.shards.clear();
            wrong.fired = fired;
            let found = Counts::of(&wrong).whole();
            assert!(!found.holds() && found.to_string().ends_with(what), "{found}");
            assert!(reconcile(&wrong).is_err());
        }
    }

    #[test]
    fn a_shard_that_is_wrong_is_named_though_another_makes_up_for_it() {
        let mut wrong = stats();
        wrong.shards[0].cancelled += 1;
        wrong.shards[1].pending += 7;
        wrong.shards[1].scheduled += 6;
        assert!(reconcile(&wrong).is_err_and(|what| what.starts_with("shard 0: scheduled + repeated")));
    }

    #[test]
    fn a_total_that_is_not_the_sum_of_its_shards_is_found() {
        let mut wrong = stats();
        wrong.scheduled += 1;
        wrong.fired += 1;
        assert!(Counts::of(&wrong).whole().holds());
        assert!(reconcile(&wrong).is_err_and(|what| what.contains("scheduled: 4 here, 5 there")));
    }

    #[test]
    fn each_count_that_differs_is_named() {
        let ours = Counts { scheduled: 1, rejected: 2, reset: 3, fired: 4, repeated: 5, ..Counts::default() };
        let ours = Counts { cancelled: 6, returned: 7, panicked: 8, pending: 9, ..ours };
        let found = ours.against(&Counts::default());
        assert_eq!(found.map(|comparison| comparison.here), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(!found.iter().any(Comparison::holds));
        assert_eq!(found[0].to_string(), "scheduled: 1 here, 0 there");
    }
}
