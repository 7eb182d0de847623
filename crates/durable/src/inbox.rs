//! The writer's inbox: calls, timeouts that have come up, and runs that have ended.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::commit::{self, Responder};
use crate::due::{DeadLetter, Due, Outcome, Pending, Scheduled};
use crate::error::{CommitError, Refused};
use crate::store::{Answer, Op, Token};

/// An operation that a caller asks for, and whom to answer.
pub(crate) struct Command {
    pub(crate) op: Op,
    pub(crate) reply: Reply,
}

/// Whom to answer.
pub(crate) enum Reply {
    Scheduled(Responder<Scheduled>),
    ScheduledIfAbsent(Responder<Option<Scheduled>>),
    /// Whether it was so: a reset, a cancel, a dead letter.
    Whether(Responder<bool>),
    Row(Responder<Option<Pending>>),
    DeadLetters(Responder<Vec<DeadLetter>>),
}

impl Reply {
    /// Returns the call as the writer sees it before it answers.
    pub(crate) fn pending(&self) -> &dyn commit::Pending {
        match self {
            Self::Scheduled(to) => to,
            Self::ScheduledIfAbsent(to) => to,
            Self::Whether(to) => to,
            Self::Row(to) => to,
            Self::DeadLetters(to) => to,
        }
    }

    pub(crate) fn answer(self, answer: Answer) {
        match (self, answer) {
            (Self::Scheduled(to), Answer::Scheduled { generation }) => to.answer(Ok(Scheduled { generation })),
            (Self::ScheduledIfAbsent(to), Answer::Scheduled { generation }) => {
                to.answer(Ok(Some(Scheduled { generation })));
            }
            (Self::ScheduledIfAbsent(to), Answer::Present) => to.answer(Ok(None)),
            (Self::Whether(to), Answer::Moved(moved)) => to.answer(Ok(moved.is_some())),
            (Self::Whether(to), Answer::Done(done)) => to.answer(Ok(done)),
            (Self::Row(to), Answer::Row(row)) => to.answer(Ok(row)),
            (Self::DeadLetters(to), Answer::DeadLetters(letters)) => to.answer(Ok(letters)),
            (_, answer) => unreachable!("the store has answered another operation: {answer:?}"),
        }
    }

    pub(crate) fn fail(self, error: CommitError) {
        match self {
            Self::Scheduled(to) => to.answer(Err(error)),
            Self::ScheduledIfAbsent(to) => to.answer(Err(error)),
            Self::Whether(to) => to.answer(Err(error)),
            Self::Row(to) => to.answer(Err(error)),
            Self::DeadLetters(to) => to.answer(Err(error)),
        }
    }
}

/// A timeout in the wheel.
#[derive(Debug)]
pub(crate) struct Armed {
    pub(crate) key: Arc<str>,
    pub(crate) generation: i64,
    pub(crate) handler: Arc<str>,
    /// The length of the payload.
    pub(crate) bytes: usize,
    /// Whether it may have ended a process.
    pub(crate) suspect: bool,
}

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) token: Token,
    pub(crate) end: End,
    /// How long the handler ran.
    pub(crate) took: Duration,
}

impl Ended {
    pub(crate) fn not_begun(due: &Due) -> Self {
        Self { token: Token::of(due), end: End::NotBegun, took: Duration::ZERO }
    }
}

/// How a run has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Returned(Outcome),
    Panicked,
    /// It has not begun: the lease had ended, the clock went back, the handler was paused, or the
    /// timers were stopped.
    NotBegun,
    /// The runtime of an async handler has not begun it, and does not want it.
    Refused,
    /// The runtime of an async handler has dropped it before its end.
    Dropped,
}

/// The part of the inbox that the writer takes at once.
#[derive(Default)]
pub(crate) struct Incoming {
    pub(crate) commands: Vec<Command>,
    pub(crate) due: Vec<Arc<Armed>>,
    pub(crate) ended: Vec<Ended>,
    /// When the stop was called.
    pub(crate) stopping: Option<Instant>,
    /// Whether commands are left.
    pub(crate) more: bool,
}

/// The queue of the writer. Callers, the engine's threads and the handlers' threads push; the
/// writer takes.
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
    /// The writer has ended.
    over: Condvar,
    pub(crate) capacity: usize,
    /// For the store, which gives a call up sooner then.
    pub(crate) is_stopping: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    /// Of the payloads among the commands.
    bytes: usize,
    due: Vec<Arc<Armed>>,
    ended: Vec<Ended>,
    stopping: Option<Instant>,
    /// Whether the writer is to look what was paused.
    poked: bool,
    /// Whether the writer knows that it is to stop. It still waits, for the runs that go on.
    told: bool,
    /// Whether the writer waits for `changed`.
    sleeping: bool,
    /// Whether the writer has ended.
    is_over: bool,
}

/// Ends with the writer, whether that returns or panics.
pub(crate) struct UntilOver(pub(crate) Arc<Inbox>);

impl Drop for UntilOver {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.over.notify_all();
    }
}

impl Inbox {
    /// The payloads that may wait to be written.
    pub(crate) const BYTES: usize = 64 << 20;

    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            over: Condvar::new(),
            capacity,
            is_stopping: Arc::default(),
        }
    }

    /// Adds a call.
    pub(crate) fn push(&self, command: Command) -> Result<(), Refused> {
        let mut state = self.lock();
        if state.stopping.is_some() {
            return Err(Refused::Stopped);
        }
        if state.commands.len() >= self.capacity {
            return Err(Refused::QueueFull { waiting: state.commands.len(), capacity: self.capacity });
        }
        let bytes = command.op.payload_len();
        if state.bytes + bytes > Self::BYTES {
            return Err(Refused::BytesFull { waiting: state.bytes, capacity: Self::BYTES });
        }
        state.bytes += bytes;
        state.commands.push_back(command);
        self.wake(state);
        Ok(())
    }

    /// Forgets the calls whose callers have given up, so that there is room for others.
    pub(crate) fn forget_withdrawn(&self) {
        let mut state = self.lock();
        state.commands.retain(|command| !command.reply.pending().is_withdrawn());
        state.bytes = state.commands.iter().map(|command| command.op.payload_len()).sum();
    }

    /// Says that a timeout has come up in the wheel.
    pub(crate) fn push_due(&self, armed: Arc<Armed>) {
        let mut state = self.lock();
        state.due.push(armed);
        self.wake(state);
    }

    /// Says that a run has ended.
    pub(crate) fn push_ended(&self, ended: Ended) {
        let mut state = self.lock();
        state.ended.push(ended);
        self.wake(state);
    }

    /// Says that a handler was paused or resumed.
    pub(crate) fn poke(&self) {
        let mut state = self.lock();
        state.poked = true;
        self.wake(state);
    }

    /// Refuses calls from now on, and tells the writer to end.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopping.get_or_insert_with(Instant::now);
        // Relaxed: the store looks at it again and again.
        self.is_stopping.store(true, Ordering::Relaxed);
        self.wake(state);
    }

    /// Waits until the writer has ended, or for so long. Returns whether it has.
    pub(crate) fn wait_until_over(&self, limit: Duration) -> bool {
        let waited = self.over.wait_timeout_while(self.lock(), limit, |state| !state.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    /// How many calls wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().commands.len()
    }

    /// Waits until there is something, or for so long, and takes it: of the calls at most so many,
    /// with payloads of so many bytes and one more. With none wanted, it does not wait for calls.
    pub(crate) fn take(&self, wait: Duration, commands: usize, bytes: usize) -> Incoming {
        let mut state = self.lock();
        let nothing = |state: &State| {
            (commands == 0 || state.commands.is_empty())
                && state.due.is_empty()
                && state.ended.is_empty()
                && !state.poked
                && state.stopping.is_some() == state.told
        };
        if nothing(&state) && !wait.is_zero() {
            state.sleeping = true;
            let waited = self.changed.wait_timeout_while(state, wait, |state| nothing(state));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.sleeping = false;
        }
        state.told = state.stopping.is_some();
        state.poked = false;
        let (mut taken, mut length) = (0, 0);
        while taken < commands
            && length <= bytes
            && let Some(command) = state.commands.get(taken)
        {
            taken += 1;
            length += command.op.payload_len();
        }
        let commands: Vec<_> = state.commands.drain(..taken).collect();
        state.bytes -= length;
        Incoming {
            commands,
            due: std::mem::take(&mut state.due),
            ended: std::mem::take(&mut state.ended),
            stopping: state.stopping,
            more: !state.commands.is_empty(),
        }
    }

    fn wake(&self, state: MutexGuard<'_, State>) {
        let sleeping = state.sleeping;
        drop(state);
        if sleeping {
            self.changed.notify_one();
        }
    }

    /// No code of the user's runs under this lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tourbillon::Timer;

    use super::*;
    use crate::commit::Patience;

    #[test]
    fn a_stop_wakes_the_writer_once() {
        let inbox = Inbox::new(1);
        inbox.stop();
        let wait = Duration::from_millis(50);
        assert!(inbox.take(Duration::from_secs(60), 1, 0).stopping.is_some());
        let begun = Instant::now();
        assert!(inbox.take(wait, 1, 0).stopping.is_some());
        assert!(begun.elapsed() >= wait, "it would spin while runs go on");
    }

    #[test]
    fn each_arrival_wakes_the_writer() {
        let key: Arc<str> = "key".into();
        let call = || {
            let (responder, _) = commit::channel(&Arc::new(Patience::new(Timer::new().unwrap(), Duration::MAX)));
            Command { op: Op::Cancel { key: Arc::clone(&key) }, reply: Reply::Whether(responder) }
        };
        let armed =
            || Armed { key: Arc::clone(&key), generation: 1, handler: "close".into(), bytes: 0, suspect: false };
        let token = || Token { key: Arc::clone(&key), generation: 1, attempt: 1 };
        let ended = || Ended { token: token(), end: End::NotBegun, took: Duration::ZERO };
        let comes: [&dyn Fn(&Inbox); 5] = [
            &|inbox| inbox.push(call()).unwrap(),
            &|inbox| inbox.push_due(Arc::new(armed())),
            &|inbox| inbox.push_ended(ended()),
            &|inbox| inbox.poke(),
            &|inbox| inbox.stop(),
        ];
        for comes in comes {
            let inbox = Inbox::new(1);
            thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let begun = Instant::now();
                    drop(inbox.take(Duration::from_secs(60), 1, 0));
                    begun.elapsed()
                });
                while !inbox.lock().sleeping {
                    thread::yield_now();
                }
                comes(&inbox);
                assert!(writer.join().unwrap() < Duration::from_secs(30));
            });
        }
    }
}
