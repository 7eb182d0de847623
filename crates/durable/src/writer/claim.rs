//! The writer claims what has come up, and hands it to the handlers.

use std::sync::Arc;
use std::time::Duration;

use super::work::BYTES;
use super::{Activity, Running, Writer};
use crate::due::Due;
use crate::events::Event;
use crate::handlers::Run;
use crate::inbox::Armed;
use crate::store::{Claim, Claimed, Op, Rejected, Token};
use crate::window::CameUp;

/// Claims of one transaction.
const CLAIMS: usize = 512;
/// A row that somebody has locked is tried again after this time.
const BUSY: Duration = Duration::from_millis(50);
/// A row that can't be read is tried again after this time: somebody may have repaired it.
const BAD: Duration = Duration::from_secs(60);

impl Writer {
    /// Claims what has come up, as far as it may run.
    pub(super) fn claim(&mut self) {
        if !self.may(Activity::Claim) {
            return;
        }
        loop {
            let ready = self.lanes.ready(self.engine(), CLAIMS, BYTES);
            if ready.is_empty() {
                return;
            }
            let (armed, claims) = self.due_of(ready);
            if claims.is_empty() {
                continue;
            }
            if !self.parts.lease.holds(self.wall()) && !self.renew_now(Activity::Claim) {
                return self.came_up_again(armed);
            }
            let claimed = self.parts.store.claim(&self.parts.owner, &claims);
            let Some(claimed) = self.answered(Activity::Claim, claimed) else {
                return self.came_up_again(armed);
            };
            for (armed, answer) in armed.iter().zip(claimed) {
                self.claimed(armed, answer);
            }
        }
    }

    /// Returns the timeouts that are still to run, each with its claim.
    fn due_of(&mut self, ready: Vec<Arc<Armed>>) -> (Vec<Arc<Armed>>, Vec<Claim>) {
        let now = self.wall();
        let (mut due, mut claims) = (Vec::<Arc<Armed>>::new(), Vec::new());
        let mut keys = std::collections::HashSet::new();
        for armed in ready {
            match self.parts.window.came_up(&armed, now) {
                CameUp::Due(claim) => {
                    // It may have come up twice, after a jump of the clock.
                    if keys.insert(Arc::clone(&claim.key)) {
                        claims.push(claim);
                        due.push(armed);
                    }
                }
                CameUp::Early => {}
                CameUp::Gone => self.parts.counters.lost_claims.add(1),
            }
        }
        (due, claims)
    }

    fn came_up_again(&mut self, armed: Vec<Arc<Armed>>) {
        armed.into_iter().for_each(|armed| self.lanes.came_up(armed));
    }

    fn claimed(&mut self, armed: &Armed, answer: Result<Option<Claimed>, Rejected>) {
        match answer {
            Ok(Some(row)) => {
                self.parts.counters.claimed.add(1);
                self.parts.window.forget(&armed.key);
                self.start(row, armed);
            }
            Ok(None) => {
                self.parts.counters.lost_claims.add(1);
                self.parts.window.forget(&armed.key);
            }
            Err(Rejected::Busy(_)) => self.parts.window.arm_again(&armed.key, BUSY),
            Err(Rejected::Bad(reason)) => {
                self.set_aside(&armed.key, &reason);
                self.parts.window.arm_again(&armed.key, BAD);
            }
        }
    }

    fn start(&mut self, row: Claimed, armed: &Armed) {
        let Claimed { key, generation, attempt, failures, due, claimed_at, handler, payload } = row;
        let due = Due { key, generation, attempt, due, claimed_at, payload };
        let (token, bytes) = (Token::of(&due), due.payload.len());
        let name = self.parts.handlers.name(&handler).unwrap_or_else(|| handler.as_str().into());
        let handler = self.parts.handlers.get(&handler).map(Arc::clone);
        let now = self.engine();
        // The runs before have each ended their process.
        let is_dead = handler.as_ref().is_some_and(|handler| failures >= handler.max_attempts);
        let handler = handler.filter(|_| !is_dead);
        let running = Running { handler: Arc::clone(&name), bytes, failures, counts: handler.is_some(), since: now };
        self.running.insert(token.clone(), running);
        let Some(handler) = handler else {
            return self.work.push_end(if is_dead { Op::Bury(token) } else { Op::Unclaim(token) });
        };
        self.lanes.begun(&name, armed.suspect.then_some(token), now);
        let run = Run { handler, due };
        self.parts.runners.run(&name, self.lanes.running(&name), run);
    }

    /// Tells an operator of handlers whose runs may hang.
    pub(super) fn tell_full(&mut self) {
        let now = self.engine();
        while let Some((handler, runs)) = self.lanes.full(now) {
            let theirs = self.running.values().filter(|running| running.handler == handler);
            let oldest = theirs.map(|running| now.saturating_duration_since(running.since)).max().unwrap_or_default();
            self.parts.events.tell(Event::Full { handler: &handler, runs, oldest });
        }
    }
}
