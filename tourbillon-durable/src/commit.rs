//! The answer to a write, which comes once the write is on disk.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};

use crate::error::CommitError;

/// A write, or a read, that has been accepted and is not answered yet.
///
/// [`wait`](Self::wait) blocks until the store has answered, which for a write is after its own
/// fsync. As a future it does not block. Dropping it withdraws nothing: the write still happens.
///
/// To write many, start them all and then wait for each: they share commits.
///
/// ```
/// # use std::time::Duration;
/// # use tourbillon_durable::{DurableTimer, Outcome};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timeouts.db");
/// # let timer = tourbillon::Timer::new()?;
/// # let timers = DurableTimer::open(path.to_str().unwrap())?
/// #     .handler("close_order", |_due| Outcome::Done)
/// #     .start(&timer)?;
/// let mut writes = Vec::new();
/// for order in 0..1_000 {
///     let key = format!("order:{order}");
///     writes.push(timers.schedule(&key, Duration::from_secs(1800), "close_order", b"")?);
/// }
/// for write in writes {
///     write.wait()?;
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "what was written is known to be on disk only after `wait`"]
pub struct Commit<T> {
    cell: Arc<Mutex<State<T>>>,
}

/// The other end of a [`Commit`]: it answers once. If it is dropped unanswered, it answers
/// [`CommitError::Stopped`].
pub(crate) struct Responder<T> {
    cell: Option<Arc<Mutex<State<T>>>>,
}

enum State<T> {
    Open(Option<Waiter>),
    Answered(Result<T, CommitError>),
    Taken,
}

enum Waiter {
    Thread(Thread),
    Task(Waker),
}

/// Makes both ends.
pub(crate) fn channel<T>() -> (Responder<T>, Commit<T>) {
    let cell = Arc::new(Mutex::new(State::Open(None)));
    (Responder { cell: Some(Arc::clone(&cell)) }, Commit { cell })
}

impl<T> Commit<T> {
    /// Blocks until the store has answered, and returns its answer.
    ///
    /// # Errors
    ///
    /// [`CommitError::Unknown`] if the connection was lost in between: the write may be on disk.
    /// After any other error it is not.
    pub fn wait(self) -> Result<T, CommitError> {
        loop {
            if let Some(answer) = self.take_or(|| Waiter::Thread(thread::current())) {
                return answer;
            }
            thread::park();
        }
    }

    /// Returns the answer if it is there; leaves a waiter if not.
    fn take_or(&self, waiter: impl FnOnce() -> Waiter) -> Option<Result<T, CommitError>> {
        let mut state = lock(&self.cell);
        if let State::Open(waiting) = &mut *state {
            *waiting = Some(waiter());
            return None;
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Answered(answer) => Some(answer),
            State::Open(_) | State::Taken => panic!("a `Commit` was polled after it had answered"),
        }
    }
}

impl<T> Future for Commit<T> {
    type Output = Result<T, CommitError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.take_or(|| Waiter::Task(context.waker().clone())) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

impl<T> fmt::Debug for Commit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answered = !matches!(&*lock(&self.cell), State::Open(_));
        f.debug_struct("Commit").field("answered", &answered).finish()
    }
}

impl<T> Responder<T> {
    pub(crate) fn answer(mut self, answer: Result<T, CommitError>) {
        self.give(answer);
    }

    fn give(&mut self, answer: Result<T, CommitError>) {
        let Some(cell) = self.cell.take() else { return };
        let before = std::mem::replace(&mut *lock(&cell), State::Answered(answer));
        match before {
            State::Open(Some(Waiter::Thread(thread))) => thread.unpark(),
            // A waker that panics is its task's, and the writer answers for all.
            State::Open(Some(Waiter::Task(waker))) => _ = catch_unwind(AssertUnwindSafe(|| waker.wake())),
            State::Open(None) | State::Answered(_) | State::Taken => {}
        }
    }
}

impl<T> Drop for Responder<T> {
    fn drop(&mut self) {
        self.give(Err(CommitError::Stopped));
    }
}

/// No code of the user's runs under this lock but the clone of a waker. A panic of that leaves the
/// state whole.
fn lock<T>(cell: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_waiting_thread_gets_the_answer() {
        let (responder, commit) = channel();
        let answering = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            responder.answer(Ok(7));
        });
        assert_eq!(commit.wait().unwrap(), 7);
        answering.join().unwrap();
    }

    #[test]
    fn a_responder_that_is_dropped_answers_that_the_timers_have_stopped() {
        let (responder, commit) = channel::<()>();
        drop(responder);
        assert!(matches!(commit.wait(), Err(CommitError::Stopped)));
    }

    #[test]
    fn a_future_is_woken_by_the_answer() {
        let (responder, commit) = channel();
        let answering = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            responder.answer(Ok("on disk"));
        });
        assert_eq!(pollster::block_on(commit).unwrap(), "on disk");
        answering.join().unwrap();
    }
}
