//! A shard without a thread, turned by the test: which worker is woken and when, and what a turn
//! leaves over.

mod turns;
mod wakes;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use super::backpressure::{MANY, Patience};
use super::*;
use crate::arena::Arena;
use crate::count::CANNOT_START;
use crate::entry::{ArmFlags, Entry, Handle, Queued, Reset, Token};
use crate::panics::CatchUnwind;
use crate::shard::{Command, Number, Remote, WAKE_DEPTH};
use crate::sync::{AtomicUsize, Ordering};
use crate::time::{CustomClock, ManualClock, Subtick, Timeline};
use crate::wheel::Wheel;

/// Wakes the worker, and counts how it was called.
#[derive(Clone, Default)]
struct Bell {
    rung: Arc<AtomicUsize>,
    /// Not 0: no thread can be started for a worker.
    is_broken: Arc<AtomicUsize>,
}

impl Bell {
    fn wake(&self, remote: &Remote) -> bool {
        assert_eq!(remote.index(), 1, "the test uses the second shard");
        self.rung.fetch_add(1, Ordering::Relaxed);
        self.is_broken.load(Ordering::Relaxed) == 0
    }
}

/// The deadlines of the timeouts that have run, in that order.
type Ran = Arc<Mutex<Vec<u64>>>;

/// The second of an engine's two shards.
struct Rig {
    shared: SharedRef,
    shard: Core,
    bell: Bell,
    /// Each task has a clone.
    witness: Arc<()>,
}

const ENOUGH: Limits = Limits { transfer: 1_000, expiry: 1_000 };
const MAX_WAIT: Duration = Duration::from_millis(20);
const FAR: Subtick = Subtick::new(1_000_000);

fn small_wheel() -> Wheel {
    Wheel::new(16, 16, 2).expect("memory")
}

/// Of two shards.
fn numbers() -> Vec<Number> {
    Number::take().take(2).collect()
}

impl Rig {
    fn new(limits: Limits) -> Self {
        Self::with(limits, None)
    }

    fn with(limits: Limits, max_pending: Option<usize>) -> Self {
        let clock = CustomClock::new(ManualClock::new());
        Self::on(Timeline::new(Some(clock), Duration::from_micros(1)), limits, max_pending)
    }

    fn on(timeline: Timeline, limits: Limits, max_pending: Option<usize>) -> Self {
        let arena = Arena::new(0).expect("memory");
        let plan = SharedPlan { timeline, arena, max_pending, max_wait: MAX_WAIT, on_panic: None };
        let (shared, bell) = (SharedRef::create(plan, numbers()).expect("memory"), Bell::default());
        let its = bell.clone();
        shared.set_waker(move |remote| its.wake(remote));
        let wheel = Wheel::new(16, 16, 2).expect("memory");
        Self { shard: Core::new(&shared, 1, wheel, limits), shared, bell, witness: Arc::default() }
    }

    fn remote(&self) -> &Remote {
        self.shared.remote(1)
    }

    fn push(&self, deadline: Subtick) -> NonNull<Entry> {
        self.push_with(deadline, ArmFlags::NONE)
    }

    /// Pushes a timeout that has a handle.
    fn push_held(&self, deadline: Subtick) -> Held {
        // SAFETY: the entry was just armed with a handle. This makes it, once.
        Held(ManuallyDrop::new(unsafe { Handle::new(self.push_with(deadline, ArmFlags::HANDLE)) }))
    }

    fn push_with(&self, deadline: Subtick, with: ArmFlags) -> NonNull<Entry> {
        let witness = Arc::clone(&self.witness);
        self.push_task(deadline, with, move || drop(witness))
    }

    fn push_task(&self, deadline: Subtick, with: ArmFlags, task: impl FnOnce() + Send + 'static) -> NonNull<Entry> {
        let remote = self.remote();
        let entry = self.shared.with_thread_state(|mine| self.shared.take_entry(mine, remote)).expect("memory");
        let armed = entry.arm(remote.as_home(), task, deadline, with);
        let address = armed.address();
        assert!(remote.push(armed, deadline, self.shared.timeline()).is_ok(), "open");
        address
    }

    /// Resets a linked timeout to an earlier deadline, of which the worker has to be told.
    fn reset<'h>(&self, held: &'h Held, deadline: Subtick) -> Queued<'h> {
        let mut queued = None;
        let reset = held.handle().reset(deadline, |entry| queued = Some(entry));
        queued.unwrap_or_else(|| panic!("{reset:?} of {held:?}"))
    }

    fn push_moved(&self, held: &Held, entry: Queued<'_>) {
        self.remote().push_moved(entry, || held.handle().snapshot().deadline(), self.shared.timeline());
    }

    fn reset_and_push(&self, held: &Held, deadline: Subtick) {
        self.push_moved(held, self.reset(held, deadline));
    }

    /// Pushes a timeout that notes its deadline when it runs.
    fn push_noted(&self, deadline: u64, ran: &Ran) {
        let ran = Arc::clone(ran);
        self.push_task(Subtick::new(deadline), ArmFlags::NONE, move || ran.lock().expect("no panic").push(deadline));
    }

    fn turn(&mut self, now: u64) -> TurnResult {
        turn(&mut self.shard, &self.shared, now)
    }

    /// Returns how often the worker has been woken since the last call.
    fn rung(&self) -> usize {
        self.bell.rung.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.shard.close(&self.shared));
    }
}

/// Turns, and runs the timeouts that expire.
fn turn(shard: &mut Core, shared: &SharedRef, now: u64) -> TurnResult {
    shard.turn(shared, Subtick::new(now), || None, |due| due.hand_over(&mut run))
}

fn run(mut batch: Batch) {
    assert_eq!(batch.remote().index(), 1);
    batch.run(false);
    assert_eq!(batch.len(), 0);
}

/// A handle.
#[derive(Debug)]
struct Held(ManuallyDrop<Handle>);

impl Held {
    fn handle(&self) -> &Handle {
        &self.0
    }

    /// Cancels it, wherever it is, and tells the worker if necessary.
    fn cancel(self, remote: &Remote) {
        assert!(self.handle().cancel(|entry| remote.push_cancelled(entry)).is_some());
    }

    /// Leaves a tombstone in its slot, as a thread does that has looked whether it may.
    fn leave_tombstone(self) {
        // SAFETY: nothing uses it after this.
        let handle = unsafe { ptr::read(&raw const *ManuallyDrop::new(self).0) };
        let seen = handle.may_be_given_up(true).expect("it is pending, and in its slot");
        // SAFETY: `seen` is what was seen. It is on no list, but nobody looks for it there.
        assert!(unsafe { handle.give_up(seen, true, true) }.is_ok());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: nothing uses it after this.
        Shared::drop_handle(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

#[test]
fn entries_that_the_worker_has_taken_still_count_as_waiting() {
    let mut rig = Rig::new(ENOUGH);
    for _ in 0..MANY {
        rig.push(FAR);
    }
    assert!(!rig.remote().is_behind());
    rig.push(FAR);
    assert!(rig.remote().is_behind() && !rig.remote().has_much_garbage());
    rig.turn(0);
    assert!(rig.remote().is_behind(), "entries taken and not gone through count too");
    while rig.turn(0).more {}
    assert!(!rig.remote().is_behind());
    assert_eq!(rig.remote().inbox_depth(), 0);
}

#[test]
fn cancelled_entries_are_garbage_in_the_cancelled_queue_and_in_the_inbox_by_their_share() {
    let mut rig = Rig::new(Limits { transfer: 10 * MANY, expiry: ENOUGH.expiry });
    let linked: Vec<_> = (0..=MANY).map(|_| rig.push_held(FAR)).collect();
    rig.turn(0);
    assert!(!rig.remote().has_much_garbage() && !rig.remote().is_behind());
    let mut linked = linked.into_iter();
    linked.by_ref().take(MANY).for_each(|held| held.cancel(rig.remote()));
    assert!(!rig.remote().has_much_garbage());
    linked.for_each(|held| held.cancel(rig.remote()));
    assert!(rig.remote().has_much_garbage());
    rig.turn(0);
    assert!(!rig.remote().has_much_garbage(), "the worker has taken it");
    assert!(rig.remote().is_behind(), "and has not gone through it");
    while rig.turn(0).more {}
    assert!(!rig.remote().is_behind());
    // In the inbox the share of cancelled entries is estimated from those that the worker has met
    // last.
    let fill = |rig: &Rig, cancelled: usize| {
        for n in 0..4 * MANY {
            let held = rig.push_held(FAR);
            if n % 4 < cancelled {
                held.cancel(rig.remote());
            }
        }
    };
    for (share, is_much) in [(1, false), (2, true), (0, false)] {
        fill(&rig, share);
        rig.turn(0);
        fill(&rig, 0);
        assert_eq!(rig.remote().has_much_garbage(), is_much, "{share} of 4");
        rig.turn(0);
    }
}

#[test]
fn a_thread_waits_for_as_long_as_it_may_and_not_for_a_worker_that_does_not_move() {
    let rig = Rig::new(ENOUGH);
    let begin = std::time::Instant::now();
    let wait = || {
        let (mut patience, began) = (Patience::default(), std::time::Instant::now());
        while patience.wait(&rig.shared, rig.remote()) {}
        let is_stuck = begin.elapsed() >= Duration::from_secs(1);
        assert!(is_stuck || patience.begun_ns.is_some() == (began.elapsed() >= MAX_WAIT));
        patience.begun_ns.is_some()
    };
    assert!(!wait(), "nobody but the caller turns the shard");
    // A thread other than the test's turns the shard.
    rig.remote().has_worker.set(1);
    while wait() {}
    assert!(begin.elapsed() >= Duration::from_secs(1), "threads have waited for a stuck worker for a second");
    rig.remote().counters.collected.add(1);
    assert!(wait(), "it has moved");
}

#[test]
fn no_thread_waits_for_a_worker_whose_shard_is_closed() {
    let mut rig = Rig::new(Limits { transfer: 1, expiry: 1 });
    (0..MANY + 2).for_each(|_| _ = rig.push(FAR));
    rig.turn(0);
    // A thread other than the test's turns the shard.
    rig.remote().has_worker.set(1);
    assert!(rig.remote().is_behind() && Patience::default().wait(&rig.shared, rig.remote()));
    let left = rig.shard.close(&rig.shared);
    assert_eq!(left.len(), MANY + 2);
    assert!(!rig.remote().is_behind(), "nothing waits any more");
    assert!(!Patience::default().wait(&rig.shared, rig.remote()), "and nobody would come to it");
}

#[test]
fn moved_entries_count_as_garbage_until_the_worker_has_popped_them() {
    let mut rig = Rig::new(Limits { transfer: 1_000_000, expiry: MANY });
    let held: Vec<_> = (0..=MANY).map(|_| rig.push_held(FAR)).collect();
    rig.turn(0);
    for held in &held {
        rig.reset_and_push(held, Subtick::new(50));
        // It is in one queue, so it does not go to the other.
        assert!(held.handle().cancel(|_| panic!("it is queued already")).is_some());
    }
    assert!(rig.remote().has_much_garbage() && rig.remote().is_behind());
    let collected = rig.remote().counters.collected.get();
    assert!(rig.turn(0).more, "the limit leaves one");
    assert_eq!(rig.remote().counters.collected.get() - collected, MANY as u64);
    assert!(rig.remote().is_behind(), "what was taken counts until the worker is through it");
    assert!(!rig.turn(0).more);
    assert_eq!((rig.remote().moved_depth(), rig.shard.linked()), (0, 0));
    assert!(!rig.remote().has_much_garbage() && !rig.remote().is_behind());
}

#[test]
fn places_are_taken_all_or_none_and_count_pending_timeouts() {
    let rig = Rig::with(ENOUGH, Some(3));
    assert!(
        rig.shared.take_places(2)
            && !rig.shared.take_places(2)
            && rig.shared.take_places(1)
            && !rig.shared.take_places(1)
    );
    assert_eq!(rig.shared.pending(), 3);
    rig.shared.give_places_back(2);
    assert_eq!(rig.shared.pending(), 1);
    assert!(!rig.shared.take_places(3) && rig.shared.take_places(2) && !rig.shared.take_places(usize::MAX));
    let unlimited = Rig::new(ENOUGH);
    assert!(unlimited.shared.take_places(usize::MAX) && unlimited.shared.take_places(1));
}

#[test]
fn without_a_limit_pending_counts_scheduled_timeouts_that_have_not_ended() {
    let rig = Rig::new(ENOUGH);
    rig.shared.count(rig.shared.remote(1), |counts| counts.scheduled.add(100));
    rig.shared.count(rig.shared.remote(0), |counts| counts.scheduled.add(1_000));
    assert_eq!((rig.shared.pending(), rig.shared.sum(Some(1), |counts| counts.scheduled.get())), (1_100, 100));
    rig.shared.count(rig.shared.remote(1), |counts| counts.cancelled.add(1));
    rig.shared.count(rig.shared.remote(1), |counts| counts.finished.add(2));
    rig.remote().counters.fired.add(4);
    rig.remote().counters.returned.add(8);
    assert_eq!(rig.shared.pending(), 1_100 - 15);
    rig.shared.remote(0).counters.fired.add(5_000);
    assert_eq!(rig.shared.pending(), 0, "never below");
}

#[test]
fn threads_are_dealt_out_to_shards_in_turn_and_stay_there() {
    let rig = Rig::new(ENOUGH);
    // At the same time, so that no thread gets the number of one that has ended.
    let together = std::sync::Barrier::new(4);
    let mut homes = std::thread::scope(|scope| {
        let home = || {
            together.wait();
            let homes = rig.shared.with_thread_state(|mine| [0; 2].map(|_| Shared::home_of(mine).index()));
            together.wait();
            homes
        };
        [(); 4].map(|()| scope.spawn(home)).map(|thread| thread.join().expect("no panic"))
    });
    homes.sort_unstable();
    assert_eq!(homes, [[0, 0], [0, 0], [1, 1], [1, 1]]);
}

#[test]
fn no_two_engines_have_the_same_number_and_none_has_0() {
    let ids = [(); 4].map(|()| Rig::new(ENOUGH).shared.id());
    assert!(ids.iter().all(|id| *id > 0) && (1..4).all(|n| !ids[..n].contains(&ids[n])), "{ids:?}");
}

#[test]
fn an_engine_goes_with_its_last_owner_or_the_last_handle() {
    let told = Arc::new(());
    let witness = Arc::clone(&told);
    let timeline = Timeline::new(Some(CustomClock::new(ManualClock::new())), Duration::from_micros(1));
    let on_panic: PanicHook = Box::new(move |_| assert!(Arc::strong_count(&witness) > 0));
    let arena = Arena::new(0).expect("memory");
    let plan = SharedPlan {
        timeline,
        arena,
        max_pending: None,
        max_wait: MAX_WAIT,
        on_panic: Some(CatchUnwind::new(on_panic)),
    };
    let mut rig = Rig::new(ENOUGH);
    rig.shared = SharedRef::create(plan, numbers()).expect("memory");
    rig.shard = Core::new(&rig.shared, 1, small_wheel(), ENOUGH);
    let its = rig.bell.clone();
    rig.shared.set_waker(move |remote| its.wake(remote));
    let [one, other] = [(); 2].map(|()| rig.push_held(FAR));
    let owner = rig.shared.clone();
    drop(rig);
    assert_eq!(Arc::strong_count(&told), 2, "it has an owner");
    drop(owner);
    drop(one);
    assert_eq!(Arc::strong_count(&told), 2, "it has a handle");
    drop(other);
    assert_eq!(Arc::strong_count(&told), 1);
}
