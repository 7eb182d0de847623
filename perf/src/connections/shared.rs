//! What the two ends of the sockets share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::sync::watch;
use tourbillon::Timer;

use super::recorder::Recorder;

/// What the two ends of the sockets share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) timer: Timer,
    pub(super) recorder: Arc<Recorder>,
    /// The start of the run: clients go silent from now on.
    pub(super) begun: OnceLock<Instant>,
    /// Clients are to send no more, and to close.
    pub(super) finishing: watch::Receiver<bool>,
    pub(super) accepted: AtomicU64,
    pub(super) answers: AtomicU64,
    /// Clients that are silent and have not been reaped.
    pub(super) silent: AtomicU64,
    pub(super) reaped: AtomicU64,
}

impl Shared {
    /// Ends when the run does.
    pub(super) async fn is_finishing(&self) {
        let _ = self.finishing.clone().wait_for(|finishing| *finishing).await;
    }
}
