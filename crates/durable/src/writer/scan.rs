//! The writer scans: it takes timeouts that come up soon from the store into the wheel.

use std::time::{Duration, Instant};

use super::{Activity, CLOCK_CHECK, OVERDUE, Writer};
use crate::clock::Micros;
use crate::events::Event;
use crate::inbox::Armed;
use crate::store::{Owner, Scan, Scanned, Taken};

/// After a lost connection, it looks this often for rows that were written late.
const LOOK: Duration = Duration::from_secs(5);
/// Rows of one scan. With more, the claims behind it would be late.
pub(super) const CHUNK: u32 = 1_000;

/// The outcome of a scan that has taken rows.
pub(super) struct Took {
    /// How many of them come from a time when no process was there.
    pub(super) overdue: usize,
    pub(super) soon: usize,
    /// The last deadline.
    last: Option<Micros>,
    /// Whether the scan has stopped before it had looked at all.
    more: bool,
}

impl Writer {
    /// Takes what comes up until the horizon, a part at a time.
    pub(super) fn scan(&mut self) {
        let (engine, now) = (self.engine(), self.wall());
        if !self.may(Activity::Scan) || !self.wants_scan(engine, now) {
            return;
        }
        if self.parts.store.may_still_write() {
            self.keep_looking();
        }
        if self.look_until.is_some_and(|until| until <= engine) {
            self.look_until = None;
        }
        if self.look_until.is_some() && self.next_look <= engine {
            self.next_look = engine + LOOK;
            if !self.look() {
                return;
            }
        }
        let (owner, all) = self.with_room();
        let room = self.parts.window.room();
        let comes_up = self.beyond_room.is_none_or(|due| due.minus(OVERDUE) <= now);
        if owner.handlers.is_empty() || (room == 0 && !comes_up) {
            // Rows that are taken now would wait here, in memory, while others may run them.
            self.beyond_room = self.beyond_room.filter(|_| !owner.handlers.is_empty());
            self.next_scan = engine + if all { self.parts.limits.window / 2 } else { CLOCK_CHECK };
            return;
        }
        // Rows that come up now are taken even if there is no room.
        let limit = u32::try_from(room.max(CHUNK as usize)).unwrap_or(u32::MAX).min(CHUNK);
        let next = now.plus(self.parts.limits.window / 2);
        let scan = Scan {
            overdue_before: now.minus(OVERDUE),
            overdue_limit: self.pace.allowed(now, next).min(limit),
            horizon: now.plus(if room == 0 { OVERDUE } else { self.parts.limits.window }),
            limit,
            peek: false,
        };
        let Some(Took { overdue, soon, last, more }) = self.take_by(&owner, &scan) else { return };
        self.parts.window.set_horizon(now.plus(self.parts.limits.window));
        let more_overdue = overdue >= scan.overdue_limit as usize;
        let more_soon = soon >= limit as usize || more;
        let more = more_soon || (more_overdue && self.pace.allowed(now, next) > 0);
        self.beyond_room = None;
        self.next_scan = engine + if all { self.parts.limits.window / 2 } else { CLOCK_CHECK };
        if room == 0 {
            // Again before the first that was not looked at comes up.
            self.beyond_room = Some(if more_soon { now } else { scan.horizon.plus(OVERDUE / 2) });
        } else if more && self.parts.window.room() > 0 {
            self.next_scan = engine;
        } else if more {
            self.beyond_room = Some(last.unwrap_or(now).max(now));
        }
    }

    /// Takes rows into the wheel. Returns `None` if the store has failed.
    pub(super) fn take_by(&mut self, owner: &Owner, scan: &Scan) -> Option<Took> {
        let (asked, now) = (self.asked_for_lease(), self.wall());
        let scanned = self.parts.store.scan(owner, scan);
        let Scanned { mut taken, unreadable, more } = self.answered(Activity::Scan, scanned)?;
        unreadable.iter().for_each(|reason| self.set_aside("a row of a scan", reason));
        self.parts.counters.scans.add(1);
        self.parts.counters.taken.add(taken.len() as u64);
        if !taken.is_empty() {
            self.grant(asked);
        }
        taken.sort_unstable_by_key(|row| row.due);
        let count = taken.iter().filter(|row| row.suspect).count();
        if count > 0 {
            self.parts.events.tell(Event::LeftBehind { count });
        }
        let (all, last) = (taken.len(), taken.last().map(|row| row.due));
        let overdue = taken.iter().filter(|row| row.due < now.minus(OVERDUE)).count();
        for row in taken {
            let at = if row.due < now.minus(OVERDUE) { self.pace.take(now) } else { row.due };
            self.take(row, at, now);
        }
        Some(Took { overdue, soon: all - overdue, last, more })
    }

    /// Looks for rows that are written late: for a lease, and at least once. It looks when it
    /// scans, which it does twice in a window.
    pub(super) fn keep_looking(&mut self) {
        let time = self.parts.owner.lease.max(2 * LOOK).max(self.parts.limits.window);
        self.look_until = Some(self.engine() + time);
    }

    fn wants_scan(&self, engine: Instant, now: Micros) -> bool {
        let half_empty = self.parts.window.is_half_empty();
        engine >= self.next_scan || self.beyond_room.is_some_and(|due| half_empty || due.minus(OVERDUE) <= now)
    }

    /// The handlers of which more may wait here, and whether those are all.
    pub(super) fn with_room(&self) -> (Owner, bool) {
        let Owner { id, lease, handlers } = &self.parts.owner;
        let with_room: Vec<String> = handlers.iter().filter(|handler| !self.lanes.is_full(handler)).cloned().collect();
        let all = with_room.len() == handlers.len();
        (Owner { id: *id, lease: *lease, handlers: with_room }, all)
    }

    fn take(&mut self, row: Taken, at: Micros, now: Micros) {
        let Taken { key, generation, attempts, handler, bytes, suspect, .. } = row;
        let Some(handler) = self.parts.handlers.name(&handler) else { return };
        self.parts.window.hold(Armed { key, generation, handler, bytes, suspect }, attempts, at, now);
    }
}
