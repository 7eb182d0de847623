//! A server that is one loop: it takes in a batch, goes through it, goes through what has come up,
//! and sends the replies as a batch. Each timer of a session is one of the system's.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use crossbeam_utils::atomic::AtomicCell;
use rustc_hash::FxBuildHasher;
use slab::Slab;
use tokio::net::UdpSocket;
use tokio::task::{coop, yield_now};

use super::books::{Books, Phase};
use super::control::Stage;
use super::protocol::{Alarms, Kind, Protocol, Session, Step};
use super::socket::{BATCH, Datagram, Outgoing, poll_receive};
use super::timers::{Of, Timers};
use super::{Plan, Served};
use crate::duration::Epoch;

#[derive(Debug)]
struct Server<T> {
    socket: UdpSocket,
    timers: T,
    table: Table,
    protocol: Protocol,
    books: Books,
    clock: Epoch,
    out: Outgoing,
    received: Vec<(Datagram, SocketAddrV4)>,
    due: Vec<Of>,
}

/// Serves until the stage is over.
///
/// # Errors
///
/// If the runtime refuses the socket, or the timers can't be had.
pub(super) async fn serve<T: Timers>(stage: Stage, plan: Plan) -> Result<Served> {
    let Stage { socket, phase, over } = stage;
    let mut server = Server {
        socket: UdpSocket::from_std(socket).context("the runtime refuses the socket")?,
        timers: T::start(plan.sessions)?,
        table: Table::with_capacity(plan.sessions),
        protocol: plan.protocol,
        books: Books::new(),
        clock: Epoch::start(),
        out: Outgoing::new(),
        received: Vec::with_capacity(BATCH),
        due: Vec::new(),
    };
    // The runtime would have it rest after 128 timers.
    coop::unconstrained(server.run(plan.sessions, &phase, over)).await;
    Ok(Served { books: server.books, left: server.table.places.len(), refused: server.out.refused() })
}

impl<T: Timers> Server<T> {
    async fn run(&mut self, sessions: usize, phase: &AtomicCell<Phase>, mut over: impl Future + Unpin) {
        while poll_fn(|context| self.wait(context, &mut over)).await {
            self.books.follow(phase, self.table.places.len() >= sessions);
            self.go_through_what_came();
            self.go_through_what_is_due();
            self.out.flush(&self.socket);
            if self.received.len() == BATCH {
                // More is there, perhaps. The runtime looks for what is due in between.
                yield_now().await;
            }
        }
        self.books.follow(phase, true);
    }

    /// Waits until something has come in or up. Returns false when all is over.
    fn wait(&mut self, context: &mut Context<'_>, over: &mut (impl Future + Unpin)) -> Poll<bool> {
        if Pin::new(over).poll(context).is_ready() {
            return Poll::Ready(false);
        }
        self.timers.come_up(context, &mut self.due);
        self.received.clear();
        poll_receive(&self.socket, context, |datagram, from| self.received.push((datagram, from)));
        if self.received.is_empty() && self.due.is_empty() { Poll::Pending } else { Poll::Ready(true) }
    }

    fn go_through_what_came(&mut self) {
        if self.received.is_empty() {
            return;
        }
        let (now, now_ns) = self.now();
        for at in 0..self.received.len() {
            let (request, from) = self.received[at];
            let place = self.table.find_or_open(request.connection, from);
            let mut alarms = Placed { timers: &mut self.timers, place, now };
            let session = self.table.at(place);
            let step = session.take_in(self.protocol, request, now_ns, &mut self.books, &mut alarms);
            self.carry_out(step, place);
        }
    }

    fn go_through_what_is_due(&mut self) {
        if self.due.is_empty() {
            return;
        }
        let (now, now_ns) = self.now();
        let mut due = std::mem::take(&mut self.due);
        for of in due.drain(..) {
            let place = of.place();
            let mut alarms = Placed { timers: &mut self.timers, place, now };
            // Another timer of the session may have closed it just now.
            let Some(session) = self.table.sessions.get_mut(place as usize) else { continue };
            let step = session.come_up(of.kind(), now_ns, &mut self.books, &mut alarms);
            self.carry_out(step, place);
        }
        self.due = due;
    }

    fn carry_out(&mut self, step: Step, place: u32) {
        match step {
            Step::Nothing => {}
            Step::Send(reply) => {
                self.out.push(reply, self.table.at(place).peer);
                if self.out.is_full() {
                    self.out.flush(&self.socket);
                }
            }
            Step::Close => {
                self.timers.forget(place);
                self.table.close(place);
            }
        }
    }

    fn now(&self) -> (Instant, u64) {
        let now = Instant::now();
        (now, self.clock.nanos(now))
    }
}

/// The timers of one session.
struct Placed<'a, T> {
    timers: &'a mut T,
    place: u32,
    now: Instant,
}

impl<T: Timers> Alarms for Placed<'_, T> {
    fn arm(&mut self, kind: Kind, delay: Duration) {
        self.timers.arm(Of::new(self.place, kind), delay, self.now + delay);
    }

    fn cancel(&mut self, kind: Kind) {
        self.timers.cancel(Of::new(self.place, kind));
    }
}

/// The sessions of a server, found by their connection ids. A place that a session has left is the
/// next one's.
#[derive(Debug)]
struct Table {
    places: HashMap<u64, u32, FxBuildHasher>,
    sessions: Slab<Session>,
}

impl Table {
    fn with_capacity(sessions: usize) -> Self {
        let places = HashMap::with_capacity_and_hasher(sessions, FxBuildHasher);
        Self { places, sessions: Slab::with_capacity(sessions) }
    }

    /// Returns the place of a connection. A new one gets a session.
    fn find_or_open(&mut self, connection: u64, peer: SocketAddrV4) -> u32 {
        *self.places.entry(connection).or_insert_with(|| {
            let place = self.sessions.insert(Session::new(connection, peer));
            u32::try_from(place).expect("sessions are counted by 32 bits")
        })
    }

    fn at(&mut self, place: u32) -> &mut Session {
        &mut self.sessions[place as usize]
    }

    fn close(&mut self, place: u32) {
        self.places.remove(&self.sessions.remove(place as usize).connection());
    }
}
