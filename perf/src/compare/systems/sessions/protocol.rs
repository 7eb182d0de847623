//! The protocol of a session: it arms and cancels timers at a datagram, and acts when one is due.
//! It knows neither the timers nor the sockets.

use std::net::SocketAddrV4;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::books::Books;
use super::socket::Datagram;

/// The timers that a session may have, as QUIC has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The reply waits for its turn on the wire: 1 to 50 ms.
    Pacing,
    /// The reply was not acknowledged: it is sent again.
    Loss,
    /// The peer has gone: the session ends.
    Idle,
}

pub(super) const KINDS: [Kind; 3] = [Kind::Pacing, Kind::Loss, Kind::Idle];

/// How much a session asks of its timers, and how long they run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Protocol {
    /// Timer operations of a request: 0, 1 (idle pushed out), or 4 (and the reply paced, and the
    /// loss timer cancelled and set again).
    pub(crate) timers: usize,
    pub(crate) idle: Duration,
}

/// The delays of pacing: evenly from the one to the other.
const PACING_US: std::ops::RangeInclusive<u64> = 1_000..=50_000;
const LOSS: Duration = Duration::from_millis(50);
/// The loss timer backs off: this often doubled at most.
const DOUBLINGS: u32 = 5;

/// Where a session arms and cancels its timers. A timer that is armed again is moved.
pub(super) trait Alarms {
    fn arm(&mut self, kind: Kind, delay: Duration);

    /// The timer comes up no more, or the session is told and finds that it is not armed.
    fn cancel(&mut self, kind: Kind);
}

/// A step that a session asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    Send(Datagram),
    Close,
}

/// The state of a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Session {
    pub(super) peer: SocketAddrV4,
    /// The request that was taken in last, which is the reply, too.
    newest: Datagram,
    /// By the kind of the timer: when it is due, or zero if it is not armed.
    deadlines_ns: [u64; KINDS.len()],
    resent: u32,
}

impl Session {
    pub(super) fn new(connection: u64, peer: SocketAddrV4) -> Self {
        let newest = Datagram { connection, number: 0, cookie: 0, last: true };
        Self { peer, newest, deadlines_ns: [0; KINDS.len()], resent: 0 }
    }

    pub(super) fn connection(&self) -> u64 {
        self.newest.connection
    }

    /// Returns when the first of its timers is due.
    pub(super) fn earliest_ns(&self) -> Option<u64> {
        self.deadlines_ns.iter().copied().filter(|&at| at > 0).min()
    }

    /// Returns the timers that are due.
    pub(super) fn due(&self, now_ns: u64) -> impl Iterator<Item = Kind> + use<> {
        let deadlines = self.deadlines_ns;
        KINDS.into_iter().filter(move |&kind| (1..=now_ns).contains(&deadlines[kind as usize]))
    }

    pub(super) fn take_in(
        &mut self,
        of: Protocol,
        request: Datagram,
        now_ns: u64,
        books: &mut Books,
        alarms: &mut impl Alarms,
    ) -> Step {
        if request.number == self.newest.number {
            // Either the reply is on its way, or it was lost.
            books.now.duplicates += 1;
            return if self.is_armed(Kind::Pacing) { Step::Nothing } else { Step::Send(self.newest) };
        }
        books.now.requests += 1;
        self.newest = request;
        self.resent = 0;
        if of.timers >= 1 {
            self.arm(Kind::Idle, of.idle, now_ns, alarms);
        }
        if of.timers >= 4 {
            self.deadlines_ns[Kind::Loss as usize] = 0;
            alarms.cancel(Kind::Loss);
            self.arm(Kind::Pacing, pacing(request), now_ns, alarms);
            return Step::Nothing;
        }
        books.now.replies += 1;
        Step::Send(request)
    }

    /// A timer has come up. It may have been cancelled or moved since, if its system learns of that
    /// late.
    pub(super) fn come_up(&mut self, kind: Kind, now_ns: u64, books: &mut Books, alarms: &mut impl Alarms) -> Step {
        let deadline_ns = self.deadlines_ns[kind as usize];
        // No session moves its pacing timer, so that one before its time is early indeed.
        if deadline_ns == 0 || (now_ns < deadline_ns && kind != Kind::Pacing) {
            books.now.stale += 1;
            return Step::Nothing;
        }
        self.deadlines_ns[kind as usize] = 0;
        match kind {
            Kind::Pacing => {
                books.paced(now_ns, deadline_ns);
                if !self.newest.last {
                    self.arm(Kind::Loss, LOSS, now_ns, alarms);
                }
                Step::Send(self.newest)
            }
            Kind::Loss => {
                books.now.resent += 1;
                self.resent = (self.resent + 1).min(DOUBLINGS);
                let delay = LOSS * 2u32.pow(self.resent);
                self.arm(Kind::Loss, delay, now_ns, alarms);
                Step::Send(self.newest)
            }
            Kind::Idle => {
                books.now.closed += 1;
                books.now.dropped += u64::from(self.is_armed(Kind::Pacing));
                Step::Close
            }
        }
    }

    fn arm(&mut self, kind: Kind, delay: Duration, now_ns: u64, alarms: &mut impl Alarms) {
        self.deadlines_ns[kind as usize] = now_ns + crate::duration::nanos(delay);
        alarms.arm(kind, delay);
    }

    pub(super) fn is_armed(&self, kind: Kind) -> bool {
        self.deadlines_ns[kind as usize] > 0
    }
}

/// As by chance, and the same in each run.
fn pacing(request: Datagram) -> Duration {
    let mixed = fastrand::Rng::with_seed(request.connection ^ u64::from(request.number)).u64(PACING_US);
    Duration::from_micros(mixed)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Notes what it is asked for.
    #[derive(Default)]
    struct Notes(Vec<(char, Kind)>);

    impl Alarms for Notes {
        fn arm(&mut self, kind: Kind, _delay: Duration) {
            self.0.push(('+', kind));
        }

        fn cancel(&mut self, kind: Kind) {
            self.0.push(('-', kind));
        }
    }

    const MS: u64 = 1_000_000;

    fn of(timers: usize) -> Protocol {
        Protocol { timers, idle: Duration::from_secs(30) }
    }

    fn request(number: u32, last: bool) -> Datagram {
        Datagram { connection: 7, number, cookie: 1, last }
    }

    fn session() -> Session {
        Session::new(7, SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1))
    }

    #[test]
    fn each_request_takes_as_many_timer_operations_as_its_level_says() {
        for timers in [0, 1, 4] {
            let (mut session, mut books, mut notes) = (session(), Books::new(), Notes::default());
            let step = session.take_in(of(timers), request(1, false), MS, &mut books, &mut notes);
            assert_eq!(step == Step::Nothing, timers >= 4, "{timers}");
            if timers >= 4 {
                let step = session.come_up(Kind::Pacing, 60 * MS, &mut books, &mut notes);
                assert_eq!(step, Step::Send(request(1, false)));
            }
            assert_eq!(notes.0.len(), timers);
            assert_eq!((books.now.requests, books.now.replies, books.now.early), (1, 1, 0));
        }
    }

    #[test]
    fn an_acknowledged_reply_is_not_sent_again_and_a_lost_one_is() {
        let (mut session, mut books, mut notes) = (session(), Books::new(), Notes::default());
        session.take_in(of(4), request(1, false), MS, &mut books, &mut notes);
        session.come_up(Kind::Pacing, 60 * MS, &mut books, &mut notes);
        let step = session.come_up(Kind::Loss, 111 * MS, &mut books, &mut notes);
        assert_eq!((step, books.now.resent), (Step::Send(request(1, false)), 1));
        session.take_in(of(4), request(2, true), 120 * MS, &mut books, &mut notes);
        let step = session.come_up(Kind::Loss, 300 * MS, &mut books, &mut notes);
        assert_eq!((step, books.now.resent, books.now.stale), (Step::Nothing, 1, 1));
        session.come_up(Kind::Pacing, 300 * MS, &mut books, &mut notes);
        assert!(!session.is_armed(Kind::Loss), "nothing follows the last request that would acknowledge the reply");
    }

    #[test]
    fn a_request_that_comes_twice_is_answered_once_unless_its_reply_was_sent() {
        let (mut session, mut books, mut notes) = (session(), Books::new(), Notes::default());
        for _ in 0..2 {
            assert_eq!(session.take_in(of(4), request(1, true), MS, &mut books, &mut notes), Step::Nothing);
        }
        let early = session.come_up(Kind::Pacing, MS, &mut books, &mut notes);
        assert_eq!((early, books.now.early), (Step::Send(request(1, true)), 1));
        let again = session.take_in(of(4), request(1, true), 60 * MS, &mut books, &mut notes);
        assert_eq!((again, books.now.replies, books.now.duplicates), (Step::Send(request(1, true)), 1, 2));
    }
}
