//! The answers that another library's fork handler gets in a child, if it was registered between
//! the first engine and its first timeout. The test is alone in its process, as the first
//! registered handler stays the first.

#![cfg(target_os = "linux")]

#[path = "common/child.rs"]
mod child;
mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

use tourbillon::{Refusal, Timeout, Timer};

use common::HOUR;

static WATCHED: Mutex<Option<(Timer, Timeout)>> = Mutex::new(None);
/// The handler's result, or 0 if it was not called.
static FOUND: AtomicI32 = AtomicI32::new(0);

extern "C" fn in_child() {
    let watched = WATCHED.lock().expect("no panic");
    let (timer, timeout) = watched.as_ref().expect("set before the fork");
    let is_reset = timeout.reset(HOUR);
    let refused = timer.schedule_detached(HOUR, || ());
    let is_forked = refused.is_err_and(|error| error.kind() == Refusal::Forked);
    FOUND.store(1 + i32::from(is_reset) * 2 + i32::from(!is_forked) * 4, Ordering::Relaxed);
}

#[test]
fn a_handler_of_others_is_told_that_it_is_in_a_forked_child() {
    let (timer, _driver) = Timer::builder().build_driven().expect("the options make sense");
    // SAFETY: the handler uses this library, whose promise to work in a child is under test, and
    // nothing that another thread holds.
    assert_eq!(unsafe { libc::pthread_atfork(None, None, Some(in_child)) }, 0);
    let timeout = timer.schedule(HOUR, || ()).expect("accepted");
    *WATCHED.lock().expect("no panic") = Some((timer, timeout));
    // 1: it was called. +2: a reset was true. +4: a timeout was accepted, or refused for another
    // reason.
    child::in_child("a handler of others", || FOUND.load(Ordering::Relaxed) - 1);
}
