//! hashed_wheel_timer, a port of Netty's: a channel in front of a wheel. It can schedule, and no
//! more.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use hashed_wheel_timer::{TimerTask, WheelTimer};

use super::patience::PATIENCE;
use super::plan::Plan;
use super::producer::Producer;
use super::system::System;
use crate::compare::recorder::{Recorder, Task};

const TICK_MS: u64 = 1;
const SLOTS: u32 = 65_536;

/// Far enough ahead that it is not yet due when it is taken in: what is, this timer loses.
const MARKER: Duration = Duration::from_millis(500);

/// As far ahead is what it is tried out with.
const PROBE: Duration = Duration::from_millis(50);

/// How often it is started anew until it works.
const STARTS: u32 = 20;

pub(crate) struct Hashed {
    timer: WheelTimer,
    starts: u32,
}

impl System for Hashed {
    type Producer = Sender;

    /// In 0.1.1 a caller that is slower than the new thread never learns when that started, and all
    /// deadlines are then off by half a century: so it is tried out.
    fn start(_plan: &Plan) -> Result<Self> {
        for starts in 1..=STARTS {
            // Its error can't leave the thread.
            let timer = WheelTimer::new(TICK_MS, SLOTS).map_err(|why| anyhow!("{why}"))?;
            let probe = Recorder::counting(1);
            let this = Self { timer, starts };
            this.producer()?.schedule(PROBE, probe.task(0), &mut ())?;
            if probe.wait(Instant::now() + 10 * PROBE).is_ok() {
                return Ok(this);
            }
            this.timer.stop();
        }
        bail!("of {STARTS} timers that were started none ran anything")
    }

    fn producer(&self) -> Result<Sender> {
        Ok(Sender(self.timer.clone()))
    }

    fn settle(&self) -> Result<()> {
        let mut producer = self.producer()?;
        let limit = Instant::now() + PATIENCE;
        // One that waited in the channel for longer than its delay is lost; the next finds the
        // channel shorter.
        while Instant::now() < limit {
            let marker = Recorder::counting(1);
            producer.schedule(MARKER, marker.task(0), &mut ())?;
            if producer.wait(marker, Instant::now() + 3 * MARKER).is_ok() {
                return Ok(());
            }
        }
        bail!("its thread is gone, or has not taken in what it was given within {} s", PATIENCE.as_secs())
    }

    fn notes(&self) -> Vec<String> {
        let failed = self.starts - 1;
        if failed == 0 { Vec::new() } else { vec![format!("{failed} timers that were started ran nothing")] }
    }
}

pub(crate) struct Sender(WheelTimer);

struct Due(Task);

impl TimerTask for Due {
    fn run(&mut self) {
        self.0.run();
    }
}

impl Producer for Sender {
    type Handle = ();

    fn schedule(&mut self, delay: Duration, task: Task, _handle: &mut ()) -> Result<()> {
        self.0.new_timeout(Box::new(Due(task)), delay);
        Ok(())
    }

    fn cancel(&mut self, _handle: &mut ()) -> bool {
        false
    }

    fn reset(&mut self, _delay: Duration, _deadline: Instant, _handle: &mut ()) -> bool {
        false
    }
}
