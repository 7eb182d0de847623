//! W8: what the operations cost with more and more pending, and with more and more producers.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{FAR, Handle, batch, delay, handles, random, start};
use crate::compare::child::Metrics;
use crate::compare::job::Job;
use crate::compare::race::race;
use crate::compare::recorder::Recorder;
use crate::compare::systems::system::{Producer, System};
use crate::duration::nanos;

/// Times that each timeout is reset.
const RESETS: usize = 4;

/// Cancels a batch at random, schedules as many anew, resets as many at random; again and again.
pub(super) fn pending<S: System>(system: &S, job: &Job) -> Result<Metrics> {
    let (timeouts, due) = (job.timeouts(), job.delays());
    let batch = batch(timeouts);
    let rounds = job.operations().div_ceil(batch);
    let mut producer = system.producer()?;
    let task = Recorder::counting(0).stray();
    let mut random = random(0);
    let mut handles = handles::<S>(timeouts);
    for handle in &mut handles {
        producer.schedule(delay(&mut random, due), task, handle)?;
    }
    producer.flush()?;
    system.settle()?;

    let mut refused = 0;
    let [mut cancelling, mut scheduling, mut resetting] = [Duration::ZERO; 3];
    for _ in 0..rounds {
        // One of each stretch, so that none is cancelled twice; in any order.
        let stretch = timeouts / batch;
        let mut places: Vec<_> = (0..batch).map(|at| at * stretch + random.usize(..stretch)).collect();
        random.shuffle(&mut places);
        let delays: Vec<_> = (0..batch).map(|_| delay(&mut random, due)).collect();
        let others: Vec<_> = (0..batch).map(|_| random.usize(..timeouts)).collect();

        let since = Instant::now();
        for &place in &places {
            refused += usize::from(!producer.cancel(&mut handles[place]));
        }
        let cancelled = Instant::now();
        for (&place, &delay) in places.iter().zip(&delays) {
            producer.schedule(delay, task, &mut handles[place])?;
        }
        let scheduled = Instant::now();
        let deadline = scheduled + due[1];
        for &place in &others {
            refused += usize::from(!producer.reset(due[1], deadline, &mut handles[place]));
        }
        resetting += scheduled.elapsed();
        cancelling += cancelled - since;
        scheduling += scheduled - cancelled;
    }
    ensure!(refused == 0, "{refused} cancels and resets were refused, and none was due");
    let each = |time: Duration| nanos(time) as f64 / (rounds * batch) as f64;
    drop(handles);
    Ok(Metrics::of([
        ("schedule_ns", each(scheduling)),
        ("cancel_ns", each(cancelling)),
        ("reset_ns", each(resetting)),
        ("pending", timeouts as f64),
    ]))
}

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
