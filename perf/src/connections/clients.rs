//! The clients: real connections that speak, pause, and now and then fall silent for good.
//!
//! They are the world outside, so Tokio's timer plans their pauses, not the engine under test. Only
//! the deadline for an answer, which a client in a server would also have, is a timeout of the
//! engine.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use testkit::counters::Counts;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::message::{LENGTH, Message, What};
use super::options::{Pace, REQUEST_TIMEOUT, SILENT};
use super::recorder::Kind;
use super::{SEED, Shared, count_schedule};

/// Connections opened but not accepted yet. While a listener's queue is full, the kernel drops what
/// comes, and a client that believes itself connected may be reset for it seconds later.
const UNACCEPTED_AT_MOST: u64 = 100;

/// The clients' account of a run.
#[derive(Debug, Default)]
pub(super) struct ClientsOutcome {
    pub(super) counts: Counts,
    pub(super) opened: u64,
    pub(super) went_silent: u64,
    /// Silent, and still open at the end.
    pub(super) silent_not_reaped: u64,
    /// Reaped because they had spoken too late themselves: this machine was too busy. The server
    /// looks into the socket before it reaps.
    pub(super) late_themselves: u64,
    /// Clients whose connection broke, each with the last message that it heard.
    pub(super) closed_why: Vec<String>,
}

/// Opens all connections, and speaks on them until the run is over.
pub(super) async fn speak(addresses: Vec<SocketAddr>, shared: Arc<Shared>) -> Result<ClientsOutcome> {
    let outcome = Arc::new(Mutex::new(ClientsOutcome::default()));
    let mut random = fastrand::Rng::with_seed(SEED + 1);
    let pace = shared.pace;
    let clients = pace.connections;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of them")]
    let mut to_go_silent = (SILENT * clients as f64).round() as usize;
    let mut all = JoinSet::new();
    for at in 0..clients {
        while at as u64 >= shared.accepted.load(Ordering::Relaxed) + UNACCEPTED_AT_MOST {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let stream = TcpStream::connect(addresses[at % addresses.len()]).await;
        let stream = stream.context("cannot open a connection to the server")?;
        stream.set_nodelay(true)?;
        // Of those that are left, as many as are still to be chosen: exact, and at random.
        let goes_silent = random.usize(at..clients) - at < to_go_silent;
        to_go_silent -= usize::from(goes_silent);
        let client = Client {
            stream,
            index: u32::try_from(at).context("too many clients")?,
            silent_after: goes_silent.then(|| pace.silent_until.mul_f64(random.f64())),
            random: random.fork(),
            shared: Arc::clone(&shared),
            outcome: Arc::clone(&outcome),
        };
        client.with(|outcome| outcome.opened += 1);
        all.spawn(client.live());
    }
    all.join_all().await;
    let outcome = std::mem::take(&mut *outcome.lock().expect("no client panics"));
    Ok(outcome)
}

struct Client {
    stream: TcpStream,
    index: u32,
    /// After the start of the run.
    silent_after: Option<Duration>,
    random: fastrand::Rng,
    shared: Arc<Shared>,
    outcome: Arc<Mutex<ClientsOutcome>>,
}

impl Client {
    fn with<R>(&self, work: impl FnOnce(&mut ClientsOutcome) -> R) -> R {
        work(&mut self.outcome.lock().expect("no client panics"))
    }

    /// Speaks at once, as a client that connects has something to say. It also tells the server who
    /// this is.
    async fn live(mut self) {
        let mut number = 0;
        while !*self.shared.finishing.borrow() {
            if number > 0 && self.must_be_silent() {
                return self.be_silent().await;
            }
            number += 1;
            if !self.ask(number).await {
                return;
            }
            let Pace { least_pause, most_pause, .. } = self.shared.pace;
            let pause = least_pause + (most_pause - least_pause).mul_f64(self.random.f64());
            let (shared, mut byte) = (Arc::clone(&self.shared), [0]);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shared.is_finishing() => return,
                // Nothing comes now, unless the server ends the connection.
                _ = self.stream.peek(&mut byte) => {
                    let heard = self.hear().await;
                    return self.is_closed(heard);
                },
            }
        }
    }

    fn must_be_silent(&self) -> bool {
        let begun = self.shared.begun.get();
        self.silent_after.zip(begun).is_some_and(|(after, begun)| begun.elapsed() >= after)
    }

    async fn be_silent(&mut self) {
        self.with(|outcome| outcome.went_silent += 1);
        self.shared.silent.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(&self.shared);
        let heard = tokio::select! {
            heard = self.hear() => heard,
            () = shared.is_finishing() => {
                return self.with(|outcome| outcome.silent_not_reaped += 1);
            }
        };
        match heard {
            Some(Message { what: What::Reaped, .. }) => _ = self.shared.silent.fetch_sub(1, Ordering::Relaxed),
            heard => self.is_closed(heard),
        }
    }

    /// Sends a request, and waits for its answer. Returns false if the server ends the connection.
    async fn ask(&mut self, number: u32) -> bool {
        let message = Message { client: self.index, number, what: What::Request };
        let sent = self.stream.write_all(&message.bytes()).await;
        let limit = REQUEST_TIMEOUT;
        let (recorder, due) = (Arc::clone(&self.shared.recorder), Instant::now() + limit);
        let deadline = self.shared.timer.schedule(limit, move || recorder.fired(Kind::Socket, due, Instant::now()));
        let heard = if sent.is_ok() { self.hear().await } else { None };
        let (accepted, cancelled) = (deadline.is_ok(), deadline.is_ok_and(|deadline| deadline.cancel()));
        self.with(|outcome| {
            count_schedule(&mut outcome.counts, accepted);
            outcome.counts.cancelled += u64::from(cancelled);
        });
        if let Some(Message { what: What::Answer | What::Late, number: of, .. }) = heard
            && of == number
        {
            self.shared.answers.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        self.is_closed(heard);
        false
    }

    /// Returns the server's next message, or `None` if there is none.
    async fn hear(&mut self) -> Option<Message> {
        let mut bytes = [0; LENGTH];
        self.stream.read_exact(&mut bytes).await.ok()?;
        Some(Message::read(bytes))
    }

    /// The server has ended the connection, with this as its last word.
    fn is_closed(&self, last: Option<Message>) {
        self.with(|outcome| match last {
            Some(Message { what: What::Reaped, .. }) => outcome.late_themselves += 1,
            last => outcome.closed_why.push(format!("client {} heard {last:?}", self.index)),
        });
    }
}
