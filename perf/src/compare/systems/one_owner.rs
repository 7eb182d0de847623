//! Systems with one owner, which shares nothing: each producer has one of its own, and turns it.

use std::marker::PhantomData;
use std::thread;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::plan::Plan;
use super::producer::Producer;
use super::system::System;
use crate::compare::recorder::Recorder;

/// What a producer has to itself.
pub(crate) trait Owner: Producer + Sized + 'static {
    fn new(plan: &Plan) -> Result<Self>;

    fn notes() -> Vec<String> {
        Vec::new()
    }
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

    /// What was scheduled is in it.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        O::notes()
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
