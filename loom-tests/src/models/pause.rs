//! Pauses: the engine's time stops where no thread has seen it go past, and never goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use super::check::check;
use super::rig::{Gate, Ledger, driven, ticks, with_workers};
use crate::executor::Inline;
use crate::sync::thread;
use crate::time::{Clock, MODEL_PAUSES, Pauses};

/// A clock that goes on by one with each look, and is the same for all threads. (It is not loom's:
/// the memory model does not make a clock monotonic.)
#[derive(Clone, Default)]
struct Looks(Arc<AtomicU64>);

impl Looks {
    fn look(&self) -> u64 {
        // Another thread may come in between here, as it may around each look at a clock.
        thread::yield_now();
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A clock that goes on by a tick with each look.
struct Ticking(Instant, AtomicU32);

impl Clock for Ticking {
    fn now(&self) -> Instant {
        self.0 + ticks(self.1.fetch_add(1, Ordering::Relaxed))
    }
}

fn pausable() {
    MODEL_PAUSES.store(true, Ordering::Relaxed);
}

/// Invariant: no thread has seen a later time than the one at which a pause stops the engine, and
/// after the pause no thread sees an earlier one.
/// Legal ends: the reader was before the pause, in it, or after it.
#[test]
fn no_thread_sees_a_time_later_than_the_pause() {
    pausable();
    check(None, || {
        let (pauses, clock) = (Arc::new(Pauses::none_yet()), Looks::default());
        let (theirs, their_clock) = (Arc::clone(&pauses), clock.clone());
        let reader = thread::spawn(move || {
            let first = theirs.engine_ns(|| their_clock.look());
            let second = theirs.engine_ns(|| their_clock.look());
            assert!(second >= first, "time went back from {first} to {second}");
            second
        });
        assert!(pauses.pause(|| clock.look()));
        let stands_at = pauses.engine_ns(|| clock.look());
        let seen = reader.join().expect("no panic");
        assert!(seen <= stands_at, "{seen} was seen of {stands_at}");
        assert!(pauses.resume(|| clock.look()));
        assert!(pauses.engine_ns(|| clock.look()) >= stands_at);
    });
}

/// Invariant: of two threads that pause, and of two that resume, one does it, and the other neither
/// loses nor gains time.
/// Legal ends: either.
#[test]
fn two_pauses_at_once_are_one() {
    pausable();
    check(3, || {
        let (pauses, clock) = (Arc::new(Pauses::none_yet()), Looks::default());
        let (theirs, their_clock) = (Arc::clone(&pauses), clock.clone());
        let other = thread::spawn(move || theirs.pause(|| their_clock.look()));
        let mine = pauses.pause(|| clock.look());
        assert!(mine != other.join().expect("no panic"));
        let stands_at = pauses.engine_ns(|| clock.look());
        let (theirs, their_clock) = (Arc::clone(&pauses), clock.clone());
        let other = thread::spawn(move || theirs.resume(|| their_clock.look()));
        let mine = pauses.resume(|| clock.look());
        assert!(mine != other.join().expect("no panic"));
        assert!((stands_at..stands_at + 9).contains(&pauses.engine_ns(|| clock.look())));
    });
}

/// Invariant: a timeout that is scheduled in a pause does not run in it, even without a delay, and
/// even if a turn began before the pause.
/// Legal end: it runs when its time has passed after the pause. Without a delay it runs with the
/// next tick.
#[test]
fn a_timeout_scheduled_in_a_pause_runs_after_it() {
    pausable();
    check(2, || {
        let ledger = Ledger::default();
        let (timer, mut driver, clock) = driven(|b| b.capacity(2));
        let (paused, its_clock) = (timer.clone(), clock.clone());
        let [delayed, at_once] = [ledger.task(), ledger.task()];
        let thread = thread::spawn(move || {
            paused.pause();
            its_clock.advance(ticks(5));
            paused.schedule_detached(ticks(1), delayed).expect("open");
            paused.schedule_detached(ticks(0), at_once).expect("open");
        });
        driver.turn();
        thread.join().expect("no panic");
        assert_eq!((driver.turn(), ledger.ran()), (0, 0));
        timer.resume();
        assert_eq!(driver.turn(), 0);
        clock.advance(ticks(1));
        assert_eq!(driver.turn(), 2);
        ledger.assert_closed(2);
    });
}

/// Invariant: if a pause ends while the first timeout in it starts the worker, the worker does not
/// sleep on.
/// Legal end: it has run. (Otherwise the main thread waits for ever.)
#[test]
fn the_end_of_a_pause_calls_a_worker_that_is_just_being_started() {
    pausable();
    check(1, || {
        let ledger = Ledger::default();
        let clock = Ticking(Instant::now(), AtomicU32::new(0));
        let (timer, _clock) = with_workers(|b| b.clock(clock).executor(Inline).capacity(1));
        timer.pause();
        let (paused, ran) = (timer.clone(), Gate::new());
        let other = thread::spawn(move || paused.resume());
        timer.schedule_detached(ticks(1), ran.after(ledger.task())).expect("open");
        ran.wait();
        other.join().expect("no panic");
        assert!(timer.shutdown().expect("the first").is_empty());
        ledger.assert_closed(1);
    });
}
