//! The counters: what the callers did and what the tasks saw, counted here, against what the engine
//! counts itself.

use std::ops::AddAssign;

use serde::Serialize;
use testkit::counters::{Counts, reconcile};
use tourbillon::Stats;

use super::kind::{KINDS, Kind};
use super::recorder::Ledger;
use crate::number::grouped;

/// What callers did with the timeouts of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Account {
    /// Accepted by the engine.
    pub(crate) scheduled: u64,
    /// Refused by it.
    pub(crate) refused: u64,
    /// `cancel` returned true.
    pub(crate) cancelled: u64,
    /// `cancel` returned false: it had fired, or was firing.
    pub(crate) cancelled_too_late: u64,
    /// `reset` returned true.
    pub(crate) reset: u64,
    /// `reset` returned false.
    pub(crate) reset_too_late: u64,
}

impl Account {
    /// Counts the answer of a `cancel`.
    pub(crate) fn cancel(&mut self, in_time: bool) {
        *(if in_time { &mut self.cancelled } else { &mut self.cancelled_too_late }) += 1;
    }

    /// Counts the answer of a `reset`.
    pub(crate) fn reset(&mut self, in_time: bool) {
        *(if in_time { &mut self.reset } else { &mut self.reset_too_late }) += 1;
    }
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.refused += other.refused;
        self.cancelled += other.cancelled;
        self.cancelled_too_late += other.cancelled_too_late;
        self.reset += other.reset;
        self.reset_too_late += other.reset_too_late;
    }
}

/// An account for each kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Accounts([Account; KINDS]);

impl Accounts {
    pub(crate) fn of(&mut self, kind: Kind) -> &mut Account {
        &mut self.0[kind as usize]
    }

    pub(crate) fn total(&self) -> Account {
        let mut sum = Account::default();
        for account in self.0 {
            sum += account;
        }
        sum
    }

    /// Timeouts of connections that were neither cancelled nor have run: their handles are gone, so
    /// all that can be said of them is this difference.
    fn open_on_sockets(&self, tasks: &Ledger) -> i128 {
        let open = |(account, fired): (&Account, &u64)| {
            i128::from(account.scheduled) - i128::from(account.cancelled) - i128::from(*fired)
        };
        self.0.iter().zip(&tasks.fired).skip(Kind::Population as usize + 1).map(open).sum()
    }
}

impl AddAssign for Accounts {
    fn add_assign(&mut self, other: Self) {
        for (sum, account) in self.0.iter_mut().zip(other.0) {
            *sum += account;
        }
    }
}

/// All that is known when the engine has been shut down.
#[derive(Debug)]
pub(crate) struct Closing {
    /// What the callers counted.
    pub(crate) accounts: Accounts,
    /// What the tasks wrote down, read again after the shutdown.
    pub(crate) tasks: Ledger,
    /// Timeouts without sockets that this program holds for pending.
    pub(crate) armed: u64,
    /// Timeouts for which `cancel` returned true although their task had run.
    pub(crate) cancelled_but_ran: u64,
    /// Tasks that ran after shutdown had returned.
    pub(crate) after_shutdown: u64,
    /// What shutdown handed back.
    pub(crate) handed_back: u64,
    /// The engine's own counts just before shutdown.
    pub(crate) before: Stats,
    /// And after it.
    pub(crate) after: Stats,
}

/// One comparison of a count here with the engine's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    pub(crate) what: &'static str,
    pub(crate) program: String,
    pub(crate) engine: String,
    pub(crate) holds: bool,
}

impl Closing {
    /// Reconciles the counters. Every line must hold.
    pub(crate) fn reconcile(&self) -> Vec<Line> {
        let total = self.accounts.total();
        let fired = self.tasks.fired_in_all();
        let open = i128::from(self.armed) + self.accounts.open_on_sockets(&self.tasks);
        let pending = u64::try_from(open).unwrap_or(0);
        let ours = Counts {
            scheduled: total.scheduled,
            fired,
            cancelled: total.cancelled,
            rejected: total.refused,
            reset: total.reset,
            pending,
            ..Counts::default()
        };
        let (live, theirs) = (Counts::of(&self.before), Counts::of(&self.after));
        vec![
            equal("scheduled", ours.scheduled, theirs.scheduled),
            equal("fired", ours.fired, theirs.fired),
            equal("cancelled", ours.cancelled, theirs.cancelled),
            equal("still pending, handed back by shutdown", ours.pending, self.handed_back),
            equal("  and counted by the engine as returned", ours.pending, theirs.returned),
            Line {
                what: "scheduled = fired + cancelled + still pending",
                program: sum(&ours),
                engine: sum(&theirs),
                holds: is_whole(&ours) && is_whole(&theirs) && reconcile(&self.after).is_ok(),
            },
            Line {
                what: "  the same just before shutdown",
                program: String::new(),
                engine: sum(&live),
                holds: is_whole(&live) && live.returned == 0,
            },
            equal("reset", ours.reset, theirs.reset),
            equal("refused (must be 0)", ours.rejected, theirs.rejected).and(ours.rejected == 0),
            zero("pending after shutdown").engine(theirs.pending),
            zero("panicked").engine(theirs.panicked),
            zero("early").program(self.tasks.early),
            zero("run twice").program(self.tasks.twice),
            zero("run after cancel").program(self.tasks.after_cancel + self.cancelled_but_ran),
            zero("run after shutdown").program(self.after_shutdown),
        ]
    }
}

fn equal(what: &'static str, program: u64, engine: u64) -> Line {
    Line { what, program: grouped(program), engine: grouped(engine), holds: program == engine }
}

/// Every timeout that was scheduled is in one of the parts. None is periodic.
fn is_whole(counts: &Counts) -> bool {
    counts.parts() == counts.scheduled
}

/// The sum of the parts, and the whole too if they differ.
fn sum(counts: &Counts) -> String {
    match is_whole(counts) {
        true => grouped(counts.parts()),
        false => format!("{} of {}", grouped(counts.parts()), grouped(counts.scheduled)),
    }
}

fn zero(what: &'static str) -> Line {
    Line { what, program: String::new(), engine: String::new(), holds: true }
}

impl Line {
    fn and(mut self, condition: bool) -> Self {
        self.holds &= condition;
        self
    }

    fn program(mut self, count: u64) -> Self {
        self.program = grouped(count);
        self.and(count == 0)
    }

    fn engine(mut self, count: u64) -> Self {
        self.engine = grouped(count);
        self.and(count == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::Recorder;
    use super::*;
    use std::time::{Duration, Instant};
    use tourbillon::{ManualClock, Timer};

    /// The counts of a small engine: one timeout fired, one cancelled, one left, one reset.
    fn closing() -> Closing {
        let clock = ManualClock::new();
        let (timer, mut driver) = Timer::builder().clock(clock.clone()).build_driven().expect("the defaults");
        let recorder = Recorder::new();
        let delay = Duration::from_secs(1);
        let mut accounts = Accounts::default();
        let fires = timer.schedule(delay, || ()).expect("room");
        let left = timer.schedule(delay * 9, || ()).expect("room");
        let cancelled = timer.schedule(delay, || ()).expect("room");
        accounts.of(Kind::Idle).scheduled = 1;
        accounts.of(Kind::Population).scheduled = 2;
        accounts.of(Kind::Idle).reset(fires.reset(delay * 2));
        accounts.of(Kind::Population).cancel(cancelled.cancel());
        clock.advance(delay * 3);
        while driver.turn() > 0 {}
        recorder.fired(Kind::Idle, Instant::now(), Instant::now());
        assert!(left.is_pending());
        let before = timer.stats();
        let handed_back = timer.shutdown().expect("the first").len() as u64;
        Closing {
            accounts,
            tasks: recorder.sum(),
            armed: 1,
            cancelled_but_ran: 0,
            after_shutdown: 0,
            handed_back,
            before,
            after: timer.stats(),
        }
    }

    #[test]
    fn right_counters_reconcile() {
        for line in closing().reconcile() {
            assert!(line.holds, "{line}");
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        let mut closing = closing();
        closing.armed = 0;
        closing.accounts.of(Kind::Population).cancelled += 1;
        closing.tasks.early = 3;
        let wrong: Vec<_> = closing.reconcile().into_iter().filter(|l| !l.holds).map(|l| l.what).collect();
        assert_eq!(
            wrong,
            ["cancelled", "still pending, handed back by shutdown", "  and counted by the engine as returned", "early",]
        );
    }
}
