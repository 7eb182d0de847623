//! The whole engine, driven on a clock that is moved by hand, against a model that is a `BTreeMap`: what is pending
//! fires when its tick has come. Whatever a random program of schedules, resets, cancels, drops and clock jumps does,
//! over months of simulated time, the two must agree after every step.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::FileFailurePersistence;
use tourbillon::{Builder, Driver, ManualClock, Timeout, TimeoutGuard, Timer};

use common::{DAY, assert_books_balance, driven_by};

/// One step of a program. An [`Index`] chooses among the handles that are held.
#[derive(Clone, Debug)]
enum Step {
    Schedule { delay: Duration, kept: Kept, elsewhere: bool },
    ScheduleAt { offset: i64 },
    ScheduleMany { delay: Duration, many: usize },
    Reset { which: Index, delay: Duration },
    ResetAt { which: Index, offset: i64 },
    Cancel { which: Index },
    Drop { which: Index },
    Unguard { which: Index },
    Advance { by: Duration },
    Turn,
    Settle,
}

#[derive(Clone, Copy, Debug)]
enum Kept {
    Plainly,
    Guarded,
    Detached,
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
    next_id: u64,
    fired: u64,
    cancelled: u64,
}

/// A deadline that never comes.
const NEVER: u128 = u128::MAX;

impl Pair {
    fn new(builder: Builder, tick: Duration) -> Self {
        let clock = ManualClock::new();
        let (timer, driver) = builder.tick_duration(tick).clock(clock.clone()).build_driven().expect("sensible");
        let (start, ran) = (clock.now(), Arc::default());
        let (handles, pending) = (Vec::new(), BTreeMap::new());
        Self { timer, driver, clock, start, tick, ran, handles, pending, next_id: 0, fired: 0, cancelled: 0 }
    }

    fn now_ns(&self) -> u128 {
        (self.clock.now() - self.start).as_nanos()
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
        }
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
            let ns = u64::try_from(tick * self.tick.as_nanos()).expect("programs don't run for centuries");
            assert_eq!(handle.deadline(), self.start + Duration::from_nanos(ns));
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

/// Delays of all orders of magnitude, a few that are special, and many that fall together.
fn delays() -> impl Strategy<Value = Duration> {
    prop_oneof![
        8 => (0..54_u32, any::<u64>()).prop_map(|(bits, ns)| Duration::from_nanos(ns % (2 << bits))),
        4 => (0..600_u64).prop_map(Duration::from_millis),
        2 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
    ]
}

/// Points in time from hours ago to days ahead. (Not within the current tick but past: see the promises.)
fn offsets() -> impl Strategy<Value = i64> {
    prop_oneof![Just(-3_600_000_000_000), Just(-400_000_000_000_000), 1..1_000_000_000_i64, 1..400_000_000_000_000_i64]
}

fn steps() -> impl Strategy<Value = Step> {
    let kept = prop_oneof![3 => Just(Kept::Plainly), 1 => Just(Kept::Guarded), 1 => Just(Kept::Detached)];
    let which = any::<Index>;
    prop_oneof![
        8 => (delays(), kept, prop::bool::weighted(0.2))
            .prop_map(|(delay, kept, elsewhere)| Step::Schedule { delay, kept, elsewhere }),
        1 => offsets().prop_map(|offset| Step::ScheduleAt { offset }),
        1 => (delays(), 0..20_usize).prop_map(|(delay, many)| Step::ScheduleMany { delay, many }),
        6 => (which(), delays()).prop_map(|(which, delay)| Step::Reset { which, delay }),
        1 => (which(), offsets()).prop_map(|(which, offset)| Step::ResetAt { which, offset }),
        3 => which().prop_map(|which| Step::Cancel { which }),
        2 => which().prop_map(|which| Step::Drop { which }),
        1 => which().prop_map(|which| Step::Unguard { which }),
        6 => prop_oneof![3 => (0..2_000_000_000_u64).prop_map(Duration::from_nanos), 2 => delays()]
            .prop_map(|by| Step::Advance { by: by.min(30 * DAY) }),
        3 => Just(Step::Turn),
        6 => Just(Step::Settle),
    ]
}

/// Wheels and limits. Returns their description along with them, for a failure's report.
fn builders() -> impl Strategy<Value = (Builder, Duration)> {
    let limits = prop_oneof![Just((100_000, 100_000)), Just((1, 1)), Just((3, 2)), Just((50, 7))];
    let tick = prop_oneof![4 => Just(1_000_000), 1 => Just(333_000), 1 => Just(60_000_000_000), 1 => Just(1_000)];
    let levels = prop_oneof![Just(1_usize), Just(2), Just(4), Just(6)];
    (levels, 2..10_u32, 1..3_usize, limits, tick).prop_map(|(levels, bits, shards, (transfer, expiry), tick_ns)| {
        let builder = Timer::builder().levels(levels).ticks_per_wheel(1 << bits).shards(shards);
        (builder.transfer_limit(transfer).expiry_limit(expiry), Duration::from_nanos(tick_ns))
    })
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
