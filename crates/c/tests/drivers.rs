//! An event loop that turns its engine.

mod common;

use std::ffi::c_void;
use std::ptr;
use std::thread;

use common::{Counts, Engine, HOUR, MS, destroy, run};
use tourbillon_c::{
    Status, TOURBILLON_NEVER, tourbillon_cancel_and_release, tourbillon_driver_free, tourbillon_next_wakeup_ms,
    tourbillon_next_wakeup_ns, tourbillon_on_earlier, tourbillon_release, tourbillon_reset, tourbillon_schedule,
    tourbillon_shutdown, tourbillon_timer_free, tourbillon_turn,
};

#[test]
fn the_next_wakeup_is_never_if_nothing_is_pending_and_rounded_up_otherwise() {
    let engine = Engine::driven();
    let counts = Counts::default();
    let mut timeout = ptr::null_mut();
    // SAFETY: the engine lives, the test keeps the counts, and the handle is released once.
    unsafe {
        assert_eq!(tourbillon_next_wakeup_ns(engine.driver), TOURBILLON_NEVER);
        assert_eq!(tourbillon_next_wakeup_ms(engine.driver), -1);
        assert_eq!(tourbillon_next_wakeup_ms(ptr::null()), -1);
        let data = counts.data();
        let delay = 10 * MS + 1;
        assert_eq!(tourbillon_schedule(engine.timer, delay, Some(run), data, None, &raw mut timeout), Status::Ok);
        let (ns, ms) = (tourbillon_next_wakeup_ns(engine.driver), tourbillon_next_wakeup_ms(engine.driver));
        assert!(ns <= 12 * MS && (0..=12).contains(&ms), "{ns} ns, {ms} ms");
        // Sleep for what it says until it fires. If it were rounded down, the loop would spin.
        let mut rounds = 0;
        loop {
            let ms = u64::try_from(tourbillon_next_wakeup_ms(engine.driver)).expect("it is pending");
            thread::sleep(std::time::Duration::from_millis(ms));
            if engine.turn() == 1 {
                break;
            }
            rounds += 1;
        }
        assert!(rounds <= 2, "{rounds} rounds too many");
        assert_eq!(tourbillon_next_wakeup_ms(engine.driver), -1);
        assert_eq!(tourbillon_release(timeout), Status::Ok);
        let centuries = TOURBILLON_NEVER / 100;
        assert_eq!(tourbillon_schedule(engine.timer, centuries, Some(run), data, None, &raw mut timeout), Status::Ok);
        assert!(tourbillon_next_wakeup_ms(engine.driver) > 0, "it is clamped");
        assert_eq!(tourbillon_cancel_and_release(timeout), Status::Ok);
    }
}

#[test]
fn another_thread_wakes_the_loop_for_an_earlier_timeout_and_not_for_a_later_one() {
    let engine = Engine::driven();
    let (counts, wakes) = (Counts::default(), Counts::default());
    let mut timeout = ptr::null_mut();
    // SAFETY: the engine lives, the test keeps the counts, and the handle is released once.
    unsafe {
        let status = tourbillon_on_earlier(engine.driver, Some(run), wakes.data(), Some(destroy));
        assert_eq!(status, Status::Ok);
        assert_eq!(tourbillon_on_earlier(engine.driver, None, wakes.data(), None), Status::InvalidArgument);
        let data = counts.data();
        assert_eq!(tourbillon_schedule(engine.timer, HOUR, Some(run), data, None, &raw mut timeout), Status::Ok);
        assert!(tourbillon_next_wakeup_ns(engine.driver) > HOUR / 2);
        let before = wakes.runs();
        assert_eq!(tourbillon_schedule(engine.timer, 2 * HOUR, Some(run), data, None, ptr::null_mut()), Status::Ok);
        assert_eq!(tourbillon_reset(timeout, 3 * HOUR), Status::Ok);
        assert_eq!(wakes.runs(), before);
        let shared = Shared(timeout);
        thread::scope(|scope| {
            scope.spawn(move || {
                let Shared(timeout) = { shared };
                assert_eq!(tourbillon_reset(timeout, MS), Status::Ok);
            });
        });
        assert_eq!(wakes.runs(), before + 1);
        engine.turn_until_fired(1);
        assert_eq!(tourbillon_release(timeout), Status::Ok);
        assert_eq!(wakes.destroyed(), 0);
    }
    drop(engine);
    assert_eq!(wakes.destroyed(), 1);
}

struct Shared(*mut tourbillon_c::Timeout);

// SAFETY: any thread may use a handle.
unsafe impl Send for Shared {}

/// Does from a callback what a callback must not do, and notes what it was told.
unsafe extern "C-unwind" fn misuse(data: *mut c_void) {
    // SAFETY: the test gives it this, and keeps it.
    let misuse = unsafe { &mut *data.cast::<Misuse>() };
    // SAFETY: the engine lives during its turn.
    unsafe {
        misuse.turn = tourbillon_turn(misuse.engine.driver, ptr::null_mut());
        misuse.free = tourbillon_driver_free(misuse.engine.driver);
        misuse.wakeup_ms = tourbillon_next_wakeup_ms(misuse.engine.driver);
        misuse.on_earlier = tourbillon_on_earlier(misuse.engine.driver, Some(run), ptr::null_mut(), None);
        misuse.shutdown = tourbillon_shutdown(misuse.engine.timer, None, ptr::null_mut());
    }
}

struct Misuse {
    engine: Engine,
    turn: Status,
    free: Status,
    wakeup_ms: i32,
    on_earlier: Status,
    shutdown: Status,
}

#[test]
fn a_callback_that_uses_its_own_driver_is_told_that_it_is_busy() {
    let mut misused = Misuse {
        engine: Engine::driven(),
        turn: Status::Ok,
        free: Status::Ok,
        wakeup_ms: -7,
        on_earlier: Status::Ok,
        shutdown: Status::Ok,
    };
    let (timer, driver, data) = (misused.engine.timer, misused.engine.driver, (&raw mut misused).cast());
    let mut fired = 0;
    // SAFETY: the engine lives, and the callback alone uses the data meanwhile.
    unsafe {
        assert_eq!(tourbillon_schedule(timer, 0, Some(misuse), data, None, ptr::null_mut()), Status::Ok);
        assert_eq!(tourbillon_turn(driver, &raw mut fired), Status::Ok);
    }
    assert_eq!(fired, 1);
    assert_eq!([misused.turn, misused.free, misused.on_earlier], [Status::Busy; 3]);
    assert_eq!((misused.wakeup_ms, misused.shutdown), (0, Status::FromCallback));
}

#[test]
fn the_timer_and_the_driver_may_be_freed_in_any_order() {
    for driver_first in [true, false] {
        let counts = Counts::default();
        let mut engine = Engine::driven();
        // SAFETY: the engine lives, the test keeps the counts, and each is freed once.
        unsafe {
            let data = counts.data();
            let status = tourbillon_schedule(engine.timer, HOUR, Some(run), data, Some(destroy), ptr::null_mut());
            assert_eq!(status, Status::Ok);
            if driver_first {
                assert_eq!(tourbillon_driver_free(engine.driver), Status::Ok);
                engine.driver = ptr::null_mut();
                let refused = tourbillon_schedule(engine.timer, 0, Some(run), data, None, ptr::null_mut());
                assert_eq!(refused, Status::Shutdown);
            } else {
                tourbillon_timer_free(engine.timer);
                engine.timer = ptr::null_mut();
                assert_eq!(engine.turn(), 0);
            }
            assert_eq!(counts.destroyed(), 1);
        }
    }
}

/// The data of a destructor that uses its own driver, and the answers that it got.
struct UsesItsDriver {
    driver: *mut tourbillon_c::Driver,
    answers: Vec<Status>,
}

unsafe extern "C-unwind" fn use_the_driver(data: *mut c_void) {
    // SAFETY: the test gives it a `UsesItsDriver`, and looks at that afterwards.
    unsafe {
        let data = &mut *data.cast::<UsesItsDriver>();
        data.answers.push(tourbillon_driver_free(data.driver));
        data.answers.push(tourbillon_turn(data.driver, ptr::null_mut()));
    }
}

#[test]
fn a_destructor_that_uses_the_driver_which_is_being_freed_is_told_that_it_is_busy() {
    let (mut timer, mut driver) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: both pointers may be written to, the data lives, and each is freed once.
    unsafe {
        assert_eq!(tourbillon_c::tourbillon_timer_new_driven(ptr::null(), &raw mut timer, &raw mut driver), Status::Ok);
        let mut uses = UsesItsDriver { driver, answers: Vec::new() };
        let data = (&raw mut uses).cast();
        let status = tourbillon_schedule(timer, HOUR, Some(run), data, Some(use_the_driver), ptr::null_mut());
        assert_eq!(status, Status::Ok);
        assert_eq!(tourbillon_driver_free(driver), Status::Ok);
        assert_eq!(uses.answers, [Status::Busy, Status::Busy]);
        tourbillon_timer_free(timer);
    }
}
