//! The answer to a write, which comes once the write is on disk, or once its time is over.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tourbillon::{Sleep, Timer};

use crate::error::CommitError;
use crate::panics::drop_quietly;

/// A write, or a read, that has been accepted and is not answered yet.
///
/// [`wait`](Self::wait) blocks until the store has answered, which for a write is after its own
/// fsync. As a future it does not block. Either has an answer within
/// [`Builder::commit_timeout`](crate::Builder::commit_timeout). Dropping it withdraws nothing: the
/// write still happens.
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
/// # let timers = DurableTimer::open(&path)?
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
    patience: Arc<Patience>,
    accepted: Instant,
    /// Wakes a task when the time is over. Made when a poll first finds no answer.
    sleep: Option<Sleep>,
}

/// The other end of a [`Commit`]: it answers once. If it is dropped unanswered, it answers
/// [`CommitError::Stopped`].
pub(crate) struct Responder<T> {
    cell: Option<Arc<Mutex<State<T>>>>,
}

/// How long a call may wait for its answer, and what its error says then.
pub(crate) struct Patience {
    timer: Timer,
    limit: Duration,
    /// The process in which a writer answers.
    process: u32,
    /// The last error of the store, while it fails.
    trouble: Mutex<Option<String>>,
}

enum State<T> {
    Open {
        waiter: Option<Waiter>,
        /// Whether the writer has given it to the store.
        under_way: bool,
        /// Why the store has not carried it out.
        trouble: Option<String>,
    },
    Answered(Result<T, CommitError>),
    /// The caller has an answer, or has given up.
    Taken,
}

enum Waiter {
    Thread(Thread),
    Task(Waker),
}

/// Makes both ends.
pub(crate) fn channel<T>(patience: &Arc<Patience>) -> (Responder<T>, Commit<T>) {
    let cell = Arc::new(Mutex::new(State::Open { waiter: None, under_way: false, trouble: None }));
    let commit =
        Commit { cell: Arc::clone(&cell), patience: Arc::clone(patience), accepted: Instant::now(), sleep: None };
    (Responder { cell: Some(cell) }, commit)
}

impl Patience {
    pub(crate) fn new(timer: Timer, limit: Duration) -> Self {
        Self { timer, limit, process: std::process::id(), trouble: Mutex::new(None) }
    }

    /// Whether this is a child that was forked: no writer is here.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// When a call that comes now has waited for long enough, if ever.
    pub(crate) fn until(&self, now: Instant) -> Option<Instant> {
        now.checked_add(self.limit)
    }

    /// Notes what the store has said, or that it works.
    pub(crate) fn note(&self, trouble: Option<String>) {
        *lock(&self.trouble) = trouble;
    }

    fn ran_out(&self, limit: Duration, under_way: bool, trouble: Option<String>) -> CommitError {
        let trouble = trouble.or_else(|| lock(&self.trouble).clone());
        let because = trouble.map_or_else(String::new, |trouble| format!("; the store has said: {trouble}"));
        if under_way {
            CommitError::Unknown(format!("the store has not answered within {limit:?}{because}"))
        } else {
            CommitError::Failed(format!("the store was not ready for it within {limit:?}{because}"))
        }
    }
}

impl<T> Commit<T> {
    /// Blocks until the store has answered, for at most
    /// [`Builder::commit_timeout`](crate::Builder::commit_timeout) since the call, and returns the
    /// answer.
    ///
    /// # Errors
    ///
    /// [`CommitError::Unknown`] if the connection was lost in between, or if the time ended while
    /// the store was at it: the write may be on disk. After any other error it is not, and never
    /// will be.
    pub fn wait(self) -> Result<T, CommitError> {
        let limit = self.patience.limit;
        let until = self.accepted.checked_add(limit);
        self.wait_until(until, limit)
    }

    /// Blocks as [`wait`](Self::wait) does, and for at most `limit` from now.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait). A write that is not with the store when the time ends is withdrawn.
    pub fn wait_timeout(self, limit: Duration) -> Result<T, CommitError> {
        let ends = self.accepted.checked_add(self.patience.limit);
        let until = Instant::now().checked_add(limit).into_iter().chain(ends).min();
        self.wait_until(until, limit)
    }

    fn wait_until(self, until: Option<Instant>, limit: Duration) -> Result<T, CommitError> {
        if self.patience.is_forked() {
            return Err(CommitError::Forked);
        }
        loop {
            if let Some(answer) = self.take_or(|| Waiter::Thread(thread::current())) {
                return answer;
            }
            let Some(until) = until else {
                thread::park();
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.give_up(limit);
            }
            thread::park_timeout(left);
        }
    }

    /// Returns the answer if it is there; leaves a waiter if not.
    fn take_or(&self, waiting: impl FnOnce() -> Waiter) -> Option<Result<T, CommitError>> {
        let mut state = lock(&self.cell);
        if let State::Open { waiter, .. } = &mut *state {
            *waiter = Some(waiting());
            return None;
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Answered(answer) => Some(answer),
            State::Open { .. } | State::Taken => panic!("a `Commit` was polled after it had answered"),
        }
    }

    /// Gives up, as the time is over. A call that is not with the store is withdrawn.
    fn give_up(&self, limit: Duration) -> Result<T, CommitError> {
        match std::mem::replace(&mut *lock(&self.cell), State::Taken) {
            State::Answered(answer) => answer,
            State::Open { under_way, trouble, .. } => Err(self.patience.ran_out(limit, under_way, trouble)),
            State::Taken => unreachable!("whoever takes the answer has the only `Commit`"),
        }
    }

    /// Whether the time is over. If not, the task is woken when it is.
    fn poll_limit(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let left = self.patience.limit.saturating_sub(self.accepted.elapsed());
            let sleep = self.sleep.get_or_insert_with(|| self.patience.timer.sleep(left));
            match Pin::new(&mut *sleep).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if !sleep.ended_by_shutdown() => return Poll::Ready(()),
                // The engine was shut down. The next sleep is another engine's.
                Poll::Ready(()) => self.sleep = None,
            }
        }
    }
}

impl<T> Future for Commit<T> {
    type Output = Result<T, CommitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.patience.is_forked() {
            return Poll::Ready(Err(CommitError::Forked));
        }
        if let Some(answer) = self.take_or(|| Waiter::Task(context.waker().clone())) {
            return Poll::Ready(answer);
        }
        match self.poll_limit(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(self.give_up(self.patience.limit)),
        }
    }
}

impl<T> fmt::Debug for Commit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answered = !matches!(&*lock(&self.cell), State::Open { .. });
        f.debug_struct("Commit").field("answered", &answered).finish()
    }
}

/// A call that the writer has not answered yet.
pub(crate) trait Pending {
    /// Says that the store gets it now. Returns false if its caller has given up.
    fn begin(&self) -> bool;
    /// Says that the store has not carried it out, and gets it later.
    fn hold_back(&self);
    /// Says why: for an error, if the time ends before the next try.
    fn explain(&self, reason: String);
    /// Whether its caller has given up.
    fn is_withdrawn(&self) -> bool;
}

impl<T> Pending for Responder<T> {
    fn begin(&self) -> bool {
        self.if_open(|under_way, _| *under_way = true)
    }

    fn hold_back(&self) {
        self.if_open(|under_way, _| *under_way = false);
    }

    fn explain(&self, reason: String) {
        self.if_open(|_, trouble| *trouble = Some(reason));
    }

    fn is_withdrawn(&self) -> bool {
        self.cell.as_ref().is_none_or(|cell| !matches!(&*lock(cell), State::Open { .. }))
    }
}

impl<T> Responder<T> {
    /// Returns whether somebody waits for it, or may do so.
    fn if_open(&self, change: impl FnOnce(&mut bool, &mut Option<String>)) -> bool {
        let Some(cell) = &self.cell else { return false };
        let mut state = lock(cell);
        let State::Open { under_way, trouble, .. } = &mut *state else { return false };
        change(under_way, trouble);
        true
    }

    pub(crate) fn answer(mut self, answer: Result<T, CommitError>) {
        self.give(answer);
    }

    fn give(&mut self, answer: Result<T, CommitError>) {
        let Some(cell) = self.cell.take() else { return };
        let before = std::mem::replace(&mut *lock(&cell), State::Answered(answer));
        match before {
            State::Open { waiter: Some(Waiter::Thread(thread)), .. } => thread.unpark(),
            // A waker that panics is its task's, and the writer answers for all.
            State::Open { waiter: Some(Waiter::Task(waker)), .. } => {
                drop_quietly(catch_unwind(AssertUnwindSafe(|| waker.wake())));
            }
            State::Open { waiter: None, .. } | State::Answered(_) | State::Taken => {}
        }
    }
}

impl<T> Drop for Responder<T> {
    fn drop(&mut self) {
        self.give(Err(CommitError::Stopped));
    }
}

/// No code of the user's runs under these locks but the clone of a waker. A panic of that leaves
/// the state whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    fn patience(limit: Duration) -> Arc<Patience> {
        Arc::new(Patience::new(Timer::new().unwrap(), limit))
    }

    #[test]
    fn a_waiting_thread_gets_the_answer() {
        let (responder, commit) = channel(&patience(LONG));
        let answering = thread::spawn(move || {
            thread::sleep(SHORT);
            responder.answer(Ok(7));
        });
        assert_eq!(commit.wait().unwrap(), 7);
        answering.join().unwrap();
    }

    #[test]
    fn a_responder_that_is_dropped_answers_that_the_timers_have_stopped() {
        let (responder, commit) = channel::<()>(&patience(LONG));
        drop(responder);
        assert!(matches!(commit.wait(), Err(CommitError::Stopped)));
    }

    #[test]
    fn a_future_is_woken_by_the_answer() {
        let (responder, commit) = channel(&patience(LONG));
        let answering = thread::spawn(move || {
            thread::sleep(SHORT);
            responder.answer(Ok("on disk"));
        });
        assert_eq!(pollster::block_on(commit).unwrap(), "on disk");
        answering.join().unwrap();
    }

    #[test]
    fn a_call_that_is_not_with_the_store_in_time_is_withdrawn_and_one_that_is_may_be_on_disk() {
        let patience = patience(SHORT);
        patience.note(Some("the disk is full".to_owned()));
        for under_way in [false, true] {
            let (waiting, waited) = channel::<()>(&patience);
            let (polling, polled) = channel::<()>(&patience);
            assert!(!under_way || waiting.begin() && polling.begin());
            for answer in [waited.wait(), pollster::block_on(polled)] {
                let error = answer.unwrap_err();
                assert_eq!(matches!(error, CommitError::Unknown(_)), under_way, "{error}");
                assert!(error.to_string().contains("the disk is full"), "{error}");
            }
            assert!(!waiting.begin() && polling.is_withdrawn(), "nobody waits for it any more");
        }
    }

    #[test]
    fn a_wait_has_the_shorter_of_two_limits() {
        let (_responder, commit) = channel::<()>(&patience(LONG));
        assert!(matches!(commit.wait_timeout(SHORT), Err(CommitError::Failed(_))));
        let (_responder, commit) = channel::<()>(&patience(SHORT));
        assert!(matches!(commit.wait_timeout(LONG), Err(CommitError::Failed(_))));
    }

    #[test]
    fn a_future_has_its_limit_also_after_a_shutdown_of_the_engine() {
        let timer = Timer::new().unwrap();
        let (_responder, commit) = channel::<()>(&Arc::new(Patience::new(timer.clone(), SHORT)));
        timer.shutdown().unwrap();
        assert!(matches!(pollster::block_on(commit), Err(CommitError::Failed(_))));
    }
}
