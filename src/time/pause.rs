//! Pauses: the engine's time can stand still while its clock goes on.
//!
//! The engine's time is the clock's time minus all pauses. One word holds how much was lost so far,
//! or, in a pause, where the engine's time stands.
//!
//! *Nothing that is scheduled in a pause runs in it.* So a pause must not stop the engine's time
//! before a moment that a worker has already seen. A reader reads the word, the clock, and the word
//! again. A pause first announces itself in the word, and then reads the clock. If the reader's
//! second look at the word does not see the announcement, the reader read the clock before the
//! pause did. A reader that sees the announcement waits until the pause has read the clock.

#[cfg(not(target_arch = "x86_64"))]
use crate::sync::fence;
use crate::sync::{AtomicU64, Mutex, Ordering, lock, thread};
use crate::sys::fork;

/// Set in a pause: the other bits are then the engine's time. When it is not set, they say how far
/// that is behind the clock.
const PAUSED: u64 = 1 << 63;
/// A pause has been announced, and its thread is reading the clock.
const ANNOUNCED: u64 = u64::MAX;

/// The pauses of one engine. All times are nanoseconds since its start.
#[derive(Debug)]
pub(crate) struct Pauses {
    word: AtomicU64,
    /// Held by the thread that begins or ends a pause.
    changing: Mutex<()>,
    /// [`fork::generation`] when this was made.
    generation: usize,
}

/// Models that don't pause leave the word out, because every operation would read it.
#[cfg(loom)]
pub(crate) static MODEL_PAUSES: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Replaces the announcement by `then` when it is dropped.
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

/// Orders reads of the clock and accesses to the word. The memory model can't express that, because
/// a read of the clock is neither a load nor a store. On x86-64, locked instructions and the
/// instructions by which the system reads its clock keep this order by themselves.
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
        // Acquire: pairs with the Release in `Announced::drop` and in `resume`. The read of the
        // clock that follows, or the use of this word, comes after this load.
        let word = self.word.load(Ordering::Acquire);
        if word == ANNOUNCED { self.look_again() } else { word }
    }

    #[cold]
    fn look_again(&self) -> u64 {
        // A child that was forked during an announcement must not wait: nobody in it would change
        // the word.
        while !fork::is_forked_since(self.generation) {
            // Acquire: pairs with the same Releases as the load in `look`.
            let word = self.word.load(Ordering::Acquire);
            if word != ANNOUNCED {
                return word;
            }
            thread::yield_now();
        }
        0
    }

    /// Returns the engine's time. `clock_ns` reads the clock.
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

    /// Like `engine_ns`, for a clock that may be ahead. If a pause comes in between, the result may
    /// be ahead too: a timeout may then be late, but not early.
    #[inline]
    pub(crate) fn engine_upper_bound_ns(&self, clock_ns: impl FnOnce() -> u64) -> u64 {
        let word = self.look();
        if word & PAUSED != 0 { word & !PAUSED } else { clock_ns().saturating_sub(word) }
    }

    /// Returns how far the engine's time is now behind the clock.
    pub(crate) fn lost_ns(&self, clock_ns: impl Fn() -> u64) -> u64 {
        loop {
            let word = self.look();
            if word & PAUSED == 0 {
                return word;
            }
            let ns = clock_ns();
            // If the pause has ended in between, this would be too much, and deadlines would be too
            // early.
            if self.look() == word {
                return ns.saturating_sub(word & !PAUSED);
            }
        }
    }

    /// Like `lost_ns`, without a look at the clock. Returns `None` in a pause.
    #[inline]
    pub(crate) fn lost_ns_unless_paused(&self) -> Option<u64> {
        let word = self.look();
        (word & PAUSED == 0).then_some(word)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.look() & PAUSED != 0
    }

    /// Stops the engine's time. Returns `false` if it stands already.
    pub(crate) fn pause(&self, clock_ns: impl Fn() -> u64) -> bool {
        let _changing = lock(&self.changing);
        let lost = self.look();
        if lost & PAUSED != 0 {
            return false;
        }
        // A swap and not a store: all threads must see it before the clock is read.
        self.word.swap(ANNOUNCED, Ordering::AcqRel);
        put_clock_and_word_in_order();
        // If the user's clock panics, dropping this ends the pause before it has begun.
        let mut announced = Announced { word: &self.word, then: lost };
        announced.then = PAUSED | clock_ns().saturating_sub(lost).min(!PAUSED - 1);
        true
    }

    /// Lets the engine's time go on from where it stands. Returns `false` if it does not stand.
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
