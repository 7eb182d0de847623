//! Timeouts through the functions that C calls.

mod common;

use std::ffi::{CStr, c_void};
use std::ptr;

use common::{Counts, Engine, HOUR, MS, destroy, eventually, run};
use tourbillon_c::{
    Callback, Options, Stats, Status, TOURBILLON_INLINE, TOURBILLON_NEVER, Timeout, tourbillon_cancel,
    tourbillon_cancel_and_release, tourbillon_error_message, tourbillon_is_pending, tourbillon_now_ns,
    tourbillon_pending, tourbillon_release, tourbillon_remaining_ns, tourbillon_reset, tourbillon_reset_at,
    tourbillon_reset_many, tourbillon_schedule, tourbillon_schedule_at, tourbillon_schedule_every, tourbillon_shutdown,
    tourbillon_shutdown_drain, tourbillon_shutdown_fire_now, tourbillon_stats_get, tourbillon_timer_new,
    tourbillon_timer_new_driven, tourbillon_version,
};

fn schedule(engine: &Engine, delay_ns: u64, counts: &Counts) -> *mut Timeout {
    let mut timeout = ptr::null_mut();
    // SAFETY: the engine lives, and the test keeps the counts.
    let status = unsafe {
        tourbillon_schedule(engine.timer, delay_ns, Some(run), counts.data(), Some(destroy), &raw mut timeout)
    };
    assert_eq!(status, Status::Ok);
    timeout
}

#[test]
fn a_callback_runs_once_on_threads_and_its_data_is_then_its_own() {
    let counts = Counts::default();
    let engine = Engine::with_threads();
    let timeout = schedule(&engine, MS, &counts);
    eventually("it runs", || counts.runs() == 1);
    // SAFETY: the handle was not released before.
    unsafe {
        assert!(!tourbillon_is_pending(timeout));
        assert_eq!(tourbillon_remaining_ns(timeout), 0);
        assert_eq!(tourbillon_reset(timeout, MS), Status::NotPending);
        assert_eq!(tourbillon_cancel(timeout), Status::NotPending);
        assert_eq!(tourbillon_release(timeout), Status::Ok);
    }
    drop(engine);
    assert_eq!((counts.runs(), counts.destroyed()), (1, 0));
}

#[test]
fn a_driven_engine_fires_in_its_turn_and_never_early() {
    let counts = Counts::default();
    let engine = Engine::driven();
    // SAFETY: the engine lives.
    let begin = unsafe { tourbillon_now_ns(engine.timer) };
    let timeout = schedule(&engine, 5 * MS, &counts);
    engine.turn_until_fired(1);
    // SAFETY: the engine lives, and the handle was not released before.
    unsafe {
        assert!(tourbillon_now_ns(engine.timer) - begin >= 5 * MS);
        assert_eq!(tourbillon_cancel_and_release(timeout), Status::NotPending);
    }
    assert_eq!((counts.runs(), counts.destroyed()), (1, 0));
}

#[test]
fn a_cancel_that_was_in_time_destroys_the_data_once_and_nothing_runs() {
    let counts = Counts::default();
    let engine = Engine::driven();
    let (first, second) = (schedule(&engine, HOUR, &counts), schedule(&engine, HOUR, &counts));
    // SAFETY: each handle is released once, at its end.
    unsafe {
        assert_eq!(tourbillon_pending(engine.timer), 2);
        assert_eq!(tourbillon_cancel(first), Status::Ok);
        assert_eq!(tourbillon_cancel(first), Status::NotPending);
        assert_eq!(tourbillon_cancel_and_release(second), Status::Ok);
        assert_eq!(tourbillon_release(first), Status::Ok);
    }
    assert_eq!((counts.runs(), counts.destroyed()), (0, 2));
    assert_eq!(engine.stats().cancelled, 2);
}

#[test]
fn a_reset_moves_a_timeout_later_and_earlier() {
    let counts = Counts::default();
    let engine = Engine::driven();
    let timeout = schedule(&engine, HOUR, &counts);
    // SAFETY: the engine lives, and the handle is released once, at the end.
    unsafe {
        assert_eq!(tourbillon_reset(timeout, 2 * HOUR), Status::Ok);
        assert!(tourbillon_remaining_ns(timeout) > HOUR);
        let now = tourbillon_now_ns(engine.timer);
        assert_eq!(tourbillon_reset_at(engine.timer, timeout, now + 3 * HOUR), Status::Ok);
        assert!(tourbillon_remaining_ns(timeout) > 2 * HOUR);
        assert_eq!(tourbillon_reset(timeout, TOURBILLON_NEVER), Status::Ok);
        assert_eq!(tourbillon_remaining_ns(timeout), TOURBILLON_NEVER);
        assert_eq!(tourbillon_reset_at(engine.timer, timeout, 0), Status::Ok);
        engine.turn_until_fired(1);
        assert_eq!(tourbillon_release(timeout), Status::Ok);
    }
    assert_eq!((counts.runs(), engine.stats().reset), (1, 4));
}

#[test]
fn many_timeouts_are_reset_at_once_and_the_answer_is_how_many_were_pending() {
    let counts = Counts::default();
    let engine = Engine::driven();
    let mut handles: Vec<_> = (0..200).map(|_| schedule(&engine, HOUR, &counts)).collect();
    let mut pending = 0;
    // SAFETY: the engine lives, and each handle is released once, at the end.
    unsafe {
        let reset = |handles: &[*mut Timeout], delay_ns, pending| {
            tourbillon_reset_many(engine.timer, handles.as_ptr(), handles.len(), delay_ns, pending)
        };
        assert_eq!(tourbillon_cancel(handles[7]), Status::Ok);
        assert_eq!(reset(&handles, 3 * HOUR, &raw mut pending), Status::Ok);
        assert_eq!(pending, 199);
        assert!(handles.iter().enumerate().all(|(n, &timeout)| n == 7 || tourbillon_remaining_ns(timeout) > 2 * HOUR));
        assert_eq!(reset(&[], 0, &raw mut pending), Status::Ok);
        assert_eq!(pending, 0);
        assert_eq!(tourbillon_reset_many(engine.timer, ptr::null(), 1, 0, ptr::null_mut()), Status::InvalidArgument);
        assert_eq!(reset(&handles, MS, ptr::null_mut()), Status::Ok);
        handles.push(ptr::null_mut());
        assert_eq!(reset(&handles[200..], 0, ptr::null_mut()), Status::InvalidArgument);
        engine.turn_until_fired(199);
        for handle in handles {
            assert_eq!(tourbillon_release(handle), Status::Ok);
        }
    }
    assert_eq!((counts.runs(), counts.destroyed()), (199, 1));
}

#[test]
fn a_timeout_without_a_handle_fires_and_so_does_one_whose_handle_was_released() {
    let counts = Counts::default();
    let engine = Engine::driven();
    // SAFETY: the engine lives, and the test keeps the counts.
    unsafe {
        let data = counts.data();
        let no_handle = ptr::null_mut();
        assert_eq!(tourbillon_schedule(engine.timer, MS, Some(run), data, None, no_handle), Status::Ok);
        let now = tourbillon_now_ns(engine.timer);
        assert_eq!(tourbillon_schedule_at(engine.timer, now, Some(run), data, None, no_handle), Status::Ok);
        assert_eq!(tourbillon_release(schedule(&engine, 2 * MS, &counts)), Status::Ok);
        assert_eq!(tourbillon_release(ptr::null_mut()), Status::Ok);
    }
    engine.turn_until_fired(3);
    assert_eq!((counts.runs(), counts.destroyed()), (3, 0));
}

#[test]
fn a_periodic_timeout_runs_until_it_is_cancelled_and_then_destroys_its_data() {
    let counts = Counts::default();
    let engine = Engine::driven();
    let mut timeout = ptr::null_mut();
    // SAFETY: the engine lives, the test keeps the counts, and the handle is released once.
    unsafe {
        let every = |period, timeout| {
            tourbillon_schedule_every(engine.timer, MS, period, Some(run), counts.data(), Some(destroy), timeout)
        };
        assert_eq!(every(0, ptr::null_mut()), Status::ZeroPeriod);
        assert_eq!(counts.destroyed(), 0, "the data of a refused timeout stays the caller's");
        assert_eq!(every(MS, &raw mut timeout), Status::Ok);
        eventually("it runs again and again", || {
            engine.turn();
            counts.runs() >= 3
        });
        assert_eq!(counts.destroyed(), 0);
        assert_eq!(tourbillon_cancel_and_release(timeout), Status::Ok);
    }
    assert_eq!(counts.destroyed(), 1);
}

#[test]
fn the_data_of_a_refused_call_stays_the_callers_and_the_status_says_why() {
    let counts = Counts::default();
    let options = Options { max_pending: 1, ..Options::default() };
    let engine = Engine::driven_by(&options).expect("the options make sense");
    let timeout = schedule(&engine, HOUR, &counts);
    let again = |callback: Callback| {
        // SAFETY: the engine lives, and the test keeps the counts.
        unsafe { tourbillon_schedule(engine.timer, HOUR, callback, counts.data(), Some(destroy), ptr::null_mut()) }
    };
    assert_eq!((again(Some(run)), again(None)), (Status::Full, Status::InvalidArgument));
    // SAFETY: the engine lives, and the handle is released once.
    unsafe {
        let none = ptr::null();
        assert_eq!(
            tourbillon_schedule(none, 0, Some(run), counts.data(), None, ptr::null_mut()),
            Status::InvalidArgument
        );
        assert_eq!(tourbillon_cancel_and_release(timeout), Status::Ok);
        assert_eq!(tourbillon_cancel(ptr::null()), Status::InvalidArgument);
        assert_eq!(tourbillon_shutdown(engine.timer, None, ptr::null_mut()), Status::Ok);
        assert_eq!(tourbillon_shutdown(engine.timer, None, ptr::null_mut()), Status::Shutdown);
    }
    assert_eq!(again(Some(run)), Status::Shutdown);
    assert_eq!((counts.runs(), counts.destroyed()), (0, 1));
    let full = text(tourbillon_error_message(Status::Full as i32));
    assert!(full.contains("max_pending"), "{full}");
}

fn text(from: *const std::ffi::c_char) -> &'static str {
    // SAFETY: the library's texts live for ever.
    unsafe { CStr::from_ptr(from) }.to_str().expect("it is English")
}

#[test]
fn every_status_has_a_text_of_its_own() {
    let texts: std::collections::BTreeSet<_> = (-1..=13).map(|status| text(tourbillon_error_message(status))).collect();
    assert_eq!(texts.len(), 13 + 1, "13 statuses, and one text for what is none");
    assert_eq!(text(tourbillon_version()), env!("CARGO_PKG_VERSION"));
}

/// Collects what a shutdown hands back.
unsafe extern "C-unwind" fn collect(context: *mut c_void, callback: Callback, data: *mut c_void, deadline_ns: u64) {
    // SAFETY: the test gives it a list.
    let list = unsafe { &mut *context.cast::<Vec<(Callback, *mut c_void, u64)>>() };
    list.push((callback, data, deadline_ns));
}

#[test]
fn a_shutdown_hands_back_each_timeout_with_its_data_and_destroys_none() {
    let counts = Counts::default();
    for engine in [Engine::driven(), Engine::with_threads()] {
        let timeout = schedule(&engine, HOUR, &counts);
        let mut list: Vec<(Callback, *mut c_void, u64)> = Vec::new();
        // SAFETY: the engine lives, the test keeps the counts and the list, and the handle is
        // released once.
        unsafe {
            let (data, mut beat) = (counts.data(), ptr::null_mut());
            let every =
                tourbillon_schedule_every(engine.timer, 2 * HOUR, 1, Some(run), data, Some(destroy), &raw mut beat);
            assert_eq!(every, Status::Ok);
            assert_eq!(tourbillon_shutdown(engine.timer, Some(collect), (&raw mut list).cast()), Status::Ok);
            assert!(!tourbillon_is_pending(timeout) && !tourbillon_is_pending(beat));
            assert_eq!(tourbillon_release(timeout), Status::Ok);
            assert_eq!(tourbillon_release(beat), Status::Ok);
        }
        list.sort_by_key(|unfired| unfired.2);
        assert!(list[0].2 >= HOUR && list[0].2 < 2 * HOUR && list[1].2 >= 2 * HOUR);
        assert_eq!(list.len(), 2);
        for (callback, data, _) in list {
            assert_eq!(data, counts.data());
            // SAFETY: it is `run`, which takes these counts.
            unsafe { callback.expect("it is not null")(data) };
        }
    }
    assert_eq!((counts.runs(), counts.destroyed()), (4, 0));
}

/// Cancels a timeout of another engine while a shutdown hands back.
unsafe extern "C-unwind" fn cancel_another(context: *mut c_void, _: Callback, _: *mut c_void, _: u64) {
    // SAFETY: the test gives it a handle.
    assert_eq!(unsafe { tourbillon_cancel(context.cast()) }, Status::Ok);
}

#[test]
fn a_timeout_cancelled_while_a_shutdown_hands_back_is_destroyed_and_not_handed_back() {
    let (counts, others) = (Counts::default(), Counts::default());
    let (engine, other) = (Engine::driven(), Engine::driven());
    let theirs = schedule(&other, HOUR, &others);
    // SAFETY: the engines live, the test keeps the counts, and each handle is released once.
    unsafe {
        let ours = schedule(&engine, HOUR, &counts);
        assert_eq!(tourbillon_shutdown(engine.timer, Some(cancel_another), theirs.cast()), Status::Ok);
        assert_eq!(tourbillon_release(ours), Status::Ok);
        assert_eq!(tourbillon_release(theirs), Status::Ok);
    }
    assert_eq!((counts.destroyed(), others.destroyed()), (0, 1));
}

#[test]
fn the_other_shutdowns_run_what_is_pending_or_wait_for_it() {
    let (counts, soon) = (Counts::default(), Counts::default());
    let (now, drained) = (Engine::with_threads(), Engine::with_threads());
    // SAFETY: the engines live, the test keeps the counts, and each handle is released once.
    unsafe {
        let (first, second) = (schedule(&now, HOUR, &counts), schedule(&drained, 5 * MS, &soon));
        assert_eq!((tourbillon_shutdown_fire_now(now.timer), counts.runs()), (Status::Ok, 1));
        let status = tourbillon_shutdown_drain(drained.timer, HOUR, None, ptr::null_mut());
        assert_eq!((status, soon.runs()), (Status::Ok, 1));
        assert_eq!((tourbillon_release(first), tourbillon_release(second)), (Status::Ok, Status::Ok));
    }
    assert_eq!((counts.destroyed(), soon.destroyed()), (0, 0));
}

#[test]
fn an_engine_that_is_freed_destroys_the_data_of_what_is_pending() {
    let counts = Counts::default();
    let engine = Engine::driven();
    let timeout = schedule(&engine, HOUR, &counts);
    drop(engine);
    assert_eq!((counts.runs(), counts.destroyed()), (0, 1));
    // SAFETY: a handle may outlive its engine.
    unsafe {
        assert_eq!(tourbillon_reset(timeout, MS), Status::NotPending);
        assert_eq!(tourbillon_release(timeout), Status::Ok);
    }
}

#[test]
fn an_option_that_makes_no_sense_is_refused_with_a_text() {
    let mut message = [0x7f_u8; 64];
    let wrong = Options {
        tick_ns: 10,
        message: message.as_mut_ptr().cast(),
        message_size: message.len(),
        ..Options::default()
    };
    assert_eq!(Engine::driven_by(&wrong).err(), Some(Status::InvalidOption));
    let said = CStr::from_bytes_until_nul(&message).expect("it ends in the buffer").to_str().expect("English");
    assert_eq!(said, "tick_duration is 10 ns; it must be 1000 ns at least");
    let short = Options { message_size: 5, ..wrong };
    assert_eq!(Engine::driven_by(&short).err(), Some(Status::InvalidOption));
    assert_eq!(&message[..6], b"tick\0d");
    let unknown = Options { flags: 1 << 30, ..Options::default() };
    assert_eq!(Engine::driven_by(&unknown).err(), Some(Status::InvalidOption));
    let no_size = Options { size: 0, ..Options::default() };
    assert_eq!(Engine::driven_by(&no_size).err(), Some(Status::InvalidArgument));
    // SAFETY: null is an argument that both refuse.
    unsafe {
        assert_eq!(tourbillon_timer_new(ptr::null(), ptr::null_mut()), Status::InvalidArgument);
        assert_eq!(tourbillon_timer_new_driven(ptr::null(), ptr::null_mut(), ptr::null_mut()), Status::InvalidArgument);
    }
}

#[test]
fn all_options_are_taken_and_an_older_header_may_have_fewer_of_them() {
    let options = Options {
        tick_ns: MS / 10,
        shards: 2,
        pool_threads: 1,
        ticks_per_wheel: 64,
        capacity: 1_000,
        max_pending: 10,
        turn_limit: 100,
        max_wait_ns: MS,
        thread_name: c"wheel".as_ptr(),
        flags: TOURBILLON_INLINE | tourbillon_c::TOURBILLON_UNPINNED | tourbillon_c::TOURBILLON_NO_WAIT,
        ..Options::default()
    };
    let counts = Counts::default();
    let mut timer = ptr::null_mut();
    // SAFETY: the options are a local's, and so is the pointer.
    assert_eq!(unsafe { tourbillon_timer_new(&raw const options, &raw mut timer) }, Status::Ok);
    let engine = Engine { timer, driver: ptr::null_mut() };
    let timeout = schedule(&engine, MS, &counts);
    eventually("it runs", || counts.runs() == 1);
    assert!(engine.stats().capacity >= 1_000);
    // SAFETY: the handle was not released before.
    assert_eq!(unsafe { tourbillon_release(timeout) }, Status::Ok);
    // An older header had `size` and `tick_ns` only, so the wrong `shards` is not read.
    let older = Options { size: 2 * size_of::<u64>(), shards: usize::MAX, ..Options::default() };
    assert!(Engine::driven_by(&older).is_ok());
}

#[test]
fn stats_fill_what_the_caller_has_room_for() {
    let engine = Engine::driven();
    let counts = Counts::default();
    let timeout = schedule(&engine, HOUR, &counts);
    let mut stats = Stats { size: 2 * size_of::<u64>(), fired: 77, ..Stats::default() };
    // SAFETY: the engine lives, the pointer is to a local, and the handle is released once.
    unsafe {
        assert_eq!(tourbillon_stats_get(engine.timer, &raw mut stats), Status::Ok);
        assert_eq!((stats.size, stats.scheduled, stats.fired), (16, 1, 77));
        stats.size = 0;
        assert_eq!(tourbillon_stats_get(engine.timer, &raw mut stats), Status::InvalidArgument);
        assert_eq!(tourbillon_stats_get(engine.timer, ptr::null_mut()), Status::InvalidArgument);
        assert_eq!(tourbillon_cancel_and_release(timeout), Status::Ok);
    }
}
