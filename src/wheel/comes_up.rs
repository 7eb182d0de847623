//! With which of its entries the slot of a tick comes up.

use crate::time::{Division, Subtick};

/// When a slot of level 0 comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComesUp {
    /// With the last deadline in it. So all timeouts of a tick run together.
    WithLast,
    /// With the first, so that nothing is late. What is not due yet is linked again. For a clock
    /// that is moved by hand: what is due must not wait for another move.
    WithFirst,
}

impl ComesUp {
    /// Returns what the slot of a tick goes by: it comes up with its entry of the highest rank.
    /// Ranks begin at 1.
    #[inline]
    pub(super) fn rank(self, division: Division, deadline: Subtick) -> u16 {
        self.turned_round(division, division.place_in_tick(deadline))
    }

    /// Returns when the slot of a tick comes up, by the highest rank in it.
    pub(super) fn at(self, division: Division, tick: u64, highest: u16) -> Subtick {
        // 0: its entries wait for another round.
        if highest == 0 { division.end(tick) } else { division.at(tick, self.turned_round(division, highest)) }
    }

    /// Turns a place in a tick into a rank, and back.
    #[inline]
    fn turned_round(self, division: Division, place: u16) -> u16 {
        match self {
            ComesUp::WithLast => place,
            ComesUp::WithFirst => division.subticks() + 1 - place,
        }
    }
}
