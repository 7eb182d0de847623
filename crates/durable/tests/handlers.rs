//! Handlers do nothing to each other.

mod stores;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use stores::{Start, each_store, until, waits};
use tourbillon::{ManualClock, Timer};
use tourbillon_durable::{DurableTimer, Event, Outcome, WallClock};

const HOUR: Duration = Duration::from_secs(3_600);
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_slow_handler_holds_up_no_other() {
    each_store(|place| {
        let (ends, end) = mpsc::channel::<()>();
        let end = Mutex::new(end);
        let (slow_runs, fast_runs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (slow, fast) = (Arc::clone(&slow_runs), Arc::clone(&fast_runs));
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("slow", move |_due| {
                slow.fetch_add(1, Ordering::Relaxed);
                // As a webhook that hangs; until the test ends.
                _ = end.lock().unwrap().recv_timeout(LONG);
                Outcome::Done
            })
            .handler("fast", move |_due| {
                fast.fetch_add(1, Ordering::Relaxed);
                Outcome::Done
            })
            .threads(2)
            .started();
        let schedule = |name: &str, count: u32, delay| {
            let calls: Vec<_> =
                (0..count).map(|n| timers.schedule(&format!("{name}:{n}"), delay, name, b"").unwrap()).collect();
            calls.into_iter().for_each(|call| _ = call.wait().unwrap());
        };
        schedule("slow", 3_000, Duration::ZERO);
        until(|| slow_runs.load(Ordering::Relaxed) > 0);
        schedule("fast", 500, Duration::from_millis(50));
        until(|| fast_runs.load(Ordering::Relaxed) == 500);
        assert!(slow_runs.load(Ordering::Relaxed) <= 2, "two threads run it, and none has ended");
        assert!(timers.cancel("slow:2999").unwrap().wait().unwrap(), "what waits can be cancelled");
        drop(ends);
        timers.stop();
    });
}

#[test]
fn an_operator_is_told_once_that_runs_which_hang_fill_a_handler() {
    each_store(|place| {
        let clock = ManualClock::new();
        let (hangs, ends) = waits();
        let (told, events) = mpsc::channel();
        let told = Mutex::new(told);
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("hang", hangs)
            .threads(2)
            .on_event(move |event| {
                if let Event::Full { handler, runs, oldest } = event {
                    told.lock().unwrap().send((handler.to_string(), *runs, *oldest, event.to_string())).unwrap();
                }
            })
            .started_on(&Timer::builder().clock(clock.clone()).build().unwrap());
        let run = |key: &str, nth| {
            timers.schedule(key, Duration::ZERO, "hang", b"").unwrap().wait().unwrap();
            until(|| {
                clock.advance(Duration::from_millis(10));
                timers.stats().claimed == nth
            });
        };
        run("order:1", 1);
        run("order:2", 2);
        clock.advance(Duration::from_secs(90));
        timers.get("order:1").unwrap().wait().unwrap();
        assert!(events.try_recv().is_err(), "nothing waits for it");
        run("order:3", 3);
        let (handler, runs, oldest, text) = events.recv_timeout(LONG).unwrap();
        assert_eq!((&*handler, runs), ("hang", 2));
        assert!(oldest >= Duration::from_secs(90) && text.contains("2 runs of \"hang\""), "{text}");
        clock.advance(Duration::from_secs(90));
        timers.get("order:1").unwrap().wait().unwrap();
        drop(ends);
        timers.stop();
        assert!(events.try_recv().is_err(), "it is told once");
    });
}

/// A wall clock that the test sets.
#[derive(Clone)]
struct Set(Arc<AtomicI64>);

impl WallClock for Set {
    fn now(&self) -> SystemTime {
        let ahead = self.0.load(Ordering::Relaxed);
        let now = SystemTime::now();
        if ahead < 0 {
            now - Duration::from_secs(ahead.unsigned_abs())
        } else {
            now + Duration::from_secs(ahead.unsigned_abs())
        }
    }
}

#[test]
fn a_run_that_waits_for_a_thread_does_not_begin_early_if_the_clock_steps_back() {
    each_store(|place| {
        let clock = Set(Arc::new(AtomicI64::new(0)));
        let (ends, end) = mpsc::channel::<()>();
        let end = Mutex::new(end);
        let (early, begun) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (seen, begins, wall) = (Arc::clone(&early), Arc::clone(&begun), clock.clone());
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("wait", move |due| {
                if wall.now() < due.due() {
                    seen.fetch_add(1, Ordering::Relaxed);
                }
                begins.fetch_add(1, Ordering::Relaxed);
                _ = end.lock().unwrap().recv_timeout(LONG);
                Outcome::Done
            })
            .threads(1)
            .clock(clock.clone())
            .started();
        let calls: Vec<_> =
            (0..3).map(|n| timers.schedule(&format!("key:{n}"), Duration::ZERO, "wait", b"").unwrap()).collect();
        calls.into_iter().for_each(|call| _ = call.wait().unwrap());
        // The first has read the clock, which is set back only then.
        until(|| timers.stats().running >= 2 && begun.load(Ordering::Relaxed) == 1);
        clock.0.store(-3_600, Ordering::Relaxed);
        drop(ends);
        until(|| timers.stats().running == 0);
        let before = timers.stats().completed;
        assert!(before < 3, "those that had not begun wait");
        clock.0.store(1, Ordering::Relaxed);
        until(|| timers.stats().completed == 3);
        assert_eq!(early.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn an_operator_is_told_without_any_feature() {
    each_store(|place| {
        let (told, events) = mpsc::channel();
        let told = Mutex::new(told);
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("panic", |_due| panic!("as the test wants it"))
            .max_attempts(1)
            .on_event(move |event: &Event<'_>| {
                told.lock().unwrap().send(event.to_string()).unwrap();
                assert!(!matches!(event, Event::Panicked { .. }), "a hook that panics ends nothing");
            })
            .started();
        timers.schedule("order:42", Duration::ZERO, "panic", b"").unwrap().wait().unwrap();
        timers.schedule("order:43", HOUR, "panic", b"").unwrap().wait().unwrap();
        let first = events.recv_timeout(LONG).unwrap();
        assert!(first.contains("panicked") && first.contains("order:42"), "{first}");
        let second = events.recv_timeout(LONG).unwrap();
        assert!(second.contains("given up") && second.contains("order:42"), "{second}");
        timers.stop();
        thread::sleep(Duration::from_millis(1));
        assert_eq!(events.try_iter().last().as_deref(), Some("stopped"));
    });
}
