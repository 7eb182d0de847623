//! Whether a call may still commit, when the store gives it up.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// By this the store and the thread agree whether a call that the store gives up is committed.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<Stage>);

#[derive(Debug, Default)]
struct Stage {
    /// Nobody waits for the call any more. It must not commit.
    abandoned: bool,
    /// It has asked the server to commit.
    sent: bool,
}

impl Gate {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins.
    pub(super) fn open(&self) {
        *self.stage() = Stage::default();
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.stage().abandoned
    }

    /// Returns whether the call may commit now.
    pub(super) fn pass(&self) -> bool {
        let mut stage = self.stage();
        stage.sent |= !stage.abandoned;
        !stage.abandoned
    }

    /// Returns whether some of the call may be committed. No more of it will be.
    pub(super) fn abandon(&self) -> bool {
        let mut stage = self.stage();
        stage.abandoned = true;
        stage.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_given_up_commits_nothing_more() {
        let gate = Gate::default();
        assert!(!gate.abandon(), "nothing of it is committed");
        assert!(!gate.pass() && gate.is_abandoned());
        let gate = Gate::default();
        assert!(gate.pass());
        assert!(gate.abandon(), "some of it may be committed");
        assert!(!gate.pass());
    }
}
