//! What the `Timer`s of one engine share, and how it ends.

use std::fmt;
use std::sync::{Arc, Weak};

use super::error::ShutdownError;
use super::shutdown::Unfired;
use crate::executor::{is_running_a_task, is_running_a_task_of};
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
        if is_running_a_task() {
            // What waits in an executor may wait for the very thread that this is.
            self.hub.in_flight.wait_for_running();
        } else {
            self.hub.in_flight.wait();
        }
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

impl FollowClock {
    /// The engine, and those of its shards whose workers run. The others have nothing that could be due.
    fn engine(&self) -> Option<(Arc<Engine>, Vec<usize>)> {
        let engine = self.0.upgrade()?;
        let Turner::Workers(workers) = &engine.turner else { return None };
        let started = (0..engine.hub.mailboxes().len()).filter(|shard| workers.is_started(*shard)).collect();
        Some((engine, started))
    }
}

impl Follower for FollowClock {
    fn ring(&self) {
        if let Some((engine, started)) = self.engine() {
            started.into_iter().for_each(|shard| _ = engine.hub.mailbox(shard).ask());
        }
    }

    fn catch_up(&self) -> bool {
        // From a task, waiting might be waiting for the caller, or for somebody who waits for it.
        if is_running_a_task() {
            return false;
        }
        if let Some((engine, started)) = self.engine() {
            started.into_iter().for_each(|shard| engine.hub.mailbox(shard).ask_and_wait());
            engine.hub.in_flight.wait();
        }
        true
    }

    fn progress(&self) -> u64 {
        let Some(engine) = self.0.upgrade() else { return 0 };
        let fired = engine.hub.mailboxes().iter().map(|mailbox| mailbox.counters.fired.get()).sum::<u64>();
        fired.wrapping_add(engine.hub.in_flight.ended() as u64)
    }

    fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}
