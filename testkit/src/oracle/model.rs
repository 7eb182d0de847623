//! The model: the pending timeouts, and when each is due, in sorted maps. It knows nothing of the
//! engine except the answers of the engine and its tasks, and fails if one of them is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::step::Rule;
use super::tasks::{Answer, Ended, Event};
use crate::counters::Counts;

/// A deadline that never comes.
pub(crate) const NEVER: u128 = u128::MAX;

/// The number of subticks. The last one does not end.
const SUBTICKS: u128 = (1 << 54) - 1;

/// How the engine rounds: a tick is divided by two again and again, four times at most, as long as
/// a part is 25 us or more.
#[derive(Clone, Copy, Debug)]
struct Scale {
    tick_ns: u128,
    /// Subticks of a tick.
    parts: u128,
}

impl Scale {
    fn new(tick_ns: u128) -> Self {
        let parts = (0..=4).map(|bits| 1_u128 << bits).take_while(|parts| *parts == 1 || tick_ns / parts >= 25_000);
        Self { tick_ns, parts: parts.last().expect("a due is a part of itself") }
    }

    fn not_before(self, ns: u128) -> u128 {
        let subtick = (ns * self.parts).div_ceil(self.tick_ns);
        if subtick < SUBTICKS && ns < u128::from(u64::MAX) { subtick } else { NEVER }
    }

    fn come_by(self, ns: u128) -> u128 {
        (ns * self.parts / self.tick_ns).min(SUBTICKS - 1)
    }

    fn ns_of(self, subtick: u128) -> u128 {
        (subtick * self.tick_ns).div_ceil(self.parts)
    }

    /// Returns the end of the last tick that has come by this subtick.
    fn come_tick(self, subtick: u128) -> u128 {
        let end = subtick / self.parts * self.parts;
        if end < SUBTICKS { end } else { NEVER }
    }

    fn end_of_tick(self, subtick: u128) -> u128 {
        self.come_tick(subtick + self.parts - 1)
    }
}

/// A periodic timeout: when its next run is due by its schedule, and what this was rounded to.
#[derive(Debug)]
struct Periodic {
    rule: Rule,
    due_ns: u128,
    due: u128,
}

/// A task that has begun.
#[derive(Debug)]
struct Running {
    id: u64,
    /// When it was due.
    due: u128,
    /// Of a periodic timeout: its next run has been moved meanwhile.
    moved: bool,
}

/// The runner of the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// A turn, at this time.
    Turn(u128),
    /// A shutdown, at this time. It returns what is not due then.
    Drain(u128),
    FireNow,
    /// The caller of a shutdown, which returned the tasks.
    User,
}

impl Runner {
    fn is_the_end(self) -> bool {
        !matches!(self, Self::Turn(_))
    }
}

#[derive(Debug)]
pub(crate) struct Model {
    scale: Scale,
    /// How many may be pending.
    most: usize,
    /// When each pending timeout is due. All times are in subticks, unless they are in ns.
    pub(crate) pending: BTreeMap<u64, u128>,
    pub(crate) cancelled: BTreeSet<u64>,
    /// The expected values of the engine's counters, except how many are pending.
    pub(crate) counts: Counts,
    periodic: BTreeMap<u64, Periodic>,
    running: Option<Running>,
    /// A task could not cancel or reset them. So they are in this turn.
    must_run: BTreeSet<u64>,
    /// Reset by tasks of this turn.
    pub(crate) moved: BTreeSet<u64>,
    /// The time of the turn whose events the model hears.
    turn: Option<u128>,
    /// How often a task of this turn has cancelled or reset a periodic timeout whose run was due,
    /// and perhaps in the batch already. The engine counted it there, and yet it did not run.
    pub(crate) overtaken: u64,
}

impl Model {
    pub(crate) fn new(tick: Duration, most: Option<usize>) -> Self {
        Self {
            scale: Scale::new(tick.as_nanos()),
            most: most.unwrap_or(usize::MAX),
            pending: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            counts: Counts::default(),
            periodic: BTreeMap::new(),
            running: None,
            must_run: BTreeSet::new(),
            moved: BTreeSet::new(),
            turn: None,
            overtaken: 0,
        }
    }

    /// Returns the last subtick that has come when the clock says `at`.
    pub(crate) fn now(&self, at: Duration) -> u128 {
        self.scale.come_by(at.as_nanos())
    }

    pub(crate) fn has_run_out_of_time(&self, at: Duration) -> bool {
        self.now(at) == SUBTICKS - 1
    }

    /// Returns when a subtick comes.
    pub(crate) fn ns_of(&self, due: u128) -> u128 {
        self.scale.ns_of(due)
    }

    /// Returns the subtick that comes at this time.
    pub(crate) fn subtick_at(&self, ns: u128) -> u128 {
        let subtick = self.scale.come_by(ns);
        assert_eq!(self.scale.ns_of(subtick), ns, "no subtick comes then");
        subtick
    }

    /// Returns when a delay ends that begins when the clock says `at`.
    pub(crate) fn after(&self, delay: Duration, at: Duration) -> u128 {
        if delay.is_zero() {
            return self.scale.come_tick(self.now(at));
        }
        self.scale.not_before(at.as_nanos() + delay.as_nanos())
    }

    /// Returns the answer that scheduling `many` timeouts should get, between turns.
    pub(crate) fn answer_to(&self, many: usize) -> Answer {
        if self.pending.len() + many <= self.most { Answer::Accepted } else { Answer::Full }
    }

    pub(crate) fn accept(&mut self, id: u64, due: u128) {
        self.counts.scheduled += 1;
        assert!(self.pending.insert(id, due).is_none(), "{id} is new");
    }

    pub(crate) fn accept_periodic(&mut self, id: u64, rule: Rule, initial: Duration, at: Duration) {
        let (due_ns, due) = (at.as_nanos() + initial.as_nanos(), self.after(initial, at));
        self.periodic.insert(id, Periodic { rule, due_ns, due });
    }

    pub(crate) fn is_periodic(&self, id: u64) -> bool {
        self.periodic.contains_key(&id)
    }

    /// Returns when the next one is due that will ever be.
    pub(crate) fn earliest(&self) -> Option<u128> {
        self.pending.values().copied().min().filter(|due| *due != NEVER)
    }

    /// Returns what is due by then.
    pub(crate) fn due(&self, now: u128) -> Vec<u64> {
        self.pending.iter().filter(|(_, due)| **due <= now).map(|(id, _)| *id).collect()
    }

    pub(crate) fn cancel(&mut self, id: u64) {
        let due = self.pending.remove(&id).unwrap_or_else(|| panic!("{id} was cancelled, and was not pending"));
        self.overtake(id, due);
        self.cancelled.insert(id);
        self.counts.cancelled += 1;
    }

    /// Drops all that are left, because nothing can use them any more.
    pub(crate) fn drop_all(&mut self) {
        self.counts.returned += self.pending.len() as u64;
        self.cancelled.extend(std::mem::take(&mut self.pending).into_keys());
    }

    /// Takes a timeout that a shutdown has returned.
    pub(crate) fn take_back(&mut self, id: u64) -> u128 {
        self.counts.returned += 1;
        self.cancelled.insert(id);
        self.pending.remove(&id).expect("only what was pending is returned, and once")
    }

    /// Judges what the tasks of one turn have recorded.
    pub(crate) fn hear(&mut self, events: Vec<Event>, by: Runner) {
        if by != Runner::User {
            self.moved.clear();
            self.overtaken = 0;
        }
        self.turn = if let Runner::Turn(now) = by { Some(now) } else { None };
        for event in events {
            match event {
                Event::Began { id } => self.began(id, by),
                Event::Ended { id, at, how } => self.ended(id, at, how, by),
                Event::Scheduled { id, delay, at, answer, pending } => {
                    self.asked_for(answer, pending, by);
                    match answer {
                        Answer::Accepted => self.accept(id, self.after(delay, at)),
                        Answer::Full | Answer::Shutdown => self.counts.rejected += 1,
                    }
                }
                Event::Cancelled { id, answer: true } => self.cancel(id),
                Event::Reset { id, delay, at, answer: true } => self.reset(id, self.after(delay, at)),
                Event::Cancelled { id, answer: false } | Event::Reset { id, answer: false, .. } => {
                    self.too_late(id, by)
                }
            }
        }
        assert!(self.running.is_none(), "what began has ended");
        assert!(self.must_run.is_empty(), "they were past being cancelled, and did not run: {:?}", self.must_run);
    }

    fn began(&mut self, id: u64, by: Runner) {
        assert!(self.running.is_none(), "one at a time");
        if by == Runner::User {
            // It is not pending any more.
            self.running = Some(Running { id, due: 0, moved: false });
            return;
        }
        let due = *self.pending.get(&id).unwrap_or_else(|| panic!("{id} runs, and is not pending"));
        if let Runner::Turn(now) | Runner::Drain(now) = by {
            assert!(due <= now, "{id} is early: {now} instead of {due}");
        }
        let goes_on = matches!(by, Runner::Drain(_)) && self.is_periodic(id);
        assert!(!goes_on, "{id} is periodic, and begins in a drain");
        self.must_run.remove(&id);
        self.counts.fired += 1;
        if !self.periodic.contains_key(&id) {
            self.pending.remove(&id);
        }
        self.running = Some(Running { id, due, moved: false });
    }

    fn ended(&mut self, id: u64, at: Duration, how: Ended, by: Runner) {
        let running = self.running.take().expect("it began");
        assert_eq!(running.id, id);
        if by == Runner::User {
            return;
        }
        self.counts.panicked += u64::from(how == Ended::Panicked);
        let Some(periodic) = self.periodic.get_mut(&id) else { return };
        let Some(next) = self.pending.get_mut(&id) else {
            // Cancelled meanwhile.
            self.counts.repeated += 1;
            return;
        };
        if how != Ended::ByRule || by.is_the_end() {
            self.pending.remove(&id);
            if how == Ended::ByRule {
                self.cancelled.insert(id);
            }
            return;
        }
        // It was reset before: the schedule goes on from there.
        if running.due != periodic.due {
            periodic.due_ns = self.scale.ns_of(running.due);
        }
        periodic.due_ns = periodic.rule.next_ns(periodic.due_ns, at.as_nanos());
        let due = self.scale.not_before(periodic.due_ns);
        // No delay is the end of the tick.
        let is_at_once = matches!(periodic.rule, Rule::Answer(Duration::ZERO, _));
        periodic.due = if is_at_once { self.scale.end_of_tick(due) } else { due };
        self.counts.repeated += 1;
        if !running.moved {
            *next = periodic.due;
        }
    }

    /// A task has scheduled, when the engine said that `pending` timeouts were pending.
    fn asked_for(&self, answer: Answer, pending: usize, by: Runner) {
        if by.is_the_end() {
            assert_eq!(answer, Answer::Shutdown, "the engine has ended");
            return;
        }
        assert_eq!(answer == Answer::Accepted, pending < self.most, "{answer:?} with {pending} of {}", self.most);
        assert_ne!(answer, Answer::Shutdown);
        // The timeouts in the turn have made room already.
        let Runner::Turn(now) = by else { return };
        let is_sure = |(id, due): &(&u64, &u128)| **due > now || self.periodic.contains_key(id);
        let sure = self.pending.iter().filter(is_sure).count();
        assert!((sure..=self.pending.len()).contains(&pending), "{pending} pending of {}", self.pending.len());
    }

    pub(crate) fn reset(&mut self, id: u64, due: u128) {
        let old = self.pending.insert(id, due).unwrap_or_else(|| panic!("{id} was reset, and was not pending"));
        self.overtake(id, old);
        self.counts.reset += 1;
        self.moved.insert(id);
        if let Some(running) = self.running.as_mut().filter(|running| running.id == id) {
            running.moved = true;
        }
    }

    /// A task has cancelled or reset it, when it was due then.
    fn overtake(&mut self, id: u64, due: u128) {
        // By another task than its own, whose run it is too late for.
        let by_another = self.running.as_ref().is_some_and(|running| running.id != id);
        if by_another && self.turn.is_some_and(|now| due <= now) && self.periodic.contains_key(&id) {
            self.overtaken += 1;
        }
    }

    /// A task has found that a timeout is not pending any more.
    fn too_late(&mut self, id: u64, by: Runner) {
        let Some(due) = self.pending.get(&id) else { return };
        match by {
            Runner::Turn(now) => {
                assert!(*due <= now, "{id} is not due, and yet not pending");
                assert!(!self.periodic.contains_key(&id), "{id} is periodic, which is pending also when it runs");
                self.must_run.insert(id);
            }
            // It may have been taken back already.
            Runner::Drain(_) | Runner::FireNow | Runner::User => {}
        }
    }
}
