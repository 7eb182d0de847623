//! The helpers that the tests share: engines, and callbacks that count.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon_c::{
    Driver, Options, Stats, Status, Timer, tourbillon_driver_free, tourbillon_stats_get, tourbillon_timer_free,
    tourbillon_timer_new, tourbillon_timer_new_driven, tourbillon_turn,
};

/// A millisecond, in nanoseconds.
pub(crate) const MS: u64 = 1_000_000;
/// An hour, in nanoseconds.
pub(crate) const HOUR: u64 = 3_600_000 * MS;
/// How long a test waits for what must happen sometime, even on a heavily loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a callback ran, and how often the data was destroyed.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    runs: AtomicUsize,
    destroyed: AtomicUsize,
}

impl Counts {
    pub(crate) fn data(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub(crate) fn destroyed(&self) -> usize {
        self.destroyed.load(Ordering::SeqCst)
    }
}

/// # Safety
/// The data is a [`Counts`] that lives.
unsafe fn counts<'a>(data: *mut c_void) -> &'a Counts {
    // SAFETY: the caller's contract.
    unsafe { &*data.cast::<Counts>() }
}

pub(crate) unsafe extern "C-unwind" fn run(data: *mut c_void) {
    // SAFETY: the tests give it a `Counts`.
    unsafe { counts(data) }.runs.fetch_add(1, Ordering::SeqCst);
}

pub(crate) unsafe extern "C-unwind" fn destroy(data: *mut c_void) {
    // SAFETY: the tests give it a `Counts`.
    unsafe { counts(data) }.destroyed.fetch_add(1, Ordering::SeqCst);
}

pub(crate) unsafe extern "C-unwind" fn panic(_data: *mut c_void) {
    panic!("a callback that panics");
}

/// An engine, which is freed at the end of the test.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) timer: *mut Timer,
    /// Null if the engine has threads.
    pub(crate) driver: *mut Driver,
}

impl Engine {
    pub(crate) fn with_threads() -> Self {
        let mut timer = ptr::null_mut();
        // SAFETY: null options are the defaults, and the pointer is a local's.
        assert_eq!(unsafe { tourbillon_timer_new(ptr::null(), &raw mut timer) }, Status::Ok);
        Self { timer, driver: ptr::null_mut() }
    }

    pub(crate) fn driven() -> Self {
        Self::driven_by(&Options::default()).expect("the defaults make sense")
    }

    pub(crate) fn driven_by(options: &Options) -> Result<Self, Status> {
        let (mut timer, mut driver) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: all pointers are to locals, or from the test.
        match unsafe { tourbillon_timer_new_driven(options, &raw mut timer, &raw mut driver) } {
            Status::Ok => Ok(Self { timer, driver }),
            status => Err(status),
        }
    }

    /// Turns once, and returns how many timeouts fired.
    pub(crate) fn turn(&self) -> usize {
        let mut fired = 0;
        // SAFETY: the driver lives.
        assert_eq!(unsafe { tourbillon_turn(self.driver, &raw mut fired) }, Status::Ok);
        fired
    }

    /// Turns until so many timeouts have fired, or for as long as the test has patience.
    pub(crate) fn turn_until_fired(&self, count: usize) {
        let mut fired = 0;
        eventually("they fire", || {
            fired += self.turn();
            fired >= count
        });
        assert_eq!(fired, count);
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats { size: size_of::<Stats>(), ..Stats::default() };
        // SAFETY: the timer lives, and the pointer is to a local.
        assert_eq!(unsafe { tourbillon_stats_get(self.timer, &raw mut stats) }, Status::Ok);
        stats
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: the test is over, and nothing uses them any more. Either may be null.
        unsafe {
            assert_eq!(tourbillon_driver_free(self.driver), Status::Ok);
            tourbillon_timer_free(self.timer);
        }
    }
}

/// Waits until `is_so` returns true.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
