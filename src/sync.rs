//! The source of all atomics, cells, locks and threads of a protocol: std's, or loom's under `--cfg
//! loom`, or std's with a log of all accesses under `--cfg count_accesses`, which `perf/costs`
//! counts.
//!
//! Modules that follow a protocol take these types from here and not from `std::sync::atomic`. So
//! loom can check them as they are. Some things have no counterpart in loom. `OnceLock` and
//! crossbeam's queue are replaced by stand-ins. The timeout of a park is ignored, because loom
//! has no clock: under loom only an unpark ends a park, which is the harder case for the protocols
//! that are checked.

#[cfg(not(any(loom, count_accesses)))]
mod imp {
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
    pub(crate) use std::thread;

    pub(crate) use crossbeam_queue::SegQueue;

    pub(crate) use super::blocking::*;
}

#[cfg(not(loom))]
mod blocking {
    use std::sync::{Condvar, MutexGuard};
    use std::thread;
    use std::time::Duration;

    /// Blocks the calling thread until another thread unparks it. With a `timeout`, blocks no
    /// longer than that.
    pub(crate) fn park_for(timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => thread::park_timeout(timeout),
            None => thread::park(),
        }
    }

    /// Waits for a notification, but not for longer than `at_most`.
    pub(crate) fn wait_for<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, at_most: Duration) -> MutexGuard<'a, T> {
        condvar.wait_timeout(guard, at_most).unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    /// Yields the processor to other threads by sleeping for 100 µs.
    pub(crate) fn sleep_briefly() {
        thread::sleep(Duration::from_micros(100));
    }
}

#[cfg(all(count_accesses, not(loom)))]
#[path = "sync/count.rs"]
mod imp;

#[cfg(loom)]
#[path = "sync/loom.rs"]
mod imp;

pub(crate) use imp::*;

#[cfg(all(count_accesses, not(loom)))]
pub use imp::accesses;

/// A cell whose exclusive access is guaranteed by a protocol, and not by the borrow checker. Loom
/// checks the protocol.
#[derive(Debug)]
pub(crate) struct ProtocolCell<T>(#[cfg(not(loom))] std::cell::UnsafeCell<T>, #[cfg(loom)] loom::cell::UnsafeCell<T>);

/// Like the drop of an atomic: every earlier access to the cell must happen before its drop.
#[cfg(loom)]
impl<T> Drop for ProtocolCell<T> {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.0.with_mut(|_| ());
        }
    }
}

impl<T> ProtocolCell<T> {
    #[cfg(any(loom, test))]
    pub(crate) fn new(value: T) -> Self {
        #[cfg(not(loom))]
        return Self(std::cell::UnsafeCell::new(value));
        #[cfg(loom)]
        return Self(loom::cell::UnsafeCell::new(value));
    }

    /// Calls `read` with a pointer that is valid for reads during the call.
    #[cfg_attr(count_accesses, track_caller)]
    #[inline]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        #[cfg(all(count_accesses, not(loom)))]
        accesses::tell(accesses::Kind::Read, self);
        #[cfg(not(loom))]
        return read(self.0.get());
        #[cfg(loom)]
        return self.0.with(read);
    }

    /// Calls `write` with a pointer that is valid for writes during the call.
    #[cfg_attr(count_accesses, track_caller)]
    #[inline]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(all(count_accesses, not(loom)))]
        accesses::tell(accesses::Kind::Write, self);
        #[cfg(not(loom))]
        return write(self.0.get());
        #[cfg(loom)]
        return self.0.with_mut(write);
    }
}

/// Like a `Cell`, for the type that has the cell in it. As a `Cell` does, it keeps that type from
/// being `Sync` by itself: code that makes it so promises that two threads never meet here.
impl<T: Copy> ProtocolCell<T> {
    #[cfg_attr(count_accesses, track_caller)]
    #[inline]
    pub(crate) fn get(&self) -> T {
        // SAFETY: no thread writes here now: the cell is not `Sync`, and a type that is so around
        // it says which thread may write, one at a time. A `Copy` value is not borrowed.
        self.with(|place| unsafe { *place })
    }

    #[cfg_attr(count_accesses, track_caller)]
    #[inline]
    pub(crate) fn set(&self, value: T) {
        // SAFETY: no thread writes here now: the cell is not `Sync`, and a type that is so around
        // it says which thread may write, one at a time. A `Copy` value is not borrowed.
        self.with_mut(|place| unsafe { *place = value });
    }
}

/// A number that any thread may read. Threads that write it do so one at a time, or a lost write
/// does no harm. All accesses are relaxed, and cost as much as plain ones. No protocol depends on
/// it, so models need not see it.
#[derive(Debug, Default)]
pub(crate) struct Shown(ShownWord);

#[cfg(not(loom))]
use imp::AtomicU64 as ShownWord;
#[cfg(loom)]
use std::sync::atomic::AtomicU64 as ShownWord;

impl Shown {
    pub(crate) const fn new(value: u64) -> Self {
        Self(ShownWord::new(value))
    }

    #[cfg_attr(count_accesses, track_caller)]
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[cfg_attr(count_accesses, track_caller)]
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Takes a lock, even if a thread panicked while it held the lock. That is sound because no user
/// code runs under the engine's locks, so a panic can break no invariant that they guard.
#[cfg_attr(count_accesses, track_caller)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Returns the value of the place, which `make` makes if there is none yet. Unlike `get_or_init`,
/// it makes the value outside of the lock.
pub(crate) fn get_or_set<V>(place: &OnceLock<V>, make: impl FnOnce() -> V) -> &V {
    place.get().unwrap_or_else(|| {
        // Fails if another thread was first.
        let _ = place.set(make());
        place.get().expect("one of the two has set it")
    })
}

/// A fence between two sequentially consistent accesses, in models only. Loom treats such accesses
/// as acquire and release, and fences alone as sequentially consistent.
#[inline(always)]
pub(crate) fn fence_of_models() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Asks the processor to fetch the cache line at `address`. The address need not be valid. The hint
/// hides the latency of walking a list whose nodes another core has written.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    // SAFETY: a prefetch neither faults nor changes memory, at any address. Every x86-64 processor
    // has SSE.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = address;
}
