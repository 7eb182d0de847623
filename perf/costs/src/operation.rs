//! The operations that are measured.

/// Defines the operations, each with its name on the command line and in the table.
macro_rules! operations {
    ($($(#[$doc:meta])* $operation:ident = $name:literal),* $(,)?) => {
        /// One operation, as its caller pays for it; or one timeout's share of a turn.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Operation {
            $($(#[$doc])* $operation),*
        }

        impl Operation {
            pub(crate) const ALL: &[Self] = &[$(Self::$operation),*];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$operation => $name),*
                }
            }
        }
    };
}

operations! {
    /// The handle is kept; the task has 24 bytes of captures.
    Schedule = "schedule",
    ScheduleDetached = "schedule-detached",
    /// For an instant that the caller has: the engine reads no clock.
    ScheduleAt = "schedule-at",
    /// Of a timeout that the worker has not seen yet.
    CancelInInbox = "cancel-in-inbox",
    /// The same, and the handle is dropped.
    CancelDropInInbox = "cancel-drop-in-inbox",
    /// Of one that the worker has linked into its wheel.
    CancelInWheel = "cancel-in-wheel",
    CancelDropInWheel = "cancel-drop-in-wheel",
    ResetLater = "reset-later",
    /// To an instant that the caller has.
    ResetAt = "reset-at",
    ResetEarlier = "reset-earlier",
    DropPending = "drop-pending",
    /// Of the handle of a timeout that was cancelled in the inbox.
    DropCancelled = "drop-cancelled",
    /// Of the handle of a timeout that has run: the last owner gives the entry back.
    DropExpired = "drop-expired",
    /// All three, one after the other, as a request that is answered in time.
    ScheduleCancelDrop = "schedule-cancel-drop",
    /// The same by `cancel_owned`, which gives the handle up in the same step.
    ScheduleCancelOwned = "schedule-cancel-owned",
    /// A future that sleeps is made, polled once, and dropped: a limit that was met, but not at
    /// once.
    SleepDrop = "sleep-drop",
    /// A future that sleeps is moved to a later deadline, which needs no poll.
    SleepReset = "sleep-reset",
    /// A future that sleeps is polled by another task, as in a `select!`.
    SleepPolledByAnother = "sleep-polled-by-another",
    /// A limit is put round a future that is ready at once.
    TimeoutReady = "timeout-ready",
    /// A turn takes timeouts out of the inbox into the wheel.
    TakeIn = "take-in",
    /// The same of timeouts whose handles are gone.
    TakeInDetached = "take-in-detached",
    /// A turn expires and runs timeouts of one tick, whose handles are gone.
    Expire = "expire",
    /// The same with handles that are still held.
    ExpireHeld = "expire-held",
    /// A turn of its own for a timeout, which it expires and runs.
    ExpireAlone = "expire-alone",
    /// A turn ends the sleep of futures, and calls their wakers.
    Wake = "wake",
    /// A turn collects timeouts that were cancelled in the wheel.
    Collect = "collect",
    /// On an engine of one thread, from here on. The names are those of the others.
    LocalSchedule = "local-schedule",
    LocalScheduleAt = "local-schedule-at",
    LocalCancel = "local-cancel",
    LocalResetLater = "local-reset-later",
    LocalResetEarlier = "local-reset-earlier",
    LocalDropExpired = "local-drop-expired",
    LocalScheduleCancelDrop = "local-schedule-cancel-drop",
    LocalSleepDrop = "local-sleep-drop",
    LocalExpire = "local-expire",
    LocalExpireHeld = "local-expire-held",
}

impl Operation {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|operation| operation.name() == name)
    }

    /// Whether it is one of an engine of one thread.
    pub(crate) fn is_local(self) -> bool {
        self as usize >= Self::LocalSchedule as usize
    }

    /// Whether it is one timeout's share of a turn of the worker.
    pub(crate) fn is_of_a_turn(self) -> bool {
        use Operation::*;
        matches!(self, TakeIn | TakeInDetached | Expire | ExpireHeld | ExpireAlone | Wake | Collect)
    }

    /// How many there are in a round.
    pub(crate) fn in_round(self) -> usize {
        let is_turn = self.is_of_a_turn() || matches!(self, Self::LocalExpire | Self::LocalExpireHeld);
        if is_turn { super::TURN } else { super::ROUND }
    }

    /// How many instructions are counted of.
    pub(crate) fn collected(self) -> u64 {
        (self.in_round() * super::ROUNDS) as u64
    }

    /// Whether it is one of a thread that schedules.
    pub(crate) fn is_producers(self) -> bool {
        !self.is_local() && !self.is_of_a_turn()
    }

    /// Whether the turns before it need another time than the real one.
    pub(crate) fn needs_manual_clock(self) -> bool {
        !self.is_producers() || self == Self::DropExpired
    }

    /// Whether it turns a delay into a deadline, or looks at the clock to be sooner done with it.
    pub(crate) fn reads_clock(self) -> bool {
        use Operation::*;
        let never = [
            CancelDropInInbox,
            CancelDropInWheel,
            CancelInInbox,
            CancelInWheel,
            DropCancelled,
            DropPending,
            SleepPolledByAnother,
        ];
        !self.needs_manual_clock() && !never.contains(&self)
    }
}
