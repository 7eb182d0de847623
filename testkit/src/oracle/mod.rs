//! The whole engine, on a manual clock that can be stopped, beside a model that is a `BTreeMap`: a
//! pending timeout fires when its deadline has come. After every step of a program the two must
//! agree. In `tests/model` proptest makes the programs; in `fuzz/` a fuzzer does.

mod end;
mod model;
mod scheduling;
mod step;
mod tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tourbillon::{Builder, Clock, Driver, ManualClock, PausableClock, Timeout, Timer};

use crate::counters::{Counts, assert_counters_reconcile};
use model::{Model, NEVER, Runner};
pub use step::{Act, End, Kept, Rule, Step, Via};
use tasks::{Handle, Shared};

/// The options that the model has to know.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// [`Builder::tick_duration`].
    pub tick: Duration,
    /// [`Builder::max_pending_timeouts`], if it is set.
    pub max_pending: Option<usize>,
    /// The limits of a turn are never reached: then one turn does all the work.
    pub is_unlimited: bool,
}

/// The driver's answer about its next turn.
#[derive(Debug)]
struct Told {
    /// The time before which it need not be turned; `None` if it never need be.
    until: Option<u128>,
    /// The clock stood still.
    in_a_pause: bool,
    /// How often the bell had rung.
    rung: u64,
    /// A timeout was scheduled or reset that is due before.
    must_ring: bool,
}

/// The engine, and its model. Each method panics if the two do not agree.
#[derive(Debug)]
pub struct Pair {
    timer: Timer,
    /// `None` once it was dropped.
    driver: Option<Driver>,
    shared: Arc<Shared>,
    model: Model,
    options: Options,
    told: Option<Told>,
    rung: Arc<AtomicU64>,
    panics: Arc<AtomicU64>,
}

impl Pair {
    /// Builds the engine, with these options, on such a clock.
    pub fn new(builder: Builder, options: Options) -> Self {
        let (hand, panics) = (ManualClock::new(), Arc::new(AtomicU64::new(0)));
        let clock = PausableClock::over(hand.clone());
        let counted = Arc::clone(&panics);
        let mut builder = builder.tick_duration(options.tick).clock(clock.clone());
        if let Some(max) = options.max_pending {
            builder = builder.max_pending_timeouts(max);
        }
        builder = builder.on_panic(move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
        let (timer, driver) = builder.build_driven().expect("sensible");
        let rung = Arc::new(AtomicU64::new(0));
        let rings = Arc::clone(&rung);
        driver.on_earlier(move || _ = rings.fetch_add(1, Ordering::Relaxed));
        let shared = Arc::new(Shared::new(timer.clone(), clock, hand));
        let model = Model::new(options.tick, options.max_pending);
        Self { timer, driver: Some(driver), shared, model, options, told: None, rung, panics }
    }

    fn driver(&mut self) -> &mut Driver {
        self.driver.as_mut().expect("it is dropped at the end")
    }

    fn now(&self) -> Duration {
        self.shared.now()
    }

    fn is_paused(&self) -> bool {
        self.shared.clock.is_paused()
    }

    fn now_due(&self) -> u128 {
        self.model.now(self.now())
    }

    /// Returns when a delay from now ends.
    fn after(&self, delay: Duration) -> u128 {
        self.model.after(delay, self.now())
    }

    /// Returns the instant that the engine shows for a deadline.
    fn instant_of(&self, due: u128) -> Instant {
        let ns = u64::try_from(self.model.ns_of(due)).expect("programs don't run for centuries");
        self.shared.start + Duration::from_nanos(ns)
    }

    /// Returns the instant that lies `offset` ns from now, and when a timeout is due for it.
    fn instant_at(&self, offset: i64) -> (Instant, u128) {
        let (offset_ns, now) = (Duration::from_nanos(offset.unsigned_abs()), self.shared.clock.now());
        if offset > 0 {
            (now + offset_ns, self.after(offset_ns))
        } else {
            (now.checked_sub(offset_ns).unwrap_or(self.shared.start), self.after(Duration::ZERO))
        }
    }

    /// Notes that a timeout was scheduled or reset, and when it is due.
    fn brought(&mut self, due: u128) {
        let now = self.now_due();
        if let Some(told) = &mut self.told {
            let comes = due != NEVER && (!told.in_a_pause || due <= now);
            told.must_ring |= comes && told.until.is_none_or(|until| due < until);
        }
    }

    fn reset(&mut self, which: usize, due: u128, reset: impl FnOnce(&Timeout) -> bool) {
        let shared = Arc::clone(&self.shared);
        let handles = shared.handles();
        let Some(at) = which.checked_rem(handles.len()) else { return };
        let (id, handle) = &handles[at];
        let was_pending = self.model.pending.contains_key(id);
        assert_eq!(reset(handle.timeout()), was_pending, "reset of {id}");
        if was_pending {
            self.model.reset(*id, due);
            self.brought(due);
        }
    }

    fn reset_at(&mut self, which: usize, offset: i64) {
        let (at, is_periodic) = {
            let handles = self.shared.handles();
            let Some(at) = which.checked_rem(handles.len()) else { return };
            (at, self.model.is_periodic(handles[at].0))
        };
        // The engine does not promise from where a fixed rate goes on that was reset to the past:
        // from then, or from now. Nor does it promise what has passed when time has run out.
        let is_unsaid = is_periodic || self.model.has_run_out_of_time(self.now());
        let offset = if is_unsaid { offset.abs().max(1) } else { offset };
        let (deadline, due) = self.instant_at(offset);
        self.reset(at, due, |handle| handle.reset_at(deadline));
    }

    /// One turn: each timeout that fired was due, and if no limit was reached nothing that was due
    /// is left.
    fn turn(&mut self) {
        self.heed_the_bell();
        self.told = None;
        let now = self.now_due();
        // Not for each of thousands of turns with small limits.
        let due = if self.options.is_unlimited { self.model.due(now) } else { Vec::new() };
        let (fired, before) = (self.driver().turn() as u64, self.model.counts.fired);
        let events = self.shared.take_log();
        self.model.hear(events, Runner::Turn(now));
        let (ran, overtaken) = (self.model.counts.fired - before, self.model.overtaken);
        let most = ran + overtaken;
        assert!((ran..=most).contains(&fired), "{fired} are said to have fired; {ran} ran, {overtaken} were overtaken");
        if self.options.is_unlimited {
            let is_late =
                |id: &&u64| self.model.pending.get(id).is_some_and(|due| *due <= now) && !self.model.moved.contains(id);
            let late: Vec<_> = due.iter().filter(is_late).collect();
            assert!(late.is_empty(), "late at {now}, after a whole turn: {late:?}");
        }
    }

    fn settle(&mut self) {
        self.turn();
        while self.driver().next_wakeup().is_some_and(|at| at <= self.shared.clock.now()) {
            self.turn();
        }
        let now = self.now_due();
        let late = self.model.due(now);
        assert!(late.is_empty(), "late at {now}: {late:?}");
        if self.model.pending.is_empty() {
            assert_eq!(self.driver().next_wakeup(), None, "nothing is pending");
        }
        self.check_counts();
        self.check_handles();
    }

    /// Asks the driver when to turn next. The answer must not be too late, and the bell must ring
    /// for an earlier deadline.
    fn sleep(&mut self) {
        self.heed_the_bell();
        let wakeup = self.driver().next_wakeup();
        let (now, at) = (self.now_due(), self.now());
        let (until_ns, in_a_pause) = (wakeup.map(|at| (at - self.shared.start).as_nanos()), self.is_paused());
        if let Some(earliest) = self.model.earliest().filter(|due| !in_a_pause || *due <= now) {
            let latest = self.model.ns_of(earliest);
            assert!(until_ns.is_some_and(|ns| ns <= latest), "{until_ns:?} is after {latest}, when {earliest} is due");
        }
        if in_a_pause {
            assert!(until_ns.is_none_or(|ns| ns <= at.as_nanos()), "woken for {until_ns:?}, in a pause");
        }
        let until = until_ns.map(|ns| self.model.subtick_at(ns));
        let rung = self.rung.load(Ordering::Relaxed);
        self.told = Some(Told { until, in_a_pause, rung, must_ring: false });
    }

    /// If a deadline was set that comes before the driver's next turn, the driver was called.
    fn heed_the_bell(&self) {
        if let Some(told) = &self.told {
            let has_rung = self.rung.load(Ordering::Relaxed) > told.rung;
            assert!(
                has_rung || !told.must_ring,
                "no thread has called the driver, which sleeps until {:?}",
                told.until
            );
        }
    }

    fn resume(&mut self) {
        let now = self.now_due();
        if let Some(told) = self.told.as_mut().filter(|_| self.shared.clock.is_paused()) {
            told.must_ring |= told.until.is_none_or(|until| until > now);
        }
        self.shared.clock.resume();
    }

    fn step_to_next(&mut self) {
        let next = self.model.earliest().filter(|_| !self.is_paused());
        let expected = next.map(|due| self.instant_of(due).max(self.shared.clock.now()));
        assert_eq!(self.shared.hand.advance_to_next(&self.timer), expected.is_some());
        expected.into_iter().for_each(|expected| assert_eq!(self.shared.clock.now(), expected, "the next deadline"));
    }

    fn cancel(&mut self, which: usize) {
        let shared = Arc::clone(&self.shared);
        let handles = shared.handles();
        let Some(at) = which.checked_rem(handles.len()) else { return };
        let (id, handle) = &handles[at];
        let was_pending = self.model.pending.contains_key(id);
        assert_eq!(handle.timeout().cancel(), was_pending, "cancel of {id}");
        if was_pending {
            self.model.cancel(*id);
        }
    }

    /// Does one step of a program.
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Schedule { delay, kept, via, act } => self.schedule(delay, kept, via, act),
            Step::ScheduleAt { offset, via } => self.schedule_at(offset, via),
            Step::ScheduleMany { delay, many, is_elsewhere } => self.schedule_many(delay, many, is_elsewhere),
            Step::Periodic { initial, rule, is_elsewhere, act } => {
                self.schedule_periodic(initial, rule, is_elsewhere, act);
            }
            Step::Reset { which, delay } => self.reset(which, self.after(delay), |handle| handle.reset(delay)),
            Step::ResetAt { which, offset } => self.reset_at(which, offset),
            Step::Cancel { which } => self.cancel(which),
            Step::Drop { which } => {
                if let Some((id, true)) = self.shared.drop_handle(which)
                    && self.model.pending.contains_key(&id)
                {
                    self.model.cancel(id);
                }
            }
            Step::Unguard { which } => {
                let mut handles = self.shared.handles();
                let Some(at) = which.checked_rem(handles.len()) else { return };
                let (id, handle) = handles.swap_remove(at);
                let plain = match handle {
                    Handle::Guard(guard) => guard.into_timeout(),
                    Handle::Plain(timeout) => timeout,
                };
                handles.push((id, Handle::Plain(plain)));
            }
            Step::Pause => self.shared.clock.pause(),
            Step::Resume => self.resume(),
            Step::ToNext => self.step_to_next(),
            Step::Advance { by } => self.shared.advance(by),
            Step::Turn => self.turn(),
            Step::Settle => self.settle(),
            Step::Sleep => self.sleep(),
        }
    }

    /// Checks that the two agree. This leaves out the counters, which take longer than all the
    /// rest.
    pub fn check(&self) {
        self.heed_the_bell();
        assert_eq!(self.timer.pending(), self.model.pending.len());
        assert_eq!(self.shared.alive(), self.model.pending.len(), "tasks that are kept");
        if let Some((id, handle)) = self.shared.handles().last() {
            self.check_handle(*id, handle.timeout());
        }
    }

    /// Checks that the counters agree, too. It reads each bucket of each shard; a fuzzer spends
    /// that time better on programs.
    pub fn check_counts(&self) {
        let stats = self.timer.stats();
        let expected = Counts { pending: self.model.pending.len() as u64, ..self.model.counts };
        assert_eq!(Counts::of(&stats), expected);
        assert_eq!(self.panics.load(Ordering::Relaxed), self.model.counts.panicked);
        assert_counters_reconcile(&stats);
    }

    fn check_handle(&self, id: u64, handle: &Timeout) {
        let due = self.model.pending.get(&id);
        assert_eq!(handle.is_pending(), due.is_some(), "{id}");
        assert_eq!(handle.is_cancelled(), self.model.cancelled.contains(&id), "{id}");
        assert_eq!(handle.is_expired(), !handle.is_pending() && !handle.is_cancelled(), "{id}");
        // A timeout that is due already may show any time that has passed.
        if due.is_some_and(|due| *due <= self.now_due()) {
            assert!(handle.deadline() <= self.shared.clock.now());
        } else if let Some(due) = due.filter(|due| **due != NEVER) {
            assert_eq!(handle.deadline(), self.instant_of(*due));
        }
    }

    fn check_handles(&self) {
        self.shared.handles().iter().for_each(|(id, handle)| self.check_handle(*id, handle.timeout()));
    }
}
