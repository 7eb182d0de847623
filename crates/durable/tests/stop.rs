//! A stop ends whatever the store and the callers do, and nothing is repeated for its sake.

mod stores;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use stores::{Start, Started, each_store, until, waits};
use tourbillon_durable::{DurableTimer, Event, Outcome};

const FAR: Duration = Duration::from_secs(3_600);
const LONG: Duration = Duration::from_secs(20);

#[test]
#[cfg(feature = "sqlite")]
fn a_stop_gives_up_a_store_that_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("timeouts.db");
    let (started, starts) = mpsc::channel();
    let timers = DurableTimer::open(path.to_str().unwrap())
        .unwrap()
        .handler("slow", move |_due| {
            started.send(()).unwrap();
            thread::sleep(Duration::from_millis(500));
            Outcome::Done
        })
        .started();
    timers.schedule("order:1", Duration::ZERO, "slow", b"").unwrap().wait().unwrap();
    starts.recv_timeout(LONG).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("ALTER TABLE tourbillon_timeouts RENAME TO away").unwrap();
    let (stopped, stops) = mpsc::channel();
    thread::spawn(move || {
        timers.stop();
        stopped.send(()).unwrap();
    });
    stops.recv_timeout(LONG).expect("it gives up after five seconds");
}

#[test]
fn a_stop_keeps_what_runs_and_gives_the_rest_to_others() {
    each_store(|place| {
        if !place.url().starts_with("postgres:") {
            return; // a file has no other
        }
        let runs = Arc::new(AtomicU32::new(0));
        let start = || {
            let runs = Arc::clone(&runs);
            DurableTimer::open(place.url())
                .unwrap()
                .handler("slow", move |_due| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_secs(6));
                    Outcome::Done
                })
                .lease(Duration::from_secs(2))
                .window(Duration::from_secs(1))
                .started()
        };
        let first = start();
        first.schedule("order:1", Duration::ZERO, "slow", b"").unwrap().wait().unwrap();
        until(|| runs.load(Ordering::Relaxed) == 1);
        first.schedule("order:2", Duration::from_millis(800), "slow", b"").unwrap().wait().unwrap();
        let second = start();
        assert_eq!(first.stop_within(LONG), 0);
        assert_eq!(first.stats().completed, 1);
        assert_eq!(second.stats().claimed, 1, "the one that had not begun, in the meantime");
    });
}

#[test]
fn a_stop_with_a_limit_says_what_still_runs_and_a_drop_waits_for_it_no_more() {
    each_store(|place| {
        let (hangs, ends) = waits();
        let (begun, begins) = mpsc::channel();
        let hangs = move |due| {
            begun.send(()).unwrap();
            hangs(due)
        };
        let (told, stopped) = mpsc::channel();
        let told = Mutex::new(told);
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("hang", hangs)
            .threads(2)
            .on_event(move |event| _ = told.lock().unwrap().send(*event == Event::Stopped))
            .started();
        for key in ["order:1", "order:2"] {
            timers.schedule(key, Duration::ZERO, "hang", b"").unwrap().wait().unwrap();
        }
        (0..2).for_each(|_| begins.recv_timeout(LONG).unwrap());
        let begun = Instant::now();
        assert_eq!(timers.stop_within(Duration::from_millis(300)), 2);
        drop(timers);
        assert!(begun.elapsed() < LONG && stopped.try_recv().is_err(), "the runs go on");
        drop(ends);
        assert_eq!(stopped.recv_timeout(LONG), Ok(true), "it stops when they end");
    });
}

/// A task that ends with its first wake-up, and then drops what it owns.
struct Task {
    timers: Mutex<Option<Started>>,
    dropped: mpsc::Sender<()>,
}

impl Task {
    fn end(&self) {
        drop(self.timers.lock().unwrap().take());
        _ = self.dropped.send(());
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.end();
    }
}

impl Drop for Task {
    /// It was not woken: the answer was there.
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn the_last_handle_may_go_with_the_waker_that_an_answer_wakes() {
    each_store(|place| {
        let goes_with_an_answer = |_| {
            let timers = DurableTimer::open(place.url()).unwrap().handler("report", |_due| Outcome::Done).started();
            let mut writes: Vec<_> = (0..50).map(|_| timers.schedule("order:1", FAR, "report", b"").unwrap()).collect();
            let mut last = writes.pop().unwrap();
            let (dropped, drops) = mpsc::channel();
            let waker = Waker::from(Arc::new(Task { timers: Mutex::new(Some(timers)), dropped }));
            let pending = Pin::new(&mut last).poll(&mut Context::from_waker(&waker)).is_pending();
            drop(waker);
            drops.recv_timeout(LONG).expect("a drop that is no panic");
            assert!(!pending || pollster::block_on(last).is_ok());
            pending
        };
        assert!((0..20).any(goes_with_an_answer), "each answer was there at once");
    });
}

#[test]
#[cfg(feature = "postgres")]
fn a_stop_does_not_wait_for_calls_behind_one_whose_row_is_locked() {
    each_store(|place| {
        if !place.url().starts_with("postgres:") {
            return; // a file has no locks on rows
        }
        let timers =
            DurableTimer::open(place.url()).unwrap().handler("report", |_due| Outcome::Done).started_within(FAR);
        timers.schedule("order:1", FAR, "report", b"").unwrap().wait().unwrap();
        let mut client = postgres::Client::connect(&place.url(), postgres::NoTls).unwrap();
        let mut lock = client.transaction().unwrap();
        lock.query("SELECT key FROM tourbillon_timeouts WHERE key = 'order:1' FOR UPDATE", &[]).unwrap();
        // Nobody waits for them.
        for _ in 0..2 {
            drop(timers.reset("order:1", FAR).unwrap());
        }
        let begun = Instant::now();
        timers.stop();
        assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
        lock.rollback().unwrap();
    });
}
