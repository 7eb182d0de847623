//! What timeouts are for, and what callers did with those of each kind.

use std::ops::AddAssign;

/// What a timeout is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One of the timeouts without sockets.
    Population,
    /// A connection's idle timeout.
    Idle,
    /// The server's deadline for a request.
    Request,
    /// The end of the work step between request and answer.
    Work,
    /// The client's deadline for the answer.
    Answer,
}

/// Number of [`Kind`]s.
pub(super) const KINDS: usize = 5;

/// What callers did with the timeouts of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Accepted by the engine.
    pub(super) scheduled: u64,
    /// Refused by it.
    pub(super) refused: u64,
    /// `cancel` returned true.
    pub(super) cancelled: u64,
    /// `reset` returned true.
    pub(super) reset: u64,
}

impl Account {
    /// Counts the answer of a `schedule`.
    pub(super) fn schedule(&mut self, accepted: bool) {
        *(if accepted { &mut self.scheduled } else { &mut self.refused }) += 1;
    }
}

/// An account for each kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Accounts(pub(super) [Account; KINDS]);

impl Accounts {
    pub(super) fn of(&mut self, kind: Kind) -> &mut Account {
        &mut self.0[kind as usize]
    }

    pub(super) fn total(&self) -> Account {
        let mut sum = Account::default();
        self.0.iter().for_each(|account| sum += *account);
        sum
    }
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.refused += other.refused;
        self.cancelled += other.cancelled;
        self.reset += other.reset;
    }
}

impl AddAssign for Accounts {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, account)| *sum += account);
    }
}
