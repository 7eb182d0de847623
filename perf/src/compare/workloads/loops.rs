//! W1, W2, W3 and W9: loops over operations, that several producers run at once.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Handle, delay, fill, handles, random};
use crate::compare::child::Metrics;
use crate::compare::job::Job;
use crate::compare::race::{Lap, race};
use crate::compare::recorder::Recorder;
use crate::compare::systems::system::{Producer, System};

/// Length of the random order of W3, which is gone through again and again: 1 MiB.
const ORDER: usize = 1 << 18;

/// For systems that are given the deadline: time goes on by this much with each operation.
const STEP: Duration = Duration::from_nanos(20);

/// W1, and the first part of W8: schedules so many on each producer, into memory that was reserved,
/// or never touched.
pub(super) fn schedule<S: System>(
    system: &S,
    producers: usize,
    each: usize,
    delays: [Duration; 2],
    reserved: bool,
) -> Result<Lap> {
    let task = Recorder::counting(0).stray();
    race(
        system,
        producers,
        each,
        |producer, number| {
            let mut random = random(number);
            let all: Vec<_> = (0..each).map(|_| delay(&mut random, delays)).collect();
            let mut handles = handles::<S>(each);
            if reserved {
                handles.iter_mut().for_each(|handle| producer.reserve(handle));
            }
            // Starts the threads, and whatever the system keeps for each of the callers'.
            let mut warm = Default::default();
            producer.schedule(delays[1], task, &mut warm)?;
            producer.cancel(&mut warm);
            Ok((all, handles))
        },
        |producer, (delays, handles)| {
            for (&delay, handle) in delays.iter().zip(handles) {
                producer.schedule(delay, task, handle)?;
            }
            Ok(())
        },
    )
}

/// W2: a million steps for each producer. Each step cancels the oldest timeout of its ring and
/// schedules a new one, as request deadlines do.
pub(super) fn ring<S: System>(system: &S, job: &Job) -> Result<Metrics> {
    let (length, steps, delay) = (job.timeouts(), job.operations(), job.delays()[0]);
    let task = Recorder::counting(0).stray();
    let turn = |producer: &mut S::Producer, ring: &mut [Handle<S>], steps: usize| {
        let (mut left, mut cancelled) = (steps, 0);
        while left > 0 {
            for handle in ring.iter_mut().take(left) {
                cancelled += usize::from(producer.cancel(handle));
                producer.schedule(delay, task, handle)?;
            }
            left = left.saturating_sub(length);
        }
        ensure!(cancelled == steps, "{} of {steps} were not cancelled, and none was due", steps - cancelled);
        Ok(())
    };
    race(
        system,
        job.producers,
        steps,
        |producer, _| {
            let mut ring = fill::<S>(producer, length, job.delays(), task)?;
            // As many as the ring is long, so that nothing happens for the first time in the race.
            turn(producer, &mut ring, length)?;
            Ok(ring)
        },
        |producer, ring| turn(producer, ring, steps),
    )
    .map(Metrics::from)
}

/// W3: four million resets for each producer, of its own 100,000 keep-alives at random, as packets
/// do.
pub(super) fn reset<S: System>(system: &S, job: &Job) -> Result<Metrics> {
    let (keep_alives, resets, keep_alive) = (job.timeouts(), job.operations(), job.delays()[0]);
    let task = Recorder::counting(0).stray();
    race(
        system,
        job.producers,
        resets,
        |producer, number| {
            let handles = fill::<S>(producer, keep_alives, job.delays(), task)?;
            // The race measures a reset in the wheel, where the timeout stays nearly always.
            producer.flush()?;
            system.settle()?;
            let mut random = random(number);
            let order: Vec<usize> = (0..ORDER).map(|_| random.usize(..keep_alives)).collect();
            Ok((handles, order))
        },
        |producer, (handles, order)| {
            let mut refused = 0;
            let mut deadline = Instant::now() + keep_alive;
            for &place in order.iter().cycle().take(resets) {
                deadline += STEP;
                refused += usize::from(!producer.reset(keep_alive, deadline, &mut handles[place]));
            }
            // Looked at, so that the loop is not for nothing; none of them can have fired.
            ensure!(refused == 0, "{refused} of {resets} resets were refused, and none was due");
            Ok(())
        },
    )
    .map(Metrics::from)
}

/// W9: two million times for each producer, a limit round a future that is ready at once, or a
/// sleep that is armed and dropped.
pub(super) fn future<S: System>(system: &S, job: &Job, ready: bool) -> Result<Metrics> {
    let (steps, limit) = (job.operations(), job.delays()[0]);
    let task = Recorder::counting(0).stray();
    let turn = |producer: &mut S::Producer, handle: &mut Handle<S>, steps| {
        let mut done = 0;
        for _ in 0..steps {
            done += usize::from(if ready {
                producer.limit_ready(limit)
            } else {
                producer.schedule(limit, task, handle)?;
                producer.cancel(handle)
            });
        }
        ensure!(done == steps, "{} of {steps} did not end as they should", steps - done);
        Ok(())
    };
    race(
        system,
        job.producers,
        steps,
        |producer, _| {
            let mut handle = Default::default();
            turn(producer, &mut handle, steps.min(1_000))?;
            Ok(handle)
        },
        |producer, handle| turn(producer, handle, steps),
    )
    .map(Metrics::from)
}
