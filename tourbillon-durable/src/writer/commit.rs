//! The writer commits: calls, and the ends of runs.

use std::sync::Arc;

use super::Writer;
use crate::clock::Micros;
use crate::error::CommitError;
use crate::events;
use crate::inbox::{Command, Reply};
use crate::store::{Answer, Failure, Moved, Op, Token};

impl Writer {
    /// Commits the ends of runs, and as many calls as there is room for.
    pub(super) fn commit(&mut self, commands: Vec<Command>) -> bool {
        let ends = self.ends.len().min(self.parts.store.batch());
        if ends == 0 && commands.is_empty() {
            return true;
        }
        let now = self.wall();
        let mut room = self.parts.window.room();
        let mut ops: Vec<Op> = self.ends.drain(..ends).collect();
        let mut replies: Vec<Reply> = Vec::with_capacity(commands.len());
        for command in commands {
            ops.push(command.op);
            replies.push(command.reply);
        }
        for op in &mut ops {
            self.decide_owner(op, &mut room);
        }
        let owns = ops.iter().any(owns);
        let lease = owns && self.parts.lease.is_half_over(now);
        let asked = self.asked_for_lease();
        let answers = self.parts.store.commit(&self.parts.owner, &ops, lease);
        let answers = match answers {
            Ok(answers) => answers,
            Err(failure) => {
                let error = match &failure {
                    Failure::Lost(reason) => CommitError::Unknown(reason.clone()),
                    Failure::Refused(reason) => CommitError::Failed(reason.clone()),
                };
                self.ends.extend(ops.drain(..ends));
                replies.into_iter().for_each(|reply| reply.fail(error.clone()));
                self.failed(&failure);
                return false;
            }
        };
        if lease {
            self.grant(asked);
        }
        self.parts.counters.commits.add(1);
        self.parts.counters.written.add(ops.len() as u64);
        let mut answers = answers.into_iter();
        let mut ops = ops.into_iter();
        for op in ops.by_ref().take(ends) {
            let done = matches!(answers.next(), Some(Answer::Done(true)));
            self.ended(op, done);
        }
        for ((op, answer), reply) in ops.zip(answers).zip(replies) {
            self.written(op, &answer);
            reply.answer(answer);
        }
        true
    }

    /// Decides whether a row is to be this process's, because it comes up before the next scan.
    fn decide_owner(&mut self, op: &mut Op, room: &mut usize) {
        let (due, owned) = match op {
            Op::Schedule { due, handler, owned, .. } if self.parts.handlers.run_here(handler) => (*due, owned),
            Op::Reset { due, owned, .. } | Op::Retry { due, owned, .. } | Op::Revive { due, owned, .. } => {
                (*due, owned)
            }
            _ => return,
        };
        if due >= self.parts.window.horizon() || self.stopping.is_some() {
            return;
        }
        if *room > 0 {
            *room -= 1;
            *owned = true;
        } else {
            self.leave_for_later(due);
        }
    }

    /// Notes that a row before the horizon has no owner.
    fn leave_for_later(&mut self, due: Micros) {
        self.beyond_room = Some(self.beyond_room.map_or(due, |before| before.min(due)));
    }

    /// Takes note of the end of a run, which the store has answered.
    fn ended(&mut self, op: Op, done: bool) {
        let counters = Arc::clone(&self.parts.counters);
        let (token, counter) = match &op {
            Op::Complete(token) => (token, Some(&counters.completed)),
            Op::Retry { token, .. } => (token, Some(&counters.retried)),
            Op::Bury(token) => (token, Some(&counters.dead_lettered)),
            Op::Unclaim(token) => (token, None),
            _ => unreachable!("no run ends like this: {op:?}"),
        };
        self.running.remove(token);
        if !done {
            counters.stale_completions.add(1);
            events::stale(token);
            return;
        }
        if let Some(counter) = counter {
            counter.add(1);
        }
        match op {
            Op::Retry { token: Token { key, generation, attempt }, due, owned: true } => {
                let now = self.wall();
                self.parts.window.hold(key, generation, attempt, due, now);
            }
            Op::Bury(token) => events::dead_letter(&token),
            // It is due, and nobody's.
            Op::Unclaim(_) if self.stopping.is_none() => self.next_scan = self.engine(),
            _ => {}
        }
    }

    /// Takes note of what was committed: arms it, or takes it out of the wheel.
    fn written(&mut self, op: Op, answer: &Answer) {
        let counters = &self.parts.counters;
        let (key, held) = match (op, answer) {
            (Op::Schedule { key, due, owned, .. }, Answer::Scheduled { generation }) => {
                counters.scheduled.add(1);
                (key, owned.then_some((*generation, due)))
            }
            (Op::Reset { key, due, .. }, Answer::Moved(Some(Moved { generation, owned }))) => {
                counters.reset.add(1);
                (key, owned.then_some((*generation, due)))
            }
            (Op::Revive { key, due, .. }, Answer::Moved(Some(Moved { generation, owned }))) => {
                (key, owned.then_some((*generation, due)))
            }
            (Op::Cancel { key }, Answer::Done(true)) => {
                counters.cancelled.add(1);
                (key, None)
            }
            _ => return,
        };
        match held {
            Some((generation, due)) => {
                let now = self.wall();
                self.parts.window.hold(key, generation, 0, due, now);
            }
            None => self.parts.window.forget(&key),
        }
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
