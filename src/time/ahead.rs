//! A clock for producers: never behind the monotonic clock, and a few microseconds ahead of it at most.
//!
//! A producer turns a delay into a deadline. If the time that it starts from is a little ahead, the timeout fires a little
//! later; if it were behind, the timeout would fire early. So what a producer needs is an upper bound, and that can be had
//! for less than half of what the exact time costs (here 9 ns instead of 22), and without the fence that makes an exact
//! look at the clock wait for every cache miss that is under way: each thread looks at the monotonic clock at most once in
//! 16 µs, and in between adds what the processor's time stamp counter says has passed, plus an eighth.
//!
//! Why that is an upper bound: the counter is read before the clock, so what is added begins too early rather than too
//! late. The monotonic clock is slewed by at most 10 % (time daemons stay below 8.4 %), and the counter's rate is
//! measured to a percent; the eighth is more than both. [`MARGIN_NS`] covers that a counter may be read before instructions
//! that stand before it: a microsecond is longer than any one of them takes. The counter is used only where Linux itself
//! has made it its clock source, which means that it runs at a constant rate and is the same on all cores. If it jumps all
//! the same (a virtual machine that is moved), 16 µs is the longest that it is believed.

use std::time::Instant;

/// Added to what the monotonic clock says.
const MARGIN_NS: u64 = 1_000;

/// Nanoseconds since `base`: at least as many as `Instant::now() - base` at the time of the call.
#[inline]
pub(super) fn ns_since(base: Base) -> u64 {
    imp::ns_since_process_base().wrapping_sub(base.0)
}

/// A point in time that nanoseconds can be counted from: nanoseconds after the process's base, or, wrapping, before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base(u64);

impl Base {
    pub(super) fn at(start: Instant) -> Self {
        let process = process_base();
        let after = super::saturating_ns(start.saturating_duration_since(process));
        let before = super::saturating_ns(process.saturating_duration_since(start));
        Self(after.wrapping_sub(before))
    }
}

impl Base {
    /// Nanoseconds from this base to `at`; none if `at`, or this base, comes before the process's base. Most of it does not
    /// depend on this base: so a caller that has yet to wait for the memory that it is in has that done meanwhile.
    #[inline]
    pub(super) fn ns_to(self, at: Instant) -> Option<u64> {
        let ns = super::saturating_ns(at.checked_duration_since(process_base())?);
        let comes_first = self.0 <= ns && ns < u64::MAX;
        comes_first.then(|| ns - self.0)
    }
}

/// To be called before the first look at the clock that a base is made of.
pub(super) fn begin() {
    process_base();
}

/// What all threads count from.
#[inline]
fn process_base() -> Instant {
    static BASE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *BASE.get_or_init(Instant::now)
}

fn exact_ns_ahead() -> u64 {
    super::saturating_ns(Instant::now().saturating_duration_since(process_base())) + MARGIN_NS
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri), not(loom))))]
mod imp {
    pub(super) fn ns_since_process_base() -> u64 {
        super::exact_ns_ahead()
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri), not(loom)))]
mod imp {
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::exact_ns_ahead;

    /// How long the counter is believed after a look at the clock.
    const WINDOW_NS: u64 = 16_000;
    /// The counter's rate is measured over at least this long.
    const CALIBRATION_NS: u64 = 2_000_000;
    /// Two readings of the counter with a look at the clock between them are apart by less than this (some µs), or the
    /// thread was interrupted in between.
    const UNDISTURBED: u64 = 20_000;

    thread_local! {
        /// The last look of this thread: counter, and nanoseconds with the margin.
        static LOOK: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    }

    /// The window in counts; 0 until the rate is known, or for ever if the counter can't be trusted.
    static WINDOW: AtomicU64 = AtomicU64::new(0);
    /// Nanoseconds per count, plus an eighth, times 2^32. Written before `WINDOW`.
    static RATE: AtomicU64 = AtomicU64::new(0);

    #[inline]
    fn counter() -> u64 {
        // SAFETY: every x86-64 processor has the instruction. (A system that forbids it to user code, by CR4.TSD, does not
        // use the counter as its vDSO clock either; see `is_trusted`, which is asked first.)
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    #[inline]
    pub(super) fn ns_since_process_base() -> u64 {
        // Acquire: pairs with the Release in `calibrate`, for the rate.
        let window = WINDOW.load(Ordering::Acquire);
        if window == 0 {
            return look_uncalibrated();
        }
        let (counted, ns) = LOOK.get();
        let now = counter();
        let passed = now.wrapping_sub(counted);
        if passed < window {
            // `passed` is small: no overflow.
            return ns + ((passed * RATE.load(Ordering::Relaxed)) >> 32);
        }
        look(now)
    }

    #[cold]
    fn look(counted: u64) -> u64 {
        let ns = exact_ns_ahead();
        LOOK.set((counted, ns));
        ns
    }

    #[cold]
    fn look_uncalibrated() -> u64 {
        if is_trusted() {
            calibrate();
        }
        exact_ns_ahead()
    }

    /// Whether the kernel has made the counter its own clock source.
    fn is_trusted() -> bool {
        static TRUSTED: OnceLock<bool> = OnceLock::new();
        *TRUSTED.get_or_init(|| {
            let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
            source.is_ok_and(|source| source.trim() == "tsc")
        })
    }

    /// Measures the rate between the first call of the process and the first one that comes long enough after it.
    fn calibrate() {
        static FIRST: OnceLock<(u64, u64)> = OnceLock::new();
        let Some((counted, ns)) = undisturbed_look() else { return };
        let (first_counted, first_ns) = *FIRST.get_or_init(|| (counted, ns));
        let (counts, passed_ns) = (counted.wrapping_sub(first_counted), ns.saturating_sub(first_ns));
        // The plausible range, 0.1 to 20 GHz, keeps the arithmetic in bounds, too.
        if passed_ns < CALIBRATION_NS || counts < passed_ns / 10 || counts / 20 > passed_ns {
            return;
        }
        let per_count = (u128::from(passed_ns) << 32) / u128::from(counts);
        let Ok(rate) = u64::try_from(per_count + per_count / 8) else { return };
        RATE.store(rate, Ordering::Relaxed);
        // Release: pairs with the Acquire of the readers. Two threads that measure at once store nearly the same.
        WINDOW.store((WINDOW_NS << 32) / rate, Ordering::Release);
    }

    fn undisturbed_look() -> Option<(u64, u64)> {
        (0..8).find_map(|_| {
            let before = counter();
            let ns = exact_ns_ahead();
            (counter().wrapping_sub(before) < UNDISTURBED).then_some((before, ns))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_base_counts_as_the_scale_does_wherever_it_and_the_instant_lie() {
        let process = process_base();
        let hour = Duration::from_secs(3_600);
        let points = [
            process - hour,
            process - Duration::from_nanos(1),
            process,
            process + Duration::from_nanos(7),
            process + hour,
        ];
        let far = process + Duration::from_secs(1 << 40);
        for start in points {
            let scale = crate::time::tick::Scale::new(start, Duration::from_millis(1));
            for at in points.into_iter().chain([far]) {
                let ns = Base::at(start).ns_to(at);
                assert!(ns.is_none_or(|ns| ns == scale.ns_at(at)), "{ns:?}");
                assert_eq!(ns.is_some(), start >= process && at >= start && at < far, "the usual case has no detour");
            }
        }
    }

    /// On all threads at once, with preemption: the bound must hold on a loaded machine, too.
    #[test]
    fn the_producers_clock_is_never_behind_the_monotonic_clock() {
        let start = Instant::now();
        let base = Base::at(start);
        let check = || {
            let mut close = 0_u32;
            while start.elapsed() < Duration::from_millis(300) {
                for _ in 0..1000 {
                    let before = start.elapsed().as_nanos();
                    let ahead = u128::from(ns_since(base));
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
