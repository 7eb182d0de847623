//! A clock that goes on while the machine is suspended (`CLOCK_BOOTTIME` of Linux), so that what
//! became due meanwhile fires soon after the machine wakes. Workers sleep by the real clock, which
//! stands still in a suspend. So a thread looks once a second whether boot time has stepped away
//! from it, and tells the engines on the clock.
//!
//! ```toml
//! [dependencies]
//! libc = "0.2"
//! tourbillon = { path = "../tourbillon" }
//! ```

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Clock, ClockListener, Timer};

/// Two readings, one after the other, may be so far apart without a step.
const STEP: Duration = Duration::from_millis(50);

#[derive(Clone)]
struct BootClock(Arc<Inner>);

struct Inner {
    /// The clock's time at boot time `begun`.
    start: Instant,
    begun: Duration,
    listeners: Mutex<Vec<Weak<dyn ClockListener>>>,
}

impl BootClock {
    /// Returns `None` if the system has no such clock.
    fn new() -> Option<Self> {
        let clock = Self(Arc::new(Inner { start: Instant::now(), begun: boot_time()?, listeners: Mutex::default() }));
        let watched = Arc::downgrade(&clock.0);
        thread::spawn(move || tell_of_steps(&watched));
        Some(clock)
    }
}

impl Clock for BootClock {
    fn now(&self) -> Instant {
        self.0.start + boot_time().unwrap_or_default().saturating_sub(self.0.begun)
    }

    fn subscribe(&self, listener: Weak<dyn ClockListener>) {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }
}

/// Ends with the last clone and the last engine on the clock.
fn tell_of_steps(clock: &Weak<Inner>) {
    let mut told = Duration::ZERO;
    while let Some(clock) = clock.upgrade().map(BootClock) {
        let ahead = clock.now().saturating_duration_since(Instant::now());
        if ahead > told + STEP {
            told = ahead;
            let listeners = clock.0.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
            listeners.iter().filter_map(Weak::upgrade).for_each(|engine| engine.stepped());
        }
        drop(clock);
        thread::sleep(Duration::from_secs(1));
    }
}

fn boot_time() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes to `now` only.
        let failed = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) } != 0;
        (!failed).then(|| Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec.try_into().unwrap_or(0)))
    }
    #[cfg(not(target_os = "linux"))]
    None
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(clock) = BootClock::new() else {
        println!("a clock that counts suspends is not available on this system");
        return Ok(());
    };
    let (send, over) = std::sync::mpsc::channel();
    let timer = Timer::builder().clock(clock).build()?;
    let deadline = timer.now() + Duration::from_millis(50);
    timer.schedule_detached(Duration::from_millis(50), move || _ = send.send("log in again"))?;
    println!("after 50 ms, in which the machine may have been suspended: {}", over.recv()?);
    assert!(timer.now() >= deadline);
    Ok(())
}
