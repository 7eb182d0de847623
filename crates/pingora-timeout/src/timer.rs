//! Timers to register and to wait for, which [`timeout`](crate::timeout()) stands on. Services do
//! not need them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::delay::Delay;

/// How long a pause for a fork waits: enough for any thread that has begun to schedule a limit.
const SETTLE: Duration = Duration::from_millis(20);

/// The manager of all limits that are not made by a manager of the user's.
pub(crate) static MANAGER: TimerManager = TimerManager::new_const();

pub(crate) fn delay(duration: Duration) -> Delay {
    MANAGER.delay(duration)
}

/// A timer that was registered. Dropping it takes it back.
#[must_use = "nothing waits for it"]
#[derive(Debug)]
pub struct TimerStub(Delay);

impl TimerStub {
    /// Waits until the timer's time is up. That is at once if it was up before this call.
    pub async fn poll(self) {
        self.0.await;
    }
}

/// Registers timers. All managers of a process share one engine.
///
/// ```
/// use std::time::{Duration, Instant};
/// use pingora_timeout::timer::TimerManager;
///
/// let manager = TimerManager::new();
/// let begun = Instant::now();
/// let stub = manager.register_timer(Duration::from_millis(5));
/// pollster::block_on(stub.poll());
/// assert!(begun.elapsed() >= Duration::from_millis(5));
/// ```
#[derive(Debug, Default)]
pub struct TimerManager {
    is_paused: AtomicBool,
}

impl TimerManager {
    /// Makes a manager. It does not allocate, and starts no thread.
    pub fn new() -> Self {
        Self::new_const()
    }

    pub(crate) const fn new_const() -> Self {
        Self { is_paused: AtomicBool::new(false) }
    }

    /// Registers a timer whose time is up `duration` from now.
    ///
    /// In a [pause](Self::pause_for_fork) its time is up at once.
    pub fn register_timer(&self, duration: Duration) -> TimerStub {
        TimerStub(self.delay(duration))
    }

    pub(crate) fn delay(&self, duration: Duration) -> Delay {
        if self.is_paused.load(Ordering::Relaxed) { Delay::over() } else { Delay::of(duration) }
    }

    /// Begins a pause, which is for a fork, and waits for 20 ms.
    ///
    /// In the pause no timer takes anything of the engine, and so no thread holds a lock in it that
    /// would be held in the child for ever. The engine has one for a thread's first timer and for a
    /// thread's end. Timers from before go on, and fire also in the pause.
    ///
    /// Call it right before the fork, from the process's only thread if you can: other threads that
    /// end during the fork may still hold a lock.
    pub fn pause_for_fork(&self) {
        self.is_paused.store(true, Ordering::Relaxed);
        thread::sleep(SETTLE);
    }

    /// Ends the pause. Call it after the fork, in the parent and in the child.
    pub fn unpause(&self) {
        self.is_paused.store(false, Ordering::Relaxed);
    }
}
