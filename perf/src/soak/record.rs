//! What is known of one timeout, and what of it may happen next.
//!
//! Times are nanoseconds of the engine's time as the checker sees it (see
//! [`Ledger::now`](super::ledger::Ledger::now)). A call into the engine is announced before and
//! settled afterwards, and never made with the record locked: so a run that comes in between is
//! held against the more lenient of what was and what will be, and the settling looks at what ran
//! meanwhile.

use super::fault::{Event, Fault, History};

/// What was scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Once,
    /// The same, at some time in a range.
    Range,
    /// A series whose next run is due a period after the one before was.
    Rate {
        period: u64,
    },
    /// A series that says itself, or by its delay, when it runs next: counted from the end of a
    /// run.
    FromEnd,
}

/// How a timeout ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It ran; a series has run for the last time.
    Fired,
    Cancelled,
    /// A shutdown handed it back.
    Returned,
    /// It was dropped with its engine, without a shutdown.
    Discarded,
    /// It was never accepted.
    Refused,
}

/// On whose behalf a closure is dropped on a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Engine,
    Cancelling,
    Returned,
    Refused,
}

/// One timeout.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// 0 if the place is free.
    pub(crate) id: u64,
    kind: Kind,
    /// The next run may not come before this.
    floor: u64,
    /// A reset to this is under way, and whether a cancel had returned true when it began.
    resetting: Option<(u64, bool)>,
    /// Several threads have the handle. Which reset was last can't be known, so the floor only
    /// sinks.
    shared: bool,
    /// Of a series: a reset has come since the last run began. The run that was under way just then
    /// may still come, if not before `prior`.
    grace: bool,
    prior: u64,
    /// The run that is under way used the grace up: the next is not before the reset's deadline,
    /// but nothing more is sure.
    stays: bool,
    /// A rate that was reset to the tick that it was due at goes on from its own point in that
    /// tick.
    slack: u64,
    pub(crate) runs: u64,
    /// It has been reset.
    put_off: bool,
    /// When its last run began, if that is to be checked.
    ran_at: Option<u64>,
    in_body: bool,
    cancelling: u32,
    /// In a run when the cancel that is under way began: which one.
    cancelled_in: Option<u64>,
    cancelled: bool,
    /// A cancel by its handle has returned true.
    took: bool,
    /// Runs of a series that had begun when it was cancelled, and have not shown up yet: one at
    /// most.
    excused: bool,
    /// A guard or a group may have cancelled it while it ran, without telling.
    pub(crate) unsure: bool,
    dropped: bool,
    end: Option<End>,
    /// Handles, and calls that will make one.
    pub(crate) holders: u32,
    pub(crate) history: History,
}

/// What a closure's drop has to know of its engine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stage {
    /// The engine was dropped without a shutdown.
    pub(crate) discarding: bool,
    /// A shutdown has been called.
    pub(crate) ending: bool,
    /// It has returned.
    pub(crate) over: bool,
}

impl Record {
    pub(crate) fn free() -> Self {
        Self {
            id: 0,
            kind: Kind::Once,
            floor: 0,
            resetting: None,
            shared: false,
            grace: false,
            prior: 0,
            stays: false,
            slack: 0,
            runs: 0,
            put_off: false,
            ran_at: None,
            in_body: false,
            cancelling: 0,
            cancelled_in: None,
            cancelled: false,
            took: false,
            excused: false,
            unsure: false,
            dropped: false,
            end: None,
            holders: 0,
            history: History::default(),
        }
    }

    /// It is about to be scheduled, not before `floor`.
    pub(crate) fn open(id: u64, kind: Kind, floor: u64, now: u64) -> Self {
        let mut this = Self { id, kind, floor, holders: 1, ..Self::free() };
        this.history.add(Event::Scheduled, now, floor);
        this
    }

    pub(crate) fn is_once(&self) -> bool {
        matches!(self.kind, Kind::Once | Kind::Range)
    }

    /// Whether it is due just at the deadline that is known here.
    pub(crate) fn is_exact(&self) -> bool {
        self.kind == Kind::Once && !self.shared
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// From here on several threads have its handle.
    pub(crate) fn share(&mut self) {
        self.shared = true;
    }

    /// A run begins. Returns how late it is. `whenever`: fired, or run by hand, after a shutdown.
    pub(crate) fn begin(&mut self, now: u64, whenever: bool) -> Result<u64, Fault> {
        self.history.add(Event::Run, now, self.floor);
        if self.dropped {
            return Err(Fault::AfterEnd);
        }
        let once = self.is_once();
        if once && self.runs > 0 {
            return Err(Fault::Twice);
        }
        if self.in_body {
            return Err(Fault::Overlapping);
        }
        if self.cancelled && !std::mem::take(&mut self.excused) {
            return Err(Fault::AfterCancel);
        }
        self.runs += 1;
        self.in_body = true;
        self.ran_at = (!whenever).then_some(now);
        let lenient = self.resetting.map_or(self.floor, |(floor, _)| floor.min(self.floor));
        self.stays = std::mem::take(&mut self.grace);
        let limit = if self.stays { lenient.min(self.prior) } else { lenient };
        if !whenever && now < limit {
            return Err(Fault::Early);
        }
        Ok(if whenever { 0 } else { now.saturating_sub(self.floor) })
    }

    /// The run of a series ends; `next` is what it has said itself.
    pub(crate) fn finish(&mut self, now: u64, next: Option<u64>) {
        self.in_body = false;
        if !self.stays && !self.grace {
            self.floor = match (self.kind, next) {
                (Kind::Rate { period }, _) => self.floor.saturating_sub(self.slack).saturating_add(period),
                (_, Some(next)) => next,
                (_, None) => self.floor,
            };
            self.slack = 0;
        }
        self.history.add(Event::RunEnded, now, self.floor);
    }

    pub(crate) fn announce_reset(&mut self, floor: u64, now: u64) {
        self.history.add(Event::Reset, now, floor);
        self.put_off = true;
        if self.shared {
            self.floor = self.floor.min(floor);
        } else {
            self.resetting = Some((floor, self.cancelled));
        }
    }

    /// `alone`: it was reset by a task on the only thread that runs any, so no other run can have
    /// begun that is not known here.
    pub(crate) fn settle_reset(&mut self, took: bool, now: u64, tick: u64, alone: bool) -> Result<(), Fault> {
        self.history.add(if took { Event::ResetTook } else { Event::ResetTooLate }, now, self.floor);
        let Some((floor, after_cancel)) = self.resetting.take() else { return Ok(()) };
        if took && after_cancel {
            return Err(Fault::ResetAfterCancel);
        }
        if self.is_once() {
            if took {
                self.floor = floor;
            }
            // A run while the outcome of the reset was not known.
            return match self.ran_at {
                Some(at) if at < self.floor => Err(if took { Fault::EarlyForReset } else { Fault::Early }),
                _ => Ok(()),
            };
        }
        if took {
            self.prior = if self.grace { self.prior.min(self.floor) } else { self.floor };
            self.grace = !alone;
            self.stays |= alone && self.in_body;
            self.slack = tick;
            self.floor = floor;
        }
        Ok(())
    }

    pub(crate) fn announce_cancel(&mut self, now: u64) {
        self.history.add(Event::Cancel, now, self.floor);
        self.cancelling += 1;
        self.cancelled_in = self.in_body.then_some(self.runs);
    }

    /// `alone`: as for a reset.
    pub(crate) fn settle_cancel(&mut self, took: bool, now: u64, alone: bool) -> Result<(), Fault> {
        self.history.add(if took { Event::CancelTook } else { Event::CancelTooLate }, now, self.floor);
        self.cancelling -= 1;
        if !took {
            if self.end == Some(End::Cancelled) && !self.cancelled && self.cancelling == 0 && self.runs > 0 {
                self.end = Some(End::Fired);
            }
            return Ok(());
        }
        if std::mem::replace(&mut self.took, true) {
            return Err(Fault::CancelledTwice);
        }
        if self.is_once() {
            // The drop of the closure, in this very call, has noted that it is cancelled.
            return match () {
                () if self.runs > 0 => Err(Fault::CancelledButRan),
                () if !self.dropped => Err(Fault::CancelledNotDropped),
                () if self.end != Some(End::Cancelled) => Err(Fault::CancelledTwice),
                () => Ok(()),
            };
        }
        self.cancelled = true;
        // The same run all the time: no other can have begun.
        self.excused = !(alone || self.in_body && self.cancelled_in == Some(self.runs));
        if self.dropped {
            self.end = Some(End::Cancelled);
        }
        Ok(())
    }

    /// Its closure is dropped.
    pub(crate) fn drop_closure(&mut self, scope: Scope, stage: Stage, now: u64) -> Result<(), Fault> {
        self.history.add(Event::Dropped, now, self.floor);
        if std::mem::replace(&mut self.dropped, true) {
            return Err(Fault::DroppedTwice);
        }
        let may_be_cancelled = self.cancelled || self.cancelling > 0;
        let end = match (scope, self.is_once()) {
            (Scope::Refused, _) => End::Refused,
            (Scope::Returned, _) => End::Returned,
            (_, true) if self.runs > 0 => End::Fired,
            (Scope::Cancelling, _) => End::Cancelled,
            (_, false) if may_be_cancelled || self.unsure && self.runs == 0 => End::Cancelled,
            (_, false) if self.runs > 0 => End::Fired,
            _ if stage.discarding => End::Discarded,
            // It waited in an executor, was put off by a reset, and came back when the shutdown had
            // its answer together: which is a little before we know that it has returned.
            (_, false) if stage.over || stage.ending && self.put_off => End::Returned,
            _ => {
                self.end = Some(End::Discarded);
                return Err(Fault::DroppedUnrun);
            }
        };
        self.end = Some(end);
        self.cancelled |= end == End::Cancelled && scope == Scope::Cancelling;
        Ok(())
    }

    /// A handle goes. Returns how the timeout ended if nothing more can come of it.
    pub(crate) fn let_go(&mut self, now: u64) -> Option<End> {
        self.history.add(Event::HandleGone, now, self.floor);
        self.holders -= 1;
        self.closed()
    }

    /// How it ended, if nothing more can come of it: its closure is gone, and so are its handles.
    pub(crate) fn closed(&self) -> Option<End> {
        if self.holders == 0 { self.end } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGE: Stage = Stage { discarding: false, ending: false, over: false };

    fn once(floor: u64) -> Record {
        Record::open(1, Kind::Once, floor, 0)
    }

    #[test]
    fn a_run_in_time_is_fired() {
        let mut record = once(10);
        assert_eq!(record.begin(12, false), Ok(2));
        assert_eq!(record.drop_closure(Scope::Engine, STAGE, 13), Ok(()));
        assert_eq!(record.let_go(14), Some(End::Fired));
    }

    #[test]
    fn an_early_run_is_found_and_a_shutdowns_is_none() {
        assert_eq!(once(10).begin(9, false), Err(Fault::Early));
        assert_eq!(once(10).begin(9, true), Ok(0));
    }

    #[test]
    fn a_second_run_is_found() {
        let mut record = once(10);
        assert!(record.begin(10, false).is_ok());
        assert_eq!(record.begin(11, false), Err(Fault::Twice));
    }

    #[test]
    fn a_run_after_cancel_is_found() {
        let mut record = once(10);
        record.announce_cancel(1);
        assert!(record.drop_closure(Scope::Cancelling, STAGE, 2).is_ok());
        assert!(record.settle_cancel(true, 3, false).is_ok());
        assert_eq!(record.begin(10, false), Err(Fault::AfterEnd));
        let mut ran_first = once(10);
        assert!(ran_first.begin(10, false).is_ok());
        ran_first.announce_cancel(11);
        assert_eq!(ran_first.settle_cancel(true, 12, false), Err(Fault::CancelledButRan));
        let mut kept = once(10);
        kept.announce_cancel(1);
        assert_eq!(kept.settle_cancel(true, 2, false), Err(Fault::CancelledNotDropped));
    }

    #[test]
    fn a_reset_holds_whether_the_run_comes_after_it_was_settled_or_before() {
        let mut after = once(10);
        after.announce_reset(20, 5);
        assert!(after.settle_reset(true, 6, 1, false).is_ok());
        assert_eq!(after.begin(15, false), Err(Fault::Early));
        let mut between = once(10);
        between.announce_reset(20, 5);
        assert!(between.begin(15, false).is_ok());
        assert_eq!(between.settle_reset(true, 16, 1, false), Err(Fault::EarlyForReset));
        let mut earlier = once(10);
        earlier.announce_reset(5, 4);
        assert!(earlier.begin(6, false).is_ok());
        assert!(earlier.settle_reset(true, 7, 1, false).is_ok());
        let mut too_late = once(10);
        too_late.announce_reset(5, 4);
        assert!(too_late.begin(6, false).is_ok());
        assert_eq!(too_late.settle_reset(false, 7, 1, false), Err(Fault::Early));
    }

    #[test]
    fn a_reset_after_a_cancel_is_found() {
        let mut record = once(10);
        record.announce_cancel(1);
        assert!(record.drop_closure(Scope::Cancelling, STAGE, 1).is_ok());
        assert!(record.settle_cancel(true, 2, false).is_ok());
        record.announce_reset(20, 3);
        assert_eq!(record.settle_reset(true, 4, 1, false), Err(Fault::ResetAfterCancel));
    }

    #[test]
    fn a_drop_that_nobody_asked_for_is_found_and_so_is_a_second() {
        let mut record = once(10);
        assert_eq!(record.drop_closure(Scope::Engine, STAGE, 1), Err(Fault::DroppedUnrun));
        assert_eq!(record.drop_closure(Scope::Engine, STAGE, 2), Err(Fault::DroppedTwice));
    }

    #[test]
    fn a_series_that_was_put_off_may_come_back_as_soon_as_a_shutdown_has_its_answer() {
        let ending = Stage { ending: true, ..STAGE };
        let rate = || Record::open(1, Kind::Rate { period: 10 }, 10, 0);
        let mut put_off = rate();
        put_off.announce_reset(20, 2);
        assert!(put_off.settle_reset(true, 3, 1, false).is_ok());
        assert_eq!(put_off.clone().drop_closure(Scope::Engine, STAGE, 4), Err(Fault::DroppedUnrun));
        assert_eq!(put_off.drop_closure(Scope::Engine, ending, 4), Ok(()));
        assert_eq!(rate().drop_closure(Scope::Engine, ending, 4), Err(Fault::DroppedUnrun));
    }

    #[test]
    fn a_rate_is_held_to_its_schedule_and_runs_do_not_overlap() {
        let mut record = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
        assert!(record.begin(11, false).is_ok());
        assert_eq!(record.clone().begin(20, false), Err(Fault::Overlapping));
        record.finish(12, None);
        assert_eq!(record.clone().begin(19, false), Err(Fault::Early));
        assert!(record.begin(20, false).is_ok());
    }

    #[test]
    fn after_a_cancel_one_run_of_a_series_may_come_that_had_begun() {
        let mut record = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
        record.announce_cancel(9);
        assert!(record.settle_cancel(true, 10, false).is_ok());
        assert!(record.begin(10, false).is_ok());
        record.finish(11, None);
        assert_eq!(record.begin(30, false), Err(Fault::AfterCancel));
        let mut within = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
        assert!(within.begin(10, false).is_ok());
        within.announce_cancel(11);
        assert!(within.settle_cancel(true, 12, false).is_ok());
        within.finish(13, None);
        assert_eq!(within.begin(30, false), Err(Fault::AfterCancel));
    }

    #[test]
    fn a_reset_of_a_series_holds_after_the_run_that_was_under_way() {
        let mut record = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
        record.announce_reset(100, 5);
        assert!(record.settle_reset(true, 6, 1, false).is_ok());
        assert_eq!(record.clone().begin(9, false), Err(Fault::Early));
        assert!(record.begin(10, false).is_ok());
        record.finish(11, None);
        assert_eq!(record.clone().begin(99, false), Err(Fault::Early));
        assert!(record.begin(100, false).is_ok());
        record.finish(101, None);
        assert_eq!(record.begin(108, false), Err(Fault::Early));
    }

    #[test]
    fn what_a_task_does_on_the_only_thread_that_runs_any_holds_for_the_next_run() {
        let mut reset = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
        reset.announce_reset(100, 12);
        assert!(reset.settle_reset(true, 13, 1, true).is_ok());
        assert_eq!(reset.clone().begin(14, false), Err(Fault::Early));
        assert!(reset.begin(100, false).is_ok());
        reset.announce_reset(103, 101);
        assert!(reset.settle_reset(true, 102, 1, true).is_ok());
        reset.finish(102, None);
        assert!(reset.begin(103, false).is_ok());
        let mut cancelled = Record::open(1, Kind::Rate { period: 10 }, 10, 0);
        cancelled.announce_cancel(12);
        assert!(cancelled.settle_cancel(true, 13, true).is_ok());
        assert_eq!(cancelled.begin(14, false), Err(Fault::AfterCancel));
    }
}
