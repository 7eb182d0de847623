//! A thread that is cancelled (`pthread_cancel`) while it calls the library.

#![cfg(target_os = "linux")]

mod common;

use std::ffi::c_int;
use std::ptr;
use std::thread;

use common::{Counts, Engine, HOUR, MS, destroy, eventually, run};
use tourbillon_c::{Status, tourbillon_cancel_and_release, tourbillon_schedule};

unsafe extern "C" {
    fn pthread_self() -> usize;
    fn pthread_cancel(thread: usize) -> c_int;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}
const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Without the library's care the whole process aborts, as the cancellation unwinds through it.
#[test]
fn a_thread_is_not_cancelled_inside_a_call_and_still_can_be_behind_it() {
    let uncancelled = thread::spawn(|| {
        // SAFETY: the thread cancels itself, at its next cancellation point.
        assert_eq!(unsafe { pthread_cancel(pthread_self()) }, 0);
        // Each opens files, starts threads, or waits.
        let (counts, engine) = (Counts::default(), Engine::with_threads());
        let mut timeout = ptr::null_mut();
        // SAFETY: the engine lives, this thread keeps the counts, and releases the handle once.
        unsafe {
            let task = (Some(run as _), counts.data(), Some(destroy as _));
            assert_eq!(tourbillon_schedule(engine.timer, MS, task.0, task.1, task.2, ptr::null_mut()), Status::Ok);
            assert_eq!(tourbillon_schedule(engine.timer, HOUR, task.0, task.1, task.2, &raw mut timeout), Status::Ok);
            assert_eq!(tourbillon_cancel_and_release(timeout), Status::Ok);
        }
        let mut state = PTHREAD_CANCEL_DISABLE;
        // SAFETY: the call writes to `state` only.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state) };
        eventually("it runs", || counts.runs() == 1);
        drop(engine);
        state != PTHREAD_CANCEL_DISABLE
    });
    assert!(uncancelled.join().expect("it was not cancelled"), "each call leaves the thread as it was");
}
