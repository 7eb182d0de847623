//! The timeouts that this process owns and that come up soon, in the engine's wheel.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tourbillon::{Timeout, Timer};

use crate::clock::Micros;
use crate::inbox::{Armed, Inbox};
use crate::store::{Claim, Token};

/// The owned timeouts that are not claimed. Only the writer has it.
pub(crate) struct Window {
    timer: Timer,
    inbox: Arc<Inbox>,
    held: HashMap<Arc<str>, Held>,
    capacity: usize,
    /// This process owns a timeout that it schedules if it is due before this.
    horizon: Micros,
    /// Whether the engine has refused one.
    unarmed: bool,
}

struct Held {
    armed: Arc<Armed>,
    /// When it is to come up: the deadline, or later if many are overdue.
    at: Micros,
    attempts: u32,
    /// `None` if the engine has refused it.
    timeout: Option<Timeout>,
}

/// A timeout that has come up in the wheel.
pub(crate) enum CameUp {
    Due(Claim),
    /// The wall clock has gone back. It is armed again.
    Early,
    /// It was cancelled, moved or replaced after it had come up.
    Gone,
}

impl Window {
    pub(crate) fn new(timer: Timer, inbox: Arc<Inbox>, capacity: usize) -> Self {
        Self { timer, inbox, held: HashMap::new(), capacity, horizon: Micros(i64::MIN), unarmed: false }
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// How many more may be held.
    pub(crate) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.held.len())
    }

    pub(crate) fn is_half_empty(&self) -> bool {
        self.held.len() <= self.capacity / 2
    }

    pub(crate) fn horizon(&self) -> Micros {
        self.horizon
    }

    pub(crate) fn set_horizon(&mut self, horizon: Micros) {
        self.horizon = horizon;
    }

    pub(crate) fn holds(&self, key: &str, generation: i64) -> bool {
        self.held.get(key).is_some_and(|held| held.armed.generation == generation)
    }

    /// Arms a timeout that the store says is ours, in place of an earlier one of its key.
    pub(crate) fn hold(&mut self, armed: Armed, attempts: u32, at: Micros, now: Micros) {
        self.forget(&armed.key);
        let armed = Arc::new(armed);
        let timeout = self.arm(&armed, at.since(now));
        self.held.insert(Arc::clone(&armed.key), Held { armed, at, attempts, timeout });
    }

    /// Takes a timeout out of the wheel.
    pub(crate) fn forget(&mut self, key: &str) {
        if let Some(Held { timeout: Some(timeout), .. }) = self.held.remove(key) {
            timeout.cancel_owned();
        }
    }

    /// Takes out all of a handler, each with what its next claim would compare.
    pub(crate) fn take(&mut self, handler: &str) -> Vec<Token> {
        let of_handler = self.held.extract_if(|_, held| &*held.armed.handler == handler);
        of_handler
            .map(|(key, Held { armed, attempts, timeout, .. })| {
                timeout.map(Timeout::cancel_owned);
                Token { key, generation: armed.generation, attempt: attempts }
            })
            .collect()
    }

    /// Says what to do with a timeout that has come up. It stays held until it is forgotten.
    pub(crate) fn came_up(&mut self, armed: &Armed, now: Micros) -> CameUp {
        let Some(held) = self.held.get(&armed.key).filter(|held| held.armed.generation == armed.generation) else {
            return CameUp::Gone;
        };
        if held.at > now {
            let (key, delay) = (Arc::clone(&armed.key), held.at.since(now));
            self.arm_again(&key, delay);
            return CameUp::Early;
        }
        CameUp::Due(Claim { key: Arc::clone(&armed.key), generation: armed.generation, attempts: held.attempts })
    }

    /// Has one that has come up, and could not be claimed, come up once more.
    pub(crate) fn arm_again(&mut self, key: &str, delay: Duration) {
        let Some(held) = self.held.get(key) else { return };
        let armed = Arc::clone(&held.armed);
        let timeout = self.arm(&armed, delay);
        if let Some(held) = self.held.get_mut(key) {
            held.timeout = timeout;
        }
    }

    /// Arms all anew, after the wall clock has jumped.
    pub(crate) fn rearm(&mut self, now: Micros) {
        for held in self.held.values() {
            if let Some(timeout) = &held.timeout {
                // False if it has come up already. Then `came_up` looks at the clock.
                let _ = timeout.reset(held.at.since(now));
            }
        }
    }

    /// Arms what the engine has refused, if it takes it now.
    pub(crate) fn arm_refused(&mut self, now: Micros) {
        if !std::mem::take(&mut self.unarmed) {
            return;
        }
        let refused: Vec<_> = self
            .held
            .iter()
            .filter(|(_, held)| held.timeout.is_none())
            .map(|(key, held)| (Arc::clone(key), held.at.since(now)))
            .collect();
        for (key, delay) in refused {
            self.arm_again(&key, delay);
        }
    }

    /// Forgets all, and cancels those that are in the wheel.
    pub(crate) fn clear(&mut self) {
        for (_, held) in self.held.drain() {
            held.timeout.map(Timeout::cancel_owned);
        }
    }

    fn arm(&mut self, armed: &Arc<Armed>, delay: Duration) -> Option<Timeout> {
        let (inbox, armed) = (Arc::clone(&self.inbox), Arc::clone(armed));
        let timeout = self.timer.schedule(delay, move || inbox.push_due(armed)).ok();
        self.unarmed |= timeout.is_none();
        timeout
    }
}
