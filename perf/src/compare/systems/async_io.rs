//! async-io's timers: a tree under a mutex, fed through a bounded queue, and its own thread.

use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::Result;
use async_io::Timer;

use super::futures::{Futures, Kind, is_pending};
use super::plan::Plan;

pub(crate) type AsyncIo = Futures<AsyncIoKind>;

#[derive(Debug)]
pub(crate) struct AsyncIoKind;

impl Kind for AsyncIoKind {
    type Future = Timer;
    type Entered = ();

    fn start(_plan: &Plan) -> Result<Self> {
        Ok(Self)
    }

    fn enter(&self) {}

    fn after(delay: Duration) -> Timer {
        Timer::after(delay)
    }

    fn at(deadline: Instant, _delay: Duration) -> Timer {
        Timer::at(deadline)
    }

    /// It keeps the waker, and registers again by itself.
    fn reset(place: Pin<&mut Option<Timer>>, delay: Duration) -> bool {
        let Some(mut timer) = place.as_pin_mut() else { return false };
        timer.set_after(delay);
        timer.will_fire() || is_pending(timer)
    }
}
