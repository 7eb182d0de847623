//! An engine that a task of monoio turns.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::monoio::time::{Sleep, sleep};
use tourbillon::BuildError;

use crate::LocalBuilder;

use crate::Running;
use crate::turning::{Alarm, turning};

/// Makes a local engine, and spawns the task that turns it. The drop of [`Running`] ends both.
///
/// Call it within a runtime that has its timer enabled. Schedule, reset, and drop [`Running`] only
/// while that runtime blocks on a future: monoio can't wake a task at other times. The call
/// allocates.
///
/// # Errors
/// The same as [`LocalBuilder::build`].
///
/// # Panics
/// Panics outside of a monoio runtime, or if its timer is not enabled.
///
/// ```
/// use std::time::{Duration, Instant};
/// use monoio::{FusionDriver, RuntimeBuilder};
/// use tourbillon_local::LocalTimer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut runtime = RuntimeBuilder::<FusionDriver>::new().enable_timer().build()?;
/// let begun = Instant::now();
/// runtime.block_on(async {
///     let timer = tourbillon_local::monoio::start(LocalTimer::builder())?;
///     let clone = timer.clone(); // a `LocalTimer`, for a task
///     monoio::spawn(async move { clone.sleep(Duration::from_millis(5)).await }).await;
///     Ok::<(), tourbillon::BuildError>(())
/// })?;
/// assert!(begun.elapsed() >= Duration::from_millis(5));
/// # Ok(())
/// # }
/// ```
pub fn start(builder: LocalBuilder) -> Result<Running, BuildError> {
    let (timer, driver) = builder.build()?;
    let (running, task) = turning(timer, driver, sleep(Duration::ZERO));
    // Without its handle it goes on by itself.
    drop(::monoio::spawn(task));
    Ok(running)
}

impl Alarm for Sleep {
    fn set(self: Pin<&mut Self>, at: Instant) {
        self.reset(at.into());
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, context)
    }
}
