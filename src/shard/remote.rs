//! The side of a shard that producers see: inbox, cancelled queue, reset queue, and the doorbell that ties them together.

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;

use super::coalescer::Coalescer;
use super::inbox::{Closed, Inbox, Pushed};
use super::side_queue::{SidePush, SideQueue};
use super::stack::WAKE_DEPTH;
use crate::count::{Counters, Fault, Heartbeat, Latenesses, Stall};
use crate::entry::{Entry, entry_ref};
use crate::sync::{AtomicPtr, AtomicU8, AtomicU64, Condvar, Mutex, Ordering, lock};
use crate::time::Tick;

/// Makes a shard's worker run: starts it, or unparks it.
pub(crate) trait Wake: Send + Sync {
    /// False if the worker could not be started.
    fn wake(&self, remote: &Remote) -> bool;
    /// Whether a thread other than the caller's turns the shard.
    fn is_turned_by_another(&self, shard: usize) -> bool;
    /// Checks whether the shard's worker gets to run: something may have waited for it for long.
    fn check_worker(&self, _remote: &Remote) {}
}

/// The worker's way to be woken, the same for all shards of an engine.
#[derive(Default)]
struct Waker(OnceLock<Arc<dyn Wake>>);

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waker").field(&self.0.get().is_some()).finish()
    }
}

/// What the worker has been told; nothing while it is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Command {
    /// Close the shard, end, and return what was pending.
    StopAndReturn = 1,
    /// Close the shard, end, and drop what was pending: nobody waits for it.
    StopAndDiscard = 2,
    /// Close the shard, run what was pending, and end.
    StopAndFire = 3,
    /// Accept nothing more, and go on until nothing is pending or the drain's time is over; then close the shard, end, and
    /// return what is left.
    Drain = 4,
}

/// One per shard. Entries point at it (`Entry::home`), so it stays where it is as long as any entry of its engine is held.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) inbox: CachePadded<Inbox>,
    pub(crate) cancelled: CachePadded<SideQueue>,
    /// Nodes that name entries which were reset to an earlier deadline.
    pub(crate) resets: CachePadded<SideQueue>,
    /// Not 0: an entry was reset to an earlier deadline for which there was no node.
    rescan: AtomicU8,
    /// When the worker will wake by itself, as of its falling asleep. Written by the worker only.
    wake_at: CachePadded<AtomicU64>,
    command: AtomicU8,
    /// When a drain is over. Written before the order.
    drain_until: AtomicU64,
    /// Turns that were asked for and done, for a clock that is moved by hand.
    turn_requested: AtomicU64,
    turn_completed: Mutex<u64>,
    turn_completed_changed: Condvar,
    /// Whether the earliest deadline is asked for, too, and the answer: [`Tick::NEVER`] if nothing will ever be due.
    earliest_requested: AtomicU8,
    earliest: AtomicU64,
    /// Of those who wait for the worker.
    pub(crate) stall: Stall,
    pub(crate) coalescer: Coalescer,
    pub(crate) lateness: Latenesses,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) fault: Fault,
    pub(crate) counters: CachePadded<Counters>,
    waker: Waker,
    /// The engine that this is a part of, set once before anybody sees either. Only `engine` knows its type.
    engine: AtomicPtr<()>,
    index: usize,
}

impl Remote {
    pub(crate) fn new(index: usize) -> Self {
        Self {
            inbox: CachePadded::new(Inbox::new()),
            cancelled: CachePadded::new(SideQueue::new()),
            resets: CachePadded::new(SideQueue::new()),
            rescan: AtomicU8::new(0),
            wake_at: CachePadded::new(AtomicU64::new(Tick::NEVER.get())),
            command: AtomicU8::new(0),
            drain_until: AtomicU64::new(0),
            turn_requested: AtomicU64::new(0),
            turn_completed: Mutex::new(0),
            turn_completed_changed: Condvar::new(),
            earliest_requested: AtomicU8::new(0),
            earliest: AtomicU64::new(Tick::NEVER.get()),
            stall: Stall::none(),
            coalescer: Coalescer::new(index),
            lateness: Latenesses::new(),
            heartbeat: Heartbeat::default(),
            fault: Fault::default(),
            counters: CachePadded::default(),
            waker: Waker::default(),
            engine: AtomicPtr::new(std::ptr::null_mut()),
            index,
        }
    }

    pub(crate) fn set_engine(&self, engine: NonNull<()>) {
        self.engine.store(engine.as_ptr(), Ordering::Relaxed);
    }

    /// The engine that this remote is a part of, as [`set_engine`](Self::set_engine) wrote it.
    #[inline]
    pub(crate) fn engine(&self) -> NonNull<()> {
        // Relaxed: written before the remote was shown to anyone.
        let engine = self.engine.load(Ordering::Relaxed);
        debug_assert!(!engine.is_null());
        // SAFETY: set by `set_engine` before the remote was shown to anyone, and not null there.
        unsafe { NonNull::new_unchecked(engine) }
    }

    /// Sets what wakes the worker. Once, before anybody schedules.
    pub(crate) fn set_waker(&self, waker: Arc<dyn Wake>) {
        let unset = self.waker.0.set(waker).is_ok();
        debug_assert!(unset);
    }

    /// Wakes the worker, or starts it, whether it sleeps or not. False if it could not be started.
    pub(crate) fn wake(&self) -> bool {
        self.waker.0.get().is_some_and(|waker| waker.wake(self))
    }

    pub(crate) fn is_turned_by_another(&self) -> bool {
        self.waker.0.get().is_some_and(|waker| waker.is_turned_by_another(self.index))
    }

    /// Checks whether the worker gets to run.
    pub(crate) fn check_worker(&self) {
        self.waker.0.get().into_iter().for_each(|waker| waker.check_worker(self));
    }

    /// Gives a filled-in entry to the worker, and wakes it if it would sleep past the deadline.
    ///
    /// # Safety
    /// As for [`Inbox::push`].
    #[inline]
    pub(crate) unsafe fn push(&self, entry: NonNull<Entry>, deadline: Tick) -> Result<(), Closed> {
        // SAFETY: handed on.
        unsafe { self.push_chain(entry, entry, 1, deadline) }
    }

    /// Gives an entry to the worker once more, which others know already: a series', armed again.
    ///
    /// Whether to wake the worker goes by the deadline that the entry has *after* the push: between its arming and the push
    /// somebody may have reset it to an earlier one, woken the worker, and left it to find nothing, as with the reset queue. (The
    /// entry may be gone by now, and be another's: then it was a needless look, or at worst a needless wake-up.)
    ///
    /// # Safety
    /// As for [`Inbox::push`]; the caller has a reference to the engine.
    pub(crate) unsafe fn push_again(&self, entry: NonNull<Entry>) -> Result<(), Closed> {
        // SAFETY: handed on.
        let pushed = unsafe { self.inbox.push(entry, entry, 1) }?;
        // SAFETY: entries are not freed before their engine, and a look at the word is allowed to anybody.
        let deadline = unsafe { entry_ref(entry) }.state.deadline();
        self.ring_for(pushed, deadline);
        Ok(())
    }

    /// Gives a chain of entries, all of one deadline, to the worker: all or none.
    ///
    /// # Safety
    /// As for [`Inbox::push`].
    #[inline]
    pub(crate) unsafe fn push_chain(
        &self,
        first: NonNull<Entry>,
        last: NonNull<Entry>,
        len: usize,
        deadline: Tick,
    ) -> Result<(), Closed> {
        // SAFETY: handed on.
        let pushed = unsafe { self.inbox.push(first, last, len) }?;
        self.ring_for(pushed, deadline);
        Ok(())
    }

    #[inline]
    fn ring_for(&self, pushed: Pushed, deadline: Tick) {
        match pushed {
            Pushed::Awake => {}
            Pushed::Asleep if !self.sleeps_past(deadline) => {}
            Pushed::Asleep | Pushed::AsleepAndDeep => self.ring(),
            Pushed::Many => self.ring_and_look(deadline),
        }
    }

    #[cold]
    #[inline(never)]
    fn ring_and_look(&self, deadline: Tick) {
        if self.inbox.depth() >= WAKE_DEPTH {
            self.ring();
        } else {
            self.ring_if_it_sleeps_past(deadline);
        }
        self.check_worker();
    }

    /// To be called after an entry that was found where it had been pushed was armed again. Wakes the worker if it sleeps past the
    /// deadline. That takes no more than a look, because the entry has not been gone through since it was pushed: either the
    /// worker sleeps since before that push, which the caller knows of, so that the look sees it; or it is awake, and does not
    /// sleep before it has gone through the entry.
    #[inline]
    pub(crate) fn wake_for_revived(&self, deadline: Tick) {
        if self.inbox.looks_asleep() && self.sleeps_past(deadline) {
            self.ring();
        }
    }

    /// Gives a cancelled entry to the worker. Wakes it only if too many of them wait.
    ///
    /// # Safety
    /// The caller won the cancel, has moved the task out, and holds one of the entry's owners until this returns.
    #[inline]
    pub(crate) unsafe fn push_cancelled(&self, entry: NonNull<Entry>) {
        // SAFETY: handed on.
        if unsafe { self.cancelled.push(entry) } == SidePush::Deep {
            self.ring();
        }
    }

    /// Tells the worker that an entry was reset to an earlier deadline, by a caller that holds its handle. False if nobody is to be told any
    /// more: then the node is still the caller's.
    ///
    /// Whether to wake it goes by the deadline that the entry has *after* the look at ASLEEP, not by the caller's own:
    /// meanwhile it may have been reset to one that is earlier still, by somebody who saw that the reset queue was on its way,
    /// woke the worker, and left it to find nothing, as the reset queue was not there yet.
    ///
    /// # Safety
    /// The node is the caller's, and the worker's afterwards.
    #[must_use]
    pub(crate) unsafe fn push_reset(&self, node: NonNull<Entry>, entry: NonNull<Entry>) -> bool {
        // SAFETY: the caller's.
        unsafe { entry_ref(node) }.set_next(entry.as_ptr());
        // SAFETY: handed on; a node has no task.
        let pushed = unsafe { self.resets.push(node) };
        if pushed == SidePush::Closed {
            return false;
        }
        // SAFETY: the handle keeps the entry alive.
        let state = &unsafe { entry_ref(entry) }.state;
        if self.inbox.is_asleep() && (pushed == SidePush::Deep || self.sleeps_past(state.deadline())) {
            self.ring();
        }
        true
    }

    /// Has the worker go through the whole wheel, as an entry was reset to an earlier deadline without a node that could say which.
    #[cold]
    pub(crate) fn ask_for_rescan(&self, deadline: Tick) {
        // Release: pairs with the Acquire in `takes_rescan`: the worker sees the deadline.
        self.rescan.store(1, Ordering::Release);
        self.ring_if_it_sleeps_past(deadline);
    }

    /// Whether the worker has to go through the whole wheel, from here on.
    pub(crate) fn takes_rescan(&self) -> bool {
        // Relaxed: a look, so that the worker only reads as a rule. Acquire: pairs with the Release in `ask_for_rescan`.
        self.wants_rescan() && self.rescan.swap(0, Ordering::Acquire) != 0
    }

    fn wants_rescan(&self) -> bool {
        self.rescan.load(Ordering::Relaxed) != 0
    }

    /// Wakes the worker if it would sleep past `deadline`. What the caller did before is seen by the worker before it
    /// sleeps again, whichever way this goes.
    pub(crate) fn ring_if_it_sleeps_past(&self, deadline: Tick) {
        if self.inbox.is_asleep() && self.sleeps_past(deadline) {
            self.ring();
        }
    }

    /// To be called after a look at the inbox has seen ASLEEP (by a read-modify-write; but see
    /// [`wake_for_revived`](Self::wake_for_revived)), and not before: only then is what is read
    /// here at least as new as that sleep. (Read before it, the worker may have woken and slept again in between, with
    /// another `wake_at`; the model `wake_at_read_first` in loom-tests shows what happens then.)
    #[inline]
    fn sleeps_past(&self, deadline: Tick) -> bool {
        deadline.get() < self.wake_at.load(Ordering::Relaxed)
    }

    /// Wakes the worker, or starts it if it has never run.
    #[cold]
    pub(crate) fn ring(&self) {
        if self.inbox.wake() && !self.wake() {
            // Whoever schedules next tries again; until then the watchdog says so.
            self.fault.set_cannot_start();
            self.inbox.put_back_to_sleep();
        }
    }

    /// The worker is about to park until `until` (never if none). False if there is something to do first.
    pub(crate) fn fall_asleep(&self, until: Option<Tick>) -> bool {
        // Relaxed: published by the release of the exchange in `fall_asleep`.
        self.wake_at.store(until.unwrap_or(Tick::NEVER).get(), Ordering::Relaxed);
        if !self.inbox.fall_asleep() {
            return false;
        }
        // Only now: whoever fills one of these queues does a read-modify-write on the inbox afterwards, so either that
        // one sees ASLEEP, or these looks see what it did.
        let called = !self.resets.is_empty()
            || self.wants_rescan()
            || self.cancelled.is_deep()
            || self.is_turn_requested()
            || self.is_stopped()
            || (self.drains_until().is_some() && !self.is_closed());
        if called {
            // If somebody else has cleared it by now, there is one unpark too many: the next park returns at once.
            self.inbox.wake();
        }
        !called
    }

    /// Gives the worker an order. Does not wake it.
    pub(crate) fn command(&self, command: Command) {
        // Release: pairs with the Acquire in `is_stopped`.
        self.command.store(command as u8, Ordering::Release);
    }

    /// Orders a drain, until `until` at the latest. Does not wake it.
    pub(crate) fn command_drain(&self, until: Tick) {
        // Relaxed: published by the order.
        self.drain_until.store(until.get(), Ordering::Relaxed);
        self.command(Command::Drain);
    }

    fn is_commanded(&self, command: Command) -> bool {
        // Acquire: pairs with the Release in `command`.
        self.command.load(Ordering::Acquire) == command as u8
    }

    /// Whether the worker is to end at once.
    pub(crate) fn is_stopped(&self) -> bool {
        // Acquire: pairs with the Release in `command`.
        let command = self.command.load(Ordering::Acquire);
        command != 0 && command != Command::Drain as u8
    }

    /// When the drain is over that the worker was ordered to, if it was.
    pub(crate) fn drains_until(&self) -> Option<Tick> {
        self.is_commanded(Command::Drain).then(|| Tick::new(self.drain_until.load(Ordering::Relaxed)))
    }

    /// Whether nobody waits for what was pending.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.is_commanded(Command::StopAndDiscard)
    }

    /// Whether what was pending is to be run.
    pub(crate) fn is_to_fire(&self) -> bool {
        self.is_commanded(Command::StopAndFire)
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Entries waiting in the inbox, up to 65,535, and those that the worker has taken and is going through.
    pub(crate) fn inbox_depth(&self) -> usize {
        self.inbox.depth() + usize::try_from(self.counters.backlog.get()).unwrap_or(usize::MAX)
    }

    /// The same of the cancelled queue.
    pub(crate) fn cancelled_depth(&self) -> usize {
        self.cancelled.depth() + usize::try_from(self.counters.cancelled_backlog.get()).unwrap_or(usize::MAX)
    }

    /// The number of the newest turn that was asked for; to be read by the worker before the turn.
    pub(crate) fn turn_requested(&self) -> u64 {
        // Acquire: pairs with the release in `ask`: the turn sees the clock as the asker has moved it.
        self.turn_requested.load(Ordering::Acquire)
    }

    fn is_turn_requested(&self) -> bool {
        self.turn_requested() != *lock(&self.turn_completed)
    }

    /// The worker has done all that was due when it was `turn_requested`. `earliest` finds the earliest deadline, if that is wanted.
    pub(crate) fn complete_turn(&self, requested: u64, earliest: impl FnOnce() -> Tick) {
        // Acquire: pairs with the Release in `request_earliest`.
        if self.earliest_requested.load(Ordering::Acquire) != 0 {
            // Published by the lock. It stays asked for: this may be the answer to somebody who asked before, when the turn whose
            // answer is waited for is still to come.
            self.earliest.store(earliest().get(), Ordering::Relaxed);
        }
        let mut done = lock(&self.turn_completed);
        if *done != requested {
            *done = requested;
            self.turn_completed_changed.notify_all();
        }
    }

    /// Asks a running worker to look at the clock once more before it sleeps. Returns the number of this question.
    pub(crate) fn request_turn(&self) -> u64 {
        // Release: pairs with the Acquire in `turn_requested`.
        let mine = self.turn_requested.fetch_add(1, Ordering::AcqRel) + 1;
        self.ring();
        mine
    }

    /// Asks a running worker to look at the clock, and waits until it has done all that is due by it.
    pub(crate) fn request_turn_and_wait(&self) {
        let mine = self.request_turn();
        let mut done = lock(&self.turn_completed);
        while *done < mine {
            done = self.turn_completed_changed.wait(done).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Asks a running worker for the earliest deadline, and waits for the answer. Not by two threads at a time.
    pub(crate) fn request_earliest(&self) -> Tick {
        self.earliest.store(Tick::NEVER.get(), Ordering::Relaxed);
        // Release: pairs with the Acquire in `answer`.
        self.earliest_requested.store(1, Ordering::Release);
        self.request_turn_and_wait();
        self.earliest_requested.store(0, Ordering::Relaxed);
        Tick::new(self.earliest.load(Ordering::Relaxed))
    }

    /// Lets go of whoever waits for an answer, or will ever ask: the shard is closed, there will be none.
    pub(crate) fn complete_all_turns(&self) {
        *lock(&self.turn_completed) = u64::MAX;
        self.turn_completed_changed.notify_all();
    }

    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Whether the worker waits, and if so, until when ([`Tick::NEVER`]: until it is called).
    pub(crate) fn sleeps_until(&self) -> Option<Tick> {
        self.inbox.is_asleep().then(|| Tick::new(self.wake_at.load(Ordering::Relaxed)))
    }
}
