//! The rule for a timeout that runs once, for checkers that have no more than a word for each.

use super::Fault;

/// The fate of a timeout that runs once.
///
/// It is a plain value of two bits. A checker keeps it in an atomic word of its own, chooses the
/// orderings itself, and asks here what the word that it found means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    /// It was scheduled.
    Pending = 1,
    /// Its task has begun to run.
    Ran = 2,
    /// `cancel` has returned true.
    Cancelled = 3,
}

impl Fate {
    /// The number of bits of a fate. All of them are zero where there is none.
    pub const BITS: u32 = 2;

    /// Returns the fate in the lowest bits of a word, or `None` if they are zero.
    pub const fn in_word(word: u64) -> Option<Self> {
        match word & ((1 << Self::BITS) - 1) {
            1 => Some(Self::Pending),
            2 => Some(Self::Ran),
            3 => Some(Self::Cancelled),
            _ => None,
        }
    }

    /// Its task begins to run.
    ///
    /// # Errors
    ///
    /// Returns what the engine did wrong if the task may not run any more.
    pub const fn run(self) -> Result<Self, Fault> {
        match self {
            Self::Pending => Ok(Self::Ran),
            Self::Ran => Err(Fault::Twice),
            Self::Cancelled => Err(Fault::AfterCancel),
        }
    }

    /// `cancel` has returned true.
    ///
    /// # Errors
    ///
    /// Returns what the engine did wrong if it had to return false.
    pub const fn cancel(self) -> Result<Self, Fault> {
        match self {
            Self::Pending => Ok(Self::Cancelled),
            Self::Ran => Err(Fault::CancelledButRan),
            Self::Cancelled => Err(Fault::CancelledTwice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_runs_or_is_cancelled_once() {
        assert_eq!((Fate::Pending.run(), Fate::Pending.cancel()), (Ok(Fate::Ran), Ok(Fate::Cancelled)));
        assert_eq!((Fate::Ran.run(), Fate::Ran.cancel()), (Err(Fault::Twice), Err(Fault::CancelledButRan)));
        let cancelled = Fate::Cancelled;
        assert_eq!((cancelled.run(), cancelled.cancel()), (Err(Fault::AfterCancel), Err(Fault::CancelledTwice)));
    }

    #[test]
    fn a_word_keeps_a_fate_below_other_bits() {
        for fate in [Fate::Pending, Fate::Ran, Fate::Cancelled] {
            assert_eq!(Fate::in_word(fate as u64 | 77 << Fate::BITS), Some(fate));
        }
        assert_eq!(Fate::in_word(77 << Fate::BITS), None);
    }
}
