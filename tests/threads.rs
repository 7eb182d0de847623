//! Many threads on the real clock. No timeout is early, lost, or fired twice, whatever the
//! scheduler does, and the counters reconcile.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use testkit::record::{Fate, Fault};
use tourbillon::{Builder, Driver, Inline, ThreadPool, Timeout, Timer, WaitStrategy};

use common::{HOUR, MS, PATIENCE, Random, Runs, assert_counters_reconcile, eventually};

/// How each timeout ended (a [`Fate`] in a word), and the time before which it must not have run:
/// nanoseconds after the start.
struct Fates {
    start: Instant,
    ends: Vec<AtomicU64>,
    not_before: Vec<AtomicU64>,
    early: Mutex<Vec<usize>>,
}

impl Fates {
    fn new(len: usize) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            ends: (0..len).map(|_| AtomicU64::new(Fate::Pending as u64)).collect(),
            not_before: (0..len).map(|_| AtomicU64::new(0)).collect(),
            early: Mutex::default(),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).expect("tests don't run for centuries")
    }

    /// It ends by this step of its fate: `Fate::run` or `Fate::cancel`.
    fn end(&self, id: usize, step: fn(Fate) -> Result<Fate, Fault>) {
        let how = step(Fate::Pending).expect("it may end in either way");
        let before = Fate::in_word(self.ends[id].swap(how as u64, Ordering::AcqRel));
        assert_eq!(before.map(step), Some(Ok(how)), "{id}");
    }

    fn task(self: &Arc<Self>, id: usize) -> impl FnOnce() + Send + use<> {
        let fates = Arc::clone(self);
        move || {
            if fates.now() < fates.not_before[id].load(Ordering::Acquire) {
                fates.early.lock().expect("no panic").push(id);
            }
            fates.end(id, Fate::run);
        }
    }

    fn count(&self, how: Fate) -> u64 {
        self.ends.iter().map(|end| u64::from(Fate::in_word(end.load(Ordering::Acquire)) == Some(how))).sum()
    }
}

/// One producer's part: schedules its share, and keeps a hundred handles busy.
fn produce(timer: &Timer, fates: &Arc<Fates>, ids: std::ops::Range<usize>, mut random: Random) {
    let mut held: Vec<(usize, Timeout)> = Vec::new();
    for id in ids {
        let delay = random.duration(20 * MS);
        let delay_ns = u64::try_from(delay.as_nanos()).expect("short");
        fates.not_before[id].store(fates.now() + delay_ns, Ordering::Release);
        held.push((id, timer.schedule(delay, fates.task(id)).expect("accepted")));
        if held.len() < 100 {
            continue;
        }
        let at = random.below(held.len());
        match random.below(4) {
            0 => {
                let (id, timeout) = held.swap_remove(at);
                if timeout.cancel() {
                    fates.end(id, Fate::cancel);
                }
            }
            1 => drop(held.swap_remove(at)),
            _ => {
                let (id, timeout) = &held[at];
                let delay = random.duration(30 * MS);
                let before = fates.not_before[*id].load(Ordering::Acquire);
                let deadline = fates.now() + u64::try_from(delay.as_nanos()).expect("short");
                // Until the reset has happened the earlier one of the two bounds holds.
                fates.not_before[*id].store(before.min(deadline), Ordering::Release);
                if timeout.reset(delay) {
                    fates.not_before[*id].store(deadline, Ordering::Release);
                }
                if random.below(8) == 0 {
                    drop(held.swap_remove(at));
                }
            }
        }
    }
}

/// Producers, resets in all directions, cancels and drops, against a running engine that is shut
/// down in the end.
fn stress(builder: Builder, seed: u64) {
    const PRODUCERS: usize = 3;
    const EACH: usize = 10_000;
    let timer = builder.build().expect("the options make sense");
    let fates = Fates::new(PRODUCERS * EACH);
    thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let (timer, fates) = (&timer, &fates);
            let ids = producer * EACH..(producer + 1) * EACH;
            scope.spawn(move || produce(timer, fates, ids, Random::new(seed * 10 + producer as u64)));
        }
    });
    if seed.is_multiple_of(2) {
        eventually("all end", || timer.pending() == 0);
    }
    let left = timer.shutdown().expect("the first");
    let returned = left.len() as u64;
    assert_eq!(fates.count(Fate::Ran) + fates.count(Fate::Cancelled) + returned, (PRODUCERS * EACH) as u64);
    let ran = fates.count(Fate::Ran);
    assert_eq!(*fates.early.lock().expect("no panic"), [0; 0], "early");
    left.into_iter().for_each(|left| left.run());
    assert_eq!(fates.count(Fate::Pending), 0, "each has an end");
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.cancelled, stats.returned), (ran, fates.count(Fate::Cancelled), returned));
    assert_eq!((stats.pending, stats.panicked), (0, 0));
    assert_counters_reconcile(&stats);
}

fn tick(micros: u64) -> Builder {
    Timer::builder().tick_duration(Duration::from_micros(micros))
}

#[test]
fn nothing_is_early_lost_or_twice_on_a_pool() {
    for seed in 0..4 {
        stress(tick(1000), seed);
        stress(tick(100).executor(ThreadPool::new(3)).shards(2), seed);
    }
}

#[test]
fn nothing_is_early_lost_or_twice_inline() {
    for seed in 10..14 {
        stress(tick(1000).executor(Inline).shards(2), seed);
        stress(tick(100).executor(Inline).ticks_per_wheel(8).levels(2), seed);
    }
}

#[test]
fn nothing_is_early_lost_or_twice_however_the_workers_wait() {
    for seed in 20..22 {
        stress(tick(100).executor(Inline).wait(WaitStrategy::Spin), seed);
        stress(tick(100).wait(WaitStrategy::Hybrid { spin: Duration::from_micros(200) }), seed);
        stress(tick(1000).wait(WaitStrategy::Hybrid { spin: MS }).levels(1).ticks_per_wheel(4), seed);
    }
}

#[test]
fn nothing_is_early_lost_or_twice_with_budgets_that_are_always_spent() {
    for seed in 30..32 {
        stress(tick(100).executor(Inline).transfer_limit(7).expiry_limit(3), seed);
        stress(tick(100).transfer_limit(1).expiry_limit(1).shards(2), seed);
    }
}

#[test]
fn nothing_is_early_by_a_microsecond() {
    // Ticks this small hide nothing of the clocks: not the producers', and not the workers'.
    for seed in 40..42 {
        let tick = || Timer::builder().tick_duration(Duration::from_micros(1)).executor(Inline);
        stress(tick(), seed);
        stress(tick().wait(WaitStrategy::Spin), seed);
        stress(tick().wait(WaitStrategy::Hybrid { spin: MS }), seed);
    }
}

#[test]
fn a_cancel_that_races_the_expiry_wins_or_the_task_runs_but_never_both() {
    const ROUNDS: usize = 3_000;
    for builder in [tick(100).executor(Inline), tick(100).executor(ThreadPool::new(2))] {
        let timer = builder.build().expect("the options make sense");
        let runs = Runs::new(ROUNDS);
        let mut random = Random::new(1);
        let mut cancelled = 0;
        for id in 0..ROUNDS {
            let deadline = Instant::now() + random.duration(MS / 2);
            let timeout = timer.schedule_at(deadline, runs.task(id)).expect("accepted");
            while Instant::now() + Duration::from_micros(random.next() % 40) < deadline {
                std::hint::spin_loop();
            }
            let won = timeout.cancel();
            cancelled += usize::from(won);
            assert_eq!((timeout.is_cancelled(), timeout.is_expired()), (won, !won));
            assert!(!won || runs.of(id) == 0);
        }
        assert!(timer.shutdown().expect("the first").is_empty());
        assert_eq!(runs.total() + cancelled, ROUNDS);
        assert!((0..ROUNDS).all(|id| runs.of(id) <= 1));
    }
}

#[test]
fn of_many_cancels_of_one_timeout_exactly_one_wins() {
    let timer = Timer::new().expect("the defaults make sense");
    for round in 0..500_u32 {
        let timeout = timer.schedule(HOUR, || ()).expect("accepted");
        let wins: usize = thread::scope(|scope| {
            let cancels: Vec<_> = (0..3).map(|_| scope.spawn(|| usize::from(timeout.cancel()))).collect();
            cancels.into_iter().map(|cancel| cancel.join().expect("no panic")).sum()
        });
        assert_eq!(wins, 1, "round {round}");
    }
    assert_eq!((timer.pending(), timer.stats().cancelled), (0, 500));
}

/// Waits for one message, and fails if it does not come.
fn assert_comes(receive: &mpsc::Receiver<()>, what: &str) {
    assert!(receive.recv_timeout(PATIENCE).is_ok(), "{what}");
}

#[test]
fn a_sleeping_worker_is_woken_by_a_deadline_before_its_own() {
    for wait in [WaitStrategy::Park, WaitStrategy::Hybrid { spin: MS }] {
        let timer = Timer::builder().wait(wait).build().expect("the options make sense");
        let (send, receive) = mpsc::channel();
        let task = || {
            let send = send.clone();
            move || send.send(()).expect("the test waits")
        };
        let far = timer.schedule(HOUR, task()).expect("accepted");
        thread::sleep(20 * MS);
        timer.schedule_detached(10 * MS, task()).expect("accepted");
        assert_comes(&receive, "a new timeout of 10 ms");
        thread::sleep(20 * MS);
        assert!(far.reset(10 * MS));
        assert_comes(&receive, "one of an hour that was reset to 10 ms");
        let far = timer.schedule(Duration::MAX, task()).expect("accepted");
        thread::sleep(20 * MS);
        assert!(far.reset(HOUR) && far.reset(Duration::ZERO));
        assert_comes(&receive, "one of never that was reset to now");
        let many = timer.schedule_many(HOUR, (0..3).map(|_| task())).expect("accepted");
        thread::sleep(20 * MS);
        assert!(many.iter().all(|timeout| timeout.reset_at(Instant::now() + MS)));
        (0..3).for_each(|_| assert_comes(&receive, "each of many"));
    }
}

#[test]
fn each_of_very_many_wake_ups_comes_through() {
    // A worker that is about to fall asleep, or has just done so, at every possible moment.
    let timer = tick(100).executor(Inline).build().expect("the options make sense");
    let (send, receive) = mpsc::channel();
    let mut random = Random::new(9);
    for round in 0..5_000 {
        let send = send.clone();
        let task = move || send.send(()).expect("the test waits");
        if round % 2 == 0 {
            timer.schedule_detached(random.duration(MS / 5), task).expect("accepted");
        } else {
            let timeout = timer.schedule(HOUR, task).expect("accepted");
            (0..random.below(300)).for_each(|_| std::hint::spin_loop());
            assert!(timeout.reset(Duration::ZERO));
        }
        assert_comes(&receive, "the next wake-up");
    }
}

#[test]
fn a_driver_may_be_turned_by_one_thread_while_others_schedule() {
    const EACH: usize = 5_000;
    let (timer, mut driver): (Timer, Driver) = tick(100).build_driven().expect("the options make sense");
    let waker = thread::current();
    driver.on_earlier(move || waker.unpark());
    let runs = Runs::new(3 * EACH);
    thread::scope(|scope| {
        for producer in 0..3 {
            let (timer, runs) = (&timer, &runs);
            scope.spawn(move || {
                let mut random = Random::new(producer as u64);
                for id in producer * EACH..(producer + 1) * EACH {
                    timer.schedule_detached(random.duration(5 * MS), runs.task(id)).expect("accepted");
                }
            });
        }
        let begun = Instant::now();
        while runs.total() < 3 * EACH {
            assert!(begun.elapsed() < PATIENCE, "{} of {} ran", runs.total(), 3 * EACH);
            driver.turn();
            let wake_up = driver.next_wakeup();
            if runs.total() < 3 * EACH {
                let sleep = wake_up.map_or(PATIENCE, |at| at.saturating_duration_since(Instant::now()));
                thread::park_timeout(sleep);
            }
        }
    });
    runs.assert_each_ran_once();
}

#[test]
fn handles_may_be_shared_by_threads_that_do_different_things() {
    let timer = tick(100).executor(Inline).build().expect("the options make sense");
    let runs = Runs::new(1_000);
    let mut cancelled = Vec::new();
    for round in 0..10 {
        let ids = round * 100..(round + 1) * 100;
        let timeouts: Vec<_> = ids.clone().map(|id| timer.schedule(5 * MS, runs.task(id)).expect("accepted")).collect();
        let each = |act: fn(&Timeout) -> bool| timeouts.iter().map(act).collect::<Vec<_>>();
        let won = thread::scope(|scope| {
            scope.spawn(|| each(|timeout| timeout.reset(HOUR)));
            scope.spawn(|| each(|timeout| timeout.reset(Duration::ZERO)));
            scope.spawn(|| each(|timeout| format!("{timeout:?}").is_empty()));
            scope.spawn(|| each(Timeout::cancel)).join().expect("no panic")
        });
        cancelled.extend(ids.zip(won).filter(|(_, won)| *won).map(|(id, _)| id));
        assert!(!timeouts.iter().any(Timeout::is_pending));
    }
    assert!(timer.shutdown().expect("the first").is_empty());
    assert!(cancelled.iter().all(|&id| runs.of(id) == 0));
    assert_eq!(runs.total() + cancelled.len(), 1_000);
    assert_counters_reconcile(&timer.stats());
}
