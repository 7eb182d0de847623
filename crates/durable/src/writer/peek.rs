//! The writer peeks: it takes timeouts into the wheel that others have committed since the last
//! scan and that come up before the next one. The others are transactions of the user, and
//! processes that can't run or can't hold the timeouts that they have scheduled.

use std::time::Duration;

use super::scan::CHUNK;
use super::{Activity, OVERDUE, Writer};
use crate::clock::Micros;
use crate::store::Scan;

/// How often it peeks.
const PEEK: Duration = Duration::from_millis(250);
/// If a peek takes long, the next one comes after so many times as long, but for `LATEST`.
const SHARE: u32 = 4;
/// A timeout that is due a second after its commit is to be found before its deadline.
const LATEST: Duration = Duration::from_millis(750);

impl Writer {
    /// Takes what is due before the horizon of the last scan, if it is time for that.
    pub(super) fn peek(&mut self) {
        let (engine, now) = (self.engine(), self.wall());
        if engine < self.next_peek || !self.may(Activity::Scan) {
            return;
        }
        let (owner, _) = self.with_room();
        let limit = u32::try_from(self.parts.window.room()).unwrap_or(u32::MAX).min(CHUNK);
        let mut more = false;
        // Without room, the scans come often enough.
        if limit > 0 && !owner.handlers.is_empty() {
            // A crowd that is overdue is the scans', at their pace.
            let overdue = self.pace.allowed(now, now.plus(PEEK)).min(limit);
            let (overdue_before, limit) =
                if overdue == 0 { (now.minus(OVERDUE), limit) } else { (Micros(i64::MIN), overdue) };
            let horizon = self.parts.window.horizon();
            let scan = Scan { overdue_before, overdue_limit: 0, horizon, limit, peek: true };
            let Some(took) = self.take_by(&owner, &scan) else { return };
            // Behind overdue rows there may be some that come up soon.
            more = took.overdue + took.soon >= limit as usize;
        }
        let took = self.engine().saturating_duration_since(engine);
        self.next_peek = if more { engine } else { self.engine() + (took * SHARE).clamp(PEEK, LATEST) };
    }
}
