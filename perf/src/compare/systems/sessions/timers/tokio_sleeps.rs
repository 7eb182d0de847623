//! Tokio's timers: a `Sleep` for each timer, made once and reset from then on. Its waker names it
//! to the loop, so that no task stands between.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::time::{Sleep, sleep_until};

use super::due::{WakeHere, clear_here, push_here, take_here};
use super::{Of, Timers, forget, slot};

#[derive(Debug)]
pub(in super::super) struct Sleeps(Vec<Option<Entry>>);

#[derive(Debug)]
struct Entry {
    sleep: Pin<Box<Sleep>>,
    waker: Waker,
    /// Whether the sleep has the waker, which it gives up when it comes up.
    has_waker: bool,
}

impl Entry {
    fn register(&mut self, of: Of) {
        self.has_waker = self.sleep.as_mut().poll(&mut Context::from_waker(&self.waker)).is_pending();
        if !self.has_waker {
            // It is due already, and nothing will wake the loop.
            push_here(of);
        }
    }
}

impl Timers for Sleeps {
    const OF_TOKIO: bool = true;

    fn start(_sessions: usize) -> Result<Self> {
        clear_here();
        Ok(Self(Vec::new()))
    }

    fn arm(&mut self, of: Of, _delay: Duration, deadline: Instant) {
        match slot(&mut self.0, of) {
            Some(entry) => {
                entry.sleep.as_mut().reset(deadline.into());
                if !entry.has_waker {
                    entry.register(of);
                }
            }
            empty => {
                let (sleep, waker) = (Box::pin(sleep_until(deadline.into())), Waker::from(Arc::new(WakeHere(of))));
                empty.insert(Entry { sleep, waker, has_waker: false }).register(of);
            }
        }
    }

    fn forget(&mut self, place: u32) {
        forget(&mut self.0, place);
    }

    fn come_up(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>) {
        take_here(context, due);
        for &of in &*due {
            if let Some(entry) = slot(&mut self.0, of) {
                entry.has_waker = false;
            }
        }
    }
}
