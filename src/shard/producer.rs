//! What each thread that uses an engine has of it for itself: free entries, a home shard, counters.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use crossbeam_utils::CachePadded;

use super::backpressure::Patience;
use super::counters::{Counter, Counts};
use super::hub::Hub;
use super::kept::Kept;
use super::mailbox::Mailbox;
use super::running::Running;
use super::stakes::Count;
use crate::arena::{Arena, Growth, Local};
use crate::entry::Entry;

/// One thread's part of one engine. Reached through the hub only ([`Hub::with_producer`](super::Hub::with_producer) and what it
/// is made of), which gives it to no two threads at a time, but for what any thread may look at, or count.
///
/// In this order, what a schedule writes is one cache line: the kept and the free entries, and the first of the counts.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Producer {
    /// Entries on the home shard that were cancelled, to be armed again where they are.
    kept: Kept,
    free: Local,
    /// What it did on its home shard.
    at_home: Counts,
    /// The mailbox of the shard that this thread schedules on, once it has scheduled anything; null before.
    home: Cell<*const Mailbox>,
    /// The hub that it is a part of; null in one that threads share.
    hub: *const Hub,
    /// Its index, plus one, for other threads; 0 if there is none yet.
    known_home: Counter,
    /// What it did on each shard, as far as that is not its home: few threads ever need it.
    abroad: OnceLock<Box<[Counts]>>,
    /// The batch of this engine that the thread is running.
    pub(crate) running: Running,
    /// Of futures that it made. Apart, as other threads may drop them.
    stakes: CachePadded<Count>,
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(align_of::<Producer>() >= 64 && offset_of!(Producer, at_home) + offset_of!(Counts, scheduled) < 64);
};

// SAFETY: other threads use the counters and the stakes only, which are atomic; the rest is private to this file, and is used by
// the thread that the producer belongs to.
unsafe impl Sync for Producer {}

impl Producer {
    /// A thread's own; `hub` is what it will be a part of.
    pub(super) fn of(hub: &Hub) -> Self {
        Self { hub, ..Self::shared() }
    }

    /// One that threads share which have none of their own.
    pub(super) fn shared() -> Self {
        Self {
            hub: ptr::null(),
            free: Local::new(),
            kept: Kept::new(),
            home: Cell::new(ptr::null()),
            known_home: Counter::default(),
            at_home: Counts::default(),
            abroad: OnceLock::new(),
            running: Running::default(),
            stakes: CachePadded::new(Count::new()),
        }
    }

    /// The hub of a thread's own producer. Where the producer was found by way of an entry, what is computed from this need not wait
    /// for the entry's memory: that it is the producer which the thread remembers is a branch, which the processor guesses.
    #[inline]
    pub(crate) fn hub(&self) -> &Hub {
        debug_assert!(!self.hub.is_null(), "not of a shared one");
        // SAFETY: the producer is a part of that hub, so it is alive.
        unsafe { &*self.hub }
    }

    /// The mailbox of the shard that this thread schedules on; chosen by `choose`, of the producer's hub, at the first call. (Not before:
    /// workers and pool threads have producers, too, to give entries back, and must not count when shards are dealt out.)
    #[inline]
    pub(super) fn home_or<'a>(&'a self, choose: impl FnOnce() -> &'a Mailbox) -> &'a Mailbox {
        // SAFETY: null, or a mailbox of the hub that this producer, too, is a part of, or that its user has.
        if let Some(home) = unsafe { self.home.get().as_ref() } {
            return home;
        }
        let home = choose();
        self.home.set(home);
        self.known_home.set(home.index() as u64 + 1);
        home
    }

    /// Whether the mailbox, of the same hub, is that of the thread's home shard.
    #[inline]
    fn is_home(&self, mailbox: &Mailbox) -> bool {
        ptr::eq(self.home.get(), mailbox)
    }

    /// The counts, to be written by the thread that the producer belongs to, for the shard of `mailbox`, one of `shards`.
    #[inline]
    pub(super) fn counts(&self, mailbox: &Mailbox, shards: usize) -> &Counts {
        if self.is_home(mailbox) { &self.at_home } else { self.counts_abroad(mailbox.index(), shards) }
    }

    #[cold]
    fn counts_abroad(&self, shard: usize, shards: usize) -> &Counts {
        &self.abroad.get_or_init(|| (0..shards).map(|_| Counts::default()).collect())[shard]
    }

    /// Sums one of the counts over one shard, or over all.
    pub(super) fn sum(&self, shard: Option<usize>, count: impl Fn(&Counts) -> u64) -> u64 {
        let is_home = |shard| self.known_home.get() == shard as u64 + 1;
        let at_home = if shard.is_none_or(is_home) { count(&self.at_home) } else { 0 };
        let abroad = self.abroad.get().map_or(&[][..], |counts| counts);
        let abroad = abroad.iter().enumerate().filter(|(index, _)| shard.is_none_or(|shard| shard == *index));
        at_home + abroad.map(|(_, counts)| count(counts)).sum::<u64>()
    }

    /// The stakes that the thread has made, and the threads that had its number before.
    #[inline]
    pub(super) fn stakes(&self) -> &Count {
        &self.stakes
    }

    /// A free entry, for a timeout on `mailbox`; none if there is no memory for one. May wait for the worker, see
    /// [`backpressure`](super::backpressure).
    ///
    /// # Safety
    /// The producer is the calling thread's, and `hub` is its own.
    #[inline]
    pub(crate) unsafe fn take_entry(&self, hub: &Hub, mailbox: &Mailbox) -> Option<NonNull<Entry>> {
        // SAFETY: handed on.
        self.free.take().or_else(|| unsafe { self.take_entry_slowly(hub, mailbox) })
    }

    #[cold]
    unsafe fn take_entry_slowly(&self, hub: &Hub, mailbox: &Mailbox) -> Option<NonNull<Entry>> {
        let mut patience = Patience::default();
        // SAFETY: handed on.
        let entry = unsafe { self.refill(hub, mailbox, &mut patience) };
        self.count_wait(hub, mailbox, &patience);
        entry
    }

    /// As many free entries; none if there is no memory for all of them. Waits for no longer than for one.
    ///
    /// # Safety
    /// As for [`take_entry`](Self::take_entry).
    pub(crate) unsafe fn take_entries(&self, hub: &Hub, mailbox: &Mailbox, len: usize) -> Option<Vec<NonNull<Entry>>> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(len).ok()?;
        let mut patience = Patience::default();
        while entries.len() < len {
            // SAFETY: handed on.
            let entry = self.free.take().or_else(|| unsafe { self.refill(hub, mailbox, &mut patience) });
            let Some(entry) = entry else { break };
            entries.push(entry);
        }
        self.count_wait(hub, mailbox, &patience);
        if entries.len() < len {
            // SAFETY: as for taking them; they are ours alone.
            entries.into_iter().for_each(|entry| unsafe { self.put_entry(&hub.arena, entry) });
            return None;
        }
        Some(entries)
    }

    /// The thread has no free entry left.
    ///
    /// # Safety
    /// As for [`take_entry`](Self::take_entry).
    unsafe fn refill(&self, hub: &Hub, mailbox: &Mailbox, patience: &mut Patience) -> Option<NonNull<Entry>> {
        let may_wait = !hub.max_wait().is_zero();
        while may_wait && mailbox.has_much_garbage() && patience.wait(hub, mailbox) {}
        // SAFETY: handed on.
        let look = || unsafe { self.free.refill(&hub.arena) };
        let mut entry = look();
        while entry.is_none() {
            let is_over = !may_wait || !mailbox.is_behind() || !patience.wait(hub, mailbox);
            // Also when it is over: what the worker had given back before it was seen to be through is there by now.
            entry = look();
            if is_over && entry.is_none() {
                // SAFETY: handed on.
                return unsafe { self.free.grow(&hub.arena, patience.growth()) };
            }
        }
        entry
    }

    fn count_wait(&self, hub: &Hub, mailbox: &Mailbox, patience: &Patience) {
        if patience.has_waited() {
            hub.counts_of(self, mailbox).waits.add(1);
        }
    }

    /// A free entry that will be no timeout's; none if there is no memory for one. Waits for nobody.
    ///
    /// # Safety
    /// As for [`take_entry`](Self::take_entry).
    #[inline]
    pub(crate) unsafe fn take_node(&self, arena: &Arena) -> Option<NonNull<Entry>> {
        // SAFETY: handed on.
        let refill = || unsafe { self.free.refill(arena) };
        // SAFETY: handed on.
        let grow = || unsafe { self.free.grow(arena, Growth::Double) };
        let node = self.free.take().or_else(refill).or_else(grow)?;
        #[cfg(loom)]
        // SAFETY: just taken.
        unsafe { crate::entry::entry_ref(node) }.set_in_use(true);
        Some(node)
    }

    /// An entry that lies in the inbox of `mailbox`, or did when it was kept, and may be armed again there.
    #[inline]
    pub(crate) fn take_kept(&self, mailbox: &Mailbox) -> Option<NonNull<Entry>> {
        if self.is_home(mailbox) { self.kept.take() } else { None }
    }

    /// Puts an entry of `mailbox` among the kept ones, if it can be one of these; see [`Kept::put_in`].
    ///
    /// # Safety
    /// As there; and the producer is the calling thread's.
    #[inline]
    pub(super) unsafe fn put_in_kept(&self, entry: NonNull<Entry>, mailbox: &Mailbox) -> bool {
        // SAFETY: handed on; a home, once there is one, stays the same.
        self.is_home(mailbox) && unsafe { self.kept.put_in(entry) }
    }

    /// Undoes that.
    pub(super) fn take_out_kept(&self) {
        self.kept.take_out();
    }

    /// Gives the thread's free entries to the depot.
    ///
    /// # Safety
    /// The producer is the calling thread's, and `arena` is its hub's.
    pub(super) unsafe fn flush(&self, arena: &Arena) {
        // SAFETY: handed on.
        unsafe { self.free.flush(arena) };
    }

    /// Puts an entry back.
    ///
    /// # Safety
    /// As for [`take_entry`](Self::take_entry), and the caller is the entry's sole owner.
    #[inline]
    pub(crate) unsafe fn put_entry(&self, arena: &Arena, entry: NonNull<Entry>) {
        // SAFETY: handed on.
        unsafe { self.free.put(arena, entry) };
    }
}
