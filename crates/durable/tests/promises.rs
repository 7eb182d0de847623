//! The promises of the timers, on both stores.

mod stores;

use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use stores::{Place, Start, Started, each_store};
use tourbillon_durable::{Due, DurableTimer, Outcome, Refused};

const SOON: Duration = Duration::from_millis(50);
const FAR: Duration = Duration::from_secs(3_600);
const LONG: Duration = Duration::from_secs(20);

/// Timers whose handler `report` sends what it gets, and whose others end as they are called.
fn timers(place: &Place) -> (Started, mpsc::Receiver<(Due, SystemTime)>) {
    let (sender, runs) = mpsc::channel();
    let report = move |due: Due| {
        _ = sender.send((due.clone(), SystemTime::now()));
        match due.payload() {
            b"retry" if due.attempt() < 3 => Outcome::RetryAfter(SOON),
            b"never" => Outcome::DeadLetter,
            b"panic" if due.attempt() == 1 => panic!("as the test wants it"),
            _ => Outcome::Done,
        }
    };
    let timers = DurableTimer::open(place.url()).unwrap().handler("report", report).elsewhere("elsewhere").started();
    (timers, runs)
}

/// Timers with two threads, whose handler `slow` says that it has started, and takes 0.2 s.
fn slow_timers(place: &Place) -> (Started, mpsc::Receiver<()>) {
    let (started, starts) = mpsc::channel();
    let slow = move |_due| {
        _ = started.send(());
        std::thread::sleep(Duration::from_millis(200));
        Outcome::Done
    };
    let timers = DurableTimer::open(place.url()).unwrap().handler("slow", slow).threads(2).started();
    (timers, starts)
}

#[test]
fn a_timeout_runs_after_its_deadline_with_its_payload_and_then_is_gone() {
    each_store(|place| {
        let (timers, runs) = timers(place);
        let scheduled = timers.schedule("order:1", SOON, "report", b"forty-two").unwrap().wait().unwrap();
        let (due, at) = runs.recv_timeout(LONG).unwrap();
        assert_eq!((due.key(), due.payload(), due.attempt()), ("order:1", &b"forty-two"[..], 1));
        assert_eq!(due.generation(), scheduled.generation);
        assert!(at >= due.due());
        stores::until(|| timers.get("order:1").unwrap().wait().unwrap().is_none());
        assert_eq!(timers.stats().completed, 1);
    });
}

#[test]
fn a_timeout_that_is_far_away_is_on_disk_and_not_in_the_wheel() {
    each_store(|place| {
        let (timers, runs) = timers(place);
        timers.schedule("order:1", FAR, "report", b"").unwrap().wait().unwrap();
        assert_eq!(timers.stats().held, 0);
        let row = timers.get("order:1").unwrap().wait().unwrap().unwrap();
        assert_eq!((row.handler.as_str(), row.attempts, row.running), ("report", 0, false));
        assert!(row.due > SystemTime::now() + FAR - LONG);
        assert!(runs.try_recv().is_err());
    });
}

#[test]
fn the_last_schedule_of_a_key_wins() {
    each_store(|place| {
        let (timers, runs) = timers(place);
        let first = timers.schedule("order:1", SOON, "report", b"first").unwrap();
        let second = timers.schedule("order:1", SOON, "report", b"second").unwrap();
        let (first, second) = (first.wait().unwrap(), second.wait().unwrap());
        assert!(second.generation > first.generation);
        let (due, _) = runs.recv_timeout(LONG).unwrap();
        assert_eq!((due.payload(), due.generation()), (&b"second"[..], second.generation));
        stores::until(|| timers.stats().completed == 1);
        assert!(runs.try_recv().is_err());
    });
}

#[test]
fn a_reset_moves_both_ways_across_the_window() {
    each_store(|place| {
        let (timers, runs) = timers(place);
        timers.schedule("in", FAR, "report", b"").unwrap().wait().unwrap();
        timers.schedule("out", Duration::from_secs(2), "report", b"").unwrap().wait().unwrap();
        assert!(timers.reset("out", FAR).unwrap().wait().unwrap());
        assert!(timers.reset("in", SOON).unwrap().wait().unwrap());
        assert!(!timers.reset("nobody", SOON).unwrap().wait().unwrap());
        assert_eq!(runs.recv_timeout(LONG).unwrap().0.key(), "in");
        assert!(runs.recv_timeout(Duration::from_secs(3)).is_err());
        assert!(timers.get("out").unwrap().wait().unwrap().is_some());
    });
}

#[test]
fn a_cancel_that_returned_true_never_runs() {
    each_store(|place| {
        let (timers, runs) = timers(place);
        let mut cancelled = 0;
        for order in 0..200 {
            let key = format!("order:{order}");
            timers.schedule(&key, Duration::from_millis(order % 20), "report", &key).unwrap().wait().unwrap();
            if timers.cancel(&key).unwrap().wait().unwrap() {
                cancelled += 1;
            }
        }
        stores::until(|| timers.stats().completed + cancelled == 200);
        assert_eq!(runs.try_iter().count() as u64, 200 - cancelled);
        assert!(!timers.cancel("order:1").unwrap().wait().unwrap());
    });
}

#[test]
fn a_retry_comes_again_with_the_next_attempt_of_the_same_generation() {
    each_store(|place| {
        let (timers, runs) = timers(place);
        let scheduled = timers.schedule("order:1", SOON, "report", b"retry").unwrap().wait().unwrap();
        for attempt in 1..=3 {
            let (due, _) = runs.recv_timeout(LONG).unwrap();
            assert_eq!((due.attempt(), due.generation()), (attempt, scheduled.generation));
        }
        stores::until(|| timers.stats().completed == 1);
        assert_eq!(timers.stats().retried, 2);
    });
}

#[test]
fn a_handler_that_panics_is_run_again() {
    each_store(|place| {
        let (timers, runs) = timers(place);
        timers.schedule("order:1", SOON, "report", b"panic").unwrap().wait().unwrap();
        assert_eq!(runs.recv_timeout(LONG).unwrap().0.attempt(), 1);
        assert_eq!(runs.recv_timeout(LONG).unwrap().0.attempt(), 2);
        assert_eq!(timers.stats().panicked, 1);
    });
}

#[test]
fn a_dead_letter_is_found_and_revived_and_deleted() {
    each_store(|place| {
        let (timers, runs) = timers(place);
        timers.schedule("order:1", SOON, "report", b"never").unwrap().wait().unwrap();
        let letters = || timers.dead_letters(10).unwrap().wait().unwrap();
        stores::until(|| letters().len() == 1);
        assert!(timers.get("order:1").unwrap().wait().unwrap().is_none());
        let letter = &letters()[0];
        assert_eq!((letter.key.as_str(), &letter.payload[..], letter.attempts), ("order:1", &b"never"[..], 1));
        assert!(timers.revive(letter, SOON).unwrap().wait().unwrap());
        assert!(!timers.revive(letter, SOON).unwrap().wait().unwrap());
        stores::until(|| letters().len() == 1);
        assert!(letters()[0].generation > letter.generation);
        assert_eq!(runs.try_iter().count(), 2);
        assert!(timers.delete_dead_letter(&letters()[0]).unwrap().wait().unwrap());
        assert_eq!(letters(), []);
    });
}

#[test]
fn a_retry_beyond_the_last_attempt_is_a_dead_letter() {
    each_store(|place| {
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("retry", |_due| Outcome::RetryAfter(SOON))
            .max_attempts(3)
            .started();
        timers.schedule("order:1", SOON, "retry", b"").unwrap().wait().unwrap();
        stores::until(|| timers.stats().dead_lettered == 1);
        assert_eq!(timers.dead_letters(10).unwrap().wait().unwrap()[0].attempts, 3);
        assert_eq!(timers.stats().claimed, 3);
    });
}

#[test]
fn a_timeout_that_is_scheduled_anew_during_its_run_runs_again() {
    each_store(|place| {
        let (started, starts) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let ends = std::sync::Mutex::new(ends);
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("wait", move |due| {
                started.send(due.generation()).unwrap();
                _ = ends.lock().unwrap().recv_timeout(LONG);
                Outcome::Done
            })
            .started();
        let first = timers.schedule("order:1", SOON, "wait", b"").unwrap().wait().unwrap();
        assert_eq!(starts.recv_timeout(LONG).unwrap(), first.generation);
        assert!(!timers.cancel("order:1").unwrap().wait().unwrap(), "it runs");
        assert!(!timers.reset("order:1", FAR).unwrap().wait().unwrap(), "it runs");
        assert!(timers.get("order:1").unwrap().wait().unwrap().unwrap().running);
        let second = timers.schedule("order:1", SOON, "wait", b"").unwrap().wait().unwrap();
        end.send(()).unwrap();
        assert_eq!(starts.recv_timeout(LONG).unwrap(), second.generation);
        end.send(()).unwrap();
        stores::until(|| timers.stats().completed == 1);
        assert_eq!(timers.stats().stale_completions, 1);
    });
}

#[test]
fn stopped_timers_go_on_at_once_after_the_next_start() {
    each_store(|place| {
        let (timers, runs) = timers(place);
        for order in 0..50 {
            timers.schedule(&format!("order:{order}"), Duration::from_secs(2), "report", b"").unwrap().wait().unwrap();
        }
        timers.stop();
        assert!(runs.try_recv().is_err());
        assert_eq!(timers.cancel("order:1").err(), Some(Refused::Stopped));
        drop(timers);
        std::thread::sleep(Duration::from_secs(2));
        let (timers, runs) = self::timers(place);
        let start = SystemTime::now();
        let mut keys: Vec<String> = (0..50).map(|_| runs.recv_timeout(LONG).unwrap().0.key().to_owned()).collect();
        assert!(start.elapsed().unwrap() < Duration::from_secs(10), "no lease had to end");
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 50);
        stores::until(|| timers.stats().completed == 50);
    });
}

#[test]
fn a_stop_waits_for_runs_and_gives_back_what_has_not_begun() {
    each_store(|place| {
        let (timers, starts) = slow_timers(place);
        let writes: Vec<_> = (0..20)
            .map(|order| timers.schedule(&format!("order:{order}"), Duration::ZERO, "slow", b"").unwrap())
            .collect();
        for write in writes {
            write.wait().unwrap();
        }
        starts.recv_timeout(LONG).unwrap();
        timers.stop();
        let began = 1 + starts.try_iter().count() as u64;
        assert_eq!(timers.stats().completed, began, "each that began was answered");
        drop(timers);
        let (timers, _runs) = self::timers(place);
        let left: Vec<_> =
            (0..20).filter_map(|order| timers.get(&format!("order:{order}")).unwrap().wait().unwrap()).collect();
        assert_eq!(left.len() as u64, 20 - began);
        assert!(left.iter().all(|row| row.attempts == 0 && !row.running), "an attempt that did not begin is none");
    });
}

#[test]
fn a_timeout_that_waits_for_a_thread_can_still_be_cancelled() {
    each_store(|place| {
        let (timers, starts) = slow_timers(place);
        let key = |order| format!("order:{order:03}");
        let writes: Vec<_> = (0..100)
            .map(|order| timers.schedule(&key(order), Duration::from_millis(order), "slow", b"").unwrap())
            .collect();
        writes.into_iter().for_each(|write| _ = write.wait().unwrap());
        starts.recv_timeout(LONG).unwrap();
        let cancels: Vec<_> = (0..100).map(|order| timers.cancel(&key(order)).unwrap()).collect();
        let cancelled = cancels.into_iter().filter_map(|cancel| cancel.wait().unwrap().then_some(())).count() as u64;
        assert!(cancelled >= 50, "{cancelled} of 100 were cancelled, and two threads run the others");
        stores::until(|| timers.stats().completed + cancelled == 100);
    });
}

#[test]
fn a_handler_of_another_process_is_named_and_not_run_here() {
    each_store(|place| {
        let (timers, _runs) = timers(place);
        timers.schedule("order:1", Duration::ZERO, "elsewhere", b"").unwrap().wait().unwrap();
        timers.schedule("order:2", SOON, "report", b"").unwrap().wait().unwrap();
        stores::until(|| timers.stats().completed == 1);
        let row = timers.get("order:1").unwrap().wait().unwrap().unwrap();
        assert!(!row.running);
        assert!(timers.reset("order:1", Duration::ZERO).unwrap().wait().unwrap());
        assert_eq!(timers.stats().held, 0, "a row without a handler here is not kept here");
    });
}

#[test]
fn bad_input_is_refused_with_what_would_be_right() {
    each_store(|place| {
        let (timers, _runs) = timers(place);
        let text = |refused: Option<Refused>| refused.unwrap().to_string();
        assert!(text(timers.schedule("", SOON, "report", b"").err()).contains("1 to 1,024 bytes"));
        assert!(text(timers.cancel("a\0b").err()).contains("no NUL"));
        assert!(text(timers.get(&"k".repeat(1_025)).err()).contains("1025 bytes"));
        let refused = text(timers.schedule("k", SOON, "close_odrer", b"").err());
        assert!(refused.contains("close_odrer") && refused.contains("report"), "{refused}");
        assert!(text(timers.schedule("k", SOON, "report", vec![0; (1 << 20) + 1]).err()).contains("1048576"));
        assert!(text(timers.schedule("k", Duration::MAX, "report", b"").err()).contains("200,000"));
        timers.schedule("ключ 🔑 \"'\\", SOON, "report", b"\0\xff").unwrap().wait().unwrap();
        stores::until(|| timers.stats().completed == 1);
    });
}

#[test]
fn a_long_queue_is_refused_and_loses_nothing() {
    each_store(|place| {
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("report", |_due| Outcome::Done)
            .queue_capacity(100)
            .started();
        let (mut writes, mut refused) = (Vec::new(), 0);
        for order in 0..20_000 {
            match timers.schedule(&format!("order:{order}"), FAR, "report", b"") {
                Ok(write) => writes.push((order, write)),
                Err(Refused::QueueFull { capacity: 100, .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert!(refused > 0, "20,000 calls are faster than the disk");
        let accepted: Vec<i32> = writes
            .into_iter()
            .map(|(order, write)| {
                write.wait().unwrap();
                order
            })
            .collect();
        for order in accepted.iter().step_by(97) {
            assert!(timers.get(&format!("order:{order}")).unwrap().wait().unwrap().is_some());
        }
    });
}

#[test]
fn a_future_answers_without_blocking() {
    each_store(|place| {
        let (timers, _runs) = timers(place);
        let timers = &timers;
        pollster::block_on(async {
            timers.schedule("order:1", FAR, "report", b"").unwrap().await.unwrap();
            assert!(timers.cancel("order:1").unwrap().await.unwrap());
        });
    });
}
