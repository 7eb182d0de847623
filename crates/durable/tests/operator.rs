//! An operator sees what is in a store, and changes it, beside a process that has it open.

#![cfg(all(unix, feature = "sqlite"))]

mod stores;

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use stores::{Place, Start, Started, each_store, until};
use tourbillon_durable::{Cancelled, DurableTimer, Filter, Operator, OperatorError, Outcome};

const HOUR: Duration = Duration::from_secs(3_600);
/// The lease of a process that says nothing else.
const LEASE: Duration = Duration::from_secs(60);
/// Keys that a pattern, a collation or a quote could take for others.
const ODD: [&str; 14] =
    ["a%", "a%b", "a_", "axb", "a\\", "a\\b", "a'", "a\"", "ä", "äb", "a\u{308}b", "A", "a b", "\u{10ffff}z"];

/// A process with a handler that runs until the sender is dropped, one that is done at once, and
/// one that fails.
fn start(place: &Place) -> (Started, Sender<()>) {
    let (end, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let timers = DurableTimer::open(place.url())
        .unwrap()
        .handler("hang", move |_due| {
            _ = wait.lock().unwrap_or_else(PoisonError::into_inner).recv();
            Outcome::Done
        })
        .handler("work", |_due| Outcome::Done)
        .handler("fail", |_due| Outcome::DeadLetter)
        .elsewhere("nowhere")
        .started();
    (timers, end)
}

fn schedule(timers: &DurableTimer, key: &str, delay: Duration, handler: &str) {
    timers.schedule(key, delay, handler, b"payload").unwrap().wait().unwrap();
}

/// Schedules one that runs until the end of the test.
fn hang(timers: &DurableTimer, operator: &Operator, key: &str) {
    let before = operator.count(&Filter::new().running(true)).unwrap();
    schedule(timers, key, Duration::ZERO, "hang");
    until(|| operator.count(&Filter::new().running(true)).unwrap() == before + 1);
}

fn keys(operator: &Operator, filter: Filter) -> Vec<String> {
    let mut keys: Vec<_> = operator.list(&filter).unwrap().into_iter().map(|row| row.key).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn each_filter_finds_what_it_says_and_no_more() {
    each_store(|place| {
        let (timers, _end) = start(place);
        let operator = Operator::open(place.url()).unwrap();
        hang(&timers, &operator, "run:1");
        schedule(&timers, "far:1", HOUR, "work");
        schedule(&timers, "far:2", 2 * HOUR, "fail");
        let hour_ago = SystemTime::now() - HOUR;
        timers.schedule_at("late:1", hour_ago, "nowhere", b"").unwrap().wait().unwrap();
        schedule(&timers, "late:2", Duration::ZERO, "nowhere");

        let all = Filter::new();
        assert_eq!(operator.count(&all).unwrap(), 5);
        assert_eq!(keys(&operator, all.clone()), ["far:1", "far:2", "late:1", "late:2", "run:1"]);
        assert_eq!(keys(&operator, all.clone().prefix("far:")), ["far:1", "far:2"]);
        assert_eq!(keys(&operator, all.clone().handler("fail")), ["far:2"]);
        assert_eq!(keys(&operator, all.clone().running(true)), ["run:1"]);
        assert_eq!(keys(&operator, all.clone().running(false).prefix("run:")), [""; 0]);
        assert_eq!(keys(&operator, all.clone().overdue(Duration::ZERO)), ["late:1", "late:2"]);
        assert_eq!(keys(&operator, all.clone().overdue(HOUR / 2)), ["late:1"]);
        assert_eq!(keys(&operator, all.clone().without_handler()), ["late:1", "late:2"]);
        assert_eq!(keys(&operator, all.clone().without_handler().prefix("far:")), [""; 0]);
        let oldest = operator.oldest(&all.clone().limit(2)).unwrap();
        assert_eq!(oldest.iter().map(|row| &*row.key).collect::<Vec<_>>(), ["late:1", "run:1"]);

        let (row, payload) = operator.get("run:1").unwrap().expect("it is there");
        assert!(row.running && row.process.is_some() && row.attempts == 1 && row.payload_len == 7);
        assert_eq!(payload, b"payload");
        let kept = timers.get("far:1").unwrap().wait().unwrap().unwrap();
        let (row, _) = operator.get("far:1").unwrap().unwrap();
        assert_eq!((row.due, row.generation, row.process), (kept.due, kept.generation, None));
        assert_eq!(operator.get("far").unwrap(), None);
    });
}

#[test]
fn handlers_and_processes_say_which_one_is_missing() {
    each_store(|place| {
        let (timers, end) = start(place);
        let operator = Operator::open(place.url()).unwrap();
        until(|| !operator.processes().unwrap().is_empty());
        hang(&timers, &operator, "run:1");
        schedule(&timers, "late:1", Duration::ZERO, "nowhere");
        schedule(&timers, "far:1", HOUR, "work");

        let process = operator.processes().unwrap().remove(0);
        assert!(process.live && process.lease_until > SystemTime::now());
        assert!(process.lease_left > LEASE / 4 && process.lease_left <= LEASE);
        assert_eq!(process.handlers.unwrap(), ["fail", "hang", "work"]);
        assert_eq!((process.timeouts, process.running), (1, 1));
        let handlers = operator.handlers(&Filter::new()).unwrap();
        let find = |name: &str| {
            let row = handlers.iter().find(|row| row.handler == name).unwrap();
            (row.pending, row.overdue, row.running, row.processes)
        };
        assert_eq!(find("nowhere"), (1, 1, 0, 0));
        assert_eq!(find("hang"), (1, 0, 1, 1));
        assert_eq!(find("work"), (1, 0, 0, 1));
        assert_eq!(find("fail"), (0, 0, 0, 1));

        drop(end);
        timers.stop();
        assert_eq!(operator.processes().unwrap(), []);
        assert_eq!(keys(&operator, Filter::new().without_handler()), ["far:1", "late:1"]);
    });
}

#[test]
fn a_process_that_does_not_name_its_handlers_makes_them_unknown_and_not_missing() {
    let place = Place::Sqlite(tempfile::tempdir().unwrap());
    let (timers, _end) = start(&place);
    schedule(&timers, "late:1", Duration::ZERO, "nowhere");
    let operator = Operator::open(place.url()).unwrap();
    until(|| operator.processes().unwrap().len() == 1);
    let shell = rusqlite::Connection::open(place.url()).unwrap();
    // As an older version would write it.
    shell
        .execute(
            "INSERT INTO tourbillon_owners (owner, lease_until) SELECT 7, max(lease_until) FROM tourbillon_owners",
            [],
        )
        .unwrap();
    let filter = Filter::new().without_handler();
    assert_eq!(operator.count(&filter), Err(OperatorError::UnknownHandlers { process: 7 }));
    assert!(matches!(operator.cancel(&filter), Err(OperatorError::UnknownHandlers { process: 7 })));
    shell.execute("UPDATE tourbillon_owners SET lease_until = 0 WHERE owner = 7", []).unwrap();
    assert_eq!(operator.count(&filter), Ok(1));
}

#[test]
fn pages_have_each_row_once() {
    each_store(|place| {
        let (timers, _end) = start(place);
        let mut expected: Vec<String> = ODD.iter().map(|key| (*key).to_owned()).collect();
        expected.extend((0..500).map(|i| format!("Key:{i}")).chain((0..500).map(|i| format!("key-{i}"))));
        let calls: Vec<_> = expected.iter().map(|key| timers.schedule(key, HOUR, "work", b"").unwrap()).collect();
        calls.into_iter().for_each(|call| assert!(call.wait().is_ok()));
        expected.sort_unstable();
        let operator = Operator::open(place.url()).unwrap();
        for limit in [1, 77, 10_000] {
            let (mut filter, mut found) = (Filter::new().limit(limit), Vec::new());
            loop {
                let page = operator.list(&filter).unwrap();
                assert!(page.len() <= limit as usize);
                let Some(last) = page.last() else { break };
                filter = filter.after(&last.key);
                found.extend(page.into_iter().map(|row| row.key));
            }
            found.sort_unstable();
            assert_eq!(found, expected, "{limit}");
        }
        assert_eq!(operator.list(&Filter::new()).unwrap().len(), 100);
    });
}

#[test]
fn a_prefix_is_compared_by_bytes() {
    each_store(|place| {
        let (timers, _end) = start(place);
        ODD.iter().for_each(|key| schedule(&timers, key, HOUR, "work"));
        let operator = Operator::open(place.url()).unwrap();
        for prefix in ODD.iter().chain(&["a", "\\", "%", "_", "", "\u{10ffff}", "b"]) {
            let mut expected: Vec<_> = ODD.into_iter().filter(|key| key.starts_with(prefix)).collect();
            expected.sort_unstable();
            assert_eq!(keys(&operator, Filter::new().prefix(*prefix)), expected, "{prefix:?}");
        }
    });
}

#[test]
fn a_cancel_by_prefix_takes_nothing_that_runs_and_nothing_of_another_prefix() {
    each_store(|place| {
        let (timers, _end) = start(place);
        let operator = Operator::open(place.url()).unwrap();
        hang(&timers, &operator, "50%_\\:run");
        let calls: Vec<_> =
            (0..700).map(|i| timers.schedule(&format!("50%_\\:{i}"), HOUR, "work", b"").unwrap()).collect();
        calls.into_iter().for_each(|call| assert!(call.wait().is_ok()));
        let others = ["50", "50%", "50%_", "50%x\\:1", "50xx\\:1", "50%_\\", "50%_/:1", "50%_\\;", "50%_\u{e4}:1"];
        others.iter().for_each(|key| schedule(&timers, key, HOUR, "work"));
        schedule(&timers, "50%_\\:fail", HOUR, "fail");

        let theirs = Filter::new().prefix("50%_\\:");
        assert_eq!(operator.count(&theirs).unwrap(), 702);
        let done = operator.cancel(&theirs.clone().handler("work")).unwrap();
        assert_eq!((done.cancelled, done.left), (700, 0));
        let done = operator.cancel(&theirs).unwrap();
        assert_eq!((done.cancelled, done.left), (1, 1), "what runs is left");
        assert_eq!(operator.cancel(&Filter::new().running(true)).unwrap().cancelled, 0);
        let mut expected = others.to_vec();
        expected.push("50%_\\:run");
        expected.sort_unstable();
        assert_eq!(keys(&operator, Filter::new()), expected);
        assert!(timers.get("50%_\\:run").unwrap().wait().unwrap().unwrap().running);
    });
}

#[test]
fn a_timeout_that_an_operator_cancels_beside_its_process_never_runs() {
    each_store(|place| {
        let (timers, _end) = start(place);
        let operator = Operator::open(place.url()).unwrap();
        // It is in the wheel of the process by now.
        schedule(&timers, "soon:1", Duration::from_millis(700), "fail");
        schedule(&timers, "soon:2", Duration::from_millis(800), "fail");
        assert_eq!(
            operator.get("soon:1").unwrap().unwrap().0.process,
            operator.get("soon:2").unwrap().unwrap().0.process
        );
        assert_eq!(operator.cancel(&Filter::new().key("soon:1")).unwrap(), cancelled(1));
        until(|| timers.stats().dead_lettered == 1);
        assert_eq!(timers.stats().claimed, 1);
        assert_eq!(operator.cancel(&Filter::new().key("soon:1")).unwrap(), cancelled(0));
        assert_eq!(timers.stats().store_errors, 0);
    });
}

/// So many, and none is left.
fn cancelled(count: u64) -> Cancelled {
    let mut cancelled = Cancelled::default();
    cancelled.cancelled = count;
    cancelled
}

#[test]
fn dead_letters_are_listed_scheduled_and_deleted_by_the_same_filters() {
    each_store(|place| {
        let (timers, end) = start(place);
        let operator = Operator::open(place.url()).unwrap();
        let bury = |key: &str| {
            let before = timers.stats().dead_lettered;
            schedule(&timers, key, Duration::ZERO, "fail");
            until(|| timers.stats().dead_lettered == before + 1);
        };
        // Three generations of one key, and others.
        ["a_1", "a_1", "a_1", "a_2", "ab3", "b"].into_iter().for_each(bury);
        let theirs = Filter::new().prefix("a_");
        assert_eq!(operator.count_dead(&theirs).unwrap(), 4);
        let mut found = Vec::new();
        let mut filter = theirs.clone().limit(2);
        while let Some(last) = operator.list_dead(&filter).unwrap().pop() {
            found.extend(operator.list_dead(&filter).unwrap());
            filter = filter.after_letter(last.key, last.generation);
        }
        assert_eq!(found.iter().map(|row| &*row.key).collect::<Vec<_>>(), ["a_1", "a_1", "a_1", "a_2"]);
        assert!(found.iter().all(|row| row.handler == "fail" && row.payload_len == 7 && row.attempts == 1));
        assert_eq!(operator.count_dead(&theirs.clone().running(true)).unwrap(), 0);
        assert_eq!(operator.count_dead(&theirs.clone().without_handler()).unwrap(), 0);

        // The last one of each key.
        assert_eq!(operator.revive_dead(&theirs, HOUR).unwrap(), 2);
        assert_eq!(operator.count_dead(&theirs).unwrap(), 2);
        let (row, payload) = operator.get("a_1").unwrap().unwrap();
        assert!(row.generation > found[3].generation && payload == b"payload");
        assert!(row.due > SystemTime::now() + HOUR / 2);
        assert_eq!(operator.revive_dead(&theirs, HOUR).unwrap(), 0, "the key is scheduled");
        assert_eq!(operator.delete_dead(&theirs).unwrap(), 2);
        assert_eq!(operator.count_dead(&Filter::new()).unwrap(), 2);

        drop(end);
        timers.stop();
        assert_eq!(operator.count_dead(&Filter::new().without_handler()).unwrap(), 2);
    });
}

#[test]
fn generations_grow_whoever_draws_them() {
    each_store(|place| {
        let (timers, _end) = start(place);
        let operator = Operator::open(place.url()).unwrap();
        schedule(&timers, "a", Duration::ZERO, "fail");
        until(|| timers.stats().dead_lettered == 1);
        let mut last = operator.list_dead(&Filter::new()).unwrap()[0].generation;
        let mut grows = |generation| assert!(generation > std::mem::replace(&mut last, generation));
        assert_eq!(operator.revive_dead(&Filter::new(), HOUR).unwrap(), 1);
        grows(operator.get("a").unwrap().unwrap().0.generation);
        grows(timers.schedule("b", HOUR, "work", b"").unwrap().wait().unwrap().generation);
        grows(timers.schedule("a", HOUR, "work", b"").unwrap().wait().unwrap().generation);
    });
}

#[test]
fn a_revived_dead_letter_runs() {
    each_store(|place| {
        let dead = std::sync::atomic::AtomicBool::new(true);
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("work", move |_due| {
                let dead = dead.swap(false, std::sync::atomic::Ordering::Relaxed);
                if dead { Outcome::DeadLetter } else { Outcome::Done }
            })
            .window(Duration::from_millis(200))
            .started();
        schedule(&timers, "a", Duration::ZERO, "work");
        until(|| timers.stats().dead_lettered == 1);
        let operator = Operator::open(place.url()).unwrap();
        assert_eq!(operator.revive_dead(&Filter::new().key("a"), Duration::ZERO).unwrap(), 1);
        until(|| timers.stats().completed == 1);
    });
}

#[test]
fn calls_of_many_threads_and_operators_go_together() {
    each_store(|place| {
        let (timers, _end) = start(place);
        let operators = [Operator::open(place.url()).unwrap(), Operator::open(place.url()).unwrap()];
        let done = std::sync::atomic::AtomicBool::new(false);
        let total = thread::scope(|scope| {
            let cancel = |operator| {
                let done = &done;
                move || {
                    let mut cancelled = 0;
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        let operator: &Operator = operator;
                        cancelled += operator.cancel(&Filter::new().prefix("order:")).unwrap().cancelled;
                    }
                    cancelled
                }
            };
            let cancelling: Vec<_> =
                operators.iter().chain(&operators).map(|operator| scope.spawn(cancel(operator))).collect();
            for round in 0..20 {
                let calls: Vec<_> = (0..100)
                    .map(|i| timers.schedule(&format!("order:{round}:{i}"), HOUR, "work", b"").unwrap())
                    .collect();
                calls.into_iter().for_each(|call| assert!(call.wait().is_ok()));
            }
            until(|| operators[0].count(&Filter::new()).unwrap() == 0);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            cancelling.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        assert_eq!(total, 2_000, "each was cancelled once");
        assert_eq!(timers.stats().scheduled, 2_000);
    });
}
