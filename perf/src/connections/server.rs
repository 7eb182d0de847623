//! The TCP server: Tokio for the sockets, Tourbillon for every timeout.
//!
//! Each connection is a task. It has an idle timeout that is reset by every message. Each request
//! has a deadline that is cancelled when the answer is written, and a work step in between, so that
//! the deadline is truly pending for a while. A timeout that fires sends its connection a signal.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result};
use testkit::counters::Counts;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tourbillon::Timeout;

use super::message::{LENGTH, Message, What};
use super::options::{LONGEST_WORK, REQUEST_TIMEOUT, SHORTEST_WORK};
use super::recorder::Kind;
use super::{SEED, Shared, count_schedule};
use crate::accept::{self, Next, PAUSE};

/// Connections to one listener. Each needs an ephemeral port of its own towards that listener; the
/// usual range has 28,232, and others use it too.
const PER_LISTENER: usize = 20_000;

/// The server's account of a run.
#[derive(Debug, Default)]
pub(super) struct ServerOutcome {
    pub(super) counts: Counts,
    pub(super) requests: u64,
    /// Answers written within the deadline, and those that say it had passed.
    pub(super) answered: u64,
    pub(super) answered_late: u64,
    /// Connections closed for their idle timeout, and those of them that it was not over for.
    pub(super) reaped: u64,
    pub(super) reaped_early: u64,
    /// The idle timeout had fired, but a message lay unread in the socket.
    pub(super) rescued: u64,
    /// The idle timeout had fired, but a request was being worked on.
    pub(super) kept_at_work: u64,
    /// Its reports of connections that broke before the run was over.
    pub(super) broken: Vec<String>,
}

/// A signal from a task of the engine to a connection. The numbers are never used twice within a
/// connection, so that a signal can't be taken for that of a later timeout.
#[derive(Debug, Clone, Copy)]
enum Signal {
    /// The idle timeout fired, at this instant.
    Idle(u32, Instant),
    /// The request's deadline has passed.
    Deadline(u32),
    /// The work step is done.
    Done(u32),
}

/// Listens on as many ports of 127.0.0.1 as the clients need.
pub(super) async fn listen(clients: usize) -> Result<(Vec<TcpListener>, Vec<SocketAddr>)> {
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    for _ in 0..clients.div_ceil(PER_LISTENER) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen on 127.0.0.1")?;
        addresses.push(listener.local_addr().context("a listener has no address")?);
        listeners.push(listener);
    }
    Ok((listeners, addresses))
}

/// Accepts a connection, and goes on after what passes.
///
/// # Errors
///
/// If the listener itself is broken.
pub(crate) async fn accept(listener: &TcpListener) -> Result<TcpStream> {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Ok(stream),
            Err(error) => match accept::after(&error) {
                Next::Skip => {}
                Next::Wait => {
                    eprintln!("the server has to wait before it accepts: {error}");
                    // Not every runtime here has a timer. A sleep does not panic, so there is no
                    // error.
                    let _ = tokio::task::spawn_blocking(|| std::thread::sleep(PAUSE)).await;
                }
                Next::Fail => return Err(error).context("cannot accept a connection"),
            },
        }
    }
}

/// Serves until all clients have come and are gone.
pub(super) async fn serve(listeners: Vec<TcpListener>, shared: Arc<Shared>) -> Result<ServerOutcome> {
    let outcome = Arc::new(Mutex::new(ServerOutcome::default()));
    let mut accepting = JoinSet::new();
    for listener in listeners {
        let (shared, outcome) = (Arc::clone(&shared), Arc::clone(&outcome));
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while shared.accepted.load(Ordering::Relaxed) < shared.pace.connections as u64 {
                let stream = tokio::select! {
                    stream = accept(&listener) => stream?,
                    // Another listener may have accepted the last.
                    () = tokio::time::sleep(PAUSE) => continue,
                };
                let number = shared.accepted.fetch_add(1, Ordering::Relaxed);
                let random = fastrand::Rng::with_seed(SEED + number);
                let (shared, outcome) = (Arc::clone(&shared), Arc::clone(&outcome));
                connections.spawn(Connection::serve(stream, random, shared, outcome));
            }
            connections.join_all().await;
            anyhow::Ok(())
        });
    }
    accepting.join_all().await.into_iter().collect::<Result<()>>()?;
    let outcome = std::mem::take(&mut *outcome.lock().expect("no connection panics"));
    Ok(outcome)
}

struct Request {
    serial: u32,
    number: u32,
    deadline: Timeout,
}

struct Connection {
    stream: TcpStream,
    random: fastrand::Rng,
    shared: Arc<Shared>,
    outcome: Arc<Mutex<ServerOutcome>>,
    signal: UnboundedSender<Signal>,
    serial: u32,
    idle: Option<(u32, Timeout)>,
    /// When the last message was there, by the server's own clock: the one truth about how long the
    /// peer was silent. Or, if the timeout fired while a request was being worked on, when it was
    /// armed again.
    idle_since: Instant,
    client: Option<u32>,
    request: Option<Request>,
    buffer: [u8; LENGTH],
    have: usize,
}

/// Why a connection ends: nothing to tell if the client may close it.
type End = Option<String>;

impl Connection {
    async fn serve(stream: TcpStream, random: fastrand::Rng, shared: Arc<Shared>, outcome: Arc<Mutex<ServerOutcome>>) {
        // Without this, a message may wait for the acknowledgement of the one before it.
        let _ = stream.set_nodelay(true);
        let (signal, signals) = unbounded_channel();
        let mut this = Self {
            stream,
            random,
            shared,
            outcome,
            signal,
            serial: 0,
            idle: None,
            idle_since: Instant::now(),
            client: None,
            request: None,
            buffer: [0; LENGTH],
            have: 0,
        };
        this.arm_idle(Instant::now());
        let end = this.run(signals).await;
        this.close(end);
    }

    async fn run(&mut self, mut signals: UnboundedReceiver<Signal>) -> End {
        loop {
            tokio::select! {
                biased;
                read = self.stream.read(&mut self.buffer[self.have..]) => match read {
                    Ok(0) => return Some("closed by the client".to_owned()),
                    Ok(count) => self.take(count),
                    Err(error) => return Some(format!("could not read: {error}")),
                },
                signal = signals.recv() => match signal? {
                    Signal::Done(serial) => self.answer(serial, false).await?,
                    Signal::Deadline(serial) => self.answer(serial, true).await?,
                    Signal::Idle(serial, ran) => if self.is_idle(serial, ran) {
                        return self.reap().await;
                    },
                },
            }
        }
    }

    fn with<R>(&self, work: impl FnOnce(&mut ServerOutcome) -> R) -> R {
        work(&mut self.outcome.lock().expect("no connection panics"))
    }

    fn next_serial(&mut self) -> u32 {
        self.serial += 1;
        self.serial
    }

    /// Arms a new idle timeout. A refusal shows in the counters.
    fn arm_idle(&mut self, now: Instant) {
        let serial = self.next_serial();
        let (signal, recorder) = (self.signal.clone(), Arc::clone(&self.shared.recorder));
        // Its deadline moves, so only the connection can judge whether it is on time.
        let idle = self.shared.timer.schedule(self.shared.pace.idle_timeout, move || {
            recorder.page().fired[Kind::Socket as usize] += 1;
            let _ = signal.send(Signal::Idle(serial, Instant::now()));
        });
        self.with(|outcome| count_schedule(&mut outcome.counts, idle.is_ok()));
        self.idle = idle.ok().map(|idle| (serial, idle));
        self.idle_since = now;
    }

    /// Takes in what was read. Returns after a whole message.
    fn take(&mut self, count: usize) {
        self.have += count;
        if self.have < LENGTH {
            return;
        }
        self.have = 0;
        let message = Message::read(self.buffer);
        let now = Instant::now();
        let over = self.idle_since + self.shared.pace.idle_timeout;
        self.client = Some(message.client);
        let in_time = self.idle.as_ref().is_some_and(|(_, idle)| idle.reset(self.shared.pace.idle_timeout));
        if in_time {
            self.with(|outcome| outcome.counts.reset += 1);
            self.idle_since = now;
        } else {
            // It fired while this message was on its way up. Its signal is stale from here on, so
            // this is the place to judge whether it may have.
            self.shared.recorder.had_fired(over, now);
            self.arm_idle(now);
        }
        self.start_request(message.number);
    }

    fn start_request(&mut self, number: u32) {
        let work = SHORTEST_WORK + (LONGEST_WORK - SHORTEST_WORK).mul_f64(self.random.f64());
        let limit = REQUEST_TIMEOUT;
        let serial = self.next_serial();
        let now = Instant::now();
        let deadline = self.shared.timer.schedule(limit, self.task(now + limit, Signal::Deadline(serial)));
        let step = self.shared.timer.schedule_detached(work, self.task(now + work, Signal::Done(serial)));
        self.with(|outcome| {
            outcome.requests += 1;
            count_schedule(&mut outcome.counts, deadline.is_ok());
            count_schedule(&mut outcome.counts, step.is_ok());
        });
        self.request = deadline.ok().map(|deadline| Request { serial, number, deadline });
    }

    fn task(&self, deadline: Instant, tell: Signal) -> impl FnOnce() + Send + use<> {
        let (signal, recorder) = (self.signal.clone(), Arc::clone(&self.shared.recorder));
        move || {
            recorder.fired(Kind::Socket, deadline, Instant::now());
            let _ = signal.send(tell);
        }
    }

    /// Answers a request, unless it has been answered already: then the signal is stale.
    async fn answer(&mut self, serial: u32, late: bool) -> Option<()> {
        let Some(request) = self.request.take_if(|request| request.serial == serial) else { return Some(()) };
        let cancelled = !late && request.deadline.cancel();
        self.with(|outcome| {
            *(if late { &mut outcome.answered_late } else { &mut outcome.answered }) += 1;
            outcome.counts.cancelled += u64::from(cancelled);
        });
        let what = if late { What::Late } else { What::Answer };
        self.write(request.number, what).await
    }

    async fn write(&mut self, number: u32, what: What) -> Option<()> {
        let client = self.client.unwrap_or(u32::MAX);
        self.stream.write_all(&Message { client, number, what }.bytes()).await.ok()
    }

    /// Judges a signal of the idle timeout. Returns whether the connection is to be reaped.
    fn is_idle(&mut self, serial: u32, ran: Instant) -> bool {
        if self.idle.as_ref().is_none_or(|(current, _)| *current != serial) {
            return false;
        }
        let over = self.idle_since + self.shared.pace.idle_timeout;
        // A client that has spoken is not idle, even if this thread was too busy to listen in time.
        match self.stream.try_read(&mut self.buffer[self.have..]) {
            Ok(count @ 1..) => {
                self.take(count);
                self.with(|outcome| outcome.rescued += 1);
                return false;
            }
            // It is there no more: the next read says so.
            Ok(0) => return false,
            Err(error) if error.kind() != ErrorKind::WouldBlock => return false,
            Err(_) => {}
        }
        self.shared.recorder.page().judge(Kind::Socket, over, ran);
        // A client that waits for an answer is not idle.
        if self.request.is_some() {
            self.with(|outcome| outcome.kept_at_work += 1);
            self.arm_idle(Instant::now());
            return false;
        }
        self.with(|outcome| {
            outcome.reaped += 1;
            outcome.reaped_early += u64::from(Instant::now() < over);
        });
        true
    }

    /// Tells the client that it was idle. Its connection ends.
    async fn reap(&mut self) -> End {
        self.shared.reaped.fetch_add(1, Ordering::Relaxed);
        let _ = self.write(0, What::Reaped).await;
        None
    }

    /// Cancels what is pending. Before the run is over no client closes: if one is gone, that is a
    /// fault, and this keeps what the server saw of it.
    fn close(&mut self, end: End) {
        let cancel = |timeout: &Timeout| u64::from(timeout.cancel());
        // After a reap this is false, as it should: the timeout has fired.
        let idle = self.idle.as_ref().map_or(0, |(_, idle)| cancel(idle));
        let request = self.request.as_ref().map_or(0, |request| cancel(&request.deadline));
        let finishing = *self.shared.finishing.borrow();
        self.with(|outcome| {
            outcome.counts.cancelled += idle + request;
            if let Some(why) = end.filter(|_| !finishing) {
                outcome.broken.push(format!("client {:?}: {why}", self.client));
            }
        });
    }
}
