//! How an engine's time can stand still while its clock goes on.
//!
//! The engine's time is the clock's, less all pauses. One word holds what is needed to tell: how much was lost so far, or, in
//! a pause, where the engine's time stands.
//!
//! *Nothing that is scheduled in a pause runs in it.* A pause must not stop the engine's time before a moment that a worker
//! has seen already. So whoever reads the time reads the word, the clock, and the word again; and a pause first
//! announces itself in the word, and reads the clock afterwards. If a reader's second look does not see the announcement, its
//! look at the clock came before that of the pause. (A reader that does see it waits for the two instructions in between.)

use crate::sync::{AtomicU64, Mutex, Ordering, lock, thread};

/// The rest of the word says where the engine's time stands; otherwise it says how far it is behind the clock.
const PAUSED: u64 = 1 << 63;
/// A pause has been announced, and the clock is being read.
const ANNOUNCED: u64 = u64::MAX;

/// The pauses of one engine. All times are nanoseconds since its start.
#[derive(Debug)]
pub(crate) struct Pauses {
    word: AtomicU64,
    /// Held by who begins or ends a pause.
    changing: Mutex<()>,
}

/// Models that don't pause leave the word out, which they would otherwise look at from everywhere.
#[cfg(loom)]
pub(crate) static MODEL_PAUSES: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

impl Pauses {
    pub(crate) fn none_yet() -> Self {
        Self { word: AtomicU64::new(0), changing: Mutex::new(()) }
    }

    #[inline]
    fn look(&self) -> u64 {
        #[cfg(loom)]
        if !MODEL_PAUSES.load(std::sync::atomic::Ordering::Relaxed) {
            return 0;
        }
        // Acquire: the look at the clock that follows, or the use of what stands here, comes after this.
        let mut word = self.word.load(Ordering::Acquire);
        while word == ANNOUNCED {
            thread::yield_now();
            word = self.word.load(Ordering::Acquire);
        }
        word
    }

    /// The engine's time, from what the clock says when `clock_ns` looks at it.
    #[inline]
    pub(crate) fn engine_ns(&self, clock_ns: impl Fn() -> u64) -> u64 {
        loop {
            let word = self.look();
            if word & PAUSED != 0 {
                return word & !PAUSED;
            }
            let ns = clock_ns();
            if self.look() == word {
                return ns.saturating_sub(word);
            }
        }
    }

    /// How far the engine's time is behind the clock now.
    pub(crate) fn lost_ns(&self, clock_ns: impl Fn() -> u64) -> u64 {
        let word = self.look();
        if word & PAUSED == 0 { word } else { clock_ns().saturating_sub(word & !PAUSED) }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.look() & PAUSED != 0
    }

    /// Stops the engine's time. False if it stands already.
    pub(crate) fn pause(&self, clock_ns: impl Fn() -> u64) -> bool {
        let _changing = lock(&self.changing);
        let lost = self.look();
        if lost & PAUSED != 0 {
            return false;
        }
        // A swap, not a store: it is done, for all to see, before the clock is read.
        self.word.swap(ANNOUNCED, Ordering::AcqRel);
        let stands_at = clock_ns().saturating_sub(lost).min(!PAUSED - 1);
        // Release: pairs with the Acquire in `look`.
        self.word.store(PAUSED | stands_at, Ordering::Release);
        true
    }

    /// Lets the engine's time go on from where it stands. False if it does not stand.
    pub(crate) fn resume(&self, clock_ns: impl Fn() -> u64) -> bool {
        let _changing = lock(&self.changing);
        let word = self.look();
        if word & PAUSED == 0 {
            return false;
        }
        let lost = clock_ns().saturating_sub(word & !PAUSED);
        // Release: pairs with the Acquire in `look`.
        self.word.store(lost, Ordering::Release);
        true
    }
}
