//! An engine without threads: whoever has the driver turns it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::engine::{DrivenShards, discard_driven, settle};
use crate::engine::{Core, Shared, SharedRef};
use crate::executor::{Expired, TickHook, call_hook, run_here};
use crate::panics::CatchUnwind;
use crate::shard::{Remote, Wake};
use crate::sync::{Mutex, MutexGuard, Ordering, fence, lock};
use crate::time::Tick;
use crate::worker::Stopwatch;

/// Dropped by itself: a producer may be the last to have it.
type Callback = CatchUnwind<Box<dyn Fn() + Send + Sync>>;

/// Turns an engine that has no threads of its own: from an event loop of yours, or step by step in a test. Made by
/// [`Builder::build_driven`](crate::Builder::build_driven).
///
/// **Nothing happens by itself**: timeouts fire only in [`turn`](Self::turn), on the thread that calls it. Ask
/// [`next_wakeup`](Self::next_wakeup) how long the loop may sleep, and have it woken by
/// [`on_earlier`](Self::on_earlier) if other threads schedule, too.
///
/// Dropping the driver ends the engine: what is pending is dropped, and further timeouts are refused. In a child process that was
/// forked off after it was made it runs nothing: what is pending is the parent's.
pub struct Driver {
    shared: SharedRef,
    shards: DrivenShards,
    bell: Arc<Bell>,
    on_tick: CatchUnwind<Option<TickHook>>,
    expiry_limit: usize,
    /// Who is to be woken when a turn is over: empty in between.
    wakes: Vec<Expired>,
}

/// What a producer does when it brings something that is due before the driver said it would come back.
#[derive(Default)]
pub(super) struct Bell(Mutex<Option<Arc<Callback>>>);

/// The engine's way to the bell.
pub(super) struct RingBell(pub(super) Arc<Bell>);

impl Wake for RingBell {
    /// As if the callback were a task: what it panics with is the engine's to report, and not the producer's, whose timeout has been accepted.
    fn wake(&self, remote: &Remote) -> bool {
        let callback = lock(&self.0.0).clone();
        if let Some(callback) = callback {
            call_hook(Shared::of_remote(remote), || callback());
        }
        true
    }

    /// By another perhaps, but when is not for us to say.
    fn is_turned_by_another(&self, _shard: usize) -> bool {
        false
    }
}

impl Driver {
    pub(super) fn new(
        shared: SharedRef,
        shards: DrivenShards,
        bell: Arc<Bell>,
        on_tick: CatchUnwind<Option<TickHook>>,
        expiry_limit: usize,
    ) -> Self {
        Self { shared, shards, bell, on_tick, expiry_limit, wakes: Vec::new() }
    }

    /// Runs all that is due, here and now, within the builder's `transfer_limit` and `expiry_limit`; returns how many
    /// timeouts fired. What a limit leaves over waits for the next turn: [`next_wakeup`](Self::next_wakeup) then says at
    /// once; and so does what a task schedules with no delay. (But a series that makes up for runs that it has
    /// [missed](crate::MissedTicks::Burst) makes up for all of them.) A panic in a task is caught as in a pool. The builder's
    /// executor is not used.
    pub fn turn(&mut self) -> usize {
        let mut fired = 0;
        // One time for all of it: what becomes due while tasks run is for the next turn.
        let now_ns = self.shared.timeline().now_ns();
        loop {
            let more = self.turn_once(now_ns);
            fired += more;
            if !self.shared.overdue.take() || more == 0 || fired >= self.expiry_limit {
                return fired;
            }
        }
    }

    fn turn_once(&mut self, now_ns: u64) -> usize {
        let (mut ticks, mut wakes) = (Vec::new(), std::mem::take(&mut self.wakes));
        let Some(mut shards) = self.lock_shards() else { return 0 };
        let turn = |shard: &mut Core| {
            self.shared.remote(shard.index()).heartbeat.beat(now_ns);
            let now = self.shared.timeline().scale().tick_at(now_ns);
            // By the time now: other shards' tasks may have run since the turn began.
            let begins = || self.shared.timeline().try_now_ns().unwrap_or(now_ns);
            let stopwatch = self.on_tick.as_ref().map(|_| Stopwatch::start(shard, now, begins()));
            let turn = shard.turn(&self.shared, now, &mut run_here);
            // Counted before the shards are unlocked: else a shutdown would find them neither pending nor under way.
            wakes.extend(shard.take_wakes().map(Expired::begin));
            let due = shard.next_due().map_or(u64::MAX, |due| self.shared.timeline().scale().ns_of(due.max(now)));
            self.shared.remote(shard.index()).heartbeat.rest_until(due);
            ticks.extend(stopwatch.and_then(|stopwatch| stopwatch.stop(&self.shared, shard, turn)));
            turn.fired
        };
        let fired = shards.iter_mut().map(turn).sum();
        drop(shards);
        wakes.drain(..).for_each(Expired::run);
        if let Some(hook) = self.on_tick.as_ref() {
            ticks.iter().for_each(|tick| call_hook(&self.shared, || hook(tick)));
        }
        self.carry_out_order();
        self.wakes = wakes;
        fired
    }

    /// The shards: none any more, if the last `Timer` has gone. None in a forked child, where they are the parent's, who runs them.
    fn lock_shards(&self) -> Option<MutexGuard<'_, Vec<Core>>> {
        (!self.shared.is_forked()).then(|| lock(&self.shards))
    }

    /// To be called after the shards were unlocked. The last `Timer` may have gone meanwhile, perhaps in one of the tasks: then it has left
    /// an order to do what it could not do itself.
    fn carry_out_order(&self) {
        // With the one in `Engine::drop`: either the last `Timer`, after its order, finds the shards unlocked, or this look finds the order.
        fence(Ordering::SeqCst);
        if self.shared.remotes().iter().any(|remote| remote.is_stopped())
            && let Some(shards) = self.lock_shards()
        {
            discard_driven(&self.shared, shards);
        }
    }

    /// When to call [`turn`](Self::turn) next; none if nothing is pending (or only timeouts that never fire). May be
    /// earlier than the earliest deadline, when the wheel has to be prepared for it, and is in the past if there is
    /// something to do at once; none in a [pause](crate::Timer::pause), whose end rings the bell. Sorts in what has been
    /// scheduled since the last turn.
    ///
    /// From here on, until the next turn, the first producer that brings something due before that rings
    /// [`on_earlier`](Self::on_earlier), once: then turn, or ask here again. (Of several shards, once each, and also for what is due
    /// before that shard's own next deadline.)
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        let mut shards = self.lock_shards()?;
        let earliest = shards.iter_mut().filter_map(|shard| settle(&self.shared, shard)).min();
        drop(shards);
        self.carry_out_order();
        let timeline = self.shared.timeline();
        // In a pause nothing comes by itself but what has come already.
        let comes = |tick: &Tick| !timeline.is_paused() || *tick <= timeline.current_tick();
        earliest.filter(comes).map(|tick| timeline.instant_of(tick))
    }

    /// Sets what is called, on the producer's thread, when something is scheduled, or reset, to be due before the time that
    /// [`next_wakeup`](Self::next_wakeup) last said (see there; also when 8,192 timeouts wait to be taken in, moved
    /// to earlier or collected, and when a pause ends; now and then for nothing). It should wake the loop that turns this driver (an
    /// eventfd, mio's `Waker`), and must neither block nor use the timer. A panic in it is treated as a task's. It replaces what was set
    /// before.
    pub fn on_earlier(&self, callback: impl Fn() + Send + Sync + 'static) {
        let before = lock(&self.bell.0).replace(Arc::new(CatchUnwind::new(Box::new(callback))));
        // Not under the lock: what it has captured is the user's.
        drop(before);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            return;
        }
        discard_driven(&self.shared, lock(&self.shards));
        // The callback may hold the loop's own things: let go of them now, and not when the last handle goes.
        let callback = lock(&self.bell.0).take();
        drop(callback);
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("shared", &self.shared).finish_non_exhaustive()
    }
}
