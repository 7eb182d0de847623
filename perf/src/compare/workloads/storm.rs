//! W4: how late timeouts are while threads schedule and cancel as fast as they can, beside a thread
//! that only sleeps until the same deadlines.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::delays::{delay, random};
use super::distribution::describe;
use crate::compare::job::Job;
use crate::compare::metrics::Metrics;
use crate::compare::recorder::{Lateness, Recorder, Task};
use crate::compare::systems::patience::PATIENCE;
use crate::compare::systems::producer::Producer;
use crate::compare::systems::system::System;
use crate::duration::nanos;

/// Pending timeouts of all producers together. A round cancels each and schedules another for it.
const TIMEOUTS: usize = 1_000_000;

/// Far enough that none of them expires.
const DELAY: Duration = Duration::from_secs(60);

/// The storm lasts at least this long, and one timeout is due in each step of it.
const LENGTH: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(1);

/// From the scheduling of those that will be due until the first of them is.
const AHEAD: Duration = Duration::from_millis(50);

/// How long after a timeout that ran twice would have run.
const AFTERWARDS: Duration = Duration::from_millis(20);

/// The sleeping thread's figures by those of the timeouts.
const ASLEEP: [(&str, &str); 4] = [
    ("p50_ms", "asleep_p50_ms"),
    ("p99_ms", "asleep_p99_ms"),
    ("p999_ms", "asleep_p999_ms"),
    ("max_ms", "asleep_max_ms"),
];

/// What the main thread holds of a producer. If either side fails, the other finds its channel
/// closed.
#[derive(Debug)]
struct Hand {
    /// Tells it to storm until then. Closed, it tells it to drop what it holds.
    until: Sender<Instant>,
    /// It answers when its timeouts are pending, and once more when its storm is over.
    answers: Receiver<Result<f64>>,
}

/// Each producer has its part of a million pending timeouts. Round after round it cancels each of
/// them and schedules another, while one of other timeouts is due in each millisecond.
pub(super) fn run<S: System>(job: &Job) -> Result<Metrics> {
    let each = job.sizes.of(TIMEOUTS).div_ceil(job.producers);
    let due = u32::try_from(job.time(LENGTH).as_nanos() / STEP.as_nanos())?;
    // What is cancelled keeps its memory until the system has taken it out.
    let system = S::start(&job.plan(Some(2 * job.producers * each + due as usize)))?;
    let recorder = Recorder::timing(due);
    let mut metrics = thread::scope(|scope| {
        let hand = |_| {
            let ((until, orders), (answer, answers)) = (channel(), channel());
            let system = &system;
            let body = move || {
                if let Err(why) = produce(system, each, recorder.stray(), &orders, &answer) {
                    // Nobody hears it only if the main thread has failed already.
                    let _ = answer.send(Err(why));
                }
            };
            thread::Builder::new().name("perf-producer".to_owned()).spawn_scoped(scope, body)?;
            anyhow::Ok(Hand { until, answers })
        };
        let hands = (0..job.producers).map(hand).collect::<Result<Vec<_>>>()?;
        hands.iter().try_for_each(|hand| hand.answer().map(drop))?;
        system.settle()?;

        let mut producer = system.producer()?;
        let deadlines = deadlines(Instant::now() + AHEAD, due);
        let mut handles: Vec<<S::Producer as Producer>::Handle> = Vec::with_capacity(due as usize);
        for (number, &deadline) in (0..).zip(&deadlines) {
            let delay = deadline.saturating_duration_since(Instant::now());
            let mut handle = Default::default();
            producer.fire(deadline, delay, recorder.task_due(number, deadline), &mut handle)?;
            handles.push(handle);
        }
        let last = *deadlines.last().context("a storm has to last")?;
        let sleeper = thread::Builder::new().name("perf-sleeper".to_owned());
        let sleeper = sleeper.spawn_scoped(scope, || sleep_through(deadlines))?;
        for hand in &hands {
            hand.until.send(last).context("a producer is gone")?;
        }
        let rates = hands.iter().map(Hand::answer).collect::<Result<Vec<f64>>>()?;
        // If not all have run, that is what there is to say about this system, and not an error.
        let waited = producer.wait(recorder, Instant::now() + PATIENCE / 2);
        thread::sleep(AFTERWARDS);
        let asleep = sleeper.join().map_err(|_| anyhow!("the thread that sleeps panicked"))?;
        let mut metrics = beside(&recorder.lateness(), asleep)?;
        metrics.values.push(("mops", rates.iter().sum()));
        metrics.notes.extend(waited.err().map(|why| why.to_string()));
        // Handles that are dropped may cancel: only now, here and in the producers.
        drop(handles);
        anyhow::Ok(metrics)
    })?;
    ensure!(recorder.strays() == 0, "{} ran, and none was due", recorder.strays());
    metrics.notes.extend(system.notes());
    Ok(metrics)
}

impl Hand {
    fn answer(&self) -> Result<f64> {
        self.answers.recv().context("a producer panicked")?
    }
}

/// One in each step from `start` on. Where in its step is random, so that a system with ticks does
/// not have all of them at the same place of a tick.
fn deadlines(start: Instant, count: u32) -> Vec<Instant> {
    let mut random = random(0);
    (0..count).map(|step| start + STEP * step + delay(&mut random, Duration::ZERO, STEP)).collect()
}

/// A producer. It answers 0 when its timeouts are pending, and then the rate of its storm: millions
/// a second, each a cancel and a schedule.
fn produce<S: System>(
    system: &S,
    each: usize,
    task: Task,
    orders: &Receiver<Instant>,
    answer: &Sender<Result<f64>>,
) -> Result<()> {
    let mut producer = system.producer()?;
    let mut handles: Vec<<S::Producer as Producer>::Handle> = Vec::new();
    handles.resize_with(each, Default::default);
    for handle in &mut handles {
        producer.schedule(DELAY, task, handle)?;
    }
    producer.flush()?;
    answer.send(Ok(0.0)).context("the main thread is gone")?;

    let until = orders.recv().context("the main thread is gone")?;
    let since = Instant::now();
    let (mut turns, mut refused) = (0, 0);
    while Instant::now() < until {
        for handle in &mut handles {
            refused += usize::from(!producer.cancel(handle));
            producer.schedule(DELAY, task, handle)?;
        }
        turns += each;
    }
    let rate = turns as f64 / since.elapsed().as_secs_f64() / 1e6;
    ensure!(refused == 0, "{refused} of {turns} were not cancelled, and none was due");
    answer.send(Ok(rate)).context("the main thread is gone")?;
    // Nothing comes: the channel is closed when all that was due has been waited for.
    let _ = orders.recv();
    Ok(())
}

/// Sleeps until each of them, and returns how late it woke, in nanoseconds.
fn sleep_through(deadlines: Vec<Instant>) -> Vec<u64> {
    let late = |deadline: Instant| {
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
        nanos(deadline.elapsed())
    };
    deadlines.into_iter().map(late).collect()
}

/// The lateness of the timeouts, that of the sleeping thread, and by how much they differ.
fn beside(lateness: &Lateness, asleep: Vec<u64>) -> Result<Metrics> {
    let mut metrics = describe(lateness)?;
    let asleep = describe(&Lateness { late: asleep, early: 0, missing: 0, twice: 0 })?;
    for (key, asleep_key) in ASLEEP {
        metrics.values.push((asleep_key, asleep.get(key)?));
    }
    metrics.values.push(("more_p999_ms", metrics.get("p999_ms")? - asleep.get("p999_ms")?));
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_due_in_each_step() {
        let start = Instant::now();
        for (step, deadline) in (0..).zip(deadlines(start, 3_000)) {
            let from = start + STEP * step;
            assert!(from <= deadline && deadline < from + STEP, "{step}");
        }
    }

    #[test]
    fn a_thread_that_sleeps_is_never_early_and_goes_on_from_what_has_passed() {
        let now = Instant::now();
        let late = sleep_through(vec![now, now, now + Duration::from_millis(5)]);
        assert!(now.elapsed() >= Duration::from_millis(5));
        assert_eq!(late.len(), 3);
    }

    #[test]
    fn the_sleeping_thread_stands_beside_the_timeouts() {
        let lateness = Lateness { late: vec![5_000_000; 10], early: 1, missing: 0, twice: 0 };
        let metrics = beside(&lateness, vec![7_000_000; 10]).expect("histograms");
        let near = |key, value: f64| {
            assert!(metrics.get(key).is_ok_and(|got| (got - value).abs() < 0.02), "{key}");
        };
        near("p999_ms", 5.0);
        near("asleep_p50_ms", 7.0);
        near("more_p999_ms", -2.0);
        near("early", 1.0);
    }
}
