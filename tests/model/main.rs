//! The whole engine, driven on a clock that is moved by hand, against a model that is a `BTreeMap`: what is pending
//! fires when its tick has come. Whatever a random program of schedules, resets, cancels, drops and clock jumps does,
//! over months of simulated time, the two must agree after every step.

#[path = "../common/mod.rs"]
mod common;
mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::FileFailurePersistence;
use tourbillon::{Builder, Driver, Group, ManualClock, Timeout, TimeoutGuard, Timer};

use common::{assert_books_balance, driven_by};
use programs::{Kept, Rule, Step, builders, steps};

/// A series in the model: when its next run is due by its schedule, and the tick that this was rounded to.
struct Series {
    rule: Rule,
    due_ns: u128,
    due_tick: u128,
}

enum Handle {
    Plain(Timeout),
    Guard(TimeoutGuard),
}

impl Handle {
    fn timeout(&self) -> &Timeout {
        match self {
            Self::Plain(timeout) => timeout,
            Self::Guard(guard) => guard,
        }
    }
}

/// The engine, and what it should be.
struct Pair {
    timer: Timer,
    driver: Driver,
    clock: ManualClock,
    start: Instant,
    tick: Duration,
    /// Written by the tasks.
    ran: Arc<Mutex<Vec<u64>>>,
    handles: Vec<(u64, Handle)>,
    /// The model: the ticks of all that is pending.
    pending: BTreeMap<u64, u128>,
    series: BTreeMap<u64, Series>,
    groups: [(Group, BTreeSet<u64>); 2],
    /// What pauses have taken from the engine's time, and where that stands if it is paused.
    lost_ns: u128,
    paused_at: Option<u128>,
    next_id: u64,
    fired: u64,
    repeated: u64,
    cancelled: u64,
}

/// A deadline that never comes.
const NEVER: u128 = u128::MAX;

impl Pair {
    fn new(builder: Builder, tick: Duration) -> Self {
        let clock = ManualClock::new();
        let (timer, driver) = builder.tick_duration(tick).clock(clock.clone()).build_driven().expect("sensible");
        let (start, ran) = (clock.now(), Arc::default());
        let groups = [0, 1].map(|_| (timer.group(), BTreeSet::new()));
        Self {
            timer,
            driver,
            clock,
            start,
            tick,
            ran,
            handles: Vec::new(),
            pending: BTreeMap::new(),
            series: BTreeMap::new(),
            groups,
            lost_ns: 0,
            paused_at: None,
            next_id: 0,
            fired: 0,
            repeated: 0,
            cancelled: 0,
        }
    }

    /// By the engine's time.
    fn now_ns(&self) -> u128 {
        self.paused_at.unwrap_or_else(|| (self.clock.now() - self.start).as_nanos() - self.lost_ns)
    }

    /// What a tick is shown as.
    fn instant_of(&self, tick: u128) -> Instant {
        let lost_ns = (self.clock.now() - self.start).as_nanos() - self.now_ns();
        let ns = u64::try_from(tick * self.tick.as_nanos() + lost_ns).expect("programs don't run for centuries");
        self.start + Duration::from_nanos(ns)
    }

    fn now_tick(&self) -> u128 {
        self.now_ns() / self.tick.as_nanos()
    }

    /// The tick that a delay from now ends in.
    fn tick_after(&self, delay: Duration) -> u128 {
        match delay {
            Duration::ZERO => self.now_tick(),
            Duration::MAX => NEVER,
            delay => (self.now_ns() + delay.as_nanos()).div_ceil(self.tick.as_nanos()),
        }
    }

    /// An instant so many ns from now, and its tick.
    fn instant_at(&self, offset: i64) -> (Instant, u128) {
        let offset_ns = Duration::from_nanos(offset.unsigned_abs());
        if offset > 0 {
            (self.clock.now() + offset_ns, self.tick_after(offset_ns))
        } else {
            (self.clock.now() - offset_ns, self.now_tick())
        }
    }

    /// A new timeout in the model, and the task for it.
    fn accept(&mut self, tick: u128) -> (u64, impl FnOnce() + Send + use<>) {
        let (id, ran) = (self.next_id, Arc::clone(&self.ran));
        self.next_id += 1;
        self.pending.insert(id, tick);
        (id, move || ran.lock().expect("no panic").push(id))
    }

    fn schedule(&mut self, delay: Duration, kept: Kept, elsewhere: bool) {
        let (id, task) = self.accept(self.tick_after(delay));
        let schedule = || match kept {
            Kept::Detached => self.timer.schedule_detached(delay, task).map(|()| None),
            Kept::Plainly => self.timer.schedule(delay, task).map(|timeout| Some(Handle::Plain(timeout))),
            Kept::Guarded => self.timer.schedule(delay, task).map(|t| Some(Handle::Guard(t.cancel_on_drop()))),
        };
        // Another thread is another producer, of another shard if there is one.
        let scheduled =
            if elsewhere { thread::scope(|scope| scope.spawn(schedule).join().expect("no panic")) } else { schedule() };
        self.handles.extend(scheduled.expect("accepted").map(|handle| (id, handle)));
    }

    fn held(&self, which: Index) -> Option<usize> {
        (!self.handles.is_empty()).then(|| which.index(self.handles.len()))
    }

    fn reset(&mut self, which: Index, tick: u128, reset: impl FnOnce(&Timeout) -> bool) {
        let Some(at) = self.held(which) else { return };
        let (id, handle) = &self.handles[at];
        let was_pending = self.pending.contains_key(id);
        assert_eq!(reset(handle.timeout()), was_pending, "reset of {id}");
        if was_pending {
            self.pending.insert(*id, tick);
        }
    }

    fn forget(&mut self, id: u64) {
        self.cancelled += u64::from(self.pending.remove(&id).is_some());
    }

    /// One turn: all that fired was due, and if no limit was reached nothing that was due is left.
    fn turn(&mut self) {
        let fired = self.driver.turn();
        let ran = std::mem::take(&mut *self.ran.lock().expect("no panic"));
        assert_eq!(fired, ran.len());
        let now = self.now_tick();
        for id in ran {
            let tick = self.pending.remove(&id).expect("only what is pending fires, and once");
            assert!(tick <= now, "{id} is early: tick {now} instead of {tick}");
            self.fired += 1;
            self.arm_again(id, tick);
        }
    }

    fn schedule_series(&mut self, initial: Duration, rule: Rule) {
        let (due_ns, due_tick) = (self.now_ns() + initial.as_nanos(), self.tick_after(initial));
        let (id, ran) = (self.next_id, Arc::clone(&self.ran));
        self.next_id += 1;
        self.pending.insert(id, due_tick);
        self.series.insert(id, Series { rule, due_ns, due_tick });
        let run = move || ran.lock().expect("no panic").push(id);
        let timeout = match rule {
            Rule::Rate(period, missed) => self.timer.schedule_at_fixed_rate_with(initial, period, missed, run).ok(),
            Rule::Delay(delay) => self.timer.schedule_with_fixed_delay(initial, delay, run).ok(),
            Rule::Answer(delay) => {
                let run = move || {
                    run();
                    Some(delay)
                };
                self.timer.schedule_repeating(initial, run).ok()
            }
        };
        self.handles.push((id, Handle::Plain(timeout.expect("accepted"))));
    }

    /// After a run that was due at `tick`.
    fn arm_again(&mut self, id: u64, tick: u128) {
        let (now_ns, tick_ns) = (self.now_ns(), self.tick.as_nanos());
        let Some(series) = self.series.get_mut(&id) else { return };
        // It was reset: the schedule goes on from there.
        if tick != series.due_tick {
            series.due_ns = tick * tick_ns;
        }
        series.due_ns = series.rule.next_ns(series.due_ns, now_ns);
        series.due_tick = series.due_ns.div_ceil(tick_ns);
        self.pending.insert(id, series.due_tick);
        self.repeated += 1;
    }

    fn schedule_between(&mut self, earliest: Duration, width: Duration) {
        let first = self.tick_after(earliest);
        let last = ((self.now_ns() + (earliest + width).as_nanos()) / self.tick.as_nanos()).max(first);
        let (id, task) = self.accept(first);
        let timeout = self.timer.schedule_between(earliest, earliest + width, task).expect("accepted");
        // The engine chooses; what it has chosen it must keep to.
        let shown_ns = (timeout.deadline() - self.instant_of(0)).as_nanos();
        let tick = shown_ns / self.tick.as_nanos();
        assert!((first..=last).contains(&tick) && shown_ns.is_multiple_of(self.tick.as_nanos()));
        self.pending.insert(id, tick);
        self.handles.push((id, Handle::Plain(timeout)));
    }

    fn step_to_next(&mut self) {
        let next = self.pending.values().min().filter(|tick| **tick != NEVER && self.paused_at.is_none());
        let expected = next.map(|tick| self.instant_of(*tick).max(self.clock.now()));
        assert_eq!(self.clock.advance_to_next(&self.timer), expected.is_some());
        assert!(expected.is_none_or(|expected| self.clock.now() == expected));
    }

    fn settle(&mut self) {
        self.turn();
        while self.driver.next_wakeup().is_some_and(|at| at <= self.clock.now()) {
            self.turn();
        }
        let now = self.now_tick();
        let late: Vec<_> = self.pending.iter().filter(|(_, tick)| **tick <= now).collect();
        assert!(late.is_empty(), "late at tick {now}: {late:?}");
    }

    fn step(&mut self, step: Step) {
        // What no delay means in a pause is not this test's question.
        let step = if self.paused_at.is_some() { step.with_delays() } else { step };
        match step {
            Step::Schedule { delay, kept, elsewhere } => self.schedule(delay, kept, elsewhere),
            Step::ScheduleAt { offset } => {
                let (deadline, tick) = self.instant_at(offset);
                let (id, task) = self.accept(tick);
                self.handles.push((id, Handle::Plain(self.timer.schedule_at(deadline, task).expect("accepted"))));
            }
            Step::ScheduleMany { delay, many } => {
                let (ids, tasks): (Vec<_>, Vec<_>) = (0..many).map(|_| self.accept(self.tick_after(delay))).unzip();
                let timeouts = self.timer.schedule_many(delay, tasks).expect("accepted");
                self.handles.extend(ids.into_iter().zip(timeouts.into_iter().map(Handle::Plain)));
            }
            Step::Reset { which, delay } => self.reset(which, self.tick_after(delay), |handle| handle.reset(delay)),
            Step::ResetAt { which, offset } => {
                // From where a rate goes on that was reset to the past is not said: from then, or from now.
                let is_series = self.held(which).is_some_and(|at| self.series.contains_key(&self.handles[at].0));
                let offset = if is_series { offset.abs() } else { offset };
                let (deadline, tick) = self.instant_at(offset);
                self.reset(which, tick, |handle| handle.reset_at(deadline));
            }
            Step::Cancel { which } => {
                let Some(at) = self.held(which) else { return };
                let (id, handle) = &self.handles[at];
                assert_eq!(handle.timeout().cancel(), self.pending.contains_key(id), "cancel of {id}");
                self.forget(*id);
            }
            Step::Drop { which } => {
                let Some(at) = self.held(which) else { return };
                if let (id, Handle::Guard(_)) = self.handles.swap_remove(at) {
                    self.forget(id);
                }
            }
            Step::Unguard { which } => {
                let Some(at) = self.held(which) else { return };
                let (id, handle) = self.handles.swap_remove(at);
                let plain = match handle {
                    Handle::Guard(guard) => guard.into_timeout(),
                    Handle::Plain(timeout) => timeout,
                };
                self.handles.push((id, Handle::Plain(plain)));
            }
            Step::Series { initial, rule } => self.schedule_series(initial, rule),
            Step::Between { earliest, width } => self.schedule_between(earliest, width),
            Step::ScheduleInGroup { group, delay, kept } => {
                let (id, task) = self.accept(self.tick_after(delay));
                let (group, members) = &mut self.groups[group];
                members.insert(id);
                let timeout = group.schedule(delay, task).expect("accepted");
                self.handles.extend(kept.then_some((id, Handle::Plain(timeout))));
            }
            Step::CancelAll { group } => {
                let members = std::mem::take(&mut self.groups[group].1);
                let pending = members.into_iter().filter(|id| self.pending.remove(id).is_some()).count();
                assert_eq!(self.groups[group].0.cancel_all(), pending);
                self.cancelled += pending as u64;
            }
            Step::Pause => {
                self.timer.pause();
                self.paused_at = Some(self.now_ns());
            }
            Step::Resume => {
                self.lost_ns = (self.clock.now() - self.start).as_nanos() - self.now_ns();
                self.paused_at = None;
                self.timer.resume();
            }
            Step::ToNext => self.step_to_next(),
            Step::Advance { by } => self.clock.advance(by),
            Step::Turn => self.turn(),
            Step::Settle => self.settle(),
        }
    }

    /// The two agree.
    fn check(&self) {
        assert_eq!(self.timer.pending(), self.pending.len());
        if let Some((id, handle)) = self.handles.last() {
            self.check_handle(*id, handle.timeout());
        }
        let stats = self.timer.stats();
        assert_eq!((stats.scheduled, stats.fired, stats.cancelled), (self.next_id, self.fired, self.cancelled));
        assert_eq!((stats.repeated, self.timer.is_paused()), (self.repeated, self.paused_at.is_some()));
        for (group, members) in &self.groups {
            assert_eq!(group.pending(), members.iter().filter(|id| self.pending.contains_key(id)).count());
        }
        assert_books_balance(&stats);
    }

    fn check_handle(&self, id: u64, handle: &Timeout) {
        let tick = self.pending.get(&id);
        assert_eq!(handle.is_pending(), tick.is_some());
        assert_eq!(handle.is_pending(), !handle.is_expired() && !handle.is_cancelled());
        // One that is due already may show any time that has passed.
        if tick.is_some_and(|tick| *tick <= self.now_tick()) {
            assert!(handle.deadline() <= self.clock.now());
        } else if let Some(tick) = tick.filter(|tick| **tick != NEVER) {
            assert_eq!(handle.deadline(), self.instant_of(*tick));
        }
    }

    /// Everything still pending is in the answer of a shutdown, with its deadline, and nothing else.
    fn shut_down(mut self) {
        for (id, handle) in &self.handles {
            self.check_handle(*id, handle.timeout());
        }
        let held: Vec<_> = self.handles.iter().map(|(id, handle)| (*id, handle.timeout().deadline())).collect();
        let left = self.timer.shutdown().expect("the first");
        assert_eq!(left.len(), self.pending.len());
        for left in left {
            let deadline = left.deadline();
            left.run();
            let id = self.ran.lock().expect("no panic").pop().expect("it has just run");
            assert!(self.pending.remove(&id).is_some(), "{id} was pending, and is in the answer once");
            assert!(held.iter().all(|(of, held)| *of != id || *held == deadline));
        }
        assert!(self.handles.iter().all(|(_, handle)| !handle.timeout().is_pending()));
        assert_eq!((self.driver.turn(), self.timer.pending()), (0, 0));
        assert_books_balance(&self.timer.stats());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("seeds"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_engine_does_what_a_sorted_map_does(
        (builder, tick) in builders(), program in prop::collection::vec(steps(), 1..250),
    ) {
        let mut pair = Pair::new(builder, tick);
        for step in program {
            pair.step(step);
            pair.check();
        }
        pair.settle();
        pair.shut_down();
    }

    #[test]
    fn turned_only_when_it_asks_for_it_the_engine_is_on_time_and_asks_no_oftener_than_it_must(
        levels in 1..4_usize, bits in 2..7_u32,
        delays in prop::collection::vec((0..u64::MAX, 0..u64::MAX, any::<bool>()), 1..80),
    ) {
        let (timer, mut driver, clock) = driven_by(Timer::builder().levels(levels).ticks_per_wheel(1 << bits));
        // Within some rounds of the last level: each round is a reason to look.
        let most = 8 << (bits * u32::try_from(levels).expect("few"));
        let late = Arc::new(Mutex::new(Vec::new()));
        for (first, second, reset) in &delays {
            let delay = Duration::from_millis(first % most);
            let (late, own, due) = (Arc::clone(&late), clock.clone(), Arc::new(Mutex::new(clock.now() + delay)));
            let deadline = Arc::clone(&due);
            let task = move || {
                let by = own.now() - *deadline.lock().expect("no panic");
                late.lock().expect("no panic").push(by);
            };
            let timeout = timer.schedule(delay, task).expect("accepted");
            if *reset {
                let delay = Duration::from_millis(second % most);
                prop_assert!(timeout.reset(delay));
                *due.lock().expect("no panic") = clock.now() + delay;
            }
        }
        let mut turns = 0;
        while let Some(at) = driver.next_wakeup() {
            clock.advance(at.saturating_duration_since(clock.now()));
            driver.turn();
            turns += 1;
        }
        let late = late.lock().expect("no panic");
        prop_assert_eq!(late.len(), delays.len(), "all have fired");
        prop_assert!(late.iter().all(Duration::is_zero), "on time: {:?}", late);
        let (count, rounds) = (delays.len(), 8);
        prop_assert!(turns <= 2 * count * (levels + rounds) + 2, "{} turns for {} timeouts", turns, count);
    }
}
