//! `tourbillon::compat::tokio` behaves as `tokio::time`, also by a clock that a test has stopped.

#[path = "common/other_thread.rs"]
mod other_thread;

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::{io, panic};

use futures_util::task::noop_waker_ref;
use tokio::net::UdpSocket;
use tokio::runtime::{Builder, Runtime};
use tourbillon::Timer;
use tourbillon::compat::tokio as time;

use other_thread::wait_for_a_thread;
use time::{Duration, Instant, Interval, MissedTickBehavior, sleep, sleep_until, timeout};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Calls `make` in the context of a runtime.
fn in_context<T>(runtime: &Runtime, make: impl FnOnce() -> T) -> T {
    let _context = runtime.enter();
    make()
}

fn is_ready(future: &mut (impl Future + Unpin)) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(noop_waker_ref())).is_ready()
}

fn tick(interval: &mut Interval) -> Poll<Instant> {
    interval.poll_tick(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_limit_of_zero_does_not_end_with_its_first_poll() {
    // Of the global engine. Its clock may go on between two polls, but not each time.
    let at_its_second_poll = || timeout(Duration::ZERO, tokio::task::yield_now());
    let in_time = (0..100).filter(|_| pollster::block_on(at_its_second_poll()).is_ok()).count();
    assert!(in_time > 0);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_clock_goes_to_the_next_deadline_when_the_runtime_is_idle() {
    let start = Instant::now();
    let sleeps = [3, 1, 2].map(|hours| {
        tokio::spawn(async move {
            sleep(hours * HOUR).await;
            start.elapsed()
        })
    });
    for (slept, hours) in sleeps.into_iter().zip([3, 1, 2]) {
        let elapsed = slept.await.expect("no panic");
        assert!(elapsed >= hours * HOUR && elapsed <= hours * HOUR + MS, "{elapsed:?} for {hours} hours");
    }
    assert!(start.elapsed() <= 3 * HOUR + MS);
}

#[tokio::test(start_paused = true)]
async fn tokios_own_timers_see_the_same_time() {
    let start = Instant::now();
    let theirs = tokio::spawn(tokio::time::sleep(2 * HOUR));
    sleep(HOUR).await;
    assert!(!theirs.is_finished());
    theirs.await.expect("no panic");
    assert!(start.elapsed() >= 2 * HOUR && start.elapsed() <= 2 * HOUR + MS);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_clock_waits_for_messages_between_tasks_that_use_no_timer() {
    let start = Instant::now();
    let bind = || UdpSocket::bind("127.0.0.1:0");
    let (one, other) = (bind().await.expect("a port"), bind().await.expect("a port"));
    one.connect(other.local_addr().expect("it is bound")).await.expect("it is there");
    other.connect(one.local_addr().expect("it is bound")).await.expect("it is there");
    tokio::spawn(async move {
        let mut message = [0];
        while other.recv(&mut message).await.is_ok() && other.send(&message).await.is_ok() {}
    });
    let game = tokio::spawn(async move {
        let mut message = [0];
        for _ in 0..100 {
            one.send(&[7]).await.expect("it is sent");
            one.recv(&mut message).await.expect("it comes back");
        }
        Instant::now()
    });
    sleep(HOUR).await;
    assert_eq!(game.await.expect("no panic"), start);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_clock_waits_for_blocking_tasks() {
    let start = Instant::now();
    let blocking = tokio::task::spawn_blocking(|| thread::sleep(20 * MS));
    let ended = timeout(HOUR, blocking).await;
    assert!(matches!(ended, Ok(Ok(()))));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_clock_stands_still_when_all_deadlines_have_gone() {
    let start = Instant::now();
    let mut sleep = sleep(HOUR);
    assert!(!is_ready(&mut sleep));
    let in_time = timeout(HOUR, tokio::task::yield_now());
    assert_eq!(in_time.await, Ok(()));
    let aborted = tokio::spawn(time::sleep(HOUR));
    tokio::task::yield_now().await;
    aborted.abort();
    drop(sleep);
    wait_for_a_thread().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_advance_wakes_what_is_due_before_it_returns_and_nothing_else() {
    let (mut sooner, mut later) = (sleep(10 * MS), sleep(10 * MS + Duration::from_micros(50)));
    assert!(!is_ready(&mut sooner) && !is_ready(&mut later));
    time::advance(9 * MS).await;
    assert!(!sooner.is_elapsed());
    time::advance(MS).await;
    assert!(sooner.is_elapsed() && !later.is_elapsed());
    assert!(is_ready(&mut sooner) && !is_ready(&mut later));
    time::advance(Duration::from_micros(50)).await;
    assert!(is_ready(&mut later));
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_is_made_after_an_advance_is_not_overslept() {
    tokio::spawn(sleep(1_000_000 * HOUR));
    time::advance(HOUR).await;
    let start = Instant::now();
    sleep(10 * MS).await;
    assert!(start.elapsed() >= 10 * MS && start.elapsed() <= 11 * MS, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_clock_can_be_stopped_and_goes_on_in_real_time_after_that() {
    let mut before = sleep(10 * HOUR);
    assert!(!is_ready(&mut before));
    time::pause();
    let stopped = Instant::now();
    thread::sleep(2 * MS);
    assert_eq!(Instant::now(), stopped);
    sleep(9 * HOUR).await;
    assert!(!is_ready(&mut before), "made before the clock was stopped, and not due yet");
    time::resume();
    let real = std::time::Instant::now();
    sleep(5 * MS).await;
    assert!(real.elapsed() >= 5 * MS, "never early");
    time::pause();
    before.await;
    assert!(stopped.elapsed() >= 9 * HOUR + 5 * MS);
}

#[test]
fn each_runtime_has_a_clock_of_its_own() {
    let (one, other) = (current_thread(), current_thread());
    let begun = one.block_on(async {
        time::pause();
        let begun = Instant::now();
        sleep(HOUR).await;
        assert!(begun.elapsed() >= HOUR);
        begun
    });
    let elapsed = other.block_on(async move {
        sleep(MS).await;
        begun.elapsed()
    });
    assert!(elapsed < HOUR / 2);
    // The clock of the runtime in which it is reset is an hour behind its own.
    let mut elsewhere = in_context(&one, || sleep(HOUR));
    other.block_on(async { Pin::new(&mut elsewhere).reset(Instant::now()) });
    assert!(one.block_on(timeout(MS, elsewhere)).is_ok());
}

#[test]
fn a_sleep_outlives_its_runtime() {
    let runtime = current_thread();
    let mut sleep = in_context(&runtime, || sleep(HOUR));
    assert!(!is_ready(&mut sleep));
    drop(runtime);
    assert!(is_ready(&mut sleep), "its engine has ended, and that ends its sleeps");
    Pin::new(&mut sleep).reset(Instant::now() + HOUR);
    assert!(!is_ready(&mut sleep));
}

#[test]
fn a_runtime_without_a_time_driver_panics_with_the_line_of_the_caller() {
    type Place = Option<(String, u32)>;
    static SEEN: Mutex<Place> = Mutex::new(None);
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let others = panic::take_hook();
    let here = thread::current().id();
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() != here {
            return others(info);
        }
        let place = info.location().map(|place| (place.file().to_owned(), place.line()));
        *SEEN.lock().expect("no panic") = place;
    }));
    let line = line!() + 1;
    for make in [|| drop(sleep(MS)), || drop(timeout(MS, pending::<()>())), || drop(time::interval(MS))] {
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| in_context(&runtime, make)));
        assert!(panicked.is_err());
        let seen = SEEN.lock().expect("no panic").take().expect("a place");
        assert_eq!(seen, (file!().to_owned(), line));
    }
    drop(panic::take_hook());
}

#[test]
#[should_panic = "timers are disabled"]
fn a_runtime_whose_clock_could_not_be_stopped_is_refused_where_the_sleep_is_made() {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async { sleep(MS).await });
}

#[test]
fn a_runtime_of_several_threads_has_the_global_engine_and_real_time() {
    let runtime = Builder::new_multi_thread().worker_threads(2).build().expect("a runtime without `enable_time`");
    let begun = std::time::Instant::now();
    let pending = runtime.block_on(async {
        let mut hour = sleep(HOUR);
        assert!(!is_ready(&mut hour));
        tokio::spawn(sleep(5 * MS)).await.expect("no panic");
        Timer::global().pending()
    });
    assert!(begun.elapsed() >= 5 * MS && pending > 0);
    let stopped = runtime.block_on(async { tokio::spawn(async { time::pause() }).await });
    assert!(stopped.is_err_and(|error| error.is_panic()));
}

#[test]
fn futures_work_outside_of_a_runtime() {
    let begun = Instant::now();
    pollster::block_on(async {
        sleep(2 * MS).await;
        sleep_until(begun + 4 * MS).await;
        assert!(timeout(MS, pending::<()>()).await.is_err());
        let mut beat = time::interval_at(begun, 2 * MS);
        assert_eq!(beat.tick().await, begun);
    });
    assert!(begun.elapsed() >= 5 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_is_moved_in_place_also_after_it_was_ready() {
    let start = Instant::now();
    let mut idle = pin!(sleep(HOUR));
    assert!(!idle.is_elapsed());
    assert_eq!(idle.deadline(), start + HOUR, "exactly as it was given");
    idle.as_mut().reset(start + 2 * HOUR);
    idle.as_mut().await;
    assert!(start.elapsed() >= 2 * HOUR && idle.is_elapsed());
    idle.as_mut().reset(start + 3 * HOUR);
    assert!(!idle.is_elapsed());
    idle.as_mut().await;
    assert!(start.elapsed() >= 3 * HOUR && start.elapsed() <= 3 * HOUR + MS);
}

#[tokio::test(start_paused = true)]
async fn the_longest_sleep_is_ready_in_thirty_years() {
    let start = Instant::now();
    sleep(Duration::MAX).await;
    assert!(start.elapsed() >= 30 * 365 * 24 * HOUR);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_counts_from_its_creation() {
    let limit = timeout(HOUR, pending::<()>());
    time::advance(HOUR).await;
    let start = Instant::now();
    assert!(limit.await.is_err());
    assert_eq!(start.elapsed(), Duration::ZERO);
    let at_once = time::timeout_at(start - MS, async { "in time" });
    assert_eq!(at_once.await, Ok("in time"), "the future is polled before the limit is looked at");
}

#[tokio::test(start_paused = true)]
async fn the_longest_timeout_never_ends() {
    let mut limit = timeout(Duration::MAX, pending::<()>());
    assert!(!is_ready(&mut limit));
    time::advance(100 * 365 * 24 * HOUR).await;
    assert!(!is_ready(&mut limit));
}

#[tokio::test]
async fn a_timeout_ends_a_future_that_uses_up_its_budget_each_time() {
    let greedy = async {
        loop {
            tokio::task::consume_budget().await;
        }
    };
    let ended: Result<(), _> = timeout(5 * MS, greedy).await;
    assert!(ended.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_errors_of_a_timeout_say_what_tokios_say() {
    let ours = timeout(MS, pending::<()>()).await.expect_err("it never ends by itself");
    let theirs = tokio::time::timeout(MS, pending::<()>()).await.expect_err("it never ends by itself");
    assert_eq!((ours.to_string(), format!("{ours:?}")), (theirs.to_string(), format!("{theirs:?}")));
    let (ours, theirs) = (io::Error::from(ours), io::Error::from(theirs));
    assert_eq!(ours.kind(), io::ErrorKind::TimedOut);
    assert_eq!((ours.to_string(), format!("{ours:?}")), (theirs.to_string(), format!("{theirs:?}")));
}

/// Awaits one `wait` after the other until another task of the runtime has run.
async fn assert_lets_others_run(wait: impl AsyncFn()) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    tokio::spawn(async move { stopping.store(true, Ordering::Relaxed) });
    let mut waits = 0;
    while !stop.load(Ordering::Relaxed) {
        wait().await;
        waits += 1;
        assert!(waits < 10_000, "the other task has not run");
    }
}

#[tokio::test]
async fn a_task_that_awaits_ready_sleeps_lets_others_run() {
    assert_lets_others_run(async || sleep(Duration::ZERO).await).await;
}

#[tokio::test]
async fn a_task_that_awaits_limits_that_have_ended_lets_others_run() {
    assert_lets_others_run(async || assert!(timeout(Duration::ZERO, pending::<()>()).await.is_err())).await;
}

/// Asserts which ticks come now, by their distance from `start`.
fn assert_ticks(interval: &mut Interval, start: Instant, ms: &[u32]) {
    for &ms in ms {
        assert_eq!(tick(interval), Poll::Ready(start + ms * MS));
    }
    assert_eq!(tick(interval), Poll::Pending);
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_come_as_the_behavior_says() {
    let cases = [
        (MissedTickBehavior::Burst, [100, 200, 300].as_slice(), [400].as_slice()),
        (MissedTickBehavior::Delay, &[100], &[430]),
        (MissedTickBehavior::Skip, &[100], &[400]),
    ];
    for (behavior, late, next) in cases {
        let start = Instant::now();
        let mut beat = time::interval(100 * MS);
        assert_eq!(beat.missed_tick_behavior(), MissedTickBehavior::Burst, "as in Tokio");
        beat.set_missed_tick_behavior(behavior);
        assert_ticks(&mut beat, start, &[0]);
        time::advance(330 * MS).await;
        assert_ticks(&mut beat, start, late);
        time::advance(100 * MS).await;
        assert_ticks(&mut beat, start, next);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_is_noticed_within_five_milliseconds_was_not_missed() {
    for (late, next) in [(5 * MS, 200), (6 * MS, 206)] {
        let start = Instant::now();
        let mut beat = time::interval(100 * MS);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        assert_ticks(&mut beat, start, &[0]);
        time::advance(100 * MS + late).await;
        assert_ticks(&mut beat, start, &[100]);
        sleep(150 * MS).await;
        assert_ticks(&mut beat, start, &[next]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_tick_can_be_moved() {
    let start = Instant::now();
    let mut beat = time::interval(100 * MS);
    assert_eq!(beat.period(), 100 * MS);
    assert_ticks(&mut beat, start, &[0]);
    time::advance(50 * MS).await;
    beat.reset();
    time::advance(100 * MS).await;
    assert_ticks(&mut beat, start, &[150]);
    beat.reset_immediately();
    assert_ticks(&mut beat, start, &[150]);
    beat.reset_after(10 * MS);
    time::advance(10 * MS).await;
    assert_ticks(&mut beat, start, &[160]);
    beat.reset_at(start + 200 * MS);
    time::advance(40 * MS).await;
    assert_ticks(&mut beat, start, &[200]);
    beat.reset_after(Duration::MAX);
    time::advance(HOUR).await;
    assert_eq!(tick(&mut beat), Poll::Pending);
}

#[tokio::test(start_paused = true)]
async fn the_longest_period_ticks_once() {
    let mut once = time::interval(Duration::MAX);
    assert!(tick(&mut once).is_ready() && tick(&mut once).is_pending());
    once.reset();
    assert!(tick(&mut once).is_pending());
}

#[tokio::test]
#[should_panic = "the period of an interval is zero"]
async fn a_period_of_zero_is_refused() {
    let _ = time::interval(Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_has_come_registers_no_waker() {
    let mut beat = time::interval(10 * MS);
    let polled = timeout(
        HOUR,
        poll_fn(|context| {
            let _first = beat.poll_tick(context);
            Poll::<()>::Pending
        }),
    );
    assert!(polled.await.is_err(), "nothing has woken it for the second tick");
}
