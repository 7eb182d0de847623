//! How long the writer waits after the store has failed, and how fast it takes what is overdue.

use std::time::{Duration, Instant};

use crate::clock::Micros;

/// After an error of the store: how long until the next try, and the longest.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);
/// After it has waited for a lock in vain.
const LOCKED: Duration = Duration::from_millis(10);

/// The pause of one kind of call to the store. Each kind has its own: one that fails for ever holds
/// up no other.
#[derive(Debug, Default)]
pub(super) struct Pause {
    until: Option<Instant>,
    last: Duration,
}

impl Pause {
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// When it ends, if there is one.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.last = (self.last * 2).clamp(FIRST, LONGEST);
        self.until = Some(now + self.last);
    }

    /// Somebody has locked all. The next try waits for the lock itself, so it comes soon.
    pub(super) fn locked(&mut self, now: Instant) {
        self.until = Some(now + LOCKED);
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }
}

/// Spreads out what came up while no process was there.
#[derive(Debug)]
pub(super) struct Pace {
    per_second: u32,
    /// When the next one is to run.
    next: Micros,
}

impl Pace {
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second, next: Micros(0) }
    }

    /// How many may run from `now` on, until `end`.
    pub(super) fn allowed(&self, now: Micros, end: Micros) -> u32 {
        let time = end.since(self.next.max(now));
        // Rounded up: a low rate and a short time would else allow none, for ever.
        let allowed = (time.as_secs_f64() * f64::from(self.per_second)).ceil();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
        let allowed = allowed as u32;
        allowed
    }

    /// Returns when the next one is to run.
    pub(super) fn take(&mut self, now: Micros) -> Micros {
        let at = self.next.max(now);
        self.next = at.plus(Duration::from_secs(1) / self.per_second);
        at
    }

    /// Begins anew, after a jump of the clock.
    pub(super) fn reset(&mut self) {
        self.next = Micros(0);
    }
}
