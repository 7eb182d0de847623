//! A clock of the user's that jumps, and tells its listeners: timeouts that have become due fire at
//! once, and the rest in their time. (A clock that goes on while the machine is suspended is one.)

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Builder, Clock, ClockListener, Inline, PausableClock, ThreadPool, Timeout, Timer, WaitStrategy};

use crate::common::{HOUR, MS, PATIENCE, eventually};

/// The real time, and the sum of its jumps.
#[derive(Clone, Default)]
struct Jumps {
    ahead_ns: Arc<AtomicU64>,
    listeners: Arc<Mutex<Vec<Weak<dyn ClockListener>>>>,
}

impl Clock for Jumps {
    fn now(&self) -> Instant {
        Instant::now() + Duration::from_nanos(self.ahead_ns.load(Ordering::SeqCst))
    }

    fn subscribe(&self, listener: Weak<dyn ClockListener>) {
        self.listeners.lock().expect("no panic under this lock").push(listener);
    }
}

impl Jumps {
    fn step(&self, by: Duration) {
        self.ahead_ns.fetch_add(u64::try_from(by.as_nanos()).expect("less than centuries"), Ordering::SeqCst);
        self.listening().iter().for_each(|listener| listener.stepped());
    }

    fn listening(&self) -> Vec<Arc<dyn ClockListener>> {
        self.listeners.lock().expect("no panic under this lock").iter().filter_map(Weak::upgrade).collect()
    }
}

fn on(clock: &Jumps, options: impl FnOnce(Builder) -> Builder) -> Timer {
    options(Timer::builder().clock(clock.clone())).build().expect("the options make sense")
}

/// Waits until a worker has begun, and most likely sleeps.
fn fall_asleep(timer: &Timer) {
    eventually("a worker turns", || timer.health().shards.iter().any(|shard| shard.last_turn.is_some()));
    thread::sleep(10 * MS);
}

#[test]
fn a_timeout_that_a_jump_has_made_due_fires_at_once_and_no_other_does() {
    for wait in [WaitStrategy::Park, WaitStrategy::Hybrid { spin: MS }] {
        let clock = Jumps::default();
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
fn every_engine_on_a_clock_hears_of_its_jumps() {
    let clock = Jumps::default();
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
    eventually("all fire", || timeouts.iter().all(Timeout::is_expired));
}

#[test]
fn a_jump_as_the_worker_falls_asleep_is_not_missed() {
    let clock = Jumps::default();
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
fn nothing_is_early_whenever_the_clock_jumps() {
    let jumps = Jumps::default();
    let timer = on(&jumps, |builder| builder.executor(Inline).tick_duration(Duration::from_micros(100)));
    let (send, ran) = channel();
    for n in 0..1_000_u32 {
        let (send, clock) = (send.clone(), jumps.clone());
        let deadline = timer.now() + n % 7 * MS / 2;
        timer.schedule_at(deadline, move || _ = send.send(clock.now() >= deadline)).map(drop).expect("accepted");
        if n % 3 == 0 {
            jumps.step(n % 11 * MS / 4);
        }
    }
    drop(send);
    for _ in 0..1_000 {
        assert_eq!(ran.recv_timeout(PATIENCE), Ok(true));
    }
    assert_eq!(ran.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn a_jump_in_a_pause_is_a_part_of_the_pause_and_one_after_it_is_heard() {
    let jumps = Jumps::default();
    let clock = PausableClock::over(jumps.clone());
    let timer = Timer::builder().clock(clock.clone()).build().expect("the options make sense");
    let timeout = timer.schedule(HOUR, || ()).expect("accepted");
    fall_asleep(&timer);
    clock.pause();
    jumps.step(2 * HOUR);
    clock.resume();
    assert!(timeout.deadline() > timer.now() + HOUR / 2);
    jumps.step(HOUR / 4);
    fall_asleep(&timer);
    assert!(timeout.is_pending());
    jumps.step(HOUR);
    eventually("it fires", || timeout.is_expired());
}

#[test]
fn a_listener_keeps_no_engine_and_an_engine_that_has_gone_is_not_told() {
    let clock = Jumps::default();
    let [dropped, kept] = [(); 2].map(|()| on(&clock, |builder| builder));
    let [_, timeout] = [&dropped, &kept].map(|timer| timer.schedule(HOUR, || ()).expect("accepted"));
    assert_eq!(clock.listening().len(), 2);
    drop(dropped);
    assert_eq!(clock.listening().len(), 1);
    clock.step(HOUR);
    eventually("it fires", || timeout.is_expired());
}

#[test]
fn engines_come_and_go_while_their_clock_jumps() {
    let clock = Jumps::default();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
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
        is_over.store(true, Ordering::Relaxed);
    });
}
