//! A thread that takes a core from all others. It is a file of its own, as not all packages that
//! share these files use libc.

#[path = "policy.rs"]
mod policy;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::common::PATIENCE;

/// Keeps a core busy, under SCHED_FIFO, until it is dropped.
pub(crate) struct Hog {
    goes_on: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// Returns `None` if the system refuses this process such a thread.
    pub(crate) fn on(core: usize) -> Option<Self> {
        let goes_on = Arc::new(AtomicBool::new(true));
        let (may, told) = channel();
        let goes = Arc::clone(&goes_on);
        let thread = thread::spawn(move || {
            assert!(core_affinity::set_for_current(core_affinity::CoreId { id: core }));
            let refused = !policy::choose(libc::SCHED_FIFO, 1);
            may.send(!refused).expect("the test waits");
            let start = Instant::now();
            while !refused && goes.load(Ordering::Relaxed) && start.elapsed() < PATIENCE {
                std::hint::spin_loop();
            }
        });
        let hog = Self { goes_on, thread: Some(thread) };
        if told.recv().expect("it says so") {
            return Some(hog);
        }
        println!("SKIPPED: no thread may have SCHED_FIFO here");
        None
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.goes_on.store(false, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|hog| hog.join().expect("no panic"));
    }
}
