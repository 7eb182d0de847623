//! The state that the handles and the driver of an engine share, and every step on it. No step
//! holds the borrow of the core while it calls or drops what is the user's.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Waker;

use tourbillon::Refusal;
use tourbillon_wheel::{NEVER, Take, Wheel};

use crate::slab::{Key, Slab, State};
use crate::task::Task;
use crate::ticks::Ticks;

/// An engine. Its thread alone reaches it.
pub(crate) struct Engine {
    pub(crate) ticks: Ticks,
    core: RefCell<Core>,
    /// The latest time of a turn. A user's clock may go back behind it.
    seen: Cell<u64>,
    /// When the driver comes back, as it was told. Zero if that was long ago, or it was rung for.
    comes_back: Cell<u64>,
    pub(crate) on_earlier: RefCell<Option<Rc<dyn Fn()>>>,
    has_ended: Cell<bool>,
    pub(crate) fired: Cell<u64>,
    pub(crate) panicked: Cell<u64>,
}

/// It catches the panics of what it calls, or calls it last. Its own steps do not panic half-way.
impl RefUnwindSafe for Engine {}

struct Core {
    wheel: Wheel<Key>,
    slab: Slab,
    /// Those that have come up. The first `done` of them have run.
    due: Vec<Key>,
    done: usize,
    /// How many of the others have been cancelled.
    cancelled: usize,
    expiry_limit: usize,
}

impl Engine {
    pub(crate) fn new(ticks: Ticks, wheel: Wheel<Key>, expiry_limit: usize) -> Self {
        let core = Core { wheel, slab: Slab::default(), due: Vec::new(), done: 0, cancelled: 0, expiry_limit };
        Self {
            ticks,
            core: RefCell::new(core),
            seen: Cell::new(0),
            comes_back: Cell::new(0),
            on_earlier: RefCell::default(),
            has_ended: Cell::new(false),
            fired: Cell::new(0),
            panicked: Cell::new(0),
        }
    }

    pub(crate) fn pending(&self) -> usize {
        let core = self.core.borrow();
        core.wheel.len() + (core.due.len() - core.done) - core.cancelled
    }

    /// Makes a timeout. A caller that asks for it to be held [lets it go](Self::let_go) once. An
    /// error hands the task back.
    #[inline]
    pub(crate) fn arm<F>(
        &self,
        deadline: u64,
        is_held: bool,
        task: F,
        make: impl FnOnce(F) -> Task,
    ) -> Result<Key, (Refusal, F)> {
        if self.has_ended.get() {
            return Err((Refusal::Shutdown, task));
        }
        let mut core = self.core.borrow_mut();
        let Core { wheel, slab, .. } = &mut *core;
        let Ok(key) = slab.free() else { return Err((Refusal::OutOfMemory, task)) };
        let Ok(place) = wheel.insert_at(key, deadline) else { return Err((Refusal::OutOfMemory, task)) };
        slab.fill(key, place, deadline, is_held, || make(task));
        drop(core);
        self.may_be_earlier(deadline);
        Ok(key)
    }

    /// Tells the driver, if it waits, of a timeout that comes up before it will be back.
    #[inline]
    fn may_be_earlier(&self, deadline: u64) {
        if deadline < self.comes_back.get() {
            self.comes_back.set(0);
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        let callback = self.on_earlier.borrow().clone();
        if let Some(callback) = callback {
            // The last clone may be dropped here, if the callback has replaced itself.
            self.call(move || callback());
        }
    }

    pub(crate) fn state(&self, key: Key) -> State {
        self.core.borrow().slab.get(key).state
    }

    pub(crate) fn is_pending(&self, key: Key) -> bool {
        matches!(self.state(key), State::Pending | State::Due)
    }

    pub(crate) fn deadline(&self, key: Key) -> u64 {
        self.core.borrow().slab.get(key).deadline
    }

    /// Cancels a timeout. Returns its task, or `None` if it was not pending.
    #[inline]
    pub(crate) fn cancel(&self, key: Key) -> Option<Task> {
        self.core.borrow_mut().cancel(key, false)
    }

    /// [Cancels](Self::cancel) a timeout, and [lets it go](Self::let_go).
    #[inline]
    pub(crate) fn give_up(&self, key: Key) -> Option<Task> {
        self.core.borrow_mut().cancel(key, true)
    }

    /// Moves the deadline of a timeout, and returns whether it was pending.
    #[inline]
    pub(crate) fn reset(&self, key: Key, deadline: u64) -> bool {
        let mut core = self.core.borrow_mut();
        let Core { wheel, slab, .. } = &mut *core;
        let entry = slab.get_mut(key);
        let is_earlier = deadline < entry.deadline;
        let state = entry.state;
        if !matches!(state, State::Pending | State::Due) {
            return false;
        }
        entry.deadline = deadline;
        // A turn looks at a due timeout again before it runs it.
        if is_earlier && state == State::Pending {
            let place = entry.place();
            wheel.reinsert(slab, place, key);
            drop(core);
            self.may_be_earlier(deadline);
        }
        true
    }

    /// Ends the hold on a timeout.
    // Not inlined, so that the drop of a handle is, which has nothing to let go as a rule.
    #[inline(never)]
    pub(crate) fn let_go(&self, key: Key) {
        self.core.borrow_mut().slab.let_go(key);
    }

    /// Puts the waker of the future that polls into its timeout. Returns false if that is not
    /// pending, so that it calls no waker.
    pub(crate) fn watch(&self, key: Key, waker: &Waker) -> bool {
        if !self.is_pending(key) {
            return false;
        }
        let watches = |task: &Task| task.waker().is_some_and(|before| before.will_wake(waker));
        if self.core.borrow().slab.get(key).task.as_ref().is_some_and(watches) {
            return true;
        }
        // The clone is the user's code, which may do anything, also end this timeout.
        let waker = waker.clone();
        if !self.is_pending(key) {
            return false;
        }
        let before = self.core.borrow_mut().slab.get_mut(key).task.replace(Task::wake(waker));
        // From here on an end of the timeout wakes the new one.
        drop(before);
        true
    }

    /// Runs all that is due, and returns how many timeouts fired.
    pub(crate) fn turn(&self) -> usize {
        // One time holds for the whole turn. It never goes back: the wheel does not, either.
        let now = self.ticks.current().max(self.seen.get());
        self.seen.set(now);
        if self.comes_back.get() <= now {
            self.comes_back.set(0);
        }
        self.core.borrow_mut().take_due(now);
        let mut fired = 0;
        while let Some(task) = self.next_task(now) {
            self.call(|| task.run());
            fired += 1;
        }
        self.core.borrow_mut().cascade();
        self.fired.set(self.fired.get() + fired as u64);
        fired
    }

    /// Returns the next task of this turn. One before it may have cancelled or reset it.
    #[inline]
    fn next_task(&self, now: u64) -> Option<Task> {
        let mut core = self.core.borrow_mut();
        let Core { wheel, slab, due, done, cancelled, .. } = &mut *core;
        loop {
            let Some(&key) = due.get(*done) else {
                due.clear();
                *done = 0;
                return None;
            };
            let entry = slab.get_mut(key);
            if entry.state == State::CancelledWhenDue {
                *cancelled -= 1;
                slab.end(key, State::Cancelled);
            } else if entry.deadline <= now {
                *done += 1;
                return slab.end(key, State::Expired);
            } else {
                entry.state = State::Pending;
                if wheel.insert(slab, key).is_err() {
                    // It waits here for memory, and so do those behind it.
                    slab.get_mut(key).state = State::Due;
                    return None;
                }
            }
            *done += 1;
        }
    }

    /// Calls what is the user's. The process's panic hook shows its panic.
    pub(crate) fn call(&self, work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.panicked.set(self.panicked.get() + 1);
            // Its destructor may panic as well.
            catch_unwind(AssertUnwindSafe(|| drop(panic))).unwrap_or_else(std::mem::forget);
        }
    }

    /// Returns when the wheel has to be looked at next. From then on the first timeout that comes
    /// up before that calls `on_earlier`.
    pub(crate) fn next_wakeup(&self) -> Option<u64> {
        let mut core = self.core.borrow_mut();
        let Core { wheel, slab, due, .. } = &mut *core;
        let next = if due.is_empty() { wheel.next_wakeup(slab) } else { Some(0) };
        self.comes_back.set(next.unwrap_or(NEVER));
        next
    }

    /// Ends the engine. Drops the tasks that are pending, and wakes the futures.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        let callback = self.on_earlier.take();
        self.call(move || drop(callback));
        // The drop of a task may cancel those that are still to come.
        while let Some(task) = self.next_to_end() {
            let is_future = task.waker().is_some();
            self.call(|| if is_future { task.run() } else { drop(task) });
        }
    }

    fn next_to_end(&self) -> Option<Task> {
        let mut core = self.core.borrow_mut();
        let Core { wheel, slab, due, done, cancelled, .. } = &mut *core;
        loop {
            if *done == due.len() {
                due.clear();
                *done = 0;
                // All at once, if there is memory: each drain begins at the first slot.
                if due.try_reserve(wheel.len()).is_err() {
                    return slab.end(wheel.drain().next()?, State::Cancelled);
                }
                due.extend(wheel.drain());
                due.iter().for_each(|key| slab.get_mut(*key).state = State::Due);
            }
            let key = *due.get(*done)?;
            *done += 1;
            let task = slab.end(key, State::Cancelled);
            if task.is_some() {
                return task;
            }
            // It was cancelled when it was due.
            *cancelled -= 1;
        }
    }
}

impl Core {
    /// Cancels a timeout, and lets it go if it is to. Returns its task, or `None` if it was not
    /// pending.
    #[inline]
    fn cancel(&mut self, key: Key, lets_go: bool) -> Option<Task> {
        let (entry, free) = self.slab.entry(key);
        match entry.state {
            State::Pending => {
                entry.state = State::Cancelled;
                self.wheel.remove(entry.place(), key);
            }
            State::Due => {
                entry.state = State::CancelledWhenDue;
                self.cancelled += 1;
            }
            _ => {}
        }
        if lets_go {
            entry.let_go(key, free);
        }
        entry.task.take()
    }

    /// Takes out all timeouts that are due by `now`, within the limit. A task that runs then may
    /// schedule one that is due at once: that one waits for the next turn.
    fn take_due(&mut self, now: u64) {
        let Self { wheel, slab, due, expiry_limit, .. } = self;
        wheel.expire(slab, now, &mut expiry_limit.clone(), |slab, key| {
            if due.try_reserve(1).is_err() {
                return Take::Stop;
            }
            slab.get_mut(key).state = State::Due;
            due.push(key);
            Take::Taken
        });
    }

    fn cascade(&mut self) {
        self.wheel.cascade(&mut self.slab, &mut self.expiry_limit.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Context;
    use std::time::Duration;

    use tourbillon::ManualClock;

    use super::*;
    use crate::{LocalDriver, LocalTimer};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_handle_or_a_sleep_that_is_dropped_gives_its_entry_back() {
        let clock = ManualClock::new();
        let ticks = Ticks::new(Some(Box::new(clock.clone())), Duration::from_millis(1));
        let engine = Rc::new(Engine::new(ticks, Wheel::new(512, 4).expect("memory"), 100));
        let (timer, mut driver) = (LocalTimer::new(Rc::clone(&engine)), LocalDriver::new(Rc::clone(&engine)));
        let mut pass = || {
            clock.advance(10 * SECOND);
            driver.turn();
        };
        // The entry that was given back last is used next.
        let next = || engine.core.borrow_mut().slab.free();
        let first = next();
        for end in 0..5 {
            let timeout = timer.schedule(SECOND, || ()).expect("room");
            assert_ne!(next(), first);
            match end {
                0 => assert!(timeout.cancel()),
                1 => pass(),
                2 => assert!(timeout.reset(2 * SECOND)),
                _ => {}
            }
            if end == 4 {
                assert!(timeout.cancel_owned());
            } else {
                drop(timeout);
                pass();
            }
            assert_eq!(next(), first, "a handle, in way {end}");

            let mut sleep = timer.sleep(SECOND);
            let poll = Future::poll(Pin::new(&mut sleep), &mut Context::from_waker(Waker::noop()));
            assert!(poll.is_pending());
            assert_ne!(next(), first);
            match end {
                1 => pass(),
                2 => sleep.reset(2 * SECOND),
                _ => {}
            }
            drop(sleep);
            assert_eq!(next(), first, "a sleep, in way {end}");
        }
    }
}
