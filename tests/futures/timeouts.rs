use std::future::{Future, pending, ready};
use std::io;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::{Context, Poll};
use std::time::Duration;

use tourbillon::Timer;

use super::Task;
use super::common::{HOUR, MS, driven, in_time};

#[test]
fn a_timeout_round_a_ready_future_touches_no_timer() {
    let (timer, _driver, _clock) = driven();
    let task = Task::new();
    assert_eq!(task.poll(&mut timer.timeout(Duration::ZERO, ready(7))), Poll::Ready(Ok(7)));
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.cancelled), (0, 0, 0));
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
    assert!(format!("{again:?}").starts_with("WithTimeout { limit: Sleep {"));
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
        let mut pinned = pin!(timer.timeout(HOUR, async { 1 }));
        let task = Task::new();
        assert_eq!(pinned.as_mut().poll(&mut Context::from_waker(&task.waker)), Poll::Ready(Ok(1)));
    });
}
