//! Clocks that stop, jump, or go from deadline to deadline, and the engines on them.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Builder, Clock, ClockListener, Driver, ManualClock, MissedTicks, PausableClock, Timer};

use common::{Counter, DAY, HOUR, MS, Runs, driven_with_pauses, eventually, fire_one, on_workers, settle};

const SECOND: Duration = Duration::from_secs(1);

/// Returns an engine with workers on a clock that can be stopped, and the clock below.
fn with_pauses(builder: Builder) -> (Timer, PausableClock, ManualClock) {
    let hand = ManualClock::new();
    let clock = PausableClock::over(hand.clone());
    (builder.clock(clock.clone()).build().expect("the options make sense"), clock, hand)
}

/// Counts the calls of a driver.
fn rings(driver: &Driver) -> Counter {
    let rings = Counter::default();
    driver.on_earlier(rings.task());
    rings
}

#[test]
fn with_workers_a_pause_fires_nothing_and_delays_all_that_is_pending_by_itself() {
    let (timer, clock, hand) = with_pauses(Timer::builder().shards(2));
    let delays = [MS, 5 * SECOND, HOUR, DAY];
    let (runs, beats) = (Runs::new(delays.len()), Counter::default());
    for (id, delay) in delays.into_iter().enumerate() {
        drop(timer.shard_for(&id).schedule(delay, runs.task(id)).expect("accepted"));
    }
    drop(timer.schedule_at_fixed_rate(2 * SECOND, 2 * HOUR, beats.task()).expect("accepted"));
    hand.advance(SECOND);
    assert_eq!(runs.total(), 1);
    for _ in 0..3 {
        clock.pause();
        hand.advance(100 * DAY);
        assert_eq!((runs.total(), beats.get()), (1, 0), "in a pause");
        clock.resume();
    }
    let mut come = SECOND;
    for (fired, delay) in (2..).zip(&delays[1..]) {
        hand.advance(*delay - come - Duration::from_nanos(1));
        assert_eq!(runs.total(), fired - 1, "early by the pause");
        hand.advance(Duration::from_nanos(1));
        assert_eq!(runs.total(), fired);
        come = *delay;
    }
    runs.assert_each_ran_once();
}

#[test]
fn driven_a_pause_fires_nothing_and_delays_all_that_is_pending_by_itself() {
    let (timer, mut driver, clock, hand) = driven_with_pauses();
    let (before, runs) = (timer.schedule(2 * MS, || ()).expect("accepted"), Counter::default());
    drop(timer.schedule_at_fixed_rate(3 * MS, 3 * MS, runs.task()).expect("accepted"));
    hand.advance(MS);
    clock.pause();
    let within = timer.schedule(MS, || ()).expect("accepted");
    let deadlines = [&before, &within].map(|timeout| timeout.deadline());
    assert_eq!(deadlines, [clock.now() + MS; 2]);
    for _ in 0..3 {
        hand.advance(HOUR);
        assert_eq!((driver.turn(), driver.next_wakeup(), clock.now()), (0, None, timer.now()));
        assert!(!hand.advance_to_next(&timer), "time stands still");
    }
    clock.resume();
    assert_eq!([&before, &within].map(|timeout| timeout.deadline()), deadlines);
    hand.advance(MS - Duration::from_nanos(1));
    assert_eq!(driver.turn(), 0, "early by the pause");
    hand.advance(Duration::from_nanos(1));
    assert_eq!((driver.turn(), timer.now()), (2, deadlines[0]));
    hand.advance(MS);
    assert_eq!((driver.turn(), runs.get()), (1, 1), "the rate lost the pause and no more");
}

#[test]
fn in_a_pause_what_has_no_delay_or_is_past_runs_at_once_and_so_does_what_was_due_before() {
    let (timer, mut driver, clock, hand) = driven_with_pauses();
    hand.advance(7 * MS + MS / 4);
    let due = timer.schedule(MS, || ()).expect("accepted");
    hand.advance(MS);
    clock.pause();
    hand.advance(HOUR);
    let at_once = timer.schedule(Duration::ZERO, || ()).expect("accepted");
    let past = timer.schedule_at(clock.now() - MS, || ()).expect("accepted");
    let reset = timer.schedule(HOUR, || ()).expect("accepted");
    assert!(reset.reset(Duration::ZERO) && driver.next_wakeup().is_some_and(|at| at <= clock.now()));
    assert_eq!(driver.turn(), 4);
    assert!([due, at_once, past, reset].iter().all(|timeout| timeout.is_expired()));
    let (timer, clock, _hand) = with_pauses(Timer::builder());
    clock.pause();
    fire_one(&timer, Duration::ZERO);
}

#[test]
fn the_end_of_a_pause_calls_each_driver_that_waits_for_a_time_or_for_none() {
    let (timer, mut driver, clock, hand) = driven_with_pauses();
    let (other_timer, other) = Timer::builder().clock(clock.clone()).build_driven().expect("the options make sense");
    let (rung, other_rung) = (rings(&driver), rings(&other));
    let _far = timer.schedule(HOUR, || ()).expect("accepted");
    drop(other_timer.schedule(DAY, || ()).expect("accepted"));
    // One has looked before the pause, and one looks in it.
    assert!(driver.next_wakeup().is_some());
    clock.pause();
    assert_eq!(other.next_wakeup(), None);
    rung.take();
    other_rung.take();
    clock.resume();
    assert_eq!((rung.take(), other_rung.take()), (1, 1));
    assert!(driver.next_wakeup().is_some_and(|at| at > clock.now() && at <= clock.now() + HOUR));
    clock.resume();
    assert_eq!(rung.take(), 0, "there was no pause");
    hand.advance(HOUR);
    assert_eq!(driver.turn(), 1);
}

#[test]
fn the_end_of_a_pause_wakes_a_worker_that_sleeps() {
    let clock = PausableClock::new();
    let timer = Timer::builder().clock(clock.clone()).shards(1).build().expect("the options make sense");
    fire_one(&timer, Duration::ZERO);
    clock.pause();
    let (at, real) = (timer.now(), Instant::now());
    let timeout = timer.schedule(50 * MS, || ()).expect("accepted");
    // Its worker has found by now that nothing is due, and sleeps without a limit.
    thread::sleep(100 * MS);
    assert!(timeout.is_pending() && timer.now() == at);
    clock.resume();
    eventually("it fires", || timeout.is_expired());
    assert!(timer.now() >= at + 50 * MS && real.elapsed() >= 150 * MS, "delayed by the pause");
}

/// A clock that goes at the real one's speed, and that a test makes jump. It tells its listeners.
#[derive(Clone, Default)]
struct Jumps {
    ahead_ns: Arc<AtomicU64>,
    listeners: Arc<Mutex<Vec<Weak<dyn ClockListener>>>>,
}

impl Jumps {
    fn jump(&self, by: Duration) {
        self.ahead_ns.fetch_add(u64::try_from(by.as_nanos()).expect("a short jump"), Ordering::Relaxed);
        let listeners: Vec<_> = self.listeners.lock().expect("no panic").iter().filter_map(Weak::upgrade).collect();
        listeners.iter().for_each(|listener| listener.stepped());
    }
}

impl Clock for Jumps {
    fn now(&self) -> Instant {
        Instant::now() + Duration::from_nanos(self.ahead_ns.load(Ordering::Relaxed))
    }

    fn subscribe(&self, listener: Weak<dyn ClockListener>) {
        self.listeners.lock().expect("no panic").push(listener);
    }
}

#[test]
fn workers_fire_what_has_become_due_when_their_clock_jumps_and_says_so() {
    let clock = Jumps::default();
    let engine = || Timer::builder().shards(2).clock(clock.clone()).build().expect("the options make sense");
    let engines = [engine(), engine()];
    let soon = engines
        .each_ref()
        .map(|timer| [0, 1].map(|key| timer.shard_for(&key).schedule(HOUR, || ()).expect("accepted")));
    let later = engines.each_ref().map(|timer| timer.schedule(2 * HOUR, || ()).expect("accepted"));
    thread::sleep(20 * MS);
    assert!(soon.iter().flatten().all(|timeout| timeout.is_pending()));
    clock.jump(HOUR);
    eventually("all that became due fire", || soon.iter().flatten().all(|timeout| timeout.is_expired()));
    assert!(later.iter().all(|timeout| timeout.is_pending()));
    // Below a clock that can be stopped, too.
    let clock = Jumps::default();
    let over = Timer::builder().clock(PausableClock::over(clock.clone())).build().expect("the options make sense");
    let soon = over.schedule(HOUR, || ()).expect("accepted");
    thread::sleep(20 * MS);
    clock.jump(HOUR);
    eventually("it fires", || soon.is_expired());
}

#[test]
fn a_driver_is_called_when_its_clock_jumps_and_fires_what_has_become_due() {
    let clock = Jumps::default();
    let (timer, mut driver) = Timer::builder().clock(clock.clone()).build_driven().expect("the options make sense");
    let rings = rings(&driver);
    let [soon, later] = [HOUR, 3 * HOUR].map(|delay| timer.schedule(delay, || ()).expect("accepted"));
    assert!(driver.next_wakeup().is_some() && driver.turn() == 0);
    assert!(driver.next_wakeup().is_some_and(|at| at > clock.now()));
    rings.take();
    clock.jump(2 * HOUR);
    assert_eq!(rings.get(), 1);
    assert_eq!(driver.turn(), 1);
    assert!(soon.is_expired() && later.is_pending());
}

/// A clock of the user's that stands on one that is moved by hand.
struct Wrapped(ManualClock);

impl Clock for Wrapped {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn subscribe(&self, listener: Weak<dyn ClockListener>) {
        self.0.subscribe(listener);
    }
}

#[test]
fn an_engine_on_a_clock_over_a_manual_one_hears_of_its_steps() {
    let hand = ManualClock::new();
    let timer = Timer::builder().clock(Wrapped(hand.clone())).build().expect("the options make sense");
    let fired = Counter::default();
    timer.schedule_detached(HOUR, fired.task()).expect("accepted");
    eventually("the worker has it, and sleeps", || timer.stats().shards[0].linked == 1);
    hand.advance(HOUR);
    eventually("it has fired", || fired.get() == 1);
}

#[test]
fn advance_through_runs_a_series_as_often_as_it_would_and_each_task_at_its_own_deadline() {
    let (timer, clock) = on_workers(Timer::builder().shards(2));
    let start = clock.now();
    let seen = Arc::<Mutex<Vec<Duration>>>::default();
    let task = {
        let (seen, clock) = (Arc::clone(&seen), clock.clone());
        move || seen.lock().expect("no panic").push(clock.now() - start)
    };
    for missed in [MissedTicks::Skip, MissedTicks::Delay, MissedTicks::Burst] {
        seen.lock().expect("no panic").clear();
        let begun = clock.now() - start;
        let series = timer.schedule_at_fixed_rate_with(SECOND, SECOND, missed, task.clone()).expect("accepted");
        clock.advance_through(60 * SECOND + MS);
        let at: Vec<_> = seen.lock().expect("no panic").iter().map(|at| *at - begun).collect();
        assert_eq!(at, (1..=60).map(|n| n * SECOND).collect::<Vec<_>>(), "{missed:?}");
        assert_eq!(clock.now() - start - begun, 60 * SECOND + MS, "it goes on to the end");
        assert!(series.cancel());
    }
    clock.advance_through(HOUR);
    clock.advance_through(Duration::ZERO);
    assert_eq!(clock.now() - start, 3 * (60 * SECOND + MS) + HOUR, "also with nothing pending");
}

#[test]
fn advance_through_goes_to_the_deadlines_of_all_engines_on_the_clock() {
    let clock = ManualClock::new();
    let engine = || Timer::builder().clock(clock.clone()).build().expect("the options make sense");
    let [first, second] = [engine(), engine()];
    let [threes, fives, chained] = [0; 3].map(|_| Counter::default());
    let _threes = first.schedule_at_fixed_rate(3 * SECOND, 3 * SECOND, threes.task()).expect("accepted");
    let _fives = second.schedule_with_fixed_delay(5 * SECOND, 5 * SECOND, fives.task()).expect("accepted");
    // A task of one engine schedules on the other.
    let (other, next) = (second.clone(), chained.task());
    let task = move || other.schedule_detached(7 * SECOND, next).expect("accepted");
    first.schedule_detached(SECOND, task).expect("accepted");
    clock.advance_through(7 * SECOND);
    assert_eq!(chained.get(), 0);
    clock.advance_through(53 * SECOND);
    let ran = [threes, fives, chained].map(|runs| runs.get());
    assert_eq!(ran, [20, 12, 1]);
}

#[test]
fn advance_through_passes_by_an_engine_in_a_pause_and_one_that_is_driven() {
    let (timer, clock, hand) = with_pauses(Timer::builder());
    let (other, mut driver) = Timer::builder().clock(hand.clone()).build_driven().expect("the options make sense");
    let (beats, turns) = (Counter::default(), Counter::default());
    let _beats = timer.schedule_at_fixed_rate(SECOND, SECOND, beats.task()).expect("accepted");
    let _turns = other.schedule_at_fixed_rate(SECOND, SECOND, turns.task()).expect("accepted");
    clock.pause();
    hand.advance_through(HOUR);
    assert_eq!((beats.get(), settle(&mut driver, &hand)), (0, 1), "its owner turns it");
    clock.resume();
    hand.advance_through(60 * SECOND);
    assert_eq!(beats.get(), 60);
}

#[test]
fn advance_through_from_two_threads_goes_as_far_as_both_and_skips_no_run() {
    let (timer, clock) = on_workers(Timer::builder());
    let runs = Counter::default();
    let series = timer.schedule_at_fixed_rate(MS, MS, runs.task()).expect("accepted");
    let start = clock.now();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| clock.advance_through(200 * MS));
        }
    });
    assert_eq!((clock.now() - start, runs.get()), (400 * MS, 400));
    assert!(series.cancel());
}
