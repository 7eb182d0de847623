//! Cloudflare's pingora-timeout: a new timeout for each arming, as it has no reset. Its thread
//! wakes the loop.

use std::future::{Future, Pending, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use anyhow::Result;
use pingora_timeout::Timeout;
use pingora_timeout::fast_timeout::{FastOrTokioTimeout, fast_timeout};

use super::due::{Shared, WakeShared};
use super::{Of, Timers, forget, slot};

#[derive(Debug)]
pub(in super::super) struct Timeouts {
    entries: Vec<Option<Entry>>,
    shared: Shared,
}

struct Entry {
    timeout: Option<Timeout<Pending<()>, FastOrTokioTimeout>>,
    waker: Waker,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("waker", &self.waker).finish_non_exhaustive()
    }
}

impl Timers for Timeouts {
    const OF_TOKIO: bool = false;

    fn start(_sessions: usize) -> Result<Self> {
        Ok(Self { entries: Vec::new(), shared: Shared::default() })
    }

    fn arm(&mut self, of: Of, delay: Duration, _deadline: Instant) {
        let shared = &self.shared;
        let new = || Entry { timeout: None, waker: Waker::from(Arc::new(WakeShared(of, shared.clone()))) };
        let Entry { timeout, waker } = slot(&mut self.entries, of).get_or_insert_with(new);
        let timeout = timeout.insert(fast_timeout(delay, pending()));
        if Pin::new(timeout).poll(&mut Context::from_waker(waker)).is_ready() {
            shared.push(of);
        }
    }

    fn cancel(&mut self, of: Of) {
        if let Some(entry) = slot(&mut self.entries, of) {
            entry.timeout = None;
        }
    }

    fn forget(&mut self, place: u32) {
        forget(&mut self.entries, place);
    }

    fn come_up(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>) {
        self.shared.take(context, due);
    }
}
