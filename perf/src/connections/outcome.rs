//! What the two ends of the sockets saw, each by its own account.

use super::counters::Accounts;

/// What the server counted.
#[derive(Debug, Default)]
pub(crate) struct ServerOutcome {
    pub(crate) accounts: Accounts,
    pub(crate) accepted: u64,
    pub(crate) requests: u64,
    /// Answers written within the deadline, and those that say it had passed.
    pub(crate) answered: u64,
    pub(crate) answered_late: u64,
    /// Connections closed for their idle timeout.
    pub(crate) reaped: u64,
    /// Of them: closed before the timeout was over.
    pub(crate) reaped_early: u64,
    /// The idle timeout had fired, but a message lay unread in the socket.
    pub(crate) rescued: u64,
    /// The idle timeout had fired, but a request was being worked on.
    pub(crate) kept_at_work: u64,
    /// Connections still open when patience ended.
    pub(crate) left_open: u64,
    /// What it saw of connections that broke or were closed before the run was over.
    pub(crate) broken: Vec<String>,
}

impl ServerOutcome {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.accounts += other.accounts;
        self.accepted += other.accepted;
        self.requests += other.requests;
        self.answered += other.answered;
        self.answered_late += other.answered_late;
        self.reaped += other.reaped;
        self.reaped_early += other.reaped_early;
        self.rescued += other.rescued;
        self.kept_at_work += other.kept_at_work;
        self.left_open += other.left_open;
        self.broken.extend_from_slice(&other.broken);
    }
}

/// What the clients saw.
#[derive(Debug, Default)]
pub(crate) struct ClientsOutcome {
    pub(crate) accounts: Accounts,
    pub(crate) opened: u64,
    pub(crate) sent: u64,
    pub(crate) answers: u64,
    pub(crate) late_answers: u64,
    pub(crate) went_silent: u64,
    /// Silent, and reaped: as it should be.
    pub(crate) silent_reaped: u64,
    /// Silent, and still open at the end.
    pub(crate) silent_not_reaped: u64,
    /// Reaped although they had spoken in time by their own record, or were waiting for an answer.
    pub(crate) wrongly_reaped: u64,
    /// Reaped because they had spoken too late themselves: this machine was too busy.
    pub(crate) late_themselves: u64,
    /// Closed by the server for no reason it gave.
    pub(crate) closed_without_reason: u64,
    /// What the clients saw of them.
    pub(crate) closed_why: Vec<String>,
}

impl ClientsOutcome {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.accounts += other.accounts;
        self.opened += other.opened;
        self.sent += other.sent;
        self.answers += other.answers;
        self.late_answers += other.late_answers;
        self.went_silent += other.went_silent;
        self.silent_reaped += other.silent_reaped;
        self.silent_not_reaped += other.silent_not_reaped;
        self.wrongly_reaped += other.wrongly_reaped;
        self.late_themselves += other.late_themselves;
        self.closed_without_reason += other.closed_without_reason;
        self.closed_why.extend_from_slice(&other.closed_why);
    }
}
