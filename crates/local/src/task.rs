//! The task that runs when a timeout is due.

use std::fmt;
use std::task::Waker;

use smallbox::space::S4;
use smallbox::{SmallBox, smallbox};

/// A task of a timeout: a closure, or the waker of a future that sleeps. One that captures up to 24
/// bytes is kept where it is.
pub(crate) struct Task(SmallBox<dyn Work, S4>);

trait Work {
    /// Runs it, unless it has run.
    fn run(&mut self);

    fn waker(&self) -> Option<&Waker> {
        None
    }
}

/// The box can't be called by value, so the closure is taken out of it.
struct Once<F>(Option<F>);

impl<F: FnOnce()> Work for Once<F> {
    fn run(&mut self) {
        if let Some(task) = self.0.take() {
            task();
        }
    }
}

impl Work for Waker {
    fn run(&mut self) {
        self.wake_by_ref();
    }

    fn waker(&self) -> Option<&Waker> {
        Some(self)
    }
}

impl Task {
    #[inline]
    pub(crate) fn new<F: FnOnce() + 'static>(task: F) -> Self {
        Self(smallbox!(Once(Some(task))))
    }

    pub(crate) fn wake(waker: Waker) -> Self {
        Self(smallbox!(waker))
    }

    #[inline]
    pub(crate) fn run(mut self) {
        self.0.run();
    }

    /// Returns the waker, if it is a future's.
    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.0.waker()
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("waker", &self.waker()).finish_non_exhaustive()
    }
}
