//! How an engine's time can stand still while its clock goes on.
//!
//! The engine's time is the clock's, less all pauses. One word holds what is needed to tell: how much was lost so far, or, in
//! a pause, where the engine's time stands.
//!
//! *Nothing that is scheduled in a pause runs in it.* A pause must not stop the engine's time before a moment that a worker
//! has seen already. So whoever reads the time reads the word, the clock, and the word again; and a pause first
//! announces itself in the word, and reads the clock afterwards. If a reader's second look does not see the announcement, its
//! look at the clock came before that of the pause. (A reader that does see it waits for the two instructions in between.)

#[cfg(not(target_arch = "x86_64"))]
use crate::sync::fence;
use crate::sync::{AtomicU64, Mutex, Ordering, lock, thread};
use crate::sys::fork;

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
    /// [`fork::generation`] at its making.
    generation: usize,
}

/// Models that don't pause leave the word out, which they would otherwise look at from everywhere.
#[cfg(loom)]
pub(crate) static MODEL_PAUSES: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Takes the announcement back when it goes.
struct Announced<'a> {
    word: &'a AtomicU64,
    then: u64,
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `look`.
        self.word.store(self.then, Ordering::Release);
    }
}

/// What the memory model has no word for: a look at the clock is neither a load nor a store. On x86-64 locked instructions and
/// what the system reads its clock with keep the order by themselves.
#[inline]
fn put_clock_and_word_in_order() {
    #[cfg(not(target_arch = "x86_64"))]
    fence(Ordering::SeqCst);
}

impl Pauses {
    pub(crate) fn none_yet() -> Self {
        Self { word: AtomicU64::new(0), changing: Mutex::new(()), generation: fork::generation() }
    }

    #[inline]
    fn look(&self) -> u64 {
        #[cfg(loom)]
        if !MODEL_PAUSES.load(std::sync::atomic::Ordering::Relaxed) {
            return 0;
        }
        // Acquire: the look at the clock that follows, or the use of what stands here, comes after this.
        let word = self.word.load(Ordering::Acquire);
        if word == ANNOUNCED { self.look_again() } else { word }
    }

    #[cold]
    fn look_again(&self) -> u64 {
        // In a child whose parent was forked just then nobody would ever change the word.
        while !fork::is_forked_since(self.generation) {
            // Acquire: as in `look`.
            let word = self.word.load(Ordering::Acquire);
            if word != ANNOUNCED {
                return word;
            }
            thread::yield_now();
        }
        0
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
            put_clock_and_word_in_order();
            if self.look() == word {
                return ns.saturating_sub(word);
            }
        }
    }

    /// The same for a clock that may be ahead: what is scheduled from it may be late if a pause comes in between, but not early.
    #[inline]
    pub(crate) fn engine_upper_bound_ns(&self, clock_ns: impl FnOnce() -> u64) -> u64 {
        let word = self.look();
        if word & PAUSED != 0 { word & !PAUSED } else { clock_ns().saturating_sub(word) }
    }

    /// How far the engine's time is behind the clock now.
    pub(crate) fn lost_ns(&self, clock_ns: impl Fn() -> u64) -> u64 {
        loop {
            let word = self.look();
            if word & PAUSED == 0 {
                return word;
            }
            let ns = clock_ns();
            // Should the pause have ended in between, this would be too much, and deadlines too early.
            if self.look() == word {
                return ns.saturating_sub(word & !PAUSED);
            }
        }
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
        put_clock_and_word_in_order();
        // Should the user's clock panic, there is no pause.
        let mut announced = Announced { word: &self.word, then: lost };
        announced.then = PAUSED | clock_ns().saturating_sub(lost).min(!PAUSED - 1);
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
