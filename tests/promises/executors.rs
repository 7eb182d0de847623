//! Executors: a pool, the worker itself, or the user's own, correct or not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tourbillon::{Executor, Expired, Inline, ManualClock, Shutdown, ShutdownError, ThreadPool, Timer, WaitStrategy};

use crate::common::{
    HOUR, HandedOver, Keeps, MS, PATIENCE, Runs, assert_counters_reconcile, built, eventually, in_time, threads_named,
};

fn timer_on(executor: impl Executor) -> Timer {
    Timer::builder().executor(executor).build().expect("the options make sense")
}

/// Schedules `n` counted tasks for now.
fn schedule(timer: &Timer, n: usize) -> Runs {
    let runs = Runs::new(n);
    drop(timer.schedule_many(Duration::ZERO, (0..n).map(|id| runs.task(id))).expect("accepted"));
    runs
}

/// Returns the name of the thread that a timeout of this timer runs on.
fn runs_on(timer: &Timer) -> String {
    let (send, receive) = channel();
    let task = move || send.send(thread::current().name().unwrap_or("nameless").to_owned()).expect("the test waits");
    timer.schedule_detached(Duration::ZERO, task).expect("accepted");
    receive.recv_timeout(PATIENCE).expect("it fires")
}

#[test]
fn a_function_is_an_executor_and_gets_batches_of_at_most_256() {
    let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let seen = Arc::clone(&sizes);
    let timer = timer_on(move |expired: Expired| {
        seen.lock().expect("no panic").push(expired.len());
        expired.run();
    });
    let runs = schedule(&timer, 1000);
    eventually("all run", || runs.total() == 1000);
    runs.assert_each_ran_once();
    let sizes = sizes.lock().expect("no panic");
    assert_eq!(sizes.iter().sum::<usize>(), 1000);
    assert!(sizes.iter().all(|&size| (1..=256).contains(&size)), "{sizes:?}");
}

#[test]
fn an_executor_that_drops_its_batch_loses_no_timeout() {
    let timer = timer_on(|expired: Expired| drop(expired));
    let runs = schedule(&timer, 1000);
    eventually("all run", || runs.total() == 1000);
    runs.assert_each_ran_once();
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn an_executor_that_panics_loses_no_timeout_and_no_worker() {
    let timer = timer_on(|expired: Expired| panic!("on purpose, with {} timeouts", expired.len()));
    for _ in 0..5 {
        let runs = schedule(&timer, 600);
        eventually("all run", || runs.total() == 600);
        runs.assert_each_ran_once();
    }
    assert!(timer.shutdown().expect("the worker lives").is_empty());
}

/// Returns an engine whose batches come out of a channel.
fn timer_with_batches() -> (Timer, Receiver<Expired>) {
    let (send, receive) = channel();
    (timer_on(move |expired: Expired| drop(send.send(expired))), receive)
}

#[test]
fn an_executor_may_keep_its_batches_and_run_them_later_on_another_thread() {
    let (timer, batches) = timer_with_batches();
    let runs = schedule(&timer, 3);
    let timeout = timer.schedule(Duration::ZERO, || unreachable!("it was cancelled")).expect("accepted");
    let mut held = Vec::new();
    while held.iter().map(Expired::len).sum::<usize>() < 4 {
        held.push(batches.recv_timeout(PATIENCE).expect("the batches are there"));
    }
    assert_eq!((runs.total(), timer.pending()), (0, 4), "due is not the same as run");
    assert!(timeout.is_pending() && timeout.cancel() && timeout.is_cancelled());
    for batch in held {
        thread::spawn(move || batch.run()).join().expect("no panic");
    }
    runs.assert_each_ran_once();
    assert_eq!((timer.pending(), timer.stats().fired, timer.stats().cancelled), (0, 3, 1));
}

#[test]
fn batches_that_an_executor_keeps_may_be_run_or_dropped_after_the_shutdown() {
    let (send, batches) = channel();
    let (timer, handed_over) = HandedOver::by(move |expired: Expired| drop(send.send(expired)));
    let runs = schedule(&timer, 10);
    let later = schedule(&timer, 10);
    eventually("all are given to the executor", || handed_over.get() == 20);
    let handle = timer.schedule(HOUR, || ()).expect("accepted");
    assert_eq!(timer.shutdown().expect("it does not wait for them").len(), 1);
    assert_eq!((runs.total(), timer.pending()), (0, 20), "they are the executor's own");
    drop(timer);
    for (n, batch) in batches.iter().enumerate() {
        if n % 2 == 0 { batch.run() } else { drop(batch) }
    }
    runs.assert_each_ran_once();
    later.assert_each_ran_once();
    assert!(handle.is_cancelled());
}

/// Returns an engine whose executor does `work` with the timer, on the worker, after its first
/// batch.
fn timer_whose_executor(work: impl Fn(Timer) + Send + Sync + 'static, clock: &ManualClock) -> Timer {
    let handed_over: Arc<Mutex<Option<Timer>>> = Arc::default();
    let mine = Arc::clone(&handed_over);
    let executor = move |expired: Expired| {
        expired.run();
        if let Some(timer) = mine.lock().expect("no panic").take() {
            work(timer);
        }
    };
    let timer = Timer::builder().executor(executor).clock(clock.clone()).build().expect("the options make sense");
    *handed_over.lock().expect("no panic") = Some(timer.clone());
    timer
}

#[test]
fn shutdown_from_within_an_executor_is_an_error_and_loses_nothing() {
    in_time("shutdown from an executor", || {
        let (send, receive) = channel();
        let shut_down = move |timer: Timer| send.send(timer.shutdown().err()).expect("the test waits");
        let timer = timer_whose_executor(shut_down, &ManualClock::new());
        let far = timer.schedule(HOUR, || ()).expect("accepted");
        timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
        assert_eq!(receive.recv(), Ok(Some(ShutdownError::FromTask)), "the worker can't wait for itself");
        assert!(far.is_pending());
        assert_eq!(timer.shutdown().expect("from elsewhere it works").len(), 1);
    });
}

#[test]
fn an_executor_may_advance_the_clock_schedule_and_drop_the_last_timer() {
    in_time("advance from an executor", || {
        let (send, receive) = channel();
        let clock = ManualClock::new();
        let advances = clock.clone();
        let work = move |timer: Timer| {
            let timeout = timer.schedule(MS, || ()).expect("accepted");
            advances.advance(MS);
            drop(timer);
            send.send(timeout).expect("the test waits");
        };
        let timer = timer_whose_executor(work, &clock);
        timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
        drop(timer);
        let timeout = receive.recv().expect("it comes to an end");
        eventually("it fires, or goes with the engine", || !timeout.is_pending());
    });
}

#[test]
fn inline_runs_on_the_worker_and_a_pool_on_its_own_threads() {
    let named = |executor| Timer::builder().thread_name("exec-a").executor(executor).build().expect("sensible");
    assert_eq!(runs_on(&named(Arc::new(Inline) as Arc<dyn Executor>)), "exec-a-0");
    let boxed: Box<dyn Executor> = Box::new(Inline);
    let timer = Timer::builder().thread_name("exec-b").executor(boxed).build().expect("sensible");
    assert_eq!(runs_on(&timer), "exec-b-0");
    assert!(runs_on(&named(Arc::new(ThreadPool::new(1)))).starts_with("tourbillon-pool-"));
    let timer = Timer::builder().thread_name("exec-b").build().expect("the options make sense");
    assert!(runs_on(&timer).starts_with("exec-b-pool-"), "the default is a pool of the engine's own");
}

#[test]
fn two_engines_may_share_a_pool_which_outlives_the_first() {
    let pool = ThreadPool::new(1);
    let (one, other) = (timer_on(pool.clone()), timer_on(pool));
    let thread_of = |timer: &Timer| {
        let (send, receive) = channel();
        let task = move || send.send(thread::current().id()).expect("the test waits");
        timer.schedule_detached(Duration::ZERO, task).expect("accepted");
        receive.recv_timeout(PATIENCE).expect("it fires")
    };
    assert_eq!(thread_of(&one), thread_of(&other));
    assert!(one.shutdown().expect("the first").is_empty());
    assert!(runs_on(&other).starts_with("tourbillon-pool-"));
}

#[test]
fn a_pool_starts_threads_when_they_are_needed_and_not_more_than_it_was_given() {
    let timer = Timer::builder().thread_name("exec-c").executor(ThreadPool::new(3)).build().expect("sensible");
    let most = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    for _ in 0..50 {
        let counts = Arc::clone(&most);
        let task = move || {
            let now = counts.0.fetch_add(1, Ordering::SeqCst) + 1;
            counts.1.fetch_max(now, Ordering::SeqCst);
            thread::sleep(MS);
            counts.0.fetch_sub(1, Ordering::SeqCst);
        };
        timer.schedule_detached(Duration::ZERO, task).expect("accepted");
    }
    assert!(timer.shutdown().is_ok());
    assert!(most.1.load(Ordering::SeqCst) <= 3, "{} at a time", most.1.load(Ordering::SeqCst));
}

#[test]
fn a_slow_task_does_not_hold_up_later_timeouts_on_the_default_pool() {
    let timer = Timer::builder().build().expect("the options make sense");
    let ((begun, has_begun), (release, released)) = (channel(), channel::<()>());
    let slow = move || {
        begun.send(()).expect("the test waits");
        assert!(released.recv().is_err());
    };
    timer.schedule_detached(Duration::ZERO, slow).expect("accepted");
    has_begun.recv_timeout(PATIENCE).expect("it runs");
    let runs = schedule(&timer, 10);
    eventually("the others run meanwhile", || runs.total() == 10);
    drop(release);
}

#[test]
fn a_task_may_block_for_long_without_holding_up_the_worker() {
    let timer = timer_on(ThreadPool::new(2));
    let ((begun, begins), (release, released)) = (channel(), channel::<()>());
    let block = move || {
        begun.send(()).expect("the test waits");
        assert!(released.recv().is_err());
    };
    timer.schedule_detached(Duration::ZERO, block).expect("accepted");
    // Alone in its batch: it would hold up the others of that.
    begins.recv().expect("it begins");
    for n in 1..20_u32 {
        let timeout = timer.schedule(n * MS, || ()).expect("accepted");
        eventually("others run meanwhile", || timeout.is_expired());
    }
    drop(release);
    assert!(timer.shutdown().is_ok());
}

#[test]
fn the_threads_of_a_pool_end_with_its_last_engine() {
    let timer = Timer::builder().thread_name("exec-d").build().expect("the options make sense");
    let runs = schedule(&timer, 1000);
    eventually("all run", || runs.total() == 1000);
    assert!(!threads_named("exec-d-pool").is_empty());
    assert!(timer.shutdown().is_ok());
    eventually("its threads end", || threads_named("exec-d").is_empty());
}

#[test]
fn a_pool_of_no_threads_has_one() {
    let timer = timer_on(ThreadPool::new(0));
    assert_eq!(runs_on(&timer), "tourbillon-pool-0");
}

#[test]
fn a_task_may_shut_down_another_engine_that_shares_its_only_pool_thread() {
    in_time("shutdown of an engine whose tasks wait for the caller's thread", || {
        let pool = ThreadPool::new(1);
        let one = timer_on(pool.clone());
        let (other, handed_over) = HandedOver::by(pool);
        let ((begun, has_begun), (send, receive)) = (channel(), channel());
        let target = other.clone();
        let task = move || {
            begun.send(()).expect("the test waits");
            // The batches that the other engine has given to the pool by now wait behind this task.
            eventually("the other engine has handed something over", || handed_over.get() > 0);
            send.send(target.shutdown().is_ok()).expect("the test waits");
        };
        one.schedule_detached(Duration::ZERO, task).expect("accepted");
        has_begun.recv().expect("it runs");
        let runs = schedule(&other, 1);
        assert!(receive.recv().is_ok(), "an answer, whichever it is, and no deadlock");
        eventually("what was handed over runs", || runs.total() == 1);
    });
}

#[test]
fn a_users_own_clock_needs_a_worker_that_looks_at_it() {
    struct Fast(std::time::Instant);
    impl tourbillon::Clock for Fast {
        fn now(&self) -> std::time::Instant {
            self.0 + self.0.elapsed() * 10_000
        }
    }
    let clock = Fast(std::time::Instant::now());
    let timer = built(Timer::builder().clock(clock).wait(WaitStrategy::Spin).executor(Inline));
    let (send, receive) = channel();
    let began = std::time::Instant::now();
    timer.schedule_detached(HOUR, move || send.send(began.elapsed()).expect("the test waits")).expect("accepted");
    let took = receive.recv_timeout(PATIENCE).expect("an hour passes in a third of a second");
    assert!(took >= HOUR / 10_000, "{took:?}");
}

#[test]
fn a_shutdown_that_has_nothing_to_fire_hands_no_batch_over() {
    let kept = Keeps::default();
    let timer = timer_on(kept.clone());
    assert!(timer.shutdown_with(Shutdown::FireNow).expect("the first").is_empty());
    assert_eq!(kept.batches(), 0);
}
