//! The engine and Tokio: expired timeouts on a runtime, and the engine's futures in it.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tourbillon::{ManualClock, Shutdown, Sleep, Timer, WorkerState};

use common::{
    Counter, HOUR, HandedOver, MS, PATIENCE, Runs, assert_counters_reconcile, assert_run_by, built, eventually,
    in_time, ran_by,
};

fn runtime(threads: usize) -> Runtime {
    // Without `enable_time`: Tokio's own timers would panic on it.
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads).thread_name("the-runtime").build().expect("a runtime")
}

fn engine_on(runtime: &Runtime) -> Timer {
    built(Timer::builder().shards(1).thread_name("the-engine").executor(runtime.handle().clone()))
}

#[test]
fn timeouts_run_on_the_runtimes_threads() {
    let runtime = runtime(2);
    assert_run_by(&engine_on(&runtime), |thread| thread == "the-runtime");
}

#[test]
fn periodic_timeouts_run_on_the_runtime_and_a_panic_takes_nothing_else_with_it() {
    let runtime = runtime(1);
    let timer = engine_on(&runtime);
    let runs = Counter::default();
    let periodic = timer.schedule_at_fixed_rate(MS, MS, runs.task());
    timer.schedule_detached(MS, || panic!("as this test wants it")).expect("accepted");
    eventually("the panic is counted, and the periodic timeout goes on", || {
        timer.stats().panicked == 1 && runs.get() > 20
    });
    assert!(periodic.expect("accepted").cancel());
}

#[test]
fn a_timeout_may_spawn_on_the_runtime() {
    let runtime = runtime(2);
    let timer = engine_on(&runtime);
    let (tell, told) = channel();
    timer.schedule_detached(MS, move || drop(tokio::spawn(async move { ran_by(&tell)() }))).expect("accepted");
    assert_eq!(told.recv_timeout(PATIENCE).expect("what was spawned runs"), "the-runtime");
}

#[test]
fn a_current_thread_runtime_runs_timeouts_while_it_is_blocked_on() {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let timer = engine_on(&runtime);
    let (tell, told) = tokio::sync::oneshot::channel();
    let (here, task) = (thread::current().id(), move || tell.send(thread::current().id()));
    timer.schedule_detached(MS, move || task().expect("the test listens")).expect("accepted");
    assert_eq!(runtime.block_on(told).expect("it runs"), here);
}

#[test]
fn timeouts_that_expire_after_the_runtimes_shutdown_run_on_the_worker() {
    let runtime = runtime(2);
    let timer = engine_on(&runtime);
    runtime.shutdown_timeout(PATIENCE);
    let (tell, told) = channel();
    timer.schedule_detached(MS, ran_by(&tell)).expect("accepted");
    assert_eq!(told.recv_timeout(PATIENCE).expect("it runs"), "the-engine-0");
    // The future that it spawns is dropped, as by every runtime that has shut down: that is no
    // panic.
    let (tell, told) = channel::<()>();
    timer.schedule_detached(MS, move || drop(tokio::spawn(async move { drop(tell) }))).expect("accepted");
    told.recv_timeout(PATIENCE).expect_err("dropped");
    eventually("both are counted", || timer.stats().caller_ran == 2);
    assert_eq!(timer.stats().panicked, 0);
    assert_eq!(timer.health().shards[0].worker, WorkerState::Running);
}

/// Tells the name of the thread that wakes it.
struct WokenBy(Sender<String>);

impl Wake for WokenBy {
    fn wake(self: Arc<Self>) {
        let by = thread::current().name().unwrap_or_default().to_owned();
        self.0.send(by).expect("the test listens");
    }
}

/// Returns futures that sleep for so long, and where the threads that wake them tell their names.
fn sleeping(timer: &Timer, delays: &[Duration]) -> (Vec<Sleep>, Receiver<String>) {
    let (tell, told) = channel();
    let waker = Waker::from(Arc::new(WokenBy(tell)));
    let mut sleeps: Vec<_> = delays.iter().map(|delay| timer.sleep(*delay)).collect();
    for sleep in &mut sleeps {
        assert!(Pin::new(sleep).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    (sleeps, told)
}

/// Lets futures come up together, and returns the names of the threads that wake them.
fn who_wakes(futures: usize, timer: &Timer, clock: &ManualClock) -> Vec<String> {
    let (_sleeps, told) = sleeping(timer, &vec![MS; futures]);
    clock.advance(MS);
    (0..futures).map(|_| told.recv_timeout(PATIENCE).expect("each is woken")).collect()
}

#[test]
fn futures_that_come_up_together_are_woken_on_the_runtime_and_by_the_worker_once_it_has_gone() {
    let (runtime, clock) = (runtime(1), ManualClock::new());
    let builder = Timer::builder().shards(1).thread_name("the-engine").clock(clock.clone());
    let timer = builder.executor(runtime.handle().clone()).build().expect("the options make sense");
    assert_eq!(who_wakes(3, &timer, &clock), ["the-runtime"; 3]);
    // For one, a task of the runtime would cost more than it spares.
    assert_eq!(who_wakes(1, &timer, &clock), ["the-engine-0"]);
    runtime.shutdown_timeout(PATIENCE);
    assert_eq!(who_wakes(3, &timer, &clock), ["the-engine-0"; 3]);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn futures_of_two_turns_that_wait_for_the_runtime_are_all_woken() {
    let (runtime, clock) = (Builder::new_current_thread().build().expect("a runtime"), ManualClock::new());
    let builder = Timer::builder().shards(1).clock(clock.clone());
    let timer = builder.executor(runtime.handle().clone()).build().expect("the options make sense");
    let (_sleeps, told) = sleeping(&timer, &[MS, MS, 2 * MS, 2 * MS]);
    let by_hand = thread::spawn(move || (0..2).for_each(|_| clock.advance(MS)));
    eventually("all have come up", || timer.stats().fired == 4);
    runtime.block_on(tokio::task::yield_now());
    (0..4).for_each(|_| _ = told.recv_timeout(PATIENCE).expect("each is woken"));
    by_hand.join().expect("no panic");
    assert_eq!(timer.stats().panicked_turns, 0);
}

#[test]
fn batches_in_a_dropped_runtime_run_on_the_thread_that_drops_it() {
    const TASKS: usize = 1000;
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let (timer, handed_over) = HandedOver::by(runtime.handle().clone());
    let (tell, told) = channel();
    for _ in 0..TASKS {
        let tell = tell.clone();
        let task = move || {
            drop(tokio::spawn(async { unreachable!("nothing runs any more") }));
            tell.send(thread::current().id()).expect("the test listens");
        };
        timer.schedule_detached(MS, task).expect("accepted");
    }
    eventually("they are handed over", || handed_over.get() == TASKS);
    assert!(told.try_recv().is_err(), "no thread is in the runtime's `block_on`");
    drop(runtime);
    assert_eq!(told.try_iter().filter(|by| *by == thread::current().id()).count(), TASKS);
    let stats = timer.stats();
    assert_eq!((stats.caller_ran, stats.panicked), (TASKS as u64, 0));
}

#[test]
fn batches_under_way_when_the_runtimes_threads_end_are_not_lost() {
    const TASKS: usize = 10_000;
    for _ in 0..20 {
        let runtime = runtime(2);
        let (timer, handed_over) = HandedOver::by(runtime.handle().clone());
        let runs = Runs::new(TASKS);
        // Both threads are kept busy, so that batches wait in the runtime's queue. They are taken
        // one after the other: a thread may take two tasks at once, and no other need come for the
        // second while the first blocks. If this test panics, the drop of the senders lets them go.
        let (begun, begins) = channel();
        let kept: Vec<Sender<()>> = std::iter::repeat_with(|| {
            let (begun, (keep, kept)) = (begun.clone(), channel());
            runtime.spawn(async move { _ = (begun.send(()), kept.recv()) });
            begins.recv_timeout(PATIENCE).expect("a thread has nothing to do");
            keep
        })
        .take(2)
        .collect();
        (0..TASKS).for_each(|id| timer.schedule_detached(MS, runs.task(id)).expect("accepted"));
        eventually("they are handed over", || handed_over.get() == TASKS);
        assert_eq!(runs.total(), 0);
        let shutdown = thread::spawn(move || runtime.shutdown_timeout(PATIENCE));
        drop(kept);
        eventually("each runs", || runs.total() == TASKS);
        shutdown.join().expect("no panic");
        runs.assert_each_ran_once();
        assert_counters_reconcile(&timer.stats());
        assert_eq!(timer.stats().panicked, 0);
    }
}

#[test]
fn an_engine_can_be_shut_down_and_dropped_in_a_task_of_the_runtime() {
    in_time("the shutdown, on the only thread that runs timeouts", || {
        let runtime = runtime(1);
        let (timer, handed_over) = HandedOver::by(runtime.handle().clone());
        let runs = Runs::new(100);
        let ended = runtime.spawn({
            let runs = runs.clone();
            async move {
                (0..100).for_each(|id| timer.schedule_detached(Duration::ZERO, runs.task(id)).expect("accepted"));
                drop(timer.schedule(HOUR, || ()).expect("accepted"));
                eventually("they wait for this thread", || handed_over.get() == 100);
                assert_eq!(timer.shutdown().expect("not one of its own tasks").len(), 1);
            }
        });
        runtime.block_on(ended).expect("no panic");
        eventually("what was handed over runs after all", || runs.total() == 100);
    });
}

/// Lets two sleeps come up together on another thread, and returns when that thread has ended.
fn two_sleeps_end(timer: &Timer, delay: Duration) {
    let timer = timer.clone();
    in_time("both are woken", move || {
        runtime(1).block_on(async { tokio::join!(timer.sleep(delay), timer.sleep(delay)) });
    });
}

#[test]
fn futures_are_woken_though_nothing_runs_on_the_runtime_that_should_wake_them() {
    // No thread is in its `block_on`.
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let timer = engine_on(&runtime);
    for _ in 0..20 {
        two_sleeps_end(&timer, 5 * MS);
    }
    assert_counters_reconcile(&timer.stats());
    assert!(runtime.metrics().num_alive_tasks() <= 1, "a runtime that does not run gets no more of them");
    drop(runtime);
    two_sleeps_end(&timer, 5 * MS);
}

#[test]
fn futures_are_woken_though_a_task_blocks_the_runtime_that_should_wake_them() {
    let runtime = runtime(1);
    let timer = engine_on(&runtime);
    let (sleeping, (tell, told)) = (timer.clone(), channel());
    // The task itself waits for them.
    runtime.spawn(async move {
        two_sleeps_end(&sleeping, 20 * MS);
        tell.send(()).expect("the test listens");
    });
    told.recv_timeout(PATIENCE).expect("the task ends");
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_shutdown_wakes_futures_though_nothing_runs_on_the_runtime_that_should_wake_them() {
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(MS)] {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let timer = engine_on(&runtime);
        let sleeper = |delay| {
            let timer = timer.clone();
            thread::spawn(move || two_sleeps_end(&timer, delay))
        };
        let far = sleeper(HOUR);
        eventually("two are pending", || timer.pending() == 2);
        // These come up at about the time of the shutdown.
        let near = sleeper(5 * MS);
        thread::sleep(5 * MS);
        timer.shutdown_with(how).expect("the first");
        [far, near].into_iter().for_each(|sleeper| sleeper.join().expect("they were woken"));
    }
}

#[test]
fn its_futures_work_in_select_on_a_runtime_without_a_time_driver() {
    in_time("the futures", || {
        for runtime in [runtime(2), Builder::new_current_thread().build().expect("a runtime")] {
            let timer = engine_on(&runtime);
            let task = async move {
                let begun = Instant::now();
                let mut interval = timer.interval_at(begun + 10 * MS, 10 * MS);
                let end = timer.sleep(45 * MS);
                tokio::pin!(end);
                let mut ticks = 0;
                loop {
                    tokio::select! {
                        // In this order, so that there is at least one tick, even on a heavily
                        // loaded machine.
                        biased;
                        due = interval.tick() => {
                            ticks += 1;
                            assert!(due <= Instant::now(), "never early");
                        }
                        () = &mut end => break,
                        _ = timer.timeout(HOUR, std::future::pending::<()>()) => unreachable!("an hour is longer"),
                    }
                }
                assert!(begun.elapsed() >= 45 * MS && ticks >= 1, "{ticks} in {:?}", begun.elapsed());
                tokio::select! {
                    late = timer.timeout(5 * MS, std::future::pending::<()>()) => assert!(late.is_err()),
                    () = timer.sleep(HOUR) => unreachable!("an hour is longer"),
                }
            };
            runtime.block_on(async { tokio::spawn(task).await }).expect("no panic");
        }
    });
}

#[test]
fn a_future_is_spawned_on_the_runtime_that_scheduled_it() {
    let runtime = runtime(2);
    let timer = Timer::new().expect("the defaults make sense");
    let (tell, told) = channel();
    let (task, cancelled) = (ran_by(&tell), Arc::new(()));
    let kept = Arc::clone(&cancelled);
    let begun = Instant::now();
    runtime.block_on(async {
        let _detached = timer.spawn_after(5 * MS, async {
            tokio::task::yield_now().await;
            task();
        });
        let hour = timer.spawn_after(HOUR, async { drop(kept) }).expect("accepted");
        assert!(hour.cancel());
    });
    assert_eq!(Arc::strong_count(&cancelled), 1, "the cancel has dropped the future");
    assert_eq!(told.recv_timeout(PATIENCE).expect("it runs"), "the-runtime");
    assert!(begun.elapsed() >= 5 * MS, "never early");
}

#[test]
fn a_future_that_is_refused_comes_back_as_a_task_that_spawns_it() {
    let runtime = runtime(1);
    let timer = Timer::new().expect("the defaults make sense");
    timer.shutdown().expect("the first");
    let (tell, told) = channel();
    let task = ran_by(&tell);
    let refused = runtime.block_on(async { timer.spawn_after(MS, async { task() }).expect_err("it is shut down") });
    assert!(refused.is_shutdown());
    refused.into_inner()();
    assert_eq!(told.recv_timeout(PATIENCE).expect("it runs"), "the-runtime");
}
