//! What all shards, producers and handles of one engine share, and when it goes.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::counters::Counts;
use super::in_flight::InFlight;
use super::mailbox::Mailbox;
use super::producer::Producer;
use super::running::{Overdue, Running};
use super::stakes::Stakes;
use super::unfired::UnfiredList;
use crate::arena::{Arena, PerThread, current_thread, with_remembered};
use crate::entry::{Entry, HandleGone, entry_ref};
use crate::panics::Contained;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, fork, lock};
use crate::time::Timeline;

/// Whoever can make a shard's worker run: start it, or unpark it.
pub(crate) trait Wake: Send + Sync {
    /// Of this hub. False if it could not be started.
    fn wake(&self, hub: &Hub, shard: usize) -> bool;
    /// Whether a thread other than the caller's turns the shard.
    fn is_turned_by_another(&self, shard: usize) -> bool;
    /// Something waits for the shard's worker that may have waited for long: a look whether it gets to run.
    fn look_after(&self, _hub: &Hub, _shard: usize) {}
}

/// Called with what a task panicked with.
pub(crate) type PanicHook = Box<dyn Fn(&(dyn Any + Send)) + Send + Sync>;

/// An exact bound on pending timeouts.
#[derive(Debug)]
struct Limit {
    max: usize,
    used: CachePadded<AtomicUsize>,
}

/// How a hub is made.
pub(crate) struct HubPlan {
    pub(crate) shards: usize,
    pub(crate) timeline: Timeline,
    pub(crate) arena: Arena,
    pub(crate) max_pending: Option<usize>,
    pub(crate) max_wait: Duration,
    pub(crate) on_panic: Option<PanicHook>,
}

/// The shared part of one engine.
pub(crate) struct Hub {
    /// Never used again by another engine.
    id: u64,
    owners: AtomicUsize,
    pub(crate) arena: Arena,
    timeline: Timeline,
    mailboxes: Box<[Mailbox]>,
    producers: PerThread<CachePadded<Producer>>,
    /// For threads that are so far gone that they have no number any more.
    late: Mutex<Producer>,
    next_home: AtomicUsize,
    pub(super) stakes: Stakes,
    limit: Option<Limit>,
    max_wait: Duration,
    pub(crate) in_flight: InFlight,
    pub(crate) panicked: AtomicU64,
    /// Timeouts whose executor dropped the batch or panicked, so that they were run by whoever had it.
    pub(crate) refused: AtomicU64,
    pub(crate) overdue: Overdue,
    pub(crate) on_panic: Contained<Option<PanicHook>>,
    /// What belongs into a shutdown's answer and was not in a shard when that was closed; none unless a shutdown is waiting.
    pub(crate) left_outside: Mutex<Option<UnfiredList>>,
    /// [`fork::generation`] at its making.
    generation: usize,
    waker: OnceLock<Box<dyn Wake>>,
}

/// Ids start at 1: 0 is no engine's.
static NEXT_ID: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

impl Hub {
    /// None if there is no memory for so many shards.
    pub(crate) fn create(plan: HubPlan) -> Option<HubRef> {
        let mut mailboxes = Vec::new();
        mailboxes.try_reserve_exact(plan.shards).ok()?;
        mailboxes.extend((0..plan.shards).map(Mailbox::new));
        let hub = Box::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            owners: AtomicUsize::new(1),
            arena: plan.arena,
            timeline: plan.timeline,
            mailboxes: mailboxes.into_boxed_slice(),
            producers: PerThread::new(),
            late: Mutex::new(Producer::shared()),
            next_home: AtomicUsize::new(0),
            stakes: Stakes::new(),
            limit: plan.max_pending.map(|max| Limit { max, used: CachePadded::new(AtomicUsize::new(0)) }),
            max_wait: plan.max_wait,
            in_flight: InFlight::new(),
            panicked: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            overdue: Overdue::default(),
            on_panic: Contained::new(plan.on_panic),
            left_outside: Mutex::new(None),
            generation: fork::generation(),
            waker: OnceLock::new(),
        });
        let hub = NonNull::from(Box::leak(hub));
        // SAFETY: just made.
        unsafe { hub.as_ref() }.mailboxes.iter().for_each(|mailbox| mailbox.set_hub(hub));
        Some(HubRef(hub))
    }

    /// Sets who wakes the workers. Once, before anybody schedules.
    pub(crate) fn set_waker(&self, waker: Box<dyn Wake>) {
        let unset = self.waker.set(waker).is_ok();
        debug_assert!(unset);
    }

    pub(crate) fn wake(&self, shard: usize) -> bool {
        self.waker.get().is_some_and(|waker| waker.wake(self, shard))
    }

    pub(super) fn is_turned_by_another(&self, shard: usize) -> bool {
        self.waker.get().is_some_and(|waker| waker.is_turned_by_another(shard))
    }

    /// How long a schedule may wait for a worker that is behind.
    pub(super) fn max_wait(&self) -> Duration {
        self.max_wait
    }

    pub(crate) fn look_after(&self, shard: usize) {
        self.waker.get().into_iter().for_each(|waker| waker.look_after(self, shard));
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub(crate) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    pub(crate) fn mailboxes(&self) -> &[Mailbox] {
        &self.mailboxes
    }

    pub(crate) fn mailbox(&self, shard: usize) -> &Mailbox {
        &self.mailboxes[shard]
    }

    /// Lets `work` use the calling thread's producer. It must not run user code: that could come back here.
    #[inline]
    pub(crate) fn with_producer<R>(&self, work: impl FnOnce(&Producer) -> R) -> R {
        match self.own_producer() {
            Some(mine) => work(mine),
            None => self.with_late_producer(work),
        }
    }

    #[cold]
    #[inline(never)]
    fn with_late_producer<R>(&self, work: impl FnOnce(&Producer) -> R) -> R {
        match self.late_producer() {
            Some(mine) => work(&mine),
            // Counted for nobody.
            None => work(&Producer::shared()),
        }
    }

    /// The calling thread's own producer; none if the thread is so far gone that it has to share one, or is a forked child's. A reset has
    /// it while the user's clock is read, which may come back here: what it does to the producer it does at once, before or after.
    #[inline]
    pub(crate) fn own_producer(&self) -> Option<&Producer> {
        let mine = with_remembered(self.id, || self.find_producer());
        // SAFETY: producers stay where they are as long as the hub, and the address was found for this hub's id.
        unsafe { mine.as_ref() }
    }

    /// The address of the calling thread's own producer, and whether to remember it.
    #[cold]
    #[inline(never)]
    fn find_producer(&self) -> (*const Producer, bool) {
        match current_thread() {
            Some(number) if !self.is_forked() => {
                let mine: &Producer = self.producers.get_or(number, || CachePadded::new(Producer::of(self)));
                (std::ptr::from_ref(mine), true)
            }
            _ => (std::ptr::null(), false),
        }
    }

    /// The producer that threads share which have none of their own. None in a forked child, where what the parent's threads
    /// were at when it was forked, they are at for ever.
    #[cold]
    #[inline(never)]
    pub(crate) fn late_producer(&self) -> Option<MutexGuard<'_, Producer>> {
        (!self.is_forked()).then(|| lock(&self.late))
    }

    /// The mailbox of the shard that was chosen, or else the one that the calling thread, whose producer this is, schedules on:
    /// threads are dealt out to shards in turn.
    #[inline]
    pub(crate) fn home_of<'a>(&'a self, mine: &'a Producer, chosen: Option<usize>) -> &'a Mailbox {
        match chosen {
            Some(shard) => self.mailbox(shard),
            None => mine.home_or(|| self.deal_home()),
        }
    }

    #[cold]
    fn deal_home(&self) -> &Mailbox {
        self.mailbox(self.next_home.fetch_add(1, Ordering::Relaxed) % self.mailboxes.len())
    }

    /// Whether this is a child process that was forked after the engine was made: the engine's threads are not here.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        fork::is_forked_since(self.generation)
    }

    /// Lets the calling thread count something that it did on the shard of a mailbox of this hub.
    #[inline]
    pub(crate) fn count(&self, mailbox: &Mailbox, add: impl FnOnce(&Counts)) {
        self.with_producer(|mine| add(self.counts_of(mine, mailbox)));
    }

    /// The calling thread's counts for the shard of a mailbox of this hub.
    #[inline]
    pub(crate) fn counts_of<'a>(&self, mine: &'a Producer, mailbox: &Mailbox) -> &'a Counts {
        mine.counts(mailbox, self.mailboxes.len())
    }

    /// Sums a count over all threads, of one shard or of all.
    pub(crate) fn sum(&self, shard: Option<usize>, count: impl Fn(&Counts) -> u64) -> u64 {
        let late = lock(&self.late).sum(shard, &count);
        late + self.producers().map(|producer| producer.sum(shard, &count)).sum::<u64>()
    }

    /// Those of all threads that have one of their own at this moment.
    pub(super) fn producers(&self) -> impl Iterator<Item = &Producer> {
        self.producers.iter().map(|producer| &**producer)
    }

    /// Where the calling thread notes what it is running; none if it is so far gone that it has no place of its own.
    pub(crate) fn running_here(&self) -> Option<&Running> {
        self.own_producer().map(|mine| &mine.running)
    }

    /// The tasks that are running: of which shard each, and since when, in nanoseconds of the engine's time.
    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, u64)> {
        self.producers().filter_map(|producer| producer.running.get())
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
        let shards: u64 = self.mailboxes.iter().map(|m| m.counters.fired.get() + m.counters.returned.get()).sum();
        let ended = self.sum(None, Counts::ended);
        let scheduled = self.sum(None, |counts| counts.scheduled.get());
        usize::try_from(scheduled.saturating_sub(shards + ended)).unwrap_or(usize::MAX)
    }

    /// Gives an entry back through the calling thread's free list.
    ///
    /// # Safety
    /// The caller is the entry's sole owner; it is this hub's.
    #[inline]
    pub(crate) unsafe fn put_entry(&self, entry: NonNull<Entry>) {
        // SAFETY: the producer is this thread's, the arena is the hub's; the rest is handed on.
        self.with_producer(|mine| unsafe { mine.put_entry(&self.arena, entry) });
    }

    /// Gives memory back that no timeout uses: how many bytes. None in a forked child, where the free lists may be in the middle of
    /// something that goes on in the parent.
    pub(crate) fn shrink(&self) -> usize {
        if self.is_forked() {
            return 0;
        }
        // SAFETY: the producer is this thread's, the arena is the hub's.
        self.with_producer(|mine| unsafe { mine.flush(&self.arena) });
        self.arena.shrink()
    }

    /// A handle lets go of its entry, and whoever is last frees it, or the whole hub. See `arena/mod.rs`, "The end".
    ///
    /// # Safety
    /// The caller owns the entry's handle and gives it up.
    #[inline]
    pub(crate) unsafe fn drop_handle(entry: NonNull<Entry>) {
        // SAFETY: a handle keeps its entry alive.
        let this = unsafe { entry_ref(entry) };
        let home = this.home().cast::<Mailbox>();
        // SAFETY: as above.
        if this.state.may_be_kept() && unsafe { Self::keep(home, entry) } {
            return;
        }
        let orphaned = match this.state.handle_lets_go() {
            HandleGone::OthersOwn => false,
            HandleGone::Orphan => true,
            // SAFETY: the handle is the last owner; so `home` is alive, see there.
            HandleGone::Last => unsafe { Self::free_entry(home, entry) },
        };
        if orphaned {
            // SAFETY: the last walk counted this handle, so the hub lives until it is counted off.
            let hub = unsafe { (*home).hub() };
            // SAFETY: as above.
            let arena = unsafe { &raw const (*hub.as_ptr()).arena };
            // SAFETY: as above.
            if unsafe { Arena::orphan_lets_go(arena) } {
                // SAFETY: the last one frees.
                unsafe { Self::free_hub(hub) };
            }
        }
    }

    /// No owner is left: the last walk, and the end of the hub if no handle is left either.
    ///
    /// # Safety
    /// The caller was the last owner.
    #[cold]
    #[inline(never)]
    unsafe fn end(hub: NonNull<Self>) {
        // SAFETY: the hub lives until the walk has counted its handles.
        let arena = unsafe { &raw const (*hub.as_ptr()).arena };
        // SAFETY: as above.
        if unsafe { Arena::orphan_all(arena) } {
            // SAFETY: no owner and no handle is left.
            unsafe { Self::free_hub(hub) };
        }
    }

    /// Out of line, as a handle's drop saves no registers for it then.
    ///
    /// # Safety
    /// Nobody else uses the hub, now or later.
    #[cold]
    #[inline(never)]
    unsafe fn free_hub(hub: NonNull<Self>) {
        // SAFETY: it came from a box in `create`, and is the caller's.
        drop(unsafe { Box::from_raw(hub.as_ptr()) });
    }

    /// Lets the calling thread keep an entry that was cancelled, if it can. If true, the engine may be gone by now. (That is
    /// why this is not the producer's: a reference that is an argument has to be valid until its function returns.)
    ///
    /// # Safety
    /// The caller owns the entry's handle, and gives it up if this returns true; the entry may be kept; `home` is its home.
    #[inline]
    unsafe fn keep(home: *const Mailbox, entry: NonNull<Entry>) -> bool {
        // SAFETY: the handle keeps the hub's memory.
        let mailbox = unsafe { &*home };
        // SAFETY: as above.
        let Some(mine) = unsafe { mailbox.hub().as_ref() }.own_producer() else { return false };
        // SAFETY: the producer is this thread's; the rest is handed on.
        if !unsafe { mine.put_in_kept(entry, mailbox) } {
            return false;
        }
        // SAFETY: the handle keeps the entry alive.
        if unsafe { entry_ref(entry) }.state.keep() {
            return true;
        }
        mine.take_out_kept();
        false
    }

    /// Gives an entry back whose last owner is a handle. True if the engine is gone and counted on the handle.
    ///
    /// # Safety
    /// The caller's handle is the last owner, and `home` is the entry's.
    #[inline]
    unsafe fn free_entry(home: *const Mailbox, entry: NonNull<Entry>) -> bool {
        // SAFETY: the handle is not counted off before `free` below, so the hub is alive until then.
        let state = &unsafe { entry_ref(entry) }.state;
        if !state.is_orphan() {
            // SAFETY: as above.
            let hub = unsafe { (*home).hub() };
            // SAFETY: as above.
            let alive = unsafe { hub.as_ref() };
            match alive.own_producer() {
                // Into this thread's own free list, where nobody else finds the entry before it is marked as free.
                // SAFETY: the handle is the sole owner, the producer is this thread's.
                Some(mine) => unsafe { mine.put_entry(&alive.arena, entry) },
                // SAFETY: as above.
                None => return unsafe { Self::free_entry_late(hub, entry) },
            }
        }
        // From here on the hub may be gone, unless the answer is true.
        state.free()
    }

    /// The same on a thread that has no free list of its own any more. Others take entries from the one that such threads
    /// share, so the entry must be marked as free before it goes there; and so that the hub does not go in between, the
    /// thread owns it for that time. If it can't, the engine is about to end, and the entry goes with the arena.
    ///
    /// # Safety
    /// As for [`free_entry`](Self::free_entry); `hub` is the entry's.
    #[cold]
    unsafe fn free_entry_late(hub: NonNull<Hub>, entry: NonNull<Entry>) -> bool {
        let add_one = |owners: usize| (owners > 0).then_some(owners + 1);
        // SAFETY: the handle is not counted off before `free` below, so the hub is alive until then.
        let owners = &unsafe { hub.as_ref() }.owners;
        // Relaxed: as in `HubRef::clone`.
        let owner = owners.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add_one).ok().map(|_| HubRef(hub));
        // SAFETY: as above.
        let orphaned = unsafe { entry_ref(entry) }.state.free();
        if let Some(owner) = owner {
            // SAFETY: while there are owners the last walk has not begun; so the entry is free, and nobody's but ours.
            unsafe { owner.put_entry(entry) };
        }
        orphaned
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("id", &self.id).field("shards", &self.mailboxes.len()).finish_non_exhaustive()
    }
}

// SAFETY: everything in it is made to be shared; the raw pointers in mailboxes point at entries, whose protocol says who
// may touch them.
unsafe impl Send for Hub {}
// SAFETY: as above.
unsafe impl Sync for Hub {}

/// A counted owner of a hub: the engine, the `Timer`s together, each worker, each batch under way. Handles are not counted; futures
/// keep the engine (`stakes.rs`).
pub(crate) struct HubRef(NonNull<Hub>);

// SAFETY: a hub is `Send` and `Sync`.
unsafe impl Send for HubRef {}
// SAFETY: as above.
unsafe impl Sync for HubRef {}

impl Deref for HubRef {
    type Target = Hub;

    #[inline]
    fn deref(&self) -> &Hub {
        // SAFETY: a counted owner keeps the hub alive.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for HubRef {
    fn clone(&self) -> Self {
        // Relaxed: a new owner is made from one that is there.
        self.owners.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for HubRef {
    fn drop(&mut self) {
        // AcqRel: the last owner sees all that the others did.
        if self.owners.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: this was the last owner.
            unsafe { Hub::end(self.0) };
        }
    }
}

impl fmt::Debug for HubRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
