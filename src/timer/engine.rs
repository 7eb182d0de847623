//! The part of an engine that its `Timer`s share, and how an engine ends.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use super::error::ShutdownError;
use super::shutdown::{Shutdown, Unfired};
use crate::engine::{Core, SharedRef, UnfiredList};
use crate::events;
use crate::executor::{Chosen, is_running_a_task, is_running_a_task_of, run_here};
use crate::shard::{Command, Remote};
use crate::sync::{AtomicU8, Mutex, MutexGuard, Ordering, fence, lock};
use crate::time::{ClockListener, Follower, Subtick};
use crate::worker::Workers;

/// Shards that a [`Driver`](super::Driver) turns. Empty once the engine has ended.
pub(super) type DrivenShards = Arc<Mutex<Vec<Core>>>;

/// Turns the shards: the workers, or the driver.
pub(super) enum Runner {
    Workers(crate::sync::Arc<Workers>),
    Driver(DrivenShards),
}

pub(super) struct Engine {
    pub(super) shared: SharedRef,
    pub(super) runner: Runner,
    pub(super) ticks_per_wheel: usize,
    /// 1 once a shutdown has begun, or the last owner has gone.
    has_ended: AtomicU8,
    /// The timeouts that a shutdown could not hand back because there was no memory for the answer.
    unfired: Mutex<Option<UnfiredList>>,
    /// The workers hand their batches to this, until a shutdown.
    executor: Mutex<Option<Chosen>>,
}

impl Engine {
    pub(super) fn is_driven(&self) -> bool {
        matches!(self.runner, Runner::Driver(_))
    }

    /// Marks the engine as ended. Returns true for exactly one caller, which has to end the engine.
    pub(super) fn begin_to_end(&self) -> bool {
        // Relaxed: it only picks one caller. Others read what that one left under its lock.
        self.has_ended.swap(1, Ordering::Relaxed) == 0
    }

    /// Gives all shards a command. Wakes none.
    fn command(&self, how: Command) {
        self.shared.remotes().iter().for_each(|remote| remote.command(how));
    }

    /// `is_in_a_task` says whether a task of any engine waits for the result.
    pub(super) fn shutdown(&self, is_in_a_task: bool, how: Shutdown) -> Result<Vec<Unfired>, ShutdownError> {
        if self.shared.is_forked() {
            return Err(ShutdownError::Forked);
        }
        if is_running_a_task_of(self.shared.id()) {
            return Err(ShutdownError::FromTask);
        }
        // Read the clock before the engine is marked as ended: a user clock may panic.
        let how = match how {
            Shutdown::Cancel => Command::StopAndReturn,
            Shutdown::FireNow => Command::StopAndFire,
            Shutdown::Drain(most) => {
                // To the end of a tick: the timeouts that are due in it run together.
                let timeline = self.shared.timeline();
                Command::Drain(timeline.scale().end_of_tick(timeline.deadline_after(most)))
            }
        };
        if !self.begin_to_end() {
            // The first call may have left what it could not hand back.
            let left = lock(&self.unfired).take();
            return left.map_or(Err(ShutdownError::AlreadyShutdown), |left| self.hand_back(left));
        }
        if let Command::Drain(_) = how {
            // Start these workers now. Otherwise a drain would hand back an accepted timeout only
            // because its worker is still being started.
            self.started().for_each(|_| ());
        }
        UnfiredList::begin(&self.shared);
        // Before the lock of a driven engine: a turn that is under way on another thread looks at
        // it, and so does a driver that goes, which then leaves the shards to this call.
        self.command(how);
        match &self.runner {
            Runner::Workers(workers) => workers.end(&self.shared, how),
            Runner::Driver(shards) => close_driven(&self.shared, lock(shards), how),
        }
        let executor = lock(&self.executor).take();
        // The workers have ended, so nobody else finds help for a batch.
        let help = || _ = executor.as_ref().map(Chosen::find_help);
        // A batch that waits in an executor may wait for the task's thread.
        self.shared.in_flight.wait(is_in_a_task, help);
        self.hand_back(UnfiredList::take(&self.shared))
    }

    /// Returns whether all threads of its pool are stuck in tasks while others wait.
    pub(super) fn has_stuck_pool(&self) -> bool {
        // In a forked child the lock may be held for ever.
        !self.shared.is_forked() && lock(&self.executor).as_ref().is_some_and(Chosen::is_stuck)
    }

    fn hand_back(&self, mut left: UnfiredList) -> Result<Vec<Unfired>, ShutdownError> {
        let mut unfired = Vec::new();
        if unfired.try_reserve_exact(left.len()).is_err() {
            *lock(&self.unfired) = Some(left);
            return Err(ShutdownError::OutOfMemory);
        }
        let timeline = self.shared.timeline();
        while let Some((deadline, task)) = left.pop() {
            unfired.push(Unfired { deadline: timeline.instant_of(deadline), task });
        }
        Ok(unfired)
    }

    /// The shards whose workers run. The other shards have nothing that could be due. Returns none
    /// for a driven engine, whose shards the driver turns.
    fn started(&self) -> impl Iterator<Item = &Remote> {
        self.shared.remotes().iter().filter(|remote| match &self.runner {
            Runner::Workers(workers) => workers.is_started(remote.index()) || self.starts(remote),
            Runner::Driver(_) => false,
        })
    }

    /// Returns whether another thread is about to start a shard's worker, and has only cleared
    /// ASLEEP so far. Producers may then have scheduled without a wake-up, because they rely on
    /// that thread. If so, this call starts the worker.
    fn starts(&self, remote: &Remote) -> bool {
        remote.sleeps_until().is_none() && !remote.is_closed() && remote.wake()
    }

    /// Returns the earliest deadline of all pending timeouts. Returns `None` if nothing is pending,
    /// or only timeouts that never fire. With workers, waits until they have answered.
    fn earliest(&self) -> Option<Subtick> {
        let earliest = match &self.runner {
            Runner::Workers(_) => self.started().map(|remote| remote.request_earliest()).min(),
            Runner::Driver(shards) => {
                let now = self.shared.timeline().current_by_itself();
                let mut to_call = Vec::new();
                let sort_in_and_look = |shard: &mut Core| {
                    let remote = self.shared.remote(shard.index());
                    // The driver may rely on a call for each earlier timeout. So leave the time
                    // that it was told as it was.
                    let told = remote.sleeps_until();
                    // Repeat until nothing is left in the queues, because a limit holds for each
                    // call.
                    while shard.sort_in(&self.shared, now) {}
                    // A producer that pushes meanwhile sees an awake shard, and does not call the
                    // driver. So call it here. The call is without need if the shard is only due
                    // earlier because of the timeouts that were sorted in.
                    if let Some(told) = told
                        && settle(&self.shared, shard, now).is_some_and(|due| due < told)
                    {
                        to_call.push(shard.index());
                    }
                    shard.earliest(&self.shared)
                };
                let earliest = lock(shards).iter_mut().map(sort_in_and_look).min();
                to_call.into_iter().for_each(|shard| _ = self.shared.remote(shard).wake());
                earliest
            }
        };
        earliest.filter(|deadline| *deadline != Subtick::NEVER)
    }
}

/// Brings one shard to rest at `now`, as a worker does that goes to sleep. Returns when to turn it:
/// the timeouts of one tick share a turn.
pub(super) fn settle(shared: &SharedRef, shard: &mut Core, now: Subtick) -> Option<Subtick> {
    loop {
        if shared.remote(shard.index()).is_stopped() {
            return None;
        }
        shard.sort_in(shared, now);
        let due = shard.last_due_of_tick(shared);
        if due == Some(Subtick::ZERO) || shared.remote(shard.index()).fall_asleep(due) {
            return due;
        }
    }
}

/// Closes and removes all shards. It may have to run tasks first. It runs them here, after it has
/// unlocked the shards, and wakes the futures that slept on them. If no shutdown waits, it drops
/// what was pending. It needs no memory.
pub(super) fn close_driven(shared: &SharedRef, mut locked: MutexGuard<'_, Vec<Core>>, how: Command) {
    let (mut shards, mut left) = (std::mem::take(&mut *locked), UnfiredList::new(shared));
    // If a user clock panics, nothing more is found to be due, and all is handed back.
    if let Command::Drain(_) = how
        && let Some(now_ns) = shared.timeline().try_now_ns()
    {
        let now = shared.timeline().scale().subtick_at(now_ns);
        for shard in &mut shards {
            shard
                .hold(|shard, mut sink| while shard.turn(shared, now, || None, |due| due.hand_over(&mut sink)).more {});
        }
    }
    for shard in &mut shards {
        match how {
            Command::StopAndFire => shard.hold(|shard, mut sink| shard.close_and_fire(shared, &mut sink)),
            _ => left.append(shard.close(shared)),
        }
    }
    drop(locked);
    // Before a waker runs, which sees that the engine has ended.
    left.hand_in();
    shards.iter_mut().filter_map(|shard| shard.held.take()).for_each(run_here);
    shards.iter_mut().filter_map(|shard| shard.take_wakes(shared)).for_each(run_here);
}

/// The part that all `Timer`s share. When the last one has gone, the engine is left to the futures
/// that still hold a reference to it.
pub(super) struct Owner {
    /// The same as the engine's. It stands here too, so that a schedule follows one pointer less.
    pub(super) shared: SharedRef,
    pub(super) engine: ManuallyDrop<Arc<Engine>>,
}

impl Owner {
    /// Makes an engine, which also hears of its clock from here on.
    pub(super) fn new(
        shared: SharedRef,
        runner: Runner,
        executor: Option<Chosen>,
        ticks_per_wheel: usize,
    ) -> Arc<Self> {
        events::engine_begins();
        let engine = Arc::new(Engine {
            shared: shared.clone(),
            runner,
            ticks_per_wheel,
            has_ended: AtomicU8::new(0),
            unfired: Mutex::new(None),
            executor: Mutex::new(executor),
        });
        shared.timeline().tell(Arc::downgrade(&engine), engine.is_driven());
        Arc::new(Self { shared, engine: ManuallyDrop::new(engine) })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: 1. This destructor runs once, so the engine is taken out once. It goes to the
        // thread that settles the last reference, which sees all that the others did. 2. The owner
        // of the timers ends once, after all of them. The engine holds its shared part.
        unsafe {
            let engine = ManuallyDrop::take(&mut self.engine);
            self.shared.close_refs(move || drop(engine));
        }
    }
}

impl Drop for Engine {
    /// The last `Timer` and the last future have gone. Nothing that is unfired runs any more, and
    /// this does not wait for anything.
    fn drop(&mut self) {
        events::engine_ends();
        if !self.begin_to_end() || self.shared.is_forked() {
            return;
        }
        self.command(Command::StopAndDiscard);
        match &self.runner {
            Runner::Workers(workers) => workers.end(&self.shared, Command::StopAndDiscard),
            Runner::Driver(shards) => {
                // Pairs with the fence in `Driver::carry_out_order`. If the driver is in a turn
                // now, it sees the command at the end of that turn.
                fence(Ordering::SeqCst);
                if let Ok(shards) = shards.try_lock() {
                    close_driven(&self.shared, shards, Command::StopAndDiscard);
                }
            }
        }
    }
}

impl ClockListener for Engine {
    /// Makes all workers read the time again. A driven engine calls the callback of its driver.
    fn stepped(&self) {
        match &self.runner {
            _ if self.shared.is_forked() => {}
            Runner::Workers(_) => self.started().for_each(|remote| _ = remote.request_turn()),
            Runner::Driver(_) => self.shared.remotes().iter().for_each(|remote| remote.ring()),
        }
    }
}

impl Follower for Engine {
    fn catch_up(&self) -> bool {
        // In a task this would perhaps wait for the calling thread itself, or for a thread that
        // waits for it.
        if is_running_a_task() {
            return false;
        }
        if self.shared.is_forked() {
            return true;
        }
        self.started().for_each(|remote| remote.request_turn_and_wait());
        if let Runner::Workers(_) = &self.runner {
            // The workers find help.
            self.shared.in_flight.wait(false, || ());
        }
        true
    }

    fn progress(&self) -> u64 {
        // In a forked child a thread of the parent may hold a lock for ever.
        if self.shared.is_forked() {
            return 0;
        }
        // Tasks that have begun, and tasks that have ended: in between a task may schedule.
        let fired = self.shared.remotes().iter().map(|remote| remote.counters.fired.get()).sum::<u64>();
        fired + self.shared.sum(None, |counts| counts.runs.get() + counts.completed.get())
    }

    fn until_next(&self) -> Option<Duration> {
        let timeline = self.shared.timeline();
        if self.shared.is_forked() || timeline.is_paused() {
            return None;
        }
        // A run that is under way may be that of a periodic timeout, which lies in no wheel
        // meanwhile.
        let earliest = loop {
            let before = self.progress();
            self.catch_up();
            let earliest = self.earliest();
            if self.progress() == before {
                break earliest?;
            }
        };
        Some(timeline.until(earliest))
    }
}
