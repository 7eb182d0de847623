//! The connection lives on a thread of its own, so that a server that hangs holds up nobody. The
//! store waits for an answer for a while, and then leaves the thread behind. The thread ends when
//! the server answers, or when the system says that it never will.
//!
//! A client blocks on a runtime of its own. On the thread of an async caller this would panic.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use postgres::{CancelToken, Client, NoTls};

use super::gate::Gate;
use super::session::{Session, text};
use crate::store::Failure;

/// How long a call may take, and how long once a stop has begun.
pub(super) const LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How often a call looks whether a stop has begun.
const LOOK: Duration = Duration::from_millis(100);
/// How long a client may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// Makes a connection. It is called again whenever one was lost.
pub(crate) type Connect = Box<dyn FnMut() -> Result<Client, postgres::Error> + Send>;
type Job = Box<dyn FnOnce(&mut Session) + Send>;
type Dialed = Result<Line, String>;

/// The way to the server, if there is one.
pub(super) struct Lines {
    connect: Arc<Mutex<Connect>>,
    line: Option<Line>,
    /// A connect that has not answered in time. There is one at most, however long that lasts.
    dialing: Option<Receiver<Dialed>>,
    /// Those that were given up before they had answered.
    left_behind: Vec<Receiver<Infallible>>,
    stopping: Arc<AtomicBool>,
}

/// A thread with a connection.
struct Line {
    jobs: Sender<Job>,
    gate: Arc<Gate>,
    ended: Receiver<Infallible>,
    cancel: CancelToken,
}

impl Lines {
    pub(super) fn new(connect: Connect) -> Self {
        Self {
            connect: Arc::new(Mutex::new(connect)),
            line: None,
            dialing: None,
            left_behind: Vec::new(),
            stopping: Arc::default(),
        }
    }

    pub(super) fn stop_when(&mut self, stopping: Arc<AtomicBool>) {
        self.stopping = stopping;
    }

    /// Connects, or waits once more for a connect that has not answered yet.
    pub(super) fn connect(&mut self) -> Result<(), Failure> {
        self.line = None;
        let dialing = match self.dialing.take() {
            Some(dialing) => dialing,
            None => dial(&self.connect).map_err(|error| lost(format!("no thread: {error}"), false))?,
        };
        match self.wait(&dialing, LIMIT) {
            Ok(line) => self.line = Some(line.map_err(|reason| lost(reason, false))?),
            Err(RecvTimeoutError::Timeout) => {
                self.dialing = Some(dialing);
                return Err(lost("the server does not answer".to_owned(), false));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(lost("the function that connects has panicked".to_owned(), false));
            }
        }
        Ok(())
    }

    /// Whether a connection lives on that was given up.
    pub(super) fn has_left_behind(&mut self) -> bool {
        self.left_behind.retain(|ended| ended.try_recv() == Err(TryRecvError::Empty));
        !self.left_behind.is_empty()
    }

    /// Has the thread do `work`, and waits for it.
    pub(super) fn call<T: Send + 'static>(
        &mut self,
        limit: Duration,
        work: impl FnOnce(&mut Session) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let Some(line) = &self.line else { return Err(lost("there is no connection".to_owned(), false)) };
        line.gate.open();
        let (send, answer) = bounded(1);
        let job: Job = Box::new(move |session| drop(send.send(work(session))));
        if line.jobs.send(job).is_err() {
            return Err(lost("the connection's thread has ended".to_owned(), false));
        }
        let answer = self.wait(&answer, limit);
        if matches!(answer, Ok(Err(Failure::Lost { .. })) | Err(_)) {
            let line = self.line.take().expect("it was there");
            let unknown = line.gate.abandon();
            cancel(line.cancel);
            self.left_behind.push(line.ended);
            answer.unwrap_or_else(|error| Err(lost(gave_up(error), unknown)))
        } else {
            answer.expect("it is no error")
        }
    }

    fn wait<T>(&self, answer: &Receiver<T>, limit: Duration) -> Result<T, RecvTimeoutError> {
        let mut until = Instant::now() + limit;
        let mut stopping = false;
        loop {
            if !stopping && self.stopping.load(Ordering::Relaxed) {
                stopping = true;
                until = until.min(Instant::now() + STOP_LIMIT);
            }
            let left = until.saturating_duration_since(Instant::now());
            match answer.recv_timeout(left.min(LOOK)) {
                Err(RecvTimeoutError::Timeout) if left > LOOK => {}
                answer => return answer,
            }
        }
    }
}

impl Drop for Lines {
    /// The server has ended the session when this returns, if it answers.
    fn drop(&mut self) {
        if let Some(Line { jobs, ended, .. }) = self.line.take() {
            drop(jobs);
            _ = ended.recv_timeout(GOODBYE);
        }
    }
}

/// Has the server end what nobody waits for any more: a commit that waits for a replica, above all.
/// Else each would keep a session for as long as that lasts. It is a request, on a connection of
/// its own, and nobody waits for it either.
fn cancel(token: CancelToken) {
    let ask = move || drop(token.cancel_query(NoTls));
    _ = thread::Builder::new().name("tb-durable-pg".to_owned()).spawn(ask);
}

/// Connects on a new thread, which then does the jobs of the connection.
fn dial(connect: &Arc<Mutex<Connect>>) -> std::io::Result<Receiver<Dialed>> {
    let (send, dialed) = bounded(1);
    let connect = Arc::clone(connect);
    thread::Builder::new().name("tb-durable-pg".to_owned()).spawn(move || {
        let client = (connect.lock().unwrap_or_else(PoisonError::into_inner))();
        let client = match client {
            Ok(client) => client,
            Err(error) => return drop(send.send(Err(text(&error)))),
        };
        let (jobs, received) = bounded::<Job>(1);
        let (end, ended) = bounded(0);
        let gate = Arc::<Gate>::default();
        let cancel = client.cancel_token();
        let mut session = Session::new(client, Arc::clone(&gate));
        if send.send(Ok(Line { jobs, gate, ended, cancel })).is_ok() {
            received.iter().for_each(|job| job(&mut session));
        }
        drop(session);
        drop(end);
    })?;
    Ok(dialed)
}

fn gave_up(error: RecvTimeoutError) -> String {
    match error {
        RecvTimeoutError::Timeout => "the server does not answer".to_owned(),
        RecvTimeoutError::Disconnected => "the connection's thread has panicked".to_owned(),
    }
}

fn lost(reason: String, unknown: bool) -> Failure {
    Failure::Lost { reason, unknown }
}
