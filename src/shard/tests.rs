//! A shard without a thread, turned by the test: who is woken and when, and what a turn leaves over.

mod turns;
mod wakes;

use std::sync::Arc;
use std::time::Duration;

use super::backpressure::{MANY, Patience, STUCK};
use super::stack::{LOOK_DEPTH, WAKE_DEPTH};
use super::*;
use crate::arena::Arena;
use crate::entry::{Cancel, Reset, State, Task, Tell, With};
use crate::sync::{AtomicUsize, Ordering};
use crate::time::{ManualClock, Source, Timeline};

/// Whoever wakes the workers, and what came of it.
#[derive(Clone, Default)]
struct Bell {
    rung: Arc<AtomicUsize>,
    /// Not 0: there is no thread for a worker.
    is_broken: Arc<AtomicUsize>,
    /// Not 0: a thread other than the test's turns the shard.
    is_elsewhere: Arc<AtomicUsize>,
    looks: Arc<AtomicUsize>,
}

impl Wake for Bell {
    fn wake(&self, _: &Hub, shard: usize) -> bool {
        assert_eq!(shard, 1, "it is the other one that is tested");
        self.rung.fetch_add(1, Ordering::Relaxed);
        self.is_broken.load(Ordering::Relaxed) == 0
    }

    fn is_turned_by_another(&self, _shard: usize) -> bool {
        self.is_elsewhere.load(Ordering::Relaxed) != 0
    }

    fn look_after(&self, _hub: &Hub, shard: usize) {
        assert_eq!(shard, 1);
        self.looks.fetch_add(1, Ordering::Relaxed);
    }
}

/// The second of a hub's two shards.
struct Rig {
    hub: HubRef,
    shard: Shard,
    bell: Bell,
    /// Of which each task has a clone.
    witness: Arc<()>,
}

const ENOUGH: Limits = Limits { transfer: 1_000, expiry: 1_000 };
const MAX_WAIT: Duration = Duration::from_millis(20);
const FAR: Tick = Tick::new(1_000_000);

impl Rig {
    fn new(limits: Limits) -> Self {
        Self::with(limits, None)
    }

    fn with(limits: Limits, max_pending: Option<usize>) -> Self {
        let timeline = Timeline::new(Source::custom(ManualClock::new()), Duration::from_millis(1));
        let arena = Arena::new(0).expect("memory");
        let plan = HubPlan { shards: 2, timeline, arena, max_pending, max_wait: MAX_WAIT, on_panic: None };
        let (hub, bell) = (Hub::create(plan).expect("memory"), Bell::default());
        hub.set_waker(Box::new(bell.clone()));
        Self { hub, shard: Shard::new(1, Wheel::new(16, 2).expect("memory"), limits), bell, witness: Arc::default() }
    }

    fn mailbox(&self) -> &Mailbox {
        self.hub.mailbox(1)
    }

    /// A timeout that is not posted yet.
    fn armed(&self, deadline: Tick, with: With) -> NonNull<Entry> {
        let mailbox = self.mailbox();
        // SAFETY: this thread's producer, and its hub's arena.
        let entry = self.hub.with_producer(|mine| unsafe { mine.take_entry(&self.hub, mailbox) }).expect("memory");
        let witness = Arc::clone(&self.witness);
        // SAFETY: just taken.
        let this = unsafe { entry_ref(entry) };
        this.fill(std::ptr::from_ref(mailbox).cast(), Task::new(move || drop(witness)));
        this.state.arm(deadline, with);
        entry
    }

    fn post(&self, deadline: Tick) -> NonNull<Entry> {
        self.post_with(deadline, With::NOTHING)
    }

    /// One that has a handle.
    fn post_held(&self, deadline: Tick) -> Held {
        Held(self.post_with(deadline, With::HANDLE))
    }

    fn post_with(&self, deadline: Tick, with: With) -> NonNull<Entry> {
        let entry = self.armed(deadline, with);
        // SAFETY: just armed.
        unsafe { self.mailbox().post(entry, deadline) }.expect("open");
        entry
    }

    /// Sends what was reset to an earlier deadline.
    fn post_earlier(&self, held: &Held) {
        // SAFETY: this thread's producer, and its hub's arena.
        let node = self.hub.with_producer(|mine| unsafe { mine.take_node(&self.hub.arena) }).expect("memory");
        // SAFETY: just taken.
        assert!(unsafe { self.mailbox().post_earlier(node, held.0) }, "open");
    }

    fn turn(&mut self, now: u64) -> Turn {
        turn(&mut self.shard, &self.hub, now)
    }

    /// How often the worker has been woken since the last call.
    fn rung(&self) -> usize {
        self.bell.rung.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.shard.close(&self.hub));
    }
}

/// Turns, and runs what expires.
fn turn(shard: &mut Shard, hub: &HubRef, now: u64) -> Turn {
    shard.turn(hub, Tick::new(now), &mut |mut batch| {
        assert_eq!(batch.shard(), 1);
        let mut left = batch.len();
        while let Some(due) = batch.open().0.pop() {
            left -= 1;
            assert_eq!(batch.len(), left);
            due.into_task(batch.hub()).run();
        }
        assert_eq!(left, 0);
    })
}

/// A handle.
struct Held(NonNull<Entry>);

impl Held {
    fn state(&self) -> &State {
        // SAFETY: a handle keeps its entry alive.
        &unsafe { entry_ref(self.0) }.state
    }

    /// Cancels it, wherever it is, and tells the worker if it has to know.
    fn cancel(self, mailbox: &Mailbox) {
        let won = self.state().cancel();
        assert!(matches!(won, Cancel::Won | Cancel::WonLinked));
        // SAFETY: the handle keeps it alive.
        let this = unsafe { entry_ref(self.0) };
        // SAFETY: just won.
        drop(unsafe { this.take_task() });
        if let Cancel::WonLinked = won {
            // SAFETY: just won, and the handle is there.
            unsafe { mailbox.post_cancelled(self.0) };
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the handle is this one's.
        unsafe { Hub::drop_handle(self.0) };
    }
}

#[test]
fn what_waits_for_the_worker_is_counted_also_when_the_worker_has_taken_it() {
    let mut rig = Rig::new(ENOUGH);
    for _ in 0..MANY {
        rig.post(FAR);
    }
    assert!(!rig.mailbox().is_behind());
    rig.post(FAR);
    assert!(rig.mailbox().is_behind() && !rig.mailbox().has_much_garbage());
    rig.turn(0);
    assert!(rig.mailbox().is_behind(), "what the worker has taken and not gone through counts, too");
    while rig.turn(0).more {}
    assert!(!rig.mailbox().is_behind());
    assert_eq!(rig.mailbox().inbox_depth(), 0);
}

#[test]
fn cancelled_entries_are_garbage_in_the_cancelled_queue_and_in_the_inbox_by_their_share() {
    let mut rig = Rig::new(Limits { transfer: 10 * MANY, expiry: ENOUGH.expiry });
    let linked: Vec<_> = (0..=MANY).map(|_| rig.post_held(FAR)).collect();
    rig.turn(0);
    assert!(!rig.mailbox().has_much_garbage() && !rig.mailbox().is_behind());
    let mut linked = linked.into_iter();
    linked.by_ref().take(MANY).for_each(|held| held.cancel(rig.mailbox()));
    assert!(!rig.mailbox().has_much_garbage());
    linked.for_each(|held| held.cancel(rig.mailbox()));
    assert!(rig.mailbox().has_much_garbage());
    rig.turn(0);
    assert!(!rig.mailbox().has_much_garbage(), "the worker has taken it");
    assert!(rig.mailbox().is_behind(), "and has not gone through it");
    while rig.turn(0).more {}
    assert!(!rig.mailbox().is_behind());
    // In the inbox nobody can tell, but for what the worker has met there last.
    let fill = |rig: &Rig, cancelled: usize| {
        for n in 0..4 * MANY {
            let held = rig.post_held(FAR);
            if n % 4 < cancelled {
                held.cancel(rig.mailbox());
            }
        }
    };
    for (share, is_much) in [(1, false), (2, true), (0, false)] {
        fill(&rig, share);
        rig.turn(0);
        fill(&rig, 0);
        assert_eq!(rig.mailbox().has_much_garbage(), is_much, "{share} of 4");
        rig.turn(0);
    }
}

#[test]
fn a_thread_waits_for_as_long_as_it_may_and_not_for_a_worker_that_does_not_move() {
    let rig = Rig::new(ENOUGH);
    let wait = || {
        let (mut patience, begin) = (Patience::default(), std::time::Instant::now());
        while patience.wait(&rig.hub, rig.mailbox()) {}
        assert_eq!(patience.has_waited(), begin.elapsed() >= MAX_WAIT);
        patience.has_waited()
    };
    assert!(!wait(), "nobody but the caller turns the shard");
    rig.bell.is_elsewhere.store(1, Ordering::Relaxed);
    (0..STUCK).for_each(|_| assert!(wait()));
    assert!(!wait(), "it has been waited for in vain for a second");
    rig.mailbox().counters.collected.add(1);
    assert!(wait(), "it has moved");
}

#[test]
fn places_are_taken_all_or_none_and_are_what_is_pending() {
    let rig = Rig::with(ENOUGH, Some(3));
    assert!(rig.hub.take_places(2) && !rig.hub.take_places(2) && rig.hub.take_places(1) && !rig.hub.take_places(1));
    assert_eq!(rig.hub.pending(), 3);
    rig.hub.give_places_back(2);
    assert_eq!(rig.hub.pending(), 1);
    assert!(!rig.hub.take_places(3) && rig.hub.take_places(2) && !rig.hub.take_places(usize::MAX));
    let unlimited = Rig::new(ENOUGH);
    assert!(unlimited.hub.take_places(usize::MAX) && unlimited.hub.take_places(1));
}

#[test]
fn without_a_limit_what_is_pending_is_what_was_scheduled_and_has_not_ended() {
    let rig = Rig::new(ENOUGH);
    rig.hub.count(rig.hub.mailbox(1), |counts| counts.scheduled.add(100));
    rig.hub.count(rig.hub.mailbox(0), |counts| counts.scheduled.add(1_000));
    assert_eq!((rig.hub.pending(), rig.hub.sum(Some(1), |counts| counts.scheduled.get())), (1_100, 100));
    rig.hub.count(rig.hub.mailbox(1), |counts| counts.cancelled.add(1));
    rig.hub.count(rig.hub.mailbox(1), |counts| counts.finished.add(2));
    rig.mailbox().counters.fired.add(4);
    rig.mailbox().counters.returned.add(8);
    assert_eq!(rig.hub.pending(), 1_100 - 15);
    rig.hub.mailbox(0).counters.fired.add(5_000);
    assert_eq!(rig.hub.pending(), 0, "never below");
}

#[test]
fn threads_are_dealt_out_to_shards_in_turn_and_stay_there() {
    let rig = Rig::new(ENOUGH);
    // At once, so that no thread gets the number of one that has ended.
    let together = std::sync::Barrier::new(4);
    let mut homes = std::thread::scope(|scope| {
        let home = || {
            together.wait();
            let homes = rig.hub.with_producer(|mine| [0; 2].map(|_| rig.hub.home_of(mine, None).index()));
            together.wait();
            homes
        };
        [(); 4].map(|()| scope.spawn(home)).map(|thread| thread.join().expect("no panic"))
    });
    homes.sort_unstable();
    assert_eq!(homes, [[0, 0], [0, 0], [1, 1], [1, 1]]);
    assert_eq!(rig.hub.with_producer(|mine| rig.hub.home_of(mine, Some(1)).index()), 1, "one that is chosen");
}

#[test]
fn no_two_engines_have_the_same_number_and_none_has_0() {
    let ids = [(); 4].map(|()| Rig::new(ENOUGH).hub.id());
    assert!(ids.iter().all(|id| *id > 0) && (1..4).all(|n| !ids[..n].contains(&ids[n])), "{ids:?}");
}

#[test]
fn a_hub_goes_with_its_last_owner_or_the_last_handle() {
    let told = Arc::new(());
    let witness = Arc::clone(&told);
    let timeline = Timeline::new(Source::custom(ManualClock::new()), Duration::from_millis(1));
    let on_panic: PanicHook = Box::new(move |_| assert!(Arc::strong_count(&witness) > 0));
    let arena = Arena::new(0).expect("memory");
    let plan = HubPlan { shards: 2, timeline, arena, max_pending: None, max_wait: MAX_WAIT, on_panic: Some(on_panic) };
    let mut rig = Rig::new(ENOUGH);
    rig.hub = Hub::create(plan).expect("memory");
    rig.hub.set_waker(Box::new(rig.bell.clone()));
    let [one, other] = [(); 2].map(|()| rig.post_held(FAR));
    let owner = rig.hub.clone();
    drop(rig);
    assert_eq!(Arc::strong_count(&told), 2, "it has an owner");
    drop(owner);
    drop(one);
    assert_eq!(Arc::strong_count(&told), 2, "it has a handle");
    drop(other);
    assert_eq!(Arc::strong_count(&told), 1);
}
