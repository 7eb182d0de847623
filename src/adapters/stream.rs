//! An interval, and a queue of values with deadlines, as streams.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use ::futures_core::Stream;

#[cfg(feature = "tokio")]
use crate::compat::delay_queue::{DelayQueue, Expired};
use crate::future::Interval;

/// The ticks of an interval, each with the time at which it was due, as by [`Interval::poll_tick`].
/// The stream ends when the engine is shut down while a tick is awaited. With the feature `stream`.
///
/// ```
/// use std::time::Duration;
/// use futures_util::StreamExt;
/// use tourbillon::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # pollster::block_on(async {
/// let timer = Timer::new()?;
/// let ticks: Vec<_> = timer.interval(Duration::from_millis(2)).take(3).collect().await;
/// // More, if a tick was missed.
/// assert!(ticks[2] - ticks[0] >= Duration::from_millis(4));
/// # Ok(())
/// # })
/// # }
/// ```
impl Stream for Interval {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        let this = self.get_mut();
        if this.ended_by_shutdown() {
            return Poll::Ready(None);
        }
        this.poll_tick(context).map(|tick| (!this.ended_by_shutdown()).then_some(tick))
    }
}

/// The items of the queue, each when its deadline has come, as by [`DelayQueue::poll_expired`].
/// The stream ends when the queue is empty, and goes on when something is inserted. With the
/// feature `stream`.
#[cfg(feature = "tokio")]
impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_expired(context)
    }
}
