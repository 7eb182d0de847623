//! Limits by the engine: [`fast_timeout()`] and [`fast_sleep`], which the crate's root has as
//! [`timeout`](crate::timeout()) and [`sleep`](crate::sleep).

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::limit::{Limit, Timeout, ToTimeout, TokioTimeout};
use crate::timer;

/// Above which limit [`fast_timeout()`] takes Tokio's timer, unless
/// [`set_fast_timeout_to_tokio_threshold`] says otherwise: a quarter of an hour.
pub const DEFAULT_FAST_TIMEOUT_TO_TOKIO_THRESHOLD: Duration = Duration::from_secs(15 * 60);

const NEVER: u64 = u64::MAX;

static THRESHOLD_SECS: AtomicU64 = AtomicU64::new(DEFAULT_FAST_TIMEOUT_TO_TOKIO_THRESHOLD.as_secs());

/// Sets the limit above which [`fast_timeout()`] takes Tokio's timer, for the limits that are made
/// from now on. `None` is for never.
///
/// Only whole seconds count, of the threshold and of the limits. The original keeps a limit until
/// its deadline even if it is over long before, and so gives the long ones to Tokio. This crate
/// keeps none, so `None` costs nothing. Pingora's server sets it when it starts, from its
/// configuration.
pub fn set_fast_timeout_to_tokio_threshold(threshold: Option<Duration>) {
    THRESHOLD_SECS.store(threshold.map_or(NEVER, |threshold| threshold.as_secs()), Ordering::Relaxed);
}

/// Returns the limit above which [`fast_timeout()`] takes Tokio's timer, in whole seconds, or
/// `None` if it never does.
pub fn fast_timeout_to_tokio_threshold() -> Option<Duration> {
    let seconds = THRESHOLD_SECS.load(Ordering::Relaxed);
    (seconds != NEVER).then(|| Duration::from_secs(seconds))
}

fn is_tokios(limit: Duration) -> bool {
    let threshold = THRESHOLD_SECS.load(Ordering::Relaxed);
    threshold != NEVER && limit.as_secs() > threshold
}

/// Counts by the engine.
#[derive(Debug)]
pub struct FastTimeout(Duration);

impl ToTimeout for FastTimeout {
    fn timeout(&self) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        Box::pin(timer::delay(self.0))
    }

    fn create(d: Duration) -> Self {
        Self(d)
    }
}

/// Counts by the engine, or by Tokio's timer if the time is above the
/// [threshold](fast_timeout_to_tokio_threshold). [`fast_timeout()`] makes it.
#[derive(Debug)]
pub struct FastOrTokioTimeout {
    duration: Duration,
    /// As the threshold was when this was made.
    is_tokios: bool,
}

impl ToTimeout for FastOrTokioTimeout {
    fn timeout(&self) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        if self.is_tokios {
            TokioTimeout::create(self.duration).timeout()
        } else {
            FastTimeout::create(self.duration).timeout()
        }
    }

    fn create(duration: Duration) -> Self {
        Self { duration, is_tokios: is_tokios(duration) }
    }
}

/// Gives `future` a time limit. The result is [`Timeout`]'s.
///
/// The call costs no timer, and neither does a future that is ready at its first poll.
///
/// ```
/// use std::time::Duration;
/// use pingora_timeout::fast_timeout::fast_timeout;
///
/// # pollster::block_on(async {
/// let limit = Duration::from_millis(5);
/// assert_eq!(fast_timeout(limit, async { "answer" }).await.unwrap(), "answer");
/// assert!(fast_timeout(limit, std::future::pending::<()>()).await.is_err());
/// # });
/// ```
///
/// # Panics
/// The poll panics as [`tokio_timeout`](crate::tokio_timeout)'s does if the limit is above the
/// [threshold](fast_timeout_to_tokio_threshold). The first poll of a process panics if there is no
/// memory for the engine.
pub fn fast_timeout<T: Future>(duration: Duration, future: T) -> Timeout<T, FastOrTokioTimeout> {
    let limit = if is_tokios(duration) { Limit::ByTokio(duration) } else { Limit::ByUs(duration) };
    Timeout::new(future, limit)
}

/// Waits for `duration`, which counts from the first poll, always by the engine.
///
/// # Panics
/// The first poll of a process panics if there is no memory for the engine.
pub async fn fast_sleep(duration: Duration) {
    timer::delay(duration).await;
}

/// Begins a pause, which is for a fork: see
/// [`TimerManager::pause_for_fork`](timer::TimerManager::pause_for_fork). A limit that begins in
/// it is up at once.
pub fn pause_for_fork() {
    timer::MANAGER.pause_for_fork();
}

/// Ends the pause: see [`TimerManager::unpause`](timer::TimerManager::unpause).
pub fn unpause() {
    timer::MANAGER.unpause();
}
