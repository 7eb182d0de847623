//! The one door to atomics, cells, locks and threads: std's, or loom's under `--cfg loom`.
//!
//! No other module names `std::sync::atomic`, so whatever is written against this module can be model-checked as it
//! stands. Two things have no counterpart in loom: crossbeam's queue, for which a stand-in of the same orderings is used,
//! and the timed half of a park, which is left out (loom has no clock; its park ends only by an unpark, which is the harder
//! case for the protocols that are checked).

#[cfg(not(loom))]
mod imp {
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread;

    pub(crate) use crossbeam_queue::SegQueue;

    use std::time::Duration;

    /// Blocks the calling thread until it is unparked, or for `timeout`.
    pub(crate) fn park_for(timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => thread::park_timeout(timeout),
            None => thread::park(),
        }
    }

    /// Leaves the processor to others for a moment.
    pub(crate) fn sleep_briefly() {
        thread::sleep(Duration::from_micros(100));
    }
}

#[cfg(loom)]
#[path = "sync/loom.rs"]
mod imp;

pub(crate) use imp::*;

/// A cell whose owner is settled by a protocol and not by the borrow checker. Loom checks the protocol.
#[derive(Debug)]
pub(crate) struct ProtocolCell<T>(#[cfg(not(loom))] std::cell::UnsafeCell<T>, #[cfg(loom)] loom::cell::UnsafeCell<T>);

/// As for the atomics: when a cell goes, all that anybody did to it must have happened before.
#[cfg(loom)]
impl<T> Drop for ProtocolCell<T> {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.0.with_mut(|_| ());
        }
    }
}

impl<T> ProtocolCell<T> {
    pub(crate) fn new(value: T) -> Self {
        #[cfg(not(loom))]
        return Self(std::cell::UnsafeCell::new(value));
        #[cfg(loom)]
        return Self(loom::cell::UnsafeCell::new(value));
    }

    /// Lets `read` look at the value through a pointer that is valid for reads during the call.
    #[inline]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        #[cfg(not(loom))]
        return read(self.0.get());
        #[cfg(loom)]
        return self.0.with(read);
    }

    /// Lets `write` change the value through a pointer that is valid for writes during the call.
    #[inline]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(not(loom))]
        return write(self.0.get());
        #[cfg(loom)]
        return self.0.with_mut(write);
    }
}

/// A number that one thread writes, and any other may look at: without an order, and at no more cost than a plain one. It decides
/// nothing, so that models need not know of it.
#[derive(Debug)]
pub(crate) struct Shown(std::sync::atomic::AtomicU64);

impl Shown {
    pub(crate) const fn new(value: u64) -> Self {
        Self(std::sync::atomic::AtomicU64::new(value))
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Takes a lock whose holder may have panicked: none of our locks guards an invariant that a panic could break, because
/// no user code runs under them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Asks the processor to fetch the cache line at `address`, which need not be valid. The hint that hides the latency of
/// walking a list whose nodes were last written by another core.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    // SAFETY: a prefetch neither faults nor changes memory, whatever the address; SSE is part of x86-64.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = address;
}
