//! What the handles and the driver of a local engine share, and every step on it. No step holds the
//! borrow of the core while it calls or drops what is the user's.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::arena::LocalArena;
use crate::engine::{PanicHook, tell_panic};
use crate::entry::{ArmFlags, Chain, Kind, Linkable, LocalDue, LocalHandle, LocalRun, MaybeLinked, Task};
use crate::panics::{CatchUnwind, Panic};
use crate::time::{Subtick, Timeline};
use crate::timer::{LocalPlan, Refusal};
use crate::wheel::{Budget, Wheel};

/// What the driver is to do when a timeout comes up before it said that it would come back.
pub(super) type OnEarlier = Rc<CatchUnwind<Box<dyn Fn()>>>;

/// A local engine. Its thread alone reaches it.
pub(super) struct LocalEngine {
    pub(super) timeline: Timeline,
    core: RefCell<Core>,
    /// Nothing in the wheel comes up before this.
    next_look: Cell<Subtick>,
    /// Whether something may come up then. If not, the wheel has to be asked.
    is_asked: Cell<bool>,
    /// The latest time that a turn looked at the wheel with. A user's clock may go back behind it.
    seen: Cell<Subtick>,
    /// When the driver comes back, as it was told. Zero if that was long ago, or it was rung for.
    comes_back: Cell<Subtick>,
    pub(super) on_earlier: RefCell<Option<OnEarlier>>,
    has_ended: Cell<bool>,
    pub(super) fired: Cell<u64>,
    pub(super) panicked: Cell<u64>,
    on_panic: CatchUnwind<Option<PanicHook>>,
}

/// It catches the panics of what it calls, or calls it last. Its own steps do not panic half-way.
impl RefUnwindSafe for LocalEngine {}

struct Core {
    wheel: Wheel,
    arena: LocalArena,
    pending: usize,
    max_pending: usize,
    expiry_limit: usize,
}

/// Why nothing was armed.
pub(super) struct Refused {
    pub(super) why: Refusal,
    pub(super) task: Task,
}

impl LocalEngine {
    pub(super) fn new(plan: LocalPlan) -> Self {
        let LocalPlan { timeline, wheel, arena, max_pending, expiry_limit, on_panic } = plan;
        let max_pending = max_pending.unwrap_or(usize::MAX);
        Self {
            timeline,
            core: RefCell::new(Core { wheel, arena, pending: 0, max_pending, expiry_limit }),
            next_look: Cell::new(Subtick::NEVER),
            is_asked: Cell::new(false),
            seen: Cell::new(Subtick::ZERO),
            comes_back: Cell::new(Subtick::ZERO),
            on_earlier: RefCell::default(),
            has_ended: Cell::new(false),
            fired: Cell::new(0),
            panicked: Cell::new(0),
            on_panic: CatchUnwind::new(on_panic),
        }
    }

    pub(super) fn pending(&self) -> usize {
        self.core.borrow().pending
    }

    /// Makes a timeout that nobody holds.
    #[inline]
    pub(super) fn arm_detached(&self, task: Task, deadline: Subtick) -> Result<(), Refused> {
        self.arm(task, deadline, ArmFlags::NONE, |_| ())
    }

    /// Makes a timeout, and its handle. `flags` has [`ArmFlags::HANDLE`]. The caller keeps the
    /// engine for as long as the handle.
    #[inline]
    pub(super) fn arm_held(&self, task: Task, deadline: Subtick, flags: ArmFlags) -> Result<LocalHandle, Refused> {
        debug_assert!(flags == ArmFlags::HANDLE || flags == ArmFlags::LOCAL_SLEEPER);
        // SAFETY: the entry is armed with a handle, which is made here once. The arena has the
        // memory, and the caller keeps the engine, which has the arena.
        self.arm(task, deadline, flags, |armed| unsafe { LocalHandle::of(armed) })
    }

    #[inline]
    fn arm<R>(
        &self,
        task: Task,
        deadline: Subtick,
        flags: ArmFlags,
        hold: impl FnOnce(&Linkable) -> R,
    ) -> Result<R, Refused> {
        let mut core = self.core.borrow_mut();
        if self.has_ended.get() {
            return Err(Refused { why: Refusal::Shutdown, task });
        }
        if core.pending >= core.max_pending {
            return Err(Refused { why: Refusal::Full, task });
        }
        let Some(free) = core.arena.take() else { return Err(Refused { why: Refusal::OutOfMemory, task }) };
        let armed = free.arm_local(task, deadline, flags);
        let held = hold(&armed);
        core.wheel.insert(armed, deadline);
        core.pending += 1;
        drop(core);
        self.may_be_earlier(deadline);
        Ok(held)
    }

    /// Tells the driver, if it waits, of a timeout that comes up before it will be back.
    #[inline]
    fn may_be_earlier(&self, deadline: Subtick) {
        if deadline < self.next_look.get() {
            self.next_look.set(deadline);
            self.is_asked.set(false);
        }
        // A turn since may have put the next look before that.
        if deadline < self.comes_back.get() {
            self.comes_back.set(Subtick::ZERO);
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        let callback = self.on_earlier.borrow().clone();
        if let Some(callback) = callback {
            self.call(|| callback());
        }
    }

    /// Cancels a timeout of this engine. Returns its task, or `None` if it was not pending.
    #[inline]
    pub(super) fn cancel(&self, handle: &LocalHandle) -> Option<Task> {
        let cancelled = handle.cancel()?;
        let mut core = self.core.borrow_mut();
        core.pending -= 1;
        if let Some(linked) = cancelled.linked {
            self.unlink(&mut core, linked).leave_to_handle();
        }
        Some(cancelled.task)
    }

    /// Moves the deadline of a timeout of this engine, and returns whether it was pending.
    #[inline]
    pub(super) fn reset(&self, handle: &LocalHandle, deadline: Subtick) -> bool {
        let Some(earlier) = handle.reset(deadline) else { return false };
        if let Some(linked) = earlier {
            let mut core = self.core.borrow_mut();
            let entry = self.unlink(&mut core, linked);
            core.wheel.insert_again(entry, deadline);
            drop(core);
            self.may_be_earlier(deadline);
        }
        true
    }

    /// Takes an entry out of its slot.
    #[inline]
    fn unlink(&self, core: &mut Core, linked: MaybeLinked) -> Linkable {
        // SAFETY: its handle says that the entry is in a slot, and each engine has one wheel. The
        // engine lends out its handles only with itself. What takes entries out of the wheel ends
        // before `take_due` and `end` return to what is the user's.
        let (entry, has_emptied) = unsafe { core.wheel.unlink(linked) };
        if has_emptied {
            self.is_asked.set(false);
        }
        entry
    }

    /// Ends a handle of this engine.
    #[inline]
    pub(super) fn let_go(&self, handle: LocalHandle) {
        if let Some(free) = handle.let_go() {
            self.core.borrow_mut().arena.put(free);
        }
    }

    /// Runs all that is due, and returns how many timeouts fired.
    pub(super) fn turn(&self) -> usize {
        // One time holds for the whole turn. It never goes back: the wheel does not, either.
        let now = self.timeline.current().max(self.seen.get());
        // Once a tick the wheel is told the time, also if nothing is due: what is scheduled next
        // goes by that.
        if now < self.next_look.get() && self.timeline.scale().division().is_same_tick(now, self.seen.get()) {
            return 0;
        }
        self.seen.set(now);
        if self.comes_back.get() <= now {
            self.comes_back.set(Subtick::ZERO);
        }
        let mut due = self.core.borrow_mut().take_due(now);
        let mut fired = 0;
        while let Some(entry) = due.pop() {
            fired += usize::from(self.run(entry, now));
        }
        self.core.borrow_mut().step_cascades();
        self.ask();
        self.fired.set(self.fired.get() + fired as u64);
        fired
    }

    /// Runs a timeout that has come up, unless it was cancelled or reset by one before it.
    fn run(&self, entry: LocalDue, now: Subtick) -> bool {
        let claimed = entry.claim(now);
        let mut core = self.core.borrow_mut();
        let (task, free) = match claimed {
            LocalRun::NotBefore(entry, deadline) => {
                core.wheel.insert_again(entry, deadline);
                return false;
            }
            LocalRun::Cancelled(free) => (None, free),
            LocalRun::Run(task, free) => {
                core.pending -= 1;
                (Some(task), free)
            }
        };
        free.into_iter().for_each(|entry| core.arena.put(entry));
        drop(core);
        task.map(|task| self.call(|| task.run())).is_some()
    }

    /// Calls what is the user's, and reports its panic.
    fn call(&self, work: impl FnOnce()) {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| self.report(panic));
    }

    #[cold]
    fn report(&self, panic: Panic) {
        self.panicked.set(self.panicked.get() + 1);
        tell_panic(self.on_panic.as_ref(), panic);
    }

    /// Returns when the wheel has to be looked at next. From then on the first timeout that comes
    /// up before that calls `on_earlier`.
    pub(super) fn next_look(&self) -> Subtick {
        if !self.is_asked.get() {
            self.ask();
        }
        let next = self.next_look.get();
        self.comes_back.set(next);
        next
    }

    /// Asks the wheel when it has to be looked at next. The answer holds until a timeout is earlier
    /// or a slot has been emptied. What else changes may only make it too early.
    fn ask(&self) {
        self.next_look.set(self.core.borrow().wheel.next_due().unwrap_or(Subtick::NEVER));
        self.is_asked.set(true);
    }

    /// Ends the engine. Drops the tasks that are pending, and wakes the futures.
    pub(super) fn end(&self) {
        self.has_ended.set(true);
        let callback = self.on_earlier.take();
        drop(callback);
        let mut left = Chain::new();
        self.core.borrow_mut().wheel.drain().for_each(|entry| left.push(entry.set_aside()));
        // The drop of a task may cancel those that are still to come.
        while let Some(entry) = left.pop() {
            let (pending, free) = entry.end();
            let mut core = self.core.borrow_mut();
            core.pending -= usize::from(pending.is_some());
            free.into_iter().for_each(|entry| core.arena.put(entry));
            drop(core);
            if let Some((kind, task)) = pending {
                self.call(|| if kind == Kind::Sleeper { task.run() } else { drop(task) });
            }
        }
    }
}

impl Core {
    fn step_cascades(&mut self) {
        self.wheel.step_cascades(&mut Budget::new(self.expiry_limit));
    }

    /// Takes out all that is due by `now`, within the limit. A task that runs then may schedule
    /// what is due at once: that waits for the next turn.
    fn take_due(&mut self, now: Subtick) -> Chain<LocalDue> {
        let mut due = Chain::new();
        let mut budget = Budget::new(self.expiry_limit);
        self.wheel.set_now(now);
        let mut expiry = self.wheel.expire();
        while let Some(entry) = expiry.pop(now, &mut budget) {
            match entry.due_here(now) {
                Ok(entry) => due.push(entry),
                Err((entry, deadline)) => expiry.insert_again(entry, deadline),
            }
        }
        due
    }
}
