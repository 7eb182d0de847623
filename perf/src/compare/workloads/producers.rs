//! W8: how the operations get on with more and more producers, each with timeouts of its own.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::delays::{FAR, delay, random};
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::race::race;
use crate::compare::recorder::Recorder;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;

/// Of all producers together, so that the number pending stays the same.
const TIMEOUTS: usize = 800_000;
/// Times that each is reset.
const RESETS: usize = 4;
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Three races on one system each: schedule all, reset all some times over, cancel all.
pub(super) fn run<S: System>(job: &Job) -> Result<Metrics> {
    let each = job.sizes.of(TIMEOUTS).div_ceil(job.producers);
    let task = Recorder::counting(0).stray();
    let delays = |number: usize| {
        let mut random = random(number);
        (0..each).map(move |_| delay(&mut random, FAR[0], FAR[1]))
    };
    let start = || S::start(&job.plan(Some(job.producers * (each + 2))));
    let empty = |producer: &mut S::Producer| {
        let mut handles: Vec<<S::Producer as Producer>::Handle> = Vec::new();
        handles.resize_with(each, Default::default);
        handles.iter_mut().for_each(|handle| producer.reserve(handle));
        handles
    };
    let system = start()?;
    let scheduled = race(
        &system,
        job.producers,
        each,
        |producer, number| Ok((empty(producer), delays(number).collect::<Vec<_>>())),
        |producer, (handles, delays)| {
            for (handle, &delay) in handles.iter_mut().zip(&*delays) {
                producer.schedule(delay, task, handle)?;
            }
            Ok(())
        },
    )?;
    let filled = |system: &S, producer: &mut S::Producer, number| {
        let mut handles = empty(producer);
        for (handle, delay) in handles.iter_mut().zip(delays(number)) {
            producer.schedule(delay, task, handle)?;
        }
        producer.flush()?;
        system.settle()?;
        let mut order: Vec<usize> = (0..each).collect();
        random(number).shuffle(&mut order);
        anyhow::Ok((handles, order))
    };
    let system = start()?;
    let reset = race(
        &system,
        job.producers,
        each * RESETS,
        |producer, number| filled(&system, producer, number),
        |producer, (handles, order)| {
            let deadline = Instant::now() + KEEP_ALIVE;
            let mut refused = 0;
            for &place in order.iter().cycle().take(each * RESETS) {
                refused += usize::from(!producer.reset(KEEP_ALIVE, deadline, &mut handles[place]));
            }
            ensure!(refused == 0, "{refused} resets were refused, and none was due");
            Ok(())
        },
    )?;
    let system = start()?;
    let cancelled = race(
        &system,
        job.producers,
        each,
        |producer, number| filled(&system, producer, number),
        |producer, (handles, order)| {
            let mut refused = 0;
            for &place in &*order {
                refused += usize::from(!producer.cancel(&mut handles[place]));
            }
            ensure!(refused == 0, "{refused} cancels were refused, and none was due");
            Ok(())
        },
    )?;
    let mut metrics = Metrics::of([
        ("schedule_mops", scheduled.mops),
        ("cancel_mops", cancelled.mops),
        ("reset_mops", reset.mops),
        ("schedule_ns", scheduled.ns),
        ("cancel_ns", cancelled.ns),
        ("reset_ns", reset.ns),
    ]);
    metrics.notes = system.notes();
    Ok(metrics)
}
