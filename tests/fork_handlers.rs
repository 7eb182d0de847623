//! What another library's handler finds in a child that was forked off, if it was registered between the first engine and its first
//! timeout. Alone in its process, as what is registered first stays the first.

#![cfg(target_os = "linux")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tourbillon::{ScheduleError, Timeout, Timer};

const HOUR: Duration = Duration::from_secs(3_600);

static WATCHED: Mutex<Option<(Timer, Timeout)>> = Mutex::new(None);
/// What the handler has found; 0 if it was not called.
static FOUND: AtomicI32 = AtomicI32::new(0);

extern "C" fn in_child() {
    let watched = WATCHED.lock().expect("no panic");
    let (timer, timeout) = watched.as_ref().expect("set before the fork");
    let is_reset = timeout.reset(HOUR);
    let is_forked = matches!(timer.schedule_detached(HOUR, || ()), Err(ScheduleError::Forked(_)));
    FOUND.store(1 + i32::from(is_reset) * 2 + i32::from(!is_forked) * 4, Ordering::Relaxed);
}

#[test]
fn a_handler_of_others_is_told_that_it_is_in_a_forked_child() {
    let (timer, _driver) = Timer::builder().build_driven().expect("the options make sense");
    // SAFETY: the handler uses this library, whose promise to work in a child is what is tested, and nothing that another thread holds.
    assert_eq!(unsafe { libc::pthread_atfork(None, None, Some(in_child)) }, 0);
    let timeout = timer.schedule(HOUR, || ()).expect("accepted");
    *WATCHED.lock().expect("no panic") = Some((timer, timeout));
    // SAFETY: the child leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        // SAFETY: always allowed.
        unsafe { libc::_exit(FOUND.load(Ordering::Relaxed)) };
    }
    let mut status = 0;
    // SAFETY: our own child, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status));
    assert_eq!(
        libc::WEXITSTATUS(status),
        1,
        "+2: a reset was true; +4: something was accepted, or refused for another reason"
    );
}
