//! A clock that goes on while the machine is suspended.
//!
//! A worker sleeps by the real clock, which stands still in a suspend. From one suspend to the next
//! boot time goes as fast as the real clock, so a sleep ends in time unless boot time has stepped
//! meanwhile. *After each step of boot time each engine on the clock is told, and looks at the
//! clock again.* A thread of the clock does that. It first watches for the next step, and then
//! tells of the one before. So a step before the watch is told of then, and one after it ends the
//! next wait. What an engine does that is told is the same as after a move of a manual clock.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::listeners::Listeners;
use crate::panics;
use crate::sync::thread;
use crate::sys::boot_time::BootTime;
use crate::sys::cores::spawn_ordinary;

/// A clock that goes on while the machine is suspended: a laptop with its lid closed, a phone in a
/// pocket. Linux calls it `CLOCK_BOOTTIME`, and Android `elapsedRealtime`. Clones are one clock.
///
/// By the system's monotonic clock, no time passes in a suspend. A timeout of 30 minutes, of which
/// 10 have passed when the machine falls asleep, has 20 more to go when it wakes, two hours later.
/// On this clock it is over, and fires when the machine wakes.
///
/// ```
/// use std::time::Duration;
/// use tourbillon::{BootClock, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = Timer::builder();
/// let timer = match BootClock::new() {
///     Ok(clock) => builder.clock(clock).build()?,
///     Err(why) => {
///         println!("a suspend will not count: {why}");
///         builder.build()?
///     }
/// };
/// let session = timer.schedule(Duration::from_secs(30 * 60), || println!("log in again"))?;
/// # drop(session);
/// # Ok(())
/// # }
/// ```
///
/// # What happens at the end of a suspend
///
/// * The kernel wakes the clock's thread, which wakes the workers of all engines on the clock. So
///   what became due in the suspend fires once three threads have been woken: the clock's, a worker
///   and one of the pool. No timeout wakes the machine.
/// * What has not become due fires at its deadline. Nothing is early.
/// * A periodic timeout has missed runs, and [`MissedTicks`](crate::MissedTicks) says what becomes
///   of them.
/// * [`Lateness`](crate::Lateness) and [`Timer::health`](crate::Timer::health) go by this clock. So
///   a timeout that was due in the suspend counts as late by the rest of it. And a look at the
///   health before the worker has run again finds a worker that is behind, and a task that was
///   running seems stuck for as long.
/// * In a driven engine the clock's thread calls the callback of
///   [`Driver::on_earlier`](crate::Driver::on_earlier). Let the loop sleep for what is left from
///   [`Timer::now`](crate::Timer::now) to [`Driver::next_wakeup`](crate::Driver::next_wakeup).
///
/// # What to know
///
/// * After a suspend the clock is ahead of [`Instant::now`]. So let a deadline count from
///   [`Timer::now`](crate::Timer::now) or [`now`](Self::now). All clocks of a process show the same
///   time.
/// * A virtual machine that its host stops and continues was not suspended. This clock shows of
///   that what [`Instant::now`] shows.
/// * A clock has a thread and a descriptor, until the last clone and the last engine on it have
///   gone. The thread sleeps. It wakes at the end of a suspend and when the wall clock is set. A
///   program that closes all descriptors has to make its clock afterwards.
/// * If the last [`Timer`](crate::Timer) goes just when a suspend ends, the clock's thread may be
///   the one that drops what is pending.
/// * A schedule reads the system's clock, as on every clock that [`Builder::clock`] sets. The
///   default clock is cheaper.
/// * In a forked child, make a new clock. The old one shows the time, and its thread is the
///   parent's: engines that the child puts on it sleep too long after a suspend. Its descriptor
///   stays open in the child.
///
/// The way to notice a suspend is systemd's.
///
/// [`Builder::clock`]: crate::Builder::clock
#[doc(alias = "CLOCK_BOOTTIME")]
#[doc(alias = "elapsedRealtime")]
#[doc(alias = "suspend")]
#[derive(Clone)]
pub struct BootClock {
    inner: Arc<Inner>,
}

struct Inner {
    boot: Arc<BootTime>,
    /// What the clock shows at boot time `start_ns`.
    start: Instant,
    start_ns: u64,
    listeners: Listeners,
}

impl BootClock {
    /// Returns a clock that shows [`Instant::now`] plus the suspends since the process made its
    /// first one.
    ///
    /// The call allocates, opens a descriptor, and starts a thread. It does not block.
    ///
    /// # Errors
    /// Returns the system's error if it has no descriptor or no thread left. Returns an error of
    /// the kind [`Unsupported`](io::ErrorKind::Unsupported) on all systems but Linux and Android.
    /// Also fails in a sandbox or an emulation of Linux that does not have `timerfd_create`, with
    /// the flag `TFD_TIMER_CANCEL_ON_SET` for `timerfd_settime`.
    pub fn new() -> io::Result<Self> {
        /// Where all clocks of the process begin.
        static START: OnceLock<(Instant, u64)> = OnceLock::new();
        let boot = Arc::new(BootTime::new()?);
        // The instant first, so that the clock is not ahead of it before a suspend.
        let &(start, start_ns) = START.get_or_init(|| (Instant::now(), boot.now_ns()));
        let inner = Arc::new(Inner { boot: Arc::clone(&boot), start, start_ns, listeners: Listeners::default() });
        let clock = Arc::downgrade(&inner);
        let builder = thread::Builder::new().name("tourbillon-boot".to_owned());
        // It ends with the clock, or if the system refuses to let it wait.
        spawn_ordinary(builder, move || _ = tell_of_steps(&boot, &clock))?;
        Ok(Self { inner })
    }

    /// Returns the time that this clock shows. Neither blocks nor allocates.
    // Kept out of line, so that engines on other clocks read theirs as before.
    #[inline(never)]
    #[must_use]
    pub fn now(&self) -> Instant {
        let Inner { boot, start, start_ns, .. } = &*self.inner;
        *start + Duration::from_nanos(boot.now_ns().saturating_sub(*start_ns))
    }

    pub(super) fn listeners(&self) -> &Listeners {
        &self.inner.listeners
    }

    /// Lets the clock step, as at the end of a suspend.
    #[cfg(all(test, target_os = "linux", not(miri), not(loom)))]
    pub(crate) fn step(&self, by: Duration) {
        self.inner.boot.step(u64::try_from(by.as_nanos()).expect("less than centuries"));
    }
}

/// Tells the clock's engines of each step, until the clock is gone.
fn tell_of_steps(boot: &BootTime, clock: &Weak<Inner>) -> io::Result<()> {
    loop {
        boot.wait()?;
        boot.watch()?;
        let Some(clock) = clock.upgrade() else { return Ok(()) };
        for listener in clock.listeners.all() {
            // This may be the last to hold the engine, and drop values of the user's with it.
            panics::catch(move || listener.ring());
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // By now the thread can't upgrade its pointer. If it is about to watch, and so undoes this,
        // it finds that out before it waits.
        self.boot.end_wait();
    }
}

impl Clock for BootClock {
    fn now(&self) -> Instant {
        BootClock::now(self)
    }
}

impl fmt::Debug for BootClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BootClock").field("now", &self.now()).finish_non_exhaustive()
    }
}
