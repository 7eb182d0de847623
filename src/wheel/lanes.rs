//! The lanes of a slot, and the numbers by which they are filled in turn.

/// Lists of a slot. With what is beside them, their heads fill a cache line, and so do their tails.
pub(super) const LANES: usize = 7;
const LAST_LANE: u16 = 6;
const _: () = assert!(LAST_LANE as usize == LANES - 1);

/// The number of an entry. They wrap around.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    round: u16,
    /// At most `LAST_LANE`, also in zeroed memory.
    lane: u16,
}

impl Number {
    pub(super) fn new(round: u16, lane: u16) -> Self {
        assert!(lane <= LAST_LANE, "a slot has {LANES} lanes");
        Self { round, lane }
    }

    #[inline]
    pub(super) fn next(self) -> Self {
        if self.lane == LAST_LANE {
            Self { round: self.round.wrapping_add(1), lane: 0 }
        } else {
            Self { lane: self.lane + 1, ..self }
        }
    }

    #[inline]
    pub(super) fn previous(self) -> Self {
        if self.lane == 0 {
            Self { round: self.round.wrapping_sub(1), lane: LAST_LANE }
        } else {
            Self { lane: self.lane - 1, ..self }
        }
    }

    #[inline]
    pub(super) fn round(self) -> u16 {
        self.round
    }

    #[inline]
    pub(super) fn lane(self) -> u16 {
        self.lane
    }

    /// Returns what belongs to the number's lane.
    #[inline(always)]
    pub(super) fn of<T>(self, lanes: &[T; LANES]) -> &T {
        debug_assert!(self.lane <= LAST_LANE);
        // SAFETY: the only numbers are zero and those that the functions above make, and their
        // lanes are less than `LANES`.
        unsafe { lanes.get_unchecked(self.lane as usize) }
    }
}
