//! The arena: it gives an entry out to one thread at a time, whichever way the entry came back.

use std::ptr;
use std::sync::Arc;

use super::check::check;
use super::rig::{driven, entries_in_use, ticks};
use crate::arena::{Arena, EntryCache, LARGEST_CHUNK, PerThread};
use crate::entry::{Entry, Sole, raw};
use crate::sync::{AtomicUsize, Ordering, thread};

/// A thread's entry cache of one arena.
struct Mine {
    arena: Arc<Arena>,
    cache: EntryCache,
}

impl Mine {
    fn of(arena: &Arc<Arena>) -> Self {
        Self { arena: Arc::clone(arena), cache: EntryCache::default() }
    }

    fn take(&self) -> Sole {
        // SAFETY: this cache serves this arena alone.
        let cache = unsafe { self.cache.with(&self.arena) };
        let entry = cache.take().or_else(|| cache.refill());
        let entry = entry.unwrap_or_else(|| cache.grow(LARGEST_CHUNK).expect("memory"));
        // An owner's access to an entry: loom reports another thread's access at the same time.
        raw::set_aside(&entry, ptr::null_mut());
        entry.set_in_use(true);
        entry
    }

    fn flush(&self) {
        // SAFETY: this cache serves this arena alone.
        unsafe { self.cache.with(&self.arena) }.flush();
    }

    fn put(&self, entry: Sole) {
        // SAFETY: this cache serves this arena alone.
        unsafe { self.cache.with(&self.arena) }.put(entry);
    }
}

fn assert_distinct(entries: &[Sole]) {
    for (index, entry) in entries.iter().enumerate() {
        assert!(
            entries[..index].iter().all(|other| !ptr::eq::<Entry>(&**other, &**entry)),
            "an entry was given out twice"
        );
    }
}

/// Invariant: an entry that one thread gives back and another takes, through the depot, is handed
/// over in order, and belongs to one of them at a time.
/// Legal ends: the taker gets an entry that came back, or fresh memory; all entries that are out
/// are distinct.
#[test]
fn an_entry_given_back_by_one_thread_is_taken_by_another() {
    check(None, |_| {
        let arena = Arc::new(Arena::new(3).expect("memory"));
        let main = Mine::of(&arena);
        let out = [main.take(), main.take(), main.take()];
        let giver = Mine::of(&arena);
        let giver = thread::spawn(move || {
            out.into_iter().for_each(|entry| giver.put(entry));
            vec![giver.take(), giver.take()]
        });
        let taker = Mine::of(&arena);
        let taker = thread::spawn(move || vec![taker.take(), taker.take()]);
        let mut out = giver.join().expect("no panic");
        out.append(&mut taker.join().expect("no panic"));
        out.push(main.take());
        assert_distinct(&out);
    });
}

/// Invariant: memory that is given back to the system belongs to the next taker alone, and its
/// previous owner has left it.
/// Legal ends: the taker gets what was given back, or what the other has yet to look at, or fresh
/// memory; all entries that are out are distinct.
#[test]
fn memory_given_back_to_the_system_is_taken_by_one_thread() {
    check(2, |_| {
        let arena = Arc::new(Arena::new(0).expect("memory"));
        let main = Mine::of(&arena);
        [main.take(), main.take()].into_iter().for_each(|entry| main.put(entry));
        main.flush();
        let mine = Mine::of(&arena);
        let taker = thread::spawn(move || {
            // It writes the link, which the previous owner has read.
            mine.put(mine.take());
            vec![mine.take(), mine.take()]
        });
        arena.shrink();
        let mut out = vec![main.take()];
        out.append(&mut taker.join().expect("no panic"));
        assert_distinct(&out);
    });
}

/// Invariant: threads that find the arena exhausted at the same time make one chunk or two, and
/// share no entry.
/// Legal ends: one was first and the other uses its chunk; that was used up, and the other made
/// another.
#[test]
fn two_threads_grow_the_arena_at_once() {
    check(2, |_| {
        let arena = Arc::new(Arena::new(0).expect("memory"));
        let threads = [0; 2].map(|_| {
            let mine = Mine::of(&arena);
            thread::spawn(move || vec![mine.take(), mine.take()])
        });
        let mut out = vec![Mine::of(&arena).take()];
        threads.into_iter().for_each(|thread| out.append(&mut thread.join().expect("no panic")));
        assert_distinct(&out);
        assert!(arena.capacity() >= out.len());
    });
}

/// Invariant: the handle and the engine let go of an expired entry at the same time. One of them
/// gives it back, and the next use of the entry does not race with the last.
/// Legal ends: the handle was last, and the same thread uses the entry again; the engine was, and
/// the thread uses a fresh one.
#[test]
fn an_entry_that_both_owners_let_go_of_is_given_back_once() {
    check(None, |ledger| {
        let (timer, mut driver, _clock) = driven(|b| b.capacity(2));
        let timeout = timer.schedule(ticks(0), ledger.task()).expect("open");
        let (theirs, task) = (timer.clone(), ledger.task());
        let handle = thread::spawn(move || {
            drop(timeout);
            theirs.schedule(ticks(5), task).expect("open")
        });
        assert_eq!(driver.turn(), 1);
        let again = handle.join().expect("no panic");
        assert_eq!(entries_in_use(&again), 1);
        assert!(again.cancel());
        ledger.assert_closed(1);
    });
}

/// Invariant: threads that use an engine for the first time at the same time get a value of their
/// own each, and a thread that sums over all sees each of them whole.
/// Legal ends: the sum counts any number of the two while they work, and both afterwards.
#[test]
fn two_threads_get_a_value_each() {
    check(2, |_| {
        let table = Arc::new(PerThread::<AtomicUsize>::new());
        let count = |table: &PerThread<AtomicUsize>| {
            let mine = table.of_this_thread(|| true, || AtomicUsize::new(0)).expect("alive");
            // This is no read-modify-write: two threads that shared a value would lose counts.
            mine.store(mine.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        };
        let sum =
            |table: &PerThread<AtomicUsize>| table.iter().map(|value| value.load(Ordering::Relaxed)).sum::<usize>();
        // The main thread has the first bucket. The other two share the second, and race to make
        // it.
        count(&table);
        let threads = [0; 2].map(|_| {
            let table = Arc::clone(&table);
            thread::spawn(move || (0..2).for_each(|_| count(&table)))
        });
        assert!((1..=5).contains(&sum(&table)));
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(sum(&table), 5);
    });
}
