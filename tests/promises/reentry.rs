//! Tasks and clocks that call the engine, or panic, while it drains, resets, or ends a run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Instant;

use tourbillon::{Clock, Inline, ManualClock, MissedTicks, Shutdown, ThreadPool, Timeout, Timer};

use crate::common::{Counter, HOUR, MS, assert_counters_reconcile, built, driven, eventually, in_time};

/// Schedules a periodic timeout, and a timeout that resets it, due at once with it, in both orders.
/// Returns how many were returned, and how many ran.
fn fire_now(timer: &Timer, reset_first: bool) -> (usize, usize) {
    let (runs, slot) = (Counter::default(), Arc::new(OnceLock::<Timeout>::new()));
    let its = Arc::clone(&slot);
    let reset = move || assert!(its.get().expect("it is there").reset(HOUR));
    if reset_first {
        timer.schedule_detached(MS, reset.clone()).expect("accepted");
    }
    let periodic = timer.schedule_at_fixed_rate(MS, MS, runs.task()).expect("accepted");
    slot.set(periodic).expect("the first");
    if !reset_first {
        timer.schedule_detached(MS, reset).expect("accepted");
    }
    let left = timer.shutdown_with(Shutdown::FireNow).expect("the first");
    (left.len(), runs.get())
}

#[test]
fn fire_now_runs_a_periodic_timeout_that_another_task_of_the_batch_resets() {
    for reset_first in [false, true] {
        let (timer, driver, _clock) = driven();
        assert_eq!(fire_now(&timer, reset_first), (0, 1), "driven, {reset_first}");
        drop(driver);
        let builder = Timer::builder().shards(1).clock(ManualClock::new()).executor(Inline);
        assert_eq!(fire_now(&builder.build().expect("the options make sense"), reset_first), (0, 1), "{reset_first}");
    }
}

#[test]
fn a_turn_ends_though_its_burst_can_not_catch_up() {
    let (timer, mut driver) = Timer::builder().build_driven().expect("the options make sense");
    let slow = || thread::sleep(2 * MS);
    let periodic = timer.schedule_at_fixed_rate_with(MS, MS, MissedTicks::Burst, slow).expect("accepted");
    thread::sleep(3 * MS);
    let (fired, _driver) = in_time("a turn", move || (driver.turn(), driver));
    assert!(fired >= 1 && periodic.is_pending());
}

type Meanwhile = Box<dyn FnOnce() + Send>;

/// A clock that calls the test in the middle of that thread's next look.
#[derive(Clone, Default)]
pub(crate) struct Interrupted(Arc<Mutex<Option<(ThreadId, Meanwhile)>>>);

impl Interrupted {
    pub(crate) fn at_the_next_look(&self, then: impl FnOnce() + Send + 'static) {
        *self.0.lock().expect("no panic under this lock") = Some((thread::current().id(), Box::new(then)));
    }
}

impl Clock for Interrupted {
    fn now(&self) -> Instant {
        let mine = |meanwhile: &mut (ThreadId, Meanwhile)| meanwhile.0 == thread::current().id();
        let meanwhile = self.0.lock().expect("no panic under this lock").take_if(mine);
        if let Some((_, meanwhile)) = meanwhile {
            meanwhile();
        }
        Instant::now()
    }
}

#[test]
fn a_clock_may_use_the_engine_during_a_reset() {
    for panics in [false, true] {
        let clock = Interrupted::default();
        let (timer, _driver) = Timer::builder().clock(clock.clone()).build_driven().expect("the options make sense");
        let schedule = || timer.schedule(HOUR, || ()).expect("accepted");
        let (held, moved, kept, dropped) = (schedule(), schedule(), schedule(), schedule());
        let (own, before) = (timer.clone(), held.deadline());
        let meanwhile = move || {
            let fresh = own.schedule(HOUR, || ()).expect("accepted");
            assert!(moved.reset(2 * HOUR) && kept.cancel() && fresh.cancel());
            drop((moved, kept, dropped, fresh));
            // In the entry that has just been given up.
            own.schedule_detached(HOUR, || ()).expect("accepted");
            assert!(!panics, "on purpose, in a clock");
        };
        clock.at_the_next_look(meanwhile);
        let reset = catch_unwind(AssertUnwindSafe(|| held.reset(2 * HOUR)));
        assert_eq!(reset.ok(), (!panics).then_some(true));
        assert_eq!(held.deadline() > before, !panics);
        let stats = timer.stats();
        assert_eq!((stats.scheduled, stats.cancelled, stats.reset), (6, 2, 2 - u64::from(panics)));
        assert_eq!(stats.pending, 4);
        assert_counters_reconcile(&stats);
    }
}

/// Panics at the next look of a thread with such a name, once for each time that the test arms it.
#[derive(Clone)]
struct Sick {
    armed: Arc<AtomicBool>,
    thread: &'static str,
}

impl Sick {
    fn of(thread: &'static str) -> Self {
        Self { armed: Arc::default(), thread }
    }
}

impl Clock for Sick {
    fn now(&self) -> Instant {
        let is_its = thread::current().name().is_some_and(|name| name.starts_with(self.thread));
        assert!(!(is_its && self.armed.swap(false, Ordering::Relaxed)), "on purpose");
        Instant::now()
    }
}

#[test]
fn a_clock_that_panics_once_after_a_run_does_not_end_the_periodic_timeout() {
    let clock = Sick::of("tourbillon-pool");
    let timer = built(Timer::builder().shards(1).clock(clock.clone()).executor(ThreadPool::new(1)).thread_name("sick"));
    let runs = Arc::new(AtomicUsize::new(0));
    let (count, armed) = (Arc::clone(&runs), Arc::clone(&clock.armed));
    let task = move || armed.store(count.fetch_add(1, Ordering::Relaxed) == 2, Ordering::Relaxed);
    let periodic = timer.schedule_with_fixed_delay(MS, MS, task).expect("accepted");
    eventually("it goes on", || runs.load(Ordering::Relaxed) > 5);
    assert!(periodic.cancel());
    assert_eq!(timer.stats().panicked, 0);
}

#[test]
fn a_drain_ends_though_its_clock_has_died() {
    struct Dead(Arc<AtomicBool>);
    impl Clock for Dead {
        fn now(&self) -> Instant {
            let is_worker = thread::current().name().is_some_and(|name| name == "dead-0");
            assert!(!(is_worker && self.0.load(Ordering::Relaxed)), "on purpose");
            Instant::now()
        }
    }
    let is_dead = Arc::new(AtomicBool::new(false));
    let timer = built(Timer::builder().shards(1).clock(Dead(Arc::clone(&is_dead))).thread_name("dead"));
    let first = timer.schedule(MS, || ()).expect("accepted");
    eventually("the worker runs", || first.is_expired());
    timer.schedule_detached(HOUR, || ()).expect("accepted");
    is_dead.store(true, Ordering::Relaxed);
    let left = in_time("a drain", move || timer.shutdown_with(Shutdown::Drain(50 * MS)).expect("the first").len());
    assert_eq!(left, 1);
}
