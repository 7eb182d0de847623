//! The writer scans: what comes up soon goes from the store into the wheel.

use std::time::Duration;

use super::{CLOCK_CHECK, OVERDUE, Writer};
use crate::clock::Micros;
use crate::store::{Scan, Taken};

/// Rows of one scan. With more, the claims behind it would be late.
const CHUNK: u32 = 1_000;

impl Writer {
    /// Takes what comes up until the horizon, a part at a time.
    pub(super) fn scan(&mut self) -> bool {
        let (engine, now) = (self.engine(), self.wall());
        let wants_more =
            self.beyond_room.is_some_and(|due| self.parts.window.is_half_empty() || due.minus(OVERDUE) <= now);
        if engine < self.next_scan && !wants_more {
            return true;
        }
        let window = self.parts.limits.window;
        let room = self.parts.window.room();
        if room == 0 && !self.came_up.is_empty() && self.may_claim() == 0 {
            // What is taken now would wait here, in memory, while others may run it.
            self.beyond_room = None;
            self.next_scan = engine + CLOCK_CHECK;
            return true;
        }
        let comes_up = self.beyond_room.is_none_or(|due| due.minus(OVERDUE) <= now);
        if room == 0 && !comes_up {
            self.next_scan = engine + CLOCK_CHECK;
            return true;
        }
        // What comes up now is taken even if there is no room.
        let limit = u32::try_from(room.max(CHUNK as usize)).unwrap_or(u32::MAX).min(CHUNK);
        let scan = Scan {
            overdue_before: now.minus(OVERDUE),
            overdue_limit: self.overdue_allowed(now).min(limit),
            horizon: if room == 0 { now.plus(OVERDUE) } else { now.plus(window) },
            limit,
        };
        let asked = self.asked_for_lease();
        let taken = self.parts.store.scan(&self.parts.owner, &scan);
        let Some(mut taken) = self.answered(taken) else { return false };
        self.parts.counters.scans.add(1);
        self.parts.counters.taken.add(taken.len() as u64);
        if !taken.is_empty() {
            self.grant(asked);
        }
        self.parts.window.set_horizon(now.plus(window));
        taken.sort_unstable_by_key(|row| row.due);
        let overdue = taken.iter().filter(|row| row.due < scan.overdue_before).count();
        // Those of the dead, which have a limit of their own, are in either part.
        let more_soon = taken.len() >= limit as usize;
        let last = taken.last().map(|row| row.due);
        for Taken { key, due, generation, attempts, .. } in taken {
            let at = if due < scan.overdue_before { self.spread(now) } else { due };
            self.parts.window.hold(key, generation, attempts, at, now);
        }
        let more_overdue = overdue >= scan.overdue_limit as usize && self.overdue_allowed(now) > 0;
        self.beyond_room = None;
        self.next_scan = engine + window / 2;
        if room == 0 {
            // Again before the first that was not looked at comes up.
            self.beyond_room = Some(if more_soon { now } else { scan.horizon.plus(OVERDUE / 2) });
        } else if (more_soon || more_overdue) && self.parts.window.room() > 0 {
            self.next_scan = engine;
        } else if more_soon || more_overdue {
            self.beyond_room = Some(last.unwrap_or(now).max(now));
        }
        true
    }

    /// How many overdue timeouts may be taken: what their rate allows until the next scan.
    fn overdue_allowed(&self, now: Micros) -> u32 {
        let until = now.plus(self.parts.limits.window / 2);
        let time = until.since(self.next_overdue.max(now));
        // Rounded up: a low rate and a short window would else allow none, for ever.
        let allowed = (time.as_secs_f64() * f64::from(self.parts.limits.overdue_per_second)).ceil();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
        let allowed = allowed as u32;
        allowed
    }

    /// Returns when the next overdue timeout is to run.
    fn spread(&mut self, now: Micros) -> Micros {
        let at = self.next_overdue.max(now);
        self.next_overdue = at.plus(Duration::from_secs(1) / self.parts.limits.overdue_per_second);
        at
    }
}
