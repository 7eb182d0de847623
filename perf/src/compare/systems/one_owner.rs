//! Systems with one owner, which shares nothing: each producer has one of its own, and turns it.

use std::marker::PhantomData;
use std::thread;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::system::{Plan, Producer, System};
use crate::compare::recorder::Recorder;

/// A timer that a producer has to itself.
pub(crate) trait Owner: Producer + Sized + 'static {
    fn new(plan: &Plan) -> Result<Self>;
}

/// As many of these as there are producers.
#[derive(Debug)]
pub(crate) struct OneEach<O>(Plan, PhantomData<fn() -> O>);

impl<O: Owner> System for OneEach<O> {
    type Producer = O;

    fn start(plan: &Plan) -> Result<Self> {
        Ok(Self(*plan, PhantomData))
    }

    fn producer(&self) -> Result<O> {
        O::new(&self.0)
    }

    /// Each owner has already taken in its timeouts.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

/// The event loop of these: `turn` runs what is due by then, and returns the next deadline, until
/// which the thread sleeps.
pub(crate) fn turn_until_done(
    recorder: &Recorder,
    limit: Instant,
    mut turn: impl FnMut(Instant) -> Option<Instant>,
) -> Result<()> {
    while !recorder.done() {
        let now = Instant::now();
        ensure!(now < limit, "not all timeouts have run in time");
        // When the last has run there is nothing to sleep for.
        if let Some(next) = turn(now)
            && !recorder.done()
        {
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
    Ok(())
}

/// An event loop reads the clock once in so many operations.
const ROUND: u32 = 16;

/// A clock that is read once a round.
#[derive(Debug)]
pub(crate) struct RoundClock {
    now: Instant,
    operations: u32,
}

impl RoundClock {
    pub(crate) fn new() -> Self {
        Self { now: Instant::now(), operations: 0 }
    }

    /// Returns the time of this round, for one operation.
    #[inline]
    pub(crate) fn now(&mut self) -> Instant {
        if self.operations.is_multiple_of(ROUND) {
            self.now = Instant::now();
        }
        self.operations = self.operations.wrapping_add(1);
        self.now
    }
}
