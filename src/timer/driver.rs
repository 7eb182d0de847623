//! An engine without threads. The caller that owns its driver turns it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::engine::{DrivenShards, close_driven, settle};
use crate::engine::{Core, Shared, SharedRef};
use crate::executor::{Expired, call_hook, run_in_turn};
use crate::panics::CatchUnwind;
use crate::shard::{Command, Remote};
use crate::sync::{Mutex, MutexGuard, Ordering, fence, lock};
use crate::thread::NoWait;
use crate::time::Subtick;
use crate::worker::{Turn, TurnHook};

/// The last thread to hold it may be a producer. `CatchUnwind` keeps a panic of its destructor from
/// that thread.
type Callback = CatchUnwind<Box<dyn Fn() + Send + Sync>>;

/// Turns an engine that has no threads of its own, from the caller's event loop or step by step in
/// a test. [`Builder::build_driven`](crate::Builder::build_driven) makes it.
///
/// **Nothing happens by itself.** Timeouts fire only in [`turn`](Self::turn), on the thread that
/// calls it. [`next_wakeup`](Self::next_wakeup) says how long the loop may sleep. If other threads
/// schedule too, [`on_earlier`](Self::on_earlier) sets a callback that wakes the loop.
///
/// Dropping the driver ends the engine. Pending timeouts are dropped unrun, and new ones are
/// refused. A shutdown on another thread that has given its command gets them all the same. In a
/// child process that was forked off after the engine was made the driver runs nothing, because the
/// pending timeouts belong to the parent.
///
/// ```
/// use std::cell::Cell;
/// use std::time::{Duration, Instant};
/// use tourbillon::Timer;
///
/// thread_local!(static IS_OVER: Cell<bool> = const { Cell::new(false) });
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (timer, mut driver) = Timer::builder().build_driven()?;
/// timer.schedule_detached(Duration::from_millis(5), || IS_OVER.set(true))?;
/// while !IS_OVER.get() {
///     let at = driver.next_wakeup().expect("a timeout is pending");
///     // An event loop waits for its sockets here, for no longer than this.
///     std::thread::sleep(at.saturating_duration_since(Instant::now()));
///     driver.turn(); // the tasks run on this thread
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Timeouts that wake no loop
///
/// Housekeeping can wait until the loop runs anyway, and should not keep a program from ending when
/// nothing else is pending: libuv's `uv_unref`, and Linux's deferrable timers. Put such timeouts on
/// a second driven engine, turn both, and ask only the first when to come back. A second engine
/// costs nothing in the first one's calls.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{ManualClock, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let clock = ManualClock::new();
/// let (requests, mut driver) = Timer::builder().clock(clock.clone()).build_driven()?;
/// let (housekeeping, mut deferrable) = Timer::builder().clock(clock.clone()).build_driven()?;
/// let minute = Duration::from_secs(60);
/// let sweep = || println!("sweeps the cache");
/// let _sweeps = housekeeping.schedule_at_fixed_rate(minute, minute, sweep)?;
/// let request = requests.schedule(5 * minute, || println!("too late"))?;
/// while let Some(at) = driver.next_wakeup() {
///     clock.advance(at - clock.now()); // a real loop waits for its sockets here
///     driver.turn();
///     deferrable.turn(); // with what has become due meanwhile
/// }
/// assert!(!request.is_pending() && housekeeping.stats().fired > 0);
/// # Ok(())
/// # }
/// ```
pub struct Driver {
    pub(super) shared: SharedRef,
    pub(super) shards: DrivenShards,
    pub(super) bell: Arc<Bell>,
    pub(super) on_turn: Option<CatchUnwind<TurnHook>>,
    pub(super) expiry_limit: usize,
    /// The futures to wake when a turn is over. Empty between turns.
    pub(super) wakes: Vec<Expired>,
}

/// The callback that a producer calls when it pushes a timeout that is due before the driver said
/// it would come back.
pub(super) type Bell = Mutex<Option<Arc<Callback>>>;

/// Calls the callback as if it were a task. The engine reports its panic. The producer gets none,
/// because its timeout has been accepted. A driven shard counts as woken in any case.
pub(super) fn ring(bell: &Bell, remote: &Remote) -> bool {
    let callback = lock(bell).clone();
    if let Some(callback) = callback {
        call_hook(Shared::of_remote(remote), || callback());
    }
    true
}

impl Driver {
    /// Runs all due timeouts on the calling thread, and returns how many fired, futures included.
    ///
    /// The builder's [`transfer_limit`](crate::Builder::transfer_limit) and
    /// [`expiry_limit`](crate::Builder::expiry_limit) bound a turn. Timeouts that a limit leaves
    /// over wait for the next turn, and [`next_wakeup`](Self::next_wakeup) then returns a time that
    /// has come. A timeout that a task schedules with no delay also waits for the next turn. A
    /// periodic timeout that makes up for [missed](crate::MissedTicks::Burst) runs does so in the
    /// same turn, until `expiry_limit` timeouts have fired.
    ///
    /// The call blocks while the tasks run. It takes a lock, and may allocate. It catches a panic
    /// of a task, as a pool does. It does not use the builder's executor.
    pub fn turn(&mut self) -> usize {
        let mut fired = 0;
        // One time holds for the whole turn. A timeout that becomes due while tasks run is for the
        // next turn.
        let now_ns = self.shared.timeline().now_ns();
        loop {
            let more = self.turn_once(now_ns);
            fired += more;
            // As a rule it is not set. Only a read, then: producers read this line.
            if self.shared.overdue.get() == 0 {
                return fired;
            }
            self.shared.overdue.set(0);
            if more == 0 || fired >= self.expiry_limit {
                return fired;
            }
        }
    }

    fn turn_once(&mut self, now_ns: u64) -> usize {
        let (mut turns, mut wakes) = (Vec::new(), std::mem::take(&mut self.wakes));
        let Some(mut shards) = self.lock_shards() else { return 0 };
        // The tasks run under the lock, for which a worker of another engine may wait.
        let _no_wait = NoWait::begin();
        let turn = |shard: &mut Core| {
            let remote = self.shared.remote(shard.index());
            remote.counters.begin_turn(now_ns);
            let now = self.shared.timeline().scale().subtick_at(now_ns);
            // Read the time again: tasks of other shards may have run since the turn began.
            let begins = || self.shared.timeline().try_now_ns().unwrap_or(now_ns);
            let (before, began_ns) = (shard.turned_to(), self.on_turn.as_ref().map(|_| begins()));
            let turn = shard.turn(&self.shared, now, || None, run_in_turn);
            // Count the wakes before the shards are unlocked. Otherwise a shutdown would find them
            // neither pending nor under way.
            wakes.extend(shard.take_wakes(&self.shared).map(Expired::begin));
            let due =
                shard.next_due(&self.shared).map_or(u64::MAX, |due| self.shared.timeline().scale().ns_of(due.max(now)));
            remote.counters.next_turn.set(due);
            turns.extend(began_ns.and_then(|began_ns| Turn::of(&self.shared, shard, turn, before, now, began_ns)));
            turn.fired
        };
        let fired = shards.iter_mut().map(turn).sum();
        drop(shards);
        wakes.drain(..).for_each(Expired::run);
        if let Some(hook) = self.on_turn.as_ref() {
            turns.iter().for_each(|turn| call_hook(&self.shared, || hook(turn)));
        }
        self.carry_out_order();
        self.wakes = wakes;
        fired
    }

    /// Locks the shards. There are none left if the last `Timer` has gone. Returns `None` in a
    /// forked child, because there the shards belong to the parent, which runs them.
    fn lock_shards(&self) -> Option<MutexGuard<'_, Vec<Core>>> {
        (!self.shared.is_forked()).then(|| lock(&self.shards))
    }

    /// Carries out a command of the last `Timer`. The caller has unlocked the shards before. The
    /// last `Timer` may have gone while they were locked, perhaps in one of the tasks. Then it has
    /// left a command to do what it could not do itself.
    fn carry_out_order(&self) {
        // Pairs with the fence in `Engine::drop`. It forbids that both miss each other: either the
        // last `Timer`, after its command, finds the shards unlocked, or this load finds the
        // command.
        fence(Ordering::SeqCst);
        if self.shared.remotes().iter().any(|remote| remote.is_unwanted())
            && let Some(shards) = self.lock_shards()
        {
            close_driven(&self.shared, shards, Command::StopAndDiscard);
        }
    }

    /// Returns when to call [`turn`](Self::turn) next.
    ///
    /// Returns `None` if nothing is pending, or only timeouts that never fire. The time is in the
    /// past if there is something to do at once. By the system's clock the timeouts of a tick share
    /// a turn, so it is when the last one in the tick of the earliest is due: a loop comes back
    /// once a tick at most, and runs what is due then in each turn that it does for another reason.
    /// It may be earlier than the earliest deadline, if the wheel has to be prepared for that
    /// deadline. While a
    /// [`PausableClock`](crate::PausableClock) stands still the call returns `None`, unless
    /// something was due before. The end of the pause calls [`on_earlier`](Self::on_earlier). In a
    /// test,
    /// [`ManualClock::advance_to_next`](crate::ManualClock::advance_to_next) goes to the exact
    /// deadline.
    ///
    /// The call takes in what has been scheduled since the last turn. It takes a lock, runs no
    /// task, and may allocate.
    ///
    /// A cancel, or a reset to later, wakes no loop: the loop still wakes at the returned time, and
    /// finds nothing to do. A loop that is to end with its last timeout has to be told.
    ///
    /// After this call, the first producer with a timeout that is due before the tick of the
    /// returned time, or due already, calls [`on_earlier`](Self::on_earlier), once. By a
    /// [`ManualClock`](crate::ManualClock) that is a timeout due before the returned time. Then
    /// call `turn`, or call `next_wakeup` again. With several shards each of them calls it once,
    /// and also for a timeout that is due before that shard's own next deadline.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        let now = self.shared.timeline().current_by_itself();
        let mut shards = self.lock_shards()?;
        let earliest = shards.iter_mut().filter_map(|shard| settle(&self.shared, shard, now)).min();
        drop(shards);
        self.carry_out_order();
        let timeline = self.shared.timeline();
        // In a pause nothing more becomes due. A time that has already come is still returned.
        let comes = |due: &Subtick| !timeline.is_paused() || *due <= timeline.current();
        earliest.filter(comes).map(|due| timeline.instant_of(due))
    }

    /// Sets a callback for timeouts that are due before the tick of the time that
    /// [`next_wakeup`](Self::next_wakeup) last returned, or due already.
    ///
    /// The producer that schedules or resets such a timeout calls it, on its own thread. It is also
    /// called when 8,192 timeouts wait to be taken in, to be moved to an earlier deadline or to be
    /// collected, and when the engine's clock says that it has stepped. It may be called without
    /// need.
    ///
    /// The callback should wake the loop that turns this driver, with an eventfd or mio's `Waker`.
    /// It must not block, and must not use the timer. A panic in it is treated as a task's.
    ///
    /// The new callback replaces the one before, which is dropped. The call allocates, and takes a
    /// lock that is held only for the exchange.
    pub fn on_earlier(&self, callback: impl Fn() + Send + Sync + 'static) {
        let before = lock(&self.bell).replace(Arc::new(CatchUnwind::new(Box::new(callback))));
        // Drop it after the unlock: its captures are user values, whose destructors are user code.
        drop(before);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let Some(shards) = self.lock_shards() else { return };
        // A shutdown that has given its command waits for this lock, and has to answer with what is
        // pending.
        if self.shared.remotes().iter().any(|remote| remote.is_commanded() && !remote.is_unwanted()) {
            // Before the callback goes, whose captures are user values.
            drop(shards);
        } else {
            close_driven(&self.shared, shards, Command::StopAndDiscard);
        }
        // The callback may hold parts of the loop. Drop it now, and not when the last handle goes.
        let callback = lock(&self.bell).take();
        drop(callback);
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("shards", &self.shared.remotes().len()).finish_non_exhaustive()
    }
}
