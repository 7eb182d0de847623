//! io_uring's timeouts: a ring of its own for each producer, which submits in batches.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{SubmitArgs, TimeoutFlags, Timespec};
use io_uring::{IoUring, opcode};
use rustix::time::{ClockId, clock_gettime};
use slab::Slab;

use super::one_owner::{OneEach, Owner};
use super::plan::Plan;
use super::producer::Producer;
use crate::compare::recorder::{Recorder, Task};

/// How many go to the kernel at once.
const BATCH: u32 = 64;
/// Room for what the kernel answers, more than which it would have to keep aside.
const ANSWERS: u32 = 65_536;
/// What the answer to a removal or an update carries; there is one only if it failed.
const REFUSED: u64 = u64::MAX;
/// How often a thread that waits looks at the clock.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) type Rings = OneEach<Ring>;

pub(crate) struct Ring {
    ring: IoUring,
    /// One time by both clocks, which are the same one.
    epoch: (Instant, Duration),
    times: Box<[Timespec; BATCH as usize]>,
    filled: usize,
    tasks: Slab<Task>,
    refused: usize,
}

impl Owner for Ring {
    fn new(plan: &Plan) -> Result<Self> {
        let mut options = IoUring::builder();
        options.setup_cqsize(ANSWERS).setup_single_issuer().setup_coop_taskrun();
        // The clock second: what is late by the time between the two is not early.
        let instant = Instant::now();
        let clock = clock_gettime(ClockId::Monotonic);
        let clock = Duration::new(clock.tv_sec.try_into()?, clock.tv_nsec.try_into()?);
        Ok(Self {
            ring: options.build(BATCH).context("the kernel gives no io_uring")?,
            epoch: (instant, clock),
            // It is read when the batch is submitted.
            times: Box::new([Timespec::new(); BATCH as usize]),
            filled: 0,
            tasks: Slab::with_capacity(plan.capacity_each()),
            refused: 0,
        })
    }

    fn notes() -> Vec<String> {
        vec![format!("{BATCH} in a batch")]
    }
}

impl Ring {
    /// Puts an operation into the batch; it may point to a time of the batch.
    fn push(&mut self, deadline: Option<Instant>, entry: impl FnOnce(*const Timespec) -> Entry) -> Result<()> {
        let at = self.filled;
        if let Some(deadline) = deadline {
            let time = self.epoch.1 + deadline.saturating_duration_since(self.epoch.0);
            self.times[at] = Timespec::from(time);
        }
        let entry = entry(&raw const self.times[at]);
        // SAFETY: The entry points to at most a time of this batch. `times` has a place of its own
        // for each entry, and none is written to again before `submit` has given all to the kernel,
        // which reads the time while it takes the entry.
        unsafe { self.ring.submission().push(&entry) }.context("the batch is full")?;
        self.filled += 1;
        if self.filled == BATCH as usize { self.submit(0) } else { Ok(()) }
    }

    /// Gives the batch to the kernel, waits for that many answers, and takes in all there are.
    fn submit(&mut self, answers: usize) -> Result<()> {
        let look = Timespec::from(LOOK);
        let submitter = self.ring.submitter();
        let submitted = if answers == 0 {
            submitter.submit()
        } else {
            submitter.submit_with_args(answers, &SubmitArgs::new().timespec(&look))
        };
        match submitted {
            Err(why) if why.raw_os_error() == Some(libc::ETIME) => {}
            submitted => _ = submitted.context("the kernel refused a batch")?,
        }
        self.ring.submission().sync();
        ensure!(self.ring.submission().is_empty(), "the kernel took only a part of a batch");
        self.filled = 0;
        for answer in self.ring.completion() {
            match (answer.user_data(), answer.result()) {
                (REFUSED, _) => self.refused += 1,
                (key, result) => {
                    let task = self.tasks.remove(usize::try_from(key)?);
                    if result == -libc::ETIME {
                        task.run();
                    }
                }
            }
        }
        Ok(())
    }
}

impl Producer for Ring {
    /// The key of its task.
    type Handle = Option<u64>;

    fn schedule(&mut self, delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        self.fire(Instant::now() + delay, delay, task, handle)
    }

    fn fire(&mut self, deadline: Instant, _delay: Duration, task: Task, handle: &mut Self::Handle) -> Result<()> {
        let key = self.tasks.insert(task) as u64;
        *handle = Some(key);
        self.push(Some(deadline), |time| opcode::Timeout::new(time).flags(TimeoutFlags::ABS).build().user_data(key))
    }

    /// Whether it was cancelled is told later, and looked at in `flush`.
    fn cancel(&mut self, handle: &mut Self::Handle) -> bool {
        let Some(key) = handle.take() else { return false };
        let quiet = |entry: Entry| entry.flags(Flags::SKIP_SUCCESS).user_data(REFUSED);
        self.push(None, |_| quiet(opcode::TimeoutRemove::new(key).build())).is_ok()
    }

    fn reset(&mut self, delay: Duration, _deadline: Instant, handle: &mut Self::Handle) -> bool {
        let Some(key) = *handle else { return false };
        let quiet = |entry: Entry| entry.flags(Flags::SKIP_SUCCESS).user_data(REFUSED);
        let update = |time| quiet(opcode::TimeoutUpdate::new(key, time).flags(TimeoutFlags::ABS).build());
        self.push(Some(Instant::now() + delay), update).is_ok()
    }

    fn flush(&mut self) -> Result<()> {
        self.submit(0)?;
        ensure!(self.refused == 0, "{} were not cancelled or reset, and none was due", self.refused);
        Ok(())
    }

    fn wait(&mut self, recorder: &Recorder, limit: Instant) -> Result<()> {
        while !recorder.done() {
            ensure!(Instant::now() < limit, "not all timeouts have run in time");
            self.submit(1)?;
        }
        Ok(())
    }
}
