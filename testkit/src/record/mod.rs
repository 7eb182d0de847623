//! The record of one timeout, and the events that may follow.
//!
//! Times are nanoseconds of the engine's time as the checker sees it. A call into the engine is
//! announced before and settled afterwards, and never made with the record locked: so a run that
//! comes in between is held against the more lenient of what was and what will be, and the settling
//! looks at what ran meanwhile.
//!
//! A [`Fate`] is the part of this that fits into the bits of an atomic word.

mod fate;
mod fault;

pub use fate::Fate;
use fault::Event;
pub use fault::{Fault, History};

/// The kind of a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A timeout that runs once, at its deadline.
    Once,
    /// A periodic timeout whose next run is due a period after the one before was.
    Rate {
        /// In nanoseconds.
        period: u64,
    },
    /// A periodic timeout that says itself, or by its delay, when it runs next: counted from the
    /// end of a run.
    FromEnd,
}

/// How a timeout ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It ran. A periodic timeout has run for the last time.
    Fired,
    /// It was cancelled by its handle, a guard, or its own task.
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
pub enum Scope {
    /// The engine's, which has run it, or ends.
    Engine,
    /// A cancel's.
    Cancelling,
    /// The caller's of a shutdown, which handed it back.
    Returned,
    /// The caller's of a schedule that was refused.
    Refused,
}

/// One timeout.
#[derive(Debug, Clone)]
pub struct Record {
    /// 0 if the place is free.
    pub id: u64,
    kind: Kind,
    /// The next run may not come before this.
    floor: u64,
    /// A reset to this is under way, and whether a cancel had returned true when it began.
    resetting: Option<(u64, bool)>,
    /// Several threads have the handle. Which reset was last can't be known, so the floor only
    /// sinks.
    shared: bool,
    /// Of a periodic timeout: a reset has come since the last run began. The run that was under way
    /// just then may still come, if not before `prior`.
    grace: bool,
    prior: u64,
    /// The run that is under way used the grace up: the next is not before the reset's deadline,
    /// but nothing more is sure.
    stays: bool,
    /// A rate that was reset to the tick that it was due at goes on from its own point in that
    /// tick.
    slack: u64,
    /// Runs that have begun.
    pub runs: u64,
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
    /// Runs of a periodic timeout that had begun when it was cancelled, and have not shown up yet:
    /// one at most.
    excused: bool,
    /// A guard may have cancelled it while it ran, without telling.
    pub unsure: bool,
    dropped: bool,
    end: Option<End>,
    /// Handles, and calls that will make one.
    pub holders: u32,
    /// The operations on it.
    pub history: History,
}

/// The stage of an engine, for the drop of a closure.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stage {
    /// The engine was dropped without a shutdown.
    pub discarding: bool,
    /// A shutdown has been called.
    pub ending: bool,
    /// It has returned.
    pub over: bool,
    /// The executor is the user's own: a shutdown does not wait for the batches that it holds.
    pub holds_batches: bool,
}

impl Record {
    /// A free place.
    pub fn free() -> Self {
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
    pub fn open(id: u64, kind: Kind, floor: u64, now: u64) -> Self {
        let mut this = Self { id, kind, floor, holders: 1, ..Self::free() };
        this.history.add(Event::Scheduled, now, floor);
        this
    }

    /// Whether it runs once.
    pub fn is_once(&self) -> bool {
        self.kind == Kind::Once
    }

    /// Whether it is due just at the deadline that is known here.
    pub fn is_exact(&self) -> bool {
        self.kind == Kind::Once && !self.shared
    }

    /// Whether its closure was dropped.
    pub fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// The next run may not come before this.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// From here on several threads have its handle.
    pub fn share(&mut self) {
        self.shared = true;
    }

    /// The fate of a timeout that runs once.
    fn fate(&self) -> Fate {
        match () {
            () if self.runs > 0 => Fate::Ran,
            () if self.cancelled => Fate::Cancelled,
            () => Fate::Pending,
        }
    }

    /// A run begins. Returns how late it is. `whenever`: fired, or run by hand, after a shutdown.
    ///
    /// # Errors
    ///
    /// Returns what the engine did wrong, as do the others below.
    pub fn begin(&mut self, now: u64, whenever: bool) -> Result<u64, Fault> {
        self.history.add(Event::Run, now, self.floor);
        if self.dropped {
            return Err(Fault::AfterEnd);
        }
        if self.is_once() {
            self.fate().run()?;
        } else if self.in_body {
            return Err(Fault::Overlapping);
        } else if self.cancelled && !std::mem::take(&mut self.excused) {
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

    /// The run of a periodic timeout ends; `next` is what it has said itself.
    pub fn finish(&mut self, now: u64, next: Option<u64>) {
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

    /// A reset is about to be called.
    pub fn announce_reset(&mut self, floor: u64, now: u64) {
        self.history.add(Event::Reset, now, floor);
        self.put_off = true;
        if self.shared {
            self.floor = self.floor.min(floor);
        } else {
            self.resetting = Some((floor, self.cancelled));
        }
    }

    /// A reset has returned. `alone`: it was reset by a task on the only thread that runs any, so
    /// no other run can have begun that is not known here.
    pub fn settle_reset(&mut self, took: bool, now: u64, tick: u64, alone: bool) -> Result<(), Fault> {
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

    /// A cancel is about to be called.
    pub fn announce_cancel(&mut self, now: u64) {
        self.history.add(Event::Cancel, now, self.floor);
        self.cancelling += 1;
        self.cancelled_in = self.in_body.then_some(self.runs);
    }

    /// A cancel has returned. `alone`: as for a reset.
    pub fn settle_cancel(&mut self, took: bool, now: u64, alone: bool) -> Result<(), Fault> {
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
    pub fn drop_closure(&mut self, scope: Scope, stage: Stage, now: u64) -> Result<(), Fault> {
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
            // As `Timer::shutdown` says of what such an executor holds.
            (_, true) if stage.ending && stage.holds_batches && self.put_off => End::Returned,
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
    pub fn let_go(&mut self, now: u64) -> Option<End> {
        self.history.add(Event::HandleGone, now, self.floor);
        self.holders -= 1;
        self.closed()
    }

    /// How it ended, if nothing more can come of it: its closure is gone, and so are its handles.
    pub fn closed(&self) -> Option<End> {
        if self.holders == 0 { self.end } else { None }
    }
}

#[cfg(test)]
mod tests;
