//! A runtime whose clock stands still, and futures of `compat::tokio` without `test-util`: a call
//! that makes one panics at its caller's line. By a clock that goes on, none does.

#![cfg(debug_assertions)]

use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::thread::{self, ThreadId};

use tokio::runtime::{Builder, Runtime};
use tokio::time as theirs;
use tourbillon::compat::delay_queue::DelayQueue;
use tourbillon::compat::tokio::{self as time, Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// The messages of panics, and in which line of this file they were.
static PANICS: Mutex<Vec<(ThreadId, u32, String)>> = Mutex::new(Vec::new());

fn runtime(is_paused: bool) -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(is_paused).build().expect("a runtime")
}

/// Returns the line in which a call panics, and the message. In another file the line is 0.
fn panic_of<R>(call: impl FnOnce() -> R) -> Option<(u32, String)> {
    set_hook(Box::new(|info| {
        let line = info.location().filter(|at| at.file().ends_with("paused_clock.rs")).map_or(0, |at| at.line());
        let said = info.to_string();
        println!("{said}");
        PANICS.lock().unwrap_or_else(PoisonError::into_inner).push((thread::current().id(), line, said));
    }));
    catch_unwind(AssertUnwindSafe(call)).err()?;
    let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    let last = panics.iter().rposition(|(thread, ..)| *thread == thread::current().id())?;
    let (_, line, said) = panics.swap_remove(last);
    Some((line, said))
}

/// Asserts that each call has panicked in its line, with the name of the feature.
fn assert_noticed(calls: &[(u32, Option<(u32, String)>)]) {
    for (line, panic) in calls {
        let (at, said) = panic.as_ref().unwrap_or_else(|| panic!("line {line} does not panic"));
        assert!(said.contains("`test-util`"), "line {line}: {said}");
        assert_eq!(at, line, "{said}");
    }
}

#[test]
fn each_call_that_makes_a_future_by_a_paused_clock_panics_at_its_callers_line() {
    runtime(true).block_on(async {
        let at = Instant::now() + MS;
        assert_noticed(&[
            (line!(), panic_of(|| time::sleep(10_000 * MS))),
            (line!(), panic_of(|| time::sleep(Duration::MAX))),
            (line!(), panic_of(|| time::sleep_until(at))),
            (line!(), panic_of(|| time::timeout(5_000 * MS, theirs::sleep(60_000 * MS)))),
            (line!(), panic_of(|| time::timeout(Duration::MAX, ready(())))),
            (line!(), panic_of(|| time::timeout_at(at, pending::<()>()))),
            (line!(), panic_of(|| time::interval(MS))),
            (line!(), panic_of(|| time::interval_at(at, MS))),
        ]);
        let mut queue = DelayQueue::new();
        queue.insert("an item", MS);
        poll_fn(|context| {
            assert_noticed(&[(line!(), panic_of(|| queue.poll_expired(context)))]);
            Poll::Ready(())
        })
        .await;
    });
}

/// A clock that was stopped for a while lags behind, and one that a test has moved is ahead. A
/// deadline by either is a wrong one.
#[test]
fn a_clock_that_goes_on_at_another_time_is_noticed() {
    for (paused, moved) in [(20 * MS, Duration::ZERO), (Duration::ZERO, 3_600_000 * MS)] {
        runtime(true).block_on(async {
            thread::sleep(paused);
            theirs::advance(moved).await;
            theirs::resume();
            assert_noticed(&[(line!(), panic_of(|| time::sleep(MS)))]);
        });
    }
}

#[test]
fn no_call_panics_by_a_clock_that_was_never_paused() {
    let others = (0..2).map(|_| {
        thread::spawn(|| {
            // From now on Tokio asks each runtime for its clock.
            let paused = runtime(true);
            paused.block_on(async { theirs::sleep(MS).await });
            for runtime in [runtime(false), Builder::new_multi_thread().worker_threads(2).build().expect("one")] {
                runtime.block_on(async {
                    for n in 0..20_000 {
                        drop((time::sleep(n * MS), time::timeout(n * MS, pending::<()>()), time::interval(MS)));
                    }
                });
            }
            drop(paused);
            // Outside of a runtime.
            drop((time::sleep(MS), time::interval(MS)));
        })
    });
    others.collect::<Vec<_>>().into_iter().for_each(|other| other.join().expect("it does not panic"));
    let limited = async { time::timeout(60_000 * MS, time::sleep(5 * MS)).await };
    assert_eq!(runtime(false).block_on(limited), Ok(()));
}
