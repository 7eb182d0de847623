//! The side of a shard that producers see: inbox, cancelled queue, moved queue, and the doorbell
//! that connects them.

mod turns;

use std::ptr;
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;

use self::turns::Completed;
use super::inbox::Inbox;
use super::number::{Number, remote_of};
use super::queue::{Pushed, SideQueue, WAKE_DEPTH};
use crate::count::{CANNOT_START, Counters, Latenesses, Stall};
use crate::entry::{Armed, Chain, Claiming, Entry, Home, Marked, Queued, Token, Work};
use crate::sync::{AtomicPtr, AtomicU8, AtomicU64, Condvar, Mutex, Ordering, Shown};
use crate::time::{Subtick, Timeline};

/// Makes a shard's worker run: starts it, or unparks it. Returns false if the worker could not be
/// started. All shards of an engine share it.
pub(crate) type Waker = Arc<dyn Fn(&Remote) -> bool + Send + Sync>;

/// A command that ends the worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    /// Accept nothing more, and go on until nothing is pending or this time has come. Then close
    /// the shard, end, and return the timeouts that are left.
    Drain(Subtick),
    /// Close the shard, run the pending timeouts, and end.
    StopAndFire,
    /// Close the shard, end, and return the pending timeouts.
    StopAndReturn,
    /// Close the shard, end, and drop the pending timeouts: nobody waits for them.
    StopAndDiscard,
}

// The word of each command. Those to stop are behind all times of a drain, in this order. 0 means
// that there is none.
const STOP_AND_FIRE: u64 = u64::MAX - 2;
const STOP_AND_RETURN: u64 = u64::MAX - 1;
const STOP_AND_DISCARD: u64 = u64::MAX;

/// One per shard. Entries name it by its number (`Entry::home`), so it does not move while anyone
/// holds an entry of its engine.
pub(crate) struct Remote {
    inbox: CachePadded<Inbox>,
    /// Linked entries that were cancelled.
    cancelled: CachePadded<SideQueue>,
    /// Linked entries that were reset to an earlier deadline.
    moved: CachePadded<SideQueue>,
    /// Whether the worker is to give unused cells of its wheel back.
    shrink: AtomicU8,
    pub(crate) claiming: Claiming,
    /// When the worker will wake by itself, stored before it falls asleep. Only the
    /// worker writes it.
    wake_at: CachePadded<AtomicU64>,
    /// The [`Command`], as a word.
    command: AtomicU64,
    /// The newest turn that was requested, for a clock that tells its listeners.
    turn_requested: AtomicU64,
    completed: Mutex<Completed>,
    completed_changed: Condvar,
    /// Whether the worker makes progress, as the threads that wait for it see it.
    pub(crate) stall: Stall,
    pub(crate) lateness: Latenesses,
    /// Why the shard is not turned: 0, or a word of `count/watchdog.rs`.
    pub(crate) fault: Shown,
    pub(crate) counters: CachePadded<Counters>,
    waker: OnceLock<Waker>,
    /// Not 0 if a worker turns the shard, and not a driver, and has been started.
    pub(crate) has_worker: Shown,
    /// The engine that this is a part of, which never changes. Atomic all the same, so that the
    /// compiler reads it where it is needed, and not sooner in case it is: `sleep-drop` would cost
    /// three instructions more.
    engine: AtomicPtr<()>,
    number: Number,
    index: usize,
    has_core: OnceLock<()>,
}

/// The address of an engine. Only the engine layer knows its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineAddress(pub(crate) *mut ());

// SAFETY: it is an address. The code that makes a reference of it says that the engine is there,
// which any thread may use.
unsafe impl Send for EngineAddress {}
// SAFETY: it is an address, and is never written to.
unsafe impl Sync for EngineAddress {}

/// Takes from the queues of one shard. There is one such value for each remote.
#[derive(Debug)]
pub(crate) struct Takes(usize);

impl Takes {
    /// Returns the remote, which is the one that this was made for.
    fn of<'a>(&'a mut self, remote: &'a Remote) -> &'a Remote {
        assert_eq!(self.0, ptr::from_ref(remote).addr(), "a worker takes from its own shard");
        remote
    }

    pub(crate) fn inbox<'a>(&'a mut self, remote: &'a Remote) -> &'a Inbox {
        &self.of(remote).inbox
    }

    pub(crate) fn cancelled<'a>(&'a mut self, remote: &'a Remote) -> &'a SideQueue {
        &self.of(remote).cancelled
    }

    pub(crate) fn moved<'a>(&'a mut self, remote: &'a Remote) -> &'a SideQueue {
        &self.of(remote).moved
    }
}

/// Producers may use it after a panic: none of its steps panics half-way.
impl std::panic::RefUnwindSafe for Remote {}

impl Remote {
    /// Makes the remote of a shard of the engine at this address.
    ///
    /// # Safety
    /// The remote becomes a part of that `Shared`, at that address, and [has its
    /// place](Self::has_its_place), before anybody uses either.
    pub(crate) unsafe fn new(index: usize, number: Number, engine: EngineAddress) -> Self {
        Self {
            inbox: CachePadded::new(Inbox::new()),
            cancelled: CachePadded::new(SideQueue::new()),
            moved: CachePadded::new(SideQueue::new()),
            shrink: AtomicU8::new(0),
            claiming: Claiming::new(),
            wake_at: CachePadded::new(AtomicU64::new(Subtick::NEVER.get())),
            command: AtomicU64::new(0),
            turn_requested: AtomicU64::new(0),
            completed: Mutex::default(),
            completed_changed: Condvar::new(),
            stall: Stall::none(),
            lateness: Latenesses::new(),
            fault: Shown::new(0),
            counters: CachePadded::default(),
            waker: OnceLock::new(),
            has_worker: Shown::new(0),
            engine: AtomicPtr::new(engine.0),
            number,
            index,
            has_core: OnceLock::new(),
        }
    }

    /// Returns the remote at which an entry is at home.
    #[inline]
    pub(crate) fn at(home: Home<'_>) -> &Self {
        // SAFETY: a home is the number of a remote that is there for this lifetime. `set` has
        // stored it, and this thread was told of the number after that.
        unsafe { &*remote_of(home.number()) }
    }

    /// Is called when the remote does not move any more: from here on its number names it.
    pub(crate) fn has_its_place(&self) {
        self.number.set(self);
    }

    /// Returns this remote for the entries that are armed for it.
    #[inline]
    pub(crate) fn as_home(&self) -> Home<'_> {
        // SAFETY: this is a remote of an engine, and has its place, as the caller of `new` has
        // promised.
        unsafe { Home::new(self.number.get()) }
    }

    /// Returns the address of the engine that this remote is a part of.
    #[inline]
    pub(crate) fn engine(&self) -> EngineAddress {
        EngineAddress(self.engine.load(Ordering::Relaxed))
    }

    /// Returns the value with which the worker's half of the shard takes from the queues. Panics if
    /// it was made before: two would take from the same queues.
    pub(crate) fn begin_core(&self) -> Takes {
        assert!(self.has_core.set(()).is_ok(), "shard {} has its worker's half", self.index);
        Takes(ptr::from_ref(self).addr())
    }

    /// Sets what wakes the worker. Called once, before anybody schedules.
    pub(crate) fn set_waker(&self, waker: Waker) {
        let unset = self.waker.set(waker).is_ok();
        debug_assert!(unset);
    }

    /// Wakes the worker, or starts it, whether it sleeps or not. Returns false if it could not be
    /// started.
    pub(crate) fn wake(&self) -> bool {
        self.waker.get().is_some_and(|wake| wake(self))
    }

    /// Pushes an armed entry to the worker, and wakes the worker if it would sleep past the
    /// deadline. Returns the entry if the inbox is closed.
    #[inline]
    pub(crate) fn push<W: Work>(
        &self,
        entry: Armed<W>,
        deadline: Subtick,
        timeline: &Timeline,
    ) -> Result<(), Armed<W>> {
        debug_assert!(self.is_home_of(&entry), "an entry goes to its own shard");
        let Some(pushed) = self.inbox.push(&entry) else { return Err(entry) };
        self.ring_for(pushed, deadline, timeline);
        Ok(())
    }

    /// Pushes an entry that others know already: that of a periodic timeout, armed again, or of one
    /// that was put off while it was in a batch.
    ///
    /// Whether to wake the worker depends on the deadline that the entry has *after* the push.
    /// Between the arming and the push another thread may have reset the entry to an earlier
    /// deadline and woken the worker, which then found nothing, as with the moved queue. By now the
    /// entry may be free, or hold another timeout. Then the look is needless, and at worst causes a
    /// needless wake-up.
    ///
    /// # Safety
    /// The caller has a reference to the engine.
    pub(crate) unsafe fn push_again(&self, entry: Marked, timeline: &Timeline) -> Result<(), Marked> {
        assert!(self.is_home_of(&entry), "an entry goes to its own shard");
        let address = entry.address();
        let Some(pushed) = self.inbox.push(&entry) else { return Err(entry) };
        // SAFETY: an entry is not freed before its engine, which the caller references, and any
        // thread may read the state word.
        let deadline = unsafe { address.as_ref() }.snapshot().deadline();
        self.ring_for(pushed, deadline, timeline);
        Ok(())
    }

    /// Pushes a chain of entries, all with one deadline, to the worker: all of them or none.
    pub(crate) fn push_chain<W: Work>(
        &self,
        chain: Chain<Armed<W>>,
        deadline: Subtick,
        timeline: &Timeline,
    ) -> Result<(), Chain<Armed<W>>> {
        let pushed = self.inbox.push_chain(chain)?;
        self.ring_for(pushed, deadline, timeline);
        Ok(())
    }

    #[inline]
    fn ring_for(&self, pushed: Pushed, deadline: Subtick, timeline: &Timeline) {
        if pushed.is_asleep() && (pushed.is_deep() || self.sleeps_past(deadline, timeline)) {
            self.ring();
        }
    }

    /// Wakes the worker if it sleeps past the deadline. The caller has just revived a tombstone, an
    /// entry that is still where it was pushed.
    ///
    /// A load is enough, because the worker has not gone through the entry since it was pushed. If
    /// the worker has slept since before that push, the caller knows of the push, so the load sees
    /// ASLEEP. If the worker is awake, it does not sleep before it has gone through the entry. An
    /// entry in a slot comes up no later than the deadline anyway.
    #[inline]
    pub(crate) fn wake_for_revived(&self, deadline: Subtick, timeline: &Timeline) {
        if self.inbox.looks_asleep() && self.sleeps_past(deadline, timeline) {
            self.ring();
        }
    }

    /// Pushes a cancelled entry to the worker. Wakes the worker only if too many of them wait.
    #[inline]
    pub(crate) fn push_cancelled(&self, entry: Queued<'_>) {
        assert!(self.is_home_of(entry.entry()), "an entry goes to its own shard");
        match self.cancelled.push(entry) {
            Ok(pushed) if pushed.is_deep_again() => self.ring(),
            Ok(_) => {}
            Err(entry) => entry.refused(),
        }
    }

    /// Returns whether an entry was scheduled on this shard.
    #[inline]
    pub(crate) fn is_home_of(&self, entry: &Entry) -> bool {
        entry.home() == Some(self.as_home())
    }

    /// Pushes an entry that was reset to an earlier deadline to the worker. `deadline` looks at the
    /// entry, whose handle the caller has.
    ///
    /// Whether to wake the worker depends on the deadline that the entry has *after* the look at
    /// ASLEEP, not on the caller's own. Meanwhile another thread may have reset the entry to a
    /// still earlier deadline. That thread saw that the entry was on its way, and pushed nothing.
    /// It woke the worker, which found nothing, because the entry was not in the queue yet.
    #[inline(never)] // In a reset it is the rare case, and would cost the usual one registers.
    pub(crate) fn push_moved(&self, entry: Queued<'_>, deadline: impl FnOnce() -> Subtick, timeline: &Timeline) {
        assert!(self.is_home_of(entry.entry()), "an entry goes to its own shard");
        match self.moved.push(entry) {
            Ok(pushed) => {
                if self.inbox.is_asleep() && (pushed.is_deep_again() || self.sleeps_past(deadline(), timeline)) {
                    self.ring();
                }
            }
            Err(entry) => entry.refused(),
        }
    }

    /// Asks the worker to give unused cells of its wheel back in its next turn. Wakes it for that,
    /// unless it is about to fall asleep: then it does it when it wakes.
    pub(crate) fn ask_for_shrink(&self) {
        // Relaxed: nothing is read by it.
        self.shrink.store(1, Ordering::Relaxed);
        self.ring_if_it_sleeps();
    }

    /// Returns whether the worker has to give unused cells back, and takes the request.
    pub(crate) fn takes_shrink(&self) -> bool {
        self.shrink.load(Ordering::Relaxed) != 0 && self.shrink.swap(0, Ordering::Relaxed) != 0
    }

    /// Wakes the worker if it would sleep past `deadline`. In either case the worker sees what the
    /// caller did before this call before it sleeps again.
    pub(crate) fn ring_if_it_sleeps_past(&self, deadline: Subtick, timeline: &Timeline) {
        if self.inbox.is_asleep() && self.sleeps_past(deadline, timeline) {
            self.ring();
        }
    }

    /// Wakes the worker if it sleeps. A load is enough: a producer that waits looks again and
    /// again, and a shrink may wait until the worker wakes.
    pub(crate) fn ring_if_it_sleeps(&self) {
        if self.inbox.looks_asleep() {
            self.ring();
        }
    }

    /// Returns whether a sleeping worker sleeps past the deadline. It may sleep to a later part of
    /// the same tick, because a tick's timeouts run together. But a timeout that is due now does
    /// not wait for others, nor does any by a user's clock. That needs a look at the clock only in
    /// such a tick.
    ///
    /// Call this only after a look at the inbox has seen ASLEEP: only then is `wake_at` at least as
    /// new as that sleep. The look must be a read-modify-write, except in
    /// [`wake_for_revived`](Self::wake_for_revived). If `wake_at` is read before the look, the
    /// worker may have woken and slept again in between, with another `wake_at`. The mutant
    /// `wake_at_read_first` in loom-tests shows what happens then.
    #[inline]
    fn sleeps_past(&self, deadline: Subtick, timeline: &Timeline) -> bool {
        let wake_at = self.wake_at.load(Ordering::Relaxed);
        deadline.get() < wake_at && timeline.must_run_before(Subtick::new(wake_at), deadline)
    }

    /// Wakes the worker, or starts it if it has never run.
    #[cold]
    pub(crate) fn ring(&self) {
        if self.inbox.wake() && !self.wake() {
            // The next thread that schedules tries again. Until then the watchdog reports it.
            self.fault.set(CANNOT_START);
            self.inbox.put_back_to_sleep();
        }
    }

    /// Prepares the worker to park until `until`, or for ever if that is `None`. Returns false if
    /// there is something to do first.
    pub(crate) fn fall_asleep(&self, until: Option<Subtick>) -> bool {
        // Relaxed: published by the release of the exchange in `fall_asleep`.
        self.wake_at.store(until.unwrap_or(Subtick::NEVER).get(), Ordering::Relaxed);
        if !self.inbox.fall_asleep() {
            return false;
        }
        // After ASLEEP was set, not before. A thread that pushes to one of these queues, or
        // requests a turn, does a read-modify-write on the inbox afterwards. So either that one
        // sees ASLEEP, or these looks see what the thread did. A thread that gives a command
        // unparks the worker's thread instead.
        let called = self.moved.depth() > 0
            || self.cancelled.depth() >= WAKE_DEPTH
            || self.is_turn_requested()
            || self.is_stopped()
            || (self.drains_until().is_some() && !self.is_closed());
        if called {
            // If another thread has cleared ASLEEP by now, there is one unpark too many, and the
            // next park returns at once.
            self.inbox.wake();
        }
        !called
    }

    /// Gives the worker a command. Does not wake it.
    pub(crate) fn command(&self, command: Command) {
        let word = match command {
            Command::Drain(until) => until.get() + 1,
            Command::StopAndFire => STOP_AND_FIRE,
            Command::StopAndReturn => STOP_AND_RETURN,
            Command::StopAndDiscard => STOP_AND_DISCARD,
        };
        // Release: pairs with the Acquire in `commanded`.
        self.command.store(word, Ordering::Release);
    }

    /// Returns the word of the command.
    #[inline]
    fn commanded(&self) -> u64 {
        // Acquire: pairs with the Release in `command`.
        self.command.load(Ordering::Acquire)
    }

    /// Returns whether any command was given.
    pub(crate) fn is_commanded(&self) -> bool {
        self.commanded() != 0
    }

    /// Returns whether the worker has to end at once.
    pub(crate) fn is_stopped(&self) -> bool {
        self.commanded() >= STOP_AND_FIRE
    }

    /// Returns when the drain is over, or `None` if no drain was commanded.
    pub(crate) fn drains_until(&self) -> Option<Subtick> {
        let word = self.commanded();
        (1..STOP_AND_FIRE).contains(&word).then(|| Subtick::new(word - 1))
    }

    /// Returns whether timeouts that have not begun are not to run any more: a shutdown, or nobody,
    /// wants them.
    pub(crate) fn wants_back(&self) -> bool {
        // One comparison, as this is asked for each timeout that expires.
        self.commanded() >= STOP_AND_RETURN
    }

    /// Returns whether the pending timeouts are to be dropped.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.commanded() == STOP_AND_DISCARD
    }

    /// Returns whether the pending timeouts are to be run.
    pub(crate) fn is_to_fire(&self) -> bool {
        self.commanded() == STOP_AND_FIRE
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Returns how many entries are in the inbox, the cancelled queue and the moved queue, up to
    /// 65,535 each.
    #[inline]
    pub(crate) fn pushed(&self) -> [usize; 3] {
        [self.inbox.depth(), self.cancelled.depth(), self.moved.depth()]
    }

    /// Returns how many entries wait: those in the inbox, up to 65,535, and those that the worker
    /// has taken and not gone through yet.
    pub(crate) fn inbox_depth(&self) -> usize {
        self.inbox.depth() + usize::try_from(self.counters.backlog.get()).unwrap_or(usize::MAX)
    }

    /// Returns how many cancelled entries wait: those in the cancelled queue, up to 65,535, and
    /// those that the worker has taken and not gone through yet.
    pub(crate) fn cancelled_depth(&self) -> usize {
        self.cancelled.depth() + usize::try_from(self.counters.cancelled_backlog.get()).unwrap_or(usize::MAX)
    }

    /// The same for the moved queue.
    pub(crate) fn moved_depth(&self) -> usize {
        self.moved.depth() + usize::try_from(self.counters.moved_backlog.get()).unwrap_or(usize::MAX)
    }

    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns until when the worker sleeps, or `None` if it is awake. [`Subtick::NEVER`] means:
    /// until a thread wakes it.
    pub(crate) fn sleeps_until(&self) -> Option<Subtick> {
        self.inbox.is_asleep().then(|| Subtick::new(self.wake_at.load(Ordering::Relaxed)))
    }
}
