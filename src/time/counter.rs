//! The processor's time stamp counter, and when it can be trusted. The [upper bound
//! clock](super::upper_bound_clock) adds it to a reading of the monotonic clock.
//!
//! The counter is used while Linux itself uses it as its clock source, which means that it runs at
//! a constant rate and is the same on all cores. That may end. The kernel drops the counter when
//! the kernel's watchdog finds it wrong. A virtual machine may be moved to, or resumed on, a host
//! whose counter has another rate. So two checks are repeated:
//!
//! 1. *At each reading of the clock*, which a thread does at most once in 16 µs: the thread
//!    computes the time from its last reading and the counter. If that is behind the clock, the
//!    rate is wrong. This checks the bound itself, so it needs no other condition.
//! 2. *Once a second*, by the first thread that comes by: it asks the kernel for its clock source
//!    again, and measures the rate over the time since the last such review.
//!
//! If either check fails, the counter is not trusted for a second. Then everything starts again:
//! the question for the clock source, and two milliseconds of measuring the rate. Until then each
//! call reads the clock.
//!
//! No thread waits here. One thread at a time reviews ([`Counter::claim`]). The others use its
//! result.

use std::cell::Cell;
// Not through `sync`: this is a rate and a window. Models use the exact clock instead.
use std::sync::atomic::{AtomicU64, Ordering};

use super::tick::MARGIN_NS;
use crate::sys::fork;

/// How long the counter is believed after a reading of the clock.
const WINDOW_NS: u64 = 16_000;
/// The rate is measured over at least `CALIBRATION_NS`. The first measurement takes no longer than
/// `LONG_CALIBRATION_NS`, and otherwise begins anew: over a longer time it is an average that may
/// never have been the rate.
const CALIBRATION_NS: u64 = 2_000_000;
const LONG_CALIBRATION_NS: u64 = 100_000_000;
/// The time from one review to the next.
const REVIEW_NS: u64 = 1_000_000_000;
/// Two readings of the counter with a reading of the clock between them differ by less than this
/// (some µs). If they differ by more, the thread was interrupted in between.
const UNDISTURBED: u64 = 20_000;

/// The machine, as this module needs it. Tests use a simulated one.
pub(super) trait Machine {
    fn counter(&self) -> u64;
    /// The monotonic clock, in nanoseconds.
    fn clock_ns(&self) -> u64;
    /// Returns whether the kernel uses the counter as its clock source, or `None` if the kernel
    /// does not say. Costs a few system calls.
    fn is_clock_source(&self) -> Option<bool>;
}

/// A reading of the counter, and a reading of the clock that followed it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    counted: u64,
    /// With the margin; 0 if the thread has not read the clock yet.
    ns: u64,
}

impl Look {
    pub(super) const NONE: Self = Self { counted: 0, ns: 0 };

    fn new(counted: u64, clock_ns: u64) -> Self {
        Self { counted, ns: clock_ns + MARGIN_NS }
    }
}

/// Nanoseconds per count, plus an eighth, times 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate(u64);

impl Rate {
    /// Returns `None` if the time is too short, or if the rate is not plausible, which is 0.1 to 20
    /// GHz. That also keeps the arithmetic in bounds.
    fn between(from: Look, to: Look) -> Option<Self> {
        let counts = to.counted.wrapping_sub(from.counted);
        let ns = to.ns.saturating_sub(from.ns);
        if ns < CALIBRATION_NS || counts < ns / 10 || counts / 20 > ns {
            return None;
        }
        let per_count = (u128::from(ns) << 32) / u128::from(counts);
        u64::try_from(per_count + per_count / 8).ok().map(Self)
    }

    /// The counts in a window.
    fn window(self) -> u64 {
        (WINDOW_NS << 32) / self.0
    }

    /// Returns at least as many nanoseconds as `counts` took. `counts` is less than a window, so
    /// the product does not overflow.
    #[inline]
    fn ns_in_window(self, counts: u64) -> u64 {
        (counts * self.0) >> 32
    }

    fn ns_in(self, counts: u64) -> u64 {
        u64::try_from((u128::from(counts) * u128::from(self.0)) >> 32).unwrap_or(u64::MAX)
    }

    /// Returns whether a rate that was measured later is the same, apart from slewed clocks and
    /// errors of measurement.
    fn agrees_with(self, later: Self) -> bool {
        self.0.abs_diff(later.0) <= self.0 / 64
    }
}

/// Returns whether the counter is behind the clock. `earlier` is the thread's last look, and
/// `counted` was read after `clock_ns`.
fn is_behind(rate: Rate, earlier: Look, counted: u64, clock_ns: u64) -> bool {
    let passed_ns = rate.ns_in(counted.wrapping_sub(earlier.counted));
    earlier.ns != 0 && earlier.ns.saturating_add(passed_ns) < clock_ns
}

/// The state of the counter that all threads share.
#[derive(Debug)]
pub(super) struct Counter {
    /// In counts; 0 while the counter is not trusted.
    window: AtomicU64,
    /// A [`Rate`]. Written before `window`.
    rate: AtomicU64,
    /// When the next review is due.
    due_ns: AtomicU64,
    /// 0 if no thread reviews; otherwise [`fork::generation`]. The generation is there for
    /// a child that was forked during a review: nobody in the child would end it.
    claim: AtomicU64,
    /// Where the measurement of the rate began. It belongs to the thread that reviews.
    from: [AtomicU64; 2],
}

impl Counter {
    pub(super) const fn new() -> Self {
        Self {
            window: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            due_ns: AtomicU64::new(0),
            claim: AtomicU64::new(0),
            from: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// Returns at least what the clock says. `last` belongs to the calling thread.
    #[inline]
    pub(super) fn ns(&self, machine: &impl Machine, last: &Cell<Look>) -> u64 {
        // Acquire: pairs with the Release in `review`, for the rate.
        let window = self.window.load(Ordering::Acquire);
        if window == 0 {
            return self.look_at_clock(machine);
        }
        let (look, counted) = (last.get(), machine.counter());
        let passed = counted.wrapping_sub(look.counted);
        if passed < window {
            return look.ns + self.rate().ns_in_window(passed);
        }
        self.look(machine, last, counted)
    }

    #[inline]
    fn rate(&self) -> Rate {
        Rate(self.rate.load(Ordering::Relaxed))
    }

    #[cold]
    fn look(&self, machine: &impl Machine, last: &Cell<Look>, counted: u64) -> u64 {
        let ns = machine.clock_ns();
        let earlier = last.replace(Look::new(counted, ns));
        // Read the counter once more: the thread may have been interrupted since it read it.
        if is_behind(self.rate(), earlier, machine.counter(), ns) {
            self.distrust(ns);
        } else {
            self.review_if_due(machine, ns);
        }
        ns + MARGIN_NS
    }

    #[cold]
    fn look_at_clock(&self, machine: &impl Machine) -> u64 {
        let ns = machine.clock_ns();
        self.review_if_due(machine, ns);
        ns + MARGIN_NS
    }

    /// Makes all threads read the clock, for at least a second.
    fn distrust(&self, now_ns: u64) {
        self.due_ns.store(now_ns.saturating_add(REVIEW_NS), Ordering::Relaxed);
        self.window.store(0, Ordering::Relaxed);
    }

    fn review_if_due(&self, machine: &impl Machine, now_ns: u64) {
        if self.due_ns.load(Ordering::Relaxed) <= now_ns && self.claim() {
            // Another thread may have reviewed in between.
            if self.due_ns.load(Ordering::Relaxed) <= now_ns {
                self.review(machine, now_ns);
            }
            // Release: pairs with the Acquire in `claim`. The next thread that reviews sees all
            // that this one wrote.
            self.claim.store(0, Ordering::Release);
        }
    }

    /// Claims the review. Returns `false` while another thread of this process reviews.
    fn claim(&self) -> bool {
        let mine = fork::generation();
        let found = self.claim.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `review_if_due`.
        found != mine && self.claim.compare_exchange(found, mine, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Reviews the counter. Only the thread that holds the claim calls this.
    fn review(&self, machine: &impl Machine, now_ns: u64) {
        let due_at = |ns: u64| self.due_ns.store(ns, Ordering::Relaxed);
        due_at(now_ns.saturating_add(REVIEW_NS));
        let (window, from) = (self.window.load(Ordering::Relaxed), self.measured_from());
        let begins = window == 0 && (from.ns == 0 || now_ns.saturating_sub(from.ns) > LONG_CALIBRATION_NS);
        let source = if begins || window != 0 { machine.is_clock_source() } else { Some(true) };
        // If the kernel no longer answers, because a sandbox has closed the file, the rate decides.
        if source == Some(false) || (begins && source.is_none()) {
            return self.distrust(now_ns);
        }
        // If the thread is interrupted each time, the next review measures over a longer time.
        let Some(look) = undisturbed_look(machine) else { return due_at(now_ns.saturating_add(CALIBRATION_NS)) };
        self.measure_from(look);
        if begins {
            return due_at(look.ns.saturating_add(CALIBRATION_NS));
        }
        let is_the_same = |later: &Rate| window == 0 || self.rate().agrees_with(*later);
        let Some(rate) = Rate::between(from, look).filter(is_the_same) else { return self.distrust(now_ns) };
        self.rate.store(rate.0, Ordering::Relaxed);
        // Fails if another thread has closed the window meanwhile. Release: pairs with the Acquire
        // in `ns`.
        let _ = self.window.compare_exchange(window, rate.window(), Ordering::Release, Ordering::Relaxed);
    }

    fn measured_from(&self) -> Look {
        let [counted, ns] = &self.from;
        Look { counted: counted.load(Ordering::Relaxed), ns: ns.load(Ordering::Relaxed) }
    }

    fn measure_from(&self, look: Look) {
        let [counted, ns] = &self.from;
        counted.store(look.counted, Ordering::Relaxed);
        ns.store(look.ns, Ordering::Relaxed);
    }
}

fn undisturbed_look(machine: &impl Machine) -> Option<Look> {
    (0..8).find_map(|_| {
        let counted = machine.counter();
        let ns = machine.clock_ns();
        (machine.counter().wrapping_sub(counted) < UNDISTURBED).then_some(Look::new(counted, ns))
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    /// A machine whose time passes only when something is asked of it, or by `pass`.
    struct Simulated {
        ns: Cell<u64>,
        /// In thousandths of a count.
        counted: Cell<u64>,
        /// Counts in 1,000 ns.
        rate: Cell<u64>,
        source: Cell<Option<bool>>,
        clock_looks: Cell<u64>,
        /// When the clock source was asked for.
        asked_ns: std::cell::RefCell<Vec<u64>>,
    }

    impl Simulated {
        fn new(rate: u64) -> Self {
            Self {
                ns: Cell::new(5 * MS),
                counted: Cell::new(77 * SECOND),
                rate: Cell::new(rate),
                source: Cell::new(Some(true)),
                clock_looks: Cell::new(0),
                asked_ns: std::cell::RefCell::default(),
            }
        }

        fn pass(&self, ns: u64) {
            self.ns.set(self.ns.get() + ns);
            self.counted.set(self.counted.get().wrapping_add(ns * self.rate.get()));
        }

        fn jump(&self, counts: i64) {
            self.counted.set(self.counted.get().wrapping_add_signed(counts * 1_000));
        }
    }

    impl Machine for Simulated {
        fn counter(&self) -> u64 {
            self.pass(3);
            let counted = self.counted.get() / 1_000;
            self.pass(4);
            counted
        }

        fn clock_ns(&self) -> u64 {
            self.clock_looks.set(self.clock_looks.get() + 1);
            self.pass(11);
            let ns = self.ns.get();
            self.pass(9);
            ns
        }

        fn is_clock_source(&self) -> Option<bool> {
            self.asked_ns.borrow_mut().push(self.ns.get());
            self.pass(10_000);
            self.source.get()
        }
    }

    /// The results of many calls.
    #[derive(Debug, Default)]
    struct Seen {
        calls: u64,
        clock_looks: u64,
        /// How many calls were behind. `behind_until_ns` is how long after the first call the last
        /// of them came.
        behind: u64,
        behind_until_ns: u64,
        furthest_ahead_ns: u64,
    }

    impl Seen {
        fn uses_the_counter(&self) -> bool {
            self.clock_looks < self.calls / 2
        }
    }

    /// A machine, the counter that its threads share, and each thread's last look.
    struct Threads {
        machine: Simulated,
        counter: Counter,
        last: Vec<Cell<Look>>,
        random: u64,
    }

    impl Threads {
        fn new(threads: usize, rate: u64) -> Self {
            let last = (0..threads).map(|_| Cell::new(Look::NONE)).collect();
            Self { machine: Simulated::new(rate), counter: Counter::new(), last, random: 1 }
        }

        /// Threads that have used the counter for two seconds.
        fn at_work(threads: usize, rate: u64) -> Self {
            let mut at_work = Self::new(threads, rate);
            at_work.work(2 * SECOND);
            assert!(at_work.work(MS).uses_the_counter());
            at_work
        }

        fn draw(&mut self, below: u64) -> u64 {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) % below
        }

        /// The threads ask for the time in random order: often, and sometimes after a millisecond.
        fn work(&mut self, for_ns: u64) -> Seen {
            let (start_ns, looks) = (self.machine.ns.get(), self.machine.clock_looks.get());
            let mut seen = Seen::default();
            while self.machine.ns.get() < start_ns + for_ns {
                let thread = usize::try_from(self.draw(self.last.len() as u64)).expect("few");
                let before_ns = self.machine.ns.get();
                let upper_bound_ns = self.counter.ns(&self.machine, &self.last[thread]);
                seen.calls += 1;
                if upper_bound_ns < before_ns {
                    seen.behind += 1;
                    seen.behind_until_ns = before_ns - start_ns;
                }
                seen.furthest_ahead_ns =
                    seen.furthest_ahead_ns.max(upper_bound_ns.saturating_sub(self.machine.ns.get()));
                let pause = if self.draw(500) == 0 { MS } else { self.draw(1_000) };
                self.machine.pass(pause);
            }
            seen.clock_looks = self.machine.clock_looks.get() - looks;
            seen
        }
    }

    #[test]
    fn a_counter_that_keeps_its_rate_is_used_and_never_behind() {
        for rate in [110, 999, 2_450, 19_000] {
            let mut threads = Threads::new(3, rate);
            let seen = threads.work(4 * SECOND);
            assert_eq!(seen.behind, 0, "{rate}: {seen:?}");
            assert!(seen.uses_the_counter() && seen.furthest_ahead_ns < 4_000, "{rate}: {seen:?}");
        }
    }

    #[test]
    fn an_implausible_rate_is_not_used() {
        for rate in [0, 50, 30_000] {
            let seen = Threads::new(2, rate).work(3 * SECOND);
            assert!(seen.behind == 0 && !seen.uses_the_counter(), "{rate}: {seen:?}");
        }
    }

    #[test]
    fn a_slower_counter_is_behind_for_one_window_and_then_used_at_its_new_rate() {
        for slower in [2_600, 2_000, 1_500, 300] {
            let mut threads = Threads::at_work(3, 3_000);
            threads.machine.rate.set(slower);
            let seen = threads.work(SECOND / 2);
            // The window lasts until this many counts have passed. Then a thread has to come by.
            let window_ns = WINDOW_NS * 3_000 / slower + 2 * MS;
            assert!(seen.behind_until_ns <= window_ns, "{slower}: {seen:?}");
            assert!(!seen.uses_the_counter(), "{slower}: {seen:?}");
            threads.work(SECOND);
            let seen = threads.work(2 * SECOND);
            assert!(seen.behind == 0 && seen.uses_the_counter(), "{slower}: {seen:?}");
        }
    }

    #[test]
    fn a_faster_counter_is_never_behind_and_then_used_at_its_new_rate() {
        let mut threads = Threads::at_work(3, 1_000);
        threads.machine.rate.set(3_000);
        let seen = threads.work(3 * SECOND);
        assert_eq!(seen.behind, 0, "{seen:?}");
        let seen = threads.work(SECOND);
        assert!(seen.behind == 0 && seen.uses_the_counter() && seen.furthest_ahead_ns < 4_000, "{seen:?}");
    }

    #[test]
    fn a_counter_that_jumps_is_behind_for_one_window_only() {
        for counts in
            [-1_000_000_000_000, -3_000_000, -40_000, -20_000, -1_000, 1_000, 40_000, 3_000_000, 1_000_000_000_000]
        {
            let mut threads = Threads::at_work(3, 2_450);
            threads.machine.jump(counts);
            let seen = threads.work(4 * SECOND);
            assert!(seen.behind_until_ns < 2 * WINDOW_NS + 2 * MS, "{counts}: {seen:?}");
            let seen = threads.work(SECOND);
            assert!(seen.behind == 0 && seen.uses_the_counter(), "{counts}: {seen:?}");
        }
    }

    #[test]
    fn a_rate_that_drifts_is_followed() {
        let mut threads = Threads::at_work(2, 3_000);
        for second in 0..30 {
            threads.machine.rate.set(threads.machine.rate.get() * 986 / 1_000);
            let seen = threads.work(SECOND);
            assert!(seen.behind == 0 && seen.uses_the_counter(), "second {second}: {seen:?}");
            assert!(seen.furthest_ahead_ns < 3_000, "second {second}: {seen:?}");
        }
        assert!(threads.machine.rate.get() < 2_000);
    }

    #[test]
    fn the_counter_is_used_only_while_it_is_the_kernels_clock_source() {
        let mut threads = Threads::at_work(3, 2_450);
        threads.machine.source.set(Some(false));
        threads.work(SECOND + 2 * MS);
        let seen = threads.work(3 * SECOND);
        assert_eq!((seen.clock_looks, seen.behind), (seen.calls, 0), "{seen:?}");
        threads.machine.source.set(Some(true));
        threads.work(SECOND + 10 * MS);
        let seen = threads.work(SECOND);
        assert!(seen.behind == 0 && seen.uses_the_counter(), "{seen:?}");
    }

    #[test]
    fn an_unknown_clock_source_changes_nothing() {
        let mut threads = Threads::new(2, 2_450);
        threads.machine.source.set(None);
        assert!(!threads.work(2 * SECOND).uses_the_counter(), "it has never said so");
        let mut threads = Threads::at_work(2, 2_450);
        threads.machine.source.set(None);
        let seen = threads.work(5 * SECOND);
        assert!(seen.behind == 0 && seen.uses_the_counter(), "it has said so before: {seen:?}");
    }

    #[test]
    fn the_kernel_is_asked_at_most_once_a_second() {
        let mut threads = Threads::new(3, 2_450);
        for (rate, source) in [(2_450, true), (1_500, true), (1_500, false), (3_000, true), (900, true)] {
            threads.machine.rate.set(rate);
            threads.machine.source.set(Some(source));
            threads.work(5 * SECOND / 2);
        }
        let asked = threads.machine.asked_ns.borrow();
        assert!(asked.len() >= 8, "{asked:?}");
        assert!(asked.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{asked:?}");
    }

    #[test]
    fn counts_of_a_sleeping_machine_give_no_rate() {
        let mut threads = Threads::new(1, 3_000);
        threads.work(MS);
        assert!(threads.counter.window.load(Ordering::Relaxed) == 0 && threads.counter.measured_from().ns != 0);
        threads.machine.jump(3_000_000_000);
        threads.machine.pass(SECOND);
        let seen = threads.work(SECOND);
        assert!(seen.behind == 0 && seen.uses_the_counter(), "the first rate: {seen:?}");
        let mut threads = Threads::at_work(1, 3_000);
        threads.machine.jump(3_000_000_000);
        let seen = threads.work(3 * SECOND);
        assert_eq!(seen.behind, 0, "a later one: {seen:?}");
        let seen = threads.work(SECOND);
        assert!(seen.behind == 0 && seen.uses_the_counter(), "{seen:?}");
    }

    #[test]
    fn the_first_look_of_a_thread_cannot_distrust_the_counter() {
        let mut threads = Threads::at_work(1, 3_000);
        // The counter starts again from 0, as a machine that wakes up may let it do.
        threads.machine.counted.set(0);
        threads.work(3 * SECOND);
        for _ in 0..10 {
            threads.last.push(Cell::new(Look::NONE));
            let seen = threads.work(10 * MS);
            assert!(seen.behind == 0 && seen.uses_the_counter(), "{seen:?}");
        }
    }

    #[test]
    fn a_review_under_way_in_the_parent_does_not_block_a_forked_child() {
        let counter = Counter::new();
        assert!(counter.claim() && !counter.claim(), "one at a time");
        counter.claim.store(fork::generation() + 1, Ordering::Relaxed);
        assert!(counter.claim() && !counter.claim());
    }
}
