//! The writer commits: calls, and the ends of runs.

use std::sync::Arc;

use super::work::{Rest, Work};
use super::{Activity, Writer};
use crate::clock::Micros;
use crate::error::CommitError;
use crate::events::Event;
use crate::inbox::Armed;
use crate::store::{Answer, Failure, Moved, Op, Rejected, Token};

impl Writer {
    /// Commits the ends of runs, and as many calls as there is room for.
    pub(super) fn commit(&mut self) {
        if !self.may(Activity::Commit) {
            return;
        }
        let (mut ops, rests): (Vec<Op>, Vec<Rest>) = self
            .work
            .select(self.engine(), self.parts.store.batch())
            .into_iter()
            .map(|Work { op, rest }| (op, rest))
            .unzip();
        if ops.is_empty() {
            return;
        }
        let mut room = self.parts.window.room();
        ops.iter_mut().for_each(|op| self.decide_owner(op, &mut room));
        let works = |ops: Vec<Op>, rests: Vec<Rest>| ops.into_iter().zip(rests).map(|(op, rest)| Work { op, rest });
        // The lease must cover the rows that this process owns.
        if ops.iter().any(owns) && self.parts.lease.is_half_over(self.wall()) && !self.renew_now(Activity::Commit) {
            return self.work.put_back(works(ops, rests).collect());
        }
        let careful = rests.iter().any(Rest::was_rejected);
        let answers = self.parts.store.commit(&self.parts.owner, &ops, careful);
        if let Err(failure) = &answers {
            self.not_committed(works(ops, rests), failure);
            self.failed(Activity::Commit, failure);
            return;
        }
        let Some(answers) = self.answered(Activity::Commit, answers) else { return };
        self.parts.counters.commits.add(1);
        for (work, answer) in works(ops, rests).zip(answers) {
            match answer {
                Ok(answer) => {
                    self.parts.counters.written.add(1);
                    self.committed(work, answer);
                }
                Err(rejected) => self.rejected(work, rejected),
            }
        }
    }

    /// Answers what may be on disk. The rest waits for the store.
    fn not_committed(&mut self, works: impl Iterator<Item = Work>, failure: &Failure) {
        let Failure::Lost { reason, unknown: true } = failure else {
            return self.work.put_back(works.collect());
        };
        let mut ends = Vec::new();
        for work in works {
            match work.rest.reply {
                Some(reply) => reply.fail(CommitError::Unknown(reason.clone())),
                // If it was written, the row may be another's by now, under the very same token.
                None if matches!(work.op, Op::Unclaim(_)) => {
                    let token = work.op.token().expect("it is the end of a run");
                    self.settle(token);
                    self.running.remove(token);
                }
                None => ends.push(work),
            }
        }
        self.work.put_back(ends);
    }

    fn rejected(&mut self, work: Work, rejected: Rejected) {
        let now = self.engine();
        match (rejected, work) {
            (Rejected::Busy(reason), work) => {
                if let Some(token) = work.op.token() {
                    self.settle(token);
                }
                if let Some(reply) = &work.rest.reply {
                    reply.pending().explain(reason);
                }
                self.work.busy(work, now);
            }
            (Rejected::Bad(reason), Work { rest: Rest { reply: Some(reply), .. }, .. }) => {
                reply.fail(CommitError::Failed(reason));
            }
            (Rejected::Bad(reason), work) => {
                let token = work.op.token().expect("it is the end of a run").clone();
                self.settle(&token);
                self.set_aside(&token.key, &reason);
                self.work.bad(work, now);
            }
        }
    }

    /// Decides whether a row is to be this process's, because it comes up before the next scan.
    fn decide_owner(&mut self, op: &mut Op, room: &mut usize) {
        let (due, owned, handler) = match op {
            Op::Schedule { due, handler, owned, .. } => (*due, owned, Some(&**handler)),
            Op::Retry { token, due, owned } => (*due, owned, self.running.get(token).map(|running| &*running.handler)),
            Op::Reset { due, owned, .. } | Op::Revive { due, owned, .. } => (*due, owned, None),
            _ => return,
        };
        *owned = false;
        let runs_here = |handler| self.parts.handlers.get(handler).is_some_and(|handler| !handler.is_paused());
        let is_elsewhere = handler.is_some_and(|handler| !runs_here(handler));
        let is_full = *room == 0 || handler.is_some_and(|handler| self.lanes.is_full(handler));
        if is_elsewhere || due >= self.parts.window.horizon() || self.stopping.is_some() {
            return;
        }
        if is_full {
            self.leave_for_later(due);
        } else {
            *room -= 1;
            *owned = true;
        }
    }

    /// Notes that a row before the horizon has no owner.
    fn leave_for_later(&mut self, due: Micros) {
        self.beyond_room = Some(self.beyond_room.map_or(due, |before| before.min(due)));
    }

    fn committed(&mut self, work: Work, answer: Answer) {
        match work.rest.reply {
            Some(reply) => {
                self.written(work.op, &answer);
                reply.answer(answer);
            }
            None => self.ended(work.op, matches!(answer, Answer::Done(true))),
        }
    }

    /// Takes note of the end of a run, which the store has answered.
    fn ended(&mut self, op: Op, done: bool) {
        if let Op::GiveBack(token) = &op {
            return self.was_given_back(token, done);
        }
        let counters = Arc::clone(&self.parts.counters);
        let (token, counter) = match &op {
            Op::Complete(token) => (token, Some(&counters.completed)),
            Op::Retry { token, .. } => (token, Some(&counters.retried)),
            Op::Bury(token) => (token, Some(&counters.dead_lettered)),
            Op::Unclaim(token) => (token, None),
            _ => unreachable!("no run ends like this: {op:?}"),
        };
        self.settle(token);
        let running = self.running.remove(token);
        if !done {
            counters.stale_completions.add(1);
            self.parts.events.stale(token);
            return;
        }
        if let Some(counter) = counter {
            counter.add(1);
        }
        match op {
            Op::Retry { token: Token { key, generation, attempt }, due, owned: true } => {
                let Some(running) = running else { return };
                let armed = Armed { key, generation, handler: running.handler, bytes: running.bytes, suspect: false };
                let now = self.wall();
                self.parts.window.hold(armed, attempt, due, now);
            }
            Op::Bury(token) => self.parts.events.dead_letter(&token),
            // It is due, and nobody's.
            Op::Unclaim(_) if self.stopping.is_none() => self.next_scan = self.engine(),
            _ => {}
        }
    }

    /// Takes note of what was committed: arms it, or takes it out of the wheel.
    fn written(&mut self, op: Op, answer: &Answer) {
        let counters = &self.parts.counters;
        let (key, held) = match (op, answer) {
            (Op::Schedule { key, due, handler, payload, owned, .. }, Answer::Scheduled { generation }) => {
                counters.scheduled.add(1);
                (key, owned.then_some((*generation, handler, payload.len(), due)))
            }
            (Op::Reset { key, due, .. }, Answer::Moved(Some(moved))) => {
                counters.reset.add(1);
                (key, self.held_again(moved, due))
            }
            (Op::Revive { key, due, .. }, Answer::Moved(Some(moved))) => (key, self.held_again(moved, due)),
            (Op::Cancel { key }, Answer::Done(true)) => {
                counters.cancelled.add(1);
                (key, None)
            }
            _ => return,
        };
        match held {
            Some((generation, handler, bytes, due)) => {
                let now = self.wall();
                self.parts.window.hold(Armed { key, generation, handler, bytes, suspect: false }, 0, due, now);
            }
            None => self.parts.window.forget(&key),
        }
    }

    fn held_again(&self, moved: &Moved, due: Micros) -> Option<(i64, Arc<str>, usize, Micros)> {
        let handler = self.parts.handlers.name(&moved.handler).filter(|_| moved.owned)?;
        Some((moved.generation, handler, moved.bytes, due))
    }

    /// Notes that a run is over, as far as other runs are concerned.
    fn settle(&mut self, token: &Token) {
        let now = self.engine();
        if let Some(running) = self.running.get_mut(token)
            && std::mem::take(&mut running.counts)
        {
            self.lanes.ended(&running.handler, token, now);
        }
    }

    /// Says that one row is left alone for a while.
    pub(super) fn set_aside(&self, row: &str, reason: &str) {
        self.parts.counters.set_aside.add(1);
        self.parts.events.tell(Event::SetAside { row, reason });
    }
}

fn owns(op: &Op) -> bool {
    matches!(
        op,
        Op::Schedule { owned: true, .. }
            | Op::Reset { owned: true, .. }
            | Op::Retry { owned: true, .. }
            | Op::Revive { owned: true, .. }
    )
}
