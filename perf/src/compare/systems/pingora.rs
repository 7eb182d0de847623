//! Cloudflare's pingora-timeout: slots of 10 ms in a tree for each thread, and one thread that
//! fires them.

use std::future::{Pending, pending, ready};
use std::time::Duration;

use anyhow::Result;
use pingora_timeout::Timeout;
use pingora_timeout::fast_timeout::{FastOrTokioTimeout, fast_timeout, set_fast_timeout_to_tokio_threshold};

use super::futures::{Futures, Kind, is_ready_at_once};
use super::plan::Plan;

pub(crate) type Pingora = Futures<PingoraKind>;

#[derive(Debug)]
pub(crate) struct PingoraKind;

impl Kind for PingoraKind {
    type Future = Timeout<Pending<()>, FastOrTokioTimeout>;
    type Entered = ();

    /// What is longer than a quarter of an hour it would by default give to tokio, which is another
    /// row.
    fn start(_plan: &Plan) -> Result<Self> {
        set_fast_timeout_to_tokio_threshold(None);
        Ok(Self)
    }

    fn enter(&self) {}

    fn limit_ready(limit: Duration) -> bool {
        is_ready_at_once(fast_timeout(limit, ready(())))
    }

    fn after(delay: Duration) -> Self::Future {
        fast_timeout(delay, pending())
    }
}
