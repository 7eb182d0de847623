//! The engine of this process, and of its children. No lock: a thread of the parent that held one
//! at a fork would hold it in the child for ever.

use std::time::Duration;

use once_cell::race::OnceBox;
use tourbillon::{Inline, Timer};

/// The engine of one process, which made it.
#[derive(Debug)]
pub(crate) struct Engine {
    timer: Timer,
    /// [`forks::count`] when it was made.
    generation: usize,
    /// That of the first child that needed one.
    next: OnceBox<Engine>,
}

/// The engine of the first process that needed one.
static FIRST: OnceBox<Engine> = OnceBox::new();

impl Engine {
    /// Returns the engine of this process. The first call makes it, and starts no thread.
    ///
    /// # Panics
    /// Panics if there is no memory for the wheels.
    pub(crate) fn of_this_process() -> &'static Self {
        let generation = forks::count();
        let mut place = &FIRST;
        loop {
            // Two threads may make one each. One of them is dropped unused.
            let engine = place.get_or_init(|| Box::new(Self::new(generation)));
            if engine.generation == generation {
                return engine;
            }
            place = &engine.next;
        }
    }

    fn new(generation: usize) -> Self {
        forks::notice();
        // No future runs on the executor, so there is no pool. A poll does not wait for a worker
        // that is behind, because it would hold up a thread of the runtime.
        let builder = Timer::builder().executor(Inline).max_wait(Duration::ZERO).thread_name("pingora-timer");
        let timer = builder.build().expect("memory for the wheels");
        Self { timer, generation, next: OnceBox::new() }
    }

    pub(crate) fn timer(&self) -> &Timer {
        &self.timer
    }

    /// Returns whether this process was forked off after the engine was made.
    pub(crate) fn is_of_a_parent(&self) -> bool {
        self.generation != forks::count()
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod forks {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Grows at each fork, in the child.
    static FORKS: AtomicUsize = AtomicUsize::new(0);

    pub(super) fn count() -> usize {
        FORKS.load(Ordering::Relaxed)
    }

    /// Makes forks from now on count. A process and its children need to call it once. If two
    /// threads do, a fork counts twice, which says the same.
    pub(super) fn notice() {
        extern "C" fn in_child() {
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        if count() == 0 {
            // If the system refuses, because there is no memory, forks stay unnoticed.
            // SAFETY: the handler only changes an atomic, which is allowed in a child of a process
            // with threads.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        }
    }
}

/// For systems on which the engine does not notice a fork.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod forks {
    pub(super) fn count() -> usize {
        0
    }

    pub(super) fn notice() {}
}
