//! Two or three threads on one engine: they schedule, reset, cancel and drop, and run what is due.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tourbillon::{Inline, ManualClock, Shutdown, ThreadPool, Timeout, Timer, WaitStrategy};

use crate::common::{HOUR, MS, PATIENCE, Random, assert_counters_reconcile, built};
use crate::{Ledger, delay, few, let_threads_end, seeds, small, with_workers};

/// Shuts the engine down, and checks that each task has had one outcome.
fn assert_all_end(timer: Timer, ledger: &Ledger, cancelled: usize, len: usize) {
    let left = timer.shutdown().expect("the first").len();
    assert_eq!(ledger.ran() + cancelled + left, len);
    let stats = timer.stats();
    assert_eq!((stats.cancelled, stats.returned, stats.pending), (cancelled as u64, left as u64, 0));
    assert_counters_reconcile(&stats);
    drop(timer);
    ledger.assert_closed();
    let_threads_end();
}

#[test]
fn cancels_and_resets_and_drops_race_a_worker() {
    const LEN: usize = few(6, 200);
    for (seed, builder) in seeds().flat_map(|seed| with_workers().map(move |builder| (seed, builder))) {
        let timer = builder.build().expect("the options make sense");
        let (ledger, mut random) = (Ledger::new(LEN), Random::new(seed));
        let schedule = |id| {
            // From at once to a time when the other threads are at work.
            let delay = Duration::from_micros(random.next() % 8_000);
            timer.schedule(delay, ledger.task(id)).expect("accepted")
        };
        let timeouts: Vec<_> = (0..LEN).map(schedule).collect();
        let cancelled = thread::scope(|scope| {
            scope.spawn(|| timeouts.iter().step_by(2).for_each(|timeout| _ = timeout.reset(HOUR)));
            let twice = scope.spawn(|| timeouts.iter().skip(1).step_by(3).filter(|timeout| timeout.cancel()).count());
            timeouts.iter().rev().for_each(|timeout| _ = timeout.reset(Duration::ZERO));
            let mine = timeouts.iter().step_by(3).filter(|timeout| timeout.cancel()).count();
            mine + twice.join().expect("no panic")
        });
        drop(timeouts);
        assert_all_end(timer, &ledger, cancelled, LEN);
    }
}

/// Cancelled by another thread, or by the one that takes the entry for its next timeout at once.
#[test]
fn handles_that_are_dropped_race_the_expiry() {
    const LEN: usize = few(16, 500);
    for builder in with_workers() {
        let timer = builder.build().expect("the options make sense");
        let ledger = Ledger::new(LEN);
        thread::scope(|scope| {
            let (send, receive) = channel();
            let (timer, ledger) = (&timer, &ledger);
            scope.spawn(move || receive.into_iter().for_each(|timeout: Timeout| drop(timeout)));
            let mut kept: Vec<Timeout> = Vec::new();
            for id in 0..LEN {
                let timeout = timer.schedule(Duration::ZERO, ledger.task(id)).expect("accepted");
                if id % 4 == 0 {
                    send.send(timeout).expect("it listens");
                } else {
                    kept.push(timeout);
                }
                thread::yield_now();
                kept.retain(|timeout| !timeout.is_expired());
            }
        });
        assert_all_end(timer, &ledger, 0, LEN);
    }
}

/// Some while their slot comes up: the next timeout then takes the entry over, or finds it gone.
#[test]
fn timeouts_that_are_given_up_in_their_slots_race_the_worker() {
    const LEN: usize = few(24, 200);
    for (seed, builder) in seeds().flat_map(|seed| with_workers().map(move |builder| (seed, builder))) {
        let timer = builder.build().expect("the options make sense");
        let (ledger, mut random) = (Ledger::new(LEN), Random::new(seed));
        let (mut kept, mut cancelled) = (Vec::new(), 0);
        for id in 0..LEN {
            let delay = Duration::from_micros(random.next() % 3_000);
            let task = ledger.task(id);
            kept.push(timer.schedule(delay, task).expect("accepted"));
            if random.below(3) == 0 {
                // The worker links what there is, or is about to run it.
                thread::sleep(Duration::from_micros(random.next() % 1_500));
            }
            if random.below(4) > 0 {
                cancelled += usize::from(kept.swap_remove(random.below(kept.len())).cancel_owned());
            }
        }
        drop(kept);
        assert_all_end(timer, &ledger, cancelled, LEN);
    }
}

#[test]
fn entries_go_round_between_a_thread_that_schedules_and_one_that_cancels() {
    const LEN: usize = few(40, 2_000);
    for builder in with_workers() {
        let timer = builder.capacity(4).build().expect("the options make sense");
        let ledger = Ledger::new(LEN);
        thread::scope(|scope| {
            let (send, receive) = channel();
            let (timer, ledger) = (&timer, &ledger);
            // The other thread keeps a few, so that some are linked when they are cancelled, and
            // some are not.
            scope.spawn(move || {
                let mut kept: Vec<Timeout> = Vec::new();
                for timeout in receive {
                    kept.push(timeout);
                    if kept.len() > 5 {
                        assert!(kept.swap_remove(0).cancel());
                    }
                }
                assert!(kept.iter().all(Timeout::cancel));
            });
            for id in 0..LEN {
                send.send(timer.schedule(HOUR, ledger.large_task(id)).expect("accepted")).expect("it listens");
            }
        });
        assert_eq!(ledger.ran(), 0);
        assert_all_end(timer, &ledger, LEN, LEN);
    }
}

/// The queues of a sleeping worker fill up, until a push wakes it to collect.
#[test]
fn a_ring_of_schedules_and_cancels_uses_its_entries_again() {
    const LEN: usize = few(60, 50_000);
    for producers in [1, 2] {
        let timer = small().executor(Inline).build().expect("the options make sense");
        thread::scope(|scope| {
            for _ in 0..producers {
                scope.spawn(|| {
                    for _ in 0..LEN {
                        assert!(timer.schedule(HOUR, || ()).expect("accepted").cancel());
                    }
                });
            }
        });
        assert_eq!(timer.stats().cancelled, (producers * LEN) as u64);
        assert!(timer.shutdown().expect("the first").is_empty());
    }
}

#[test]
fn a_driver_turns_while_others_schedule_reset_cancel_and_drop() {
    const EACH: usize = few(15, 1_000);
    for seed in seeds() {
        let clock = ManualClock::new();
        let builder = Timer::builder().ticks_per_wheel(2).levels(3).transfer_limit(3).capacity(1);
        let (timer, mut driver) = builder.clock(clock.clone()).build_driven().expect("the options make sense");
        let ledger = Ledger::new(2 * EACH);
        let produce = |producer: usize| {
            let mut random = Random::new(seed + producer as u64);
            let (mut held, mut cancelled): (Vec<Timeout>, _) = (Vec::new(), 0);
            for id in producer * EACH..(producer + 1) * EACH {
                held.push(timer.schedule(delay(&mut random), ledger.task(id)).expect("accepted"));
                let which = random.below(held.len());
                match random.below(5) {
                    0 => cancelled += usize::from(held.swap_remove(which).cancel()),
                    1 => drop(held.swap_remove(which)),
                    _ => _ = held[which].reset(delay(&mut random)),
                }
            }
            cancelled
        };
        let cancelled: usize = thread::scope(|scope| {
            let producers = [0, 1].map(|producer| scope.spawn(move || produce(producer)));
            while !producers.iter().all(|producer| producer.is_finished()) {
                clock.advance(7 * MS);
                driver.turn();
                let _ = driver.next_wakeup();
                thread::yield_now();
            }
            producers.into_iter().map(|producer| producer.join().expect("no panic")).sum()
        });
        drop(driver);
        assert_eq!(timer.stats().cancelled, cancelled as u64);
        drop(timer);
        ledger.assert_closed();
    }
}

#[test]
fn threads_that_need_memory_at_once_get_each_their_own() {
    const EACH: usize = few(12, 300);
    for builder in with_workers() {
        let timer = builder.build().expect("the options make sense");
        let ledger = Ledger::new(3 * EACH);
        thread::scope(|scope| {
            for producer in 0..3 {
                let (timer, ledger) = (&timer, &ledger);
                scope.spawn(move || {
                    let ids = producer * EACH..(producer + 1) * EACH;
                    if producer == 2 {
                        let tasks = ids.map(|id| ledger.task(id));
                        drop(timer.schedule_many(Duration::MAX, tasks).expect("accepted"));
                    } else {
                        ids.for_each(|id| timer.schedule_detached(HOUR, ledger.task(id)).expect("accepted"));
                    }
                });
            }
        });
        assert_eq!(timer.pending(), 3 * EACH);
        assert_all_end(timer, &ledger, 0, 3 * EACH);
    }
}

#[test]
fn a_sleeping_worker_is_woken_and_no_wake_up_is_lost() {
    for wait in [WaitStrategy::Park, WaitStrategy::Hybrid { spin: MS }] {
        let timer = small().wait(wait).executor(Inline).build().expect("the options make sense");
        let (send, receive) = channel();
        for round in 0..few(12, 1_000) {
            let send = send.clone();
            let task = move || send.send(round).expect("the test waits");
            match round % 3 {
                0 => timer.schedule_detached(Duration::ZERO, task).expect("accepted"),
                1 => assert!(timer.schedule(HOUR, task).expect("accepted").reset(Duration::ZERO)),
                _ => {
                    let timeout = timer.schedule(HOUR, task).expect("accepted");
                    // At times the worker links it meanwhile.
                    thread::yield_now();
                    assert!(timeout.reset(HOUR / 2) && timeout.reset(MS));
                }
            }
            assert_eq!(receive.recv_timeout(PATIENCE), Ok(round));
        }
        assert!(timer.shutdown_with(Shutdown::Cancel).expect("the first").is_empty());
    }
}

/// Owned by nobody that looks. Detached ones, which the worker alone owns, too.
#[test]
fn the_limit_on_pending_timeouts_is_exact() {
    for _ in 0..few(2, 100) {
        let timer = built(small().max_pending_timeouts(3).executor(ThreadPool::new(1)));
        let ledger = Ledger::new(6);
        let timeouts: Vec<Timeout> = thread::scope(|scope| {
            let (timer, ledger) = (&timer, &ledger);
            let two = |first: usize| move || [first, first + 1].map(|id| timer.schedule(HOUR, ledger.task(id)).ok());
            let producers = [0, 2, 4].map(|first| scope.spawn(two(first)));
            producers.into_iter().flat_map(|producer| producer.join().expect("no panic")).flatten().collect()
        });
        assert_eq!((timeouts.len(), timer.pending(), timer.stats().rejected), (3, 3, 3));
        let cancelled = thread::scope(|scope| {
            let cancels = [(); 2].map(|()| scope.spawn(|| timeouts.iter().filter(|timeout| timeout.cancel()).count()));
            cancels.into_iter().map(|cancel| cancel.join().expect("no panic")).sum::<usize>()
        });
        assert_eq!((cancelled, timer.pending()), (3, 0));
        drop(timer.schedule(HOUR, || ()).expect("there is room again"));
        assert_eq!(timer.shutdown().expect("the first").len(), 1);
        drop((timeouts, timer));
        ledger.assert_closed();
        let_threads_end();
    }
}
