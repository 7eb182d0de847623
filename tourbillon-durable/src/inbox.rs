//! What waits for the writer: calls, timeouts that have come up, and runs that have ended.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::commit::Responder;
use crate::due::{DeadLetter, Outcome, Pending, Scheduled};
use crate::error::{CommitError, Refused};
use crate::store::{Answer, Op, Token};

/// What a caller asks for.
pub(crate) struct Command {
    pub(crate) op: Op,
    pub(crate) reply: Reply,
}

/// Whom to answer.
pub(crate) enum Reply {
    Scheduled(Responder<Scheduled>),
    /// Whether it was so: a reset, a cancel, a dead letter.
    Whether(Responder<bool>),
    Row(Responder<Option<Pending>>),
    DeadLetters(Responder<Vec<DeadLetter>>),
}

impl Reply {
    pub(crate) fn answer(self, answer: Answer) {
        match (self, answer) {
            (Self::Scheduled(to), Answer::Scheduled { generation }) => to.answer(Ok(Scheduled { generation })),
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
            Self::Whether(to) => to.answer(Err(error)),
            Self::Row(to) => to.answer(Err(error)),
            Self::DeadLetters(to) => to.answer(Err(error)),
        }
    }
}

/// The name of a timeout in the wheel.
#[derive(Debug)]
pub(crate) struct Armed {
    pub(crate) key: Arc<str>,
    pub(crate) generation: i64,
}

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) token: Token,
    pub(crate) end: End,
    /// How long the handler ran.
    pub(crate) took: Duration,
}

/// How a run has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Returned(Outcome),
    Panicked,
    /// It has not begun: the lease had ended, or the timers were stopped.
    NotBegun,
}

/// What the writer takes at once.
#[derive(Default)]
pub(crate) struct Incoming {
    pub(crate) commands: Vec<Command>,
    pub(crate) due: Vec<Arc<Armed>>,
    pub(crate) ended: Vec<Ended>,
    pub(crate) stopping: bool,
    /// Whether commands are left.
    pub(crate) more: bool,
}

/// The queue of the writer. Callers, the engine's threads and the handlers' threads push; the
/// writer takes.
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    /// Of the payloads among the commands.
    bytes: usize,
    due: Vec<Arc<Armed>>,
    ended: Vec<Ended>,
    stopping: bool,
    /// Whether the writer knows that it is to stop. It still waits, for the runs that go on.
    told: bool,
    /// Whether the writer waits for `changed`.
    sleeping: bool,
}

impl Inbox {
    /// The payloads that may wait to be written.
    const BYTES: usize = 64 << 20;

    pub(crate) fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), capacity }
    }

    /// Adds a call.
    pub(crate) fn push(&self, command: Command) -> Result<(), Refused> {
        let mut state = self.lock();
        if state.stopping {
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

    /// Puts calls back in front of the others, that were not sent to the store.
    pub(crate) fn put_back(&self, commands: Vec<Command>) {
        let mut state = self.lock();
        for command in commands.into_iter().rev() {
            state.bytes += command.op.payload_len();
            state.commands.push_front(command);
        }
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

    /// Refuses calls from now on, and tells the writer to end.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        self.wake(state);
    }

    /// How many calls wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().commands.len()
    }

    /// Waits until there is something, or for so long, and takes it: of the calls at most so many.
    /// With none wanted, it does not wait for calls.
    pub(crate) fn take(&self, wait: Duration, commands: usize) -> Incoming {
        let mut state = self.lock();
        let nothing = |state: &State| {
            (commands == 0 || state.commands.is_empty())
                && state.due.is_empty()
                && state.ended.is_empty()
                && state.stopping == state.told
        };
        if nothing(&state) && !wait.is_zero() {
            state.sleeping = true;
            let waited = self.changed.wait_timeout_while(state, wait, |state| nothing(state));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.sleeping = false;
        }
        state.told = state.stopping;
        let taken = state.commands.len().min(commands);
        let commands: Vec<_> = state.commands.drain(..taken).collect();
        state.bytes -= commands.iter().map(|command| command.op.payload_len()).sum::<usize>();
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
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_stop_wakes_the_writer_once() {
        let inbox = Inbox::new(1);
        inbox.stop();
        let wait = Duration::from_millis(50);
        assert!(inbox.take(Duration::from_secs(60), 1).stopping);
        let begun = Instant::now();
        assert!(inbox.take(wait, 1).stopping);
        assert!(begun.elapsed() >= wait, "it would spin while runs go on");
    }
}
