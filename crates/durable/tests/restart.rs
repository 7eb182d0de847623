//! A process that starts again goes on with what was there, soon.

mod stores;

use std::thread;
use std::time::{Duration, Instant};

use stores::{Place, Start, each_store, until};
use tourbillon_durable::{Builder, DurableTimer, Outcome};

fn open(place: &Place) -> Builder {
    DurableTimer::open(place.url()).unwrap().handler("close", |_due| Outcome::Done)
}

#[test]
fn a_restart_takes_back_all_that_was_in_the_wheel() {
    each_store(|place| {
        let timers = open(place).started();
        until(|| timers.stats().scans > 0);
        // In the order of the rows those that will be overdue are mixed with those that will not.
        let writes: Vec<_> = (0..4_000)
            .map(|order| {
                let delay = Duration::from_millis(if order % 2 == 0 { 500 } else { 20_000 });
                timers.schedule(&format!("order:{order}"), delay, "close", b"").unwrap()
            })
            .collect();
        for write in writes {
            write.wait().unwrap();
        }
        timers.stop();
        let left = 4_000 - timers.stats().completed;
        drop(timers);
        thread::sleep(Duration::from_secs(2));
        let timers = open(place).started();
        let begun = Instant::now();
        until(|| timers.stats().taken == left);
        assert!(begun.elapsed() < Duration::from_secs(10), "it did not wait for the next scan");
    });
}

#[test]
#[cfg(all(unix, feature = "sqlite"))]
fn a_file_has_one_owner_by_whatever_link_it_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let (path, link) = (directory.path().join("timeouts.db"), directory.path().join("link.db"));
    let first = DurableTimer::open(path.to_str().unwrap()).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let second = DurableTimer::open(link.to_str().unwrap());
    assert!(matches!(second, Err(tourbillon_durable::OpenError::InUse { .. })));
    drop(first);
    DurableTimer::open(link.to_str().unwrap()).unwrap();
}

#[test]
fn timeouts_that_handlers_are_too_slow_for_stay_in_the_store() {
    each_store(|place| {
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("slow", |_due| {
                thread::sleep(Duration::from_secs(1));
                Outcome::Done
            })
            .threads(1)
            .window_capacity(10)
            .started();
        let mut writes = Vec::new();
        for (orders, delay) in [(0..2_000, 2_000), (2_000..6_000, 5_000)] {
            let schedule =
                |order| timers.schedule(&format!("order:{order}"), Duration::from_millis(delay), "slow", b"");
            writes.extend(orders.map(|order| schedule(order).unwrap()));
        }
        for write in writes {
            write.wait().unwrap();
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(7) {
            thread::sleep(Duration::from_millis(100));
            let held = timers.stats().held;
            assert!(held <= 2_000, "{held} are in memory");
        }
    });
}

#[test]
fn overdue_timeouts_run_however_few_may_in_a_second() {
    each_store(|place| {
        let slow = || open(place).window(Duration::from_millis(500)).overdue_per_second(1).started();
        let timers = slow();
        timers.schedule("order:1", Duration::from_secs(1), "close", b"").unwrap().wait().unwrap();
        timers.stop();
        drop(timers);
        thread::sleep(Duration::from_millis(2_500));
        let timers = slow();
        until(|| timers.stats().completed == 1);
    });
}
