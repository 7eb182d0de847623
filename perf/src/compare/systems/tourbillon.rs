//! Tourbillon itself, and its futures.

use std::future::ready;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use tourbillon::{Inline, Sleep, Timeout, Timer};

use super::system::{PATIENCE, Plan, Producer, System, poll_once};
use crate::compare::recorder::Task;

/// With its defaults.
pub(crate) type Pooled = Engine<false, 0>;
pub(crate) type TwoShards = Engine<false, 2>;
/// Expired timeouts run on the worker.
pub(crate) type OnWorker = Engine<true, 0>;

/// With so many shards, or as many as it has by default if that is none.
#[derive(Debug)]
pub(crate) struct Engine<const INLINE: bool, const SHARDS: usize>(Timer);

impl<const INLINE: bool, const SHARDS: usize> System for Engine<INLINE, SHARDS> {
    type Producer = Thread;

    fn start(plan: &Plan) -> Result<Self> {
        let mut builder = Timer::builder().tick_duration(plan.tick);
        if let Some(capacity) = plan.capacity {
            // The entries that each thread keeps for itself, and its marker.
            builder = builder.capacity(capacity + 256 * (plan.producers + 1));
        }
        if SHARDS > 0 {
            builder = builder.shards(SHARDS);
        }
        if INLINE {
            builder = builder.executor(Inline);
        }
        Ok(Self(builder.build().context("the engine refused its options")?))
    }

    fn producer(&self) -> Result<Thread> {
        Ok(Thread(self.0.clone()))
    }

    fn settle(&self) -> Result<()> {
        nudge(&self.0)?;
        let limit = Instant::now() + PATIENCE;
        while self.0.stats().inbox_depth > 0 {
            ensure!(
                Instant::now() < limit,
                "{} timeouts are still in the engine's inboxes after {} s",
                self.0.stats().inbox_depth,
                PATIENCE.as_secs()
            );
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let stats = self.0.stats();
        let pinned =
            stats.shards.iter().map(|shard| shard.pinned_to.map_or("none".to_owned(), |core| core.to_string()));
        let pinned: Vec<_> = pinned.collect();
        vec![format!("shards {}, workers pinned to {}", self.0.shards(), pinned.join(" "))]
    }
}

/// Gives the calling thread's shard something that is due, so that its worker wakes: a worker that
/// sleeps until a far deadline leaves what is no earlier in its inbox until then.
fn nudge(timer: &Timer) -> Result<()> {
    timer.schedule_detached(Duration::ZERO, || ()).map_err(|why| anyhow!("the engine refused a timeout: {why}"))
}

/// A thread that schedules.
#[derive(Debug)]
pub(crate) struct Thread(Timer);

impl Producer for Thread {
    type Handle = Option<Timeout>;

    #[inline]
    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let timeout = self.0.schedule(delay, move || task.run());
        *handle = Some(timeout.map_err(|_| anyhow!("the engine refused a timeout"))?);
        Ok(())
    }

    #[inline]
    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let timeout = self.0.schedule_at(deadline, move || task.run());
        *handle = Some(timeout.map_err(|_| anyhow!("the engine refused a timeout"))?);
        Ok(())
    }

    #[inline]
    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().is_some_and(Timeout::cancel_owned)
    }

    #[inline]
    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        handle.as_ref().is_some_and(|timeout| timeout.reset(delay))
    }

    fn flush(&mut self) -> Result<()> {
        nudge(&self.0)
    }
}

/// Its futures. A sleep may be polled where it lies, so that the handle is the future itself.
#[derive(Debug)]
pub(crate) struct Sleeps(Timer);

impl System for Sleeps {
    type Producer = Poller;

    fn start(plan: &Plan) -> Result<Self> {
        Pooled::start(plan).map(|engine| Self(engine.0))
    }

    fn producer(&self) -> Result<Poller> {
        Ok(Poller(self.0.clone()))
    }

    fn settle(&self) -> Result<()> {
        // Nothing but what was dropped waits for the worker.
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Poller(Timer);

impl Producer for Poller {
    type Handle = Option<Sleep>;

    fn schedule(&mut self, delay: Duration, _task: Task, handle: &mut Self::Handle) -> Result<()> {
        let sleep = handle.insert(self.0.sleep(delay));
        ensure!(poll_once(sleep).is_pending(), "a sleep of {delay:?} is over at once");
        Ok(())
    }

    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        handle.take().is_some()
    }

    fn reset(&mut self, _delay: Duration, deadline: Instant, handle: &mut Self::Handle) -> bool {
        let Some(sleep) = handle else { return false };
        sleep.reset_at(deadline);
        true
    }

    fn limit_ready(&mut self, limit: Duration) -> bool {
        poll_once(self.0.timeout(limit, ready(()))).is_ready()
    }
}
