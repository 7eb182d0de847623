//! The options, and the start.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tourbillon::Timer;

use crate::clock::{SystemClock, WallClock};
use crate::commit::Patience;
use crate::due::{Due, Outcome};
use crate::error::StartError;
use crate::events::{Event, Events};
use crate::handlers::{AsyncHandler, Call, Handler, Handlers, Lease, Polled, RunFuture, Runners, Surroundings};
use crate::inbox::{Inbox, UntilOver};
use crate::options::HandlerOptions;
use crate::stats::Counters;
use crate::store::{Owner, Store};
use crate::timers::{DurableTimer, is_name};
use crate::window::Window;
use crate::writer::{Limits, Parts, Writer};

/// The options of a [`DurableTimer`]. [`DurableTimer::open`] makes it, and [`start`](Self::start)
/// starts it.
///
/// ```
/// use std::time::Duration;
/// use tourbillon_durable::{DurableTimer, Outcome};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timeouts.db");
/// # let path = path.to_str().unwrap();
/// let timer = tourbillon::Timer::new()?;
/// let timers = DurableTimer::open(path)?
///     .handler("close_order", |due| {
///         println!("{} was not paid in time", due.key());
///         Outcome::Done
///     })
///     .threads(4)
///     .max_attempts(5)
///     .start(&timer)?;
/// timers.schedule("order:42", Duration::from_secs(1800), "close_order", b"")?.wait()?;
/// # Ok(())
/// # }
/// ```
pub struct Builder {
    store: Box<dyn Store>,
    /// `None` for those of other processes.
    handlers: BTreeMap<String, Option<(Call, HandlerOptions)>>,
    /// The first name that was refused.
    refused_name: Option<String>,
    threads: usize,
    window: Duration,
    window_capacity: usize,
    lease: Duration,
    max_attempts: u32,
    queue_capacity: usize,
    overdue_per_second: u32,
    commit_timeout: Duration,
    events: Events,
    wall: Arc<dyn WallClock>,
}

impl Builder {
    pub(crate) fn new(store: Box<dyn Store>) -> Self {
        Self {
            store,
            handlers: BTreeMap::new(),
            refused_name: None,
            threads: 8,
            window: Duration::from_secs(30),
            window_capacity: 200_000,
            lease: Duration::from_secs(60),
            max_attempts: 20,
            queue_capacity: 100_000,
            overdue_per_second: 5_000,
            commit_timeout: Duration::from_secs(5),
            events: Events::default(),
            wall: Arc::new(SystemClock),
        }
    }

    /// Runs `handler` for each timeout that was scheduled with this `name`, on one of its
    /// [`threads`](Self::threads). It may block: other handlers have threads of their own.
    ///
    /// A timeout may run more than once: after a crash, and after a lease has ended. So a handler
    /// does what may be done twice, or passes its fencing token on: see [`Due`].
    ///
    /// A handler that schedules needs a [`DurableTimer`], which holds the handler. So the last
    /// handle is never dropped: give it one by a `OnceLock`, and call [`stop`](DurableTimer::stop).
    ///
    /// Names are in the rows. A timeout whose handler no process has waits for one, without a word.
    /// So keep a handler for as long as rows have its name. A name is 1 to 255 bytes without
    /// control characters. The last handler of a name wins.
    #[must_use]
    pub fn handler(self, name: &str, handler: impl Fn(Due) -> Outcome + Send + Sync + 'static) -> Self {
        self.handler_with(name, HandlerOptions::new(), handler)
    }

    /// As [`handler`](Self::handler), with a limit, a retry policy and a number of attempts of its
    /// own.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use tourbillon_durable::{DurableTimer, HandlerOptions, Outcome, RetryPolicy};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let policy = RetryPolicy::fixed(Duration::from_secs(30));
    /// let options = HandlerOptions::new().limit(2).retry(policy);
    /// // As long as the printer is off.
    /// let builder = DurableTimer::open("timeouts.db")?
    ///     .handler_with("print_invoice", options, |_due| Outcome::Retry);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn handler_with(
        self,
        name: &str,
        options: HandlerOptions,
        handler: impl Fn(Due) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        self.insert(name, Call::Blocks(Arc::new(handler)), options)
    }

    /// Runs an async `handler` for each timeout of this `name`. A run that waits takes no thread.
    ///
    /// `spawn` gives a run to a runtime, which polls it to its end. It is called on threads that
    /// are not the runtime's, so have it use a handle. It must not block: everything else would
    /// wait.
    ///
    /// A future that panics has failed, as a handler that blocks. So has one that its runtime drops
    /// before its end, because it shuts down, for instance. If the runtime drops a run that it has
    /// not begun, the handler is paused in this process, and others may run it: see
    /// [`DurableTimer::pause`].
    ///
    /// [`DurableTimer::stop`] waits for the runs that are under way, and blocks meanwhile, and so
    /// does the drop of the last handle. On the only thread of a runtime this would wait for ever:
    /// call `stop` by the runtime's `spawn_blocking`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon_durable::{DurableTimer, HandlerOptions, Outcome};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("timeouts.db");
    /// # let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    /// # let tokio = runtime.handle().clone();
    /// // In a program of Tokio's: `let tokio = tokio::runtime::Handle::current();`
    /// let timer = tourbillon::Timer::new()?;
    /// let timers = DurableTimer::open(&path)?
    ///     .async_handler(
    ///         "call_webhook",
    ///         HandlerOptions::new().limit(200),
    ///         move |run| drop(tokio.spawn(run)),
    ///         |due| async move {
    ///             println!("POST {}", due.key()); // and await the answer
    ///             Outcome::Done
    ///         },
    ///     )
    ///     .start(&timer)?;
    /// timers.schedule("order:42", Duration::ZERO, "call_webhook", b"")?.wait()?;
    /// timers.stop();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn async_handler<F: Future<Output = Outcome> + Send + 'static>(
        self,
        name: &str,
        options: HandlerOptions,
        spawn: impl Fn(RunFuture) + Send + Sync + 'static,
        handler: impl Fn(Due) -> F + Send + Sync + 'static,
    ) -> Self {
        let call = Box::new(move |due| -> Polled { Box::pin(handler(due)) });
        self.insert(name, Call::Waits(Arc::new(AsyncHandler { call, spawn: Box::new(spawn) })), options)
    }

    fn insert(mut self, name: &str, call: Call, options: HandlerOptions) -> Self {
        self.check_name(name);
        self.handlers.insert(name.to_owned(), Some((call, options)));
        self
    }

    /// Lets this process schedule timeouts with this `name`, whose handler other processes have.
    ///
    /// Those find such a timeout within 250 ms. One that is due sooner may be late by as much.
    #[must_use]
    pub fn elsewhere(mut self, name: &str) -> Self {
        self.check_name(name);
        self.handlers.entry(name.to_owned()).or_insert(None);
        self
    }

    /// How many runs of one handler may go on at the same time, each on a thread. By default 8.
    /// [`HandlerOptions::limit`] says something else for one handler.
    ///
    /// Each handler has its own threads, so a slow one holds up no other. The first starts with the
    /// timers, the others when they are first needed.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How long before its deadline a timeout is loaded into the wheel. By default 30 s.
    ///
    /// Each half of it the store is asked once for what comes up. So a longer window asks less, and
    /// holds more in memory.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// How many timeouts are in the wheel at most, but for those that are due within a second while
    /// handlers keep up. By default 200,000, of some 250 bytes each.
    #[must_use]
    pub fn window_capacity(mut self, timeouts: usize) -> Self {
        self.window_capacity = timeouts;
        self
    }

    /// How long this process may be silent before others take its timeouts over. By default 60 s.
    ///
    /// Others notice by their next scan, half of their [`window`](Self::window) later at most. The
    /// lease is renewed when half of it is over. A shorter one finds a dead process sooner, and
    /// takes a process that is only slow for dead more often.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How many runs of a timeout may fail before it becomes a dead letter. By default 20. A run
    /// fails if it panics, or answers that it wants a retry.
    ///
    /// A run that ends its process has failed as well. Of all that a process had claimed when it
    /// died, nobody knows which one that was. So these are run one at a time by the next process,
    /// and only one that was alone when a process died has failed. The others run all the same. One
    /// that takes longer than 10 s holds up the rest of them no more.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// How many calls may wait to be written. By default 100,000. Their payloads may take 64 MiB,
    /// whatever this says. More is refused with [`Refused::QueueFull`](crate::Refused::QueueFull).
    #[must_use]
    pub fn queue_capacity(mut self, calls: usize) -> Self {
        self.queue_capacity = calls;
        self
    }

    /// How many timeouts a second are run of those that came up while no process was there. By
    /// default 5,000. So a restart does not run all of them at once.
    #[must_use]
    pub fn overdue_per_second(mut self, timeouts: u32) -> Self {
        self.overdue_per_second = timeouts;
        self
    }

    /// How long a call waits for its answer at most. By default 5 s.
    ///
    /// The store may be away or full, or somebody may have locked it or a row. If the time ends
    /// before the store was asked, the call is withdrawn:
    /// [`CommitError::Failed`](crate::CommitError). If it ends in between, the write may be on
    /// disk: [`CommitError::Unknown`](crate::CommitError).
    #[must_use]
    pub fn commit_timeout(mut self, limit: Duration) -> Self {
        self.commit_timeout = limit;
        self
    }

    /// Calls `hook` for what an operator should know: see [`Event`]. The writer calls it, and
    /// everything waits for it meanwhile, so let it not block. Each panic of it is swallowed.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = tourbillon_durable::DurableTimer::open("timeouts.db")?
    ///     .on_event(|event| eprintln!("durable timeouts: {event}"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on_event(mut self, hook: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.events = Events(Some(Arc::new(hook)));
        self
    }

    /// Goes by another wall clock than the system's: for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl WallClock) -> Self {
        self.wall = Arc::new(clock);
        self
    }

    /// Starts the threads, and loads what comes up. The `timer` is the engine whose wheel it uses;
    /// the rest of the program may use it as well. If that is shut down, nothing comes up any more.
    ///
    /// # Errors
    ///
    /// [`StartError::Option`] if an option can't work, and [`StartError::Thread`] if the system
    /// gives no thread.
    pub fn start(self, timer: &Timer) -> Result<DurableTimer, StartError> {
        self.check()?;
        let inbox = Arc::new(Inbox::new(self.queue_capacity));
        let handlers = Arc::new(self.resolve());
        let counters = Arc::new(Counters::new());
        let patience = Arc::new(Patience::new(timer.clone(), self.commit_timeout));
        let name = "tb-durable".to_owned();
        let wall = Arc::clone(&self.wall);
        let parts = self.parts(timer, &inbox, &patience, &handlers, &counters)?;
        let until_over = UntilOver(Arc::clone(&inbox));
        let writer = thread::Builder::new().name(name).spawn(move || {
            let _until_over = until_over;
            Writer::new(parts).run();
        })?;
        Ok(DurableTimer::new(inbox, patience, handlers, counters, wall, writer.thread().id()))
    }

    fn parts(
        mut self,
        timer: &Timer,
        inbox: &Arc<Inbox>,
        patience: &Arc<Patience>,
        handlers: &Arc<Handlers>,
        counters: &Arc<Counters>,
    ) -> Result<Parts, StartError> {
        self.store.begin(Arc::clone(&self.wall), Arc::clone(&inbox.is_stopping)).map_err(|failure| {
            StartError::Option {
                option: "clock",
                value: format!("refused with {failure:?}"),
                right: "the store takes it once",
            }
        })?;
        let lease = Arc::new(Lease::default());
        let surroundings = Surroundings {
            inbox: Arc::clone(inbox),
            lease: Arc::clone(&lease),
            wall: Arc::clone(&self.wall),
            counters: Arc::clone(counters),
            abandoned: Arc::default(),
        };
        let runners = Runners::new(handlers, surroundings)?;
        let not_paused = handlers.not_paused();
        Ok(Parts {
            store: self.store,
            inbox: Arc::clone(inbox),
            patience: Arc::clone(patience),
            window: Window::new(timer.clone(), Arc::clone(inbox), self.window_capacity),
            handlers: Arc::clone(handlers),
            runners,
            lease,
            owner: Owner { id: fastrand::i64(1..), lease: self.lease, handlers: not_paused },
            wall: self.wall,
            timer: timer.clone(),
            counters: Arc::clone(counters),
            events: self.events,
            limits: Limits {
                window: self.window,
                window_capacity: self.window_capacity,
                overdue_per_second: self.overdue_per_second,
            },
        })
    }

    /// The handlers, each with the options that it has, or else those of all.
    fn resolve(&self) -> Handlers {
        let mut handlers = Handlers::default();
        for (name, handler) in &self.handlers {
            let handler = handler.as_ref().map(|(call, options)| {
                let limit = options.limit.unwrap_or(self.default_limit(call));
                Handler {
                    call: call.clone(),
                    limit,
                    // Enough for the shortest runs, and not so many that a crash repeats a crowd.
                    max_running: (2 * limit).max(1_024),
                    max_attempts: options.max_attempts.unwrap_or(self.max_attempts),
                    retry: options.retry.clone(),
                    paused: options.paused.into(),
                }
            });
            handlers.insert(name, handler);
        }
        handlers
    }

    fn default_limit(&self, call: &Call) -> usize {
        if let Call::Blocks(_) = call { self.threads } else { 1_000 }
    }

    fn check_name(&mut self, name: &str) {
        if !is_name(name) && self.refused_name.is_none() {
            self.refused_name = Some(name.to_owned());
        }
    }

    fn check(&self) -> Result<(), StartError> {
        let option = |option, value: String, right| Err(StartError::Option { option, value, right });
        if let Some(name) = &self.refused_name {
            return option("handler", format!("{name:?}"), "a name has 1 to 255 bytes, and no control characters");
        }
        if self.commit_timeout < Duration::from_millis(1) {
            return option("commit_timeout", format!("{:?}", self.commit_timeout), "1 ms or more");
        }
        if self.threads == 0 || self.threads > 4_096 {
            return option("threads", self.threads.to_string(), "1 to 4,096");
        }
        for (name, (call, options)) in self.handlers.iter().filter_map(|(name, has)| Some((name, has.as_ref()?))) {
            let limit = options.limit.unwrap_or(1);
            match call {
                Call::Blocks(_) if limit == 0 || limit > 4_096 => {
                    return option("limit", format!("{limit} for {name:?}"), "1 to 4,096");
                }
                Call::Waits(_) if limit == 0 || limit > 100_000 => {
                    return option("limit", format!("{limit} for {name:?}"), "1 to 100,000 for an async handler");
                }
                _ => {}
            }
            if options.max_attempts == Some(0) {
                return option("max_attempts", format!("0 for {name:?}"), "1 or more");
            }
            if !options.retry.has_sound_jitter() {
                return option("jitter", format!("{:?} for {name:?}", options.retry), "0 to 1");
            }
        }
        if self.window < Duration::from_millis(100) || self.window > Duration::from_secs(3_600) {
            return option("window", format!("{:?}", self.window), "100 ms to 1 h");
        }
        if self.window_capacity == 0 {
            return option("window_capacity", "0".to_owned(), "1 or more");
        }
        if self.lease < Duration::from_secs(2) || self.lease > Duration::from_secs(86_400) {
            return option("lease", format!("{:?}", self.lease), "2 s to 1 day");
        }
        if self.max_attempts == 0 {
            return option("max_attempts", "0".to_owned(), "1 or more");
        }
        if self.queue_capacity == 0 {
            return option("queue_capacity", "0".to_owned(), "1 or more");
        }
        if self.overdue_per_second == 0 || self.overdue_per_second > 1_000_000 {
            return option("overdue_per_second", self.overdue_per_second.to_string(), "1 to 1,000,000");
        }
        Ok(())
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("handlers", &self.handlers.keys())
            .field("threads", &self.threads)
            .field("window", &self.window)
            .field("window_capacity", &self.window_capacity)
            .field("lease", &self.lease)
            .field("max_attempts", &self.max_attempts)
            .field("queue_capacity", &self.queue_capacity)
            .field("overdue_per_second", &self.overdue_per_second)
            .finish_non_exhaustive()
    }
}
