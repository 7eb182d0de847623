//! The engine of a current-thread runtime, by the runtime's own clock, which a test can stop.
//!
//! A task of the runtime turns the engine, and sleeps on Tokio's timer until the next deadline. So
//! when the runtime is idle and its clock stands still, Tokio moves the clock to that deadline.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use ::tokio::runtime::{Handle, Id, RuntimeFlavor};
use ::tokio::sync::Notify;
use ::tokio::time as theirs;

use super::{Duration, Instant};
use crate::sync::lock;
use crate::time::Clock;
use crate::timer::{Driver, Timer};

/// Tokio's own function. With the feature `test-util`, for `dev-dependencies`.
///
pub use ::tokio::time::{pause, resume};

/// Moves the runtime's clock forward, while it is [paused](pause), and wakes what is due then, like
/// `tokio::time::advance`. With the feature `test-util`, for `dev-dependencies`.
///
/// # Panics
/// Panics outside of a runtime, and if the clock is not paused.
///
/// ```
/// use tourbillon::compat::tokio::{Duration, advance, sleep};
///
/// #[tokio::main(flavor = "current_thread", start_paused = true)] // or tokio::test
/// async fn the_lease_ends() {
///     let lease = tokio::spawn(sleep(Duration::from_secs(60)));
///     tokio::task::yield_now().await; // it begins to sleep
///     advance(Duration::from_secs(59)).await;
///     assert!(!lease.is_finished());
///     advance(Duration::from_secs(1)).await;
///     assert!(lease.await.is_ok());
/// }
/// # the_lease_ends();
/// ```
pub async fn advance(duration: Duration) {
    let engine = RuntimeEngine::of_this_runtime();
    let mut advance = pin!(theirs::advance(duration));
    poll_fn(|context| {
        // The first poll moves the clock, and yields, so that what is due runs before the caller.
        let polled = advance.as_mut().poll(context);
        engine.iter().for_each(|engine| engine.catch_up());
        polled
    })
    .await;
}

/// The engine of one runtime. It lives until the runtime drops the task that turns it.
pub(super) struct RuntimeEngine {
    runtime: Id,
    pub(super) timer: Timer,
    driver: Mutex<Driver>,
    /// Told when a timeout is due before the task comes back by itself, or may not be any more.
    bell: Arc<Notify>,
}

/// The engines of all runtimes that have one. Nobody calls foreign code under the lock.
static ENGINES: Mutex<Vec<Arc<RuntimeEngine>>> = Mutex::new(Vec::new());

impl RuntimeEngine {
    /// Returns the engine of the runtime that the caller is in. The first call makes it. Returns
    /// `None` outside of a runtime, or in one with several threads, whose clock can't be stopped.
    #[track_caller]
    pub(super) fn of_this_runtime() -> Option<Arc<Self>> {
        let runtime = Handle::try_current().ok()?;
        if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
            return None;
        }
        let known = Self::find(&lock(&ENGINES), runtime.id());
        // No closure, in which a panic would not name the caller's line.
        match known {
            Some(known) => Some(known),
            None => Some(Self::begin(&runtime)),
        }
    }

    fn find(engines: &[Arc<Self>], runtime: Id) -> Option<Arc<Self>> {
        engines.iter().find(|engine| engine.runtime == runtime).cloned()
    }

    #[track_caller]
    fn begin(runtime: &Handle) -> Arc<Self> {
        // Here, so that a runtime without a time driver panics where its user can see why.
        let alarm = Box::pin(theirs::sleep(Duration::ZERO));
        let built = Timer::builder()
            .shards(1)
            // The finest, because deadlines are rounded up to parts of a tick.
            .tick_duration(Duration::from_micros(1))
            .clock(RuntimeClock(runtime.clone()))
            .build_driven();
        let (timer, driver) = built.expect("the options of a runtime's engine make sense");
        let bell = Arc::new(Notify::new());
        let earlier = Arc::clone(&bell);
        driver.on_earlier(move || earlier.notify_one());
        let this = Arc::new(Self { runtime: runtime.id(), timer, driver: Mutex::new(driver), bell });
        // Another thread that is in the same runtime may have been first.
        let mut engines = lock(&ENGINES);
        if let Some(first) = Self::find(&engines, this.runtime) {
            return first;
        }
        engines.push(Arc::clone(&this));
        drop(engines);
        // If the runtime is shutting down, it drops the task here and now.
        drop(runtime.spawn(Turning(Arc::clone(&this)).run(alarm)));
        this
    }

    /// Returns what a future of the engine drops after what it was made of.
    pub(super) fn leaves(&self) -> Leaves {
        Leaves(Some(Arc::clone(&self.bell)))
    }

    /// Wakes what is due, and returns when the next timeout is.
    fn turn(&self) -> Option<std::time::Instant> {
        let mut driver = lock(&self.driver);
        driver.turn();
        driver.next_wakeup()
    }

    /// Wakes what is due by now, on the calling thread.
    fn catch_up(&self) {
        // Another thread that is in the same runtime may be turning it.
        if let Ok(mut driver) = self.driver.try_lock() {
            driver.turn();
        }
        // After a turn the driver tells nobody of earlier timeouts until it is asked for the next.
        self.bell.notify_one();
    }
}

/// Tells a runtime's engine that a future of it has gone, and its deadline with it. Otherwise the
/// clock of an idle runtime would still go there.
#[derive(Debug, Default)]
pub(super) struct Leaves(Option<Arc<Notify>>);

impl Drop for Leaves {
    fn drop(&mut self) {
        if let Some(bell) = &self.0 {
            bell.notify_one();
        }
    }
}

/// Turns a runtime's engine. When the runtime drops it, the engine ends.
struct Turning(Arc<RuntimeEngine>);

impl Turning {
    async fn run(self, mut alarm: Pin<Box<theirs::Sleep>>) {
        let engine = &self.0;
        loop {
            let next = engine.turn();
            let mut told = pin!(engine.bell.notified());
            match next {
                Some(next) => alarm.as_mut().reset(Instant::from_std(next)),
                // Tokio's timer knows nothing of one that was not polled.
                None => alarm.set(theirs::sleep(Duration::ZERO)),
            }
            poll_fn(|context| {
                let is_time = next.is_some() && alarm.as_mut().poll(context).is_ready();
                if is_time || told.as_mut().poll(context).is_ready() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }
}

impl Drop for Turning {
    fn drop(&mut self) {
        // The engine does not end under the lock: this still holds it.
        lock(&ENGINES).retain(|engine| !Arc::ptr_eq(engine, &self.0));
    }
}

/// The clock of one runtime, whichever runtime the caller is in.
struct RuntimeClock(Handle);

impl Clock for RuntimeClock {
    fn now(&self) -> std::time::Instant {
        let _context = self.0.enter();
        Instant::now().into_std()
    }
}
