//! The writer claims what has come up, and hands it to the handlers.

use std::collections::HashSet;
use std::sync::Arc;

use super::Writer;
use crate::due::Due;
use crate::handlers::Run;
use crate::inbox::Armed;
use crate::store::{Claim, Claimed, Op, Token};
use crate::window::CameUp;

/// Claims of one transaction.
const CLAIMS: usize = 512;

impl Writer {
    /// Claims what has come up, as far as it may run.
    pub(super) fn claim(&mut self) -> bool {
        let mut claims = Vec::new();
        let mut keys = HashSet::new();
        loop {
            let room = self.may_claim().min(CLAIMS);
            let now = self.wall();
            while claims.len() < room {
                let Some(armed) = self.came_up.pop_front() else { break };
                match self.parts.window.came_up(&armed, now) {
                    CameUp::Due(claim) => {
                        if keys.insert(Arc::clone(&claim.key)) {
                            claims.push(claim);
                        }
                    }
                    CameUp::Early => {}
                    CameUp::Gone => self.parts.counters.lost_claims.add(1),
                }
            }
            if claims.is_empty() {
                return true;
            }
            if !self.parts.lease.holds(now) && !self.renew_now() {
                self.came_up_again(&claims);
                return false;
            }
            let claimed = self.parts.store.claim(&self.parts.owner, &claims);
            let Some(claimed) = self.answered(claimed) else {
                self.came_up_again(&claims);
                return false;
            };
            self.parts.counters.claimed.add(claimed.len() as u64);
            self.parts.counters.lost_claims.add((claims.len() - claimed.len()) as u64);
            for claim in claims.drain(..) {
                self.parts.window.forget(&claim.key);
            }
            keys.clear();
            for row in claimed {
                self.start(row);
            }
        }
    }

    fn came_up_again(&mut self, claims: &[Claim]) {
        for claim in claims {
            self.came_up.push_back(Arc::new(Armed { key: Arc::clone(&claim.key), generation: claim.generation }));
        }
    }

    fn start(&mut self, row: Claimed) {
        let Claimed { key, generation, attempt, due, claimed_at, handler, payload } = row;
        let token = Token { key: Arc::clone(&key), generation, attempt };
        self.running.insert(token.clone());
        if attempt > self.parts.limits.max_attempts {
            // The attempts before have each ended with their process.
            self.ends.push_back(Op::Bury(token));
            return;
        }
        match self.parts.handlers.get(&handler) {
            Some(handler) => {
                let due = Due { key, generation, attempt, due, claimed_at, payload };
                self.parts.runners.run(Run { handler: Arc::clone(handler), due });
            }
            None => self.ends.push_back(Op::Unclaim(token)),
        }
    }
}
