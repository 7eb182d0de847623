//! A schedule that replaces nothing.

mod stores;

use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use stores::{Start, each_store, until};
use tourbillon_durable::{Due, DurableTimer, Outcome};

const FAR: Duration = Duration::from_secs(3_600);
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_schedule_if_absent_leaves_what_is_there() {
    each_store(|place| {
        let (sender, runs) = mpsc::channel();
        let (ends, end) = mpsc::channel::<()>();
        let end = Mutex::new(end);
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("report", move |due: Due| {
                sender.send(due).unwrap();
                _ = end.lock().unwrap().recv_timeout(LONG);
                Outcome::Done
            })
            .started();
        let call = |key: &str, delay, payload: &str| {
            timers.schedule_if_absent(key, delay, "report", payload).unwrap().wait().unwrap()
        };
        let first = call("order:1", FAR, "first").expect("it was not there");
        assert_eq!(call("order:1", Duration::ZERO, "second"), None);
        let row = timers.get("order:1").unwrap().wait().unwrap().unwrap();
        assert_eq!((&*row.payload, row.generation), (&b"first"[..], first.generation));
        assert!(timers.cancel("order:1").unwrap().wait().unwrap());
        // Inside the window as well, and in one commit with other calls.
        let others: Vec<_> =
            (2..100).map(|n| timers.schedule(&format!("order:{n}"), FAR, "report", b"").unwrap()).collect();
        let again = call("order:1", Duration::from_millis(20), "third").expect("it was cancelled");
        others.into_iter().for_each(|other| _ = other.wait().unwrap());
        assert!(again.generation > first.generation);
        assert_eq!(call("order:1", FAR, "fourth"), None, "it waits, or runs");
        let due = runs.recv_timeout(LONG).unwrap();
        assert_eq!((due.payload(), due.generation()), (&b"third"[..], again.generation));
        assert_eq!(call("order:1", FAR, "fifth"), None, "it runs");
        drop(ends);
        until(|| timers.stats().completed == 1);
        assert!(call("order:1", FAR, "sixth").is_some(), "it has ended");
    });
}

#[test]
fn of_many_that_schedule_if_absent_one_does() {
    each_store(|place| {
        let open = || DurableTimer::open(place.url()).unwrap().handler("report", |_due| Outcome::Done).started();
        let is_file = !place.url().starts_with("postgres:");
        let first = open();
        let second = if is_file { None } else { Some(open()) };
        let all = [&*first, second.as_deref().unwrap_or(&first)];
        let scheduled: u64 = thread::scope(|scope| {
            let calls = |timers: DurableTimer| {
                move || {
                    let call = |n: usize| {
                        // The keys in an order that is another's, too.
                        let key = format!("order:{}", (n * 37) % 200);
                        timers.schedule_if_absent(&key, FAR, "report", b"").unwrap()
                    };
                    let calls: Vec<_> = (0..200).map(call).collect();
                    calls.into_iter().filter_map(|call| call.wait().unwrap()).count() as u64
                }
            };
            let callers: Vec<_> = all.iter().map(|timers| scope.spawn(calls((*timers).clone()))).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).sum()
        });
        assert_eq!(scheduled, 200);
    });
}
