//! Timers as the loop of a server sees them: armed and moved by session and kind, and asked what is
//! due. A system does each operation in the cheapest way that it has.

use std::cell::RefCell;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Sleep, sleep_until};
use tourbillon::{Driver, Timeout, Timer};

use super::protocol::{KINDS, Kind};
use crate::duration::Epoch;

/// A timer of a session: the session's place, and the timer's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Of(u32);

const COUNT: u32 = 3;
const _: () = assert!(KINDS.len() == COUNT as usize, "each kind has its place");

impl Of {
    pub(super) fn new(place: u32, kind: Kind) -> Self {
        Self(place * COUNT + kind as u32)
    }

    pub(super) fn place(self) -> u32 {
        self.0 / COUNT
    }

    pub(super) fn kind(self) -> Kind {
        KINDS[self.0 as usize % KINDS.len()]
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The timers of all sessions of a server.
pub(super) trait Timers: Sized + Send + 'static {
    /// Whether the runtime needs its own timers.
    const OF_TOKIO: bool;

    /// Is called on the runtime's thread.
    fn start(sessions: usize) -> Result<Self>;

    /// Arms a timer, or moves it if it is armed. The system takes the delay or the deadline,
    /// whichever is cheaper for it.
    fn arm(&mut self, of: Of, delay: Duration, deadline: Instant);

    /// The timer need not come up any more. If it does, the session finds that it is not armed. So
    /// a system whose timers are cheap to move does nothing, and moves the timer when it is armed
    /// again.
    fn cancel(&mut self, _of: Of) {}

    /// The session has ended, and another may take its place.
    fn forget(&mut self, place: u32);

    /// Appends what has come up. The task is woken when there is more.
    fn come_up(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>);
}

/// The entry of a timer in a table that grows as far as it has to.
fn slot<T>(table: &mut Vec<Option<T>>, of: Of) -> &mut Option<T> {
    let sessions = of.place() as usize + 1;
    if table.len() < sessions * KINDS.len() {
        table.resize_with(sessions * KINDS.len(), || None);
    }
    &mut table[of.index()]
}

/// Drops all entries of a session.
fn forget<T>(table: &mut [Option<T>], place: u32) {
    let entries = table.iter_mut().skip(place as usize * KINDS.len()).take(KINDS.len());
    entries.for_each(|entry| *entry = None);
}

/// Tourbillon without a thread: the loop turns the engine.
#[derive(Debug)]
pub(super) struct Driven {
    timer: Timer,
    driver: Driver,
    wake_at: WakeAt,
    next: Option<Instant>,
    timeouts: Vec<Option<Timeout>>,
}

impl Timers for Driven {
    const OF_TOKIO: bool = false;

    fn start(sessions: usize) -> Result<Self> {
        clear_here();
        let builder = Timer::builder().capacity(2 * sessions);
        let (timer, driver) = builder.build_driven().context("the engine refused its options")?;
        Ok(Self { timer, driver, wake_at: WakeAt::new()?, next: None, timeouts: Vec::new() })
    }

    fn arm(&mut self, of: Of, delay: Duration, _deadline: Instant) {
        let entry = slot(&mut self.timeouts, of);
        if !entry.as_ref().is_some_and(|timeout| timeout.reset(delay)) {
            // Only a shutdown or a limit could refuse it. Then it would be missing.
            *entry = self.timer.schedule(delay, move || push_here(of)).ok();
        }
    }

    fn forget(&mut self, place: u32) {
        forget(&mut self.timeouts, place);
    }

    fn come_up(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>) {
        if self.next.is_some_and(|next| next <= Instant::now()) {
            self.driver.turn();
        }
        take_here(context, due);
        self.next = self.driver.next_wakeup();
        self.wake_at.set(self.next, context);
    }
}

/// Tokio's timers: a `Sleep` for each timer, made once and reset from then on. Its waker names it
/// to the loop, so that no task stands between.
#[derive(Debug)]
pub(super) struct Sleeps(Vec<Option<Entry>>);

#[derive(Debug)]
struct Entry {
    sleep: Pin<Box<Sleep>>,
    waker: Waker,
    /// Whether the sleep has the waker, which it gives up when it comes up.
    has_waker: bool,
}

impl Entry {
    fn register(&mut self, of: Of) {
        self.has_waker = self.sleep.as_mut().poll(&mut Context::from_waker(&self.waker)).is_pending();
        if !self.has_waker {
            // It is due already, and nothing will wake the loop.
            push_here(of);
        }
    }
}

impl Timers for Sleeps {
    const OF_TOKIO: bool = true;

    fn start(_sessions: usize) -> Result<Self> {
        clear_here();
        Ok(Self(Vec::new()))
    }

    fn arm(&mut self, of: Of, _delay: Duration, deadline: Instant) {
        match slot(&mut self.0, of) {
            Some(entry) => {
                entry.sleep.as_mut().reset(deadline.into());
                if !entry.has_waker {
                    entry.register(of);
                }
            }
            empty => {
                let (sleep, waker) = (Box::pin(sleep_until(deadline.into())), Waker::from(Arc::new(WakeHere(of))));
                empty.insert(Entry { sleep, waker, has_waker: false }).register(of);
            }
        }
    }

    fn forget(&mut self, place: u32) {
        forget(&mut self.0, place);
    }

    fn come_up(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>) {
        take_here(context, due);
        for &of in &*due {
            if let Some(entry) = slot(&mut self.0, of) {
                entry.has_waker = false;
            }
        }
    }
}

/// The floor: replies are paced by an array of 64 slots of 1 ms, and there is no other timer.
/// Nothing that paces at all can cost less.
#[derive(Debug)]
pub(super) struct Bare {
    slots: Vec<Vec<Of>>,
    epoch: Epoch,
    /// The tick that comes up next.
    next: u64,
    waiting: usize,
    wake_at: WakeAt,
}

impl Timers for Bare {
    const OF_TOKIO: bool = false;

    fn start(_sessions: usize) -> Result<Self> {
        let slots = (0..SLOTS).map(|_| Vec::new()).collect();
        Ok(Self { slots, epoch: Epoch::start(), next: 1, waiting: 0, wake_at: WakeAt::new()? })
    }

    fn arm(&mut self, of: Of, _delay: Duration, deadline: Instant) {
        if of.kind() == Kind::Pacing {
            let tick = self.epoch.nanos(deadline).div_ceil(TICK_NS).clamp(self.next, self.next + SLOTS - 1);
            self.slots[(tick % SLOTS) as usize].push(of);
            self.waiting += 1;
        }
    }

    fn forget(&mut self, _place: u32) {}

    fn come_up(&mut self, context: &mut Context<'_>, due: &mut Vec<Of>) {
        let now = self.epoch.nanos(Instant::now()) / TICK_NS;
        while self.next <= now && self.waiting > 0 {
            let slot = &mut self.slots[(self.next % SLOTS) as usize];
            self.waiting -= slot.len();
            due.append(slot);
            self.next += 1;
        }
        self.next = self.next.max(now + 1);
        let full = (self.next..self.next + SLOTS).find(|tick| !self.slots[(tick % SLOTS) as usize].is_empty());
        self.wake_at.set(full.map(|tick| self.epoch.at(tick * TICK_NS)), context);
    }
}

/// Of the floor: the longest pacing is 50 ms.
const SLOTS: u64 = 64;
const TICK_NS: u64 = 1_000_000;

/// The way from a callback or a waker of the loop's own thread to the loop: what has come up, and
/// the task to wake when something does.
#[derive(Debug, Default)]
struct Due {
    come_up: Vec<Of>,
    waker: Option<Waker>,
}

thread_local! {
    static HERE: RefCell<Due> = RefCell::default();
}

/// Forgets what an earlier server of this thread has left.
fn clear_here() {
    HERE.take();
}

fn push_here(of: Of) {
    let waker = HERE.with_borrow_mut(|here| {
        here.come_up.push(of);
        here.waker.take()
    });
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Hands over what has come up. If nothing has, the task is woken when something does.
fn take_here(context: &mut Context<'_>, due: &mut Vec<Of>) {
    HERE.with_borrow_mut(|here| {
        due.append(&mut here.come_up);
        if due.is_empty() && !here.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            here.waker = Some(context.waker().clone());
        }
    });
}

/// The waker of a timer that is a future.
struct WakeHere(Of);

impl Wake for WakeHere {
    fn wake(self: Arc<Self>) {
        push_here(self.0);
    }
}

/// Wakes the loop's task at a time, to the nanosecond: a timerfd, as an event loop has it that owns
/// its timers.
#[derive(Debug)]
struct WakeAt {
    fd: AsyncFd<OwnedFd>,
    set_to: Option<Instant>,
}

impl WakeAt {
    fn new() -> Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC);
        let fd = fd.context("cannot make a timerfd")?;
        // SAFETY: an `OwnedFd` is open, and stays the same one until the `AsyncFd` drops it. Nobody
        // gets it out, as it is behind a private field.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        let fd = fd.map_err(|why| anyhow!("the runtime refuses the timerfd: {why}"))?;
        Ok(Self { fd, set_to: None })
    }

    /// The task is woken at that time, and at no other. If the time has come, that is now.
    fn set(&mut self, at: Option<Instant>, context: &mut Context<'_>) {
        if self.set_to != at {
            // Zero would disarm it.
            let delay = at.map(|at| at.saturating_duration_since(Instant::now()).as_nanos().max(1));
            let value = delay.map_or(0, |delay| i64::try_from(delay).unwrap_or(i64::MAX));
            let it_value = Timespec { tv_sec: value / 1_000_000_000, tv_nsec: value % 1_000_000_000 };
            let spec = Itimerspec { it_interval: Timespec::default(), it_value };
            if timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &spec).is_err() {
                return context.waker().wake_by_ref();
            }
            self.set_to = at;
        }
        // Each setting has an edge of its own, so nothing need be read.
        while let Poll::Ready(Ok(mut ready)) = self.fd.poll_read_ready(context) {
            ready.clear_ready();
            self.set_to = None;
            context.waker().wake_by_ref();
        }
    }
}
