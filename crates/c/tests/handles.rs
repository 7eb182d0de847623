//! A handle that is used after its release: an error in a build with checks.
//!
//! Without checks such a use is undefined, so there is nothing to test: what is defined then, that
//! handles of timeouts that are over stay valid until their release, is in `timeouts.rs`.

mod common;

use std::ptr;
use std::thread;

use common::{Counts, Engine, HOUR, destroy, run};
use tourbillon_c::{Status, Timeout, tourbillon_cancel_and_release, tourbillon_is_pending, tourbillon_schedule};

fn schedule(engine: &Engine, counts: &Counts) -> *mut Timeout {
    let mut timeout = ptr::null_mut();
    // SAFETY: the engine lives, and the test keeps the counts.
    let status =
        unsafe { tourbillon_schedule(engine.timer, HOUR, Some(run), counts.data(), Some(destroy), &raw mut timeout) };
    assert_eq!(status, Status::Ok);
    timeout
}

#[cfg(any(debug_assertions, feature = "checked"))]
mod checked {
    use super::*;
    use std::process::Command;
    use tourbillon_c::{
        tourbillon_cancel, tourbillon_release, tourbillon_remaining_ns, tourbillon_reset, tourbillon_reset_at,
        tourbillon_reset_many,
    };

    /// Every use of a released handle. Other timeouts are pending meanwhile, and must not be hit.
    fn use_released(released: *mut Timeout, engine: &Engine) {
        // SAFETY: this build checks handles.
        unsafe {
            assert_eq!(tourbillon_reset(released, 1), Status::Released);
            assert_eq!(tourbillon_reset_at(engine.timer, released, 1), Status::Released);
            assert_eq!(tourbillon_cancel(released), Status::Released);
            assert_eq!(tourbillon_cancel_and_release(released), Status::Released);
            assert_eq!(tourbillon_release(released), Status::Released);
            let many = tourbillon_reset_many(engine.timer, &raw const released, 1, 1, ptr::null_mut());
            assert_eq!(many, Status::Released);
            assert!(!tourbillon_is_pending(released));
            assert_eq!(tourbillon_remaining_ns(released), 0);
        }
    }

    #[test]
    fn a_released_handle_is_an_error_in_every_call_and_reaches_no_other_timeout() {
        let counts = Counts::default();
        let engine = Engine::driven();
        for round in 0..10 {
            let released = schedule(&engine, &counts);
            // SAFETY: it is released once here. The check answers what follows.
            let status = unsafe {
                if round % 2 == 0 { tourbillon_cancel_and_release(released) } else { tourbillon_release(released) }
            };
            assert_eq!(status, Status::Ok);
            // The engine uses the memory of the one that was cancelled again.
            let other = schedule(&engine, &counts);
            use_released(released, &engine);
            // SAFETY: this one was not released before.
            assert_eq!(unsafe { tourbillon_cancel_and_release(other) }, Status::Ok);
        }
        assert_eq!((counts.runs(), counts.destroyed()), (0, 15));
    }

    #[test]
    fn the_message_names_the_call() {
        const AGAIN: &str = "TOURBILLON_C_USES_A_RELEASED_HANDLE";
        if std::env::var_os(AGAIN).is_some() {
            let counts = Counts::default();
            let engine = Engine::driven();
            let released = schedule(&engine, &counts);
            // SAFETY: this build checks handles.
            unsafe {
                assert_eq!(tourbillon_cancel_and_release(released), Status::Ok);
                assert_eq!(tourbillon_reset(released, 1), Status::Released);
            }
            return;
        }
        let test = "checked::the_message_names_the_call";
        let output = Command::new(std::env::current_exe().expect("it runs"))
            .args([test, "--exact", "--nocapture"])
            .env(AGAIN, "1")
            .output()
            .expect("it runs again");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("tourbillon: tourbillon_reset was given a handle that was released before"), "{said}");
    }
}

#[test]
fn a_handle_is_a_pointer_that_threads_may_share() {
    struct Shared(*mut Timeout);
    // SAFETY: any thread may use a handle.
    unsafe impl Sync for Shared {}

    let counts = Counts::default();
    let engine = Engine::driven();
    let shared = Shared(schedule(&engine, &counts));
    let cancelled: usize = thread::scope(|scope| {
        let cancel = || {
            let Shared(timeout) = &shared;
            // SAFETY: it is released below, after the threads have ended.
            usize::from(unsafe { tourbillon_c::tourbillon_cancel(*timeout) } == Status::Ok)
        };
        let threads = [scope.spawn(cancel), scope.spawn(cancel), scope.spawn(cancel)];
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!((cancelled, counts.destroyed()), (1, 1));
    // SAFETY: the threads have ended.
    unsafe {
        assert!(!tourbillon_is_pending(shared.0));
        assert_eq!(tourbillon_cancel_and_release(shared.0), Status::NotPending);
    }
}
