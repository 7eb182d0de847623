//! The helpers that the integration tests share: patience, random numbers, witnesses, and what
//! Linux says about a process.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use testkit::again;
use tourbillon::{Builder, Driver, Executor, Expired, Inline, ManualClock, PausableClock, ThreadPool, Timeout, Timer};

pub(crate) use testkit::counters::assert_counters_reconcile;
pub(crate) use testkit::{DAY, HOUR, MS};

/// How long a test waits for what must happen sometime, even on a heavily loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `is_so` returns true, and fails if that takes more than [`PATIENCE`].
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(MS);
    }
}

/// Schedules a timeout, and returns when it has fired: a worker runs.
pub(crate) fn fire_one(timer: &Timer, delay: Duration) {
    let timeout = timer.schedule(delay, || ()).expect("accepted");
    eventually("it fires", || timeout.is_expired());
}

/// Runs `work` on a thread of its own, so that a hang becomes a failure.
pub(crate) fn in_time<R: Send + 'static>(what: &str, work: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = channel();
    let worker = thread::spawn(move || {
        let _ = send.send(work());
    });
    match receive.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("hangs: {what}"),
        Err(RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}

/// Schedules a task that blocks its thread, and returns when it has begun. It ends when the
/// returned value is dropped.
#[must_use = "the task ends when this is dropped"]
pub(crate) fn block(schedule: impl FnOnce(Box<dyn FnOnce() + Send>)) -> Sender<()> {
    let (begun, has_begun) = channel();
    let (end, is_over) = channel();
    schedule(Box::new(move || {
        begun.send(()).expect("the test waits");
        is_over.recv().expect_err("the test hangs up");
    }));
    has_begun.recv().expect("it runs");
    end
}

/// Runs a test in a process of its own, so that what Linux reports about the process's memory and
/// threads concerns this test alone. The test itself must call it, with a closure made there: the
/// test's name is taken from it.
pub(crate) fn alone<W: FnOnce()>(work: W) {
    const KEY: &str = "TOURBILLON_ALONE";
    if std::env::var_os(KEY).is_some() {
        return work();
    }
    let path = std::any::type_name::<W>();
    let name = path.split_once("::").expect("a crate's name").1.trim_end_matches("::{{closure}}");
    let outcome = again::test(name).env(KEY, "").output().expect("a process");
    let said = String::from_utf8_lossy(&outcome.stdout);
    let is_good = outcome.status.success() && said.contains("1 passed");
    assert!(is_good, "{name}: {}\n{said}{}", outcome.status, String::from_utf8_lossy(&outcome.stderr));
}

/// Returns a task that reports the name of the thread that it runs on.
pub(crate) fn ran_by(tell: &Sender<String>) -> impl FnOnce() + Send + 'static {
    let tell = tell.clone();
    move || tell.send(thread::current().name().unwrap_or_default().to_owned()).expect("the test listens")
}

/// Asserts that an engine's timeouts run on threads with such names, and none early.
pub(crate) fn assert_run_by(timer: &Timer, is_theirs: impl Fn(&str) -> bool) {
    let (tell, told) = channel();
    let begun = Instant::now();
    for _ in 0..1000 {
        timer.schedule_detached(5 * MS, ran_by(&tell)).expect("accepted");
    }
    for _ in 0..1000 {
        assert!(is_theirs(&told.recv_timeout(PATIENCE).expect("each runs")));
        assert!(begun.elapsed() >= 5 * MS, "never early");
    }
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.caller_ran), (1000, 0));
}

/// Counts the timeouts that workers have found due and handed to their executor, which may not have
/// begun to run them.
#[derive(Clone, Default)]
pub(crate) struct HandedOver(Arc<AtomicUsize>);

impl HandedOver {
    /// Makes an engine whose timeouts it counts.
    pub(crate) fn by(executor: impl Executor) -> (Timer, Self) {
        Self::limited(usize::MAX, executor)
    }

    /// The same, with at most `max` pending timeouts.
    pub(crate) fn limited(max: usize, executor: impl Executor) -> (Timer, Self) {
        let this = Self::default();
        let count = this.clone();
        let count = move |tick: &tourbillon::Turn| _ = count.0.fetch_add(tick.expired(), Ordering::SeqCst);
        (built(Timer::builder().shards(1).max_pending_timeouts(max).executor(executor).on_turn(count)), this)
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Returns an engine with workers.
pub(crate) fn built(builder: Builder) -> Timer {
    builder.build().expect("the options make sense")
}

/// Returns an engine with workers, on a manual clock of its own.
pub(crate) fn on_workers(builder: Builder) -> (Timer, ManualClock) {
    let clock = ManualClock::new();
    (built(builder.clock(clock.clone())), clock)
}

/// Returns a driven engine on a manual clock of its own.
pub(crate) fn driven_by(builder: Builder) -> (Timer, Driver, ManualClock) {
    let clock = ManualClock::new();
    let (timer, driver) = builder.clock(clock.clone()).build_driven().expect("the options make sense");
    (timer, driver, clock)
}

pub(crate) fn driven() -> (Timer, Driver, ManualClock) {
    driven_by(Timer::builder())
}

/// Returns a driven engine on a clock that can be stopped, and the clock below, which the test
/// moves.
pub(crate) fn driven_with_pauses() -> (Timer, Driver, PausableClock, ManualClock) {
    let hand = ManualClock::new();
    let clock = PausableClock::over(hand.clone());
    let (timer, driver) = Timer::builder().clock(clock.clone()).build_driven().expect("the options make sense");
    (timer, driver, clock, hand)
}

/// Turns until nothing is left to do at this time. Returns how many timeouts fired.
pub(crate) fn settle(driver: &mut Driver, clock: &ManualClock) -> usize {
    settle_by(driver, || clock.now())
}

/// The same by another clock.
pub(crate) fn settle_by(driver: &mut Driver, now: impl Fn() -> Instant) -> usize {
    let mut fired = driver.turn();
    while driver.next_wakeup().is_some_and(|at| at <= now()) {
        fired += driver.turn();
    }
    fired
}

/// Counts the calls of closures, each by its number.
#[derive(Clone)]
pub(crate) struct Runs(Arc<[AtomicUsize]>);

impl Runs {
    pub(crate) fn new(len: usize) -> Self {
        Self((0..len).map(|_| AtomicUsize::new(0)).collect())
    }

    /// Returns the closure with this number.
    pub(crate) fn task(&self, id: usize) -> impl FnOnce() + Send + 'static {
        let runs = self.clone();
        move || {
            runs.0[id].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn of(&self, id: usize) -> usize {
        self.0[id].load(Ordering::Relaxed)
    }

    pub(crate) fn total(&self) -> usize {
        self.0.iter().map(|runs| runs.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn assert_each_ran_once(&self) {
        for (id, runs) in self.0.iter().enumerate() {
            assert_eq!(runs.load(Ordering::Relaxed), 1, "runs of task {id}");
        }
    }
}

/// Counts the runs of a task that may run again and again.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub(crate) fn task(&self) -> impl Fn() + Clone + Send + Sync + use<> {
        let count = Arc::clone(&self.0);
        move || _ = count.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the runs since the last call.
    pub(crate) fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// Records which threads dropped its witnesses.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<Mutex<Vec<ThreadId>>>);

/// A capture that records the thread that drops it.
pub(crate) struct Witness(Drops);

impl Drops {
    pub(crate) fn witness(&self) -> Witness {
        Witness(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().expect("no panic under this lock").len()
    }

    pub(crate) fn forget(&self) {
        *self.0.lock().expect("no panic under this lock") = Vec::new();
    }

    pub(crate) fn all_by(&self, thread: ThreadId) -> bool {
        self.0.lock().expect("no panic under this lock").iter().all(|&by| by == thread)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.0.lock().expect("no panic under this lock").push(thread::current().id());
    }
}

/// Pseudorandom numbers, the same in each run (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("less than a usize")
    }

    /// Returns a duration up to `max`, with each order of magnitude as likely as any other.
    pub(crate) fn duration(&mut self, max: Duration) -> Duration {
        let max_ns = u64::try_from(max.as_nanos()).expect("less than centuries");
        let bits = self.below(max_ns.ilog2() as usize + 1);
        Duration::from_nanos(self.next() % (2 << bits).min(max_ns + 1))
    }
}

/// A thread of this process, as Linux sees it.
pub(crate) struct SeenThread {
    pub(crate) name: String,
    status: String,
}

impl SeenThread {
    /// Reads the thread's folder in `/proc`. Returns `None` if the thread has ended.
    pub(crate) fn read(task: &std::path::Path) -> Option<Self> {
        let name = fs::read_to_string(task.join("comm")).ok()?.trim_end().to_owned();
        Some(Self { name, status: fs::read_to_string(task.join("status")).ok()? })
    }

    /// Returns a line of its `status`.
    pub(crate) fn field(&self, key: &str) -> &str {
        let value = self.status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.expect("Linux shows this field").trim()
    }

    /// Returns how often it has gone to sleep voluntarily, which takes a system call.
    pub(crate) fn sleeps(&self) -> u64 {
        self.field("voluntary_ctxt_switches").parse().expect("a number")
    }
}

/// Returns the living threads whose names begin with `prefix`. (Linux keeps 15 bytes of a name.)
pub(crate) fn threads_named(prefix: &str) -> Vec<SeenThread> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux");
    let seen = tasks.filter_map(|task| SeenThread::read(&task.ok()?.path()));
    seen.filter(|thread| thread.name.starts_with(prefix)).collect()
}

/// Returns the cores that this process may use, from a list such as `0-3,6`.
pub(crate) fn cores_in(list: &str) -> Vec<usize> {
    let number = |text: &str| text.parse::<usize>().expect("a core's number");
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(part)..=number(part),
    };
    list.split(',').flat_map(range).collect()
}

pub(crate) fn allowed_cores() -> Vec<usize> {
    let status = fs::read_to_string("/proc/thread-self/status").expect("Linux");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cores_in(list.expect("Linux shows it").trim())
}

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number of pages");
    pages * 4096
}

/// An engine of one kind, on a manual clock of its own.
pub(crate) struct Rig {
    pub(crate) timer: Timer,
    pub(crate) clock: ManualClock,
    pub(crate) kind: &'static str,
    /// `None` if it has workers.
    pub(crate) driver: Option<Driver>,
}

impl Rig {
    pub(crate) fn driven(builder: Builder) -> Self {
        let (timer, driver, clock) = driven_by(builder);
        Self { timer, clock, kind: "driven", driver: Some(driver) }
    }

    /// Makes an engine with workers.
    pub(crate) fn on(builder: Builder, kind: &'static str) -> Self {
        let (timer, clock) = on_workers(builder);
        Self { timer, clock, kind, driver: None }
    }

    pub(crate) fn inline(builder: Builder) -> Self {
        Self::on(builder.executor(Inline), "inline")
    }

    pub(crate) fn pool(builder: Builder) -> Self {
        Self::on(builder.executor(ThreadPool::new(4)), "a pool")
    }

    /// Returns one of each kind.
    pub(crate) fn each(builder: impl Fn() -> Builder) -> [Self; 3] {
        [Self::driven(builder()), Self::inline(builder()), Self::pool(builder())]
    }

    /// Runs what is due now.
    pub(crate) fn settle(&mut self) {
        self.advance(Duration::ZERO);
    }

    /// Moves the clock, and runs what is due then.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        if let Some(driver) = &mut self.driver {
            settle_by(driver, || self.timer.now());
        }
    }

    /// Moves the clock `ms` times by a millisecond, and runs what is due after each.
    pub(crate) fn walk(&mut self, ms: usize) {
        (0..ms).for_each(|_| self.advance(MS));
    }
}

/// Records the time of each call, by a clock.
#[derive(Clone)]
pub(crate) struct Times {
    clock: ManualClock,
    start: Instant,
    seen: Arc<Mutex<Vec<Duration>>>,
}

impl Times {
    /// Counts from now on.
    pub(crate) fn on(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), start: clock.now(), seen: Arc::default() }
    }

    /// Returns a task that notes when it runs.
    pub(crate) fn task(&self) -> impl Fn() + Send + Sync + 'static {
        let times = self.clone();
        move || times.note()
    }

    pub(crate) fn note(&self) {
        self.seen.lock().expect("no panic under this lock").push(self.clock.now() - self.start);
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().expect("no panic under this lock").len()
    }

    /// Returns the times in milliseconds since the start.
    pub(crate) fn in_ms(&self) -> Vec<u128> {
        self.seen.lock().expect("no panic under this lock").iter().map(Duration::as_millis).collect()
    }
}

/// A place for the handle of a timeout whose task needs it.
#[derive(Clone, Default)]
pub(crate) struct Own(Arc<OnceLock<Timeout>>);

impl Own {
    pub(crate) fn set(&self, timeout: Timeout) {
        assert!(self.0.set(timeout).is_ok(), "once");
    }

    pub(crate) fn get(&self) -> &Timeout {
        self.0.get().expect("it is set before the clock is moved")
    }
}

/// An executor that keeps its batches until the test runs them.
#[derive(Clone, Default)]
pub(crate) struct Keeps(Arc<Mutex<Vec<Expired>>>);

impl Executor for Keeps {
    fn execute(&self, expired: Expired) {
        self.0.lock().expect("no panic under this lock").push(expired);
    }
}

impl Keeps {
    pub(crate) fn batches(&self) -> usize {
        self.0.lock().expect("no panic under this lock").len()
    }

    pub(crate) fn run(&self) {
        let kept = std::mem::take(&mut *self.0.lock().expect("no panic under this lock"));
        kept.into_iter().for_each(Expired::run);
    }
}
