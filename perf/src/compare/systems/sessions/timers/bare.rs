//! The floor: replies are paced by an array of 64 slots of 1 ms, and there is no other timer.
//! Nothing that paces at all can cost less.

use std::task::Context;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::wake_at::WakeAt;
use super::{Of, Timers};
use crate::compare::systems::sessions::protocol::Kind;
use crate::duration::Epoch;

/// The longest pacing is 50 ms.
const SLOTS: u64 = 64;
const TICK_NS: u64 = 1_000_000;

#[derive(Debug)]
pub(in super::super) struct Bare {
    slots: Vec<Vec<Of>>,
    epoch: Epoch,
    /// The tick that comes up next.
    next: u64,
    waiting: usize,
    wake_at: WakeAt,
}

impl Timers for Bare {
    const OF_TOKIO: bool = false;

    fn start(_sessions: usize) -> Result<Self> {
        let slots = (0..SLOTS).map(|_| Vec::new()).collect();
        Ok(Self { slots, epoch: Epoch::start(), next: 1, waiting: 0, wake_at: WakeAt::new()? })
    }

    fn arm(&mut self, of: Of, _delay: Duration, deadline: Instant) {
        if of.kind() == Kind::Pacing {
            let tick = self.epoch.nanos(deadline).div_ceil(TICK_NS).clamp(self.next, self.next + SLOTS - 1);
            self.slots[(tick % SLOTS) as usize].push(of);
            self.waiting += 1;
        }
    }

    fn forget(&mut self, _place: u32) {}

    fn come_up(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>) {
        let now = self.epoch.nanos(Instant::now()) / TICK_NS;
        while self.next <= now && self.waiting > 0 {
            let slot = &mut self.slots[(self.next % SLOTS) as usize];
            self.waiting -= slot.len();
            due.append(slot);
            self.next += 1;
        }
        self.next = self.next.max(now + 1);
        let full = (self.next..self.next + SLOTS).find(|tick| !self.slots[(tick % SLOTS) as usize].is_empty());
        if self.wake_at.set(full.map(|tick| self.epoch.at(tick * TICK_NS)), context) {
            context.waker().wake_by_ref();
        }
    }
}
