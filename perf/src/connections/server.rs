//! The TCP server: mio for the sockets, Tourbillon for every timeout.
//!
//! One thread owns its connections and never waits for anything but the poller, and that without a
//! timeout: what is due comes as a signal from a task. (The end, and a shortage of descriptors,
//! have one.) Each connection has an idle timeout that is reset by every message. Each request has
//! a deadline that is cancelled when the answer is written, and a work step in between, so that the
//! deadline is truly pending for a while.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use tourbillon::{Timeout, Timer};

use super::kind::Kind;
use super::lane::{Key, Lane, Signal, count};
use super::outcome::ServerOutcome;
use super::wire::{Message, Reader, Received, Why, Writer};
use crate::accept::{self, Next, PAUSE};

/// Token of the waker; listeners come before it, connections after it.
pub(crate) const WAKER: Token = Token(1_000_000_000);
const FIRST_CONNECTION: usize = WAKER.0 + 1;

/// How long the server waits for clients to close when the run is over.
const PATIENCE: Duration = Duration::from_secs(10);

static SHORTAGE_IS_SAID: Once = Once::new();

#[derive(Debug)]
struct Request {
    serial: u32,
    number: u32,
    deadline: Timeout,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    reader: Reader,
    writer: Writer,
    idle: Timeout,
    idle_serial: u32,
    /// When the last message was there, by the server's own clock: the one truth about how long the
    /// peer was silent. Or, if the timeout fired while a request was being worked on, when it was
    /// armed again.
    idle_since: Instant,
    client: Option<u32>,
    received: u32,
    request: Option<Request>,
}

/// Durations the server goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerPace {
    pub(crate) idle_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) longest_work: Duration,
}

/// One server thread.
#[derive(Debug)]
pub(crate) struct Server {
    poll: Poll,
    listeners: Vec<TcpListener>,
    timer: Timer,
    lane: Arc<Lane>,
    pace: ServerPace,
    random: fastrand::Rng,
    connections: Vec<Option<Connection>>,
    free: Vec<u32>,
    serial: u32,
    /// Clients wait, and there are no descriptors for them.
    is_short: bool,
    outcome: ServerOutcome,
}

/// Listens on `count` ports of 127.0.0.1, and returns their addresses too.
pub(crate) fn listen(count: usize) -> Result<(Vec<TcpListener>, Vec<SocketAddr>)> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut listeners = Vec::with_capacity(count);
    let mut addresses = Vec::with_capacity(count);
    for _ in 0..count {
        let listener = TcpListener::bind(any).context("cannot listen on 127.0.0.1")?;
        addresses.push(listener.local_addr().context("a listener has no address")?);
        listeners.push(listener);
    }
    Ok((listeners, addresses))
}

impl Server {
    pub(crate) fn new(
        poll: Poll,
        mut listeners: Vec<TcpListener>,
        timer: Timer,
        lane: Arc<Lane>,
        pace: ServerPace,
        seed: u64,
    ) -> Result<Self> {
        for (at, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener, Token(at), Interest::READABLE).context("cannot poll a listener")?;
        }
        Ok(Self {
            poll,
            listeners,
            timer,
            lane,
            pace,
            random: fastrand::Rng::with_seed(seed),
            connections: Vec::new(),
            free: Vec::new(),
            serial: 0,
            is_short: false,
            outcome: ServerOutcome::default(),
        })
    }

    /// Serves until the run is over and all connections are closed.
    pub(crate) fn run(mut self) -> Result<ServerOutcome> {
        let mut events = Events::with_capacity(1024);
        let mut patience = None;
        loop {
            // No timeout of the engine: the engine's counters count those.
            let limit = (self.is_short || self.lane.control.is_finishing()).then_some(PAUSE);
            match self.poll.poll(&mut events, limit) {
                Err(e) if e.kind() != ErrorKind::Interrupted => {
                    return Err(e).context("the server cannot poll its sockets");
                }
                _ => {}
            }
            if self.is_short {
                self.accept_again()?;
            }
            for event in &events {
                match event.token() {
                    WAKER => self.take_signals(),
                    Token(at) if at < WAKER.0 => self.accept(at)?,
                    Token(at) => {
                        let place = at - FIRST_CONNECTION;
                        if event.is_writable() {
                            self.flush(place);
                        }
                        if event.is_readable() || event.is_read_closed() || event.is_error() {
                            self.read(place);
                        }
                    }
                }
            }
            if self.lane.control.is_finishing() {
                let until = *patience.get_or_insert_with(|| Instant::now() + PATIENCE);
                let open = self.connections.len() - self.free.len();
                if open == 0 || Instant::now() > until {
                    self.outcome.left_open = open as u64;
                    return Ok(self.outcome);
                }
            }
        }
    }

    /// The poller tells of a client once: those that could not be accepted are not told of again.
    fn accept_again(&mut self) -> Result<()> {
        self.is_short = false;
        (0..self.listeners.len()).try_for_each(|listener| self.accept(listener))
    }

    fn accept(&mut self, listener: usize) -> Result<()> {
        loop {
            match self.listeners[listener].accept() {
                Ok((stream, _)) => self.open(stream),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => match accept::after(&e) {
                    Next::Skip => {}
                    Next::Wait => {
                        SHORTAGE_IS_SAID.call_once(|| eprintln!("the server has to wait before it accepts: {e}"));
                        self.is_short = true;
                        return Ok(());
                    }
                    Next::Fail => return Err(e).context("cannot accept a connection"),
                },
            }
        }
    }

    fn open(&mut self, stream: TcpStream) {
        self.outcome.accepted += 1;
        count(&self.lane.gauges.accepted);
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            u32::try_from(self.connections.len() - 1).expect("fewer connections than descriptors")
        });
        if let Err(e) = self.serve(stream, place) {
            self.free.push(place);
            self.outcome.broken.push(format!("a client not known yet: cannot be served: {e}"));
        }
    }

    fn serve(&mut self, mut stream: TcpStream, place: u32) -> io::Result<()> {
        // Without this, a message may wait for the acknowledgement of the one before it.
        stream.set_nodelay(true)?;
        let token = Token(FIRST_CONNECTION + place as usize);
        self.poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let idle_since = Instant::now();
        let Some((idle, idle_serial)) = self.arm_idle(place) else {
            return Err(io::Error::other("its idle timeout is refused"));
        };
        self.connections[place as usize] = Some(Connection {
            stream,
            reader: Reader::default(),
            writer: Writer::default(),
            idle,
            idle_serial,
            idle_since,
            client: None,
            received: 0,
            request: None,
        });
        Ok(())
    }

    /// Arms a new idle timeout; `None` if the engine refuses, which the counters show.
    fn arm_idle(&mut self, place: u32) -> Option<(Timeout, u32)> {
        let key = self.key(place);
        let task = Lane::idle_task(&self.lane, key);
        let idle = self.timer.schedule(self.pace.idle_timeout, task);
        let account = self.outcome.accounts.of(Kind::Idle);
        match idle {
            Ok(idle) => {
                account.scheduled += 1;
                Some((idle, key.serial))
            }
            Err(_) => {
                account.refused += 1;
                None
            }
        }
    }

    /// A new idle timeout for a connection whose last one has fired, and which is kept.
    fn arm_idle_again(&mut self, place: u32) {
        let now = Instant::now();
        let Some((idle, serial)) = self.arm_idle(place) else {
            return self.close(place as usize);
        };
        if let Some(connection) = self.connections[place as usize].as_mut() {
            (connection.idle, connection.idle_serial, connection.idle_since) = (idle, serial, now);
        }
    }

    fn key(&mut self, place: u32) -> Key {
        self.serial = self.serial.wrapping_add(1);
        Key { place, serial: self.serial }
    }

    /// Reads all there is to read; returns whether a message has come.
    fn read(&mut self, place: usize) -> bool {
        let mut any = false;
        while let Some(connection) = self.connections.get_mut(place).and_then(Option::as_mut) {
            match connection.reader.read(&mut connection.stream) {
                Received::Message(message) => {
                    any = true;
                    self.on_message(place, message);
                }
                Received::Nothing => break,
                Received::Closed(why) => {
                    self.close_broken(place, why);
                    break;
                }
            }
        }
        any
    }

    fn on_message(&mut self, place: usize, message: Message) {
        let now = Instant::now();
        let Some(connection) = self.connections[place].as_mut() else {
            return;
        };
        let over = connection.idle_since + self.pace.idle_timeout;
        connection.idle_since = now;
        connection.client = Some(message.client);
        connection.received = message.number;
        let in_time = connection.idle.reset(self.pace.idle_timeout);
        self.outcome.accounts.of(Kind::Idle).reset(in_time);
        let key = self.key(u32::try_from(place).expect("places are counted in u32"));
        if !in_time {
            // It fired while this message was on its way up. Its signal is stale from here on, so
            // this is the place to judge whether it may have.
            self.lane.recorder.had_fired(over, now);
            self.arm_idle_again(key.place);
        }
        self.start_request(key, message.number);
    }

    fn start_request(&mut self, key: Key, number: u32) {
        self.outcome.requests += 1;
        let least = Duration::from_millis(1).min(self.pace.longest_work);
        let work = least + (self.pace.longest_work - least).mul_f64(self.random.f64());
        let now = Instant::now();
        let limit = self.pace.request_timeout;
        let deadline = self.timer.schedule(limit, Lane::deadline_task(&self.lane, key, now + limit));
        let step = self.timer.schedule_detached(work, Lane::work_task(&self.lane, key, now + work));
        let accounts = &mut self.outcome.accounts;
        accounts.of(Kind::Request).scheduled += u64::from(deadline.is_ok());
        accounts.of(Kind::Request).refused += u64::from(deadline.is_err());
        accounts.of(Kind::Work).scheduled += u64::from(step.is_ok());
        accounts.of(Kind::Work).refused += u64::from(step.is_err());
        let Ok(deadline) = deadline else {
            return self.close(key.place as usize);
        };
        if let Some(connection) = self.connections[key.place as usize].as_mut() {
            connection.request = Some(Request { serial: key.serial, number, deadline });
        }
    }

    fn take_signals(&mut self) {
        self.lane.woken();
        while let Some(signal) = self.lane.take() {
            match signal {
                Signal::Done(key) => self.answer(key, false),
                Signal::Deadline(key) => self.answer(key, true),
                Signal::Idle(key, ran) => self.reap(key, ran),
            }
        }
    }

    /// Answers a request, unless it has been answered already: then the signal is stale.
    fn answer(&mut self, key: Key, late: bool) {
        let place = key.place as usize;
        let Some(connection) = self.connections.get_mut(place).and_then(Option::as_mut) else {
            return;
        };
        let Some(request) = connection.request.take_if(|request| request.serial == key.serial) else {
            return;
        };
        if late {
            self.outcome.answered_late += 1;
        } else {
            self.outcome.answered += 1;
            self.outcome.accounts.of(Kind::Request).cancel(request.deadline.cancel());
        }
        let client = connection.client.unwrap_or(u32::MAX);
        let answer = Message { client, number: request.number, late };
        if let Err(e) = connection.writer.write(&mut connection.stream, answer) {
            self.close_broken(place, Why::write(&e));
        }
    }

    /// An idle timeout fired: closes the connection, unless the signal is stale or a message came.
    fn reap(&mut self, key: Key, ran: Instant) {
        let place = key.place as usize;
        let Some(connection) = self.connections.get(place).and_then(Option::as_ref) else {
            return;
        };
        if connection.idle_serial != key.serial {
            return;
        }
        let over = connection.idle_since + self.pace.idle_timeout;
        // Whoever has spoken is not idle, even if this thread was too busy to listen in time.
        if self.read(place) {
            self.outcome.rescued += 1;
            return;
        }
        let Some(connection) = self.connections[place].as_ref() else {
            return;
        };
        self.lane.recorder.judge(Kind::Idle, over, ran);
        // A client that waits for an answer is not idle.
        if connection.request.is_some() {
            self.outcome.kept_at_work += 1;
            return self.arm_idle_again(key.place);
        }
        self.outcome.reaped += 1;
        self.outcome.reaped_early += u64::from(Instant::now() < over);
        count(&self.lane.gauges.reaped);
        if let Some(client) = connection.client {
            self.lane.note_reaped(client, connection.received, over);
        } else {
            // No client is known to leave a note for, and the client will miss it.
            self.outcome.broken.push("a client not known yet: reaped before its first message".to_owned());
        }
        self.close(place);
    }

    fn flush(&mut self, place: usize) {
        if let Some(connection) = self.connections.get_mut(place).and_then(Option::as_mut)
            && let Err(e) = connection.writer.flush(&mut connection.stream)
        {
            self.close_broken(place, Why::write(&e));
        }
    }

    /// Closes a connection that its client has closed, or that is broken. Before the run is over no
    /// client closes: if one is gone, that is a fault, and this keeps what the server saw of it.
    fn close_broken(&mut self, place: usize, why: Why) {
        if let Some(connection) = self.connections[place].as_ref().filter(|_| !self.lane.control.is_finishing()) {
            let client =
                connection.client.map_or("a client not known yet".to_owned(), |client| format!("client {client}"));
            self.outcome.broken.push(format!("{client}, after {} messages: {why}", connection.received));
        }
        self.close(place);
    }

    /// Closes a connection and cancels what it has pending.
    fn close(&mut self, place: usize) {
        let Some(connection) = self.connections[place].take() else {
            return;
        };
        // After a reap this returns false, as it should: the timeout has fired.
        if connection.idle.cancel() {
            self.outcome.accounts.of(Kind::Idle).cancelled += 1;
        }
        if let Some(request) = connection.request {
            self.outcome.accounts.of(Kind::Request).cancel(request.deadline.cancel());
        }
        self.free.push(u32::try_from(place).expect("places are counted in u32"));
    }
}

#[cfg(test)]
mod tests;
