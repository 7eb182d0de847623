//! A process that starts again goes on with what was there, soon.

mod stores;

use std::thread;
use std::time::{Duration, Instant};

use stores::{Place, each_store, until};
use tourbillon::Timer;
use tourbillon_durable::{Builder, DurableTimer, Outcome};

fn open(place: &Place) -> Builder {
    DurableTimer::open(&place.url()).unwrap().handler("close", |_due| Outcome::Done)
}

fn start(builder: Builder) -> DurableTimer {
    builder.start(&Timer::new().unwrap()).unwrap()
}

#[test]
fn a_restart_takes_back_all_that_was_in_the_wheel() {
    each_store(|place| {
        let timers = start(open(place));
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
        let timers = start(open(place));
        let begun = Instant::now();
        until(|| timers.stats().taken == left);
        assert!(begun.elapsed() < Duration::from_secs(10), "it did not wait for the next scan");
    });
}

#[test]
fn overdue_timeouts_run_however_few_may_in_a_second() {
    each_store(|place| {
        let slow = || start(open(place).window(Duration::from_millis(500)).overdue_per_second(1));
        let timers = slow();
        timers.schedule("order:1", Duration::from_secs(1), "close", b"").unwrap().wait().unwrap();
        timers.stop();
        drop(timers);
        thread::sleep(Duration::from_millis(2_500));
        let timers = slow();
        until(|| timers.stats().completed == 1);
    });
}
