//! The clients, all in one process and on one socket: they keep the sessions going, check each
//! reply, and send again what is lost.

use std::collections::VecDeque;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::socket::{BATCH, Datagram, Outgoing, open, receive};
use super::{Plan, Until};
use crate::process::CpuTime;

/// A request without a reply is sent again after this.
const PATIENCE: Duration = Duration::from_millis(500);
/// Sessions that are opened at the same time.
const OPENING: usize = 2_000;
/// How long the last replies are waited for.
const LAST: Duration = Duration::from_secs(5);
/// It looks this often whether it is time for the next request.
const LOOK: Duration = Duration::from_micros(250);

/// The clients' account of a run.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Seen {
    /// Requests that were sent for the first time.
    pub(super) requests: u64,
    pub(super) replies: u64,
    /// Requests that were sent again, as no reply came in time.
    pub(super) lost: u64,
    /// Replies that came once more.
    pub(super) again: u64,
    /// Datagrams that are no reply to anything.
    pub(super) wrong: u64,
    /// Requests without a reply, in the end.
    pub(super) unanswered: u64,
    pub(super) cpu_s: f64,
    pub(super) seconds: f64,
}

/// A session, from the client's side.
#[derive(Debug, Clone, Copy, Default)]
struct Session {
    number: u32,
    /// Requests left until it rests.
    left: u32,
    is_waiting: bool,
}

#[derive(Debug)]
struct Clients {
    socket: UdpSocket,
    server: SocketAddrV4,
    plan: Plan,
    sessions: Vec<Session>,
    out: Outgoing,
    /// Requests in the order in which they were sent, with the session.
    sent: VecDeque<(Instant, u32, u32)>,
    /// Sessions with a request under way.
    waiting: usize,
    /// Chains that have begun since all sessions are open.
    chains: u64,
    /// All sessions by chance: each has its turn before one has it again, and neighbours in the
    /// server's tables are no neighbours here.
    order: Vec<usize>,
    /// How many had their turn.
    turns: usize,
    seen: Seen,
}

/// Keeps the sessions going until `stop` can be read, or has ended, or until all requests are
/// answered.
pub(super) fn run(server: SocketAddrV4, plan: Plan, stop: impl AsFd) -> Result<Seen> {
    ensure!(plan.chain > 0 && plan.sessions > 0, "there is nothing to do");
    let (begin, cpu) = (Instant::now(), CpuTime::now());
    let mut clients = Clients {
        socket: open()?,
        server,
        plan,
        sessions: vec![Session::default(); plan.sessions],
        out: Outgoing::new(),
        sent: VecDeque::new(),
        waiting: 0,
        chains: 0,
        order: shuffled(plan.sessions),
        turns: 0,
        seen: Seen::default(),
    };
    clients.open_all(&stop)?;
    clients.go_on(&stop)?;
    clients.wait_for_the_last(&stop)?;
    let seen = clients.seen;
    let (cpu_s, seconds) = (CpuTime::now().since(cpu).total_s(), begin.elapsed().as_secs_f64());
    Ok(Seen { unanswered: clients.waiting as u64, cpu_s, seconds, ..seen })
}

impl Clients {
    /// One request of each session.
    fn open_all(&mut self, stop: &impl AsFd) -> Result<()> {
        let mut next = 0;
        while next < self.sessions.len() || self.waiting > 0 {
            while next < self.sessions.len() && self.waiting < OPENING {
                self.begin(next, 1);
                next += 1;
            }
            if self.turn(stop, LOOK)? {
                break;
            }
        }
        Ok(())
    }

    fn go_on(&mut self, stop: &impl AsFd) -> Result<()> {
        let begin = Instant::now();
        let opened = self.seen.requests;
        loop {
            if let Until::Requests(count) = self.plan.until
                && self.seen.requests - opened >= count as u64
            {
                return Ok(());
            }
            let chains = |rate| begin.elapsed().as_secs_f64() * rate / f64::from(self.plan.chain);
            let due = self.plan.rate.map_or(f64::INFINITY, chains);
            while self.waiting < self.plan.under_way && (self.chains as f64) < due && self.begin_next() {}
            if self.turn(stop, LOOK)? {
                return Ok(());
            }
        }
    }

    /// No more chains, and those that are under way end.
    fn wait_for_the_last(&mut self, stop: &impl AsFd) -> Result<()> {
        self.sessions.iter_mut().for_each(|session| session.left = 0);
        let limit = Instant::now() + LAST;
        while self.waiting > 0 && Instant::now() < limit {
            self.turn(stop, Duration::from_millis(1))?;
        }
        Ok(())
    }

    /// Begins a chain of the session whose turn it is. Returns false if so many are waiting that
    /// none is found.
    fn begin_next(&mut self) -> bool {
        for _ in 0..16 {
            let at = self.order[self.turns % self.order.len()];
            self.turns += 1;
            if !self.sessions[at].is_waiting {
                self.begin(at, self.plan.chain);
                self.chains += 1;
                return true;
            }
        }
        false
    }

    fn begin(&mut self, at: usize, requests: u32) {
        self.sessions[at].left = requests;
        self.request(at);
    }

    /// Sends a session's next request.
    fn request(&mut self, at: usize) {
        let session = &mut self.sessions[at];
        session.number += 1;
        session.left -= 1;
        session.is_waiting = true;
        self.waiting += 1;
        self.seen.requests += 1;
        self.send(at);
    }

    fn send(&mut self, at: usize) {
        let session = self.sessions[at];
        let cookie = u32::try_from(at).expect("sessions are counted by 32 bits");
        let last = session.left == 0;
        let datagram = Datagram { connection: connection(cookie), number: session.number, cookie, last };
        self.out.push(datagram, self.server);
        self.sent.push_back((Instant::now(), cookie, session.number));
        if self.out.is_full() {
            self.out.flush(&self.socket);
        }
    }

    /// Sends, takes in, and waits, at most as long as is said. Returns whether it is to stop.
    fn turn(&mut self, stop: &impl AsFd, limit: Duration) -> Result<bool> {
        self.out.flush(&self.socket);
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(limit.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        let is_over = !fds[1].revents().is_empty();
        self.take_in();
        self.send_again();
        Ok(is_over)
    }

    fn take_in(&mut self) {
        let mut replies = Vec::with_capacity(BATCH);
        // Bounded, so that the requests of the next chains are not late.
        for _ in 0..16 {
            let received = receive(&self.socket, |datagram, _| replies.push(datagram));
            for reply in replies.drain(..) {
                self.check(reply);
            }
            if !matches!(received, Ok(BATCH)) {
                return;
            }
        }
    }

    fn check(&mut self, reply: Datagram) {
        let at = reply.cookie as usize;
        let Some(session) = self.sessions.get_mut(at) else {
            self.seen.wrong += 1;
            return;
        };
        if reply.connection != connection(reply.cookie) || reply.number > session.number {
            self.seen.wrong += 1;
        } else if reply.number < session.number || !session.is_waiting {
            self.seen.again += 1;
        } else {
            session.is_waiting = false;
            self.waiting -= 1;
            self.seen.replies += 1;
            if session.left > 0 {
                self.request(at);
            }
        }
    }

    /// Requests whose reply has not come in time.
    fn send_again(&mut self) {
        while let Some(&(at, cookie, number)) = self.sent.front() {
            let session = self.sessions[cookie as usize];
            let is_answered = !session.is_waiting || session.number != number;
            if !is_answered && at.elapsed() < PATIENCE {
                return;
            }
            self.sent.pop_front();
            if !is_answered {
                self.seen.lost += 1;
                self.send(cookie as usize);
            }
        }
    }
}

/// The connection id of a session, as if drawn by chance.
fn connection(cookie: u32) -> u64 {
    fastrand::Rng::with_seed(cookie.into()).u64(..)
}

/// The numbers of so many sessions, in an order by chance, the same in each run.
fn shuffled(sessions: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sessions).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    order
}
