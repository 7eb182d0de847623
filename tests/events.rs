//! Which events an operator gets, and which not. The names of their threads tell the engines apart.

mod common;
#[path = "common/listener.rs"]
mod listener;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Builder, Inline, ThreadPool, Timer};
use tracing::Level;

use common::{HOUR, MS, assert_counters_reconcile, driven_by, eventually, in_time, on_workers};
use listener::{Heard, Listener};

static LISTENER: LazyLock<Listener> = LazyLock::new(Listener::of_all);

/// Longer than a turn may take.
const LONG: Duration = Duration::from_millis(150);

fn builder(name: &str) -> Builder {
    LazyLock::force(&LISTENER);
    Timer::builder().shards(1).thread_name(name)
}

fn inline(name: &str) -> Timer {
    builder(name).executor(Inline).build().expect("the options make sense")
}

/// Returns the events of an engine's threads about `what`.
fn reported(name: &str, what: &str) -> Vec<Heard> {
    LISTENER.heard_by(name).into_iter().filter(|heard| heard.text.contains(what)).collect()
}

#[test]
fn a_panic_is_reported_with_its_text() {
    let timer = builder("panics").build().expect("the options make sense");
    timer.schedule_detached(MS, || panic!("a plain text")).expect("accepted");
    timer.schedule_detached(MS, || panic!("a text with {}", 17)).expect("accepted");
    timer.schedule_detached(MS, || std::panic::panic_any(17)).expect("accepted");
    drop(timer.schedule_at_fixed_rate(MS, MS, || panic!("of a periodic timeout")).expect("accepted"));
    for text in ["a plain text", "a text with 17", "not a string", "of a periodic timeout"] {
        eventually(text, || reported("panics", text).len() == 1);
        assert_eq!(reported("panics", text)[0].level, Level::ERROR);
    }
    eventually("each is counted", || timer.stats().panicked == 4);
    assert_eq!(LISTENER.heard_by("panics").len(), 4, "{:?}", LISTENER.heard_by("panics"));
}

#[test]
fn a_listener_that_panics_takes_nothing_with_it() {
    let timer = builder("deaf").build().expect("the options make sense");
    let ran = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&ran);
    timer.schedule_detached(MS, || panic!("the listener panics")).expect("accepted");
    timer.schedule_detached(2 * MS, move || mark.store(true, Ordering::Relaxed)).expect("accepted");
    eventually("what comes after it runs", || ran.load(Ordering::Relaxed));
    eventually("it is reported, and counted", || reported("deaf", "the listener panics").len() == 1);
    eventually("as one", || timer.stats().panicked == 1);
    assert_eq!(timer.stats().caller_ran, 0);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_long_turn_is_reported() {
    let timer = inline("slow");
    timer.schedule_detached(MS, || thread::sleep(LONG)).expect("accepted");
    eventually("the long turn is reported", || !reported("slow", "took long").is_empty());
    let heard = reported("slow", "took long").remove(0);
    assert_eq!((heard.level, heard.by.as_str()), (Level::WARN, "slow-0"));
    let took = heard.text.split("took_ms=").nth(1).and_then(|rest| rest.split(';').next()?.parse::<u128>().ok());
    assert!(took.is_some_and(|ms| ms >= LONG.as_millis()) && heard.text.contains("shard=0"), "{heard:?}");
}

#[test]
fn a_manual_clock_makes_no_turn_long() {
    let (timer, clock) = on_workers(builder("by-hand").executor(Inline));
    let moving = clock.clone();
    timer.schedule_detached(MS, move || moving.advance(HOUR)).expect("accepted");
    in_time("the clock is moved in the middle of a turn", move || clock.advance(2 * MS));
    eventually("the turn is over", || timer.stats().fired == 1 && timer.stats().turns > 1);
    assert!(reported("by-hand", "").is_empty(), "{:?}", reported("by-hand", ""));
}

#[test]
fn a_shard_that_does_not_keep_up_is_reported_once_a_second_at_most() {
    let timer = builder("flooded").executor(Inline).transfer_limit(1).build().expect("the options make sense");
    let begun = Instant::now();
    let done = Arc::new(AtomicBool::new(false));
    let producers: Vec<_> = (0..2)
        .map(|_| {
            let (timer, done) = (timer.clone(), Arc::clone(&done));
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    // One for each turn, and as many more that wait.
                    if timer.pending() < 100_000 {
                        timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
                    }
                }
            })
        })
        .collect();
    eventually("it is reported, and again", || reported("flooded", "does not keep up").len() >= 2);
    let heard = reported("flooded", "does not keep up");
    let took = begun.elapsed();
    assert!(heard.len() as u64 <= took.as_secs() + 2, "{} in {took:?}", heard.len());
    assert!(took >= Duration::from_secs(1), "not two within a second");
    assert!(heard.iter().all(|heard| heard.level == Level::WARN && heard.text.contains("turns=")), "{heard:?}");
    done.store(true, Ordering::Relaxed);
    producers.into_iter().for_each(|producer| producer.join().expect("no panic"));
}

#[test]
fn an_undisturbed_engine_reports_nothing() {
    let timer = builder("quiet").build().expect("the options make sense");
    for n in 0..10_000_u64 {
        timer.schedule_detached(Duration::from_micros(n), || ()).expect("accepted");
    }
    eventually("all have run", || timer.stats().fired == 10_000);
    // A loaded machine may hold a turn up. That is an event, and no other is expected.
    let heard = LISTENER.heard_by("quiet");
    assert!(heard.iter().all(|heard| heard.text.contains("took long")), "{heard:?}");
}

#[test]
fn a_driven_engine_reports_panics_and_leaves_turns_to_its_driver() {
    let (timer, mut driver, clock) = driven_by(builder("driven"));
    let name = thread::current().name().unwrap_or_default().to_owned();
    let task = || {
        thread::sleep(LONG);
        panic!("by hand");
    };
    timer.schedule_detached(MS, task).expect("accepted");
    clock.advance(MS);
    assert_eq!(driver.turn(), 1);
    let heard = LISTENER.heard_by(&name);
    assert!(heard.len() == 1 && heard[0].text.contains("by hand"), "{heard:?}");
}

#[test]
fn a_pool_whose_threads_are_all_in_tasks_that_do_not_end_is_reported_while_others_wait() {
    let timer = builder("stuck").executor(ThreadPool::new(2)).build().expect("the options make sense");
    let (release, kept) = channel::<()>();
    let kept = Arc::new(Mutex::new(kept));
    let block = || {
        let kept = Arc::clone(&kept);
        move || drop(kept.lock().map(|kept| kept.recv()))
    };
    for _ in 0..2 {
        timer.schedule_detached(MS, block()).expect("accepted");
    }
    let text = "all threads of a timer's pool";
    // Nothing waits.
    thread::sleep(Duration::from_millis(1_300));
    assert!(reported("stuck", text).is_empty() && !timer.health().stuck_pool);
    timer.schedule_detached(MS, || ()).expect("accepted");
    eventually("it is reported", || reported("stuck", text).len() == 1);
    assert!(timer.health().stuck_pool && !timer.health().is_healthy());
    drop(release);
    eventually("the others run", || timer.stats().completed == 3);
    timer.schedule_detached(MS, || ()).expect("accepted");
    eventually("it is well again", || !timer.health().stuck_pool);
    assert_eq!(reported("stuck", text).len(), 1, "once");
}

#[test]
fn an_engine_is_well_when_the_pool_is_that_another_engine_had_stuck_and_left() {
    let pool = ThreadPool::new(1);
    let [other, timer] =
        ["left-a", "left-b"].map(|name| builder(name).executor(pool.clone()).build().expect("the options make sense"));
    let (release, kept) = channel::<()>();
    other.schedule_detached(MS, move || _ = kept.recv()).expect("accepted");
    eventually("it blocks the pool", || other.stats().fired == 1);
    other.schedule_detached(MS, || ()).expect("accepted");
    eventually("both see it", || other.health().stuck_pool && timer.health().stuck_pool);
    drop(other);
    drop(release);
    eventually("it is well again", || timer.health().is_healthy());
}
