//! One value per thread and object, found by a small number that the thread holds for its life.
//!
//! The well-kept crate for this, `thread_local`, can't be used. It gives a thread's number to
//! another thread while the first may still run destructors of its thread-locals, and one of them
//! may drop a `Timeout`. Here a thread in teardown is told that it has no number, and takes a
//! slower path.

use std::ptr;

use crate::sync::{AtomicPtr, Ordering};

/// Buckets double in size: 1, 2, 4, ... values. 24 of them hold 16 million threads that live at one
/// time.
const BUCKETS: usize = 24;

/// How many values the buckets hold, and so how many numbers there are.
const NUMBERS: usize = (1 << BUCKETS) - 1;

/// A value for each thread that asked for one. Values stay until the table is dropped. When a
/// thread ends, a later thread inherits its number, and so its value.
#[derive(Debug)]
pub(crate) struct PerThread<T> {
    buckets: [AtomicPtr<AtomicPtr<T>>; BUCKETS],
}

impl<T: Sync> PerThread<T> {
    pub(crate) fn new() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }

    /// Returns the value of the thread with this number; `make` makes it at the first call.
    /// Lock-free. Allocates only at a thread's first call.
    #[inline]
    pub(crate) fn get_or(&self, number: ThreadNumber, make: impl FnOnce() -> T) -> &T {
        let (bucket, index) = locate(number);
        // Acquire: pairs with the Release of the exchange in `grow`, so that the slots are seen
        // initialised.
        let slots = self.buckets[bucket].load(Ordering::Acquire);
        let slots = if slots.is_null() { self.grow(bucket) } else { slots };
        // SAFETY: a published bucket has 2^bucket slots. `locate` stays below that for every number
        // there is.
        let slot = unsafe { slots.add(index) };
        // SAFETY: a published bucket has this slot, and slots stay where they are until the table
        // is dropped.
        let slot = unsafe { &*slot };
        // Acquire: pairs with the Release below, for a value that another thread with this number
        // made, and for `iter`.
        let value = slot.load(Ordering::Acquire);
        if !value.is_null() {
            // SAFETY: values are never moved or dropped before the table.
            return unsafe { &*value };
        }
        let value = Box::into_raw(Box::new(make()));
        // Only this thread holds the number, so no other thread stores here. Release: pairs with
        // the Acquire above.
        slot.store(value, Ordering::Release);
        // SAFETY: values are never moved or dropped before the table.
        unsafe { &*value }
    }

    #[cold]
    fn grow(&self, bucket: usize) -> *mut AtomicPtr<T> {
        let slots: Box<[AtomicPtr<T>]> = (0..1_usize << bucket).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        let slots = Box::into_raw(slots).cast::<AtomicPtr<T>>();
        let published =
            self.buckets[bucket].compare_exchange(ptr::null_mut(), slots, Ordering::AcqRel, Ordering::Acquire);
        match published {
            Ok(_) => slots,
            Err(first) => {
                // SAFETY: ours was not published, so no other thread knows it.
                drop(unsafe { bucket_box(slots, bucket) });
                first
            }
        }
    }

    /// Returns the values of all threads that have one at this moment.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.buckets.iter().enumerate().flat_map(|(bucket, slots)| {
            // Acquire: pairs with the Release of the exchange in `grow`.
            let slots = slots.load(Ordering::Acquire);
            let len = if slots.is_null() { 0 } else { 1 << bucket };
            (0..len).filter_map(move |index| {
                // SAFETY: a published bucket has `len` slots.
                let slot = unsafe { slots.add(index) };
                // SAFETY: a published bucket has this slot, and slots stay where they are until the
                // table is dropped.
                let value = unsafe { &*slot }.load(Ordering::Acquire);
                // SAFETY: a value, once stored, stays until the table is dropped.
                unsafe { value.as_ref() }
            })
        })
    }
}

/// # Safety
/// `slots` came from `Box::into_raw` of a slice of 2^bucket slots, and is given up.
unsafe fn bucket_box<T>(slots: *mut AtomicPtr<T>, bucket: usize) -> Box<[AtomicPtr<T>]> {
    // SAFETY: the caller says where `slots` came from, and gives it up.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(slots, 1 << bucket)) }
}

impl<T> Drop for PerThread<T> {
    fn drop(&mut self) {
        for (bucket, slots) in self.buckets.iter().enumerate() {
            // Acquire: the values that other threads stored must be seen. The thread that drops the
            // table has synchronised with them anyway.
            let slots = slots.load(Ordering::Acquire);
            if slots.is_null() {
                continue;
            }
            // SAFETY: published by `grow`, and this is the only drop.
            for slot in unsafe { bucket_box(slots, bucket) } {
                let value = slot.load(Ordering::Acquire);
                if !value.is_null() {
                    // SAFETY: stored by `get_or` from a box, and given up here once.
                    drop(unsafe { Box::from_raw(value) });
                }
            }
        }
    }
}

/// Returns the bucket and the index of a number: bucket b holds the numbers 2^b - 1 ..= 2^(b+1) -
/// 2.
#[inline]
fn locate(number: ThreadNumber) -> (usize, usize) {
    let from_one = number.0 + 1;
    let bucket = from_one.ilog2() as usize;
    (bucket, from_one - (1 << bucket))
}

/// A thread's number. It is below [`NUMBERS`], and the thread's own until the thread can run no
/// more of our code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadNumber(usize);

impl ThreadNumber {
    /// Returns `None` if the buckets have no place for it.
    fn new(number: usize) -> Option<Self> {
        (number < NUMBERS).then_some(Self(number))
    }
}

#[cfg(loom)]
pub(crate) use numbers::give_number_back;
pub(crate) use numbers::{current, with_remembered};

#[cfg(not(loom))]
mod numbers {
    use super::ThreadNumber;
    use std::cell::Cell;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use crate::sys::fork;

    /// The numbers that no thread has.
    #[derive(Debug)]
    pub(super) struct Free {
        given_back: Vec<ThreadNumber>,
        /// The first number that no thread has ever had.
        fresh: usize,
    }

    impl Free {
        pub(super) const fn from(fresh: usize) -> Self {
            Self { given_back: Vec::new(), fresh }
        }

        /// Returns `None` if every number belongs to a thread.
        pub(super) fn take(&mut self) -> Option<ThreadNumber> {
            self.given_back.pop().or_else(|| {
                let fresh = ThreadNumber::new(self.fresh)?;
                self.fresh += 1;
                Some(fresh)
            })
        }

        pub(super) fn give_back(&mut self, number: ThreadNumber) {
            self.given_back.push(number);
        }
    }

    static FREE: Mutex<Free> = Mutex::new(Free::from(0));

    thread_local! {
        /// The object that this thread looked up last: its identity and an address. Looked at
        /// first, because a thread nearly always uses one engine. It has no destructor, so it costs
        /// one access and no registration.
        static REMEMBERED: Cell<(u64, *const ())> = const { Cell::new((0, std::ptr::null())) };
        static NUMBER: Held = Held(take());
    }

    /// `None` if every number belongs to a thread, or if, in a forked child, a thread of the parent
    /// held the list during the fork.
    struct Held(Option<ThreadNumber>);

    /// Makes the child of a fork forget what the thread remembered, so that the next look-up finds
    /// out that it is a child.
    #[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri)))]
    fn forget_in_children() {
        extern "C" fn forget() {
            REMEMBERED.set((0, std::ptr::null()));
        }
        fork::first_in_children(forget);
    }

    #[cfg(not(all(any(target_os = "linux", target_os = "macos"), not(miri))))]
    fn forget_in_children() {}

    /// How often a forked child tries to lock the list before it goes on without.
    const LOOKS: usize = 1_000;

    fn lock_free() -> Option<MutexGuard<'static, Free>> {
        if !fork::is_forked_since(0) {
            return Some(FREE.lock().unwrap_or_else(PoisonError::into_inner));
        }
        // If a thread of the parent held the lock during the fork, nobody will ever unlock it here.
        (0..LOOKS).find_map(|_| {
            std::thread::yield_now();
            FREE.try_lock().ok()
        })
    }

    fn take() -> Option<ThreadNumber> {
        forget_in_children();
        lock_free()?.take()
    }

    impl Drop for Held {
        fn drop(&mut self) {
            // First forget, then give back: a destructor that runs after this one must not find
            // what will be another thread's. It finds no number either, as this thread-local is now
            // dead.
            REMEMBERED.set((0, std::ptr::null()));
            if let (Some(number), Some(mut free)) = (self.0, lock_free()) {
                free.give_back(number);
            }
        }
    }

    /// Returns this thread's number. Returns `None` if the thread is in teardown and has given its
    /// number back, or if it could get none.
    pub(crate) fn current() -> Option<ThreadNumber> {
        NUMBER.try_with(|held| held.0).ok()?
    }

    /// Returns the address that was remembered for this identity (never 0). Otherwise returns what
    /// `find` finds, and remembers it if `find` says so.
    #[inline]
    pub(crate) fn with_remembered<T>(identity: u64, find: impl FnOnce() -> (*const T, bool)) -> *const T {
        let (known, address) = REMEMBERED.get();
        if known == identity {
            return address.cast();
        }
        let (address, keep) = find();
        if keep {
            REMEMBERED.set((identity, address.cast()));
        }
        address
    }
}

#[cfg(loom)]
mod numbers {
    use super::ThreadNumber;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    // Reset with each schedule. An atomic of std, which loom does not see: the order in which
    // threads get their numbers is not worth exploring.
    loom::lazy_static! {
        static ref NEXT: AtomicUsize = AtomicUsize::new(0);
    }
    loom::thread_local! {
        static NUMBER: Cell<Option<usize>> = Cell::new(Some(NEXT.fetch_add(1, Ordering::Relaxed)));
    }

    pub(crate) fn current() -> Option<ThreadNumber> {
        NUMBER.with(Cell::get).and_then(ThreadNumber::new)
    }

    /// Puts the calling thread into teardown, so that it has no number any more.
    pub(crate) fn give_number_back() {
        NUMBER.with(|number| number.set(None));
    }

    pub(crate) fn with_remembered<T>(_: u64, find: impl FnOnce() -> (*const T, bool)) -> *const T {
        find().0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut seen = std::collections::HashSet::new();
        for number in (0..1000).chain(NUMBERS - 1000..NUMBERS) {
            let (bucket, index) = locate(ThreadNumber::new(number).expect("there is one"));
            assert!(bucket < BUCKETS && index < 1 << bucket, "{number} is in bucket {bucket} at {index}");
            assert!(seen.insert((bucket, index)));
        }
    }

    #[test]
    fn no_number_is_beyond_what_the_buckets_hold() {
        for number in [NUMBERS, NUMBERS + 1, NUMBERS + (1 << (BUCKETS - 1)), 1 << 30, usize::MAX] {
            assert_eq!(ThreadNumber::new(number), None, "{number}");
        }
    }

    #[test]
    fn a_thread_that_finds_all_numbers_taken_has_none_until_one_is_given_back() {
        let mut free = numbers::Free::from(NUMBERS - 1);
        let last = free.take().expect("there is one left");
        assert_eq!((free.take(), free.take()), (None, None));
        free.give_back(last);
        assert_eq!((free.take(), free.take()), (Some(last), None));
    }

    #[test]
    fn a_thread_finds_its_value_again_and_threads_that_live_together_share_none() {
        let table: PerThread<AtomicUsize> = PerThread::new();
        let all_have_one = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let number = current().expect("a living thread has a number");
                    for round in 0..100 {
                        let value = table.get_or(number, || AtomicUsize::new(0));
                        // Not a read-modify-write: if two threads shared it, counts would be lost.
                        value.store(value.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        if round == 0 {
                            all_have_one.wait();
                        }
                    }
                });
            }
        });
        let counts: Vec<_> = table.iter().map(|value| value.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [100; 8]);
    }

    #[test]
    fn the_number_of_a_thread_that_ended_is_used_again() {
        let number = || std::thread::spawn(|| current().map(|number| number.0)).join().ok().flatten();
        let numbers: std::collections::HashSet<_> = (0..100).map(|_| number()).collect();
        assert!(numbers.len() < 50, "100 threads, one after the other, used {} numbers", numbers.len());
    }
}
