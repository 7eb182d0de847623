//! The workers: one thread per shard, which turns the shard and sleeps until the next deadline.

mod dispatch;
mod idle;
mod pinning;
mod turn;

use std::time::Duration;

pub(crate) use dispatch::{Dispatch, TurnHook, WorkerHooks};
pub use idle::WaitStrategy;
pub use pinning::Pinning;
pub(crate) use turn::Stopwatch;
pub use turn::Turn;

use crate::engine::{Core, NoWait, SharedRef, UnfiredList};
use crate::events;
use crate::executor::call_hook;
use crate::shard::{Command, Remote, Wake};
use crate::sync::thread::{self, JoinHandle, Thread};
use crate::sync::{Arc, Mutex, OnceLock, Shown, lock, park_for};
use crate::sys::cores::{self, spawn_ordinary};
use crate::sys::sched_hints;

/// How workers are made.
#[derive(Debug)]
pub(crate) struct WorkerPlan {
    pub(crate) wait: WaitStrategy,
    pub(crate) thread_name: String,
    /// The core for each shard's worker, or `None` if it is not pinned.
    pub(crate) cores: Vec<Option<usize>>,
}

/// A worker that has not been needed yet.
struct Unstarted {
    shard: Core,
    dispatch: Dispatch,
    shared: SharedRef,
}

enum SlotState {
    Unstarted(Box<Unstarted>),
    Running(JoinHandle<UnfiredList>),
    Gone,
}

struct WorkerSlot {
    /// The running thread. It is outside the lock, so that a wake-up takes no lock.
    thread: OnceLock<Thread>,
    state: Mutex<SlotState>,
    /// The core that the worker is pinned to, plus one, or 0. For statistics.
    pinned_to: Shown,
    no_thread: events::NoThread,
}

/// The result of a worker's step.
enum Step {
    Done,
    /// The drain that was commanded is over.
    Drained,
}

/// How often a worker that ends looks at least whether what it has handed over last has begun.
const LAST_LOOKS: u32 = 4;

/// How long a worker rests after a turn that panicked. Doubled for each further panic in a row.
const FIRST_REST: Duration = Duration::from_millis(1);

/// Runs a step of a worker. Returns `None` if the step panicked. The only user code that a turn
/// runs outside a catch is the clock. The turn reads the clock before it touches the wheel, so the
/// worker can go on where it was.
fn supervised(step: impl FnOnce() -> Step) -> Option<Step> {
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
        let slot = |shard| WorkerSlot {
            thread: OnceLock::new(),
            state: Mutex::new(SlotState::Unstarted(Box::new(Unstarted {
                shard,
                dispatch: dispatch(),
                shared: shared.clone(),
            }))),
            pinned_to: Shown::new(0),
            no_thread: events::NoThread::default(),
        };
        Arc::new(Self { plan, slots: shards.into_iter().map(slot).collect() })
    }

    /// Returns the core that a worker is pinned to.
    pub(crate) fn pinned_to(&self, shard: usize) -> Option<usize> {
        self.slots[shard].pinned_to.get().checked_sub(1).and_then(|core| usize::try_from(core).ok())
    }

    /// Returns whether a shard's worker has been started. That includes a start that is under way,
    /// because the starting thread holds the lock until the worker can be woken. A worker that has
    /// not been started will see all that was done before this call.
    pub(crate) fn is_started(&self, shard: usize) -> bool {
        !matches!(*lock(&self.slots[shard].state), SlotState::Unstarted(_))
    }

    /// Starts a worker. Returns `false` if the system has no thread for it now.
    #[cold]
    fn start(this: &Arc<Self>, index: usize) -> bool {
        let slot = &this.slots[index];
        let mut state = lock(&slot.state);
        match std::mem::replace(&mut *state, SlotState::Gone) {
            SlotState::Unstarted(unstarted) => {
                // Reset before the thread runs, because that thread may close the shard at once. If
                // the system refuses, the caller records that.
                unstarted.shared.remote(index).fault.set_panics(0);
                // The new thread takes the worker from `offer`. If the thread can't be started, the
                // worker is still there.
                let offer = Arc::new(Mutex::new(Some(unstarted)));
                let (taken, workers) = (Arc::clone(&offer), Arc::clone(this));
                let run = move || match lock(&taken).take() {
                    Some(unstarted) => workers.run(*unstarted),
                    None => UnfiredList::new(),
                };
                let builder = thread::Builder::new().name(format!("{}-{index}", this.plan.thread_name));
                match spawn_ordinary(builder, run) {
                    Ok(handle) => {
                        let _ = slot.thread.set(handle.thread().clone());
                        *state = SlotState::Running(handle);
                        true
                    }
                    Err(why) => {
                        if let Some(unstarted) = lock(&offer).take() {
                            *state = SlotState::Unstarted(unstarted);
                        }
                        drop(state);
                        slot.no_thread.tell(index, &why);
                        false
                    }
                }
            }
            SlotState::Running(handle) => {
                // Another thread has started it in the meantime.
                handle.thread().unpark();
                *state = SlotState::Running(handle);
                true
            }
            // The worker was stopped: its shard is closed, or is being closed.
            SlotState::Gone => true,
        }
    }

    /// Runs a worker until it is stopped. Returns what was still pending.
    fn run(&self, unstarted: Unstarted) -> UnfiredList {
        let Unstarted { mut shard, mut dispatch, shared } = unstarted;
        // Two workers, whose tasks schedule on each other's shards, would wait for each other.
        let _no_wait = NoWait::begin();
        let mut panics = 0_u32;
        let mut turns = events::Turns::default();
        let index = shard.index();
        sched_hints::ask_for_short_latency();
        self.pin(index);
        let remote = shared.remote(index);
        if let Some(hook) = dispatch.hooks.on_start.as_ref() {
            // The hook may keep the worker from its first turn. The worker is then behind since
            // now, or since the engine's start if the clock panics.
            remote.heartbeat.beat(shared.timeline().try_now_ns().unwrap_or(0));
            call_hook(&shared, || hook(index));
        }
        while !remote.is_stopped() {
            match supervised(|| self.step(&shared, &mut shard, &mut dispatch, &mut turns)) {
                Some(Step::Drained) => break,
                Some(Step::Done) => panics = 0,
                // Without a clock, a drain would never be over.
                None if remote.drains_until().is_some() => break,
                None => {
                    panics += 1;
                    remote.counters.panicked_turns.add(1);
                    remote.fault.set_panics(u64::from(panics));
                    park_for(Some(FIRST_REST * (1 << panics.min(10))));
                }
            }
        }
        let left = close(&mut shard, &shared, &mut dispatch);
        // A batch that runs may need help, and others may wait for its end. One that was handed
        // over last begins soon, or waits for a thread, perhaps for one that waits for this worker.
        let mut looks = 0;
        while (shared.in_flight.is_running() || looks < LAST_LOOKS)
            && let Some(at_most) = dispatch.sleeps_at_most()
        {
            park_for(Some(at_most));
            looks += 1;
        }
        // No thread joins this worker, so the timeouts are dropped here, and not with the thread's
        // result.
        if remote.is_unwanted() { UnfiredList::new() } else { left }
    }

    /// Pins the calling thread, a worker, if the plan says so.
    fn pin(&self, shard: usize) {
        if let Some(core) = self.plan.cores[shard]
            && cores::pin_current_thread(core)
        {
            self.slots[shard].pinned_to.set(core as u64 + 1);
        }
    }

    /// Runs one turn, and waits for the next.
    fn step(&self, shared: &SharedRef, shard: &mut Core, dispatch: &mut Dispatch, turns: &mut events::Turns) -> Step {
        let remote = shared.remote(shard.index());
        let requested = remote.turn_requested();
        let now_ns = shared.timeline().now_ns();
        remote.heartbeat.beat(now_ns);
        let now = shared.timeline().scale().subtick_at(now_ns);
        let stopwatch = dispatch.hooks.on_turn.as_ref().map(|_| Stopwatch::start(shard, now, now_ns));
        // A clock of the user's may panic, which it may not do in the middle of a turn.
        let is_the_systems = shared.timeline().is_the_systems();
        let look = || is_the_systems.then(|| shared.timeline().current());
        let turn = shard.turn(shared, now, look, |due| dispatch.take(due));
        if let Some(wakes) = shard.take_wakes(shared) {
            dispatch.wake(wakes);
        }
        turns.end(shard.index(), now_ns, turn.more, || passing_ns(shared));
        if remote.fault.is_panicking() {
            remote.fault.set_panics(0);
        }
        if let Some(hook) = dispatch.hooks.on_turn.as_ref()
            && let Some(turn) = stopwatch.and_then(|stopwatch| stopwatch.stop(shared, shard, turn))
        {
            call_hook(shared, || hook(&turn));
        }
        if turn.more {
            // The worker does not sleep, but a batch may need help.
            let _ = dispatch.sleeps_at_most();
            return Step::Done;
        }
        if remote.drains_until().is_some_and(|until| until <= now || shard.is_drained(shared)) {
            return Step::Drained;
        }
        remote.complete_turn(requested, || shard.earliest(shared));
        if idle::wait(self.plan.wait, shared, shard, dispatch.sleeps_at_most()) {
            remote.counters.wakeups.add(1);
        }
        Step::Done
    }

    /// Commands the workers to close their shards and end, waits for them, and returns what was
    /// still pending. With [`Command::StopAndDiscard`] it does not wait, and the workers drop what
    /// was pending. Otherwise it must not be called by a worker.
    pub(crate) fn end(&self, shared: &SharedRef, how: Command) -> UnfiredList {
        let mut left = UnfiredList::new();
        // Command all workers before the wait for the first of them.
        for (index, slot) in self.slots.iter().enumerate() {
            shared.remote(index).command(how);
            // Unpark the thread directly. The doorbell would start a worker that has never run. If
            // the worker is awake, the unpark makes its next park return at once, so the worker
            // can't miss the command.
            if let SlotState::Running(handle) = &*lock(&slot.state) {
                handle.thread().unpark();
            }
        }
        // First close the shards that have no worker, and will never have one: nobody else closes
        // them while the others drain.
        for slot in &self.slots {
            let mut state = lock(&slot.state);
            match std::mem::replace(&mut *state, SlotState::Gone) {
                SlotState::Unstarted(mut unstarted) => {
                    drop(state);
                    left.append(close(&mut unstarted.shard, shared, &mut unstarted.dispatch));
                }
                other => *state = other,
            }
        }
        for slot in &self.slots {
            let state = std::mem::replace(&mut *lock(&slot.state), SlotState::Gone);
            // A worker runs no user code outside a catch except the clock, whose panics it
            // survives. If it panicked all the same, its timeouts would be lost.
            if let SlotState::Running(worker) = state
                && !matches!(how, Command::StopAndDiscard)
                && let Ok(unfired) = worker.join()
            {
                left.append(unfired);
            }
        }
        left
    }
}

/// Returns the time. Returns `None` if time stands still: it then does not say how long something
/// took.
fn passing_ns(shared: &SharedRef) -> Option<u64> {
    let timeline = shared.timeline();
    timeline.try_now_ns().filter(|_| !timeline.stands_still())
}

/// Closes a shard, fires what was pending in it or returns it, as was commanded, and wakes the
/// futures that slept on it.
fn close(shard: &mut Core, shared: &SharedRef, dispatch: &mut Dispatch) -> UnfiredList {
    let left = if shared.remote(shard.index()).is_to_fire() {
        shard.close_and_fire(shared, &mut |batch| dispatch.accept(batch));
        UnfiredList::new()
    } else {
        shard.close(shared)
    };
    if let Some(wakes) = shard.take_wakes(shared) {
        dispatch.wake(wakes);
    }
    left
}

/// Wakes the workers.
pub(crate) struct Doorbell(pub(crate) Arc<Workers>);

impl Wake for Doorbell {
    fn wake(&self, remote: &Remote) -> bool {
        match self.0.slots[remote.index()].thread.get() {
            Some(thread) => {
                thread.unpark();
                true
            }
            None => Workers::start(&self.0, remote.index()),
        }
    }

    fn has_worker(&self, shard: usize) -> bool {
        self.0.slots[shard].thread.get().is_some()
    }
}
