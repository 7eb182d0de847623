//! The counters of an engine.

use crate::clock::ns;
use crate::entry::{borrow, enter, enter_or};
use crate::status::Status;
use crate::timer::Timer;

/// The counters of an engine since its start. Set `size`, and let `tourbillon_stats_get` fill the
/// rest.
///
/// On an engine at rest `scheduled + repeated == fired + cancelled + returned + pending`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Stats {
    /// `sizeof(tourbillon_stats)`. A newer library fills as many fields as an older header has, and
    /// an older one writes here how many bytes it knows.
    pub size: usize,
    /// Timeouts that were accepted. A periodic timeout counts as one.
    pub scheduled: u64,
    /// Callbacks that have begun.
    pub fired: u64,
    /// Callbacks that have returned or panicked.
    pub completed: u64,
    /// Runs of periodic timeouts that were not their last.
    pub repeated: u64,
    /// Timeouts that were cancelled in time.
    pub cancelled: u64,
    /// Timeouts that a shutdown handed back, or that were dropped unrun with their engine.
    pub returned: u64,
    /// Timeouts that were refused.
    pub rejected: u64,
    /// Panics of callbacks.
    pub panicked: u64,
    /// Resets that found their timeout pending.
    pub reset: u64,
    /// Calls that have waited for a worker that had fallen behind.
    pub waits: u64,
    /// How often a worker woke up.
    pub wakeups: u64,
    /// Turns of all shards.
    pub turns: u64,
    /// Timeouts that are pending now.
    pub pending: u64,
    /// How many timeouts the reserved memory holds, at 64 bytes each.
    pub capacity: u64,
    /// By how much half of all callbacks began after their deadline at most, in nanoseconds.
    pub lateness_p50_ns: u64,
    /// The same for 99 of 100.
    pub lateness_p99_ns: u64,
    /// The same for 999 of 1,000.
    pub lateness_p999_ns: u64,
    /// The same for all.
    pub lateness_max_ns: u64,
}

impl Stats {
    fn of(engine: &tourbillon::Timer) -> Self {
        let stats = engine.stats();
        let lateness = |percent| ns(stats.lateness.percentile(percent));
        Self {
            size: size_of::<Self>(),
            scheduled: stats.scheduled,
            fired: stats.fired,
            completed: stats.completed,
            repeated: stats.repeated,
            cancelled: stats.cancelled,
            returned: stats.returned,
            rejected: stats.rejected,
            panicked: stats.panicked,
            reset: stats.reset,
            waits: stats.waits,
            wakeups: stats.wakeups,
            turns: stats.turns,
            pending: stats.pending as u64,
            capacity: stats.capacity as u64,
            lateness_p50_ns: lateness(50.0),
            lateness_p99_ns: lateness(99.0),
            lateness_p999_ns: lateness(99.9),
            lateness_max_ns: ns(stats.lateness.max()),
        }
    }
}

/// Fills `stats` with the counters of an engine. Set `stats->size` before.
///
/// The counters are read one after the other while the engine runs. The call allocates, and costs
/// the threads that schedule nothing. Any thread may call it, and callbacks may.
///
/// Returns `TOURBILLON_STATUS_INVALID_ARGUMENT` if an argument is null or the size is not set.
///
/// # Safety
/// `timer` is null or comes from this library, and is not freed. `stats` is null, or has as many
/// bytes as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_stats_get(timer: *const Timer, stats: *mut Stats) -> Status {
    enter(|| {
        // SAFETY: the caller's contract.
        let timer = unsafe { borrow(timer) }?;
        // SAFETY: the first field is the size, which the caller has set.
        let size = *unsafe { borrow(stats.cast::<usize>()) }?;
        if size < size_of::<usize>() {
            return Err(Status::InvalidArgument);
        }
        let known = size.min(size_of::<Stats>());
        let taken = Stats { size: known, ..Stats::of(&timer.engine) };
        // SAFETY: there is room for `size` bytes, and all are plain numbers.
        unsafe { std::ptr::copy_nonoverlapping((&raw const taken).cast::<u8>(), stats.cast(), known) };
        Ok(())
    })
}

/// Returns how many timeouts are pending, or 0 if `timer` is null. Any thread may call this; it
/// neither blocks nor allocates.
///
/// # Safety
/// `timer` is null or comes from this library, and is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tourbillon_pending(timer: *const Timer) -> usize {
    // SAFETY: the caller's contract.
    enter_or(0, || unsafe { borrow(timer) }.map_or(0, |timer| timer.engine.pending()))
}
