//! The options of an engine.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Limits, PanicHook};
use crate::executor::{Chosen, Executor};
use crate::panics::CatchUnwind;
use crate::time::{Clock, CustomClock};
use crate::worker::{Pinning, Turn, WaitStrategy, WorkerHooks};

const DEFAULT_TICK: Duration = Duration::from_millis(1);
const DEFAULT_TICKS_PER_WHEEL: usize = 512;
const DEFAULT_LIMIT: usize = 100_000;
/// In a model no producer waits for the worker to give memory back, because that wait decides
/// nothing.
const DEFAULT_MAX_WAIT: Duration = if cfg!(loom) { Duration::ZERO } else { Duration::from_millis(20) };

/// Makes a [`Timer`](crate::Timer). The defaults are right for a server that changes nothing.
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
///
/// # Options
///
/// | option | unit | default | why |
/// |---|---|---|---|
/// | [`shards`](Self::shards) | shards, 1 to 1,024 | one for every 4 cores, at least 1; driven: 1 | a worker takes in several million timeouts a second, so the server's own threads need the cores |
/// | [`tick_duration`](Self::tick_duration) | time, from 1 µs | 1 ms | finer than a server's timeouts need, and free: ticks in which nothing is due are skipped |
/// | [`ticks_per_wheel`](Self::ticks_per_wheel) | ticks, up to 1,048,576 | 512 | as in Netty; a wheel of 4 levels takes 364 KiB a shard |
/// | [`levels`](Self::levels) | wheels | as many as make a year addressable: 4 at 1 ms and 512 ticks | a timeout within a year is moved once a level, and not looked at in each round |
/// | [`transfer_limit`](Self::transfer_limit) | timeouts a turn | 100,000 | as in Netty; a full inbox does not make a turn long |
/// | [`expiry_limit`](Self::expiry_limit) | timeouts a turn | 100,000 | the same for a burst at one deadline |
/// | [`max_pending_timeouts`](Self::max_pending_timeouts) | timeouts | no bound | a bound costs a shared counter |
/// | [`max_wait`](Self::max_wait) | time | 20 ms | bounds the memory of cancelled timeouts when a worker falls behind |
/// | [`capacity`](Self::capacity) | timeouts of 64 bytes | 0 | memory is taken when it is needed |
/// | [`pinning`](Self::pinning) | [`Pinning`] | [`Auto`](Pinning::Auto) | a core of its own for each worker, if there are more cores than workers |
/// | [`wait`](Self::wait) | [`WaitStrategy`] | [`Park`](WaitStrategy::Park) | an idle worker takes no CPU; the others trade CPU for lateness |
/// | [`executor`](Self::executor) | [`Executor`] | a [`ThreadPool`](crate::ThreadPool), a thread for each core, at least 2 | a task that blocks does not hold up the worker |
/// | [`clock`](Self::clock) | [`Clock`] | [`Instant::now`](std::time::Instant::now) | the system's monotonic clock |
/// | [`thread_name`](Self::thread_name) | text | `tourbillon` | |
/// | [`on_panic`](Self::on_panic) | hook | none | the engine counts the panics of tasks |
/// | [`on_turn`](Self::on_turn) | hook | none | a hook costs a look at the clock for each turn that it is called for |
/// | [`on_worker_start`](Self::on_worker_start) | hook | none | |
#[derive(Debug)]
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
    pub(super) executor: Option<Chosen>,
    pub(super) clock: Option<CustomClock>,
    pub(super) thread_name: String,
    pub(super) on_panic: Option<CatchUnwind<PanicHook>>,
    pub(super) hooks: WorkerHooks,
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
            clock: None,
            thread_name: "tourbillon".to_owned(),
            on_panic: None,
            hooks: WorkerHooks::default(),
        }
    }

    /// How many shards there are, each with a wheel and a worker thread of its own.
    ///
    /// Each thread gets a shard at its first timeout, in turn, and keeps it. A thread that begins
    /// after another has ended takes the place of that one. So a program that schedules from one
    /// thread at a time uses one shard, unless it spreads its timeouts by
    /// [`Timer::shard_for`](crate::Timer::shard_for).
    ///
    /// Default: one for every four cores, at least one. For a driven engine: one.
    pub fn shards(self, shards: usize) -> Self {
        Self { shards: Some(shards), ..self }
    }

    /// How long a tick is. With [`WaitStrategy::Park`] a worker runs the timeouts of one tick
    /// together, when the last of them is due, so that they share a wake-up. So does a loop that
    /// waits until [`Driver::next_wakeup`](crate::Driver::next_wakeup).
    ///
    /// Deadlines are finer than ticks. They are rounded up to a part of a tick: of 16 parts, or of
    /// fewer if a part would be shorter than 25 µs, or no whole number of nanoseconds. So with a
    /// tick of 1 s a timeout is late by up to 62.5 ms. By a clock of your own each timeout runs at
    /// its own deadline.
    ///
    /// The shortest tick is 1 µs. The longest is 292 years, which is as far as the engine counts: a
    /// deadline so long after its start, or later, is never. The system takes some 50 µs to wake a
    /// thread. A tick that is shorter than that is of use only with [`WaitStrategy::Spin`] or
    /// [`WaitStrategy::Hybrid`].
    ///
    /// Default: 1 ms.
    pub fn tick_duration(self, tick: Duration) -> Self {
        Self { tick_duration: tick, ..self }
    }

    /// How many ticks one wheel spans, rounded up to a power of two; at most 1,048,576.
    ///
    /// Each shard keeps two slots of 16 bytes for each tick and level, or one slot if there is only
    /// one level. In the lowest level it keeps as many for each part of a tick (see
    /// [`tick_duration`](Self::tick_duration)), up to 65,536 parts.
    ///
    /// Default: 512.
    pub fn ticks_per_wheel(self, ticks: usize) -> Self {
        Self { ticks_per_wheel: ticks, ..self }
    }

    /// How many wheels of a shard stand one upon the other, each `ticks_per_wheel` times coarser
    /// than the one below.
    ///
    /// A timeout beyond the last wheel waits there for as many rounds as it takes. One level is
    /// Netty's hashed wheel: the worker looks at each timeout beyond one revolution in every round.
    /// After a jump of the clock by two revolutions of the last wheel or more, the worker looks at
    /// all timeouts, and sorts those that are due by deadline. That is one step, however many they
    /// are.
    ///
    /// Default: as many as make a year addressable, which is 4 at 1 ms and 512 ticks.
    pub fn levels(self, levels: usize) -> Self {
        Self { levels: Some(levels), ..self }
    }

    /// How many timeouts a worker takes out of its inbox in one turn at most. The next turn follows
    /// at once, and takes the rest.
    ///
    /// Default: 100,000.
    pub fn transfer_limit(self, limit: usize) -> Self {
        Self { limits: Limits { transfer: limit, ..self.limits }, ..self }
    }

    /// How many timeouts a worker looks at in one turn at most because their slot has come up. The
    /// next turn follows at once, and takes the rest.
    ///
    /// The same limit holds separately for cancelled timeouts to collect, for resets to an earlier
    /// deadline, and for timeouts that a cascade moves.
    ///
    /// Default: 100,000.
    pub fn expiry_limit(self, limit: usize) -> Self {
        Self { limits: Limits { expiry: limit, ..self.limits }, ..self }
    }

    /// How many timeouts may be pending in the whole engine. The bound is exact: there is never one
    /// more, and none is refused while there is room.
    ///
    /// A place is free again when `cancel` has returned true, or when the task of a timeout that
    /// runs once begins; [`is_expired`](crate::Timeout::is_expired) may say so a moment before. The
    /// place of a periodic timeout that ends by itself is free before that says so.
    ///
    /// A bound costs one read-modify-write on a shared counter for each schedule, and one for each
    /// timeout that ends. Without a bound there is no such counter.
    ///
    /// Default: no bound.
    pub fn max_pending_timeouts(self, max: usize) -> Self {
        Self { max_pending_timeouts: Some(max), ..self }
    }

    /// How long a call that schedules may wait for a worker that is behind.
    ///
    /// A call waits only if its thread has no free memory left while more than 16,384 cancelled
    /// timeouts wait for a worker that runs. Before the engine takes new memory, a call also waits
    /// if more than 16,384 timeouts of any kind wait. So the memory of cancelled timeouts is
    /// bounded, however fast they come. When the time is up the call goes on, and its thread has
    /// memory for 64 timeouts more. Once calls have waited for a second for a worker that did not
    /// move, no call waits for it until it moves. Tasks that run on a worker, or in the turn of a
    /// driver, never wait.
    ///
    /// With zero no call waits, and the engine takes memory as long as its worker does not keep up.
    /// Zero is for event loops and async code, which must not block.
    /// [`Timer::shrink`](crate::Timer::shrink) gives the memory back later.
    /// [`Stats::waits`](crate::Stats::waits) counts the calls that have waited. A driven engine has
    /// no worker, so its producers never wait.
    ///
    /// Default: 20 ms.
    pub fn max_wait(self, most: Duration) -> Self {
        Self { max_wait: most, ..self }
    }

    /// For how many timeouts `build` reserves and touches memory, at 64 bytes each, and reserves
    /// cells of the wheels, at 13 bytes each.
    ///
    /// The engine allocates more when it needs more, and gives that back only by
    /// [`Timer::shrink`](crate::Timer::shrink). Besides the pending timeouts these take memory:
    ///
    /// * cancelled timeouts until their worker has collected them: up to 8,191 in each of the two
    ///   queues of a shard whose worker sleeps, and up to 32,768 in all of one that runs;
    /// * up to 192 free entries of each thread, the pool's threads included, and up to 64 that it
    ///   has cancelled and dropped; a worker keeps 128 more.
    ///
    /// On Linux the engine asks for large pages for more than 1 MiB of timeouts, or of a wheel's
    /// cells. It uses the last page whole, and so reserves for somewhat more timeouts. Large pages
    /// make operations on tens of thousands of timeouts, or more, faster. The system gives them,
    /// and not the global allocator, so they go back to the system with the engine.
    ///
    /// Default: 0.
    pub fn capacity(self, timeouts: usize) -> Self {
        Self { capacity: timeouts, ..self }
    }

    /// Which cores the workers run on. Default: [`Pinning::Auto`].
    pub fn pinning(self, pinning: Pinning) -> Self {
        Self { pinning, ..self }
    }

    /// How the workers wait. Default: [`WaitStrategy::Park`].
    pub fn wait(self, wait: WaitStrategy) -> Self {
        Self { wait, ..self }
    }

    /// Where expired timeouts run. A driven engine does not use it:
    /// [`Driver::turn`](crate::Driver::turn) runs them.
    ///
    /// The executor gets batches of up to 256 tasks. A thread of a
    /// [`ThreadPool`](crate::ThreadPool) takes eight of them at a time, and others may take the
    /// rest. So a task that blocks holds up seven others at most while another thread is idle. On
    /// any other executor a task that blocks holds up its whole batch. A task that has much to do
    /// should hand it to a thread of its own.
    ///
    /// Default: a [`ThreadPool`](crate::ThreadPool) with as many threads as there are cores, at
    /// least two.
    pub fn executor(self, executor: impl Executor) -> Self {
        Self { executor: Some(Chosen::new(executor)), ..self }
    }

    /// Where the engine reads the time. Default: the system's monotonic clock,
    /// [`std::time::Instant::now`]. On Linux that clock stands still while the machine is
    /// suspended.
    pub fn clock(self, clock: impl Clock) -> Self {
        Self { clock: Some(CustomClock::new(clock)), ..self }
    }

    /// The threads' names: `name-0` and so on for the workers, `name-pool-0` and so on for the
    /// threads of the default pool. Linux shows the first 15 bytes. Default: `tourbillon`.
    pub fn thread_name(self, name: &str) -> Self {
        // A thread name with a NUL would panic when the thread is started.
        Self { thread_name: name.replace('\0', ""), ..self }
    }

    /// A hook that gets the payload of a task's panic. The thread that ran the task calls it.
    ///
    /// Default: none. The engine counts the panic, and the process's panic hook shows it.
    pub fn on_panic(self, hook: impl Fn(&(dyn Any + Send)) + Send + Sync + 'static) -> Self {
        Self { on_panic: Some(CatchUnwind::new(Box::new(hook))), ..self }
    }

    /// A hook that is called after each turn of a shard in which a tick has come or something has
    /// expired. Ticks with nothing to do are skipped, and the hook is not called for them.
    ///
    /// The worker calls the hook, and does nothing else meanwhile; in a driven engine
    /// [`Driver::turn`](crate::Driver::turn) calls it. A panic in it is treated as a task's. A hook
    /// costs a look at the clock for each turn that it is called for, and in a driven engine one
    /// more for each turn of a shard.
    ///
    /// Default: none.
    pub fn on_turn(self, hook: impl Fn(&Turn) + Send + Sync + 'static) -> Self {
        Self { hooks: WorkerHooks { on_turn: Some(CatchUnwind::new(Arc::new(hook))), ..self.hooks }, ..self }
    }

    /// A hook that each worker calls once, on its own thread, before its first turn, with the
    /// number of its shard. The thread has its name by then, and is pinned.
    ///
    /// This is the place to give the thread a priority, or to register it with a profiler, as a
    /// thread factory is elsewhere. Threads of the default pool have no such hook: if you need one,
    /// bring your own executor. Nothing of the shard expires before the hook returns. A shutdown or
    /// a [`ManualClock::advance`](crate::ManualClock::advance) waits for it. A panic in it is
    /// treated as a task's.
    ///
    /// On Linux a worker has by then asked for exact timers. From Linux 6.12 on, and under the
    /// default policy, it has also asked for the shortest slices, so that it rarely waits for other
    /// threads of its core. Neither takes privileges. `SCHED_FIFO` takes privileges, and goes
    /// further. Threads and processes that the worker's tasks start inherit the worker's settings.
    /// The threads of the default pool inherit a policy and a priority that the hook set. They have
    /// the slices and the timer slack of the thread that started the worker, and may run on all
    /// cores.
    ///
    /// Default: none. A driven engine has no threads, and does not call it.
    pub fn on_worker_start(self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Self { hooks: WorkerHooks { on_start: Some(CatchUnwind::new(Arc::new(hook))), ..self.hooks }, ..self }
    }
}
