//! tokio-util's DelayQueue: one for all timers of the server.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::{Of, Timers, slot};
use crate::compare::systems::sessions::protocol::KINDS;

#[derive(Debug)]
pub(in super::super) struct Queue {
    queue: DelayQueue<Of>,
    keys: Vec<Option<Key>>,
}

impl Timers for Queue {
    const OF_TOKIO: bool = true;

    fn start(sessions: usize) -> Result<Self> {
        Ok(Self { queue: DelayQueue::with_capacity(2 * sessions), keys: Vec::new() })
    }

    fn arm(&mut self, of: Of, _delay: Duration, deadline: Instant) {
        match slot(&mut self.keys, of) {
            Some(key) => self.queue.reset_at(key, deadline.into()),
            empty => *empty = Some(self.queue.insert_at(of, deadline.into())),
        }
    }

    fn forget(&mut self, place: u32) {
        for kind in KINDS {
            if let Some(key) = slot(&mut self.keys, Of::new(place, kind)).take() {
                self.queue.remove(&key);
            }
        }
    }

    fn come_up(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>) {
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(context) {
            let of = expired.into_inner();
            *slot(&mut self.keys, of) = None;
            due.push(of);
        }
    }
}
