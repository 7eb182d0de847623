//! The one door to atomics, cells, locks and threads: std's, or loom's under `--cfg loom`.
//!
//! No other module names `std::sync::atomic`, so whatever is written against this module can be model-checked as it
//! stands. Two things have no counterpart in loom: crossbeam's queue, for which a stand-in of the same orderings is used,
//! and the timed half of a park, which is left out (loom has no clock; its park ends only by an unpark, which is the harder
//! case for the protocols that are checked).

#[cfg(not(loom))]
mod imp {
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
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
mod imp {
    pub(crate) use loom::sync::atomic::Ordering;
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread;

    use std::time::Duration;

    use super::ProtocolCell;

    pub(crate) fn park_for(_timeout: Option<Duration>) {
        thread::park();
    }

    pub(crate) fn sleep_briefly() {
        thread::yield_now();
    }

    /// What std's thread-locals can do and loom's can't.
    pub(crate) trait LocalCell<T> {
        fn get(&'static self) -> T;
        fn set(&'static self, value: T);
    }

    impl<T: Copy> LocalCell<T> for thread::LocalKey<std::cell::Cell<T>> {
        fn get(&'static self) -> T {
            self.with(std::cell::Cell::get)
        }

        fn set(&'static self, value: T) {
            self.with(|cell| cell.set(value));
        }
    }

    /// Loom's atomics, with one check more: when an atomic goes, all that anybody did to it must have happened before.
    /// So a model fails not only if memory is used after it was freed, but also if nothing but luck kept that from
    /// happening.
    macro_rules! checked_atomic {
        ($name:ident $(<$param:ident>)?, $value:ty) => {
            #[derive(Debug)]
            pub(crate) struct $name $(<$param>)? (loom::sync::atomic::$name $(<$param>)?);

            impl $(<$param>)? $name $(<$param>)? {
                #[track_caller]
                pub(crate) fn new(value: $value) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }
            }

            impl $(<$param>)? std::ops::Deref for $name $(<$param>)? {
                type Target = loom::sync::atomic::$name $(<$param>)?;

                fn deref(&self) -> &Self::Target {
                    &self.0
                }
            }

            impl $(<$param>)? Drop for $name $(<$param>)? {
                fn drop(&mut self) {
                    if !thread::panicking() {
                        self.0.with_mut(|_| ());
                    }
                }
            }
        };
    }

    checked_atomic!(AtomicU8, u8);
    checked_atomic!(AtomicU64, u64);
    checked_atomic!(AtomicUsize, usize);
    checked_atomic!(AtomicPtr<T>, *mut T);

    /// A stand-in for crossbeam's queue, which loom can't see into: with its orderings, except that `pop` lacks its fence,
    /// so that no protocol comes to lean on that. Each place is used once, which bounds what a model may push.
    #[derive(Debug)]
    pub(crate) struct SegQueue<T> {
        head: AtomicUsize,
        tail: AtomicUsize,
        places: [Place<T>; 4],
    }

    #[derive(Debug)]
    struct Place<T> {
        written: AtomicU8,
        value: ProtocolCell<Option<T>>,
    }

    // SAFETY: a value is written by who claimed its place on the tail, and read by who claimed it on the head.
    unsafe impl<T: Send> Sync for SegQueue<T> {}

    impl<T> SegQueue<T> {
        pub(crate) fn new() -> Self {
            let place = |_| Place { written: AtomicU8::new(0), value: ProtocolCell::new(None) };
            Self { head: AtomicUsize::new(0), tail: AtomicUsize::new(0), places: std::array::from_fn(place) }
        }

        pub(crate) fn push(&self, value: T) {
            let place = &self.places[self.tail.fetch_add(1, Ordering::SeqCst)];
            // SAFETY: the place was just claimed.
            place.value.with_mut(|to| unsafe { *to = Some(value) });
            place.written.store(1, Ordering::Release);
        }

        pub(crate) fn pop(&self) -> Option<T> {
            let mut head = self.head.load(Ordering::Acquire);
            while head != self.tail.load(Ordering::Relaxed) {
                match self.head.compare_exchange_weak(head, head + 1, Ordering::SeqCst, Ordering::Acquire) {
                    Ok(_) => {
                        let place = &self.places[head];
                        while place.written.load(Ordering::Acquire) == 0 {
                            thread::yield_now();
                        }
                        // SAFETY: the place was just claimed, and has been written.
                        return place.value.with_mut(|from| unsafe { (*from).take() });
                    }
                    Err(now) => head = now,
                }
            }
            None
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }

        pub(crate) fn len(&self) -> usize {
            let head = self.head.load(Ordering::SeqCst);
            self.tail.load(Ordering::SeqCst).saturating_sub(head)
        }
    }
}

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
    #[cfg(any(loom, test))]
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
