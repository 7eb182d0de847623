//! A service that becomes a daemon: the child's limits work, whatever the parent has done before.

#![cfg(target_os = "linux")]

#[path = "../../../tests/common/child.rs"]
mod child;
#[path = "../../../tests/common/mod.rs"]
mod common;

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use pingora_timeout::fast_timeout::{pause_for_fork, unpause};
use pingora_timeout::{sleep, timeout};

use child::in_child;
use common::{MS, alone};

/// One fork at a time: another test's threads would be gone in the child, with the locks they hold.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static FORKS: Mutex<()> = Mutex::new(());
    FORKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a limit and a sleep end, and not early. A hang ends the test: `in_child` has patience.
fn limits_work() -> bool {
    let begun = Instant::now();
    let ended = pollster::block_on(timeout(20 * MS, pending::<()>())).is_err();
    pollster::block_on(sleep(20 * MS));
    ended && begun.elapsed() >= 40 * MS
}

/// The same from the threads of a runtime of the child's own, as Pingora starts it after the fork.
fn limits_work_on_a_runtime() -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("threads");
    let limits: Vec<_> = (0..100u32).map(|n| runtime.spawn(timeout(n % 10 * MS, pending::<()>()))).collect();
    limits.into_iter().all(|limit| runtime.block_on(limit).is_ok_and(|ended| ended.is_err()))
}

fn fails_unless(works: bool) -> i32 {
    i32::from(!works)
}

#[test]
fn a_child_that_is_forked_before_the_first_limit_has_limits() {
    // Other tests of this process have used an engine.
    alone(|| {
        in_child("nothing was used before", || fails_unless(limits_work() && limits_work_on_a_runtime()));
        assert!(limits_work());
        in_child("the parent has used it since", || fails_unless(limits_work()));
    });
}

#[test]
fn a_daemon_has_limits_and_so_has_its_parent() {
    let _one = one_at_a_time();
    assert!(limits_work());
    pause_for_fork();
    in_child("as Pingora forks", || {
        unpause();
        fails_unless(limits_work() && limits_work_on_a_runtime())
    });
    unpause();
    assert!(limits_work());
}

#[test]
fn a_child_has_limits_without_a_pause_and_so_has_its_child() {
    let _one = one_at_a_time();
    assert!(limits_work());
    in_child("a child", || {
        let mut works = limits_work() && limits_work_on_a_runtime();
        in_child("a child's child", || fails_unless(limits_work() && limits_work_on_a_runtime()));
        works &= limits_work();
        fails_unless(works)
    });
    in_child("another child", || fails_unless(limits_work()));
    assert!(limits_work());
}

#[test]
fn a_limit_that_was_pending_at_the_fork_ends_at_its_deadline_in_the_parent_and_in_the_child() {
    let _one = one_at_a_time();
    let begun = Instant::now();
    let mut limited = pin!(timeout(200 * MS, pending::<()>()));
    assert!(limited.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    in_child("polled again", || {
        let ended = pollster::block_on(limited.as_mut()).is_err();
        let took = begun.elapsed();
        fails_unless(ended && took >= 200 * MS)
    });
    assert!(pollster::block_on(limited).is_err() && begun.elapsed() >= 200 * MS);
}

#[test]
fn a_limit_that_is_dropped_in_the_child_ends_in_the_parent() {
    let _one = one_at_a_time();
    let mut limited = Box::pin(timeout(100 * MS, pending::<()>()));
    assert!(limited.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let parents = &raw mut limited;
    in_child("dropped", || {
        // SAFETY: the child's copy is the only one in its process, and the child leaves without
        // dropping it again.
        drop(unsafe { std::ptr::read(parents) });
        fails_unless(limits_work())
    });
    assert!(pollster::block_on(limited).is_err());
}

#[test]
fn a_child_of_a_process_whose_threads_use_limits_all_the_time_has_limits() {
    let _one = one_at_a_time();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut limited = pin!(timeout(Duration::from_secs(60), pending::<()>()));
                let _ = limited.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
        });
        for round in 0..10 {
            thread::sleep(MS);
            in_child(&format!("round {round}"), || fails_unless(limits_work()));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(limits_work());
}
