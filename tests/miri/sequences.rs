//! One thread, or one after the other: a driven engine against a `BTreeMap`, step by step, and
//! every way to end it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tourbillon::{Builder, Driver, ManualClock, Shutdown, Timeout, TimeoutGuard, Timer};

use crate::common::{Random, assert_counters_reconcile, driven_by};
use crate::{delay, few, seeds, small};

/// A deadline that never comes.
const NEVER: u64 = u64::MAX;

/// An engine, and the timeouts that should be pending in it: the ms at which each is due.
struct Pair {
    timer: Timer,
    driver: Driver,
    clock: ManualClock,
    now: u64,
    next: usize,
    ran: Arc<Mutex<Vec<usize>>>,
    pending: BTreeMap<usize, u64>,
    guarded: Vec<(usize, TimeoutGuard)>,
    held: Vec<(usize, Timeout)>,
    cancelled: u64,
    fired: u64,
}

fn ms(delay: Duration) -> u64 {
    u64::try_from(delay.as_millis()).unwrap_or(NEVER)
}

impl Pair {
    fn new(builder: Builder) -> Self {
        let (timer, driver, clock) = driven_by(builder);
        let (ran, pending) = (Arc::default(), BTreeMap::new());
        let (guarded, held) = (Vec::new(), Vec::new());
        Self { timer, driver, clock, now: 0, next: 0, ran, pending, guarded, held, cancelled: 0, fired: 0 }
    }

    fn accept(&mut self, delay: Duration) -> (usize, impl FnOnce() + Send + use<>) {
        let (id, ran) = (self.next, Arc::clone(&self.ran));
        self.next += 1;
        self.pending.insert(id, self.now.saturating_add(ms(delay)));
        let boxed = Box::new(id);
        (id, move || ran.lock().expect("no panic").push(*boxed))
    }

    fn schedule(&mut self, random: &mut Random) {
        let delay = delay(random);
        match random.below(8) {
            0 => {
                let (_, task) = self.accept(delay);
                self.timer.schedule_detached(delay, task).expect("accepted");
            }
            1 => {
                // More than fits into an entry.
                let (id, task) = self.accept(delay);
                let numbers = [id; 5];
                let task = move || {
                    assert_eq!(numbers, [id; 5]);
                    task();
                };
                self.held.push((id, self.timer.schedule(delay, task).expect("accepted")));
            }
            2 => {
                let (id, task) = self.accept(delay);
                let schedule = || self.timer.schedule(delay, task).expect("accepted");
                let timeout = thread::scope(|scope| scope.spawn(schedule).join().expect("no panic"));
                self.held.push((id, timeout));
            }
            3 => {
                let (ids, tasks): (Vec<_>, Vec<_>) = (0..3).map(|_| self.accept(delay)).unzip();
                let many = self.timer.schedule_many(delay, tasks).expect("accepted");
                self.held.extend(ids.into_iter().zip(many));
            }
            4 => {
                let (id, task) = self.accept(delay);
                self.guarded.push((id, self.timer.schedule(delay, task).expect("accepted").cancel_on_drop()));
            }
            5 => {
                let (id, task) = self.accept(delay);
                let key = random.below(4);
                self.held.push((id, self.timer.shard_for(&key).schedule(delay, task).expect("accepted")));
            }
            _ => {
                let (id, task) = self.accept(delay);
                self.held.push((id, self.timer.schedule(delay, task).expect("accepted")));
            }
        }
    }

    fn step(&mut self, random: &mut Random) {
        let which = random.below(self.held.len().max(1));
        match random.below(16) {
            0..6 => self.schedule(random),
            6..9 if !self.held.is_empty() => {
                let delay = delay(random);
                let (id, timeout) = &self.held[which];
                assert_eq!(timeout.reset(delay), self.pending.contains_key(id), "reset of {id}");
                self.pending.entry(*id).and_modify(|due| *due = self.now.saturating_add(ms(delay)));
            }
            9 if !self.held.is_empty() => {
                let (id, timeout) = self.held.swap_remove(which);
                let is_pending = self.pending.remove(&id).is_some();
                self.cancelled += u64::from(is_pending);
                assert_eq!(timeout.cancel(), is_pending, "cancel of {id}");
            }
            10 if !self.held.is_empty() => drop(self.held.swap_remove(which)),
            11 if !self.held.is_empty() => {
                let (id, timeout) = self.held.swap_remove(which);
                self.cancelled += u64::from(self.pending.remove(&id).is_some());
                drop(timeout.cancel_on_drop());
            }
            12 if random.below(4) == 0 => {
                let guarded = std::mem::take(&mut self.guarded);
                let pending = guarded.iter().filter(|(id, _)| self.pending.remove(id).is_some()).count();
                drop(guarded);
                self.cancelled += pending as u64;
            }
            13 => {
                let next = self.pending.values().copied().min().filter(|due| *due != NEVER);
                assert_eq!(self.clock.advance_to_next(&self.timer), next.is_some());
                self.now = next.map_or(self.now, |due| due.max(self.now));
                self.settle();
            }
            _ => {
                let by = delay(random).min(Duration::from_millis(100));
                self.clock.advance(by);
                self.now += ms(by);
                self.settle();
            }
        }
        assert_eq!(self.timer.pending(), self.pending.len());
    }

    fn settle(&mut self) {
        self.driver.turn();
        while self.driver.next_wakeup().is_some_and(|at| at <= self.clock.now()) {
            self.driver.turn();
        }
        let mut ran = std::mem::take(&mut *self.ran.lock().expect("no panic"));
        self.fired += ran.len() as u64;
        ran.sort_unstable();
        let due: Vec<_> = self.pending.iter().filter(|(_, due)| **due <= self.now).map(|(id, _)| *id).collect();
        self.pending.retain(|_, due| *due > self.now);
        assert_eq!(ran, due, "at {} ms", self.now);
    }

    /// Ends it in one of five ways. The handles go last.
    fn end(mut self, how: u64) {
        self.settle();
        let how = match how % 5 {
            0 => Some(Shutdown::Cancel),
            1 => Some(Shutdown::FireNow),
            2 => Some(Shutdown::Drain(Duration::from_millis(10))),
            3 => None,
            _ => {
                // The driver goes first.
                drop(self.driver);
                assert!(self.timer.schedule(Duration::ZERO, || ()).is_err());
                return assert_eq!(self.timer.pending(), 0);
            }
        };
        if let Some(how) = how {
            let left = self.timer.shutdown_with(how).expect("the first");
            let ran = std::mem::take(&mut *self.ran.lock().expect("no panic"));
            assert_eq!(if how == Shutdown::FireNow { ran.len() } else { left.len() }, self.pending.len());
            let stats = self.timer.stats();
            assert_counters_reconcile(&stats);
            assert_eq!((stats.fired, stats.cancelled), (self.fired + ran.len() as u64, self.cancelled));
            left.into_iter().for_each(|left| left.run());
        }
        drop((self.timer, self.driver));
        assert!(self.held.iter().all(|(_, timeout)| !timeout.cancel() && !timeout.reset(Duration::ZERO)));
        assert_eq!(Arc::strong_count(&self.ran), 1, "no task is left");
    }
}

/// Steps through an engine made by `builder`, from each seed.
fn check(builder: impl Fn() -> Builder) {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut pair = Pair::new(builder());
        for _ in 0..few(60, 600) {
            pair.step(&mut random);
        }
        pair.end(random.next());
    }
}

#[test]
fn a_small_wheel_agrees_with_the_model() {
    check(small);
}

#[test]
fn two_shards_agree_with_the_model() {
    check(|| small().shards(2).capacity(3));
}

#[test]
fn a_wheel_of_one_level_agrees_with_the_model() {
    check(|| Timer::builder().ticks_per_wheel(4).levels(1));
}

#[test]
fn many_levels_agree_with_the_model() {
    check(|| Timer::builder().ticks_per_wheel(2).levels(7).max_pending_timeouts(1_000_000));
}

#[test]
fn limits_that_are_always_reached_agree_with_the_model() {
    check(|| small().transfer_limit(2).expiry_limit(1));
}
