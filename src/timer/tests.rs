//! Engines on a [`BootClock`] that steps. No test can suspend its machine. So a test adds to what
//! the clock reads, and ends the wait of the clock's thread, as the kernel does after a suspend.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, atomic};
use std::thread;
use std::time::{Duration, Instant};

use super::{Builder, Timer};
use crate::executor::{Inline, ThreadPool};
use crate::time::BootClock;
use crate::worker::WaitStrategy;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(30);

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::yield_now();
    }
}

fn boot_clock() -> BootClock {
    BootClock::new().expect("Linux has it")
}

fn on(clock: &BootClock, options: impl FnOnce(Builder) -> Builder) -> Timer {
    options(Timer::builder().clock(clock.clone())).build().expect("the options make sense")
}

fn fall_asleep(timer: &Timer) {
    eventually("the worker sleeps", || {
        timer.health().shards[0].last_turn.is_some() && timer.engine.shared.remote(0).sleeps_until().is_some()
    });
}

#[test]
fn what_became_due_in_a_suspend_fires_at_its_end_and_the_rest_does_not() {
    for wait in [WaitStrategy::Park, WaitStrategy::Hybrid { spin: MS }] {
        let clock = boot_clock();
        let timer = on(&clock, |builder| builder.wait(wait));
        let [over, later] = [HOUR, 9 * HOUR].map(|delay| timer.schedule(delay, || ()).expect("accepted"));
        fall_asleep(&timer);
        clock.step(2 * HOUR);
        eventually("it fires", || over.is_expired());
        fall_asleep(&timer);
        assert!(later.is_pending());
        clock.step(7 * HOUR);
        eventually("it fires, too", || later.is_expired());
    }
}

#[test]
fn every_engine_on_the_clock_is_told_of_a_suspend() {
    let clock = boot_clock();
    let timers = [
        on(&clock, |builder| builder.executor(Inline)),
        on(&clock, |builder| builder.executor(ThreadPool::new(1))),
        on(&clock, |builder| builder.shards(3)),
    ];
    let (driven, mut driver) = Timer::builder().clock(clock.clone()).build_driven().expect("the options make sense");
    let (ring, rung) = channel();
    driver.on_earlier(move || _ = ring.send(()));
    // More keys than shards: each shard has one, most likely.
    let schedule = |timer: &Timer| {
        (0..20).map(|key| timer.shard_for(&key).schedule(HOUR, || ()).expect("accepted")).collect::<Vec<_>>()
    };
    let timeouts: Vec<_> = timers.iter().flat_map(schedule).collect();
    let by_loop = driven.schedule(HOUR, || ()).expect("accepted");
    timers.iter().for_each(fall_asleep);
    assert!(driver.next_wakeup().expect("it is pending") > driven.now() + HOUR / 2);
    assert!(rung.try_iter().count() <= 1, "by the schedule, and not by the clock");
    clock.step(HOUR);
    rung.recv_timeout(PATIENCE).expect("the loop is called");
    eventually("the loop runs it", || driver.turn() == 1);
    assert!(by_loop.is_expired());
    eventually("all fire", || timeouts.iter().all(super::Timeout::is_expired));
}

#[test]
fn a_suspend_that_ends_as_the_worker_falls_asleep_is_not_missed() {
    let clock = boot_clock();
    let timer = on(&clock, |builder| builder.executor(Inline));
    for round in 0..500 {
        // The worker wakes for it, and goes to sleep again.
        let timeout = timer.schedule(HOUR, || ()).expect("accepted");
        (0..round).for_each(|_| thread::yield_now());
        clock.step(HOUR);
        eventually("it fires", || timeout.is_expired());
    }
}

#[test]
fn nothing_is_early_whenever_a_suspend_ends() {
    let boot = boot_clock();
    let timer = on(&boot, |builder| builder.executor(Inline).tick_duration(Duration::from_micros(100)));
    let (send, ran) = channel();
    for n in 0..1_000_u32 {
        let (send, clock) = (send.clone(), boot.clone());
        let deadline = timer.now() + n % 7 * MS / 2;
        timer.schedule_at(deadline, move || _ = send.send(clock.now() >= deadline)).map(drop).expect("accepted");
        if n % 3 == 0 {
            boot.step(n % 11 * MS / 4);
        }
    }
    drop(send);
    for _ in 0..1_000 {
        assert_eq!(ran.recv_timeout(PATIENCE), Ok(true));
    }
    assert_eq!(ran.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn a_suspend_in_a_pause_is_a_part_of_the_pause() {
    let clock = boot_clock();
    let timer = on(&clock, |builder| builder);
    let timeout = timer.schedule(HOUR, || ()).expect("accepted");
    fall_asleep(&timer);
    timer.pause();
    clock.step(2 * HOUR);
    timer.resume();
    assert!(timeout.deadline() > timer.now() + HOUR / 2);
    clock.step(HOUR / 4);
    fall_asleep(&timer);
    assert!(timeout.is_pending());
    clock.step(HOUR);
    eventually("it fires", || timeout.is_expired());
}

#[test]
fn a_clock_keeps_no_engine_and_tells_those_that_are_left() {
    let clock = boot_clock();
    let [dropped, kept] = [(); 2].map(|()| on(&clock, |builder| builder));
    let [_, timeout] = [&dropped, &kept].map(|timer| timer.schedule(HOUR, || ()).expect("accepted"));
    let engine = Arc::downgrade(dropped.engine.engine());
    drop(dropped);
    assert_eq!(engine.strong_count(), 0);
    clock.step(HOUR);
    eventually("it fires", || timeout.is_expired());
}

#[test]
fn engines_come_and_go_while_suspends_end() {
    let clock = boot_clock();
    let is_over = atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(atomic::Ordering::Relaxed) {
                clock.step(HOUR);
                thread::sleep(MS / 10);
            }
        });
        for n in 0..300 {
            let timer = on(&clock, |builder| if n % 2 == 0 { builder.executor(Inline) } else { builder });
            let timeout = timer.schedule(HOUR, || ()).expect("accepted");
            drop(timer.schedule(Duration::MAX, || ()).expect("accepted"));
            if n % 3 == 0 {
                eventually("it fires", || timeout.is_expired());
            }
        }
        is_over.store(true, atomic::Ordering::Relaxed);
    });
}
