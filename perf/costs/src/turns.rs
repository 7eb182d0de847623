//! Threads that take turns. `perf/model` has this file, too.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread::{self, Thread};
use std::{panic, process};

/// Has a panic of any thread end the process: another thread may wait for the one that panics.
pub(crate) fn end_with_a_panic() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        tell(info);
        process::exit(101);
    }));
}

/// Whose turn it is of a few threads, which go round and round.
pub(crate) struct Turns {
    whose: AtomicUsize,
    threads: Vec<OnceLock<Thread>>,
    all_there: Barrier,
}

impl Turns {
    pub(crate) fn new(threads: usize) -> Self {
        let all_there = Barrier::new(threads);
        Self { whose: AtomicUsize::new(0), threads: (0..threads).map(|_| OnceLock::new()).collect(), all_there }
    }

    /// Says that the calling thread is this one, and waits for all others to say so.
    pub(crate) fn join(&self, number: usize) {
        self.threads[number].get_or_init(thread::current);
        self.all_there.wait();
    }

    /// Does `work` when it is this thread's turn.
    pub(crate) fn take<R>(&self, number: usize, work: impl FnOnce() -> R) -> R {
        // Acquire: what the one before did is done.
        while self.whose.load(Ordering::Acquire) != number {
            thread::park();
        }
        let result = work();
        let next = (number + 1) % self.threads.len();
        // Release: pairs with the acquire above.
        self.whose.store(next, Ordering::Release);
        if let Some(next) = self.threads[next].get() {
            next.unpark();
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_thread_has_its_turn_once_in_a_round() {
        let (turns, said) = (Turns::new(3), Mutex::new(Vec::new()));
        let say = |number| said.lock().expect("nobody panics").push(number);
        thread::scope(|scope| {
            for number in 0..3 {
                let (turns, say) = (&turns, &say);
                scope.spawn(move || {
                    turns.join(number);
                    (0..2).for_each(|_| turns.take(number, || say(number)));
                });
            }
        });
        assert_eq!(said.into_inner().expect("nobody panicked"), [0, 1, 2, 0, 1, 2]);
    }
}
