//! The public API: the timer, its builder, its handles and its errors.

// rustdoc shows the methods of `Timer` in the order of these: how to make one, and how to schedule.
mod global;
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
mod bulk;
mod end;
mod keyed;
// In any order.
mod build;
mod builder;
mod driver;
mod engine;
mod error;
mod guard;
mod health;
mod instances;
mod schedule;
mod shutdown;
mod stats;
mod step;
mod timeout;
#[cfg(feature = "metrics")]
mod weak;

pub use builder::Builder;
pub use driver::Driver;
pub use end::ShutdownFuture;
pub use error::{BuildError, Refusal, ScheduleError, ShutdownError};
pub use guard::TimeoutGuard;
pub use health::{Health, ShardHealth, WorkerState};
pub use reusable::Reusable;
pub use schedule::Shard;
pub use shutdown::{Shutdown, Unfired};
pub use stats::{ShardStats, Stats};
pub use timeout::Timeout;
pub use timer::Timer;

#[cfg(feature = "metrics")]
pub(crate) use weak::WeakTimer;

crate::panics::unwind_safe!(Timer, Timeout, TimeoutGuard, Reusable, Shard<'_>, ShutdownFuture);
