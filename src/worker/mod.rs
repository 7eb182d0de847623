//! The threads: one per shard, which turns it, and sleeps until the next deadline.

mod cores;
mod idle;
mod pin;
mod pinned;
mod prompt;
mod tick;
mod waits;

use std::sync::OnceLock;
use std::time::Duration;

pub(crate) use cores::{allowed_cores, spawn_ordinary};
pub use idle::WaitStrategy;
pub use pin::Pinning;
pub(crate) use tick::Stopwatch;
pub use tick::Tick;

use crate::events;
use crate::panics;
use crate::shard::{Batch, Hub, HubRef, Mailbox, Order, Shard, UnfiredList, Wake};
use crate::sync::thread::{self, JoinHandle, Thread};
use crate::sync::{Arc, Mutex, lock, park_for};
use crate::time;
use pinned::{Meter, Pin};

/// Where a worker puts what has expired. Must not panic, not when it is dropped either, and must not call back into the worker.
pub(crate) trait Sink: Send {
    /// Whether the beginning of a worker is to be told about.
    fn wants_begin(&self) -> bool;
    /// Called once on the worker's thread, before its first turn.
    fn begin(&mut self, hub: &Hub, shard: usize);
    fn accept(&mut self, batch: Batch);
    /// Wakes those who slept, here and now.
    fn wake(&mut self, wakes: Batch);
    /// Whether turns are to be told about.
    fn wants_ticks(&self) -> bool;
    fn tell(&mut self, hub: &Hub, tick: &Tick);
}

/// How an engine's workers are made to end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Return,
    Fire,
    /// Until then at the latest.
    Drain(time::Tick),
}

/// How workers are made.
#[derive(Debug)]
pub(crate) struct WorkerPlan {
    pub(crate) wait: WaitStrategy,
    pub(crate) thread_name: String,
    /// A core for each shard, or none.
    pub(crate) cores: Vec<Option<usize>>,
    /// Whether a worker that does not get its core is to stay there.
    pub(crate) cores_are_fixed: bool,
}

/// A worker that has not been needed yet.
struct Waiting {
    shard: Shard,
    sink: Box<dyn Sink>,
    hub: HubRef,
}

enum Seat {
    Waiting(Box<Waiting>),
    Running(JoinHandle<UnfiredList>),
    Gone,
}

struct Post {
    /// Of the running thread. In front of the lock, so that a wake-up takes none.
    thread: OnceLock<Thread>,
    seat: Mutex<Seat>,
    pin: Arc<Pin>,
    no_thread: events::NoThread,
}

/// What came of a worker's step.
enum Step {
    Done,
    /// The drain that was ordered is over.
    Drained,
}

/// How long a worker rests after a turn that panicked, doubled for each that follows on it.
const FIRST_REST: Duration = Duration::from_millis(1);

/// Runs a step of a worker. None if it panicked: a turn runs no user code outside of a catch but the clock, which is read
/// before the wheel is touched, so that the worker can go on where it was.
fn supervised(step: impl FnOnce() -> Step) -> Option<Step> {
    #[cfg(not(loom))]
    return panics::contain(step);
    // A model must see its own panics.
    #[cfg(loom)]
    Some(step())
}

/// All workers of one engine, started one by one when they are first needed.
pub(crate) struct Workers {
    plan: WorkerPlan,
    posts: Box<[Post]>,
}

impl Workers {
    /// Workers for these shards, not started yet. They own the hub until [`end`](Self::end) or [`stop`](Self::stop) is
    /// called: one of the two must be.
    pub(crate) fn new(
        plan: WorkerPlan,
        shards: Vec<Shard>,
        hub: &HubRef,
        sink: impl Fn() -> Box<dyn Sink>,
    ) -> Arc<Self> {
        let post = |shard| Post {
            thread: OnceLock::new(),
            seat: Mutex::new(Seat::Waiting(Box::new(Waiting { shard, sink: sink(), hub: hub.clone() }))),
            pin: Arc::new(Pin::default()),
            no_thread: events::NoThread::default(),
        };
        Arc::new(Self { plan, posts: shards.into_iter().map(post).collect() })
    }

    /// The core that a worker is pinned to.
    pub(crate) fn pinned_to(&self, shard: usize) -> Option<usize> {
        self.posts[shard].pin.core()
    }

    /// Whether a shard's worker has been started, if only just now: whoever starts it holds the lock until it can be woken. If
    /// not, it will see all that was done before this call.
    pub(crate) fn is_started(&self, shard: usize) -> bool {
        !matches!(*lock(&self.posts[shard].seat), Seat::Waiting(_))
    }

    /// Starts a worker. False if the system has no thread for it now.
    #[cold]
    fn start(this: &Arc<Self>, index: usize) -> bool {
        let post = &this.posts[index];
        let mut seat = lock(&post.seat);
        match std::mem::replace(&mut *seat, Seat::Gone) {
            Seat::Waiting(waiting) => {
                // Before the thread runs, which may close the shard at once. A refusal is noted by who asked for the thread.
                waiting.hub.mailbox(index).ailment.set_panics(0);
                // The thread takes what it needs from here; if it can't be started, it is still here.
                let offer = Arc::new(Mutex::new(Some(waiting)));
                let (taken, workers) = (Arc::clone(&offer), Arc::clone(this));
                let run = move || match lock(&taken).take() {
                    Some(waiting) => workers.run(*waiting),
                    None => UnfiredList::new(),
                };
                let builder = thread::Builder::new().name(format!("{}-{index}", this.plan.thread_name));
                match spawn_ordinary(builder, run) {
                    Ok(handle) => {
                        let _ = post.thread.set(handle.thread().clone());
                        *seat = Seat::Running(handle);
                        true
                    }
                    Err(why) => {
                        if let Some(waiting) = lock(&offer).take() {
                            *seat = Seat::Waiting(waiting);
                        }
                        drop(seat);
                        post.no_thread.tell(index, &why);
                        false
                    }
                }
            }
            Seat::Running(handle) => {
                // Somebody else has started it in the meantime.
                handle.thread().unpark();
                *seat = Seat::Running(handle);
                true
            }
            // Stopped: its shard is closed, or is being closed.
            Seat::Gone => true,
        }
    }

    /// A worker's life.
    fn run(&self, waiting: Waiting) -> UnfiredList {
        let Waiting { mut shard, mut sink, hub } = waiting;
        let mut panics = 0_u32;
        let mut turns = events::Turns::default();
        let index = shard.index();
        prompt::ask_to_be_prompt();
        let mut meter = self.pin(&hub, index);
        let mailbox = hub.mailbox(index);
        if sink.wants_begin() {
            // A worker that the user keeps from its first turn is behind since now; or since ever, if the clock can't say.
            mailbox.heartbeat.beat(hub.timeline().try_now_ns().unwrap_or(0));
            sink.begin(&hub, index);
        }
        while !mailbox.is_stopped() {
            match supervised(|| self.step(&hub, &mut shard, &mut *sink, &mut turns, &mut meter)) {
                Some(Step::Drained) => break,
                Some(Step::Done) => panics = 0,
                // Without a clock a drain would never be over.
                None if mailbox.drains_until().is_some() => break,
                None => {
                    panics += 1;
                    mailbox.counters.restarts.add(1);
                    mailbox.ailment.set_panics(u64::from(panics));
                    park_for(Some(FIRST_REST * (1 << panics.min(10))));
                }
            }
        }
        if mailbox.is_to_fire() {
            fire(&mut shard, &hub, &mut *sink);
            return UnfiredList::new();
        }
        let left = close(&mut shard, &hub, &mut *sink);
        // Nobody waits for it: it goes here, and not with the thread's answer.
        if mailbox.is_unwanted() { UnfiredList::new() } else { left }
    }

    /// Pins a worker, the calling thread, if that was planned.
    fn pin(&self, hub: &Hub, shard: usize) -> Option<Meter> {
        let core = self.plan.cores[shard]?;
        // By any other clock nobody can say how late a thread is.
        let is_measured = hub.timeline().is_the_systems();
        let is_watched = is_measured && !self.plan.cores_are_fixed;
        Pin::put(&self.posts[shard].pin, shard, core, is_watched).filter(|_| is_measured)
    }

    /// One turn, and the wait for the next.
    fn step(
        &self,
        hub: &HubRef,
        shard: &mut Shard,
        sink: &mut dyn Sink,
        turns: &mut events::Turns,
        meter: &mut Option<Meter>,
    ) -> Step {
        let mailbox = hub.mailbox(shard.index());
        let asked = mailbox.asked();
        let now_ns = hub.timeline().now_ns();
        mailbox.heartbeat.beat(now_ns);
        if meter.as_mut().is_some_and(|meter| !meter.goes_on(now_ns)) {
            *meter = None;
        }
        let now = hub.timeline().scale().tick_at(now_ns);
        let stopwatch = sink.wants_ticks().then(|| Stopwatch::start(shard, now, now_ns));
        let turn = shard.turn(hub, now, &mut |batch| sink.accept(batch));
        if let Some(wakes) = shard.take_wakes() {
            sink.wake(wakes);
        }
        turns.end(shard.index(), now_ns, turn.more, || passing_ns(hub));
        if mailbox.ailment.is_panicking() {
            mailbox.ailment.set_panics(0);
        }
        if let Some(tick) = stopwatch.and_then(|stopwatch| stopwatch.stop(hub, shard, turn)) {
            sink.tell(hub, &tick);
        }
        if turn.more {
            return Step::Done;
        }
        if mailbox.drains_until().is_some_and(|until| until <= now || shard.is_drained(hub)) {
            return Step::Drained;
        }
        mailbox.answer(asked, || shard.earliest());
        if let Some(slept) = idle::wait(self.plan.wait, hub, shard) {
            mailbox.counters.wakeups.add(1);
            meter.iter_mut().for_each(|meter| meter.set_wanted(slept.until_ns));
        }
        Step::Done
    }

    /// Closes all shards, waits for the workers, and returns what was still pending. Not to be called by a worker.
    pub(crate) fn end(&self, hub: &HubRef, how: End) -> UnfiredList {
        let mut left = UnfiredList::new();
        let order = |mailbox: &Mailbox| match how {
            End::Return => mailbox.order(Order::StopAndReturn),
            End::Fire => mailbox.order(Order::StopAndFire),
            End::Drain(until) => mailbox.order_drain(until),
        };
        // First the shards that have no worker: nobody else closes them while the others drain.
        self.order_to_stop(order, hub, |mut waiting| {
            let Waiting { shard, sink, .. } = &mut *waiting;
            match how {
                End::Fire => fire(shard, hub, &mut **sink),
                End::Return | End::Drain(_) => left.append(close(shard, hub, &mut **sink)),
            }
        });
        for post in &self.posts {
            let seat = std::mem::replace(&mut *lock(&post.seat), Seat::Gone);
            // A worker runs no user code that could panic outside of a catch; if it did, what it had is lost.
            if let Seat::Running(worker) = seat
                && let Ok(unfired) = worker.join()
            {
                left.append(unfired);
            }
        }
        left
    }

    /// Orders the workers to close their shards and end, and waits for nobody. What was pending is dropped by them.
    pub(crate) fn stop(&self, hub: &HubRef) {
        self.order_to_stop(
            |mailbox| mailbox.order(Order::StopAndDiscard),
            hub,
            |mut waiting| {
                let Waiting { shard, sink, .. } = &mut *waiting;
                drop(close(shard, hub, &mut **sink));
            },
        );
        self.posts.iter().for_each(|post| *lock(&post.seat) = Seat::Gone);
    }

    /// Tells all workers before anybody waits for the first. Those that have never run never will: they are given to `close`.
    fn order_to_stop(&self, order: impl Fn(&Mailbox), hub: &HubRef, mut close: impl FnMut(Box<Waiting>)) {
        for (index, post) in self.posts.iter().enumerate() {
            order(hub.mailbox(index));
            // Not through the doorbell, which would start a worker that has never run: straight to the thread. An unpark
            // that comes while it is awake makes its next park return at once, so the order can't be missed.
            if let Seat::Running(handle) = &*lock(&post.seat) {
                handle.thread().unpark();
            }
        }
        for post in &self.posts {
            let mut seat = lock(&post.seat);
            match std::mem::replace(&mut *seat, Seat::Gone) {
                Seat::Waiting(waiting) => {
                    drop(seat);
                    close(waiting);
                }
                other => *seat = other,
            }
        }
    }
}

/// The time, unless somebody has to let it pass: then how long something took says nothing.
fn passing_ns(hub: &HubRef) -> Option<u64> {
    let timeline = hub.timeline();
    timeline.try_now_ns().filter(|_| !timeline.stands_still())
}

/// Closes a shard and fires all that is pending in it.
fn fire(shard: &mut Shard, hub: &HubRef, sink: &mut dyn Sink) {
    shard.close_and_fire(hub, &mut |batch| sink.accept(batch));
    if let Some(wakes) = shard.take_wakes() {
        sink.wake(wakes);
    }
}

/// Closes a shard, and wakes the futures that slept on it. Returns what else was pending in it.
fn close(shard: &mut Shard, hub: &HubRef, sink: &mut dyn Sink) -> UnfiredList {
    let left = shard.close(hub);
    if let Some(wakes) = shard.take_wakes() {
        sink.wake(wakes);
    }
    left
}

/// The hub's way to the workers.
pub(crate) struct Doorbell(pub(crate) Arc<Workers>);

impl Wake for Doorbell {
    fn wake(&self, _: &Hub, shard: usize) -> bool {
        match self.0.posts[shard].thread.get() {
            Some(thread) => {
                thread.unpark();
                true
            }
            None => Workers::start(&self.0, shard),
        }
    }

    fn is_turned_by_another(&self, shard: usize) -> bool {
        self.0.posts[shard].thread.get().is_some_and(|worker| worker.id() != thread::current().id())
    }

    fn look_after(&self, hub: &Hub, shard: usize) {
        self.0.posts[shard].pin.look(hub, shard);
    }
}
