//! `pending_timeouts`: what is pending, one by one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Inline, ManualClock, PendingTimeout, Shutdown, Sleep, Timeout, TimeoutKind, Timer};

use crate::common::{HOUR, Keeps, MS, Random, Rig, block, eventually};

fn tuple(pending: PendingTimeout) -> (Instant, usize, TimeoutKind) {
    (pending.deadline, pending.shard, pending.kind)
}

fn seen(timer: &Timer) -> Vec<(Instant, usize, TimeoutKind)> {
    timer.pending_timeouts().into_iter().map(tuple).collect()
}

#[test]
fn all_that_is_pending_is_told_with_its_deadline_its_shard_and_its_kind() {
    for mut rig in Rig::each(|| Timer::builder().shards(3)) {
        let timer = &rig.timer;
        assert_eq!(timer.pending_timeouts(), []);
        let shards: Vec<_> = (0..100).map(|key| timer.shard_for(&key)).collect();
        let of = |number| shards.iter().find(|shard| shard.index() == number).expect("one of the keys has it");
        let once = of(2).schedule(3 * HOUR, || ()).expect("accepted");
        let periodic = of(0).schedule_at_fixed_rate(HOUR, HOUR, || ()).expect("accepted");
        of(1).schedule_detached(2 * HOUR, || ()).expect("accepted");
        let mut sleep = timer.sleep(4 * HOUR);
        let mut context = Context::from_waker(Waker::noop());
        assert!(std::pin::Pin::new(&mut sleep).poll(&mut context).is_pending());
        let (begun, kinds) = (rig.clock.now(), [TimeoutKind::Periodic, TimeoutKind::Once, TimeoutKind::Once]);
        let expected = |first| [(begun + first, 0, kinds[0]), (begun + 2 * HOUR, 1, kinds[1])];
        let told = seen(&rig.timer);
        assert_eq!(told[..2], expected(HOUR), "{}", rig.kind);
        assert_eq!(told[2], (once.deadline(), 2, kinds[2]), "{}", rig.kind);
        assert_eq!((told[3].0, told[3].2), (begun + 4 * HOUR, TimeoutKind::Future), "{}", rig.kind);
        assert_eq!(told.len(), 4);
        // In the wheel as in the inbox; after a reset; and a periodic one after its run.
        rig.advance(HOUR);
        assert!(once.reset(HOUR / 2));
        let told = seen(&rig.timer);
        assert_eq!(told[0], (rig.clock.now() + HOUR / 2, 2, TimeoutKind::Once), "{}", rig.kind);
        assert_eq!((told.len(), told[1].2, told[2].2), (4, kinds[0], kinds[1]));
        assert!(once.cancel() && periodic.cancel());
        drop(sleep);
        assert_eq!(seen(&rig.timer), [(begun + 2 * HOUR, 1, TimeoutKind::Once)], "{}", rig.kind);
        assert_eq!(rig.timer.shutdown().expect("it is no task").len(), 1);
        assert_eq!(rig.timer.pending_timeouts(), []);
    }
}

#[test]
fn they_are_as_many_as_pending_says_whatever_has_happened() {
    for mut rig in Rig::each(|| Timer::builder().shards(2)) {
        let (mut random, mut handles) = (Random::new(20), Vec::<Timeout>::new());
        for round in 0..2_000 {
            let delay = random.duration(100 * MS);
            match random.below(8) {
                0..3 => handles.push(rig.timer.schedule(delay, || ()).expect("accepted")),
                3 => rig.timer.schedule_detached(delay, || ()).expect("accepted"),
                4 if !handles.is_empty() => drop(handles.swap_remove(random.below(handles.len())).cancel_owned()),
                5 if !handles.is_empty() => _ = handles[random.below(handles.len())].cancel(),
                6 if !handles.is_empty() => _ = handles[random.below(handles.len())].reset(delay),
                7 if round % 100 == 0 => _ = rig.timer.shrink(),
                _ => rig.advance(random.duration(2 * MS)),
            }
            // What is due at once may end between the two looks.
            let timer = &rig.timer;
            eventually("the two agree", || timer.pending_timeouts().len() == timer.pending());
            let told = timer.pending_timeouts();
            assert!(told.is_sorted_by_key(|timeout| timeout.deadline));
            for timeout in handles.iter().filter(|timeout| timeout.is_pending()) {
                let is_told = || told.iter().any(|told| told.deadline == timeout.deadline());
                assert!(is_told() || !timeout.is_pending(), "{}", rig.kind);
            }
        }
    }
}

#[test]
fn a_stuck_worker_does_not_keep_them_from_being_told() {
    let timer = Timer::builder().shards(1).executor(Inline).build().expect("the options make sense");
    let held = block(|hold| timer.schedule_detached(Duration::ZERO, hold).expect("accepted"));
    let timeout = timer.schedule(HOUR, || ()).expect("accepted");
    assert_eq!(seen(&timer), [(timeout.deadline(), 0, TimeoutKind::Once)]);
    drop(held);
}

#[test]
fn they_can_be_told_while_other_threads_schedule_cancel_and_give_memory_back() {
    const MOST: Duration = HOUR;
    let timer = Timer::builder().shards(2).build().expect("the options make sense");
    let (over, begun) = (AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        for seed in 0..2 {
            let (timer, over) = (&timer, &over);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                while !over.load(Ordering::Relaxed) {
                    let schedule = |_| timer.schedule(HOUR / 2 + random.duration(HOUR / 4), || ()).expect("accepted");
                    let handles: Vec<_> = (0..300).map(schedule).collect();
                    assert!(handles.iter().all(|timeout| timeout.reset(MOST)));
                    drop(handles.into_iter().map(Timeout::cancel_owned).collect::<Vec<_>>());
                    timer.shrink();
                }
            });
        }
        for _ in 0..200 {
            for told in timer.pending_timeouts() {
                assert!(told.shard < 2 && told.kind == TimeoutKind::Once);
                // Later than any of theirs by a tick's part at most.
                assert!(told.deadline >= begun + HOUR / 2 && told.deadline <= Instant::now() + MOST + MS);
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(timer.pending_timeouts(), []);
}

/// Asserts that what is told is what `pending` counts, and that each of these is told or is over.
fn assert_told(timer: &Timer, kind: &str, expected: usize) {
    let told = timer.pending_timeouts();
    assert_eq!((told.len(), timer.pending()), (expected, expected), "{kind}: {told:?}");
}

#[test]
fn many_groups_guards_reusables_and_futures_are_told_while_they_are_pending() {
    for mut rig in Rig::each(|| Timer::builder().shards(2)) {
        let (timer, kind) = (rig.timer.clone(), rig.kind);
        let tasks = |n: usize| (0..n).map(|_| || ()).collect::<Vec<_>>();
        let many = timer.schedule_many(HOUR, tasks(100)).expect("accepted");
        assert_told(&timer, kind, 100);
        assert_eq!(timer.reset_many(&many, 2 * HOUR), 100);
        rig.advance(MS);
        assert_told(&timer, kind, 100);
        assert!(many.iter().step_by(2).all(Timeout::cancel));
        assert_told(&timer, kind, 50);
        drop(many);
        let group = timer.group();
        group.schedule_detached(MS, || ()).expect("accepted");
        let member = group.schedule(HOUR, || ()).expect("accepted");
        let guard = timer.schedule(Duration::MAX, || ()).expect("accepted").cancel_on_drop();
        assert_told(&timer, kind, 53);
        let last = timer.pending_timeouts().pop().expect("some");
        assert_eq!(last.deadline, guard.deadline(), "{kind}: beyond what a clock can say");
        rig.advance(MS);
        assert_told(&timer, kind, 52);
        drop(guard);
        assert_eq!(group.cancel_all(), 1);
        assert!(member.is_cancelled());
        // Tombstones, and those of them that are used again.
        for _ in 0..3 {
            let timeouts: Vec<_> = (0..10).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
            assert_told(&timer, kind, 60);
            drop(timeouts.into_iter().map(Timeout::cancel_owned).collect::<Vec<_>>());
            assert_told(&timer, kind, 50);
        }
        let mut sleep = timer.sleep(HOUR);
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = |sleep: &mut Sleep| std::pin::Pin::new(sleep).poll(&mut context);
        assert!(poll(&mut sleep).is_pending());
        sleep.reset(MS);
        assert_told(&timer, kind, 51);
        rig.advance(2 * MS);
        assert_told(&timer, kind, 50);
        sleep.reset(MS);
        assert_told(&timer, kind, 50);
        assert!(poll(&mut sleep).is_pending());
        assert_told(&timer, kind, 51);
        drop(sleep);
        timer.pause();
        timer.schedule_detached(MS, || ()).expect("accepted");
        assert_eq!(timer.pending_timeouts()[0].deadline, rig.clock.now() + MS, "{kind}");
        assert_told(&timer, kind, 51);
        timer.resume();
        rig.advance(HOUR);
        assert_told(&timer, kind, 50);
        assert!(timer.shutdown_with(Shutdown::FireNow).expect("it is no task").is_empty());
        assert_told(&timer, kind, 0);
        assert!(timer.schedule(HOUR, || ()).is_err() && timer.schedule_many(HOUR, tasks(3)).is_err());
        assert_told(&timer, kind, 0);
    }
}

#[test]
fn a_periodic_timeout_is_told_once_before_in_and_between_its_runs_and_not_after_the_last() {
    for mut rig in Rig::each(Timer::builder) {
        let (told, timer) = (Arc::new(Mutex::new(Vec::new())), rig.timer.clone());
        let (saw, mut runs) = (Arc::clone(&told), 0);
        let periodic = rig.timer.schedule_repeating(MS, move || {
            runs += 1;
            saw.lock().expect("no panic").push((runs, timer.pending(), timer.pending_timeouts()));
            (runs < 3).then_some(MS)
        });
        drop(periodic.expect("accepted"));
        for left in [1, 1, 0] {
            rig.advance(MS);
            assert_told(&rig.timer, rig.kind, left);
        }
        for (run, pending, told) in &*told.lock().expect("no panic") {
            assert_eq!((*pending, told.len()), (1, 1), "{}, run {run}: {told:?}", rig.kind);
            assert_eq!(told[0].kind, TimeoutKind::Periodic);
        }
    }
}

#[test]
fn what_waits_at_an_executor_is_told_until_it_runs() {
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(HOUR)] {
        let (keeps, clock) = (Keeps::default(), ManualClock::new());
        let builder = Timer::builder().shards(1).clock(clock.clone()).executor(keeps.clone());
        let timer = builder.build().expect("the options make sense");
        let handle = timer.schedule(MS, || ()).expect("accepted");
        timer.schedule_detached(MS, || ()).expect("accepted");
        let periodic = timer.schedule_at_fixed_rate(MS, MS, || ()).expect("accepted");
        clock.advance(MS);
        assert_eq!(keeps.batches(), 1);
        assert_told(&timer, "kept", 3);
        assert!(handle.cancel());
        assert_told(&timer, "kept", 2);
        assert!(periodic.reset(HOUR));
        assert_told(&timer, "kept", 2);
        assert!(timer.shutdown_with(how).expect("it is no task").is_empty());
        assert_told(&timer, "kept", 2);
        keeps.run();
        assert_told(&timer, "kept", 0);
        let stats = timer.stats();
        assert_eq!(stats.fired, stats.completed, "{how:?}");
    }
}
