//! The workers: one thread per shard, which turns the shard and sleeps until the next deadline.

mod dispatch;
mod pinning;

use std::ops::ControlFlow;
use std::time::Duration;

pub use dispatch::Turn;
pub(crate) use dispatch::{Dispatch, TurnHook, WorkerHooks};
pub use pinning::Pinning;

use crate::count::PANICKING;
use crate::engine::{Core, SharedRef};
use crate::events;
use crate::executor::call_hook;
use crate::shard::{Command, Remote};
use crate::sync::thread::{self, JoinHandle, Thread};
use crate::sync::{Arc, Mutex, OnceLock, lock, park_for};
use crate::sys::cores::{self, spawn_ordinary};
use crate::sys::threads;
use crate::thread::NoWait;
use crate::time::saturating_ns;

/// How workers are made.
#[derive(Debug)]
pub(crate) struct WorkerPlan {
    pub(crate) wait: WaitStrategy,
    pub(crate) thread_name: String,
    /// The core for each shard's worker, or `None` if it is not pinned.
    pub(crate) cores: Vec<Option<usize>>,
}

/// The state of a worker that no other thread touches.
struct Worker {
    shard: Core,
    dispatch: Dispatch,
    turns: events::Turns,
}

struct WorkerSlot {
    /// The thread, from its start on. It is outside the lock, so that a wake-up takes no lock. It
    /// is set under the lock of `handle`, so that only one thread is ever started.
    thread: OnceLock<Thread>,
    /// Locked during a start. [`Workers::end`] takes it.
    handle: Mutex<Option<JoinHandle<()>>>,
    /// The thread takes it, once it was started. Without a thread, [`Workers::end`] does.
    unstarted: Mutex<Option<(SharedRef, Worker)>>,
    no_thread: events::NoThread,
}

/// How often a worker that ends looks at least whether what it has handed over last has begun.
const LAST_LOOKS: u32 = 4;

/// How long a worker rests after a turn that panicked. Doubled for each further panic in a row.
const FIRST_REST: Duration = Duration::from_millis(1);

/// Runs a step of a worker. Returns `None` if the step panicked. The only user code that a turn
/// runs outside a catch is the clock. The turn reads the clock before it touches the wheel, so the
/// worker can go on where it was.
fn supervised<R>(step: impl FnOnce() -> R) -> Option<R> {
    #[cfg(not(loom))]
    return crate::panics::catch(step);
    // A model must see its own panics.
    #[cfg(loom)]
    Some(step())
}

/// All workers of one engine. Each is started when it is first needed.
pub(crate) struct Workers {
    plan: WorkerPlan,
    slots: Box<[WorkerSlot]>,
}

impl Workers {
    /// Creates the workers for these shards, and starts none. They own the engine until
    /// [`end`](Self::end) is called, so it must be called.
    pub(crate) fn new(
        plan: WorkerPlan,
        shards: Vec<Core>,
        shared: &SharedRef,
        dispatch: impl Fn() -> Dispatch,
    ) -> Arc<Self> {
        let slot = |shard| {
            let worker = Worker { shard, dispatch: dispatch(), turns: events::Turns::default() };
            WorkerSlot {
                thread: OnceLock::new(),
                handle: Mutex::new(None),
                unstarted: Mutex::new(Some((shared.clone(), worker))),
                no_thread: events::NoThread::default(),
            }
        };
        Arc::new(Self { plan, slots: shards.into_iter().map(slot).collect() })
    }

    /// Returns whether a shard's worker has been started. That includes a start that is under way,
    /// because the starting thread holds the lock until the worker can be woken. A worker that has
    /// not been started will see all that was done before this call.
    pub(crate) fn is_started(&self, shard: usize) -> bool {
        let slot = &self.slots[shard];
        let _starting = lock(&slot.handle);
        slot.thread.get().is_some() || lock(&slot.unstarted).is_none()
    }

    /// Wakes a shard's worker, or starts it. Returns `false` if the system has no thread for it.
    pub(crate) fn wake(this: &Arc<Self>, remote: &Remote) -> bool {
        let Some(thread) = this.slots[remote.index()].thread.get() else { return Self::start(this, remote) };
        thread.unpark();
        true
    }

    #[cold]
    fn start(this: &Arc<Self>, remote: &Remote) -> bool {
        let index = remote.index();
        let slot = &this.slots[index];
        let mut own_handle = lock(&slot.handle);
        if let Some(thread) = slot.thread.get() {
            // Another thread has started it in the meantime.
            thread.unpark();
            return true;
        }
        if lock(&slot.unstarted).is_none() {
            // The worker was stopped: its shard is closed, or is being closed.
            return true;
        }
        // Reset before the thread runs, because that thread may close the shard at once. If the
        // system refuses, the caller records that.
        remote.fault.set(0);
        let workers = Arc::clone(this);
        let run = move || {
            // If the thread can't be started, the worker is still there.
            let unstarted = lock(&workers.slots[index].unstarted).take();
            let (shared, worker) = unstarted.expect("only its thread takes it");
            workers.run(&shared, worker)
        };
        let builder = thread::Builder::new().name(format!("{}-{index}", this.plan.thread_name));
        match spawn_ordinary(builder, run) {
            Ok(handle) => {
                let _ = slot.thread.set(handle.thread().clone());
                remote.has_worker.set(1);
                *own_handle = Some(handle);
                true
            }
            Err(why) => {
                drop(own_handle);
                slot.no_thread.tell(index, &why);
                false
            }
        }
    }

    /// Runs a worker until it is stopped.
    fn run(&self, shared: &SharedRef, mut worker: Worker) {
        // Two workers, whose tasks schedule on each other's shards, would wait for each other.
        let _no_wait = NoWait::begin();
        let mut panics = 0_u32;
        let index = worker.shard.index();
        threads::ask_for_short_latency();
        if let Some(core) = self.plan.cores[index]
            && cores::pin_current_thread(core)
        {
            shared.remote(index).counters.pinned_to.set(core as u64 + 1);
        }
        let remote = shared.remote(index);
        if let Some(hook) = worker.dispatch.hooks.on_start.as_ref() {
            // The hook may keep the worker from its first turn. The worker is then behind since
            // now, or since the engine's start if the clock panics.
            remote.counters.begin_turn(shared.timeline().try_now_ns().unwrap_or(0));
            call_hook(shared, || hook(index));
        }
        while !remote.is_stopped() {
            match supervised(|| self.step(shared, &mut worker)) {
                Some(ControlFlow::Break(())) => break,
                Some(ControlFlow::Continue(())) => panics = 0,
                // Without a clock, a drain would never be over.
                None if remote.drains_until().is_some() => break,
                None => {
                    panics += 1;
                    remote.counters.panicked_turns.add(1);
                    remote.fault.set(PANICKING);
                    park_for(Some(FIRST_REST * (1 << panics.min(10))));
                }
            }
        }
        close(shared, &mut worker);
        // A batch that runs may need help, and others may wait for its end. One that was handed
        // over last begins soon, or waits for a thread, perhaps for one that waits for this worker.
        let mut looks = 0;
        while (shared.in_flight.is_running() || looks < LAST_LOOKS)
            && let Some(at_most) = worker.dispatch.sleeps_at_most()
        {
            park_for(Some(at_most));
            looks += 1;
        }
    }

    /// Runs one turn, and waits for the next. Breaks if the drain that was commanded is over.
    fn step(&self, shared: &SharedRef, worker: &mut Worker) -> ControlFlow<()> {
        let Worker { shard, dispatch, turns } = worker;
        let remote = shared.remote(shard.index());
        let requested = remote.turn_requested();
        let timeline = shared.timeline();
        let now_ns = timeline.now_ns();
        remote.counters.begin_turn(now_ns);
        let now = timeline.scale().subtick_at(now_ns);
        let before = shard.turned_to();
        // A clock of the user's may panic, which it may not do in the middle of a turn.
        let look = || timeline.is_the_systems().then(|| timeline.current());
        let turn = shard.turn(shared, now, look, |due| dispatch.take(due));
        if let Some(wakes) = shard.take_wakes(shared) {
            dispatch.wake(wakes);
        }
        // If time stands still, it does not say how long the turn took.
        let passing_ns = || timeline.try_now_ns().filter(|_| !timeline.stands_still());
        turns.end(shard.index(), now_ns, turn.more, passing_ns);
        if remote.fault.get() != 0 {
            remote.fault.set(0);
        }
        if let Some(hook) = dispatch.hooks.on_turn.as_ref()
            && let Some(turn) = Turn::of(shared, shard, turn, before, now, now_ns)
        {
            call_hook(shared, || hook(&turn));
        }
        if turn.more {
            // The worker does not sleep, but a batch may need help.
            let _ = dispatch.sleeps_at_most();
            return ControlFlow::Continue(());
        }
        // If the inbox is open, the command came after this turn had taken it.
        let is_over = |until| remote.is_closed() && (until <= now || shard.next_due(shared).is_none());
        if remote.drains_until().is_some_and(is_over) {
            return ControlFlow::Break(());
        }
        remote.complete_turn(requested, || shard.earliest(shared));
        if wait(self.plan.wait, shared, shard, dispatch.sleeps_at_most()) {
            remote.counters.wakeups.add(1);
        }
        ControlFlow::Continue(())
    }

    /// Ends the workers, whose shards have been given the command, and waits for them. With
    /// [`Command::StopAndDiscard`] it does not wait. Otherwise it must not be called by a worker.
    pub(crate) fn end(&self, shared: &SharedRef, how: Command) {
        // Unpark all workers before the wait for the first of them.
        for slot in &self.slots {
            // Unpark the thread directly. The doorbell would start a worker that has never run. If
            // the worker is awake, the unpark makes its next park return at once, so the worker
            // can't miss the command. Under the lock: a start may be under way.
            let _starting = lock(&slot.handle);
            if let Some(thread) = slot.thread.get() {
                thread.unpark();
            }
        }
        // First close the shards that have no worker, and will never have one: nobody else closes
        // them while the others drain.
        for slot in &self.slots {
            let starting = lock(&slot.handle);
            let unstarted = slot.thread.get().is_none().then(|| lock(&slot.unstarted).take()).flatten();
            drop(starting);
            if let Some((_, mut worker)) = unstarted {
                close(shared, &mut worker);
            }
        }
        for slot in &self.slots {
            let handle = lock(&slot.handle).take();
            // A worker runs no user code outside a catch except the clock, whose panics it
            // survives. If it panicked all the same, its timeouts would be lost.
            if let Some(worker) = handle
                && !matches!(how, Command::StopAndDiscard)
            {
                let _ = worker.join();
            }
        }
    }
}

/// Closes a shard, fires what was pending in it or hands it in, as was commanded, and wakes the
/// futures that slept on it.
fn close(shared: &SharedRef, worker: &mut Worker) {
    let Worker { shard, dispatch, .. } = worker;
    if shared.remote(shard.index()).is_to_fire() {
        shard.close_and_fire(shared, &mut |batch| dispatch.accept(batch));
    } else {
        shard.close(shared).hand_in();
    }
    if let Some(wakes) = shard.take_wakes(shared) {
        dispatch.wake(wakes);
    }
}

/// How a worker waits for the next deadline.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Timer, WaitStrategy};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Exact to some microseconds, for at most 100 us of processor time a wake-up.
/// let wait = WaitStrategy::Hybrid { spin: Duration::from_micros(100) };
/// let timer = Timer::builder().wait(wait).build()?;
/// # drop(timer);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// Sleep until the next deadline, or until a producer schedules an earlier one. Takes no
    /// processor time while nothing is due. The time that the system needs to wake a thread, some
    /// 30 to 100 µs, is part of the lateness.
    #[default]
    Park,
    /// Sleep until `spin` before the next deadline, and spin from then on.
    Hybrid {
        /// How long before a deadline to wake up.
        spin: Duration,
    },
    /// Never sleep. Takes a whole core for each worker, and gives the least lateness.
    Spin,
}

/// How often a worker that drains its shard checks whether all remaining timeouts have been
/// cancelled.
const DRAIN_LOOK: Duration = Duration::from_millis(10);

/// How often a worker looks whether there is memory for what has arrived.
const MEMORY_LOOK: Duration = Duration::from_millis(1);

/// Waits until there may be something to do, or for `at_most`. Returns whether the worker has
/// slept.
fn wait(strategy: WaitStrategy, shared: &SharedRef, shard: &mut Core, at_most: Option<Duration>) -> bool {
    let drained = shared.remote(shard.index()).drains_until();
    let timeline = shared.timeline();
    // Those of one tick share a wake-up.
    let due = if strategy == WaitStrategy::Park { shard.last_due_of_tick(shared) } else { shard.next_due(shared) };
    let next = due.into_iter().chain(drained).min();
    let due_ns = next.map(|tick| timeline.scale().ns_of(tick));
    // Read before the time: if a pause ends in between, the thread that ends it wakes the worker.
    let stands_still = timeline.stands_still();
    let now_ns = timeline.now_ns();
    let wake_up = match strategy {
        WaitStrategy::Spin => {
            std::hint::spin_loop();
            return false;
        }
        // Spinning is of no use while time stands still.
        WaitStrategy::Hybrid { spin } if !stands_still => due_ns.map(|due| due.saturating_sub(saturating_ns(spin))),
        WaitStrategy::Hybrid { .. } | WaitStrategy::Park => due_ns,
    };
    if wake_up.is_some_and(|at| at <= now_ns) {
        if shard.waits_for_memory() {
            // Awake, as the worker looks again at the entries that wait.
            park_for(Some(MEMORY_LOOK));
        }
        std::hint::spin_loop();
        return false;
    }
    if !shared.remote(shard.index()).fall_asleep(next) {
        return false;
    }
    // While a clock is stopped or moved by hand, time does not pass as the worker sleeps. The
    // thread that moves the clock or ends the pause wakes the worker.
    let timeout = wake_up.filter(|_| !stands_still).map(|at| Duration::from_nanos(at - now_ns));
    // A cancel does not wake the worker, but it may remove the last timeout that a drain waits for.
    let look = drained.map(|_| DRAIN_LOOK);
    park_for(timeout.into_iter().chain(look).chain(at_most).min());
    true
}
