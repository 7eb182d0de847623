//! `tokio::time` on this engine. (Feature `tokio`.)
//!
//! Names, arguments and behaviour are Tokio's, so one import is the whole move:
//!
//! ```
//! use tourbillon::compat::tokio as time; // was: use tokio::time
//! use time::{Duration, Instant, MissedTickBehavior};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let begun = Instant::now();
//! let idle = time::sleep(Duration::from_secs(30));
//! tokio::pin!(idle);
//! idle.as_mut().reset(Instant::now() + Duration::from_millis(5)); // a packet has come
//! idle.await;
//! assert!(begun.elapsed() >= Duration::from_millis(5));
//!
//! let limit = Duration::from_millis(5);
//! assert!(time::timeout(limit, std::future::pending::<()>()).await.is_err());
//!
//! let mut beat = time::interval(Duration::from_millis(2));
//! beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
//! beat.tick().await; // at once
//! # });
//! ```
//!
//! [`Instant`], [`Duration`] and [`MissedTickBehavior`] are Tokio's own types, so that other crates
//! take them. The futures belong to the [global](crate::Timer::global) engine, whose workers wake
//! them. So they also work outside of a runtime, where Tokio's panic. The runtime needs no
//! `enable_time`.
//!
//! The methods of a [`Timer`] do more, and cost a little less: they read one clock instead of two,
//! and a [`timeout`](crate::Timer::timeout) that is ready at once reads none.
//!
//! # Many sleeping tasks
//!
//! By default a worker of the engine wakes the tasks, one by one, and each of these wake-ups comes
//! to the runtime from outside. If many tasks come up together, let the runtime wake them: make the
//! global engine with its handle as the [executor](crate::Executor), first thing in `main`.
//!
//! ```standalone_crate
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let runtime = tokio::runtime::Handle::current();
//! tourbillon::Timer::builder().executor(runtime).build_global()?;
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! # Tests
//!
//! With the feature `test-util`, which belongs into `dev-dependencies`, a test stops the time as it
//! does with Tokio: `#[tokio::test(start_paused = true)]`, `pause`, `advance`, `resume`. While time
//! stands still and the runtime has nothing to do, the clock goes to the next deadline. This holds
//! for what is made here. A `Timer` and the rest of this crate
//! [do not follow](crate::ManualClock#tokios-stopped-clock) that clock.
//!
//! ```
//! # #[cfg(feature = "test-util")] {
//! use tourbillon::compat::tokio::{Duration, Instant, sleep};
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)] // or tokio::test
//! async fn a_day_passes_at_once() {
//!     let begun = Instant::now();
//!     sleep(Duration::from_secs(24 * 3600)).await;
//!     assert!(begun.elapsed() >= Duration::from_secs(24 * 3600));
//! }
//! # a_day_passes_at_once();
//! # }
//! ```
//!
//! Each current-thread runtime then has an engine of its own, which a task of the runtime turns by
//! the runtime's clock. So the runtime needs `enable_time`, Tokio's own timers see the same time,
//! and all that holds for Tokio's clock holds here: it waits for sockets that are ready and for
//! `spawn_blocking`, and it stops for no other thread. It must not be moved by more than 285 years:
//! a future that is made after that is never ready, or is ready at once.
//!
//! Without the feature these futures go by the real time: under a paused clock a sleep of ten
//! seconds would take ten seconds, and a limit of five would not end a minute's sleep of
//! `tokio::time`. So a call that makes a future panics if the clock of its runtime is or was
//! paused: at the caller's line, with the feature's name. A build without debug assertions, such as
//! that of `cargo test --release`, does not notice it. No build notices a pause that begins after
//! the future was made.
//!
//! # What differs
//!
//! * A future is never early by a nanosecond, and may be ready before the millisecond is over to
//!   which Tokio would have rounded.
//! * [`Sleep`] and [`Interval`] are `Unpin`. Code that pins them still compiles.
//! * A sleep that is reset before its first poll, or after it was over, begins with its next poll.
//!   Tokio's begins with the reset, so its `is_elapsed` may return true before it is polled.
//! * With `test-util`: tasks that come up at one instant run before the future that the runtime
//!   blocks on, which is the body of a test. Tokio polls that one first. So after an `advance` they
//!   have run already. Where the body sleeps for three seconds beside a job of each second, the job
//!   has had its fourth tick, and on Tokio its third. An answer that a task sends at the very end
//!   of the body's `timeout` is in time.
//! * With `test-util`: if a runtime is dropped before its futures, a pending sleep is ready, and a
//!   pending limit ends. Tokio's panic when they are polled.
//! * There is no `tokio::time::error::Error`, which none of Tokio's functions returns.

mod futures;
#[cfg(feature = "test-util")]
mod test_clock;

pub use ::tokio::time::{Duration, Instant, MissedTickBehavior};

pub use futures::{Interval, Sleep, Timeout};
pub use futures::{interval, interval_at, sleep, sleep_until, timeout, timeout_at};
#[cfg(feature = "test-util")]
pub use test_clock::{advance, pause, resume};

use crate::timer::Timer;
#[cfg(feature = "test-util")]
use test_clock::{Leaves, RuntimeEngine};

/// Errors, under the path that they have in `tokio::time`.
pub mod error {
    pub use super::futures::Elapsed;
}

/// A future drops this last. Only the engine of a test has to know that a future has gone.
#[cfg(not(feature = "test-util"))]
#[derive(Debug, Default)]
struct Leaves {}

/// Calls `make` with the engine that the calling task's futures belong to.
#[track_caller]
fn with_timer<R>(make: impl FnOnce(&Timer) -> R) -> (R, Leaves) {
    #[cfg(feature = "test-util")]
    if let Some(engine) = RuntimeEngine::of_this_runtime() {
        return (make(&engine.timer), engine.leaves());
    }
    #[cfg(all(debug_assertions, not(feature = "test-util")))]
    assert_real_clock();
    (make(Timer::global()), Leaves::default())
}

/// Panics if Tokio's clock shows another time than the real one, by which the global engine goes.
///
/// A clock that was never paused shows a time between two readings of the real one. So the call
/// never panics without a cause. Release builds do not pay for its three readings.
#[cfg(all(debug_assertions, not(feature = "test-util")))]
#[track_caller]
fn assert_real_clock() {
    let before = std::time::Instant::now();
    let theirs = Instant::now().into_std();
    let is_real = (before..=std::time::Instant::now()).contains(&theirs);
    assert!(
        is_real,
        "this runtime's clock is or was paused, and tourbillon goes by the real one: \
         give it the feature `test-util` in dev-dependencies"
    );
}

/// Returns a sleep that begins now. Like Tokio's, one of no duration is not ready at its first
/// poll.
fn begin(timer: &Timer, duration: Duration) -> crate::Sleep {
    if duration.is_zero() { timer.sleep_until(Instant::now().into_std()) } else { timer.sleep(duration) }
}

/// Returns the time `duration` from now. A time that is too far to be counted becomes 30 years from
/// now, as with Tokio.
pub(super) fn after(duration: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR)
}
