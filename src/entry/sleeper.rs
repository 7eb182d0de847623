//! What the entry of a sleeping future holds: the waker of the task that awaits it.
//!
//! Two threads may want the waker at once. The future puts another waker in when another task polls
//! it. The *taker*, the thread that has taken the entry out of PENDING, takes the waker out, once.
//! One byte decides between them. This follows the `AtomicWaker` of Tokio and futures, but is
//! simpler: the taker takes once, and one thread at a time polls a future.
//!
//! * The taker sets TAKEN. If the future is not changing the waker, the waker is the taker's.
//!   Otherwise the waker stays the future's. The future finds TAKEN when it is done, and needs no
//!   wake-up, because it is awake.
//! * The future sets CHANGING unless it finds TAKEN, replaces the waker, and clears CHANGING.
//!
//! So either the taker sees the new waker, or the future sees that the entry is no longer pending:
//! the taker takes the entry out of PENDING before it sets TAKEN, and the future looks at the state
//! again after it has seen TAKEN.

use std::mem::ManuallyDrop;
use std::ptr;
use std::task::Waker;

use crate::sync::{AtomicU8, Ordering, ProtocolCell};

const AT_REST: u8 = 0;
const CHANGING: u8 = 1;
const TAKEN: u8 = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct Sleeper {
    turn: AtomicU8,
    /// Set from the start until the taker takes it. The taker copies it and leaves its bytes, so
    /// that the future may compare them with those of another waker at any time.
    waker: ProtocolCell<ManuallyDrop<Waker>>,
}

impl Sleeper {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { turn: AtomicU8::new(AT_REST), waker: ProtocolCell::new(ManuallyDrop::new(waker)) }
    }

    /// Makes `waker` the one that is woken. Returns false if the taker has taken the waker: then
    /// the state is no longer pending.
    ///
    /// # Safety
    /// The caller is the future, which one thread at a time polls.
    #[inline]
    pub(super) unsafe fn watch(&self, waker: &Waker) -> bool {
        // SAFETY: only the future, which one thread polls at a time, replaces the waker, and it is
        // the caller. A taker only reads. A taken one is compared by address.
        let same = self.waker.with(|current| unsafe { &*current }.will_wake(waker));
        // The same waker needs no turn: the future put it in last, so it is the one that is, or
        // was, taken.
        same || self.change(waker)
    }

    #[cold]
    fn change(&self, waker: &Waker) -> bool {
        // Cloning runs user code, which may panic, so it comes before CHANGING is set.
        let new = ManuallyDrop::new(waker.clone());
        // Acquire: pairs with the taker's release. Only this future replaces the waker, so it has
        // nothing else to see. A second thread would find CHANGING here.
        if self.turn.compare_exchange(AT_REST, CHANGING, Ordering::Acquire, Ordering::Acquire).is_err() {
            drop(ManuallyDrop::into_inner(new));
            return false;
        }
        // SAFETY: CHANGING is set, so a taker that comes now leaves the waker to the future.
        let old = self.waker.with_mut(|place| unsafe { ptr::replace(place, new) });
        // Release: the taker sees the new waker. Acquire: pairs with the taker's release.
        let rests = self.turn.compare_exchange(CHANGING, AT_REST, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !rests {
            // SAFETY: the taker has left the waker to the future, and does not come again.
            drop(unsafe { self.move_out() });
        }
        // Dropping runs user code too, so it comes last.
        drop(ManuallyDrop::into_inner(old));
        rests
    }

    /// Takes the waker. Returns `None` if the future is changing it, and so is awake. The thread
    /// that has taken the entry out of PENDING calls this, once.
    pub(super) fn take(&self) -> Option<Waker> {
        // Acquire: pairs with the future's release. Release: the future sees that the entry is no
        // longer pending.
        let found = self.turn.fetch_or(TAKEN, Ordering::AcqRel);
        // SAFETY: the future is not changing the waker, and from now on nobody takes it or replaces
        // it.
        (found == AT_REST).then(|| unsafe { self.move_out() })
    }

    /// Copies the waker out; its bytes stay.
    ///
    /// # Safety
    /// Nobody replaces the waker during the call. It was not moved out before, and is not moved out
    /// again unless the caller forgets this one.
    #[inline]
    pub(super) unsafe fn move_out(&self) -> Waker {
        // SAFETY: a waker is always here. Only the future replaces it, and not now: it is the
        // caller, or TAKEN is set, or the sleeper has left its entry.
        ManuallyDrop::into_inner(self.waker.with(|place| unsafe { ptr::read(place) }))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::AtomicUsize;
    use std::sync::Arc;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn watch(sleeper: &Sleeper, waker: &Waker) -> bool {
        // SAFETY: each test is the future of its sleeper, and has one thread.
        unsafe { sleeper.watch(waker) }
    }

    fn waker() -> (Arc<Count>, Waker) {
        let count = Arc::<Count>::default();
        (Arc::clone(&count), Waker::from(count))
    }

    #[test]
    fn the_last_waker_is_the_one_that_is_taken_and_none_leaks() {
        let ((first, waker_1), (second, waker_2)) = (waker(), waker());
        let sleeper = Sleeper::new(waker_1.clone());
        assert!(watch(&sleeper, &waker_1));
        assert_eq!(Arc::strong_count(&first), 3, "the same waker is not cloned again");
        assert!(watch(&sleeper, &waker_2));
        assert_eq!(Arc::strong_count(&first), 2, "the one before is dropped");
        sleeper.take().expect("nobody is changing it").wake();
        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
        drop((waker_1, waker_2));
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
    }

    #[test]
    fn a_future_that_comes_after_the_taker_is_told_and_leaks_nothing() {
        let ((first, waker_1), (second, waker_2)) = (waker(), waker());
        let sleeper = Sleeper::new(waker_1);
        drop(sleeper.take());
        assert!(!watch(&sleeper, &waker_2));
        assert_eq!(Arc::strong_count(&second), 2, "the clone has gone");
        assert!(sleeper.take().is_none(), "the waker is taken once");
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
