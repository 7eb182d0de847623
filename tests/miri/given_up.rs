//! Timeouts that are cancelled together with their handles, by one exchange.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::thread;

use crate::common::{HOUR, MS, driven_by};
use crate::{few, small};

#[test]
fn handles_are_given_up_while_their_engine_ends() {
    for round in 0..few(6, 50) {
        let (timer, mut driver, clock) = driven_by(small());
        let witness = Arc::new(());
        let (mut guards, mut sleeps) = (Vec::new(), Vec::new());
        for n in 0..6_u64 {
            let (held, large) = (Arc::clone(&witness), [n; 8]);
            guards.push(timer.schedule(MS, move || drop((held, large))).expect("accepted").cancel_on_drop());
            let mut sleep = timer.sleep(MS);
            assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            sleeps.push(sleep);
        }
        // Its task owns the engine, too.
        let owner = timer.clone();
        let last = timer.schedule(HOUR, move || drop(owner)).expect("accepted");
        drop(timer);
        clock.advance(MS);
        let barrier = Arc::new(Barrier::new(2));
        let theirs = Arc::clone(&barrier);
        let other = thread::spawn(move || {
            theirs.wait();
            if round % 2 == 0 {
                driver.turn();
            }
            drop(driver);
        });
        barrier.wait();
        drop(sleeps);
        last.cancel_owned();
        drop(guards);
        other.join().expect("no panic");
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}

#[test]
fn entries_that_were_given_up_are_used_again_while_the_worker_turns() {
    let (timer, mut driver, _clock) = driven_by(small());
    let (stop, witness) = (Arc::new(AtomicBool::new(false)), Arc::new(()));
    let theirs = Arc::clone(&stop);
    let other = thread::spawn(move || {
        while !theirs.load(Ordering::Relaxed) {
            driver.turn();
        }
        driver.turn();
        driver
    });
    for n in 0..few(40, 2_000) {
        let schedule = |_| {
            let held = Arc::clone(&witness);
            timer.schedule(HOUR, move || drop(held)).expect("accepted")
        };
        let timeouts: Vec<_> = (0..n % 5 + 1).map(schedule).collect();
        timeouts.into_iter().for_each(|timeout| assert!(timeout.cancel_owned()));
    }
    stop.store(true, Ordering::Relaxed);
    let _driver = other.join().expect("no panic");
    assert_eq!((timer.pending(), Arc::strong_count(&witness)), (0, 1));
}
