//! Handlers that are paused: this process neither takes nor claims their timeouts. It gives back
//! what it has of them, so that others run it.

use super::Writer;
use crate::events::Event;
use crate::store::{Op, Token};

/// Rows of one commit that gives back. With more, the claims behind it would be late.
const CHUNK: usize = 512;

impl Writer {
    /// Takes note of which handlers are paused now, if that has changed.
    pub(super) fn switch(&mut self) {
        if !self.parts.handlers.take_switched() {
            return;
        }
        let go_on: Vec<String> = self.parts.handlers.not_paused();
        let before = std::mem::replace(&mut self.parts.owner.handlers, go_on);
        for name in before.iter().filter(|name| !self.parts.owner.handlers.contains(name)) {
            self.lanes.forget(name);
            self.giving_back.extend(self.parts.window.take(name));
            self.parts.runners.give_up(name);
        }
        self.must_tell |= self.parts.owner.handlers != before;
        if self.parts.owner.handlers.iter().any(|name| !before.contains(name)) {
            self.next_scan = self.engine();
        }
    }

    /// Pauses a handler whose runtime takes no runs.
    pub(super) fn runtime_is_gone(&self, token: &Token) {
        let Some(running) = self.running.get(token).filter(|_| self.stopping.is_none()) else { return };
        if self.parts.handlers.pause(&running.handler, true) == Some(false) {
            self.parts.events.tell(Event::NotSpawned { handler: &running.handler });
        }
    }

    /// Whether a commit may give more back.
    pub(super) fn may_give_back(&self) -> bool {
        !self.giving_back.is_empty() && self.work.given_back() < CHUNK
    }

    /// Has the next commit give back some of it.
    pub(super) fn give_some_back(&mut self) {
        if self.giving_back.is_empty() {
            return;
        }
        // A row that somebody has locked holds up no other.
        let count = CHUNK.saturating_sub(self.work.given_back()).min(self.giving_back.len());
        for token in self.giving_back.drain(..count) {
            self.work.push_end(Op::GiveBack(token));
        }
    }

    /// Takes note of what the store has answered.
    pub(super) fn was_given_back(&mut self, token: &Token, done: bool) {
        // After a lost answer it was perhaps taken again before.
        if done && self.parts.window.holds(&token.key, token.generation) {
            self.parts.window.forget(&token.key);
        }
        // If the handler goes on by now, a scan takes it again.
        if self.giving_back.is_empty() && self.stopping.is_none() {
            self.next_scan = self.engine();
        }
    }
}
