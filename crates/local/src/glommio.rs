//! An engine that a task of glommio turns.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::glommio::timer::Timer;
use tourbillon::BuildError;

use crate::LocalBuilder;

use crate::Running;
use crate::turning::{Alarm, turning};

/// Makes a local engine, and spawns the task that turns it, into the task queue of the caller. The
/// drop of [`Running`] ends both.
///
/// Call it within an executor, and use the engine within it. The call allocates. So does glommio
/// itself each time that its timer is set, which is once for each wake-up of the engine.
///
/// # Errors
/// The same as [`LocalBuilder::build`].
///
/// # Panics
/// Panics outside of a glommio executor.
///
/// ```no_run
/// use std::time::Duration;
/// use glommio::LocalExecutor;
/// use tourbillon_local::LocalTimer;
///
/// LocalExecutor::default().run(async {
///     let timer = tourbillon_local::glommio::start(LocalTimer::builder())?;
///     let clone = timer.clone(); // a `LocalTimer`, for a task
///     glommio::spawn_local(async move { clone.sleep(Duration::from_millis(5)).await }).await;
///     Ok::<(), tourbillon::BuildError>(())
/// })?;
/// # Ok::<(), tourbillon::BuildError>(())
/// ```
pub fn start(builder: LocalBuilder) -> Result<Running, BuildError> {
    let (timer, driver) = builder.build()?;
    let (running, task) = turning(timer, driver, Timer::new(Duration::ZERO));
    ::glommio::spawn_local(task).detach();
    Ok(running)
}

impl Alarm for Timer {
    fn set(self: Pin<&mut Self>, at: Instant) {
        self.get_mut().reset(at.saturating_duration_since(Instant::now()));
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, context).map(drop)
    }
}
