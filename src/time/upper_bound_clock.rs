//! A clock for producers: never behind the monotonic clock, and at most a few microseconds ahead of
//! it.
//!
//! A producer turns a delay into a deadline. If the time that it starts from is a little ahead, the
//! timeout fires a little later. If that time were behind, the timeout would fire early. So a
//! producer needs an upper bound. The bound costs less than half of the exact time (here 9 ns
//! instead of 22). It also needs no fence, by which an exact reading of the clock waits for every
//! cache miss that is under way. Each thread reads the monotonic clock at most once in 16 µs. In
//! between it adds what the processor's time stamp counter says has passed, plus an eighth.
//!
//! Why that is an upper bound: the thread reads the counter before the clock, so the added time
//! begins too early rather than too late. The counter's rate is measured to a percent at first, and
//! again each second. From one measurement to the next the monotonic clock is slewed by at most 10
//! % (time daemons stay below 8.4 %). The eighth is more than both. The processor may also read the
//! counter before instructions that precede it. [`MARGIN_NS`](super::tick::MARGIN_NS) covers that:
//! a microsecond is longer than any of them takes.
//!
//! The counter is used only while Linux itself uses it as its clock source, which means that it
//! runs at a constant rate and is the same on all cores. It may still jump or change its rate, when
//! a virtual machine is moved or resumed on another host. Each thread may then be behind until its
//! next reading of the clock, which is 16 µs away by the counter itself. `counter.rs` says how that
//! reading detects the error, and why no thread believes the counter afterwards. (A counter that
//! stood still would be believed for as long as it stands. But no processor runs code while its
//! counter stands still.)

use std::time::Instant;

use super::tick::saturating_ns;

/// A look at the clock, which depends on no engine. On some processors, Intel's Xeons among them, a
/// look waits for all loads before it. So a caller that is about to load a cold cache line looks
/// first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpperBound(u64);

impl UpperBound {
    #[inline]
    pub(crate) fn look() -> Self {
        Self(imp::ns_since_process_base())
    }

    /// Returns the nanoseconds since a start, which [`ns_at`] has turned into nanoseconds: at least
    /// `Instant::now()` minus that instant, at the time of the look.
    #[inline]
    pub(super) fn ns_since(self, start_ns: u64) -> u64 {
        self.0.wrapping_sub(start_ns)
    }
}

/// Returns an instant in nanoseconds after the process's base.
pub(super) fn ns_at(at: Instant) -> u64 {
    saturating_ns(at.saturating_duration_since(process_base()))
}

/// Sets the process's base. Must be called before the first reading of the clock that time is
/// counted from. Opens what later readings need.
pub(super) fn begin() {
    process_base();
    imp::open();
}

/// The instant that all threads count from.
#[inline]
pub(super) fn process_base() -> Instant {
    static BASE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *BASE.get_or_init(Instant::now)
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri), not(loom))))]
mod imp {
    pub(super) fn open() {}

    pub(super) fn ns_since_process_base() -> u64 {
        super::saturating_ns(crate::time::real_time()) + crate::time::tick::MARGIN_NS
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri), not(loom)))]
mod imp {
    use std::cell::Cell;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use crate::sync::{OnceLock, get_or_set};
    use crate::time::counter::{Counter, Look, Machine};
    use crate::time::{real_time, saturating_ns};

    static COUNTER: Counter = Counter::new();

    /// The kernel's clock source, in a file that stays open: a sandbox may forbid to open files
    /// once the program has started.
    static SOURCE: OnceLock<Option<File>> = OnceLock::new();

    pub(super) fn open() {
        // It is opened outside of the lock, which is held for a moment only: a child that another
        // thread forks off in that moment waits for ever.
        get_or_set(&SOURCE, || File::open("/sys/devices/system/clocksource/clocksource0/current_clocksource").ok());
    }

    thread_local! {
        static LAST: Cell<Look> = const { Cell::new(Look::NONE) };
    }

    #[inline]
    pub(super) fn ns_since_process_base() -> u64 {
        LAST.with(|last| COUNTER.ns(&This, last))
    }

    /// The machine that this process runs on.
    struct This;

    impl Machine for This {
        #[inline]
        fn counter(&self) -> u64 {
            // SAFETY: every x86-64 processor has the instruction. (A system may forbid it to user
            // code, by CR4.TSD. Such a system does not use the counter as its vDSO clock either,
            // and `Counter` asks for that first.)
            unsafe { core::arch::x86_64::_rdtsc() }
        }

        fn clock_ns(&self) -> u64 {
            saturating_ns(real_time())
        }

        /// Does not allocate: a thread that schedules may call this. A program that closes files
        /// that are not its own only loses the counter.
        fn is_clock_source(&self) -> Option<bool> {
            let mut source = [0; 16];
            let len = SOURCE.get()?.as_ref()?.read_at(&mut source, 0).ok()?;
            Some(source[..len].trim_ascii_end() == b"tsc")
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    /// On several threads at once, with preemption: the bound must hold on a loaded machine, too.
    #[test]
    fn the_producers_clock_is_never_behind_the_monotonic_clock() {
        begin();
        let start = Instant::now();
        let start_ns = ns_at(start);
        let check = || {
            let mut close = 0_u32;
            while start.elapsed() < Duration::from_millis(300) {
                for _ in 0..1000 {
                    let before = start.elapsed().as_nanos();
                    let ahead = u128::from(UpperBound::look().ns_since(start_ns));
                    let after = start.elapsed().as_nanos();
                    assert!(ahead >= before, "{} ns behind", before - ahead);
                    close += u32::from(ahead < after + 25_000);
                }
            }
            close
        };
        let close: u32 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(check)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread saw it behind")).sum()
        });
        assert!(close > 0, "and it stays close");
    }
}
