//! The options of an engine.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Limits, PanicHook};
use crate::executor::{Executor, WorkerHooks};
use crate::panics::CatchUnwind;
use crate::time::{Clock, Source};
use crate::worker::{Pinning, Tick, WaitStrategy};

const DEFAULT_TICK: Duration = Duration::from_millis(1);
const DEFAULT_TICKS_PER_WHEEL: usize = 512;
const DEFAULT_LIMIT: usize = 100_000;
/// In a model nobody waits for the worker to give memory back: that decides nothing.
const DEFAULT_MAX_WAIT: Duration = if cfg!(loom) { Duration::ZERO } else { Duration::from_millis(20) };
const DEFAULT_STUCK_AFTER: Duration = Duration::from_secs(1);

/// Makes a [`Timer`]. Each option has a default that is right for a server that changes nothing.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{Inline, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::builder()
///     .tick_duration(Duration::from_micros(100))
///     .capacity(100_000)
///     .executor(Inline)
///     .build()?;
/// # drop(timer);
/// # Ok(())
/// # }
/// ```
#[must_use = "a Builder does nothing until `build` is called"]
pub struct Builder {
    pub(super) shards: Option<usize>,
    pub(super) tick_duration: Duration,
    pub(super) ticks_per_wheel: usize,
    pub(super) levels: Option<usize>,
    pub(super) limits: Limits,
    pub(super) max_pending_timeouts: Option<usize>,
    pub(super) max_wait: Duration,
    pub(super) capacity: usize,
    pub(super) pinning: Pinning,
    pub(super) wait: WaitStrategy,
    pub(super) executor: Option<Arc<dyn Executor>>,
    pub(super) source: Source,
    pub(super) thread_name: String,
    pub(super) on_panic: Option<PanicHook>,
    pub(super) hooks: WorkerHooks,
    pub(super) stuck_after: Duration,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            shards: None,
            tick_duration: DEFAULT_TICK,
            ticks_per_wheel: DEFAULT_TICKS_PER_WHEEL,
            levels: None,
            limits: Limits { transfer: DEFAULT_LIMIT, expiry: DEFAULT_LIMIT },
            max_pending_timeouts: None,
            max_wait: DEFAULT_MAX_WAIT,
            capacity: 0,
            pinning: Pinning::default(),
            wait: WaitStrategy::default(),
            executor: None,
            source: Source::Monotonic,
            thread_name: "tourbillon".to_owned(),
            on_panic: None,
            hooks: WorkerHooks::default(),
            stuck_after: DEFAULT_STUCK_AFTER,
        }
    }

    /// How many shards, each with a wheel and a worker thread of its own. 1 to 1,024.
    ///
    /// Threads that schedule are dealt out to the shards in turn, each at its first timeout, and stay there; one that begins when
    /// another has ended takes that one's place. So a program in which one thread at a time schedules uses one shard, unless it spreads
    /// its timeouts by [`Timer::shard_for`](crate::Timer::shard_for).
    ///
    /// Default: one for every four cores, at least one: a worker takes in several million timeouts a second, so it is the
    /// server's own threads that need the cores. (Driven engines: one.)
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// How long a tick is: deadlines are rounded up to it. From 1 ns; less than what the system takes to wake a thread
    /// (some 50 µs) is of use with [`WaitStrategy::Spin`] or [`WaitStrategy::Hybrid`] only.
    ///
    /// Default: 1 ms, which is finer than any timeout of a server needs, and costs nothing: ticks in which nothing is due
    /// are skipped.
    pub fn tick_duration(mut self, tick: Duration) -> Self {
        self.tick_duration = tick;
        self
    }

    /// How many ticks one wheel spans, rounded up to a power of two; up to 1,048,576. Each shard keeps two slots of 64
    /// bytes for each tick and level (one if there is only one level), and as many again for the day on which the clock leaps
    /// beyond them all; they take no memory before something has been in them, or beside them on their page.
    ///
    /// Default: 512.
    pub fn ticks_per_wheel(mut self, ticks: usize) -> Self {
        self.ticks_per_wheel = ticks;
        self
    }

    /// How many wheels of a shard stand one upon the other, each `ticks_per_wheel` times coarser than the one below. What
    /// lies beyond the last waits there for as many rounds as it takes. 1 is Netty's hashed wheel: each timeout beyond one
    /// revolution is looked at in every round, and after a jump of the clock by more than one revolution, what is due
    /// runs in the order of slots and not of ticks.
    ///
    /// Default: as many as make a year addressable; 4 at 1 ms and 512 ticks.
    pub fn levels(mut self, levels: usize) -> Self {
        self.levels = Some(levels);
        self
    }

    /// How many timeouts a worker takes out of its inbox in one turn at most. What is left over goes on in the next turn,
    /// at once.
    ///
    /// Default: 100,000, as in Netty.
    pub fn transfer_limit(mut self, limit: usize) -> Self {
        self.limits.transfer = limit;
        self
    }

    /// How many timeouts a worker looks at in one turn at most because their slot has come up; the same bound holds, each
    /// by itself, for cancelled ones to collect, for resets to an earlier deadline, and for those a cascade moves. What is
    /// left over goes on in the next turn, at once.
    ///
    /// Default: 100,000.
    pub fn expiry_limit(mut self, limit: usize) -> Self {
        self.limits.expiry = limit;
        self
    }

    /// How many timeouts may be pending in the whole engine: never one more, and none is refused while there is room. Costs
    /// one read-modify-write on a shared counter for each schedule, each cancel, each batch of expired ones, each future that is
    /// woken and each series that ends, and nothing if it is not set.
    ///
    /// Default: no bound.
    pub fn max_pending_timeouts(mut self, max: usize) -> Self {
        self.max_pending_timeouts = Some(max);
        self
    }

    /// How long a call that schedules may wait for a worker that is behind. It waits only if its thread has no free memory left while more
    /// than 16,384 cancelled timeouts wait for a worker that runs (or, before the engine takes new memory, as many of any kind): so what
    /// cancelled ones hold is bounded, however fast timeouts are scheduled and cancelled. When the time is up the call goes on, and its
    /// thread has memory for 64 timeouts more. After a second in which the worker has not moved it is not waited for until it does.
    ///
    /// Zero: nobody waits, and the engine takes memory as long as its worker does not keep up. That is for event loops, which must not
    /// stand still; [`Timer::shrink`](crate::Timer::shrink) gives the memory back when the storm is over. `Stats::waits` counts the
    /// calls that have waited. (A driven engine has no worker that could be waited for.)
    ///
    /// Default: 20 ms.
    pub fn max_wait(mut self, most: Duration) -> Self {
        self.max_wait = most;
        self
    }

    /// Memory for how many timeouts is reserved, and touched, by `build`: 64 bytes each. More are allocated when they are
    /// needed, and given back by [`Timer::shrink`](crate::Timer::shrink) only. Cancelled ones count until their worker has collected them:
    /// up to 8,191 in each of the two queues of a shard whose worker sleeps, and twice 16,384 of one that runs.
    /// Each thread, the pool's included, keeps up to 192 free ones, and up to 64 that it has cancelled and dropped; a worker 128 more.
    /// On Linux large pages are asked for if 4 MiB or more are reserved: operations on tens of thousands of timeouts, and more, are the
    /// faster for it. (They come from the system and not from the global allocator, so that they go back to it with the engine.)
    ///
    /// Default: 0.
    pub fn capacity(mut self, timeouts: usize) -> Self {
        self.capacity = timeouts;
        self
    }

    /// Which cores the workers run on. Default: [`Pinning::Auto`].
    pub fn pinning(mut self, pinning: Pinning) -> Self {
        self.pinning = pinning;
        self
    }

    /// How the workers wait. Default: [`WaitStrategy::Park`].
    pub fn wait(mut self, wait: WaitStrategy) -> Self {
        self.wait = wait;
        self
    }

    /// Where expired timeouts run. Not used by a driven engine, which runs them in `turn`.
    ///
    /// They are handed over in batches of up to 256, which run one after the other: a task that blocks holds up those of its batch, also
    /// where other threads of the pool have nothing to do. What takes long belongs on threads of its own, to which the task hands it.
    ///
    /// Default: a [`ThreadPool`] of its own, with as many threads as there are cores, two at least.
    pub fn executor(mut self, executor: impl Executor) -> Self {
        self.executor = Some(Arc::new(executor));
        self
    }

    /// Where the engine reads the time. Default: the system's monotonic clock, [`std::time::Instant::now`].
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.source = Source::custom(clock);
        self
    }

    /// What the threads are called: `name-0` and so on for the workers, `name-pool-0` for the default pool's. (Linux shows
    /// the first 15 bytes.) Default: `tourbillon`.
    pub fn thread_name(mut self, name: &str) -> Self {
        // A NUL can't be in a thread's name, and would panic when the thread is started.
        self.thread_name = name.replace('\0', "");
        self
    }

    /// Called with what a task panicked with, on the thread that ran it. Default: the panic is only counted (and, as
    /// always, shown by the panic hook).
    pub fn on_panic(mut self, hook: impl Fn(&(dyn Any + Send)) + Send + Sync + 'static) -> Self {
        self.on_panic = Some(Box::new(hook));
        self
    }

    /// Called after each turn of a shard in which its time went on or something expired; ticks in which there is nothing to
    /// do are skipped, and so not told about. By the worker itself, which does nothing else meanwhile (or, in a driven engine,
    /// by [`Driver::turn`](crate::Driver::turn)). A panic in it is treated as a task's. Costs a look at the clock for each
    /// turn that is told about (in a driven engine one more for each turn of a shard).
    ///
    /// Default: nothing.
    pub fn on_tick(mut self, hook: impl Fn(&Tick) + Send + Sync + 'static) -> Self {
        self.hooks.on_tick = CatchUnwind::new(Some(Arc::new(hook)));
        self
    }

    /// Called by each worker, on its own thread, before its first turn: with the number of its shard, once. The thread has its
    /// name by then, and is pinned. This is the place to give it a priority, or to register it with a profiler, as a thread
    /// factory is elsewhere. (Threads of the default pool have no such place: where that is needed, the executor is one's own.)
    /// Nothing of the shard expires before it returns, and whoever waits for the worker waits for it: a shutdown,
    /// [`ManualClock::advance`](crate::ManualClock::advance). A panic in it is treated as a task's.
    ///
    /// On Linux a worker has by then asked for exact timers, and, from 6.12 on and under the default policy, for the shortest
    /// slices, so that as a rule it need not wait for what else runs on its core. That takes no privileges. `SCHED_FIFO`, which
    /// does, goes further. What a worker has, threads and processes that its tasks start inherit. The threads of the default pool
    /// inherit a policy and a priority that were set here, but have the slices and the timer slack of whoever started the
    /// worker, and may run on all cores.
    ///
    /// Default: nothing. In a driven engine it is not called: that has no threads.
    pub fn on_worker_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.on_start = CatchUnwind::new(Some(Arc::new(hook)));
        self
    }

    /// How long a task may keep a thread, or a worker be late for a turn, before [`Timer::health`] calls it unhealthy.
    ///
    /// Default: 1 s.
    pub fn stuck_after(mut self, bound: Duration) -> Self {
        self.stuck_after = bound;
        self
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("shards", &self.shards)
            .field("tick_duration", &self.tick_duration)
            .field("ticks_per_wheel", &self.ticks_per_wheel)
            .field("levels", &self.levels)
            .field("limits", &self.limits)
            .field("max_pending_timeouts", &self.max_pending_timeouts)
            .field("max_wait", &self.max_wait)
            .field("capacity", &self.capacity)
            .field("pinning", &self.pinning)
            .field("wait", &self.wait)
            .field("source", &self.source)
            .field("thread_name", &self.thread_name)
            .field("stuck_after", &self.stuck_after)
            .finish_non_exhaustive()
    }
}
