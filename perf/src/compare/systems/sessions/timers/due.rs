//! The way from a callback or a waker to the loop.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use super::Of;

/// What has come up, and the task to wake when something does.
#[derive(Debug, Default)]
pub(super) struct Due {
    come_up: Vec<Of>,
    waker: Option<Waker>,
}

impl Due {
    /// Returns the waker if the task may sleep.
    fn push(&mut self, of: Of) -> Option<Waker> {
        self.come_up.push(of);
        self.waker.take()
    }

    /// Hands over what has come up. If nothing has, the task is woken when something does.
    fn take(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>) {
        due.append(&mut self.come_up);
        if due.is_empty() && !self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.waker = Some(context.waker().clone());
        }
    }
}

thread_local! {
    static HERE: RefCell<Due> = RefCell::default();
}

/// Forgets what an earlier server of this thread has left.
pub(super) fn clear_here() {
    HERE.take();
}

/// For what comes up on the loop's own thread.
pub(super) fn push_here(of: Of) {
    let waker = HERE.with_borrow_mut(|here| here.push(of));
    if let Some(waker) = waker {
        waker.wake();
    }
}

pub(super) fn take_here(context: &mut Context<'_>, due: &mut Vec<Of>) {
    HERE.with_borrow_mut(|here| here.take(context, due));
}

/// For what comes up on another thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Due>>);

impl Shared {
    pub(super) fn push(&self, of: Of) {
        let waker = self.0.lock().unwrap_or_else(PoisonError::into_inner).push(of);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn take(&self, context: &mut Context<'_>, due: &mut Vec<Of>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(context, due);
    }
}

/// The waker of a timer that is a future of the loop's own thread.
pub(super) struct WakeHere(pub(super) Of);

impl Wake for WakeHere {
    fn wake(self: Arc<Self>) {
        push_here(self.0);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        push_here(self.0);
    }
}

/// The waker of a timer that is a future, and is woken by another thread.
pub(super) struct WakeShared(pub(super) Of, pub(super) Shared);

impl Wake for WakeShared {
    fn wake(self: Arc<Self>) {
        self.1.push(self.0);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.1.push(self.0);
    }
}
