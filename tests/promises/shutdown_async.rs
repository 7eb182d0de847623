//! `shutdown_async`: a shutdown that async code awaits.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use pollster::block_on;
use tourbillon::{Clock, Shutdown, ShutdownError, ThreadPool, Timer};

use crate::common::{HOUR, MS, Runs, driven, eventually, in_time};

#[test]
fn an_awaited_shutdown_hands_back_what_was_pending() {
    let timer = Timer::new().expect("defaults");
    let runs = Runs::new(2);
    let left = timer.schedule(HOUR, runs.task(0)).expect("accepted");
    timer.schedule_detached(Duration::MAX, runs.task(1)).expect("accepted");
    let shutdown = timer.shutdown_async(Shutdown::Cancel);
    let unfired = in_time("a shutdown", || block_on(shutdown)).expect("the first");
    assert!(timer.is_shutdown() && left.is_cancelled());
    assert_eq!(unfired.len(), 2);
    unfired.into_iter().for_each(|left| left.run());
    runs.assert_each_ran_once();
}

#[test]
fn an_awaited_shutdown_does_what_it_is_told_with_what_is_pending() {
    let timer = Timer::new().expect("defaults");
    let runs = Runs::new(1);
    timer.schedule_detached(HOUR, runs.task(0)).expect("accepted");
    let shutdown = timer.shutdown_async(Shutdown::FireNow);
    let unfired = in_time("a shutdown", || block_on(shutdown)).expect("the first");
    assert!(unfired.is_empty());
    runs.assert_each_ran_once();
}

#[test]
fn a_shutdown_whose_future_is_dropped_goes_on() {
    let timer = Timer::new().expect("defaults");
    let left = timer.schedule(HOUR, || ()).expect("accepted");
    drop(timer.shutdown_async(Shutdown::Cancel));
    eventually("the engine is shut down", || timer.is_shutdown() && left.is_cancelled());
}

#[test]
fn a_task_may_begin_an_async_shutdown_of_its_own_engine() {
    let timer = Timer::new().expect("defaults");
    let (send, receive) = channel();
    let own = timer.clone();
    let begin = move || send.send(own.shutdown_async(Shutdown::Cancel)).expect("the test waits");
    timer.schedule_detached(Duration::ZERO, begin).expect("accepted");
    let shutdown = receive.recv().expect("the task runs");
    assert_eq!(in_time("a shutdown", || block_on(shutdown)).map(|left| left.len()), Ok(0));
}

#[test]
fn of_two_async_shutdowns_one_is_the_first() {
    let timer = Timer::new().expect("defaults");
    timer.schedule_detached(HOUR, || ()).expect("accepted");
    let both = [timer.shutdown_async(Shutdown::Cancel), timer.shutdown_async(Shutdown::Cancel)];
    let answers = both.map(|shutdown| in_time("a shutdown", || block_on(shutdown)).map(|left| left.len()));
    assert!(answers.contains(&Ok(1)) && answers.contains(&Err(ShutdownError::AlreadyShutdown)), "{answers:?}");
}

#[test]
fn a_shutdown_that_is_polled_after_its_end_says_that_there_was_one() {
    let timer = Timer::new().expect("defaults");
    let mut shutdown = pin!(timer.shutdown_async(Shutdown::Cancel));
    let mut poll = || shutdown.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let mut first = None;
    eventually("the shutdown has ended", || match poll() {
        Poll::Ready(answer) => first.insert(answer).is_ok(),
        Poll::Pending => false,
    });
    let Poll::Ready(Err(again)) = poll() else { panic!("the answer was given") };
    assert_eq!(again, ShutdownError::AlreadyShutdown);
}

#[test]
fn the_global_engine_is_not_shut_down_asynchronously_either() {
    let shutdown = Timer::global().shutdown_async(Shutdown::Cancel);
    let answer = in_time("an answer", || block_on(shutdown));
    assert_eq!(answer.err(), Some(ShutdownError::Global));
}

#[test]
fn an_awaited_shutdown_of_a_driven_engine_runs_what_is_due() {
    let (timer, _driver, _clock) = driven();
    let runs = Runs::new(1);
    timer.schedule_detached(Duration::ZERO, runs.task(0)).expect("accepted");
    let drain = timer.shutdown_async(Shutdown::Drain(HOUR));
    assert_eq!(in_time("a drain", || block_on(drain)).map(|left| left.len()), Ok(0));
    runs.assert_each_ran_once();
}

/// A clock that dies.
struct Mortal(Instant, Arc<AtomicBool>);

impl Clock for Mortal {
    fn now(&self) -> Instant {
        assert!(!self.1.load(Ordering::SeqCst), "on purpose");
        self.0
    }
}

#[test]
fn an_awaited_shutdown_panics_as_one_that_blocks_does_if_its_clock_has_died() {
    let is_dead = Arc::new(AtomicBool::new(false));
    let clock = Mortal(Instant::now(), Arc::clone(&is_dead));
    let timer = Timer::builder().clock(clock).build().expect("the options make sense");
    is_dead.store(true, Ordering::SeqCst);
    let blocks = catch_unwind(AssertUnwindSafe(|| timer.shutdown_with(Shutdown::Drain(HOUR))));
    let shutdown = timer.shutdown_async(Shutdown::Drain(HOUR));
    let awaits = in_time("an answer", || catch_unwind(AssertUnwindSafe(|| block_on(shutdown))));
    assert!(blocks.is_err() && awaits.is_err() && !timer.is_shutdown());
}

/// A task whose thread is the only one of a pool that both engines use, and on which a batch of the
/// other engine waits.
#[test]
fn a_task_of_another_engine_may_wait_for_the_end_of_one_whose_batch_waits_for_its_thread() {
    let pool = ThreadPool::new(1);
    let [outer, inner] =
        [(), ()].map(|()| Timer::builder().shards(1).executor(pool.clone()).build().expect("the options make sense"));
    let (tell, told) = channel();
    let ended = inner.clone();
    let task = move || {
        ended.schedule_detached(Duration::ZERO, || ()).expect("accepted");
        eventually("the batch waits", || ended.stats().transferred == 1 && ended.stats().turns > 0);
        thread::sleep(20 * MS);
        tell.send(block_on(ended.shutdown_async(Shutdown::Cancel)).is_ok()).expect("the test waits");
    };
    outer.schedule_detached(Duration::ZERO, task).expect("accepted");
    assert!(in_time("the shutdown", move || told.recv().expect("the task ends")));
}

#[test]
fn a_driven_engine_is_shut_down_in_the_call_on_its_thread() {
    let (timer, driver, _clock) = driven();
    let (tell, told) = channel();
    let task = move || tell.send(thread::current().id()).expect("the test waits");
    timer.schedule_detached(HOUR, task).expect("accepted");
    let mut shutdown = pin!(timer.shutdown_async(Shutdown::FireNow));
    assert_eq!(told.try_recv().expect("it has run"), thread::current().id());
    assert!(matches!(shutdown.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(_))));
    drop(driver);
}

#[test]
fn the_own_task_of_a_driven_engine_is_refused() {
    let (timer, mut driver, clock) = driven();
    let (tell, told) = channel();
    let own = timer.clone();
    let task = move || tell.send(block_on(own.shutdown_async(Shutdown::Cancel))).expect("the test waits");
    timer.schedule_detached(Duration::ZERO, task).expect("accepted");
    crate::common::settle(&mut driver, &clock);
    assert_eq!(told.try_recv().expect("it has run").expect_err("refused"), ShutdownError::FromTask);
    assert!(!timer.is_shutdown());
}

#[test]
fn a_dropped_future_lets_go_of_the_task_that_waited() {
    struct Woken;
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            panic!("the future has gone");
        }
    }
    let timer = Timer::new().expect("defaults");
    timer.schedule_detached(HOUR, || ()).expect("accepted");
    let waker = Arc::new(Woken);
    let mut shutdown = Box::pin(timer.shutdown_async(Shutdown::Drain(HOUR)));
    assert!(shutdown.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&waker)))).is_pending());
    assert_eq!(Arc::strong_count(&waker), 2);
    drop(shutdown);
    assert_eq!(Arc::strong_count(&waker), 1);
}
