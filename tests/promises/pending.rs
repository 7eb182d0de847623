//! `pending`: how many timeouts are pending, whatever has happened to them.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use tourbillon::{ManualClock, Shutdown, Sleep, Timeout, Timer};

use crate::common::{Counter, HOUR, Keeps, MS, Random, Rig, built, eventually};
use crate::pauses::stoppable;

#[test]
fn it_counts_those_whose_handles_are_pending_and_those_without_a_handle_that_have_not_run() {
    for mut rig in Rig::each(|| Timer::builder().shards(2)) {
        let (mut random, mut handles) = (Random::new(20), Vec::<Timeout>::new());
        let (mut detached, ran) = (0, Counter::default());
        for round in 0..2_000 {
            let delay = random.duration(100 * MS);
            match random.below(8) {
                0..3 => handles.push(rig.timer.schedule(delay, || ()).expect("accepted")),
                3 => {
                    rig.timer.schedule_detached(delay, ran.task()).expect("accepted");
                    detached += 1;
                }
                4 if !handles.is_empty() => drop(handles.swap_remove(random.below(handles.len())).cancel_owned()),
                5 if !handles.is_empty() => _ = handles[random.below(handles.len())].cancel(),
                6 if !handles.is_empty() => _ = handles[random.below(handles.len())].reset(delay),
                7 if round % 100 == 0 => _ = rig.timer.shrink(),
                _ => rig.advance(random.duration(2 * MS)),
            }
            // A timeout that is due at once may end between the two looks.
            eventually("the two agree", || {
                let known = handles.iter().filter(|timeout| timeout.is_pending()).count();
                rig.timer.pending() == known + detached - ran.get()
            });
        }
    }
}

#[test]
fn many_guards_reusables_and_futures_count_while_they_are_pending() {
    for (mut rig, clock) in stoppable(|| Timer::builder().shards(2)) {
        let (timer, kind) = (rig.timer.clone(), rig.kind);
        let assert_pending = |expected: usize| assert_eq!(timer.pending(), expected, "{kind}");
        let tasks = |n: usize| (0..n).map(|_| || ()).collect::<Vec<_>>();
        let many = timer.schedule_many(HOUR, tasks(100)).expect("accepted");
        assert_pending(100);
        assert_eq!(timer.reset_many(&many, 2 * HOUR), 100);
        rig.advance(MS);
        assert_pending(100);
        assert!(many.iter().step_by(2).all(Timeout::cancel));
        assert_pending(50);
        drop(many);
        timer.schedule_detached(MS, || ()).expect("accepted");
        let guard = timer.schedule(Duration::MAX, || ()).expect("accepted").cancel_on_drop();
        let reusable = timer.reusable(|| ()).expect("accepted");
        assert_pending(52);
        reusable.arm(HOUR).expect("accepted");
        assert_pending(53);
        rig.advance(MS);
        assert_pending(52);
        assert!(reusable.disarm());
        drop(guard);
        assert_pending(50);
        // Tombstones, and those of them that are used again.
        for _ in 0..3 {
            let timeouts: Vec<_> = (0..10).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
            assert_pending(60);
            drop(timeouts.into_iter().map(Timeout::cancel_owned).collect::<Vec<_>>());
            assert_pending(50);
        }
        let mut sleep = timer.sleep(HOUR);
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = |sleep: &mut Sleep| Pin::new(sleep).poll(&mut context);
        assert!(poll(&mut sleep).is_pending());
        sleep.reset(MS);
        assert_pending(51);
        rig.advance(2 * MS);
        assert_pending(50);
        sleep.reset(MS);
        assert_pending(50);
        assert!(poll(&mut sleep).is_pending());
        assert_pending(51);
        drop(sleep);
        clock.pause();
        timer.schedule_detached(MS, || ()).expect("accepted");
        rig.advance(MS);
        assert_pending(51);
        clock.resume();
        rig.advance(MS);
        assert_pending(50);
        assert!(timer.shutdown_with(Shutdown::FireNow).expect("it is no task").is_empty());
        assert_pending(0);
        assert!(timer.schedule(HOUR, || ()).is_err() && timer.schedule_many(HOUR, tasks(3)).is_err());
        assert_pending(0);
    }
}

#[test]
fn a_periodic_timeout_counts_once_before_in_and_between_its_runs_and_not_after_the_last() {
    for mut rig in Rig::each(Timer::builder) {
        let (told, timer) = (Arc::new(Mutex::new(Vec::new())), rig.timer.clone());
        let (saw, mut runs) = (Arc::clone(&told), 0);
        let periodic = rig.timer.schedule_repeating(MS, move || {
            runs += 1;
            saw.lock().expect("no panic").push(timer.pending());
            (runs < 3).then_some(MS)
        });
        drop(periodic.expect("accepted"));
        for left in [1, 1, 0] {
            rig.advance(MS);
            assert_eq!(rig.timer.pending(), left, "{}", rig.kind);
        }
        assert_eq!(*told.lock().expect("no panic"), [1; 3], "{}", rig.kind);
    }
}

#[test]
fn a_timeout_that_waits_at_an_executor_counts_until_it_runs() {
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(HOUR)] {
        let (keeps, clock) = (Keeps::default(), ManualClock::new());
        let timer = built(Timer::builder().shards(1).clock(clock.clone()).executor(keeps.clone()));
        let handle = timer.schedule(MS, || ()).expect("accepted");
        timer.schedule_detached(MS, || ()).expect("accepted");
        let periodic = timer.schedule_at_fixed_rate(MS, MS, || ()).expect("accepted");
        clock.advance(MS);
        assert_eq!((keeps.batches(), timer.pending()), (1, 3));
        assert!(handle.cancel());
        assert_eq!(timer.pending(), 2);
        assert!(periodic.reset(HOUR));
        assert_eq!(timer.pending(), 2);
        assert!(timer.shutdown_with(how).expect("it is no task").is_empty());
        assert_eq!(timer.pending(), 2);
        keeps.run();
        assert_eq!(timer.pending(), 0);
        let stats = timer.stats();
        assert_eq!(stats.fired, stats.completed, "{how:?}");
    }
}
