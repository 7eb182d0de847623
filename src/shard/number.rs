//! The shards of a process, by number. An entry names its shard by 16 bits, and so has more room
//! for its task.

use std::num::NonZeroU16;
use std::ptr;
// Not through `sync`: no protocol depends on it. A thread that reads a place was told of the number
// by a protocol that the models check.
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Remote;

/// All engines of a process have at most so many shards together. No shard has the number 0.
pub(crate) const MOST_SHARDS: usize = PLACES - 1;
const PLACES: usize = 1 << u16::BITS;

/// The remote of each number. The pages of those that are not in use take no memory.
static REMOTES: [AtomicPtr<Remote>; PLACES] = [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];

/// Holds the place of a number whose remote has not been made yet.
const TAKEN: *mut Remote = ptr::dangling_mut();

/// A number that nobody else has. Its drop gives the number back.
#[derive(Debug)]
pub(crate) struct Number(NonZeroU16);

impl Number {
    /// Takes free numbers, the lowest first, as long as the iterator is asked. It takes no lock, as
    /// a child may have been forked while another thread was here.
    pub(crate) fn take() -> impl Iterator<Item = Self> {
        let is_taken = |number: &NonZeroU16| {
            // Relaxed: nothing is read through a place before `set`.
            let place = place(*number);
            place.load(Ordering::Relaxed).is_null()
                && place.compare_exchange(ptr::null_mut(), TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        (1..=u16::MAX).filter_map(NonZeroU16::new).filter(is_taken).map(Self)
    }

    #[inline]
    pub(super) fn get(&self) -> NonZeroU16 {
        self.0
    }

    /// Makes this the number of a remote, which has it.
    pub(super) fn set(&self, remote: &Remote) {
        // Relaxed: the step that tells another thread of the number publishes this, too.
        place(self.0).store(ptr::from_ref(remote).cast_mut(), Ordering::Relaxed);
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        place(self.0).store(ptr::null_mut(), Ordering::Relaxed);
    }
}

/// Returns the remote of a number, for a thread that was told of the number after `set`.
#[inline]
pub(super) fn remote_of(number: NonZeroU16) -> *const Remote {
    let remote = place(number).load(Ordering::Relaxed);
    debug_assert!(!remote.is_null() && remote != TAKEN, "nobody may look for a remote that is not there");
    remote
}

#[inline]
fn place(number: NonZeroU16) -> &'static AtomicPtr<Remote> {
    &REMOTES[usize::from(number.get())]
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_nobody_elses() {
        // Other tests of this process have engines.
        let all: Vec<_> = Number::take().take(MOST_SHARDS / 2).collect();
        let more: Vec<_> = Number::take().take(3).collect();
        let numbers: std::collections::BTreeSet<_> = all.iter().chain(&more).map(Number::get).collect();
        assert_eq!(numbers.len(), MOST_SHARDS / 2 + 3);
    }

    #[test]
    fn a_number_that_was_given_back_is_given_out_again() {
        for _ in 0..6 {
            assert_eq!(Number::take().take(MOST_SHARDS / 4).count(), MOST_SHARDS / 4);
        }
    }
}
