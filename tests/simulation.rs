//! Engines with real workers and pools on a manual clock: no sleep, no retry, and months in
//! seconds.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tourbillon::{Builder, Expired, Inline, ManualClock, ThreadPool, Timeout, Timer, WaitStrategy};

use common::{DAY, HOUR, MS, Random, Runs, assert_counters_reconcile, in_time};

fn build(builder: Builder, clock: &ManualClock) -> Timer {
    builder.clock(clock.clone()).build().expect("the options make sense")
}

/// The ways in which tasks may run and workers may wait.
fn builders() -> [Builder; 6] {
    [
        Timer::builder().executor(Inline).wait(WaitStrategy::Spin),
        Timer::builder().executor(Inline).wait(WaitStrategy::Hybrid { spin: HOUR }),
        Timer::builder().executor(Inline),
        Timer::builder().executor(ThreadPool::new(2)),
        Timer::builder().executor(Inline).shards(2),
        Timer::builder().executor(ThreadPool::new(3)).shards(3).levels(2).ticks_per_wheel(16),
    ]
}

/// Runs months of a server's timeouts: scheduled from two threads, reset, cancelled, and fired by
/// clock steps of all sizes. After every step exactly the due timeouts have run. Returns what ran
/// at each step.
fn simulate(builder: Builder, seed: u64) -> Vec<Vec<usize>> {
    const TIMEOUTS: usize = 3_000;
    let clock = ManualClock::new();
    let (timer, start) = (build(builder, &clock), clock.now());
    let mut random = Random::new(seed);
    let ran: Arc<Mutex<Vec<usize>>> = Arc::default();
    // The pending timeouts, and when each is due, in 16ths of a tick of 1 ms.
    let mut pending: BTreeMap<usize, (Timeout, u128)> = BTreeMap::new();
    let due_after = |now: Duration, delay: Duration| match delay {
        Duration::ZERO => 0,
        delay => ((now + delay).as_nanos() * 16).div_ceil(1_000_000),
    };
    let come_by = |now: Duration| now.as_nanos() * 16 / 1_000_000;
    let (mut log, mut next) = (Vec::new(), 0);
    while next < TIMEOUTS {
        let now = clock.now() - start;
        for _ in 0..random.below(30) {
            let (id, delay) = (next, random.duration(20 * DAY));
            let ran = Arc::clone(&ran);
            let schedule = || timer.schedule(delay, move || ran.lock().expect("no panic").push(id)).expect("accepted");
            let timeout = match random.below(2) {
                0 => schedule(),
                _ => thread::scope(|scope| scope.spawn(schedule).join().expect("no panic")),
            };
            pending.insert(id, (timeout, due_after(now, delay)));
            next += 1;
        }
        pending.retain(|_, (timeout, due)| match random.below(8) {
            // A timeout without delay may be on its way already: either answer is right.
            _ if *due <= come_by(now) => true,
            0 => !timeout.cancel(),
            1 => {
                let delay = MS + random.duration(20 * DAY);
                *due = due_after(now, delay);
                timeout.reset(delay)
            }
            _ => true,
        });
        let days = u32::try_from(random.below(12)).expect("few").saturating_sub(9);
        clock.advance(days * DAY + random.duration(DAY));
        let come = come_by(clock.now() - start);
        let expected: Vec<_> = pending.iter().filter(|(_, (_, due))| *due <= come).map(|(id, _)| *id).collect();
        pending.retain(|_, (_, due)| *due > come);
        let mut ran = std::mem::take(&mut *ran.lock().expect("no panic"));
        ran.sort_unstable();
        assert_eq!(ran, expected, "after {:?}", clock.now() - start);
        assert_eq!(timer.pending(), pending.len());
        log.push(ran);
    }
    assert_counters_reconcile(&timer.stats());
    assert_eq!(timer.shutdown().expect("the first").len(), pending.len());
    assert!(clock.now() - start > 30 * DAY, "{:?}", clock.now() - start);
    log
}

#[test]
fn after_each_step_of_the_clock_exactly_the_due_timeouts_have_run_over_months() {
    for (n, builder) in builders().into_iter().enumerate() {
        simulate(builder, 100 + n as u64);
    }
}

#[test]
fn a_simulation_is_the_same_each_time_whichever_thread_runs_the_tasks() {
    let logs = builders().map(|builder| simulate(builder, 7));
    assert!(logs.iter().all(|log| *log == logs[0]));
}

/// Runs, and schedules its successors: `more` times without delay, then once for later.
fn step(timer: &Timer, ran: &Arc<AtomicUsize>, more: usize, period: Duration) {
    ran.fetch_add(1, Ordering::Relaxed);
    let (next, ran) = (timer.clone(), Arc::clone(ran));
    let (delay, more) = if more > 0 { (Duration::ZERO, more - 1) } else { (period, 3) };
    timer.schedule_detached(delay, move || step(&next, &ran, more, period)).expect("accepted");
}

#[test]
fn timeouts_without_delay_from_tasks_have_run_when_advance_returns() {
    for builder in builders() {
        let clock = ManualClock::new();
        let (timer, ran) = (build(builder, &clock), Arc::new(AtomicUsize::new(0)));
        let (first, counter) = (timer.clone(), Arc::clone(&ran));
        timer.schedule_detached(HOUR, move || step(&first, &counter, 3, HOUR)).expect("accepted");
        for hour in 0..1_000 {
            assert_eq!(ran.load(Ordering::Relaxed), 4 * hour);
            assert_eq!(timer.pending(), 1);
            clock.advance(HOUR - MS);
            assert_eq!(ran.load(Ordering::Relaxed), 4 * hour);
            clock.advance(MS);
        }
        assert_eq!(timer.shutdown().expect("the first").len(), 1);
    }
}

#[test]
fn timeouts_without_delay_from_a_running_task_have_run_when_advance_returns() {
    // The task fired before the clock is moved, and schedules after the workers have looked at the
    // moved clock.
    for round in 0..2_000 {
        let clock = ManualClock::new();
        let timer = build(Timer::builder().executor(ThreadPool::new(2)), &clock);
        let ((begun, has_begun), ran) = (channel(), Arc::new(AtomicBool::new(false)));
        let (own, sets) = (timer.clone(), Arc::clone(&ran));
        let task = move || {
            begun.send(()).expect("the test waits");
            (0..round % 100 * 10).for_each(|_| std::hint::spin_loop());
            let further = move || sets.store(true, Ordering::Relaxed);
            own.schedule_detached(Duration::ZERO, further).expect("accepted");
        };
        timer.schedule_detached(Duration::ZERO, task).expect("accepted");
        has_begun.recv().expect("it runs");
        clock.advance(MS);
        assert!(ran.load(Ordering::Relaxed), "advance came back while something due had not run");
    }
}

#[test]
fn two_engines_on_one_clock_advance_together() {
    let clock = ManualClock::new();
    let (one, other) = (build(Timer::builder(), &clock), build(Timer::builder().executor(Inline), &clock));
    let runs = Runs::new(2_000);
    for id in 0..1_000 {
        one.schedule_detached(Duration::from_secs(id as u64), runs.task(id)).expect("accepted");
        // A task of one engine schedules on the other.
        let (own, run) = (one.clone(), runs.task(1_000 + id));
        let task = move || own.schedule_detached(Duration::ZERO, run).expect("accepted");
        other.schedule_detached(Duration::from_secs(id as u64), task).expect("accepted");
    }
    for second in 0..1_000 {
        clock.advance(if second == 0 { Duration::ZERO } else { Duration::from_secs(1) });
        assert_eq!((runs.of(second), one.stats().fired), (1, 2 * (second as u64 + 1)));
    }
    runs.assert_each_ran_once();
}

#[test]
fn a_task_may_advance_the_clock_of_its_own_engine() {
    for builder in builders() {
        in_time("advance from a task", || {
            let clock = ManualClock::new();
            let timer = build(builder, &clock);
            let (send, receive) = channel();
            let own = clock.clone();
            timer.schedule_detached(2 * HOUR, move || send.send("second").expect("ok")).expect("accepted");
            timer.schedule_detached(HOUR, move || own.advance(HOUR)).expect("accepted");
            clock.advance(HOUR);
            assert_eq!(receive.recv_timeout(common::PATIENCE), Ok("second"));
            clock.advance(Duration::ZERO);
            assert_eq!(timer.pending(), 0);
        });
    }
}

#[test]
fn a_task_may_advance_the_clock_of_another_engine_that_shares_its_only_pool_thread() {
    in_time("advance from the thread that the other engine's tasks need", || {
        let (clock, pool) = (ManualClock::new(), ThreadPool::new(1));
        let one = build(Timer::builder().executor(pool.clone()), &clock);
        let other = build(Timer::builder().executor(pool), &clock);
        let timeout = other.schedule(2 * HOUR, || ()).expect("accepted");
        let own = clock.clone();
        one.schedule_detached(HOUR, move || own.advance(HOUR)).expect("accepted");
        clock.advance(HOUR);
        clock.advance(Duration::ZERO);
        assert!(timeout.is_expired());
    });
}

#[test]
fn tasks_of_two_engines_may_advance_their_clock_at_the_same_time() {
    in_time("two engines whose tasks wait for each other", || {
        let clock = ManualClock::new();
        let barrier = Arc::new(std::sync::Barrier::new(2));
        let engines = [0, 1].map(|_| build(Timer::builder().executor(Inline), &clock));
        for timer in &engines {
            let (own, both) = (clock.clone(), Arc::clone(&barrier));
            let task = move || {
                both.wait();
                own.advance(HOUR);
            };
            timer.schedule_detached(HOUR, task).expect("accepted");
        }
        thread::scope(|scope| {
            scope.spawn(|| clock.advance(HOUR));
        });
        assert!(engines.iter().all(|timer| timer.pending() == 0));
    });
}

#[test]
fn a_task_may_build_and_drop_engines_on_its_clock() {
    in_time("engines made in a task", || {
        let clock = ManualClock::new();
        let (timer, ran) = (build(Timer::builder(), &clock), Runs::new(1));
        let (own, run) = (clock.clone(), ran.task(0));
        let (send, receive) = channel();
        let task = move || {
            let inner = build(Timer::builder().executor(Inline), &own);
            inner.schedule_detached(HOUR, run).expect("accepted");
            drop(build(Timer::builder(), &own));
            own.advance(HOUR);
            send.send(inner).expect("the test waits");
        };
        timer.schedule_detached(HOUR, task).expect("accepted");
        clock.advance(HOUR);
        let inner = receive.recv().expect("it has run");
        clock.advance(Duration::ZERO);
        ran.assert_each_ran_once();
        assert_eq!(inner.pending(), 0);
    });
}

#[test]
fn the_clock_may_be_advanced_from_many_threads_at_once() {
    in_time("advance from many threads", || {
        let clock = ManualClock::new();
        let timer = build(Timer::builder().executor(ThreadPool::new(2)), &clock);
        let runs = Runs::new(4_000);
        for id in 0..4_000 {
            timer.schedule_detached(Duration::from_secs(id as u64), runs.task(id)).expect("accepted");
        }
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| clock.advance(Duration::from_secs(1))));
            }
        });
        runs.assert_each_ran_once();
        assert_eq!(timer.pending(), 0);
    });
}

#[test]
fn advance_does_not_wait_for_engines_that_have_not_begun_or_have_ended() {
    in_time("advance without an engine to wait for", || {
        let clock = ManualClock::new();
        let idle = build(Timer::builder(), &clock);
        clock.advance(HOUR);
        let shut_down = build(Timer::builder(), &clock);
        drop(shut_down.schedule(MS, || ()).expect("accepted"));
        assert_eq!(shut_down.shutdown().expect("the first").len(), 1);
        let dropped = build(Timer::builder(), &clock);
        let handle = dropped.schedule(MS, || panic!("its engine is gone")).expect("accepted");
        drop(dropped);
        clock.advance(HOUR);
        assert!(!handle.is_expired());
        assert_eq!((idle.pending(), idle.stats().turns), (0, 0));
    });
}

#[test]
fn an_engine_may_be_shut_down_or_dropped_while_its_clock_is_advanced() {
    for round in 0..200 {
        in_time("advance while the engine ends", move || {
            let clock = ManualClock::new();
            let timer = build(Timer::builder().executor(ThreadPool::new(2)), &clock);
            let runs = Runs::new(200);
            for id in 0..200 {
                timer.schedule_detached(Duration::from_secs(id as u64), runs.task(id)).expect("accepted");
            }
            let left = thread::scope(|scope| {
                scope.spawn(|| (0..200).for_each(|_| clock.advance(Duration::from_secs(1))));
                if round % 2 == 0 { Some(timer.shutdown().expect("the first").len()) } else { None }
            });
            assert!(left.is_none_or(|left| left + runs.total() == 200));
            drop(timer);
        });
    }
}

#[test]
fn advance_waits_for_batches_that_a_users_executor_has_begun_to_run() {
    let clock = ManualClock::new();
    let (begun, has_begun) = channel();
    let executor = move |expired: Expired| {
        let begun = begun.clone();
        thread::spawn(move || {
            begun.send(()).expect("the test waits");
            expired.run();
        });
    };
    let (timer, done) = (build(Timer::builder().executor(executor), &clock), Arc::new(AtomicBool::new(false)));
    let ((running, is_running), sets) = (channel(), Arc::clone(&done));
    let task = move || {
        running.send(()).expect("the test waits");
        thread::sleep(50 * MS);
        sets.store(true, Ordering::Relaxed);
    };
    timer.schedule_detached(HOUR, task).expect("accepted");
    clock.advance(HOUR);
    has_begun.recv().expect("it is run");
    is_running.recv().expect("it runs");
    clock.advance(MS);
    assert!(done.load(Ordering::Relaxed));
}

#[test]
fn sleeping_workers_take_no_notice_of_real_time() {
    let clock = ManualClock::new();
    let timer = build(Timer::builder(), &clock);
    let timeout = timer.schedule(MS, || ()).expect("accepted");
    thread::sleep(50 * MS);
    assert!(timeout.is_pending(), "the clock stands still");
    clock.advance(MS);
    assert!(timeout.is_expired());
}
