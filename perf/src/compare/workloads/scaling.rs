//! W8: what the operations cost with more and more pending, and with more and more producers.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::loops::schedule;
use super::{FAR, Handle, delay, handles, random, start};
use crate::compare::child::Metrics;
use crate::compare::job::Job;
use crate::compare::race::{Lap, race};
use crate::compare::recorder::Recorder;
use crate::compare::systems::system::{Producer, System};

/// Times that each timeout is reset.
const RESETS: usize = 4;

/// A race on a system of its own, in which each producer has its timeouts and an order in which it
/// goes through them.
fn filled<S: System>(
    job: &Job,
    each: usize,
    operations_each: usize,
    work: impl Fn(&mut S::Producer, &mut (Vec<Handle<S>>, Vec<usize>)) -> Result<()> + Sync,
) -> Result<Lap> {
    let system = start::<S>(job)?;
    let task = Recorder::counting(0).stray();
    let prepare = |producer: &mut S::Producer, number| {
        let mut random = random(number);
        let mut handles = handles::<S>(each);
        for handle in &mut handles {
            producer.reserve(handle);
            producer.schedule(delay(&mut random, FAR), task, handle)?;
        }
        producer.flush()?;
        system.settle()?;
        let mut order: Vec<usize> = (0..each).collect();
        random.shuffle(&mut order);
        Ok((handles, order))
    };
    race(&system, job.producers, operations_each, prepare, work)
}

/// Three races on one system each, with as many timeouts whatever the number of producers: schedule
/// all, reset all some times over, cancel all.
pub(super) fn producers<S: System>(system: &S, job: &Job) -> Result<Metrics> {
    let each = job.timeouts().div_ceil(job.producers);
    let scheduled = schedule(system, job.producers, each, FAR, true)?;
    let reset = filled::<S>(job, each, each * RESETS, |producer, (handles, order)| {
        let deadline = Instant::now() + FAR[1];
        let order = order.iter().cycle().take(each * RESETS);
        let refused = order.filter(|&&place| !producer.reset(FAR[1], deadline, &mut handles[place])).count();
        ensure!(refused == 0, "{refused} resets were refused, and none was due");
        Ok(())
    })?;
    let cancelled = filled::<S>(job, each, each, |producer, (handles, order)| {
        let refused = order.iter().filter(|&&place| !producer.cancel(&mut handles[place])).count();
        ensure!(refused == 0, "{refused} cancels were refused, and none was due");
        Ok(())
    })?;
    Ok(Metrics::of([
        ("schedule_mops", scheduled.mops),
        ("cancel_mops", cancelled.mops),
        ("reset_mops", reset.mops),
        ("schedule_ns", scheduled.ns),
        ("cancel_ns", cancelled.ns),
        ("reset_ns", reset.ns),
    ]))
}
