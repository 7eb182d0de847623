//! All ways in which a program schedules, and the outcome that each should have.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tourbillon::{ScheduleError, Timeout, Timer};

use super::tasks::{Answer, Handle, again, answering, once, small_once};
use super::{Act, Kept, Pair, Rule, Via};

/// Calls a method of what a way leads to.
macro_rules! by_way {
    ($pair:expr, $via:expr, $place:ident => $call:expr) => {
        match $via {
            Via::Timer => {
                let $place = &$pair.timer;
                $call
            }
            Via::Elsewhere => elsewhere(&$pair.timer, |$place| $call),
            Via::Key(key) => {
                let $place = $pair.timer.shard_for(&key);
                $call
            }
        }
    };
}

/// Makes a call on another thread.
fn elsewhere<R: Send>(timer: &Timer, call: impl FnOnce(&Timer) -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(|| call(timer)).join().expect("no panic"))
}

impl Pair {
    fn accept(&mut self, id: u64, due: u128) {
        self.model.accept(id, due);
        self.brought(due);
    }

    /// Makes a call on this thread or another.
    fn call<R: Send>(&self, is_elsewhere: bool, call: impl FnOnce(&Timer) -> R + Send) -> R {
        if is_elsewhere { elsewhere(&self.timer, call) } else { call(&self.timer) }
    }

    /// The answer is the one that the model expects.
    fn check_answer<T, F>(&mut self, many: usize, answer: Result<T, ScheduleError<F>>) -> Option<T> {
        let is = answer.as_ref().map_or_else(Answer::of, |_| Answer::Accepted);
        assert_eq!(is, self.model.answer_to(many), "with {} pending", self.model.pending.len());
        if is != Answer::Accepted {
            self.model.counts.rejected += many as u64;
        }
        answer.ok()
    }

    fn keep(&self, id: u64, timeout: Timeout) {
        self.shared.handles().push((id, Handle::Plain(timeout)));
    }

    pub(super) fn schedule(&mut self, delay: Duration, kept: Kept, via: Via, act: Act) {
        let (id, due) = (self.shared.new_id(), self.after(delay));
        let answer = match (kept, act) {
            (Kept::Detached, Act::Nothing) => {
                let task = small_once(&self.shared, id);
                let answer = by_way!(self, via, place => place.schedule_detached(delay, task));
                self.check_answer(1, answer).map(|()| None)
            }
            (Kept::Detached, act) => {
                let task = once(&self.shared, id, act);
                let answer = by_way!(self, via, place => place.schedule_detached(delay, task));
                self.check_answer(1, answer).map(|()| None)
            }
            (_, Act::Nothing) => {
                let task = small_once(&self.shared, id);
                let answer = by_way!(self, via, place => place.schedule(delay, task));
                self.check_answer(1, answer).map(Some)
            }
            (_, act) => {
                let task = once(&self.shared, id, act);
                let answer = by_way!(self, via, place => place.schedule(delay, task));
                self.check_answer(1, answer).map(Some)
            }
        };
        let Some(timeout) = answer else { return };
        self.accept(id, due);
        let handle = match kept {
            Kept::Guarded => timeout.map(|timeout| Handle::Guard(timeout.cancel_on_drop())),
            Kept::Plainly | Kept::Detached => timeout.map(Handle::Plain),
        };
        self.shared.handles().extend(handle.map(|handle| (id, handle)));
    }

    pub(super) fn schedule_at(&mut self, offset: i64, via: Via) {
        let (deadline, due) = self.instant_at(offset);
        let id = self.shared.new_id();
        let task = small_once(&self.shared, id);
        let answer = by_way!(self, via, place => place.schedule_at(deadline, task));
        if let Some(timeout) = self.check_answer(1, answer) {
            self.accept(id, due);
            self.keep(id, timeout);
        }
    }

    pub(super) fn schedule_many(&mut self, delay: Duration, many: usize, is_elsewhere: bool) {
        let ids: Vec<_> = (0..many).map(|_| self.shared.new_id()).collect();
        let tasks: Vec<_> = ids.iter().map(|id| small_once(&self.shared, *id)).collect();
        let due = self.after(delay);
        let answer = self.call(is_elsewhere, |place| place.schedule_many(delay, tasks));
        for (id, timeout) in ids.into_iter().zip(self.check_answer(many, answer).into_iter().flatten()) {
            self.accept(id, due);
            self.keep(id, timeout);
        }
    }

    pub(super) fn schedule_periodic(&mut self, initial: Duration, rule: Rule, is_elsewhere: bool, act: Act) {
        let (id, due, shared) = (self.shared.new_id(), self.after(initial), Arc::clone(&self.shared));
        let rule = rule.coarser_than(self.options.tick);
        let task = again(&shared, id, act);
        let timeout = match rule {
            Rule::Rate(period, missed) => {
                shared.expect_bursts_of(period);
                let answer =
                    self.call(is_elsewhere, |place| place.schedule_at_fixed_rate_with(initial, period, missed, task));
                self.check_answer(1, answer)
            }
            Rule::Delay(delay) => {
                let answer = self.call(is_elsewhere, |place| place.schedule_with_fixed_delay(initial, delay, task));
                self.check_answer(1, answer)
            }
            Rule::Answer(delay, times) => {
                let task = answering(&shared, id, act, (delay, times));
                let answer = self.call(is_elsewhere, |place| place.schedule_repeating(initial, task));
                self.check_answer(1, answer)
            }
        };
        if let Some(timeout) = timeout {
            self.accept(id, due);
            self.model.accept_periodic(id, rule, initial, self.now());
            self.keep(id, timeout);
        }
    }
}
