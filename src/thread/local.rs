//! The calling thread's own part of an engine, as only that thread can reach it.

use std::marker::PhantomData;
use std::ops::Deref;

use super::state::ThreadState;
use crate::arena::{Arena, Growth};
use crate::entry::{Handle, Listed, Sole};
use crate::shard::Remote;

/// The calling thread's state, with the arena of its engine. It can't be sent to another thread. So
/// what it offers takes no `unsafe`: the state is the caller's, and the free entries that it takes
/// and gives back are of that arena.
///
/// A thread in teardown has the state that such threads share, and holds its lock.
#[derive(Clone, Copy)]
pub(crate) struct Local<'a> {
    state: &'a ThreadState,
    arena: &'a Arena,
    not_send: PhantomData<*const ()>,
}

impl<'a> Local<'a> {
    /// # Safety
    /// The state is the calling thread's, or the calling thread holds the lock of it for `'a`.
    /// `arena` is that of the state's engine.
    #[inline]
    pub(crate) unsafe fn new(state: &'a ThreadState, arena: &'a Arena) -> Self {
        Self { state, arena, not_send: PhantomData }
    }

    /// Returns the state, for as long as the engine, for those of its parts that any thread may
    /// read.
    #[inline]
    pub(crate) fn state(self) -> &'a ThreadState {
        self.state
    }

    /// Returns a free entry of the thread's entry cache.
    #[inline]
    pub(crate) fn take_free(self) -> Option<Sole> {
        // SAFETY: this value says whose the state is.
        unsafe { self.state.take_free() }
    }

    /// Returns a free entry out of the arena, after the thread has used up its own, or `None` if
    /// the arena has none.
    pub(crate) fn refill(self) -> Option<Sole> {
        // SAFETY: this value says whose the state is, and which arena's.
        unsafe { self.state.refill(self.arena) }
    }

    /// Grows the arena, and returns a free entry, or `None` if there is no memory.
    pub(crate) fn grow(self, growth: Growth) -> Option<Sole> {
        // SAFETY: this value says whose the state is, and which arena's.
        unsafe { self.state.grow(self.arena, growth) }
    }

    /// Puts an entry of this engine back.
    #[inline]
    pub(crate) fn put_entry(self, entry: Sole) {
        // SAFETY: this value says whose the state is, and which arena's.
        unsafe { self.state.put_entry(self.arena, entry) };
    }

    /// Gives the thread's free entries to the depot.
    pub(crate) fn flush(self) {
        // SAFETY: this value says whose the state is, and which arena's.
        unsafe { self.state.flush(self.arena) };
    }

    /// Puts the entry of a handle on the list of tombstones, which is done before it becomes one.
    /// Returns `None` if it does not belong there, or the list is full.
    ///
    /// # Safety
    /// The entry is at home at `remote`. What is returned goes to [`Handle::leave_tombstone`] or
    /// [`Handle::give_up`] next, for this handle, and if that fails to
    /// [`take_back_tombstone`](ThreadState::take_back_tombstone) of this thread's state.
    #[inline]
    pub(crate) unsafe fn put_tombstone(self, handle: &Handle, remote: &Remote) -> Option<Listed> {
        // SAFETY: this value says whose the state is. The caller says what it does with the entry.
        unsafe { self.state.put_tombstone(handle, remote) }
    }
}

impl Deref for Local<'_> {
    type Target = ThreadState;

    #[inline]
    fn deref(&self) -> &ThreadState {
        self.state
    }
}
