//! Panics of callbacks written in Rust. None crosses the border.

mod common;

use std::ffi::c_void;
use std::ptr;

use common::{Counts, Engine, HOUR, MS, destroy, eventually, panic, run};
use tourbillon_c::{
    Callback, Status, tourbillon_cancel, tourbillon_cancel_and_release, tourbillon_is_pending, tourbillon_on_earlier,
    tourbillon_release, tourbillon_schedule, tourbillon_schedule_every, tourbillon_shutdown,
};

#[test]
fn a_callback_that_panics_is_counted_and_the_others_of_its_batch_run() {
    let counts = Counts::default();
    for engine in [Engine::driven(), Engine::with_threads()] {
        let before = counts.runs();
        for index in 0..9 {
            let callback: Callback = if index % 3 == 1 { Some(panic) } else { Some(run) };
            // SAFETY: the engine lives, and the test keeps the counts.
            let status = unsafe {
                tourbillon_schedule(engine.timer, MS, callback, counts.data(), Some(destroy), ptr::null_mut())
            };
            assert_eq!(status, Status::Ok);
        }
        if engine.driver.is_null() {
            eventually("all run", || engine.stats().completed == 9);
        } else {
            engine.turn_until_fired(9);
        }
        assert_eq!((engine.stats().panicked, counts.runs() - before), (3, 6));
    }
    assert_eq!(counts.destroyed(), 0, "a callback that runs owns its data, also if it panics");
}

#[test]
fn a_panic_ends_a_periodic_timeout_and_destroys_its_data() {
    unsafe extern "C-unwind" fn panic_with_data(data: *mut c_void) {
        // SAFETY: it does not use it.
        unsafe { panic(data) };
    }
    let counts = Counts::default();
    let engine = Engine::driven();
    let (mut timeout, data) = (ptr::null_mut(), counts.data());
    // SAFETY: the engine lives, the test keeps the counts, and the handle is released once.
    unsafe {
        let callback: Callback = Some(panic_with_data);
        let every = tourbillon_schedule_every(engine.timer, 0, MS, callback, data, Some(destroy), &raw mut timeout);
        assert_eq!(every, Status::Ok);
        engine.turn_until_fired(1);
        assert!(!tourbillon_is_pending(timeout));
        assert_eq!(tourbillon_release(timeout), Status::Ok);
    }
    assert_eq!((counts.destroyed(), engine.stats().panicked), (1, 1));
}

#[test]
fn a_destructor_that_panics_is_an_error_and_the_timeout_is_cancelled() {
    let engine = Engine::driven();
    let scheduled = || {
        let mut timeout = ptr::null_mut();
        // SAFETY: the engine lives, and the callbacks don't use the data.
        let status = unsafe {
            tourbillon_schedule(engine.timer, HOUR, Some(panic), ptr::null_mut(), Some(panic), &raw mut timeout)
        };
        assert_eq!(status, Status::Ok);
        timeout
    };
    // SAFETY: each handle is released once.
    unsafe {
        let kept = scheduled();
        assert_eq!(tourbillon_cancel(kept), Status::Panicked);
        assert!(!tourbillon_is_pending(kept));
        assert_eq!(tourbillon_release(kept), Status::Ok);
        assert_eq!(tourbillon_cancel_and_release(scheduled()), Status::Panicked);
    }
    assert_eq!((engine.stats().cancelled, engine.stats().pending), (2, 0));
}

/// Counts, and panics for each.
unsafe extern "C-unwind" fn take_and_panic(context: *mut c_void, _: Callback, _: *mut c_void, _: u64) {
    // SAFETY: the test gives it its counts.
    unsafe {
        run(context);
        panic(context);
    }
}

#[test]
fn a_shutdown_hands_back_all_even_if_each_of_them_panics() {
    let (counts, handed_back) = (Counts::default(), Counts::default());
    let engine = Engine::driven();
    // SAFETY: the engine lives, and the test keeps the counts.
    unsafe {
        for _ in 0..5 {
            let data = counts.data();
            let status = tourbillon_schedule(engine.timer, HOUR, Some(run), data, Some(destroy), ptr::null_mut());
            assert_eq!(status, Status::Ok);
        }
        assert_eq!(tourbillon_shutdown(engine.timer, Some(take_and_panic), handed_back.data()), Status::Panicked);
    }
    assert_eq!((handed_back.runs(), counts.runs(), counts.destroyed()), (5, 0, 0));
}

#[test]
fn a_panic_of_the_callback_that_wakes_the_loop_does_not_reach_the_thread_that_schedules() {
    let counts = Counts::default();
    let engine = Engine::driven();
    // SAFETY: the engine lives, and the test keeps the counts.
    unsafe {
        assert_eq!(tourbillon_on_earlier(engine.driver, Some(panic), ptr::null_mut(), None), Status::Ok);
        let _ = tourbillon_c::tourbillon_next_wakeup_ns(engine.driver);
        let status = tourbillon_schedule(engine.timer, MS, Some(run), counts.data(), None, ptr::null_mut());
        assert_eq!(status, Status::Ok);
    }
    assert_eq!(engine.stats().panicked, 1);
    engine.turn_until_fired(1);
    assert_eq!(counts.runs(), 1);
}
