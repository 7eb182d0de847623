//! The parts of a program for the engine.

use std::time::Duration;

use tourbillon::{MissedTicks, Shutdown};

/// One step of a program. A `which` chooses among the held handles, whatever its size. Elsewhere is
/// as in [`Via`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each is a call of the engine, or explained")]
pub enum Step {
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
        is_elsewhere: bool,
    },
    Periodic {
        initial: Duration,
        rule: Rule,
        is_elsewhere: bool,
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
    Pause,
    Resume,
    ToNext,
    Advance {
        by: Duration,
    },
    Turn,
    Settle,
    /// The program asks the driver when to turn it next, and sleeps until then or until the bell
    /// rings.
    Sleep,
}

/// The kind of handle that the program keeps of a timeout.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "their names say it, or they are explained")]
pub enum Kept {
    Plainly,
    Guarded,
    Detached,
}

/// The way in which a timeout is scheduled.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "their names say it, or they are explained")]
pub enum Via {
    Timer,
    /// From another thread, which is another producer, of another shard if there is one.
    Elsewhere,
    Key(u8),
}

/// The act of a task when it runs, besides recording that it does.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "their names say it, or they are explained")]
pub enum Act {
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
    /// The run takes this long.
    Advance {
        by: Duration,
    },
}

/// The schedule of a periodic timeout.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "their names say it, or they are explained")]
pub enum Rule {
    Rate(Duration, MissedTicks),
    Delay(Duration),
    /// The task answers with this delay this number of times, and then with `None`.
    Answer(Duration, u32),
}

impl Rule {
    /// Returns the same rule with longer periods, so that a burst need not make up for thousands of
    /// runs in each tick.
    pub(crate) fn coarser_than(self, tick: Duration) -> Self {
        match self {
            Self::Rate(period, MissedTicks::Burst) => Self::Rate(period.max(tick), MissedTicks::Burst),
            rule => rule,
        }
    }

    /// Returns when the run after the one that was due at `due_ns`, and ended at `now_ns`, is due.
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
#[expect(missing_docs, reason = "their names say it, or they are explained")]
pub enum End {
    Shutdown(Shutdown),
    /// The last timers are dropped; the driver stays.
    DropTimers,
    DropDriver,
}
