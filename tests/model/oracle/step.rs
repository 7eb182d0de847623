//! What a program for the engine is made of.

use std::time::Duration;

use tourbillon::{MissedTicks, Shutdown};

/// One step of a program. A `which` chooses among the handles that are held, whatever its size.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Schedule {
        delay: Duration,
        kept: Kept,
        via: Via,
        act: Act,
    },
    ScheduleAt {
        offset: i64,
        via: Via,
    },
    ScheduleMany {
        delay: Duration,
        many: usize,
        via: Via,
    },
    Between {
        earliest: Duration,
        width: Duration,
        via: Via,
    },
    Series {
        initial: Duration,
        rule: Rule,
        via: Via,
        act: Act,
    },
    Reset {
        which: usize,
        delay: Duration,
    },
    ResetAt {
        which: usize,
        offset: i64,
    },
    Cancel {
        which: usize,
    },
    Drop {
        which: usize,
    },
    Unguard {
        which: usize,
    },
    CancelAll {
        group: usize,
    },
    /// The group goes, with or without what is pending in it, and a new one takes its place.
    RenewGroup {
        group: usize,
        cancels: bool,
    },
    Pause,
    Resume,
    ToNext,
    Advance {
        by: Duration,
    },
    Turn,
    Settle,
    /// The driver is asked when to turn it next, and the loop sleeps until then or until the bell rings.
    Sleep,
}

/// What is kept of what was scheduled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Plainly,
    Guarded,
    Detached,
}

/// By which way something is scheduled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Via {
    Timer,
    /// From another thread, which is another producer, of another shard if there is one.
    Elsewhere,
    Key(u8),
    Group(usize),
}

/// What a task does when it runs, apart from telling that it does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Nothing,
    Panic,
    Schedule {
        delay: Duration,
    },
    Cancel {
        which: usize,
    },
    Reset {
        which: usize,
        delay: Duration,
    },
    Drop {
        which: usize,
    },
    CancelAll {
        group: usize,
    },
    /// It takes so long.
    Advance {
        by: Duration,
    },
}

/// What runs again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Rate(Duration, MissedTicks),
    Delay(Duration),
    /// Answers with this so many times, and then with none.
    Answer(Duration, u32),
}

impl Rule {
    /// The same, but that a burst does not have to make up for thousands of runs in each tick.
    pub(crate) fn coarser_than(self, tick: Duration) -> Self {
        match self {
            Self::Rate(period, MissedTicks::Burst) => Self::Rate(period.max(tick), MissedTicks::Burst),
            rule => rule,
        }
    }

    /// When the run after the one that was due at `due_ns`, and ended at `now_ns`, is due.
    pub(crate) fn next_ns(self, due_ns: u128, now_ns: u128) -> u128 {
        match self {
            Self::Answer(delay, _) => now_ns + delay.as_nanos().max(1),
            Self::Delay(delay) => now_ns + delay.as_nanos(),
            Self::Rate(period, missed) => {
                let (next, period) = (due_ns + period.as_nanos(), period.as_nanos());
                match missed {
                    MissedTicks::Skip if next <= now_ns => next + ((now_ns - next) / period + 1) * period,
                    MissedTicks::Delay if next <= now_ns => now_ns + period,
                    _ => next,
                }
            }
        }
    }
}

/// How a program ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Shutdown(Shutdown),
    /// The last of them; the driver stays.
    DropTimers,
    DropDriver,
}
