//! Runs what is due on a local engine.

use std::fmt;
use std::rc::Rc;
use std::time::Instant;

use crate::engine::Engine;

/// Turns the engine of a [`LocalTimer`](crate::LocalTimer): runs its tasks, and wakes its futures.
/// [`LocalBuilder::build`](crate::LocalBuilder::build) makes it.
///
/// **Nothing happens by itself**, as with a [`Driver`](tourbillon::Driver). Dropping it ends the
/// engine. Then the pending tasks are dropped unrun, the futures that sleep are
/// [ended](crate::LocalSleep::ended_by_shutdown), and new timeouts are refused. A pending task must
/// not own it: then nothing ends the engine.
///
/// In a child process that was forked off after the engine was made it works on, with a copy of
/// what was pending: a task may then run in both.
pub struct LocalDriver {
    engine: Rc<Engine>,
}

impl LocalDriver {
    pub(crate) fn new(engine: Rc<Engine>) -> Self {
        Self { engine }
    }

    /// Runs all due timeouts, and returns how many fired, futures included.
    ///
    /// A task may schedule, cancel and reset. A timeout that it schedules waits for the next turn,
    /// also without a delay. [`expiry_limit`](crate::LocalBuilder::expiry_limit) bounds a turn.
    /// Timeouts that are left over then wait for the next one, and
    /// [`next_wakeup`](Self::next_wakeup) returns a time that has come.
    ///
    /// The call catches a panic of a task, and counts it. It allocates only if more timeouts are
    /// due together than ever before, or if they move to slots that need memory. If nothing is due,
    /// it reads the clock, looks at the wheel, and returns.
    pub fn turn(&mut self) -> usize {
        self.engine.turn()
    }

    /// Returns when to call [`turn`](Self::turn) next, or `None` if nothing is pending, or only
    /// timeouts that never fire.
    ///
    /// The time is in the past if there is something to do at once. It is never later than the
    /// earliest deadline, and may be earlier. It is by the engine's clock: with a clock of your own
    /// wait for as long as it is after [`now`](Self::now).
    ///
    /// Nobody tells the loop that a clock of your own has jumped, as one that goes on in a suspend
    /// does. Let the loop wait by that clock, or not for long.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.engine.next_wakeup().map(|tick| self.engine.ticks.instant(tick))
    }

    /// Returns the time by the engine's clock, by which [`next_wakeup`](Self::next_wakeup) goes.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.engine.ticks.now()
    }

    /// Sets a callback for the first timeout that comes up before the time that
    /// [`next_wakeup`](Self::next_wakeup) last returned. The call that schedules it, or resets it,
    /// calls the callback, also in a turn that comes before that time. Then, and when that time has
    /// come, ask `next_wakeup` again.
    ///
    /// A loop that asks `next_wakeup` right before it waits needs no callback. A task of a runtime
    /// that waits for that time does, to wait anew. A panic in the callback is treated as a task's.
    /// The new callback replaces the one before, which is dropped.
    pub fn on_earlier(&self, callback: impl Fn() + 'static) {
        let before = self.engine.on_earlier.replace(Some(Rc::new(callback)));
        self.engine.call(|| drop(before));
    }
}

impl Drop for LocalDriver {
    fn drop(&mut self) {
        self.engine.end();
    }
}

impl fmt::Debug for LocalDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalDriver").field("pending", &self.engine.pending()).finish_non_exhaustive()
    }
}
