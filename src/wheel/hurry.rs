//! What is due, or about to be, when it is inserted does not wait for others of its tick.

use super::{Place, Wheel};
use crate::time::Subtick;

impl Wheel {
    /// Chooses where an entry goes that is due, or is about to be, unless it goes into the slot of
    /// its tick. Such a slot comes up with it, whatever else is in it.
    #[cold]
    #[inline(never)]
    pub(super) fn place_at_once(&mut self, tick: u64, deadline: Subtick) -> Option<Place> {
        if deadline < self.unseen {
            return Some(self.outside(self.late_place));
        }
        if tick <= self.division.last_tick(self.now) {
            // The slot comes up, because its tick has come.
            return None;
        }
        let slot = self.levels[0].place(tick);
        if deadline <= self.now && !self.slots.is_empty(slot) && self.comes_up_at(tick) > self.now {
            // The others wait for each other. They need not be gone through for this entry.
            return Some(self.outside(self.late_place));
        }
        self.bring_up(deadline);
        None
    }

    /// Lets the slot of a deadline's tick come up when that is due. What is not due then is linked
    /// again.
    fn bring_up(&mut self, deadline: Subtick) {
        let is_same_tick = self.division.is_same_tick(deadline, self.hurried);
        self.hurried = if is_same_tick { self.hurried.min(deadline) } else { deadline };
    }

    /// Lets all come up that is due by `now`, and does not wait for others.
    pub(crate) fn bring_up_by(&mut self, now: Subtick) {
        self.set_now(now);
        self.bring_up(now);
    }
}
