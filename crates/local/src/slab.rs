//! The entries of the timeouts. They lie in chunks, so that none is ever moved by growth.

use std::mem;
use std::num::NonZeroU32;

use tourbillon_wheel::{Items, NEVER, OutOfMemory, Place};

use crate::task::Task;

const CHUNK: usize = 512;

/// The index of an entry. Nobody gets the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(NonZeroU32);

impl Key {
    fn new(index: u32) -> Option<Self> {
        NonZeroU32::new(index).map(Self)
    }

    #[inline]
    fn index(self) -> usize {
        self.0.get() as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    /// It is in the wheel.
    Pending,
    /// It has come up, and is in the queue of those that run in this turn.
    Due,
    /// It was cancelled there. The queue lets it go.
    CancelledWhenDue,
    Expired,
    Cancelled,
}

/// A timeout. It is free again when it has ended and no handle has it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    /// `None` once it has ended, or was cancelled.
    pub(crate) task: Option<Task>,
    pub(crate) deadline: u64,
    /// The place in the wheel, or the next free entry.
    link: u32,
    pub(crate) state: State,
    pub(crate) is_held: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Slab {
    chunks: Vec<Box<[Entry; CHUNK]>>,
    free: Option<Key>,
}

impl Entry {
    #[inline]
    pub(crate) fn place(&self) -> Place {
        Place::from_bits(self.link)
    }

    /// Ends the hold on it.
    #[inline]
    pub(crate) fn let_go(&mut self, key: Key, free: &mut Option<Key>) {
        self.is_held = false;
        self.free_if_over(key, free);
    }

    /// Frees it if it has ended and nobody holds it. A caller that takes its task does so before
    /// another timeout fills it.
    #[inline]
    fn free_if_over(&mut self, key: Key, free: &mut Option<Key>) {
        if !self.is_held && matches!(self.state, State::Expired | State::Cancelled) {
            self.free(free.replace(key));
        }
    }

    #[inline]
    fn free(&mut self, next: Option<Key>) {
        (self.state, self.link) = (State::Free, next.map_or(0, |Key(index)| index.get()));
    }
}

impl Slab {
    /// Returns a free entry, which stays free until it is [filled](Self::fill).
    #[inline]
    pub(crate) fn free(&mut self) -> Result<Key, OutOfMemory> {
        match self.free {
            Some(key) => Ok(key),
            None => self.grow(),
        }
    }

    /// Makes the [free entry](Self::free) pending, at this place of the wheel.
    #[inline]
    pub(crate) fn fill(&mut self, key: Key, place: Place, deadline: u64, is_held: bool, make: impl FnOnce() -> Task) {
        let entry = self.get_mut(key);
        debug_assert!(entry.state == State::Free && entry.task.is_none());
        // A free entry has no task. So there is nothing to drop, and no code for it. Nothing panics
        // between here and the store, so the compiler makes the task in its place.
        mem::forget(entry.task.replace(make()));
        (entry.deadline, entry.state, entry.is_held) = (deadline, State::Pending, is_held);
        let next = mem::replace(&mut entry.link, place.to_bits());
        self.free = Key::new(next);
    }

    #[cold]
    fn grow(&mut self) -> Result<Key, OutOfMemory> {
        let first = self.chunks.len() * CHUNK;
        let index = |index: usize| u32::try_from(index).map_err(|_| OutOfMemory);
        let indices = index(first)?..index(first + CHUNK)?;
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(CHUNK).map_err(|_| OutOfMemory)?;
        self.chunks.try_reserve(1).map_err(|_| OutOfMemory)?;
        let mut before = None;
        for index in indices {
            let mut entry = Entry { task: None, deadline: NEVER, link: 0, state: State::Free, is_held: false };
            entry.free(before);
            chunk.push(entry);
            before = Key::new(index);
        }
        let Ok(chunk) = chunk.into_boxed_slice().try_into() else { unreachable!("it has the length of a chunk") };
        self.chunks.push(chunk);
        self.free = before;
        before.ok_or(OutOfMemory)
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> &Entry {
        &self.chunks[key.index() / CHUNK][key.index() % CHUNK]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> &mut Entry {
        self.entry(key).0
    }

    /// Returns an entry, and the list of those that are free.
    #[inline]
    pub(crate) fn entry(&mut self, key: Key) -> (&mut Entry, &mut Option<Key>) {
        (&mut self.chunks[key.index() / CHUNK][key.index() % CHUNK], &mut self.free)
    }

    /// Ends the hold on an entry.
    #[inline]
    pub(crate) fn let_go(&mut self, key: Key) {
        let (entry, free) = self.entry(key);
        entry.let_go(key, free);
    }

    /// Ends an entry that is due. Returns its task.
    #[inline]
    pub(crate) fn end(&mut self, key: Key, end: State) -> Option<Task> {
        let (entry, free) = self.entry(key);
        entry.state = end;
        entry.free_if_over(key, free);
        entry.task.take()
    }
}

impl Items for Slab {
    type Item = Key;

    #[inline]
    fn deadline(&self, key: Key) -> u64 {
        self.get(key).deadline
    }

    #[inline]
    fn placed(&mut self, key: Key, place: Place) {
        self.get_mut(key).link = place.to_bits();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_cache_line() {
        assert_eq!((size_of::<Entry>(), align_of::<Entry>()), (64, 64));
    }
}
