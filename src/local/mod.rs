//! Timers for one thread: an engine whose handles and tasks never leave the thread that turns it,
//! so that nothing of it is shared, and nothing needs to be `Send`.
//!
//! It is the same [wheel](crate::wheel), over the same [entries](crate::entry). There is no inbox,
//! no cancelled queue and no reset queue, because a call on the engine's own thread reaches the
//! wheel itself.

mod build;
mod driver;
mod engine;
mod sleep;
mod timeout;
mod timer;

pub use driver::LocalDriver;
pub use sleep::LocalSleep;
pub use timeout::LocalTimeout;
pub use timer::LocalTimer;

/// A future with a time limit on a [`LocalTimer`], made by [`LocalTimer::timeout`]. Neither it nor
/// its inner future need be `Send`. Without its driver it ends at once, and
/// [says so](crate::Elapsed::is_shutdown), also if it is first polled then. Otherwise it is
/// [`TimeoutFuture`](crate::TimeoutFuture).
pub type LocalTimeoutFuture<T> = crate::TimeoutFuture<T, LocalSleep>;
