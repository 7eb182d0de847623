//! What the `Timer`s of one engine share, and how it ends.

use std::fmt;
use std::sync::{Arc, Weak};

use super::error::ShutdownError;
use super::shutdown::Unfired;
use crate::executor::is_running_a_task_of;
use crate::shard::{HubRef, Left, Order, Shard};
use crate::sync::{AtomicU8, Mutex, Ordering, lock};
use crate::time::Follower;
use crate::worker::{Workers, discard};

/// Shards that are turned by a [`Driver`](super::Driver); none any more once the engine has ended.
pub(super) type DrivenShards = Arc<Mutex<Vec<Shard>>>;

/// Who turns the shards.
pub(super) enum Turner {
    Workers(crate::sync::Arc<Workers>),
    Driver(DrivenShards),
}

const RUNNING: u8 = 0;
const ENDED: u8 = 1;

pub(super) struct Engine {
    pub(super) hub: HubRef,
    pub(super) turner: Turner,
    pub(super) ticks_per_wheel: usize,
    state: AtomicU8,
}

impl Engine {
    pub(super) fn new(hub: HubRef, turner: Turner, ticks_per_wheel: usize) -> Self {
        Self { hub, turner, ticks_per_wheel, state: AtomicU8::new(RUNNING) }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) == ENDED
    }

    /// True for the one caller that has to do it.
    pub(super) fn begin_to_end(&self) -> bool {
        self.state.swap(ENDED, Ordering::AcqRel) == RUNNING
    }

    pub(super) fn shutdown(&self) -> Result<Vec<Unfired>, ShutdownError> {
        if is_running_a_task_of(&self.hub) {
            return Err(ShutdownError::FromTask);
        }
        if !self.begin_to_end() {
            return Err(ShutdownError::AlreadyShutdown);
        }
        let left = match &self.turner {
            Turner::Workers(workers) => workers.end(&self.hub),
            Turner::Driver(shards) => close_driven(&self.hub, &mut lock(shards)),
        };
        self.hub.in_flight.wait();
        let scale = self.hub.timeline().scale();
        Ok(left.into_iter().map(|left| Unfired::new(scale.instant_of(left.deadline), left.task)).collect())
    }
}

/// Closes and removes all shards.
pub(super) fn close_driven(hub: &HubRef, shards: &mut Vec<Shard>) -> Vec<Left> {
    let mut left = Vec::new();
    for mut shard in shards.drain(..) {
        left.extend(shard.close(hub));
    }
    left
}

impl Drop for Engine {
    /// The last `Timer` has gone: nothing unfired runs any more, and nobody waits for anything.
    fn drop(&mut self) {
        if !self.begin_to_end() {
            return;
        }
        match &self.turner {
            Turner::Workers(workers) => workers.stop(&self.hub),
            Turner::Driver(shards) => {
                self.hub.mailboxes().iter().for_each(|mailbox| mailbox.order(Order::StopAndDiscard));
                // If the driver is in a turn right now, it sees the order at the end of it.
                let left = shards.try_lock().map(|mut shards| close_driven(&self.hub, &mut shards));
                discard(left.unwrap_or_default());
            }
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("hub", &self.hub).field("ended", &self.has_ended()).finish_non_exhaustive()
    }
}

/// An engine with workers on a clock that is moved by hand.
pub(super) struct FollowClock(pub(super) Weak<Engine>);

impl Follower for FollowClock {
    fn catch_up(&self) {
        let Some(engine) = self.0.upgrade() else { return };
        let Turner::Workers(workers) = &engine.turner else { return };
        let hub = &engine.hub;
        let started = |index: &usize| workers.is_started(*index);
        let all = 0..hub.mailboxes().len();
        if is_running_a_task_of(hub) {
            // Waiting would be waiting for the caller.
            all.filter(started).for_each(|index| hub.mailbox(index).ring());
            return;
        }
        let fired = || hub.mailboxes().iter().map(|mailbox| mailbox.counters.fired.get()).sum::<u64>();
        loop {
            let before = fired();
            all.clone().filter(started).for_each(|index| hub.mailbox(index).ask_and_wait());
            hub.in_flight.wait();
            // What ran may have scheduled something for a time that has come already.
            if engine.has_ended() || fired() == before {
                return;
            }
        }
    }

    fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}
