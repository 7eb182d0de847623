//! One value per thread and object, found by a small number that the thread holds for its life.
//!
//! The well-kept crate for this, `thread_local`, can't be used. It gives a thread's number to
//! another thread while the first may still run destructors of its thread-locals, and one of them
//! may drop a `Timeout`. Here a thread in teardown is told that it has no number, and takes a
//! slower path.

use std::ptr::NonNull;

use crate::sync::{OnceLock, get_or_set};
use crate::sys::fork;

/// Buckets double in size: 1, 2, 4, ... values. 24 of them hold 16 million threads that live at one
/// time.
const BUCKETS: usize = 24;

/// How many values the buckets hold, and so how many numbers there are.
const NUMBERS: usize = (1 << BUCKETS) - 1;

/// A value for each thread that asked for one. Values stay until the table is dropped. When a
/// thread ends, a later thread inherits its number, and so its value.
#[derive(Debug)]
pub(crate) struct PerThread<T> {
    id: u64,
    buckets: [OnceLock<Bucket<T>>; BUCKETS],
}

type Bucket<T> = Box<[OnceLock<Box<T>>]>;

impl<T: Sync> PerThread<T> {
    pub(crate) fn new() -> Self {
        Self { id: new_id(), buckets: std::array::from_fn(|_| OnceLock::new()) }
    }

    /// Returns a number that no other table of this process ever has, and that is not 0.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the calling thread's value, which `make` makes at the first call. Returns `None` if
    /// the thread is in teardown, or could get no number, or if `has_value` says so. `has_value` is
    /// not asked if the thread looked at this table last.
    #[inline]
    pub(crate) fn of_this_thread(&self, has_value: impl FnOnce() -> bool, make: impl FnOnce() -> T) -> Option<&T> {
        let (key, address) = numbers::remembered();
        if key == self.key() {
            // SAFETY: only `find` has a thread remember an address, and this key is no other
            // table's. So it is the address of a value of this table, which stays where it is as
            // long as the table.
            return Some(unsafe { address.cast::<T>().as_ref() });
        }
        self.find(has_value, make)
    }

    /// Returns what the calling thread's value is remembered by. In a forked child that is
    /// something else than in its parent, so that the next look-up there finds out that it is a
    /// child. Never 0, as an id is not.
    #[inline]
    fn key(&self) -> u64 {
        self.id.wrapping_add(fork::word())
    }

    /// Allocates only at a thread's first call. Only then may it wait, and for no longer than
    /// another thread needs to store one pointer.
    #[cold]
    #[inline(never)]
    fn find(&self, has_value: impl FnOnce() -> bool, make: impl FnOnce() -> T) -> Option<&T> {
        let number = numbers::current().filter(|_| has_value())?;
        let (bucket, index) = locate(number);
        let slots = get_or_set(&self.buckets[bucket], || (0..1_usize << bucket).map(|_| OnceLock::new()).collect());
        // Only this thread holds the number, so no other thread makes a value here.
        let value = &**get_or_set(&slots[index], || Box::new(make()));
        numbers::remember(self.key(), NonNull::from(value).cast());
        Some(value)
    }

    /// Returns the values of all threads that have one at this moment.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.buckets.iter().filter_map(OnceLock::get).flatten().filter_map(OnceLock::get).map(|value| &**value)
    }
}

fn new_id() -> u64 {
    // Of std, as models need not see it.
    use std::sync::atomic::{AtomicU64, Ordering};
    /// Ids start at 1, because a thread that remembers nothing remembers 0.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the bucket and the index of a number: bucket b holds the numbers 2^b - 1 ..= 2^(b+1) -
/// 2.
#[inline]
fn locate(number: usize) -> (usize, usize) {
    let from_one = number + 1;
    let bucket = from_one.ilog2() as usize;
    (bucket, from_one - (1 << bucket))
}

#[cfg(all(loom, test))]
pub(crate) use numbers::give_number_back;

#[cfg(not(loom))]
mod numbers {
    use super::NUMBERS;
    use std::cell::Cell;
    use std::ptr::NonNull;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use crate::sys::fork;

    /// The numbers that no thread has.
    #[derive(Debug)]
    pub(super) struct Free {
        given_back: Vec<usize>,
        /// The first number that no thread has ever had.
        fresh: usize,
    }

    impl Free {
        pub(super) const fn from(fresh: usize) -> Self {
            Self { given_back: Vec::new(), fresh }
        }

        /// Returns `None` if every number belongs to a thread.
        pub(super) fn take(&mut self) -> Option<usize> {
            self.given_back.pop().or_else(|| {
                let fresh = (self.fresh < NUMBERS).then_some(self.fresh)?;
                self.fresh += 1;
                Some(fresh)
            })
        }

        pub(super) fn give_back(&mut self, number: usize) {
            self.given_back.push(number);
        }
    }

    static FREE: Mutex<Free> = Mutex::new(Free::from(0));

    /// No table has this key.
    const NOTHING: (u64, NonNull<()>) = (0, NonNull::dangling());

    thread_local! {
        /// The table that this thread looked at last: its key, and the address of the thread's
        /// value. Looked at first, because a thread nearly always uses one engine. It has no
        /// destructor, so it costs one access and no registration.
        static REMEMBERED: Cell<(u64, NonNull<()>)> = const { Cell::new(NOTHING) };
        static NUMBER: Held = Held(lock_free().and_then(|mut free| free.take()));
    }

    /// `None` if every number belongs to a thread, or if, in a forked child, a thread of the parent
    /// held the list during the fork.
    struct Held(Option<usize>);

    /// How often a forked child tries to lock the list before it goes on without.
    const LOOKS: usize = 1_000;

    fn lock_free() -> Option<MutexGuard<'static, Free>> {
        if fork::ancestors() == 0 {
            return Some(FREE.lock().unwrap_or_else(PoisonError::into_inner));
        }
        // If a thread of the parent held the lock during the fork, nobody will ever unlock it here.
        (0..LOOKS).find_map(|_| {
            std::thread::yield_now();
            FREE.try_lock().ok()
        })
    }

    impl Drop for Held {
        fn drop(&mut self) {
            // First forget, then give back: a destructor that runs after this one must not find
            // what will be another thread's. It finds no number either, as this thread-local is now
            // dead.
            REMEMBERED.set(NOTHING);
            if let (Some(number), Some(mut free)) = (self.0, lock_free()) {
                free.give_back(number);
            }
        }
    }

    /// Returns this thread's number, which is below [`NUMBERS`], and the thread's own until it can
    /// run no more of our code. Returns `None` if the thread is in teardown and has given its
    /// number back, or if it could get none.
    pub(super) fn current() -> Option<usize> {
        NUMBER.try_with(|held| held.0).ok()?
    }

    /// Returns the key and the address that this thread was last told to remember.
    #[inline]
    pub(super) fn remembered() -> (u64, NonNull<()>) {
        REMEMBERED.get()
    }

    pub(super) fn remember(key: u64, address: NonNull<()>) {
        REMEMBERED.set((key, address));
    }
}

#[cfg(loom)]
mod numbers {
    use super::NUMBERS;
    use std::cell::Cell;
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicUsize, Ordering};

    // Reset with each schedule. An atomic of std, which loom does not see: the order in which
    // threads get their numbers is not worth exploring.
    loom::lazy_static! {
        static ref NEXT: AtomicUsize = AtomicUsize::new(0);
    }
    loom::thread_local! {
        static NUMBER: Cell<Option<usize>> = Cell::new(Some(NEXT.fetch_add(1, Ordering::Relaxed)));
    }

    pub(super) fn current() -> Option<usize> {
        NUMBER.with(Cell::get).filter(|&number| number < NUMBERS)
    }

    /// Puts the calling thread into teardown, so that it has no number any more.
    pub(crate) fn give_number_back() {
        NUMBER.with(|number| number.set(None));
    }

    pub(super) fn remembered() -> (u64, NonNull<()>) {
        (0, NonNull::dangling())
    }

    pub(super) fn remember(_: u64, _: NonNull<()>) {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::numbers::current;
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut seen = std::collections::HashSet::new();
        for number in (0..1000).chain(NUMBERS - 1000..NUMBERS) {
            let (bucket, index) = locate(number);
            assert!(bucket < BUCKETS && index < 1 << bucket, "{number} is in bucket {bucket} at {index}");
            assert!(seen.insert((bucket, index)));
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
                    for round in 0..100 {
                        let value = table.of_this_thread(|| true, || AtomicUsize::new(0)).expect("a living thread");
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
        let number = || std::thread::spawn(current).join().ok().flatten();
        let numbers: std::collections::HashSet<_> = (0..100).map(|_| number()).collect();
        assert!(numbers.len() < 50, "100 threads, one after the other, used {} numbers", numbers.len());
    }
}
