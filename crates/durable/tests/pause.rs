//! A handler that is paused in one process.

mod stores;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use stores::{Start, each_store, until};
use tourbillon_durable::{DurableTimer, Event, HandlerOptions, Outcome, Refused, RunFuture};

const FAR: Duration = Duration::from_secs(3_600);
const LONG: Duration = Duration::from_secs(20);

/// A handler that counts its runs.
fn counts(runs: &Arc<AtomicU64>) -> impl Fn(tourbillon_durable::Due) -> Outcome + Send + Sync + 'static {
    let runs = Arc::clone(runs);
    move |_due| {
        runs.fetch_add(1, Ordering::SeqCst);
        Outcome::Done
    }
}

/// Schedules so many for a handler of this name.
fn schedule(timers: &DurableTimer, name: &str, count: u32, delay: Duration) {
    let calls: Vec<_> =
        (0..count).map(|n| timers.schedule(&format!("{name}:{n}"), delay, name, b"").unwrap()).collect();
    calls.into_iter().for_each(|call| _ = call.wait().unwrap());
}

#[test]
fn timeouts_of_a_paused_handler_wait_and_run_after_the_resume_at_the_pace_of_overdue_ones() {
    each_store(|place| {
        let (paused, other) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let builder = DurableTimer::open(place.url()).unwrap().overdue_per_second(100);
        let timers = builder.handler("paused", counts(&paused)).handler("other", counts(&other)).started();
        // In the wheel, and scheduled while it is paused.
        schedule(&timers, "paused", 100, Duration::from_millis(1_000));
        timers.pause("paused").unwrap();
        let before = paused.load(Ordering::SeqCst);
        assert!(timers.is_paused("paused") && !timers.is_paused("other"));
        schedule(&timers, "paused", 150, Duration::from_millis(500));
        schedule(&timers, "other", 150, Duration::from_millis(500));
        until(|| other.load(Ordering::SeqCst) == 150);
        assert!(timers.reset("paused:0", Duration::ZERO).unwrap().wait().unwrap());
        assert!(timers.cancel("paused:1").unwrap().wait().unwrap());
        // Timeouts that are overdue by less come up at once.
        thread::sleep(Duration::from_millis(2_100));
        assert_eq!(paused.load(Ordering::SeqCst), before, "nothing has begun");
        let resumed = Instant::now();
        timers.resume("paused").unwrap();
        until(|| paused.load(Ordering::SeqCst) == before + 149);
        assert!(resumed.elapsed() > Duration::from_millis(1_400), "100 a second: {:?}", resumed.elapsed());
        until(|| timers.stats().running == 0);
        assert_eq!(timers.get("paused:2").unwrap().wait().unwrap(), None);
    });
}

#[test]
fn a_run_goes_on_in_a_pause_and_timeouts_that_wait_for_a_thread_can_be_cancelled() {
    each_store(|place| {
        let (begun, begins) = mpsc::channel();
        let (ends, end) = mpsc::channel::<()>();
        let (begun, end) = (Mutex::new(begun), Mutex::new(end));
        let handler = move |_due| {
            begun.lock().unwrap().send(()).unwrap();
            _ = end.lock().unwrap().recv_timeout(LONG);
            Outcome::Done
        };
        let options = HandlerOptions::new().limit(1);
        let timers = DurableTimer::open(place.url()).unwrap().handler_with("slow", options, handler).started();
        schedule(&timers, "slow", 6, Duration::ZERO);
        begins.recv_timeout(LONG).unwrap();
        timers.pause("slow").unwrap();
        until(|| timers.stats().running == 1 && timers.stats().held == 0);
        let cancelled = (0..6).filter(|n| timers.cancel(&format!("slow:{n}")).unwrap().wait().unwrap()).count();
        assert_eq!(cancelled, 5, "all but the one that runs");
        ends.send(()).unwrap();
        until(|| timers.stats().completed == 1);
        assert!(begins.try_recv().is_err());
        timers.resume("slow").unwrap();
        schedule(&timers, "slow", 1, Duration::ZERO);
        begins.recv_timeout(LONG).unwrap();
        drop(ends);
        timers.stop();
    });
}

#[test]
fn another_process_runs_what_this_one_had_in_its_wheel() {
    each_store(|place| {
        if !place.url().starts_with("postgres:") {
            return; // a file has no other
        }
        let (first_runs, second_runs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let open = |runs| {
            let builder = DurableTimer::open(place.url()).unwrap().window(Duration::from_secs(2));
            builder.handler("close", counts(runs)).started()
        };
        let first = open(&first_runs);
        // More than one commit gives back.
        schedule(&first, "close", 1_500, Duration::from_millis(1_500));
        first.pause("close").unwrap();
        let before = first_runs.load(Ordering::SeqCst);
        let second = open(&second_runs);
        until(|| first_runs.load(Ordering::SeqCst) + second_runs.load(Ordering::SeqCst) == 1_500);
        assert_eq!(first_runs.load(Ordering::SeqCst), before);
        // The other one also runs timeouts that the first one schedules.
        schedule(&first, "close", 5, Duration::from_millis(10));
        until(|| first_runs.load(Ordering::SeqCst) + second_runs.load(Ordering::SeqCst) == 1_505);
        assert_eq!(first_runs.load(Ordering::SeqCst), before);
        second.stop();
        first.resume("close").unwrap();
        schedule(&first, "close", 5, Duration::from_millis(10));
        until(|| first_runs.load(Ordering::SeqCst) == before + 5);
    });
}

#[test]
fn only_a_handler_of_this_process_is_paused_and_one_may_start_so() {
    each_store(|place| {
        let runs = Arc::new(AtomicU64::new(0));
        let options = HandlerOptions::new().paused(true);
        let builder =
            DurableTimer::open(place.url()).unwrap().elsewhere("elsewhere").handler("other", |_| Outcome::Done);
        let timers = builder.handler_with("close", options, counts(&runs)).started();
        assert!(timers.is_paused("close"));
        for name in ["elsewhere", "unknown"] {
            let error = timers.pause(name).unwrap_err();
            let known = vec!["close".to_owned(), "other".to_owned()];
            assert_eq!(error, Refused::NoHandler { name: name.to_owned(), known });
            assert!(!timers.is_paused(name));
        }
        schedule(&timers, "close", 5, Duration::ZERO);
        schedule(&timers, "other", 5, Duration::ZERO);
        until(|| timers.stats().completed == 5);
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        timers.resume("close").unwrap();
        until(|| runs.load(Ordering::SeqCst) == 5);
        // A stop ends whatever is paused.
        timers.pause("close").unwrap();
        schedule(&timers, "close", 5, FAR);
        timers.stop();
    });
}

#[test]
fn a_handler_whose_runtime_takes_no_runs_is_paused_until_it_does() {
    each_store(|place| {
        let (told, events) = mpsc::channel();
        let told = Mutex::new(told);
        let is_there = Arc::new(AtomicBool::new(false));
        let runtime = Arc::clone(&is_there);
        let spawn = move |run: RunFuture| {
            if runtime.load(Ordering::SeqCst) {
                thread::spawn(move || pollster::block_on(run));
            }
        };
        let builder = DurableTimer::open(place.url()).unwrap().on_event(move |event: &Event<'_>| {
            told.lock().unwrap().send(event.to_string()).unwrap();
        });
        let options = HandlerOptions::new().max_attempts(1);
        let timers = builder.async_handler("webhook", options, spawn, |_due| async { Outcome::Done }).started();
        schedule(&timers, "webhook", 5, Duration::ZERO);
        until(|| timers.is_paused("webhook") && timers.stats().running == 0);
        let told: Vec<_> = events.try_iter().collect();
        assert_eq!(told.iter().filter(|event| event.contains("the runtime of the handler \"webhook\"")).count(), 1);
        is_there.store(true, Ordering::SeqCst);
        timers.resume("webhook").unwrap();
        until(|| timers.stats().completed == 5);
        assert_eq!(timers.stats().dead_lettered, 0, "what has not begun has not failed");
    });
}

#[test]
fn a_run_that_its_runtime_has_not_begun_does_not_begin_once_the_pause_has_returned() {
    each_store(|place| {
        let (spawned, spawns) = mpsc::channel::<RunFuture>();
        let spawned = Mutex::new(spawned);
        let runs = Arc::new(AtomicU64::new(0));
        let begun = Arc::clone(&runs);
        let handler = move |_due| {
            begun.fetch_add(1, Ordering::SeqCst);
            async { Outcome::Done }
        };
        let spawn = move |run| spawned.lock().unwrap().send(run).unwrap();
        let builder = DurableTimer::open(place.url()).unwrap();
        let timers = builder.async_handler("webhook", HandlerOptions::new(), spawn, handler).started();
        schedule(&timers, "webhook", 1, Duration::ZERO);
        let run = spawns.recv_timeout(LONG).unwrap();
        timers.pause("webhook").unwrap();
        pollster::block_on(run);
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        until(|| timers.stats().running == 0);
        let row = timers.get("webhook:0").unwrap().wait().unwrap().unwrap();
        assert_eq!((row.running, row.attempts), (false, 0), "it waits, as if it had not been claimed");
        timers.resume("webhook").unwrap();
        pollster::block_on(spawns.recv_timeout(LONG).unwrap());
        until(|| timers.stats().completed == 1);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    });
}
