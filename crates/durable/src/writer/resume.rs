//! The writer after a lost connection: it asks for what the lost answers said.

use super::{Activity, Writer};
use crate::events::Event;
use crate::inbox::Armed;
use crate::store::{Claim, Op, Taken, Token};

impl Writer {
    /// After a lost connection: connects, and asks for what the lost answers said. Returns whether
    /// there is a connection.
    pub(super) fn resume(&mut self) -> bool {
        if !self.lost {
            return true;
        }
        if !self.may(Activity::Connect) {
            return false;
        }
        let connected = self.parts.store.reconnect();
        if self.answered(Activity::Connect, connected).is_none() || !self.renew_now(Activity::Connect) {
            return false;
        }
        if !self.look() {
            return false;
        }
        self.lost = false;
        self.pauses[Activity::Connect as usize].succeeded();
        self.parts.patience.note(None);
        self.told = None;
        // A server that hung may still carry out what the lost connection has sent.
        self.keep_looking();
        self.next_scan = self.engine();
        self.parts.events.tell(Event::Reconnected);
        true
    }

    /// Looks for rows that the store says are this process's, and that it does not know of.
    pub(super) fn look(&mut self) -> bool {
        let mine = self.parts.store.mine(&self.parts.owner);
        let Some(mine) = self.answered(Activity::Connect, mine) else { return false };
        let under_way: Vec<Claim> = mine.into_iter().filter_map(|row| self.found(row)).collect();
        if under_way.is_empty() {
            return true;
        }
        let claimed = self.parts.store.claim(&self.parts.owner, &under_way);
        self.answered(Activity::Connect, claimed).is_some()
    }

    /// Arms a row that nobody knows of. Returns a claim that is to be repeated.
    fn found(&mut self, row: Taken) -> Option<Claim> {
        let Taken { key, due, generation, attempts, handler, bytes, suspect, running } = row;
        // A claim whose answer was lost is claimed once more, which answers the same.
        let attempts = if running { attempts.saturating_sub(1) } else { attempts };
        let token = Token { key, generation, attempt: attempts + 1 };
        if self.running.contains_key(&token) {
            // A server that crashed has lost the claim, and the run goes on.
            return (!running).then_some(Claim { key: token.key, generation, attempts });
        }
        if self.parts.handlers.get(&handler).is_some_and(|handler| handler.is_paused()) {
            if running {
                self.work.push_end(Op::Unclaim(token));
            } else {
                self.giving_back.push_back(Token { attempt: attempts, ..token });
            }
            return None;
        }
        let known = self.parts.window.holds(&token.key, generation);
        if let Some(handler) = self.parts.handlers.name(&handler).filter(|_| !known) {
            let now = self.wall();
            self.parts.window.hold(Armed { key: token.key, generation, handler, bytes, suspect }, attempts, due, now);
        }
        None
    }
}
