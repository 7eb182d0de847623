//! What an entry holds for a future that sleeps: the waker of the task that awaits it.
//!
//! Two may want it at once: the future, which puts another waker in when it is polled by another task, and whoever has taken the
//! entry out of PENDING, who takes the waker out, once. They take turns by one byte (after `AtomicWaker` of Tokio and futures,
//! with less to do: the taker comes once, and a future is polled by one thread at a time):
//!
//! * The taker sets TAKEN. If the future is not at it, the waker is the taker's. If it is, the waker stays the future's, which
//!   finds TAKEN when it is done, and so knows that it need not be woken: it is awake.
//! * The future sets CHANGING, unless it finds TAKEN, replaces the waker, and clears CHANGING.
//!
//! So either the taker sees the new waker, or the future sees that the entry is no longer pending: the taker's way out of PENDING comes
//! before TAKEN, and the future looks at the state again after it.

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
    /// There from the start until the taker takes it. The taker copies it and leaves its bytes, so that the future may compare
    /// them with those of another waker at any time.
    waker: ProtocolCell<ManuallyDrop<Waker>>,
}

impl Sleeper {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { turn: AtomicU8::new(AT_REST), waker: ProtocolCell::new(ManuallyDrop::new(waker)) }
    }

    /// Sees to it that `waker` is what is woken. For the future, which is polled by one thread at a time. False: the taker has
    /// been here, so that the state is no longer pending.
    #[inline]
    pub(crate) fn watch(&self, waker: &Waker) -> bool {
        // SAFETY: the future alone replaces it, and is here; the taker only reads. What it has woken is compared by address.
        let same = self.waker.with(|current| unsafe { &*current }.will_wake(waker));
        // Who sees that it is the same needs no turn: what it put in last is what is, or was, taken.
        same || self.change(waker)
    }

    #[cold]
    fn change(&self, waker: &Waker) -> bool {
        // The user's code, which may panic: before the turn begins.
        let new = ManuallyDrop::new(waker.clone());
        // Acquire: pairs with the taker's release. (Nobody but this future takes the waker's place, so nothing else is to be seen.)
        if self.turn.compare_exchange(AT_REST, CHANGING, Ordering::Acquire, Ordering::Acquire).is_err() {
            drop(ManuallyDrop::into_inner(new));
            return false;
        }
        // SAFETY: the turn is the future's: the taker, should it come now, leaves the waker to it.
        let old = self.waker.with_mut(|place| unsafe { ptr::replace(place, new) });
        // Release: the taker sees the new waker. Acquire: as above.
        let rests = self.turn.compare_exchange(CHANGING, AT_REST, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !rests {
            // SAFETY: the taker has left it, and does not come again.
            drop(unsafe { self.move_out() });
        }
        // Again the user's code: when all is in order.
        drop(ManuallyDrop::into_inner(old));
        rests
    }

    /// Takes the waker; none if the future is at it, and so is awake. For whoever has taken the entry out of PENDING, once.
    pub(crate) fn take(&self) -> Option<Waker> {
        // Acquire: pairs with the future's release. Release: the future sees that the entry is no longer pending.
        let found = self.turn.fetch_or(TAKEN, Ordering::AcqRel);
        // SAFETY: nobody is at it, and from now on nobody takes it or replaces it.
        (found == AT_REST).then(|| unsafe { self.move_out() })
    }

    /// The waker of one that nobody else can reach any more, and that was not taken.
    pub(super) fn into_waker(self) -> Waker {
        // SAFETY: it has not been taken, and `self` goes.
        unsafe { self.move_out() }
    }

    /// The waker, copied out; its bytes stay.
    ///
    /// # Safety
    /// It was not moved out before, and nobody replaces it any more.
    #[inline]
    unsafe fn move_out(&self) -> Waker {
        // SAFETY: as above.
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

    fn waker() -> (Arc<Count>, Waker) {
        let count = Arc::<Count>::default();
        (Arc::clone(&count), Waker::from(count))
    }

    #[test]
    fn the_last_waker_is_the_one_that_is_taken_and_none_leaks() {
        let ((first, waker_1), (second, waker_2)) = (waker(), waker());
        let sleeper = Sleeper::new(waker_1.clone());
        assert!(sleeper.watch(&waker_1));
        assert_eq!(Arc::strong_count(&first), 3, "the same waker is not cloned again");
        assert!(sleeper.watch(&waker_2));
        assert_eq!(Arc::strong_count(&first), 2, "the one before is dropped");
        sleeper.take().expect("nobody is at it").wake();
        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
        drop((waker_1, waker_2));
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
    }

    #[test]
    fn who_comes_after_the_taker_is_told_and_leaves_nothing_behind() {
        let ((first, waker_1), (second, waker_2)) = (waker(), waker());
        let sleeper = Sleeper::new(waker_1);
        drop(sleeper.take());
        assert!(!sleeper.watch(&waker_2));
        assert_eq!(Arc::strong_count(&second), 2, "the clone has gone");
        assert!(sleeper.take().is_none(), "the waker is taken once");
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
