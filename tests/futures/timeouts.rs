use std::future::{Future, pending, ready};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tourbillon::{Clock, PausableClock, Timer};

use super::Task;
use super::common::{HOUR, MS, driven, driven_with_pauses, in_time};

#[test]
fn a_timeout_round_a_ready_future_touches_no_timer() {
    let (timer, _driver, _clock) = driven();
    let task = Task::new();
    assert_eq!(task.poll(&mut timer.timeout(Duration::ZERO, ready(7))), Poll::Ready(Ok(7)));
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.cancelled), (0, 0, 0));
}

/// A clock that stands still, and counts the looks at it.
struct Counted {
    at: Instant,
    looks: Arc<AtomicUsize>,
}

impl Clock for Counted {
    fn now(&self) -> Instant {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.at
    }
}

#[test]
fn a_limit_round_a_ready_future_looks_at_no_clock() {
    let (at, looks) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let clock = PausableClock::over(Counted { at, looks: Arc::clone(&looks) });
    let (timer, _driver) = Timer::builder().clock(clock.clone()).build_driven().expect("the options make sense");
    let task = Task::new();
    for _ in 0..2 {
        looks.store(0, Ordering::Relaxed);
        assert_eq!(task.poll(&mut timer.timeout(MS, ready(7))), Poll::Ready(Ok(7)));
        assert_eq!(task.poll(&mut timer.timeout_at(at + MS, ready(8))), Poll::Ready(Ok(8)));
        assert_eq!(task.poll(&mut timer.timeout_at(at - MS, ready(9))), Poll::Ready(Ok(9)), "it has passed");
        assert_eq!((looks.load(Ordering::Relaxed), timer.pending()), (0, 0));
        clock.pause();
    }
    assert_eq!(timer.stats().scheduled, 0);
}

#[test]
fn a_limit_looks_at_the_clock_once_when_it_begins() {
    let (at, looks) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let clock = Counted { at, looks: Arc::clone(&looks) };
    let (timer, _driver) = Timer::builder().clock(clock).build_driven().expect("the options make sense");
    looks.store(0, Ordering::Relaxed);
    assert!(Task::new().poll(&mut timer.timeout(MS, pending::<()>())).is_pending());
    assert_eq!((looks.load(Ordering::Relaxed), timer.stats().scheduled), (1, 1));
}

#[test]
fn a_future_that_is_not_ready_by_its_deadline_has_elapsed() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    let mut late = timer.timeout_at(clock.now() + 5 * MS, pending::<()>());
    assert!(format!("{late:?}").starts_with("TimeoutFuture { limit: Instant"));
    clock.advance(3 * MS);
    assert_eq!(timer.pending(), 0, "nothing is scheduled before it is polled");
    assert!(task.poll(&mut late).is_pending());
    assert_eq!(timer.pending(), 1);
    clock.advance(2 * MS - Duration::from_nanos(1));
    driver.turn();
    assert!(task.poll(&mut late).is_pending(), "early");
    clock.advance(Duration::from_nanos(1));
    driver.turn();
    assert_eq!(task.woken(), 1, "the time counts from nothing but the deadline");
    assert!(matches!(task.poll(&mut late), Poll::Ready(Err(_))));
}

#[test]
fn a_deadline_that_has_passed_has_elapsed_at_the_first_poll_that_is_not_ready() {
    let (timer, _driver, clock) = driven();
    let (start, task) = (clock.now(), Task::new());
    clock.advance(7 * MS + MS / 3);
    // Also in the tick that has begun, to whose end the deadline would be rounded up.
    for ago in [Duration::ZERO, Duration::from_nanos(1), MS / 4, MS, 7 * MS, HOUR] {
        let Some(deadline) = clock.now().checked_sub(ago) else { continue };
        assert!(matches!(task.poll(&mut timer.timeout_at(deadline, pending::<()>())), Poll::Ready(Err(_))), "{ago:?}");
    }
    let mut passes = timer.timeout_at(start + HOUR, pending::<()>());
    clock.advance(HOUR);
    assert!(matches!(task.poll(&mut passes), Poll::Ready(Err(_))), "it passed before the first poll");
    assert_eq!((timer.stats().scheduled, task.woken()), (0, 0));
}

#[test]
fn a_deadline_that_is_not_counted_does_not_pass_at_the_end_of_time() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    clock.advance(Duration::MAX);
    let (now, later) = (clock.now(), clock.now() + HOUR);
    assert!(matches!(task.poll(&mut timer.timeout_at(now, pending::<()>())), Poll::Ready(Err(_))));
    assert_eq!(task.poll(&mut timer.sleep_until(now)), Poll::Ready(()));
    assert!(task.poll(&mut std::pin::pin!(timer.interval_at(now, MS).tick())).is_ready());
    assert!(task.poll(&mut timer.timeout_at(later, pending::<()>())).is_pending());
    assert!(task.poll(&mut timer.sleep_until(later)).is_pending());
    assert!(task.poll(&mut std::pin::pin!(timer.interval_at(later, MS).tick())).is_pending());
    assert_eq!(driver.turn(), 0);
}

#[test]
fn a_future_that_is_ready_when_its_deadline_has_passed_has_made_it() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    let (send, receive) = channel();
    let answer = std::future::poll_fn(move |_| receive.try_recv().map_or(Poll::Pending, Poll::Ready));
    let mut both = timer.timeout_at(clock.now() + MS, answer);
    assert!(task.poll(&mut both).is_pending());
    clock.advance(HOUR);
    driver.turn();
    send.send("just so").expect("it listens");
    assert_eq!(task.poll(&mut both), Poll::Ready(Ok("just so")));
    drop(both);
    assert!(task.is_forgotten());
}

#[test]
fn no_deadline_elapses_in_a_pause() {
    let (timer, mut driver, clock, hand) = driven_with_pauses();
    let task = Task::new();
    let mut before = timer.timeout_at(clock.now() + 5 * MS, pending::<()>());
    assert!(task.poll(&mut before).is_pending());
    hand.advance(2 * MS);
    clock.pause();
    hand.advance(HOUR);
    let mut passed = timer.timeout_at(clock.now() - MS, pending::<()>());
    assert!(matches!(task.poll(&mut passed), Poll::Ready(Err(_))), "it passed before the pause");
    let mut within = timer.timeout_at(clock.now() + 4 * MS, pending::<()>());
    for _ in 0..2 {
        driver.turn();
        let polls = [&mut before, &mut within].map(|limited| task.poll(limited).is_pending());
        assert_eq!(polls, [true; 2]);
        hand.advance(HOUR);
    }
    clock.resume();
    for left in [[true; 2], [true; 2], [false, true], [false; 2]] {
        hand.advance(MS);
        driver.turn();
        let polls = [&mut before, &mut within].map(|limited| task.poll(limited).is_pending());
        assert_eq!(polls, left);
    }
}

#[test]
fn a_deadline_may_be_as_far_as_an_instant_goes() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    let mut far = clock.now();
    for years in [1 << 38, 1 << 30, 500, 1] {
        far = far.checked_add(Duration::from_secs(years * 365 * 24 * 3600)).unwrap_or(far);
    }
    let mut limited = timer.timeout_at(far, pending::<()>());
    assert!(task.poll(&mut limited).is_pending());
    clock.advance(Duration::from_secs(100 * 365 * 24 * 3600));
    driver.turn();
    assert!(task.poll(&mut limited).is_pending());
    assert_eq!(timer.pending(), 1);
}

#[test]
fn a_future_that_is_not_ready_in_time_has_elapsed() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    let mut late = timer.timeout(5 * MS, pending::<()>());
    clock.advance(HOUR);
    assert!(task.poll(&mut late).is_pending(), "the time counts from the first poll");
    clock.advance(5 * MS - Duration::from_nanos(1));
    driver.turn();
    assert!(task.poll(&mut late).is_pending());
    clock.advance(Duration::from_nanos(1));
    driver.turn();
    assert_eq!(task.woken(), 1);
    let Poll::Ready(Err(elapsed)) = task.poll(&mut late) else { panic!("in time?") };
    assert_eq!(elapsed.to_string(), "the time was up before the future was ready");
    assert_eq!(io::Error::from(elapsed).kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_future_that_is_ready_when_the_time_is_up_has_made_it() {
    let (timer, mut driver, clock) = driven();
    let task = Task::new();
    let (send, receive) = channel();
    let answer = std::future::poll_fn(move |_| receive.try_recv().map_or(Poll::Pending, Poll::Ready));
    let mut both = timer.timeout(MS, answer);
    assert!(task.poll(&mut both).is_pending());
    clock.advance(MS);
    driver.turn();
    send.send("just so").expect("it listens");
    assert_eq!(task.poll(&mut both), Poll::Ready(Ok("just so")));
    drop(both);
    assert!(task.is_forgotten());
}

#[test]
fn a_dropped_timeout_is_cancelled_and_the_future_comes_out_whole() {
    let (timer, _driver, _clock) = driven();
    let task = Task::new();
    let mut limited = timer.timeout(HOUR, pending::<()>());
    assert!(task.poll(&mut limited).is_pending());
    assert_eq!(timer.pending(), 1);
    let inner = limited.into_inner();
    assert_eq!((timer.pending(), timer.stats().cancelled), (0, 1));
    let mut again = timer.timeout(HOUR, inner);
    assert!(task.poll(again.get_mut()).is_pending() && format!("{:?}", again.get_ref()).starts_with("Pending"));
    assert!(task.poll(&mut again).is_pending());
    assert!(format!("{again:?}").starts_with("TimeoutFuture { limit: Sleep {"));
}

#[test]
fn futures_that_may_not_move_can_be_given_a_limit_too() {
    in_time("a timeout", || {
        let timer = Timer::new().expect("defaults");
        let slow = async {
            let on_its_stack = [1_u8; 100];
            timer.sleep(HOUR).await;
            on_its_stack.len()
        };
        let quick = async {
            timer.sleep(MS).await;
            "done"
        };
        assert!(pollster::block_on(timer.timeout(2 * MS, slow)).is_err());
        assert_eq!(pollster::block_on(timer.timeout(HOUR, quick)), Ok("done"));
        let deadline = timer.now() + 2 * MS;
        assert!(pollster::block_on(timer.timeout_at(deadline, async { timer.sleep(HOUR).await })).is_err());
        assert!(timer.now() >= deadline, "early");
        let mut pinned = pin!(timer.timeout(HOUR, async { 1 }));
        let task = Task::new();
        assert_eq!(pinned.as_mut().poll(&mut Context::from_waker(&task.waker)), Poll::Ready(Ok(1)));
    });
}
