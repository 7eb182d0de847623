//! The side of `sync.rs` that counts: std's types, which tell what the calling thread does to
//! memory that threads share. `--cfg count_accesses` selects it, for `perf/costs`.
//!
//! Counted are atomics, protocol cells, numbers for show, locks, and crossbeam's `SegQueue`, whose
//! internals this file knows only by their number. Not counted are memory that a thread keeps for
//! itself, references of `Arc`, the depot's shelf, the numbers of shards, the look for a fork, and
//! the time stamp counter's rate.

pub(crate) use std::sync::atomic::{Ordering, fence};
pub(crate) use std::sync::{Arc, Condvar, MutexGuard, OnceLock};
pub(crate) use std::thread;

use std::sync::{LockResult, TryLockResult};

use accesses::{Kind, tell};

pub(crate) use super::blocking::*;

/// The accesses of one thread to shared memory.
pub mod accesses {
    use std::cell::RefCell;
    use std::panic::Location;

    /// How memory is accessed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Kind {
        /// A load.
        Read,
        /// A plain store, or mutable access to a cell.
        Write,
        /// An exchange, an addition or the like, also a compare-and-swap that fails.
        ReadModifyWrite,
    }

    /// One access.
    #[derive(Clone, Copy, Debug)]
    pub struct Access {
        /// How.
        pub kind: Kind,
        /// The cache line's address, divided by 64.
        pub line: usize,
        /// The line of source code.
        pub place: &'static Location<'static>,
    }

    thread_local! {
        /// None while nobody asks.
        static LOG: RefCell<Option<Vec<Access>>> = const { RefCell::new(None) };
    }

    /// Does `work`, and returns what the calling thread accessed meanwhile, in that order.
    pub fn record<R>(work: impl FnOnce() -> R) -> (R, Vec<Access>) {
        LOG.set(Some(Vec::with_capacity(1024)));
        let result = work();
        (result, LOG.take().unwrap_or_default())
    }

    #[track_caller]
    pub(crate) fn tell<T: ?Sized>(kind: Kind, memory: *const T) {
        let (line, place) = (memory.addr() / 64, Location::caller());
        // A thread that ends has no log any more.
        let _ = LOG.try_with(|log| {
            if let Some(log) = log.borrow_mut().as_mut() {
                log.push(Access { kind, line, place });
            }
        });
    }
}

/// One of std's atomics, with these read-modify-writes.
macro_rules! counted_atomic {
    ($name:ident $(<$param:ident>)?, $value:ty, $($change:ident)*) => {
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub(crate) struct $name $(<$param>)? (std::sync::atomic::$name $(<$param>)?);

        #[allow(dead_code, reason = "not each of them is used with each type")]
        impl $(<$param>)? $name $(<$param>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                tell(Kind::Read, self);
                self.0.load(order)
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                tell(Kind::Write, self);
                self.0.store(value, order);
            }

            $(#[track_caller]
            pub(crate) fn $change(&self, value: $value, order: Ordering) -> $value {
                tell(Kind::ReadModifyWrite, self);
                self.0.$change(value, order)
            })*

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                tell(Kind::ReadModifyWrite, self);
                self.0.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                // Not the weak one, which may fail by chance on some processors.
                self.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut value = self.load(failure);
                while let Some(changed) = change(value) {
                    match self.compare_exchange(value, changed, success, failure) {
                        Ok(_) => return Ok(value),
                        Err(now) => value = now,
                    }
                }
                Err(value)
            }
        }
    };
}

counted_atomic!(AtomicU8, u8, swap fetch_add fetch_sub fetch_and fetch_or fetch_max);
counted_atomic!(AtomicU64, u64, swap fetch_add fetch_sub fetch_and fetch_or fetch_max);
counted_atomic!(AtomicUsize, usize, swap fetch_add fetch_sub fetch_and fetch_or fetch_max);
counted_atomic!(AtomicPtr<T>, *mut T, swap);

/// std's, which takes an exchange to lock and one to unlock. Both are counted at the lock.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        twice(self);
        self.0.lock()
    }

    #[track_caller]
    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        twice(self);
        self.0.try_lock()
    }
}

/// crossbeam's, which takes an exchange to claim a place and one to say that the place is filled,
/// or empty. Its two ends are in lines of their own, and its places are not looked at.
#[derive(Debug)]
pub(crate) struct SegQueue<T>(crossbeam_queue::SegQueue<T>);

impl<T> SegQueue<T> {
    pub(crate) const fn new() -> Self {
        Self(crossbeam_queue::SegQueue::new())
    }

    #[track_caller]
    pub(crate) fn push(&self, value: T) {
        // The line of the tail, which comes after the head.
        twice((&raw const self.0).wrapping_byte_add(128));
        self.0.push(value);
    }

    #[track_caller]
    pub(crate) fn pop(&self) -> Option<T> {
        let popped = self.0.pop();
        if popped.is_some() {
            twice(self)
        } else {
            tell(Kind::Read, self)
        };
        popped
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[track_caller]
fn twice<T: ?Sized>(memory: *const T) {
    tell(Kind::ReadModifyWrite, memory);
    tell(Kind::ReadModifyWrite, memory);
}
