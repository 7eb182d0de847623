//! The clients: real connections that speak, pause, and now and then fall silent for good.
//!
//! They are the world outside, so their pauses are planned with a heap and the poller, not with the
//! engine under test. Only the deadline for an answer, which a client in a server would also have,
//! is a timeout of the engine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use tourbillon::{Timeout, Timer};

use super::kind::Kind;
use super::lane::{Lane, count};
use super::options::Pace;
use super::outcome::ClientsOutcome;
use super::wire::{Message, Reader, Received, Why, Writer};

/// Connections opened but not accepted yet. A listener of mio's, as the standard library's, has a
/// queue of 128; what comes when it is full, the kernel drops, and a client that believes itself
/// connected may be reset for it seconds later.
const UNACCEPTED_AT_MOST: u64 = 100;

/// How long the clients wait for their last answers when the run is over.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pausing,
    Waiting,
    Silent,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    reader: Reader,
    writer: Writer,
    state: State,
    /// After the start of the run.
    silent_after: Option<Duration>,
    /// Number of its latest message.
    number: u32,
    /// Messages the kernel has taken in full, and when it took the last of them.
    sent: u32,
    last_sent: Instant,
    deadline: Option<Timeout>,
}

impl Client {
    /// The record is made when the message has been handed over, and not before: it is what the
    /// client may rely on.
    fn record_sent(&mut self) {
        if self.writer.is_done() && self.sent < self.number {
            self.sent = self.number;
            self.last_sent = Instant::now();
        }
    }
}

/// How the clients behave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Habits {
    pub(crate) pace: Pace,
    pub(crate) request_timeout: Duration,
    pub(crate) silent_share: f64,
    pub(crate) silent_until: Duration,
}

impl Habits {
    /// How many of `clients` clients go silent.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of them")]
    fn silent_of(&self, clients: usize) -> usize {
        (self.silent_share * clients as f64).round() as usize
    }
}

/// All clients of a lane.
#[derive(Debug)]
pub(crate) struct Clients {
    poll: Poll,
    addresses: Vec<SocketAddr>,
    timer: Timer,
    lane: Arc<Lane>,
    habits: Habits,
    random: fastrand::Rng,
    wanted: usize,
    /// Of the clients not opened yet.
    to_go_silent: usize,
    clients: Vec<Option<Client>>,
    open: usize,
    plan: BinaryHeap<Reverse<(Instant, u32)>>,
    outcome: ClientsOutcome,
}

impl Clients {
    pub(crate) fn new(
        addresses: Vec<SocketAddr>,
        wanted: usize,
        timer: Timer,
        lane: Arc<Lane>,
        habits: Habits,
        seed: u64,
    ) -> Result<Self> {
        Ok(Self {
            poll: Poll::new().context("cannot make a poller for the clients")?,
            addresses,
            timer,
            lane,
            habits,
            random: fastrand::Rng::with_seed(seed),
            wanted,
            to_go_silent: habits.silent_of(wanted),
            clients: Vec::with_capacity(wanted),
            open: 0,
            plan: BinaryHeap::new(),
            outcome: ClientsOutcome::default(),
        })
    }

    /// Opens all connections and speaks on them until the run is over.
    pub(crate) fn run(mut self) -> Result<ClientsOutcome> {
        let mut events = Events::with_capacity(1024);
        let mut patience = None;
        loop {
            self.open_some().context("cannot open a connection to the server")?;
            let limit = self.time_to_next();
            match self.poll.poll(&mut events, Some(limit)) {
                Err(e) if e.kind() != ErrorKind::Interrupted => {
                    return Err(e).context("the clients cannot poll their sockets");
                }
                _ => {}
            }
            for event in &events {
                let at = event.token().0;
                if event.is_writable() {
                    self.flush(at);
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.read(at);
                }
            }
            self.speak();
            if self.lane.control.is_finishing() {
                let until = *patience.get_or_insert_with(|| Instant::now() + PATIENCE);
                self.leave(Instant::now() > until);
                if self.open == 0 {
                    return Ok(self.outcome);
                }
            }
        }
    }

    fn open_some(&mut self) -> io::Result<()> {
        while self.clients.len() < self.wanted {
            let accepted = self.lane.gauges.accepted.load(Ordering::Relaxed);
            if self.outcome.opened >= accepted + UNACCEPTED_AT_MOST {
                return Ok(());
            }
            let at = self.clients.len();
            let mut stream = TcpStream::connect(self.addresses[at % self.addresses.len()])?;
            stream.set_nodelay(true)?;
            let both = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, Token(at), both)?;
            // Of those that are left, as many as are still to be chosen: exact, and at random.
            let goes_silent = self.random.usize(at..self.wanted) - at < self.to_go_silent;
            self.to_go_silent -= usize::from(goes_silent);
            self.clients.push(Some(Client {
                stream,
                reader: Reader::default(),
                writer: Writer::default(),
                state: State::Pausing,
                silent_after: goes_silent.then(|| self.habits.silent_until.mul_f64(self.random.f64())),
                number: 0,
                sent: 0,
                last_sent: Instant::now(),
                deadline: None,
            }));
            self.open += 1;
            self.outcome.opened += 1;
            count(&self.lane.gauges.opened);
            // At once, as whoever connects has something to say. It also tells the server who this
            // is.
            self.send(at);
        }
        Ok(())
    }

    fn plan_next(&mut self, at: usize, when: Instant) {
        self.plan.push(Reverse((when, index(at))));
    }

    fn time_to_next(&self) -> Duration {
        let longest = match self.clients.len() < self.wanted {
            true => Duration::from_millis(1),
            false => Duration::from_millis(20),
        };
        self.plan
            .peek()
            .map_or(longest, |Reverse((when, _))| when.saturating_duration_since(Instant::now()).min(longest))
    }

    /// Sends the messages that are due.
    fn speak(&mut self) {
        let now = Instant::now();
        while let Some(&Reverse((when, at))) = self.plan.peek() {
            if when > now {
                break;
            }
            self.plan.pop();
            let Some(client) = self.clients[at as usize].as_mut() else {
                continue;
            };
            let begun = self.lane.control.begun();
            let silent = client
                .silent_after
                .zip(begun)
                .is_some_and(|(after, begun)| now.saturating_duration_since(begun) >= after && client.sent > 0);
            if self.lane.control.is_finishing() {
                continue;
            }
            if silent {
                client.state = State::Silent;
                self.outcome.went_silent += 1;
                count(&self.lane.gauges.silent);
            } else {
                self.send(at as usize);
            }
        }
    }

    fn send(&mut self, at: usize) {
        let Some(client) = self.clients[at].as_mut() else {
            return;
        };
        client.number += 1;
        let message = Message { client: index(at), number: client.number, late: false };
        if let Err(e) = client.writer.write(&mut client.stream, message) {
            return self.closed_by_server(at, Why::write(&e));
        }
        client.record_sent();
        client.state = State::Waiting;
        self.outcome.sent += 1;
        let limit = self.habits.request_timeout;
        let deadline = Instant::now() + limit;
        let account = self.outcome.accounts.of(Kind::Answer);
        match self.timer.schedule(limit, Lane::answer_task(&self.lane, deadline)) {
            Ok(timeout) => {
                account.scheduled += 1;
                client.deadline = Some(timeout);
            }
            Err(_) => account.refused += 1,
        }
    }

    fn read(&mut self, at: usize) {
        while let Some(client) = self.clients.get_mut(at).and_then(Option::as_mut) {
            match client.reader.read(&mut client.stream) {
                Received::Nothing => return,
                Received::Closed(why) => return self.closed_by_server(at, why),
                Received::Message(answer) => self.on_answer(at, answer),
            }
        }
    }

    fn on_answer(&mut self, at: usize, answer: Message) {
        let Some(client) = self.clients[at].as_mut() else {
            return;
        };
        self.outcome.answers += 1;
        self.outcome.late_answers += u64::from(answer.late);
        count(&self.lane.gauges.answers);
        if let Some(deadline) = client.deadline.take() {
            self.outcome.accounts.of(Kind::Answer).cancel(deadline.cancel());
        }
        if client.state == State::Waiting && answer.number == client.number {
            client.state = State::Pausing;
            let Pace { least_pause, most_pause, .. } = self.habits.pace;
            let pause = least_pause + (most_pause - least_pause).mul_f64(self.random.f64());
            self.plan_next(at, Instant::now() + pause);
        }
    }

    /// The server has closed the connection. The note it left tells whether it had the right to.
    fn closed_by_server(&mut self, at: usize, why: Why) {
        let note = self.lane.reaped(index(at));
        let Some(client) = self.close(at) else { return };
        let outcome = &mut self.outcome;
        let count_in = match (note, client.state) {
            (None, state) => {
                outcome.closed_why.push(format!("client {at}, {state:?}, after {} messages: {why}", client.sent));
                &mut outcome.closed_without_reason
            }
            (Some(_), State::Silent) => {
                count(&self.lane.gauges.silent_closed);
                &mut outcome.silent_reaped
            }
            // It has sent something the server never read, in time: the server was wrong.
            (Some((received, over)), _) if client.sent > received && client.last_sent < over => {
                &mut outcome.wrongly_reaped
            }
            // It was waiting for an answer, so it could not have spoken.
            (Some((received, _)), State::Waiting) if client.sent == received => &mut outcome.wrongly_reaped,
            (Some(_), _) => &mut outcome.late_themselves,
        };
        *count_in += 1;
    }

    fn flush(&mut self, at: usize) {
        let Some(client) = self.clients.get_mut(at).and_then(Option::as_mut) else { return };
        match client.writer.flush(&mut client.stream) {
            Ok(()) => client.record_sent(),
            Err(e) => self.closed_by_server(at, Why::write(&e)),
        }
    }

    /// The run is over. Closes the clients that are not waiting for an answer, or all.
    fn leave(&mut self, everybody: bool) {
        for at in 0..self.clients.len() {
            let Some(client) = self.clients[at].as_ref() else {
                continue;
            };
            if client.state == State::Silent {
                self.outcome.silent_not_reaped += 1;
            } else if client.state == State::Waiting && !everybody {
                continue;
            }
            self.close(at);
        }
    }

    fn close(&mut self, at: usize) -> Option<Client> {
        let mut client = self.clients[at].take()?;
        self.open -= 1;
        if let Some(deadline) = client.deadline.take() {
            self.outcome.accounts.of(Kind::Answer).cancel(deadline.cancel());
        }
        Some(client)
    }
}

/// A client's index as it goes over the wire.
fn index(at: usize) -> u32 {
    u32::try_from(at).expect("there are fewer clients than file descriptors")
}
