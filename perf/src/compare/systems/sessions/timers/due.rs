//! The way from a callback or a waker of the loop's own thread to the loop.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use super::Of;

/// What has come up, and the task to wake when something does.
#[derive(Debug, Default)]
struct Due {
    come_up: Vec<Of>,
    waker: Option<Waker>,
}

thread_local! {
    static HERE: RefCell<Due> = RefCell::default();
}

/// Forgets what an earlier server of this thread has left.
pub(super) fn clear_here() {
    HERE.take();
}

pub(super) fn push_here(of: Of) {
    let waker = HERE.with_borrow_mut(|here| {
        here.come_up.push(of);
        here.waker.take()
    });
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Hands over what has come up. If nothing has, the task is woken when something does.
pub(super) fn take_here(context: &mut Context<'_>, due: &mut Vec<Of>) {
    HERE.with_borrow_mut(|here| {
        due.append(&mut here.come_up);
        if due.is_empty() && !here.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            here.waker = Some(context.waker().clone());
        }
    });
}

/// The waker of a timer that is a future.
pub(super) struct WakeHere(pub(super) Of);

impl Wake for WakeHere {
    fn wake(self: Arc<Self>) {
        push_here(self.0);
    }
}
