//! W8: what the operations cost with more and more pending, and with more and more producers.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::{FAR, Handle, delay, handles, random, start};
use crate::compare::child::Metrics;
use crate::compare::job::Job;
use crate::compare::race::race;
use crate::compare::recorder::Recorder;
use crate::compare::systems::system::{Producer, System};

/// Times that each timeout is reset.
const RESETS: usize = 4;

/// A producer's timeouts, and the order in which it goes through them.
fn filled<S: System>(
    system: &S,
    producer: &mut S::Producer,
    number: usize,
    each: usize,
) -> Result<(Vec<Handle<S>>, Vec<usize>)> {
    let task = Recorder::counting(0).stray();
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
}

/// Three races on one system each, with as many timeouts whatever the number of producers: schedule
/// all, reset all some times over, cancel all.
pub(super) fn producers<S: System>(system: &S, job: &Job) -> Result<Metrics> {
    let each = job.timeouts().div_ceil(job.producers);
    let task = Recorder::counting(0).stray();
    let scheduled = race(
        system,
        job.producers,
        each,
        |producer, number| {
            let mut random = random(number);
            let mut handles = handles::<S>(each);
            handles.iter_mut().for_each(|handle| producer.reserve(handle));
            Ok((handles, (0..each).map(|_| delay(&mut random, FAR)).collect::<Vec<_>>()))
        },
        |producer, (handles, delays)| {
            for (handle, &delay) in handles.iter_mut().zip(&*delays) {
                producer.schedule(delay, task, handle)?;
            }
            Ok(())
        },
    )?;
    let system = start::<S>(job)?;
    let reset = race(
        &system,
        job.producers,
        each * RESETS,
        |producer, number| filled(&system, producer, number, each),
        |producer, (handles, order)| {
            let deadline = Instant::now() + FAR[1];
            let order = order.iter().cycle().take(each * RESETS);
            let refused = order.filter(|&&place| !producer.reset(FAR[1], deadline, &mut handles[place])).count();
            ensure!(refused == 0, "{refused} resets were refused, and none was due");
            Ok(())
        },
    )?;
    let system = start::<S>(job)?;
    let cancelled = race(
        &system,
        job.producers,
        each,
        |producer, number| filled(&system, producer, number, each),
        |producer, (handles, order)| {
            let refused = order.iter().filter(|&&place| !producer.cancel(&mut handles[place])).count();
            ensure!(refused == 0, "{refused} cancels were refused, and none was due");
            Ok(())
        },
    )?;
    Ok(Metrics::of([
        ("schedule_mops", scheduled.mops),
        ("cancel_mops", cancelled.mops),
        ("reset_mops", reset.mops),
        ("schedule_ns", scheduled.ns),
        ("cancel_ns", cancelled.ns),
        ("reset_ns", reset.ns),
    ]))
}
