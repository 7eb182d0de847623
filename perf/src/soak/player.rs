//! A producer: a seeded stream of all operations on some engines.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use fastrand::Rng;
use tourbillon::{MissedTicks, Timer};

use super::held::Held;
use super::stingy::without_memory_for_timeouts;
use super::subject::Subject;
use super::tally::{Count, Tally};
use super::work::{Body, Place, Rule, Way, many, once, series};

/// A handle that one producer sends another.
pub(crate) enum Parcel {
    /// To be cancelled or reset there.
    Handle(Held),
    /// To be cancelled here and there at once.
    Contested(Arc<Held>),
}

/// A producer's letter box.
pub(crate) type LetterBox = Arc<ArrayQueue<Parcel>>;

/// Handles that a producer keeps at most.
const KEPT: usize = 3_000;

thread_local! {
    /// Handles that are dropped with the thread's locals, after its own frame.
    static LATE: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// One producer.
pub(crate) struct Player {
    rng: Rng,
    subjects: Arc<Vec<Arc<Subject>>>,
    tally: Arc<Tally>,
    mine: LetterBox,
    others: Vec<LetterBox>,
    held: Vec<Held>,
}

impl Player {
    pub(crate) fn new(
        seed: u64,
        subjects: Arc<Vec<Arc<Subject>>>,
        tally: Arc<Tally>,
        mine: LetterBox,
        others: Vec<LetterBox>,
    ) -> Self {
        Self { rng: Rng::with_seed(seed), subjects, tally, mine, others, held: Vec::new() }
    }

    /// Does `operations` operations, with a rest now and then.
    pub(crate) fn play(&mut self, operations: u32, mut is_over: impl FnMut() -> bool) {
        for at in 0..operations {
            if at % 64 == 0 {
                if is_over() {
                    return;
                }
                thread::sleep(Duration::from_micros(self.rng.u64(0..600)));
            }
            self.step();
        }
    }

    /// Gives up half of its handles, for somebody else.
    pub(crate) fn hand_over(&mut self) -> Vec<Held> {
        self.held.split_off(self.held.len() / 2)
    }

    /// The producer dies: with some of its handles in its thread's locals.
    pub(crate) fn die(mut self) {
        let late = self.held.len().min(50);
        let mut late = self.held.split_off(self.held.len() - late);
        late.iter_mut().step_by(2).for_each(Held::guard);
        self.tally.did_many(Count::LateDrop, late.len() as u64);
        LATE.with_borrow_mut(|kept| kept.extend(late));
    }

    fn step(&mut self) {
        if self.held.len() > KEPT {
            let oldest: Vec<Held> = self.held.drain(..KEPT / 3).collect();
            oldest.iter().for_each(|held| _ = held.cancel());
        }
        match self.rng.u32(0..100) {
            0..6 => without_memory_for_timeouts(|| self.schedule()),
            6..34 => self.schedule(),
            34 => without_memory_for_timeouts(|| self.schedule_series()),
            35..38 => self.schedule_series(),
            38 => without_memory_for_timeouts(|| self.schedule_many()),
            39 => self.schedule_many(),
            40..64 => self.reset(),
            64..84 => self.cancel(),
            84..88 => self.let_go(),
            88..92 => self.send(),
            _ => self.receive(),
        }
    }

    fn subject(&mut self) -> Option<(Arc<Subject>, Timer)> {
        let subject = Arc::clone(self.rng.choice(self.subjects.iter())?);
        let timer = subject.timer()?;
        Some((subject, timer))
    }

    fn body(&mut self, subject: &Subject) -> Body {
        match self.rng.u32(0..20_000) {
            0..2 if subject.inline => Body::Hold,
            2..22 => Body::Slow(self.rng.u8(1..8)),
            22..400 => Body::Panic,
            400..1_600 => Body::Nested(self.rng.u8(..)),
            1_600..4_000 => Body::Large,
            4_000..4_600 if subject.context.board.is_some() => Body::Meddle(self.rng.u8(..)),
            _ => Body::Plain,
        }
    }

    fn delay(&mut self) -> Duration {
        let micros = match self.rng.u32(0..100) {
            0..6 => 0,
            6..26 => self.rng.u64(1..1_000),
            26..66 => self.rng.u64(1_000..30_000),
            66..91 => self.rng.u64(30_000..300_000),
            91..98 => self.rng.u64(300_000..3_000_000),
            98 => self.rng.u64(3_000_000..3 * 86_400_000_000),
            _ if self.rng.bool() => return Duration::MAX,
            _ => 3_600_000_000,
        };
        Duration::from_micros(micros)
    }

    /// For timeouts that no thread will cancel.
    fn short_delay(&mut self) -> Duration {
        if self.rng.u32(0..5_000) == 0 { Duration::from_secs(86_400) } else { self.delay().min(Duration::from_secs(1)) }
    }

    fn schedule(&mut self) {
        let Some((subject, timer)) = self.subject() else { return };
        let body = self.body(&subject);
        let delay = self.delay();
        let way = match self.rng.u32(0..20) {
            0..10 => Way::In(delay),
            10..13 => {
                let now = subject.ledger().clock_now();
                let at = now.checked_add(delay).unwrap_or(now);
                // Some have passed.
                Way::At(if self.rng.u32(0..4) == 0 { now.checked_sub(delay).unwrap_or(now) } else { at })
            }
            _ => Way::Detached(self.short_delay()),
        };
        let key = self.rng.u8(..);
        let place = if self.rng.u32(0..6) == 0 { Place::Shard(timer.shard_for(&key)) } else { Place::Timer(&timer) };
        self.held.extend(once(&subject.context, &place, way, body));
    }

    fn rule(&mut self) -> Rule {
        // A burst makes up for what a machine that stood still has missed: not too often, then.
        let period = Duration::from_micros(self.rng.u64(300..60_000));
        let slow = period + Duration::from_millis(5);
        match self.rng.u32(0..5) {
            0 => Rule::Rate(period, MissedTicks::Skip),
            1 => Rule::Rate(slow, MissedTicks::Burst),
            2 => Rule::Rate(period, MissedTicks::Delay),
            3 => Rule::Delay(period),
            _ => Rule::Repeating(if self.rng.bool() { period } else { Duration::ZERO }, self.rng.u32(0..40)),
        }
    }

    fn schedule_series(&mut self) {
        let Some((subject, timer)) = self.subject() else { return };
        let (initial, mut rule) = (self.delay().min(Duration::from_secs(2)), self.rule());
        if subject.jumping.is_some()
            && let Rule::Rate(period, MissedTicks::Burst) = rule
        {
            // It would make up for a whole day.
            rule = Rule::Rate(period, MissedTicks::Skip);
        }
        let body = self.body(&subject);
        // Some end themselves, the others are cancelled: by their handle's owner, or by a guard.
        let runs = if self.rng.bool() { self.rng.u32(1..30) } else { 0 };
        let held = series(&subject.context, &timer, initial, rule, runs, body);
        let Some(mut held) = held else { return };
        match &subject.context.board {
            Some(board) if self.rng.bool() => self.held.extend(board.push(held).err()),
            _ => {
                if self.rng.bool() {
                    held.guard();
                }
                self.held.push(held);
            }
        }
    }

    fn schedule_many(&mut self) {
        let Some((subject, timer)) = self.subject() else { return };
        let (delay, how_many) = (self.delay(), self.rng.usize(0..12));
        self.held.extend(many(&subject.context, &timer, delay, how_many));
    }

    /// Mostly of one of the newest, which are pending.
    fn pick(&mut self) -> Option<usize> {
        let len = self.held.len();
        let newest = if self.rng.bool() { len.min(100) } else { len };
        (newest > 0).then(|| len - 1 - self.rng.usize(0..newest))
    }

    fn reset(&mut self) {
        let Some(at) = self.pick() else { return };
        let delay = self.delay();
        let held = &self.held[at];
        let before = held.ledger().now();
        match self.rng.u32(0..10) {
            0..5 => {
                self.tally.did(Count::ResetLater);
                held.reset(delay.saturating_add(Duration::from_millis(50)));
            }
            5..8 => {
                self.tally.did(Count::ResetEarlier);
                held.reset(Duration::from_nanos(before % 2_000_000));
            }
            _ => {
                self.tally.did(Count::ResetAt);
                let now = held.ledger().clock_now();
                held.reset_at(now.checked_add(delay).unwrap_or(now));
            }
        }
    }

    fn cancel(&mut self) {
        let Some(at) = self.pick() else { return };
        let held = self.held.swap_remove(at);
        held.cancel();
        if self.rng.u32(0..50) == 0 && (held.cancel() || held.reset(Duration::ZERO)) {
            held.ledger().violation(&format!("timeout {}: a second cancel, or a reset after it, took", held.id()));
        }
    }

    fn let_go(&mut self) {
        let Some(at) = self.pick() else { return };
        let mut held = self.held.swap_remove(at);
        if self.rng.bool() {
            held.guard();
        } else if held.is_pending() {
            // Nobody can end it any more: let it be due soon.
            held.reset(self.short_delay());
            self.tally.did(Count::Detach);
        }
    }

    fn send(&mut self) {
        let Some(at) = self.pick() else { return };
        let Some(to) = self.rng.choice(self.others.iter()).cloned() else { return };
        let held = self.held.swap_remove(at);
        self.tally.did(Count::Sent);
        if self.rng.u32(0..4) > 0 {
            // If the box is full, the handle goes.
            drop(to.push(Parcel::Handle(held)));
            return;
        }
        self.tally.did(Count::Contested);
        let shared = held.share();
        drop(to.push(Parcel::Contested(Arc::clone(&shared))));
        if self.rng.bool() {
            shared.reset(self.delay());
        }
        shared.cancel();
    }

    fn receive(&mut self) {
        for _ in 0..4 {
            match self.mine.pop() {
                None => return,
                Some(Parcel::Contested(held)) => _ = held.cancel(),
                Some(Parcel::Handle(held)) => match self.rng.u32(0..3) {
                    0 => _ = held.cancel(),
                    1 => _ = held.reset(self.short_delay()),
                    _ => self.held.push(held),
                },
            }
        }
    }
}
