//! What all shards, producers and handles of one engine share, and when it goes.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::chain::Chain;
use super::in_flight::InFlight;
use crate::arena::{Arena, PerThread, current_thread, with_remembered};
use crate::count::{Counts, Overdue, Running};
use crate::entry::Entry;
use crate::panics::CatchUnwind;
use crate::shard::{Remote, Wake};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock};
use crate::sys::fork;
use crate::thread::{ShardedRef, ThreadState};
use crate::time::Timeline;

/// Called with what a task panicked with.
pub(crate) type PanicHook = Box<dyn Fn(&(dyn Any + Send)) + Send + Sync>;

/// An exact bound on pending timeouts.
#[derive(Debug)]
struct Limit {
    max: usize,
    used: CachePadded<AtomicUsize>,
}

/// How a engine is made.
pub(crate) struct SharedPlan {
    pub(crate) shards: usize,
    pub(crate) timeline: Timeline,
    pub(crate) arena: Arena,
    pub(crate) max_pending: Option<usize>,
    pub(crate) max_wait: Duration,
    pub(crate) on_panic: Option<PanicHook>,
}

/// What all shards and threads of one engine share.
pub(crate) struct Shared {
    /// Never used again by another engine.
    id: u64,
    pub(super) owners: AtomicUsize,
    pub(crate) arena: Arena,
    timeline: Timeline,
    remotes: Box<[Remote]>,
    thread_states: PerThread<CachePadded<ThreadState>>,
    /// For threads that are in teardown, so that they have no number any more.
    teardown: Mutex<ThreadState>,
    next_home: AtomicUsize,
    pub(super) refs: ShardedRef,
    limit: Option<Limit>,
    max_wait: Duration,
    pub(crate) in_flight: InFlight,
    pub(crate) panicked: AtomicU64,
    /// Timeouts whose executor dropped the batch or panicked, so that they were run by whoever had it.
    pub(crate) refused: AtomicU64,
    pub(crate) overdue: Overdue,
    pub(crate) on_panic: CatchUnwind<Option<PanicHook>>,
    /// What belongs into a shutdown's answer and was not in a shard when that was closed; none unless a shutdown is waiting.
    pub(crate) unfired_periodic: Mutex<Option<Chain>>,
    /// [`fork::generation`] at its making.
    generation: usize,
}

/// Ids start at 1: 0 is no engine's.
static NEXT_ID: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

impl Shared {
    /// None if there is no memory for so many shards.
    pub(super) fn new(plan: SharedPlan) -> Option<Self> {
        let mut remotes = Vec::new();
        remotes.try_reserve_exact(plan.shards).ok()?;
        remotes.extend((0..plan.shards).map(Remote::new));
        Some(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            owners: AtomicUsize::new(1),
            arena: plan.arena,
            timeline: plan.timeline,
            remotes: remotes.into_boxed_slice(),
            thread_states: PerThread::new(),
            teardown: Mutex::new(ThreadState::in_teardown()),
            next_home: AtomicUsize::new(0),
            refs: ShardedRef::new(),
            limit: plan.max_pending.map(|max| Limit { max, used: CachePadded::new(AtomicUsize::new(0)) }),
            max_wait: plan.max_wait,
            in_flight: InFlight::new(),
            panicked: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            overdue: Overdue::default(),
            on_panic: CatchUnwind::new(plan.on_panic),
            unfired_periodic: Mutex::new(None),
            generation: fork::generation(),
        })
    }

    /// The engine that a remote is a part of.
    #[inline]
    pub(crate) fn of_remote(remote: &Remote) -> &Self {
        // SAFETY: `SharedRef::create` wrote it there, and a remote lives as long as its engine.
        unsafe { Self::ptr_of_remote(remote).as_ref() }
    }

    /// The same by a pointer, for callers that may free the engine.
    #[inline]
    pub(super) fn ptr_of_remote(remote: &Remote) -> NonNull<Self> {
        remote.engine().cast()
    }

    /// The engine of a thread's own state. Where the state was found by way of an entry, what is computed from this need not wait for the
    /// entry's memory: that it is the state which the thread remembers is a branch, which the processor guesses.
    #[inline]
    pub(crate) fn of_thread(mine: &ThreadState) -> &Self {
        debug_assert!(!mine.engine().is_null(), "not of one in teardown");
        // SAFETY: `find_thread_state` wrote it there, and the state is a part of that engine, so it is alive.
        unsafe { &*mine.engine().cast::<Self>() }
    }

    /// Sets what wakes the workers. Once, before anybody schedules.
    pub(crate) fn set_waker(&self, waker: &Arc<dyn Wake>) {
        self.remotes.iter().for_each(|remote| remote.set_waker(Arc::clone(waker)));
    }

    /// How long a schedule may wait for a worker that is behind.
    pub(super) fn max_wait(&self) -> Duration {
        self.max_wait
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
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

    /// Lets `work` use the calling thread's producer. It must not run user code: that could come back here.
    #[inline]
    pub(crate) fn with_thread_state<R>(&self, work: impl FnOnce(&ThreadState) -> R) -> R {
        match self.thread_state() {
            Some(mine) => work(mine),
            None => self.with_teardown_state(work),
        }
    }

    #[cold]
    #[inline(never)]
    fn with_teardown_state<R>(&self, work: impl FnOnce(&ThreadState) -> R) -> R {
        match self.teardown_state() {
            Some(mine) => work(&mine),
            // Counted for nobody.
            None => work(&ThreadState::in_teardown()),
        }
    }

    /// The calling thread's own producer; none if the thread is in teardown, so that it has to share one, or is a forked child's. A reset has
    /// it while the user's clock is read, which may come back here: what it does to the producer it does at once, before or after.
    #[inline]
    pub(crate) fn thread_state(&self) -> Option<&ThreadState> {
        let mine = with_remembered(self.id, || self.find_thread_state());
        // SAFETY: producers stay where they are as long as the engine, and the address was found for this engine's id.
        unsafe { mine.as_ref() }
    }

    /// The address of the calling thread's own producer, and whether to remember it.
    #[cold]
    #[inline(never)]
    fn find_thread_state(&self) -> (*const ThreadState, bool) {
        match current_thread() {
            Some(number) if !self.is_forked() => {
                let mine: &ThreadState = self
                    .thread_states
                    .get_or(number, || CachePadded::new(ThreadState::of(std::ptr::from_ref(self).cast())));
                (std::ptr::from_ref(mine), true)
            }
            _ => (std::ptr::null(), false),
        }
    }

    /// The producer that threads share which have none of their own. None in a forked child, where what the parent's threads
    /// were at when it was forked, they are at for ever.
    #[cold]
    #[inline(never)]
    pub(crate) fn teardown_state(&self) -> Option<MutexGuard<'_, ThreadState>> {
        (!self.is_forked()).then(|| lock(&self.teardown))
    }

    /// The remote of the shard that was chosen, or else the one that the calling thread, whose producer this is, schedules on:
    /// threads are dealt out to shards in turn.
    #[inline]
    pub(crate) fn home_of<'a>(&'a self, mine: &'a ThreadState, chosen: Option<usize>) -> &'a Remote {
        match chosen {
            Some(shard) => self.remote(shard),
            None => mine.home_or(|| self.deal_home()),
        }
    }

    #[cold]
    fn deal_home(&self) -> &Remote {
        self.remote(self.next_home.fetch_add(1, Ordering::Relaxed) % self.remotes.len())
    }

    /// Whether this is a child process that was forked after the engine was made: the engine's threads are not here.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        fork::is_forked_since(self.generation)
    }

    /// Lets the calling thread count something that it did on the shard of a remote of this engine.
    #[inline]
    pub(crate) fn count(&self, remote: &Remote, add: impl FnOnce(&Counts)) {
        self.with_thread_state(|mine| add(self.counts_of(mine, remote)));
    }

    /// The calling thread's counts for the shard of a remote of this engine.
    #[inline]
    pub(crate) fn counts_of<'a>(&self, mine: &'a ThreadState, remote: &Remote) -> &'a Counts {
        mine.counts(remote, self.remotes.len())
    }

    /// Sums a count over all threads, of one shard or of all.
    pub(crate) fn sum(&self, shard: Option<usize>, count: impl Fn(&Counts) -> u64) -> u64 {
        let late = lock(&self.teardown).sum(shard, &count);
        late + self.thread_states().map(|thread| thread.sum(shard, &count)).sum::<u64>()
    }

    /// Those of all threads that have one of their own at this moment.
    pub(super) fn thread_states(&self) -> impl Iterator<Item = &ThreadState> {
        self.thread_states.iter().map(|thread| &**thread)
    }

    /// Where the calling thread notes what it is running; none if it is in teardown, so that it has no place of its own.
    pub(crate) fn running_here(&self) -> Option<&Running> {
        self.thread_state().map(|mine| &mine.running)
    }

    /// The tasks that are running: of which shard each, and since when, in nanoseconds of the engine's time.
    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, u64)> {
        self.thread_states().filter_map(|thread| thread.running.get())
    }

    /// Takes `n` places under the limit on pending timeouts; all of them or none.
    #[inline]
    pub(crate) fn take_places(&self, n: usize) -> bool {
        let Some(limit) = &self.limit else { return true };
        let add = |used: usize| used.checked_add(n).filter(|&used| used <= limit.max);
        // Acquire: pairs with the Release of whoever gave the place back.
        limit.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
    }

    /// Gives places back, by whoever won an entry's way out of PENDING.
    #[inline]
    pub(crate) fn give_places_back(&self, n: usize) {
        if let Some(limit) = &self.limit {
            limit.used.fetch_sub(n, Ordering::AcqRel);
        }
    }

    /// Timeouts that were accepted, and neither fired nor cancelled nor handed back yet.
    pub(crate) fn pending(&self) -> usize {
        if let Some(limit) = &self.limit {
            return limit.used.load(Ordering::Acquire);
        }
        // What ends is read before what begins, so that all that was scheduled before this call, and ends during it, is
        // still counted.
        let shards: u64 = self.remotes.iter().map(|m| m.counters.fired.get() + m.counters.returned.get()).sum();
        let ended = self.sum(None, Counts::ended);
        let scheduled = self.sum(None, |counts| counts.scheduled.get());
        usize::try_from(scheduled.saturating_sub(shards + ended)).unwrap_or(usize::MAX)
    }

    /// Gives an entry back through the calling thread's free list.
    ///
    /// # Safety
    /// The caller is the entry's sole owner; it is this engine's.
    #[inline]
    pub(crate) unsafe fn put_entry(&self, entry: NonNull<Entry>) {
        // SAFETY: the producer is this thread's, the arena is the engine's; the rest is handed on.
        self.with_thread_state(|mine| unsafe { mine.put_entry(&self.arena, entry) });
    }

    /// Gives memory back that no timeout uses: how many bytes. None in a forked child, where the free lists may be in the middle of
    /// something that goes on in the parent.
    pub(crate) fn shrink(&self) -> usize {
        if self.is_forked() {
            return 0;
        }
        // SAFETY: the producer is this thread's, the arena is the engine's.
        self.with_thread_state(|mine| unsafe { mine.flush(&self.arena) });
        self.arena.shrink()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("id", &self.id).field("shards", &self.remotes.len()).finish_non_exhaustive()
    }
}

// SAFETY: everything in it is made to be shared; the raw pointers in remotes point at entries, whose protocol says who
// may touch them.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}
