//! The public API: the timer, its builder, its handles and its errors.

// rustdoc shows the methods of `Timer` in the order of these: how to make one, and how to schedule.
#[expect(
    clippy::module_inception,
    reason = "the file of the type that this room is for, as in tokio's `runtime::runtime`"
)]
mod timer;
// Then the rest of what a program calls.
mod every;
mod once;
mod periodic;
mod reusable;
// Then what it calls now and then.
mod bulk;
mod end;
mod group;
mod keyed;
// In any order.
mod alarm;
mod build;
mod builder;
mod clock;
mod driver;
mod engine;
mod error;
mod given_back;
mod guard;
mod health;
mod instances;
mod members;
mod pending;
mod raw;
mod schedule;
mod shrink;
mod shutdown;
mod stats;
mod step;
#[cfg(all(test, target_os = "linux", not(miri), not(loom)))]
mod tests;
mod timeout;
mod unwind_safe;
#[cfg(feature = "metrics")]
mod weak;

pub use builder::Builder;
pub use driver::Driver;
pub use end::ShutdownFuture;
pub use error::{BuildError, Refusal, ScheduleError, ShutdownError};
pub use every::{Periodic, Run};
pub use group::Group;
pub use guard::TimeoutGuard;
pub use health::{Health, ShardHealth, WorkerState};
pub use keyed::Shard;
pub use pending::{PendingTimeout, TimeoutKind};
pub use reusable::Reusable;
pub use shutdown::{Shutdown, Unfired};
pub use stats::{LevelStats, ShardStats, Stats};
pub use timeout::Timeout;
pub use timer::Timer;

pub(crate) use alarm::{Alarm, NoAlarm, Ring};
#[cfg(not(loom))]
pub(crate) use build::LocalPlan;
#[cfg(feature = "metrics")]
pub(crate) use weak::WeakTimer;
