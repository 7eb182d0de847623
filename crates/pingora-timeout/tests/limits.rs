//! Limits, sleeps and registered timers, as a user of the original may count on them.

use std::error::Error;
use std::future::{Future, pending, ready};
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use pingora_timeout::fast_timeout::{
    DEFAULT_FAST_TIMEOUT_TO_TOKIO_THRESHOLD, FastOrTokioTimeout, FastTimeout, fast_sleep, fast_timeout,
    fast_timeout_to_tokio_threshold, pause_for_fork, set_fast_timeout_to_tokio_threshold, unpause,
};
use pingora_timeout::timer::{TimerManager, TimerStub};
use pingora_timeout::{Elapsed, Timeout, ToTimeout, TokioTimeout, sleep, timeout, tokio_timeout};
use testkit::{HOUR, MS};

/// Above the threshold that the process begins with.
const LONG: Duration = Duration::from_secs(16 * 60);

/// One at a time may set what is the whole process's, and the others must not see it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs the work on a runtime whose own clock stands still, or leaps to its next deadline when
/// nothing runs. So only what Tokio's timer counts takes no time.
fn on_tokios_paused_clock<R>(work: impl Future<Output = R>) -> R {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(work)
}

#[test]
fn a_limit_ends_a_future_that_is_not_ready_and_not_early() {
    let _alone = alone();
    let begun = Instant::now();
    let ended = pollster::block_on(timeout(30 * MS, pending::<()>()));
    assert!(ended.is_err() && begun.elapsed() >= 30 * MS);
}

#[test]
fn a_future_that_is_ready_before_its_limit_is_answered() {
    let _alone = alone();
    assert_eq!(pollster::block_on(timeout(HOUR, ready(7))).expect("in time"), 7);
    let slow = async {
        sleep(20 * MS).await;
        7
    };
    assert_eq!(pollster::block_on(fast_timeout(HOUR / 6, slow)).expect("in time"), 7);
}

#[test]
fn a_future_that_is_ready_when_its_time_is_up_is_in_time() {
    let _alone = alone();
    let mut polls = 0;
    let second = std::future::poll_fn(|_| {
        polls += 1;
        if polls == 2 { Poll::Ready(7) } else { Poll::Pending }
    });
    let mut limited = pin!(timeout(MS, second));
    assert!(poll(limited.as_mut()).is_pending());
    thread::sleep(20 * MS);
    assert!(matches!(poll(limited), Poll::Ready(Ok(7))));
}

#[test]
fn a_limit_counts_from_the_first_poll_that_is_not_ready() {
    let _alone = alone();
    let limited = timeout(50 * MS, pending::<()>());
    thread::sleep(60 * MS);
    let begun = Instant::now();
    assert!(pollster::block_on(limited).is_err() && begun.elapsed() >= 50 * MS);
}

#[test]
fn a_loop_over_times_of_zero_lets_other_tasks_run() {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let other = tokio::spawn(async {});
        let mut times = 0;
        while !other.is_finished() {
            assert!(timeout(Duration::ZERO, pending::<()>()).await.is_err());
            sleep(Duration::ZERO).await;
            times += 1;
            assert!(times < 1_000, "the other task has not run");
        }
    });
}

#[test]
fn a_sleep_ends_and_is_not_early() {
    let _alone = alone();
    let late = |slept: Duration| move |begun: Instant| begun.elapsed() >= slept;
    for slept in [Duration::ZERO, MS, 30 * MS] {
        let begun = Instant::now();
        pollster::block_on(fast_sleep(slept));
        assert!(late(slept)(begun), "early: {slept:?}");
    }
}

#[test]
fn a_limit_for_ever_is_no_panic() {
    let _alone = alone();
    set_fast_timeout_to_tokio_threshold(None);
    let mut limited = pin!(timeout(Duration::MAX, pending::<()>()));
    assert!(poll(limited.as_mut()).is_pending());
    set_fast_timeout_to_tokio_threshold(Some(DEFAULT_FAST_TIMEOUT_TO_TOKIO_THRESHOLD));
}

#[test]
fn limits_above_the_threshold_are_tokios_and_others_are_not() {
    let _alone = alone();
    assert_eq!(fast_timeout_to_tokio_threshold(), Some(DEFAULT_FAST_TIMEOUT_TO_TOKIO_THRESHOLD));
    assert_eq!(DEFAULT_FAST_TIMEOUT_TO_TOKIO_THRESHOLD, Duration::from_secs(900));
    let begun = Instant::now();
    // An hour by Tokio's clock, which leaps.
    assert!(on_tokios_paused_clock(timeout(HOUR, pending::<()>())).is_err());
    // Parts of a second do not count, and neither does the threshold itself.
    for ours in [DEFAULT_FAST_TIMEOUT_TO_TOKIO_THRESHOLD, DEFAULT_FAST_TIMEOUT_TO_TOKIO_THRESHOLD + 999 * MS] {
        assert!(poll(pin!(timeout(ours, pending::<()>()))).is_pending(), "no runtime is needed");
    }
    // Sleeps are the engine's, whatever their length.
    assert!(poll(pin!(sleep(LONG))).is_pending(), "no runtime is needed");
    assert!(begun.elapsed() < HOUR / 60, "an hour was waited for");
}

#[test]
fn the_threshold_can_be_moved_and_switched_off_and_a_limit_keeps_that_of_its_making() {
    let _alone = alone();
    let made_before = timeout(LONG, pending::<()>());
    set_fast_timeout_to_tokio_threshold(None);
    assert_eq!(fast_timeout_to_tokio_threshold(), None);
    assert!(poll(pin!(timeout(LONG, pending::<()>()))).is_pending(), "no runtime is needed");
    assert!(on_tokios_paused_clock(made_before).is_err());
    set_fast_timeout_to_tokio_threshold(Some(2500 * MS));
    assert_eq!(fast_timeout_to_tokio_threshold(), Some(2000 * MS));
    assert!(on_tokios_paused_clock(timeout(3000 * MS, pending::<()>())).is_err());
    set_fast_timeout_to_tokio_threshold(Some(DEFAULT_FAST_TIMEOUT_TO_TOKIO_THRESHOLD));
}

#[test]
fn a_limit_by_tokio_asks_for_its_timer_only_when_it_has_to_wait() {
    let _alone = alone();
    assert_eq!(pollster::block_on(tokio_timeout(HOUR, ready(7))).expect("in time"), 7);
    let begun = Instant::now();
    assert!(on_tokios_paused_clock(tokio_timeout(HOUR, pending::<()>())).is_err());
    assert!(begun.elapsed() < HOUR / 60, "an hour was waited for");
}

#[test]
fn each_kind_of_limit_makes_its_future_by_itself() {
    let _alone = alone();
    fn takes<T: ToTimeout>(limit: Duration) -> Duration {
        let begun = Instant::now();
        on_tokios_paused_clock(async { T::create(limit).timeout().await });
        begun.elapsed()
    }
    assert!(takes::<FastTimeout>(20 * MS) >= 20 * MS);
    assert!(takes::<FastOrTokioTimeout>(20 * MS) >= 20 * MS);
    assert!(takes::<FastOrTokioTimeout>(HOUR) < HOUR / 60);
    assert!(takes::<TokioTimeout>(HOUR) < HOUR / 60);
}

#[test]
fn a_registered_timer_counts_from_its_registration_and_two_of_one_time_end_together() {
    let _alone = alone();
    let (manager, other) = (TimerManager::new(), TimerManager::default());
    let begun = Instant::now();
    let stubs = [manager.register_timer(80 * MS), manager.register_timer(80 * MS), other.register_timer(80 * MS)];
    thread::sleep(40 * MS);
    for stub in stubs {
        pollster::block_on(stub.poll());
        assert!(begun.elapsed() >= 80 * MS);
    }
    let is_over = manager.register_timer(MS);
    thread::sleep(10 * MS);
    assert!(poll(pin!(is_over.poll())).is_ready(), "its time was up before it was polled");
}

#[test]
fn in_a_pause_a_timer_is_over_at_once_and_one_from_before_keeps_its_time() {
    let _alone = alone();
    let (manager, other) = (TimerManager::new(), TimerManager::new());
    let begun = Instant::now();
    let mut before = pin!(manager.register_timer(100 * MS).poll());
    assert!(poll(before.as_mut()).is_pending());
    manager.pause_for_fork();
    assert!(poll(pin!(manager.register_timer(HOUR).poll())).is_ready());
    assert!(poll(pin!(other.register_timer(HOUR).poll())).is_pending(), "another manager's pause");
    assert!(poll(pin!(timeout(HOUR / 6, pending::<()>()))).is_pending(), "another manager's pause");
    manager.unpause();
    assert!(poll(pin!(manager.register_timer(HOUR).poll())).is_pending());
    pollster::block_on(before);
    assert!(begun.elapsed() >= 100 * MS);
}

#[test]
fn in_the_process_s_pause_a_limit_is_up_at_once() {
    let _alone = alone();
    pause_for_fork();
    let in_pause = [poll(pin!(timeout(HOUR / 6, pending::<()>()))).is_ready(), poll(pin!(sleep(HOUR))).is_ready()];
    unpause();
    assert_eq!(in_pause, [true; 2]);
    assert!(poll(pin!(timeout(HOUR / 6, pending::<()>()))).is_pending());
}

#[test]
fn many_limits_on_a_runtime_of_many_threads_all_end() {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let limits: Vec<_> = (0..2_000)
        .map(|n| {
            runtime.spawn(async move {
                let (begun, limit) = (Instant::now(), n % 50 * MS);
                let ended = timeout(limit, pending::<()>()).await.is_err();
                ended && begun.elapsed() >= limit
            })
        })
        .collect();
    for limit in limits {
        assert!(runtime.block_on(limit).expect("no panic"), "early, or without an error");
    }
}

#[test]
fn a_service_that_uses_the_types_compiles() {
    fn is_shared<T: Send + Sync>() {}
    fn is_sent<T: Send>(value: T) -> T {
        value
    }
    fn is_unpin<T: Unpin>(_: &T) {}
    is_shared::<TimerManager>();
    is_shared::<TimerStub>();
    is_shared::<Timeout<(), FastOrTokioTimeout>>();
    is_unpin(&timeout(MS, ready(())));
    drop(is_sent(sleep(MS)));
    let error: Box<dyn Error + Send + Sync> = Box::new(Elapsed);
    assert_eq!(error.to_string(), "Timeout Elapsed");
}
