//! The promises of a local engine: the timers of one thread.

mod handles;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tourbillon::ManualClock;
use tourbillon_local::{BuildError, Elapsed, LocalBuilder, LocalDriver, LocalSleep, LocalTimeout, LocalTimer, Refusal};

const SECOND: Duration = Duration::from_secs(1);

struct Engine {
    timer: LocalTimer,
    driver: LocalDriver,
    clock: ManualClock,
}

impl Engine {
    fn new() -> Self {
        let clock = ManualClock::new();
        let (timer, driver) = LocalTimer::builder().clock(clock.clone()).build().expect("an engine");
        Self { timer, driver, clock }
    }

    fn pass(&mut self, time: Duration) -> usize {
        self.clock.advance(time);
        self.driver.turn()
    }
}

/// Records what ran, in order.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<u32>>>);

impl Log {
    fn task(&self, number: u32) -> impl FnOnce() + 'static {
        let log = self.clone();
        move || log.0.borrow_mut().push(number)
    }

    fn take(&self) -> Vec<u32> {
        self.0.take()
    }
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn due_timeouts_run_on_their_thread_in_the_order_of_their_deadlines_and_never_early() {
    let (mut engine, log) = (Engine::new(), Log::default());
    let here: Rc<Cell<Option<ThreadId>>> = Rc::default();
    for (number, seconds) in [(3, 3), (1, 1), (2, 2), (9, 900_000)] {
        engine.timer.schedule_detached(SECOND * seconds, log.task(number)).expect("room");
    }
    let thread = Rc::clone(&here);
    engine.timer.schedule_detached(SECOND, move || thread.set(Some(thread::current().id()))).expect("room");
    assert_eq!(engine.pass(SECOND - Duration::from_nanos(1)), 0);
    assert_eq!(engine.pass(Duration::from_nanos(1)), 2);
    assert_eq!(here.get(), Some(thread::current().id()));
    assert_eq!(engine.pass(SECOND * 10), 2);
    assert_eq!(log.take(), [1, 2, 3]);
    assert_eq!((engine.timer.pending(), engine.timer.fired()), (1, 4));
    assert_eq!(engine.pass(SECOND * 900_000), 1, "through all levels");
}

#[test]
fn timeouts_of_one_deadline_run_first_in_first_out() {
    let (mut engine, log) = (Engine::new(), Log::default());
    let deadline = engine.timer.now() + SECOND;
    for number in 0..1_000 {
        let _ = engine.timer.schedule_at(deadline, log.task(number)).expect("room");
    }
    engine.pass(SECOND);
    assert_eq!(log.take(), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_cancel_that_returned_true_never_runs_and_drops_the_task_at_once() {
    let mut engine = Engine::new();
    let witness = Rc::new(());
    let captured = Rc::clone(&witness);
    let timeout = engine.timer.schedule(SECOND, move || drop(captured)).expect("room");
    assert!(timeout.is_pending() && timeout.cancel());
    assert_eq!(Rc::strong_count(&witness), 1);
    assert!(timeout.is_cancelled() && !timeout.cancel() && !timeout.reset(SECOND) && !timeout.cancel_owned());
    assert_eq!((engine.timer.pending(), engine.driver.next_wakeup()), (0, None), "it has left its slot");
    assert_eq!(engine.pass(SECOND), 0);
}

#[test]
fn a_reset_that_returned_true_holds_to_later_and_to_earlier() {
    let (mut engine, log) = (Engine::new(), Log::default());
    let later = engine.timer.schedule(SECOND, log.task(1)).expect("room");
    let earlier = engine.timer.schedule(SECOND * 3_600, log.task(2)).expect("room");
    assert!(later.reset(SECOND * 10) && earlier.reset(SECOND * 5));
    assert_eq!(later.deadline() - engine.timer.now(), SECOND * 10);
    engine.pass(SECOND * 5 - Duration::from_nanos(1));
    assert_eq!(log.take(), []);
    engine.pass(Duration::from_nanos(1));
    assert_eq!(log.take(), [2]);
    engine.pass(SECOND * 5);
    assert_eq!(log.take(), [1]);
    assert!(later.is_expired() && !later.reset(SECOND) && !later.cancel());
}

#[test]
fn a_task_may_cancel_and_put_off_those_that_are_due_with_it() {
    let (mut engine, log) = (Engine::new(), Log::default());
    let others: Rc<RefCell<Vec<LocalTimeout>>> = Rc::default();
    let deadline = engine.timer.now() + SECOND;
    let (list, first) = (Rc::clone(&others), log.task(0));
    let _ = engine
        .timer
        .schedule_at(deadline, move || {
            first();
            let list = list.borrow();
            assert!(list[0].cancel() && list[0].is_cancelled());
            assert!(list[1].reset(SECOND));
            assert!(list[1].is_pending());
        })
        .expect("room");
    for number in 1..4 {
        others.borrow_mut().push(engine.timer.schedule_at(deadline, log.task(number)).expect("room"));
    }
    assert_eq!(engine.pass(SECOND), 2);
    assert_eq!((log.take(), engine.timer.pending()), (vec![0, 3], 1));
    assert_eq!(engine.pass(SECOND), 1);
    assert_eq!((log.take(), engine.timer.pending()), (vec![2], 0));
}

#[test]
fn a_task_is_told_how_many_are_pending_with_it() {
    let mut engine = Engine::new();
    let told: Rc<RefCell<Vec<usize>>> = Rc::default();
    let list: Rc<RefCell<Vec<LocalTimeout>>> = Rc::default();
    let _ = engine.timer.schedule(SECOND * 2, || ()).expect("room");
    for cancels in [true, false, false, false] {
        let (timer, told, all) = (engine.timer.clone(), Rc::clone(&told), Rc::clone(&list));
        let task = move || {
            told.borrow_mut().push(timer.pending());
            assert_eq!(all.borrow()[2].cancel(), cancels);
        };
        list.borrow_mut().push(engine.timer.schedule(SECOND, task).expect("room"));
    }
    assert_eq!((engine.timer.pending(), engine.pass(SECOND), engine.timer.panicked()), (5, 3, 0));
    assert_eq!((told.take(), engine.timer.pending()), (vec![4, 2, 1], 1), "itself is not, nor the third");
}

#[test]
fn a_timeout_that_is_due_may_be_reset_to_a_time_that_has_passed_and_runs_once() {
    let (mut engine, log) = (Engine::new(), Log::default());
    let others: Rc<RefCell<Vec<LocalTimeout>>> = Rc::default();
    let begun = engine.timer.now();
    // Within a tick, so that the last tick that has come is before it.
    let deadline = begun + SECOND + Duration::from_micros(300);
    let list = Rc::clone(&others);
    let resets = move || assert!(list.borrow().iter().all(|timeout| timeout.reset_at(begun)));
    let _ = engine.timer.schedule_at(deadline, resets).expect("room");
    for number in 1..4 {
        others.borrow_mut().push(engine.timer.schedule_at(deadline, log.task(number)).expect("room"));
    }
    assert_eq!(engine.pass(SECOND + Duration::from_micros(400)), 4);
    assert_eq!((engine.pass(SECOND), engine.timer.pending(), log.take()), (0, 0, vec![1, 2, 3]));
}

#[test]
fn a_handle_that_a_task_drops_frees_nothing_that_the_turn_still_needs() {
    let (mut engine, log) = (Engine::new(), Log::default());
    let others: Rc<RefCell<Vec<LocalTimeout>>> = Rc::default();
    let deadline = engine.timer.now() + SECOND;
    let (list, timer, refill) = (Rc::clone(&others), engine.timer.clone(), log.clone());
    let _ = engine
        .timer
        .schedule_at(deadline, move || {
            let mut gone = list.take();
            assert!(gone.drain(8..).rev().all(LocalTimeout::cancel_owned));
            assert!(gone.iter().step_by(2).all(LocalTimeout::cancel));
            drop(gone);
            for number in 100..110 {
                timer.schedule_detached(SECOND, refill.task(number)).expect("room");
            }
        })
        .expect("room");
    for number in 1..11 {
        others.borrow_mut().push(engine.timer.schedule_at(deadline, log.task(number)).expect("room"));
    }
    assert_eq!(engine.pass(SECOND), 5);
    assert_eq!(log.take(), [2, 4, 6, 8]);
    assert_eq!(engine.pass(SECOND), 10);
    assert_eq!(log.take(), (100..110).collect::<Vec<_>>());
}

#[test]
fn a_timeout_that_a_task_schedules_without_a_delay_waits_for_the_next_turn() {
    fn again(timer: &LocalTimer, runs: &Rc<Cell<u32>>) {
        let (next, count) = (timer.clone(), Rc::clone(runs));
        let task = move || {
            count.set(count.get() + 1);
            again(&next, &count);
        };
        timer.schedule_detached(Duration::ZERO, task).expect("room");
    }
    let (mut engine, runs) = (Engine::new(), Rc::default());
    again(&engine.timer, &runs);
    for turn in 1..=5 {
        assert!(engine.driver.next_wakeup().is_some_and(|at| at <= engine.timer.now()));
        assert_eq!((engine.driver.turn(), runs.get()), (1, turn));
    }
}

#[test]
fn an_expiry_limit_bounds_a_turn_and_loses_nothing() {
    let clock = ManualClock::new();
    let builder = LocalTimer::builder().clock(clock.clone()).expiry_limit(10);
    let (timer, mut driver) = builder.build().expect("an engine");
    for _ in 0..25 {
        timer.schedule_detached(SECOND, || ()).expect("room");
    }
    clock.advance(SECOND);
    let turns: Vec<_> = (0..4).map(|_| driver.turn()).collect();
    assert_eq!(turns, [10, 10, 5, 0]);
}

#[test]
fn a_panic_is_counted_and_takes_nothing_with_it() {
    let (mut engine, log) = (Engine::new(), Log::default());
    for number in 0..4 {
        let ran = log.task(number);
        let task = move || {
            ran();
            assert!(number != 1, "on purpose");
        };
        engine.timer.schedule_detached(SECOND, task).expect("room");
    }
    assert_eq!(engine.pass(SECOND), 4);
    assert_eq!((log.take(), engine.timer.panicked()), (vec![0, 1, 2, 3], 1));
}

#[test]
fn the_end_of_the_driver_drops_what_is_pending_and_refuses_what_comes() {
    let Engine { timer, driver, .. } = Engine::new();
    let witness = Rc::new(());
    // A task that holds the timer is no circle that stays.
    let (captured, itself) = (Rc::clone(&witness), timer.clone());
    let pending = timer.schedule(SECOND, move || drop((captured, itself))).expect("room");
    let never = timer.schedule(Duration::MAX, || ()).expect("room");
    drop(driver);
    assert_eq!(Rc::strong_count(&witness), 1);
    assert!(pending.is_cancelled() && never.is_cancelled() && !pending.reset(SECOND));
    let refused = timer.schedule(SECOND, move || drop(witness)).expect_err("the driver is gone");
    assert_eq!(refused.kind(), Refusal::Shutdown);
    let witness = refused.into_inner();
    witness();
    assert_eq!(timer.pending(), 0);
}

#[test]
fn a_drop_at_the_end_may_cancel_another_timeout() {
    struct CancelsOnDrop(Rc<RefCell<Option<LocalTimeout>>>);
    impl Drop for CancelsOnDrop {
        fn drop(&mut self) {
            assert!(self.0.take().is_some_and(|timeout| timeout.cancel()));
        }
    }
    let Engine { timer, driver, .. } = Engine::new();
    let other = Rc::new(RefCell::new(None));
    let cancels = CancelsOnDrop(Rc::clone(&other));
    timer.schedule_detached(SECOND, move || drop(cancels)).expect("room");
    let ran = Rc::new(Cell::new(false));
    let runs = Rc::clone(&ran);
    *other.borrow_mut() = Some(timer.schedule(SECOND * 2, move || runs.set(true)).expect("room"));
    drop(driver);
    assert!(other.borrow().is_none() && !ran.get());
    assert_eq!(timer.pending(), 0);
}

#[test]
fn handles_outlive_their_timer_and_their_driver() {
    let Engine { timer, driver, .. } = Engine::new();
    let timeouts: Vec<_> = (0..1_000).map(|_| timer.schedule(SECOND, || ()).expect("room")).collect();
    drop((timer, driver));
    assert!(timeouts.iter().all(LocalTimeout::is_cancelled));
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let refused = |builder: LocalBuilder| builder.build().map(drop).expect_err("no engine");
    let builder = LocalTimer::builder;
    assert_eq!(refused(builder().expiry_limit(0)), BuildError::Zero { option: "expiry_limit" });
    assert_eq!(refused(builder().levels(0)), BuildError::Zero { option: "levels" });
    assert_eq!(refused(builder().tick_duration(Duration::ZERO)), BuildError::Zero { option: "tick_duration" });
    let short = BuildError::TooSmall { option: "tick_duration", value: 999, min: 1_000 };
    assert_eq!(refused(builder().tick_duration(Duration::from_nanos(999))), short);
    let most = 9_223_372_036_000_000_000;
    let long = |value| BuildError::TooLarge { option: "tick_duration", value, max: most };
    assert_eq!(refused(builder().tick_duration(Duration::MAX)), long(Duration::MAX.as_nanos()));
    let beyond = builder().tick_duration(Duration::from_secs(9_223_372_036) + Duration::from_nanos(1));
    assert_eq!(refused(beyond), long(most + 1));
    let many = BuildError::TooLarge { option: "ticks_per_wheel", value: 1 << 21, max: 1 << 20 };
    assert_eq!(refused(builder().ticks_per_wheel(1 << 21)), many);
    assert_eq!(refused(builder().ticks_per_wheel(1).levels(2)), BuildError::TooFewTicks { levels: 2 });
    let levels = BuildError::TooManyLevels { levels: 7, ticks_per_wheel: 512, max: 6 };
    assert_eq!(refused(builder().levels(7)), levels);
    assert!(builder().levels(6).build().is_ok() && builder().ticks_per_wheel(1).build().is_ok());
}

#[test]
fn a_timeout_before_the_time_that_a_loop_was_told_rings_once() {
    let engine = Engine::new();
    let rings = Rc::new(Cell::new(0));
    let count = Rc::clone(&rings);
    engine.driver.on_earlier(move || count.set(count.get() + 1));
    let ms = Duration::from_millis;
    let far = engine.timer.schedule(ms(600), || ()).expect("room");
    assert_eq!(rings.get(), 0, "nobody waits yet");
    assert_eq!(engine.driver.next_wakeup(), Some(engine.timer.now() + ms(600)));
    engine.timer.schedule_detached(ms(900), || ()).expect("room");
    let same = engine.timer.now() + ms(600);
    let _ = engine.timer.schedule_at(same, || ()).expect("room");
    assert_eq!(rings.get(), 0, "they are not earlier");
    engine.timer.schedule_detached(ms(90), || ()).expect("room");
    engine.timer.schedule_detached(ms(80), || ()).expect("room");
    assert_eq!(rings.get(), 1);
    assert_eq!(engine.driver.next_wakeup(), Some(engine.timer.now() + ms(80)));
    assert!(far.reset(ms(70)));
    assert_eq!(rings.get(), 2, "a reset rings, too");
}

#[test]
fn a_turn_before_the_time_that_a_loop_was_told_silences_no_ring() {
    let mut engine = Engine::new();
    let rings = Rc::new(Cell::new(0));
    let count = Rc::clone(&rings);
    engine.driver.on_earlier(move || count.set(count.get() + 1));
    let ms = Duration::from_millis;
    engine.timer.schedule_detached(ms(600), || ()).expect("room");
    assert_eq!(engine.driver.next_wakeup(), Some(engine.timer.now() + ms(600)));
    // Packets have come, and the loop waits on for the same time.
    assert_eq!(engine.pass(ms(100)), 0);
    engine.timer.schedule_detached(ms(100), || ()).expect("room");
    assert_eq!(rings.get(), 1);
    engine.pass(ms(500));
    engine.timer.schedule_detached(Duration::ZERO, || ()).expect("room");
    assert_eq!(rings.get(), 1, "the time that it was told has come");
}

#[test]
fn a_sleep_is_woken_by_the_turn_in_which_its_deadline_has_come() {
    let mut engine = Engine::new();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut sleep = engine.timer.sleep(SECOND);
    assert_eq!(engine.timer.pending(), 0, "a sleep is lazy");
    assert!(poll(&mut sleep, &waker).is_pending());
    assert_eq!(engine.pass(SECOND - Duration::from_nanos(1)), 0);
    assert!(poll(&mut sleep, &waker).is_pending());
    assert_eq!((engine.pass(Duration::from_nanos(1)), count.0.load(Ordering::Relaxed)), (1, 1));
    assert!(poll(&mut sleep, &waker).is_ready() && sleep.is_elapsed() && !sleep.ended_by_shutdown());
    sleep.reset(SECOND);
    assert!(!sleep.is_elapsed() && poll(&mut sleep, &waker).is_pending());
    sleep.reset_at(engine.timer.now());
    assert!(poll(&mut sleep, &waker).is_ready(), "a reset to now is ready at the next poll");
    assert_eq!(engine.timer.pending(), 0);
}

#[test]
fn a_sleep_wakes_the_task_that_polled_it_last() {
    let mut engine = Engine::new();
    let counts = [0, 1].map(|_| Arc::new(Count(AtomicUsize::new(0))));
    let wakers = counts.clone().map(Waker::from);
    let mut sleep = engine.timer.sleep(SECOND);
    assert!(wakers.iter().all(|waker| poll(&mut sleep, waker).is_pending()));
    drop(wakers);
    engine.pass(SECOND);
    assert_eq!(counts.map(|count| (count.0.load(Ordering::Relaxed), Arc::strong_count(&count))), [(0, 1), (1, 1)]);
}

#[test]
fn a_sleep_that_is_dropped_leaves_nothing() {
    let mut engine = Engine::new();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let mut sleep = engine.timer.sleep(SECOND);
    assert!(poll(&mut sleep, &Waker::from(Arc::clone(&count))).is_pending());
    drop(sleep);
    assert_eq!((Arc::strong_count(&count), engine.timer.pending(), engine.pass(SECOND)), (1, 0, 0));
}

#[test]
fn the_end_of_the_driver_ends_a_sleep_and_a_limit_and_they_say_so() {
    let Engine { timer, driver, .. } = Engine::new();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut sleep = timer.sleep(SECOND);
    let mut limited = timer.timeout(SECOND, pending::<()>());
    assert!(poll(&mut sleep, &waker).is_pending() && poll(&mut limited, &waker).is_pending());
    drop(driver);
    assert_eq!(count.0.load(Ordering::Relaxed), 2);
    assert!(poll(&mut sleep, &waker).is_ready() && sleep.ended_by_shutdown());
    let Poll::Ready(Err(elapsed)) = poll(&mut limited, &waker) else { panic!("it has ended") };
    assert!(elapsed.is_shutdown());
    let mut late: LocalSleep = timer.sleep(SECOND);
    assert!(poll(&mut late, &waker).is_ready() && late.ended_by_shutdown());
}

#[test]
fn a_sleep_whose_deadline_has_come_was_not_ended_by_the_end_of_its_driver() {
    let Engine { timer, driver, clock } = Engine::new();
    let (mut sleep, mut lazy) = (timer.sleep(SECOND), timer.sleep(SECOND));
    assert!(poll(&mut sleep, Waker::noop()).is_pending());
    clock.advance(SECOND);
    drop(driver);
    assert!(poll(&mut sleep, Waker::noop()).is_ready() && poll(&mut lazy, Waker::noop()).is_ready());
    assert_eq!([sleep, lazy].map(|sleep| sleep.ended_by_shutdown()), [false, false]);
}

#[test]
fn a_limit_ends_a_future_that_is_not_send() {
    let mut engine = Engine::new();
    let state = Rc::new(Cell::new(0));
    let seen = Rc::clone(&state);
    let mut limited = pin!(engine.timer.timeout(SECOND, async move {
        seen.set(1);
        pending::<()>().await;
        seen.set(2);
    }));
    let mut context = Context::from_waker(Waker::noop());
    assert!(limited.as_mut().poll(&mut context).is_pending());
    engine.pass(SECOND);
    assert!(matches!(limited.as_mut().poll(&mut context), Poll::Ready(Err(Elapsed { .. }))));
    assert_eq!(state.get(), 1);
    let deadline = engine.timer.now() + SECOND;
    let mut limited = pin!(engine.timer.timeout_at(deadline, pending::<Rc<()>>()));
    assert!(limited.as_mut().poll(&mut context).is_pending());
    engine.pass(SECOND);
    assert!(limited.poll(&mut context).is_ready());
}

#[test]
fn on_the_real_clock_nothing_is_early_and_all_fire() {
    let (timer, mut driver) = LocalTimer::builder().build().expect("an engine");
    let fired = Rc::new(Cell::new(0));
    for number in 0..200 {
        let (delay, count) = (Duration::from_micros(number * 137), Rc::clone(&fired));
        let begun = Instant::now();
        let task = move || {
            assert!(begun.elapsed() >= delay);
            count.set(count.get() + 1);
        };
        timer.schedule_detached(delay, task).expect("room");
    }
    while let Some(at) = driver.next_wakeup() {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        driver.turn();
    }
    assert_eq!((fired.get(), timer.panicked(), timer.pending()), (200, 0, 0));
}
