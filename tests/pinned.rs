//! Workers that are pinned to a core which other threads take: a busy thread of a real-time policy
//! keeps all others from its core.

#![cfg(target_os = "linux")]

mod common;
#[path = "common/hog.rs"]
mod hog;

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Builder, Inline, ManualClock, Pinning, Timer, WaitStrategy};

use common::{HOUR, MS, PATIENCE, allowed_cores, cores_in, eventually, threads_named};
use hog::Hog;

/// One test at a time: each takes a core for itself.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn builder(name: &str) -> Builder {
    Timer::builder().thread_name(name).shards(1).executor(Inline)
}

/// Returns an engine whose worker runs and is pinned, and its core. Returns `None` if there are too
/// few cores for that.
fn pinned(builder: Builder) -> Option<(Timer, usize)> {
    let timer = builder.build().expect("the options make sense");
    let (send, receive) = channel();
    timer.schedule_detached(Duration::ZERO, move || send.send(()).expect("the test waits")).expect("accepted");
    receive.recv_timeout(PATIENCE).expect("it fires");
    let core = pinned_to(&timer);
    if core.is_none() {
        println!("SKIPPED: there is no core to pin a worker to");
    }
    Some((timer, core?))
}

fn pinned_to(timer: &Timer) -> Option<usize> {
    timer.stats().shards[0].pinned_to
}

/// A periodic timeout of 20 ms, which only the engine's worker needs to see.
fn again_and_again(timer: &Timer) {
    let beat = timer.schedule_with_fixed_delay(20 * MS, 20 * MS, || ()).expect("accepted");
    drop(beat);
}

fn eventually_may_run_anywhere(worker: &str) {
    let allowed = || cores_in(threads_named(worker).pop().expect("it runs").field("Cpus_allowed_list"));
    eventually("it may run anywhere", || allowed() == allowed_cores());
}

#[test]
fn a_worker_that_waits_for_its_core_gives_its_pin_up_as_soon_as_it_runs_again() {
    let _alone = alone();
    let spin = WaitStrategy::Spin;
    for (name, wait) in [("self-parks", WaitStrategy::Park), ("self-spins", spin)] {
        let Some((timer, core)) = pinned(builder(name).wait(wait)) else { return };
        again_and_again(&timer);
        let Some(_hog) = Hog::on(core) else { return };
        eventually("it gives its pin up", || pinned_to(&timer).is_none());
        eventually_may_run_anywhere(name);
        let turns = timer.stats().turns;
        eventually("it goes on", || timer.stats().turns > turns + 2);
    }
}

#[test]
fn a_worker_that_is_called_and_waits_for_its_core_gives_its_pin_up_as_soon_as_it_runs_again() {
    let _alone = alone();
    let Some((timer, core)) = pinned(builder("called")) else { return };
    let Some(_hog) = Hog::on(core) else { return };
    // The worker never sleeps until a deadline, so it never wakes late from one.
    eventually("it gives its pin up", || {
        let (send, receive) = channel();
        timer.schedule_detached(Duration::ZERO, move || send.send(()).expect("the test waits")).expect("accepted");
        receive.recv_timeout(PATIENCE).expect("it fires");
        pinned_to(&timer).is_none()
    });
    eventually_may_run_anywhere("called-0");
}

#[test]
fn a_worker_that_the_user_pinned_stays_where_it_is() {
    let _alone = alone();
    let core = allowed_cores()[0];
    let Some((timer, _)) = pinned(builder("stays").pinning(Pinning::Cores(vec![core]))) else { return };
    again_and_again(&timer);
    let Some(_hog) = Hog::on(core) else { return };
    let (turns, start) = (timer.stats().turns, Instant::now());
    // Long enough for the worker to have been kept from its core, and to have run, which the system
    // allows now and then.
    while timer.stats().turns < turns + 3 && start.elapsed() < PATIENCE {
        thread::sleep(50 * MS);
        drop(timer.health());
    }
    assert_eq!(pinned_to(&timer), Some(core));
    let worker = threads_named("stays-0").pop().expect("it runs");
    assert_eq!(cores_in(worker.field("Cpus_allowed_list")), [core]);
}

/// On a heavily loaded machine a worker does wait for its core. So this has to hold once in some
/// tries.
fn is_once_still_pinned(builder: impl Fn() -> Builder, keep_it_busy: impl Fn(&Timer)) {
    for _ in 0..20 {
        let Some((timer, core)) = pinned(builder()) else { return };
        keep_it_busy(&timer);
        if pinned_to(&timer) == Some(core) {
            return;
        }
    }
    panic!("it gives its pin up each time");
}

/// Schedules far timeouts, and asks for the engine's health, until the test ends it.
fn schedule_until(timer: &Timer, ends: &Receiver<()>) {
    while ends.try_recv().is_err() {
        (0..1_500).for_each(|_| timer.schedule_detached(HOUR, || ()).expect("accepted"));
        drop(timer.health());
        thread::sleep(MS);
    }
}

#[test]
fn a_worker_in_a_long_task_keeps_its_pin() {
    let _alone = alone();
    let spin = || {
        let start = Instant::now();
        while start.elapsed() < 200 * MS {
            std::hint::spin_loop();
        }
    };
    let sleep = || thread::sleep(200 * MS);
    for task in [spin as fn(), sleep] {
        is_once_still_pinned(
            || builder("long-task"),
            |timer| {
                let (send, receive) = channel();
                let run = move || {
                    task();
                    send.send(()).expect("the test waits");
                };
                timer.schedule_detached(MS, run).expect("accepted");
                schedule_until(timer, &receive);
            },
        );
    }
}

#[test]
fn a_worker_that_sleeps_for_long_keeps_its_pin() {
    let _alone = alone();
    is_once_still_pinned(
        || builder("long-sleep"),
        |timer| {
            let (send, receive) = channel();
            timer.schedule_detached(300 * MS, move || send.send(()).expect("the test waits")).expect("accepted");
            while receive.try_recv().is_err() {
                timer.schedule_detached(HOUR, || ()).expect("accepted");
                drop(timer.health());
                thread::sleep(MS);
            }
        },
    );
}

#[test]
fn a_manual_clock_makes_no_worker_late() {
    let _alone = alone();
    let clock = ManualClock::new();
    let timer = builder("by-hand").clock(clock.clone()).build().expect("the options make sense");
    again_and_again(&timer);
    clock.advance(HOUR);
    let core = pinned_to(&timer);
    for _ in 0..10 {
        clock.advance(HOUR);
        drop(timer.health());
    }
    assert_eq!(pinned_to(&timer), core);
}

#[test]
fn a_pause_makes_no_worker_late() {
    let _alone = alone();
    is_once_still_pinned(
        || builder("pause"),
        |timer| {
            again_and_again(timer);
            timer.pause();
            thread::sleep(200 * MS);
            drop(timer.health());
            timer.resume();
            thread::sleep(200 * MS);
        },
    );
}

#[test]
fn a_worker_that_the_user_has_moved_is_not_shown_as_pinned() {
    let _alone = alone();
    for pinning in [Pinning::Auto, Pinning::Cores(vec![allowed_cores()[0]])] {
        let builder = builder("moved").pinning(pinning).on_worker_start(|_| {
            // As the system does when the core goes out of the cpuset.
            // SAFETY: a set of cores is an array of bits, so all ones are a valid value, and the
            // system ignores the bits of other cores.
            let all: libc::cpu_set_t = unsafe { std::mem::transmute([u8::MAX; size_of::<libc::cpu_set_t>()]) };
            // SAFETY: 0 is the calling thread; the size is the set's own.
            unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const all) };
        });
        let timer = builder.build().expect("the options make sense");
        again_and_again(&timer);
        eventually("it sees that it is pinned no more", || timer.stats().turns > 0 && pinned_to(&timer).is_none());
        eventually_may_run_anywhere("moved-0");
    }
}
