//! The task that turns an engine, for runtimes that don't lend their loop.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::{LocalDriver, LocalTimer};

use crate::Running;

/// One timer of a runtime.
pub(crate) trait Alarm {
    /// Sets it for a time.
    fn set(self: Pin<&mut Self>, at: Instant);

    /// Returns whether the time has come, or wakes the task when it comes.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()>;
}

/// The state that the task and its guard share. The one that ends the engine takes all of it: a
/// runtime may never drop a task that waits, and then the task has nothing left to hold.
pub(crate) struct Turning {
    /// Empty while it turns, and at the end.
    engine: RefCell<Option<Engine>>,
    has_ended: Cell<bool>,
    /// The task's, for a timeout that comes up before the alarm.
    waker: Rc<RefCell<Waker>>,
}

struct Engine {
    driver: LocalDriver,
    alarm: Pin<Box<dyn Alarm>>,
    /// When the alarm goes off, unless it has.
    set_for: Option<Instant>,
}

/// Makes the guard of an engine, and the task that turns it until the guard is dropped.
pub(crate) fn turning(
    timer: LocalTimer,
    driver: LocalDriver,
    alarm: impl Alarm + 'static,
) -> (Running, impl Future<Output = ()> + 'static) {
    let waker = Rc::new(RefCell::new(Waker::noop().clone()));
    let wakes = Rc::clone(&waker);
    driver.on_earlier(move || wakes.borrow().wake_by_ref());
    let engine = Engine { driver, alarm: Box::pin(alarm), set_for: None };
    let turning = Rc::new(Turning { engine: RefCell::new(Some(engine)), has_ended: Cell::new(false), waker });
    let task = Rc::clone(&turning);
    (Running::new(timer, turning), poll_fn(move |context| task.turn(context)))
}

impl Turning {
    /// Turns the engine once, and waits for the next time. Ready when the engine has ended.
    fn turn(&self, context: &mut Context<'_>) -> Poll<()> {
        if !self.waker.borrow().will_wake(context.waker()) {
            let before = self.waker.replace(context.waker().clone());
            drop(before);
        }
        let Some(mut engine) = self.engine.take() else { return Poll::Ready(()) };
        engine.driver.turn();
        if self.has_ended.get() {
            // A task of the engine has dropped the guard.
            self.forget_waker();
            return Poll::Ready(());
        }
        engine.wait(context);
        self.engine.replace(Some(engine));
        Poll::Pending
    }

    /// Ends the engine, now or after the turn under way. Does not wake the task: a runtime that is
    /// gone could not be woken. The end of the engine wakes the futures that sleep.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        let engine = self.engine.take();
        drop(engine);
        self.forget_waker();
    }

    /// Lets go of the task, which may hold this in turn.
    fn forget_waker(&self) {
        let waker = self.waker.replace(Waker::noop().clone());
        drop(waker);
    }
}

impl Engine {
    fn wait(&mut self, context: &mut Context<'_>) {
        // Without a next time the driver's callback wakes the task.
        let Some(at) = self.driver.next_wakeup() else { return };
        if self.set_for != Some(at) {
            // The engine may have another clock than the runtime.
            let left = at.saturating_duration_since(self.driver.now());
            self.alarm.as_mut().set(Instant::now() + left);
            self.set_for = Some(at);
        }
        if self.alarm.as_mut().poll(context).is_ready() {
            // More is due already. The other tasks come first.
            self.set_for = None;
            context.waker().wake_by_ref();
        }
    }
}
