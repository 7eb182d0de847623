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

use super::tick::{MOST_NS, saturating_ns};

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

    /// Returns the nanoseconds since `base`: at least `Instant::now() - base` at the time of the
    /// look.
    #[inline]
    pub(super) fn ns_since(self, base: Base) -> u64 {
        self.0.wrapping_sub(base.0)
    }
}

/// A point in time that nanoseconds can be counted from. It is stored as nanoseconds after the
/// process's base, or, wrapping, before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base(u64);

impl Base {
    pub(super) fn at(start: Instant) -> Self {
        let process = process_base();
        let after = saturating_ns(start.saturating_duration_since(process));
        let before = saturating_ns(process.saturating_duration_since(start));
        Self(after.wrapping_sub(before))
    }

    /// Returns the nanoseconds from this base to `at`, or `None` if one of them comes before the
    /// process's base, or 292 years after it. Most of the computation does not depend on this base,
    /// so it overlaps with a cache miss on the memory that the base is in.
    #[inline]
    pub(super) fn ns_to(self, at: Instant) -> Option<u64> {
        let ns = saturating_ns(at.checked_duration_since(process_base())?);
        (self.0..MOST_NS).contains(&ns).then(|| ns - self.0)
    }
}

/// Sets the process's base. Must be called before the first reading of the clock that a base is
/// made of. Opens what later readings need.
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

    #[test]
    fn a_base_and_a_scale_count_the_same_nanoseconds() {
        let process = process_base();
        let hour = Duration::from_secs(3_600);
        let points = [
            process - hour,
            process - Duration::from_nanos(1),
            process,
            process + Duration::from_nanos(7),
            process + hour,
        ];
        let (far, centuries) = (process + Duration::from_secs(1 << 40), Duration::from_secs(1 << 34));
        for start in points.into_iter().chain(process.checked_sub(centuries)) {
            let scale = crate::time::tick::Scale::new(start, Duration::from_millis(1));
            for at in points.into_iter().chain([far]) {
                let ns = Base::at(start).ns_to(at);
                assert!(ns.is_none_or(|ns| ns == scale.ns_at(at)), "{ns:?}");
                assert_eq!(ns.is_some(), start >= process && at >= start && at < far, "the usual case has no detour");
            }
        }
    }

    /// On several threads at once, with preemption: the bound must hold on a loaded machine, too.
    #[test]
    fn the_producers_clock_is_never_behind_the_monotonic_clock() {
        let start = Instant::now();
        let base = Base::at(start);
        let check = || {
            let mut close = 0_u32;
            while start.elapsed() < Duration::from_millis(300) {
                for _ in 0..1000 {
                    let before = start.elapsed().as_nanos();
                    let ahead = u128::from(UpperBound::look().ns_since(base));
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
