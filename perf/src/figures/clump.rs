//! W7: many timeouts on one deadline, from the deadline until the last has run.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use crossbeam_utils::CachePadded;
use tourbillon::{Inline, ThreadPool, Timeout};

use super::lap::Lap;
use crate::engine_options::EngineOptions;
use crate::process::CpuTime;

/// Tasks that count down together. One counter for all would be fought over by the pool's threads,
/// and that would be measured instead.
const GROUP: u32 = 1_024;

/// From the scheduling of the first to the deadline, and as much more for each of them.
const AHEAD: Duration = Duration::from_millis(500);
const AHEAD_EACH: Duration = Duration::from_micros(1);

/// Beyond the deadline, how long all may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts tasks down and remembers when the last has run.
#[derive(Debug)]
struct Countdown {
    groups: Box<[CachePadded<AtomicU32>]>,
    groups_left: CachePadded<AtomicU32>,
    last_ran: OnceLock<Instant>,
}

impl Countdown {
    fn new(tasks: u32) -> Self {
        let group = |start: u32| CachePadded::new(AtomicU32::new(GROUP.min(tasks - start)));
        let groups: Box<[_]> = (0..tasks).step_by(GROUP as usize).map(group).collect();
        let groups_left = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        Self { groups, groups_left: CachePadded::new(AtomicU32::new(groups_left)), last_ran: OnceLock::new() }
    }

    fn ran(&self, task: u32) {
        let group = &self.groups[(task / GROUP) as usize];
        if group.fetch_sub(1, Ordering::AcqRel) == 1 && self.groups_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.last_ran.get_or_init(Instant::now);
        }
    }
}

/// Schedules `tasks` for one deadline from `producers` threads; on a pool, or inline on the worker.
pub(crate) fn lap(options: &EngineOptions, pool: Option<usize>, producers: usize, tasks: usize) -> Result<Lap> {
    let builder = options.builder().capacity(tasks);
    let builder = match pool {
        Some(threads) => builder.executor(ThreadPool::new(threads)),
        None => builder.executor(Inline),
    };
    let timer = builder.build().context("the engine refused its options")?;
    let total = u32::try_from(tasks)?;
    let countdown = Arc::new(Countdown::new(total));
    let share = total.div_ceil(u32::try_from(producers)?);
    let deadline = Instant::now() + AHEAD + AHEAD_EACH * total;
    // Held until the end, as the owners of connections hold theirs.
    let _handles = thread::scope(|scope| {
        let threads: Vec<_> = (0..total)
            .step_by(share as usize)
            .map(|first| {
                let (timer, countdown) = (&timer, &countdown);
                scope.spawn(move || -> Result<Vec<Timeout>> {
                    let schedule = |task| {
                        let countdown = Arc::clone(countdown);
                        let timeout = timer.schedule_at(deadline, move || countdown.ran(task));
                        timeout.map_err(|_| anyhow!("the engine refused a timeout"))
                    };
                    (first..total.min(first + share)).map(schedule).collect()
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a producer panicked"))?);
        joined.collect::<Result<Vec<_>>>()
    })?;
    let cpu = CpuTime::now();
    ensure!(Instant::now() < deadline, "this machine is too slow: the deadline has passed already");
    let limit = deadline + PATIENCE;
    let last = loop {
        if let Some(&last) = countdown.last_ran.get() {
            break last;
        }
        ensure!(Instant::now() < limit, "not all of {tasks} timeouts have run within a minute");
        thread::sleep(Duration::from_millis(1));
    };
    let cpu = CpuTime::now().since(cpu);
    let late = last.checked_duration_since(deadline).context("the last of the timeouts ran before their deadline")?;
    Ok(Lap { value: late.as_secs_f64() * 1e3, cpu_ns_per_op: cpu.total_s() * 1e9 / f64::from(total) })
}
