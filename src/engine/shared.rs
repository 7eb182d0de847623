//! The part of one engine that all shards, threads and handles share.

use std::any::Any;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::in_flight::InFlight;
use crate::arena::{Arena, PerThread};
use crate::count::Counts;
use crate::entry::{Chain, Entry, Owned, Sole, Won};
use crate::events;
use crate::panics::{self, CatchUnwind, Panic};
use crate::shard::{EngineAddress, Remote, Waker};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, Shown, lock};
use crate::sys::fork;
use crate::thread::{Local, NoWait, ShardedRef, ThreadState};
use crate::time::Timeline;

/// Called with the panic of a task.
pub(crate) type PanicHook = Box<dyn Fn(&(dyn Any + Send)) + Send + Sync>;

/// An exact bound on pending timeouts.
#[derive(Debug)]
pub(super) struct Limit {
    max: usize,
    used: CachePadded<AtomicUsize>,
}

/// The parts that an engine is made from.
pub(crate) struct SharedPlan {
    pub(crate) timeline: Timeline,
    pub(crate) arena: Arena,
    pub(crate) max_pending: Option<usize>,
    pub(crate) max_wait: Duration,
    pub(crate) on_panic: Option<CatchUnwind<PanicHook>>,
}

/// The part of one engine that all its shards and threads share.
pub(crate) struct Shared {
    /// How many [`SharedRef`](super::SharedRef)s there are, which alone use it.
    pub(super) owners: AtomicUsize,
    pub(crate) arena: Arena,
    timeline: Timeline,
    remotes: Box<[Remote]>,
    thread_states: PerThread<CachePadded<ThreadState>>,
    /// For threads in teardown, which have no number any more. Made when the first one comes.
    teardown: Mutex<Option<ThreadState>>,
    next_home: AtomicUsize,
    pub(super) refs: ShardedRef,
    pub(super) limit: Option<Limit>,
    /// How long a schedule may wait for a worker that is behind.
    pub(super) max_wait: Duration,
    pub(crate) in_flight: InFlight,
    pub(crate) panicked: AtomicU64,
    /// Timeouts that the thread which had their batch ran, because the executor dropped the batch
    /// or panicked.
    pub(crate) caller_ran: AtomicU64,
    /// Not 0 if a periodic timeout was armed for a time that has already come. A driver then turns
    /// the shards once more, and clears it. Without a driver it stays set.
    pub(crate) overdue: Shown,
    on_panic: Option<CatchUnwind<PanicHook>>,
    /// The answer of a shutdown, as far as it has come. `None` unless one is waiting.
    pub(super) unfired: Mutex<Option<Chain<Won>>>,
    /// [`fork::generation`] when it was made.
    generation: u64,
}

impl Shared {
    /// Makes the shared part. `remotes` are those of all shards.
    pub(super) fn new(plan: SharedPlan, remotes: Vec<Remote>) -> Self {
        Self {
            owners: AtomicUsize::new(1),
            arena: plan.arena,
            timeline: plan.timeline,
            remotes: remotes.into_boxed_slice(),
            thread_states: PerThread::new(),
            teardown: Mutex::new(None),
            next_home: AtomicUsize::new(0),
            refs: ShardedRef::new(),
            limit: plan.max_pending.map(|max| Limit { max, used: CachePadded::new(AtomicUsize::new(0)) }),
            max_wait: plan.max_wait,
            in_flight: InFlight::default(),
            panicked: AtomicU64::new(0),
            caller_ran: AtomicU64::new(0),
            overdue: Shown::new(0),
            on_panic: plan.on_panic,
            unfired: Mutex::new(None),
            generation: fork::generation(),
        }
    }

    /// Returns the engine that a remote is a part of.
    #[inline]
    pub(crate) fn of_remote(remote: &Remote) -> &Self {
        // SAFETY: the remote was made as a part of the engine at this address, and so the engine is
        // there.
        unsafe { &*Self::ptr_of_remote(remote) }
    }

    /// Like [`of_remote`](Self::of_remote), but returns a pointer, for callers that may free the
    /// engine.
    #[inline]
    pub(super) fn ptr_of_remote(remote: &Remote) -> *mut Self {
        remote.engine().0.cast()
    }

    /// Returns the engine of a thread's state. If the caller found the state through an entry, the
    /// processor need not wait for that entry's memory to compute anything from this result: it
    /// guesses the branch that says that this is the state which the thread remembers.
    #[inline]
    pub(crate) fn of_thread(mine: Local<'_>) -> &Self {
        // SAFETY: `new_thread_state` stored the address, and a state is there for no longer than
        // its engine.
        unsafe { &*mine.state().engine().0.cast() }
    }

    fn new_thread_state(&self) -> ThreadState {
        // SAFETY: each caller keeps the state in this engine, or for no longer than it borrows it.
        unsafe { ThreadState::of(EngineAddress(ptr::from_ref(self).cast_mut().cast())) }
    }

    /// Sets what wakes the workers. Called once, before anybody schedules.
    pub(crate) fn set_waker(&self, wake: impl Fn(&Remote) -> bool + Send + Sync + 'static) {
        let waker: Waker = Arc::new(wake);
        self.remotes.iter().for_each(|remote| remote.set_waker(Arc::clone(&waker)));
    }

    /// Returns whether an entry is of this engine, or was never scheduled.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        entry.home().is_none_or(|home| ptr::eq(Self::of_remote(Remote::at(home)), self))
    }

    /// Returns a number that no other engine of this process ever has, and that is not 0.
    pub(crate) fn id(&self) -> u64 {
        self.thread_states.id()
    }

    #[inline]
    pub(crate) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    pub(crate) fn remotes(&self) -> &[Remote] {
        &self.remotes
    }

    pub(crate) fn remote(&self, shard: usize) -> &Remote {
        &self.remotes[shard]
    }

    /// Lets `work` use the calling thread's state. `work` must not run user code, which could come
    /// back here.
    #[inline]
    pub(crate) fn with_thread_state<R>(&self, work: impl FnOnce(Local<'_>) -> R) -> R {
        match self.thread_state() {
            Some(mine) => work(mine),
            None => self.with_teardown_state(work),
        }
    }

    #[cold]
    #[inline(never)]
    fn with_teardown_state<R>(&self, work: impl FnOnce(Local<'_>) -> R) -> R {
        // A worker may need the lock, for `Timer::stats` in a task.
        let _no_wait = NoWait::begin();
        // In a forked child, a step that a thread of the parent had begun at the fork stays
        // unfinished for ever, so nobody takes the lock. Counts of the child are lost.
        let mut shared = if self.is_forked() { None } else { Some(lock(&self.teardown)) };
        let mut made = None;
        let mine = shared.as_deref_mut().unwrap_or(&mut made).get_or_insert_with(|| self.new_thread_state());
        // SAFETY: the state is used with this engine. It was just made, or its lock is held.
        work(unsafe { Local::new(mine, &self.arena) })
    }

    /// Returns the calling thread's own state. Returns `None` if the thread is in teardown, so that
    /// it has to share one, or if this is a forked child.
    ///
    /// A reset holds the state while it reads the user's clock, which may come back here. So the
    /// reset does what it does to the state at once, before or after that.
    #[inline]
    pub(crate) fn thread_state(&self) -> Option<Local<'_>> {
        let new = || CachePadded::new(self.new_thread_state());
        let mine = self.thread_states.of_this_thread(|| !self.is_forked(), new)?;
        // SAFETY: it is the calling thread's, and a part of this engine.
        Some(unsafe { Local::new(mine, &self.arena) })
    }

    /// Returns the remote of the calling thread's home shard, whose state `mine` is. Threads are
    /// dealt out to shards in turn.
    #[inline]
    pub(crate) fn home_of(mine: Local<'_>) -> &Remote {
        mine.home_or(|| Self::of_thread(mine).deal_home())
    }

    #[cold]
    fn deal_home(&self) -> &Remote {
        self.remote(self.next_home.fetch_add(1, Ordering::Relaxed) % self.remotes.len())
    }

    /// Returns whether this is a child process that was forked after the engine was made. Then the
    /// engine's threads do not exist here.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        fork::is_forked_since(self.generation)
    }

    /// Lets the calling thread count something that it did on the shard of a remote of this engine.
    #[inline]
    pub(crate) fn count(&self, remote: &Remote, add: impl FnOnce(&Counts)) {
        self.with_thread_state(|mine| add(self.counts_of(mine, remote)));
    }

    /// Returns the calling thread's counts for the shard of a remote of this engine.
    #[inline]
    pub(crate) fn counts_of<'a>(&self, mine: Local<'a>, remote: &Remote) -> &'a Counts {
        mine.counts(remote, self.remotes.len())
    }

    /// Sums a count over all threads, for one shard or for all.
    pub(crate) fn sum(&self, shard: Option<usize>, count: impl Fn(&Counts) -> u64) -> u64 {
        let late = lock(&self.teardown).as_ref().map_or(0, |late| late.sum(shard, &count));
        late + self.thread_states().map(|thread| thread.sum(shard, &count)).sum::<u64>()
    }

    /// Returns all threads' own states.
    pub(super) fn thread_states(&self) -> impl Iterator<Item = &ThreadState> {
        self.thread_states.iter().map(|thread| &**thread)
    }

    /// Counts the panic of a task, and tells of it: the operator, and then the user's hook.
    #[cold]
    pub(crate) fn report(&self, panic: Panic) {
        self.panicked.fetch_add(1, Ordering::Relaxed);
        events::task_panicked(&*panic);
        if let Some(hook) = &self.on_panic {
            // If the hook panics too, that panic is dropped: nobody is left to report it to.
            panics::catch(|| hook(&*panic));
        }
        panics::discard(panic);
    }

    /// Returns the tasks that are running: the shard of each, and since when, in nanoseconds of the
    /// engine's time.
    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, u64)> {
        self.thread_states().filter_map(|thread| thread.running.get())
    }

    /// Takes `n` places under the limit on pending timeouts: all of them or none. Returns whether
    /// it did.
    #[inline]
    pub(crate) fn take_places(&self, n: usize) -> bool {
        let Some(limit) = &self.limit else { return true };
        let add = |used: usize| used.checked_add(n).filter(|&used| used <= limit.max);
        // Acquire: pairs with the Release in `give_places_back`.
        limit.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
    }

    /// Gives `n` places back. The thread that took the entries out of PENDING calls this.
    #[inline]
    pub(crate) fn give_places_back(&self, n: usize) {
        if let Some(limit) = &self.limit {
            // Release: pairs with the Acquire in `take_places` and in `pending`.
            limit.used.fetch_sub(n, Ordering::AcqRel);
        }
    }

    /// Returns how many timeouts were accepted, and have neither fired nor been cancelled nor been
    /// returned yet.
    pub(crate) fn pending(&self) -> usize {
        if let Some(limit) = &self.limit {
            // Acquire: pairs with the Release in `give_places_back`.
            return limit.used.load(Ordering::Acquire);
        }
        // Ends are read before beginnings. So a timeout that was scheduled before this call and
        // ends during it is still counted, unless its cancel was under way before.
        let shards: u64 = self.remotes.iter().map(|m| m.counters.fired.get() + m.counters.returned.get()).sum();
        let ended = self.sum(None, Counts::ended);
        let scheduled = self.sum(None, |counts| counts.scheduled.get());
        usize::try_from(scheduled.saturating_sub(shards + ended)).unwrap_or(usize::MAX)
    }

    /// Gives an entry of this engine back through the calling thread's free list.
    #[inline]
    pub(crate) fn put_entry(&self, entry: Sole) {
        self.with_thread_state(|mine| mine.put_entry(entry));
    }

    /// Gives up the engine's ownership of an entry that is no longer pending. If the engine was the
    /// last owner, the entry goes to the calling thread's free list. A pending entry of this call
    /// would be lost; only one that comes out of the inbox can be pending again.
    #[inline]
    pub(super) fn let_go(&self, entry: Owned) {
        match entry.let_go() {
            Ok(last) => last.into_iter().for_each(|entry| self.put_entry(entry)),
            Err(entry) => debug_assert!(false, "{entry:?} is pending"),
        }
    }

    /// Gives memory that no timeout uses back to the system. Returns how many bytes. Returns 0 in a
    /// forked child, where a thread of the parent may have been changing the free lists during the
    /// fork.
    pub(crate) fn shrink(&self) -> usize {
        if self.is_forked() {
            return 0;
        }
        self.with_thread_state(|mine| mine.cache().flush());
        self.remotes.iter().for_each(|remote| remote.ask_for_shrink());
        self.arena.shrink()
    }
}

/// The handles may be used after a panic. The engine catches the panics of all user code that it
/// calls, and its own steps do not panic half-way.
impl std::panic::RefUnwindSafe for Shared {}

/// Owners of an engine give `&Shared` to any thread, and drop it on any.
#[cfg(not(loom))]
const _: () = {
    const fn is_for_any_thread<T: Send + Sync>() {}
    is_for_any_thread::<Shared>();
};
