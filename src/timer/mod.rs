//! The public API: the timer, its builder, its handles and its errors.

// rustdoc shows the methods of `Timer` in the order of these: how to make one, and how to schedule.
#[expect(
    clippy::module_inception,
    reason = "the file of the type that this room is for, as in tokio's `runtime::runtime`"
)]
mod timer;
// Then the rest of what a program calls.
mod once;
mod periodic;
mod reusable;
// Then what it calls now and then.
mod schedule;
mod shutdown;
// In any order.
mod build;
mod builder;
mod driver;
mod engine;
mod error;
mod guard;
mod health;
mod stats;
mod step;
mod timeout;

pub use builder::Builder;
pub use driver::Driver;
pub use error::{BuildError, Refusal, ScheduleError, ShutdownError};
pub use guard::TimeoutGuard;
pub use health::{Health, ShardHealth, WorkerState};
pub use reusable::Reusable;
pub use schedule::Shard;
pub use shutdown::{Shutdown, ShutdownFuture, Unfired};
#[cfg(feature = "metrics")]
pub(crate) use stats::WeakTimer;
pub use stats::{ShardStats, Stats};
pub use timeout::Timeout;
pub use timer::Timer;
