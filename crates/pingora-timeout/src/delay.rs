//! A future that is ready when its time is up, also in a child process.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tourbillon::Sleep;

use crate::engine::Engine;

/// The shortest delay. The original's wait at least for its next look at the clock, and a loop over
/// delays of zero must not keep the runtime's other tasks from running.
const SHORTEST: Duration = Duration::from_millis(1);

/// Is ready when its time is up.
#[derive(Debug)]
pub(crate) struct Delay {
    /// `None` if it never had to wait.
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    sleep: Sleep,
    engine: &'static Engine,
}

impl Delay {
    /// The time counts from this call, and is a millisecond at least. The first poll takes the
    /// engine's memory for it.
    pub(crate) fn of(duration: Duration) -> Self {
        let engine = Engine::of_this_process();
        Self { pending: Some(Pending { sleep: engine.timer().sleep(duration.max(SHORTEST)), engine }) }
    }

    pub(crate) fn over() -> Self {
        Self { pending: None }
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(pending) = &mut self.pending else { return Poll::Ready(()) };
        if pending.engine.is_of_a_parent() {
            pending.go_over();
        }
        Pin::new(&mut pending.sleep).poll(context)
    }
}

impl Pending {
    /// The parent's engine wakes nobody in this process, which goes on to the same deadline with an
    /// engine of its own.
    #[cold]
    fn go_over(&mut self) {
        self.engine = Engine::of_this_process();
        self.sleep = self.engine.timer().sleep_until(self.sleep.deadline());
    }
}
