//! Handlers that wait without a thread.

mod stores;

use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use stores::{Start, each_store, until};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tourbillon_durable::{Due, DurableTimer, Event, HandlerOptions, Outcome, RetryPolicy, RunFuture};

const FAR: Duration = Duration::from_secs(3_600);
const LONG: Duration = Duration::from_secs(20);

fn runtime(threads: usize) -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).build().unwrap()
}

/// Returns a function that gives runs to a runtime.
fn on(runtime: &Runtime) -> impl Fn(RunFuture) + Send + Sync + 'static {
    let handle = runtime.handle().clone();
    move |run| drop(handle.spawn(run))
}

/// Schedules so many for a handler of this name, due now.
fn schedule(timers: &DurableTimer, name: &str, count: u32) {
    let calls: Vec<_> =
        (0..count).map(|n| timers.schedule(&format!("{name}:{n}"), Duration::ZERO, name, b"").unwrap()).collect();
    calls.into_iter().for_each(|call| _ = call.wait().unwrap());
}

/// How many runs are under way, and the most that there were.
#[derive(Clone, Default)]
struct Gauge(Arc<(AtomicUsize, AtomicUsize)>);

impl Gauge {
    fn enter(&self) {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn now(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

#[test]
fn two_hundred_that_wait_on_two_threads_of_which_one_hangs_hold_up_no_other() {
    each_store(|place| {
        let (two, one) = (runtime(2), runtime(1));
        let (gauge, fast_runs) = (Gauge::default(), Arc::new(AtomicU64::new(0)));
        let answers = Arc::new(Semaphore::new(0));
        let (ends, end) = mpsc::channel::<()>();
        let (under_way, awaited, end) = (gauge.clone(), Arc::clone(&answers), Arc::new(Mutex::new(end)));
        let webhook = move |due: Due| {
            let (under_way, awaited, end) = (under_way.clone(), Arc::clone(&awaited), Arc::clone(&end));
            async move {
                under_way.enter();
                if due.key() == "webhook:0" {
                    // It blocks a thread of the runtime: until the test ends.
                    _ = end.lock().unwrap().recv();
                } else {
                    awaited.acquire().await.unwrap().forget();
                }
                under_way.leave();
                Outcome::Done
            }
        };
        let (fast, blocking) = (Arc::clone(&fast_runs), Arc::clone(&fast_runs));
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .async_handler("webhook", HandlerOptions::new().limit(200), on(&two), webhook)
            .async_handler("fast", HandlerOptions::new(), on(&one), move |_due| {
                fast.fetch_add(1, Ordering::Relaxed);
                async { Outcome::Done }
            })
            .handler("blocking", move |_due| {
                blocking.fetch_add(1, Ordering::Relaxed);
                Outcome::Done
            })
            .started();
        schedule(&timers, "webhook", 600);
        until(|| gauge.now() == 200);
        schedule(&timers, "fast", 300);
        schedule(&timers, "blocking", 300);
        until(|| fast_runs.load(Ordering::Relaxed) == 600);
        assert_eq!(gauge.now(), 200);
        // The process has claimed 200 that run, and as many that come next.
        let calls: Vec<_> = (1..600).map(|n| timers.cancel(&format!("webhook:{n}")).unwrap()).collect();
        let cancelled = calls.into_iter().map(|call| u64::from(call.wait().unwrap())).sum::<u64>();
        assert!(cancelled >= 200, "{cancelled} were cancelled");
        // The others go on beside the one that hangs.
        answers.add_permits(600);
        until(|| timers.stats().completed == 1_199 - cancelled);
        until(|| gauge.now() == 1);
        assert_eq!(gauge.most(), 200);
        drop(ends);
        timers.stop();
        assert_eq!(timers.stats().completed, 1_200 - cancelled, "a stop waits for it");
    });
}

#[test]
fn a_future_that_panics_or_wants_a_retry_is_tried_again_by_its_policy() {
    each_store(|place| {
        let runtime = runtime(1);
        let (sender, runs) = mpsc::channel();
        let sender = Mutex::new(sender);
        let handler = move |due: Due| {
            sender.lock().unwrap().send(due.attempt()).unwrap();
            assert!(due.attempt() != 1, "before there is a future, as the test wants it");
            async move {
                assert!(due.attempt() != 2, "as the test wants it");
                if due.attempt() == 3 { Outcome::Retry } else { Outcome::Done }
            }
        };
        let policy = RetryPolicy::by(|failures| Duration::from_millis(u64::from(failures)));
        let options = HandlerOptions::new().retry(policy).max_attempts(4);
        let builder = DurableTimer::open(place.url()).unwrap();
        let timers = builder.max_attempts(1).async_handler("fails", options, on(&runtime), handler).started();
        schedule(&timers, "fails", 1);
        until(|| timers.stats().completed == 1);
        assert_eq!(runs.try_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!((timers.stats().panicked, timers.stats().retried), (2, 3));
    });
}

#[test]
fn a_run_that_a_runtime_drops_in_the_middle_is_tried_again() {
    each_store(|place| {
        let first = runtime(1);
        let (told, events) = mpsc::channel();
        let told = Mutex::new(told);
        let (begins, drops) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (begun, dropped) = (Arc::clone(&begins), Arc::clone(&drops));
        let second = runtime(1);
        let is_second = Arc::new(AtomicBool::new(false));
        let spawn = {
            let (first, second, is_second) = (on(&first), on(&second), Arc::clone(&is_second));
            move |run| if is_second.load(Ordering::SeqCst) { second(run) } else { first(run) }
        };
        let handler = move |due: Due| {
            let guard = OnDrop(Arc::clone(&dropped));
            begun.fetch_add(1, Ordering::Relaxed);
            async move {
                if due.attempt() == 1 {
                    pending::<()>().await;
                }
                drop(guard);
                Outcome::Done
            }
        };
        let options = HandlerOptions::new().retry(RetryPolicy::fixed(Duration::from_millis(10)));
        let builder = DurableTimer::open(place.url()).unwrap().on_event(move |event: &Event<'_>| {
            told.lock().unwrap().send(event.to_string()).unwrap();
        });
        let timers = builder.async_handler("waits", options, spawn, handler).started();
        schedule(&timers, "waits", 3);
        until(|| begins.load(Ordering::Relaxed) == 3);
        is_second.store(true, Ordering::SeqCst);
        first.shutdown_background();
        until(|| timers.stats().completed == 3);
        assert_eq!(drops.load(Ordering::Relaxed), 6, "each had gone before it was tried again");
        let told: Vec<_> = events.try_iter().collect();
        assert_eq!(told.iter().filter(|event| event.contains("a runtime has dropped a run: waits:")).count(), 3);
        timers.stop();
    });
}

struct OnDrop(Arc<AtomicU64>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_stop_from_within_a_future_does_not_wait_for_it() {
    each_store(|place| {
        let runtime = runtime(1);
        let timers = Arc::new(std::sync::OnceLock::<DurableTimer>::new());
        let inner = Arc::clone(&timers);
        let (stopped, stops) = mpsc::channel();
        let handler = move |_due| {
            let (inner, stopped) = (Arc::clone(&inner), stopped.clone());
            async move {
                inner.wait().stop();
                stopped.send(()).unwrap();
                Outcome::Done
            }
        };
        let started = DurableTimer::open(place.url())
            .unwrap()
            .async_handler("stops", HandlerOptions::new(), on(&runtime), handler)
            .started();
        timers.set(started.clone()).unwrap();
        schedule(&started, "stops", 1);
        stops.recv_timeout(LONG).unwrap();
        started.stop();
        assert_eq!(started.stats().completed, 1);
    });
}

/// Polls each run on a thread of its own: a runtime of few lines.
fn on_threads(run: RunFuture) {
    thread::spawn(move || pollster::block_on(run));
}

#[test]
fn a_timeout_that_waits_its_turn_is_given_back_by_a_stop_and_runs_after_the_next_start() {
    each_store(|place| {
        let (begun, begins) = mpsc::channel::<u32>();
        let answers = Arc::new(Semaphore::new(0));
        let open = || {
            let (begun, answers) = (begun.clone(), Arc::clone(&answers));
            let handler = move |due: Due| -> std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>> {
                let (begun, answers) = (begun.clone(), Arc::clone(&answers));
                Box::pin(async move {
                    begun.send(due.attempt()).unwrap();
                    answers.acquire().await.unwrap().forget();
                    Outcome::Done
                })
            };
            DurableTimer::open(place.url())
                .unwrap()
                .async_handler("webhook", HandlerOptions::new().limit(2), on_threads, handler)
                .started()
        };
        let timers = open();
        schedule(&timers, "webhook", 6);
        let mut attempts: Vec<_> = (0..2).map(|_| begins.recv_timeout(LONG).unwrap()).collect();
        let stopping = timers.clone();
        let stop = thread::spawn(move || stopping.stop());
        until(|| timers.schedule("late", FAR, "webhook", b"").is_err());
        answers.add_permits(6);
        stop.join().unwrap();
        let before = timers.stats().completed;
        assert!(before >= 2, "it waits for those that are under way");
        drop(timers);
        let timers = open();
        until(|| timers.stats().completed + before == 6);
        attempts.extend(begins.try_iter());
        assert_eq!(attempts, [1; 6], "none has begun twice");
    });
}
