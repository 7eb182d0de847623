//! compio's loop, with the turn of an engine in it.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::LocalDriver;
use ::compio::runtime::Runtime;

/// Runs a future and all tasks of the runtime, as [`Runtime::block_on`] does, and turns an engine.
///
/// Each round of the loop turns the engine if something is due, also while the loop is busy. The
/// loop waits until the first timeout, the runtime's or the engine's. A round makes no system call
/// but the runtime's own, and allocates nothing. A wait passes in real time, so an engine on a
/// [`ManualClock`](tourbillon::ManualClock) is not turned when that clock moves, nor one on a clock
/// of your own when that jumps.
///
/// The call returns when the future is ready. It may be called again. The drop of the driver ends
/// the engine. The call sets the driver's [`on_earlier`](LocalDriver::on_earlier).
///
/// # Panics
/// Panics if the future does, if a task of the engine makes the runtime panic, or if the runtime
/// can't wait. A panic of a task of the engine is caught.
///
/// ```
/// use std::time::{Duration, Instant};
/// use tourbillon_local::LocalTimer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = compio::runtime::Runtime::new()?;
/// let (timer, mut driver) = LocalTimer::builder().build()?;
/// let begun = Instant::now();
/// tourbillon_local::compio::block_on(&runtime, &mut driver, async move {
///     let task = async move { timer.sleep(Duration::from_millis(5)).await };
///     compio::runtime::spawn(task).await.expect("it does not panic");
/// });
/// assert!(begun.elapsed() >= Duration::from_millis(5));
/// # Ok(())
/// # }
/// ```
pub fn block_on<F: Future>(runtime: &Runtime, driver: &mut LocalDriver, future: F) -> F::Output {
    // To ask the engine for its next wake-up takes longer than a round that has nothing due.
    let has_earlier = Rc::new(Cell::new(true));
    let earlier = Rc::clone(&has_earlier);
    driver.on_earlier(move || earlier.set(true));
    runtime.enter(|| {
        let waker = runtime.waker();
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        let mut next = None;
        loop {
            if has_earlier.replace(false) || next.is_some_and(|at| at <= driver.now()) {
                driver.turn();
                next = driver.next_wakeup();
            }
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                // Those that it has just woken, as the runtime's own loop does.
                runtime.run();
                return output;
            }
            let is_busy = runtime.run();
            if has_earlier.replace(false) {
                next = driver.next_wakeup();
            }
            runtime.poll_with(if is_busy { Some(Duration::ZERO) } else { earliest(runtime, driver, next) });
        }
    })
}

/// Returns how long the loop may wait.
fn earliest(runtime: &Runtime, driver: &LocalDriver, next: Option<Instant>) -> Option<Duration> {
    let ours = next.map(|at| at.saturating_duration_since(driver.now()));
    let theirs = runtime.current_timeout();
    ours.into_iter().chain(theirs).min()
}
