//! The stand-in for crossbeam's queue (`sync.rs`): it hands values over in order, and orders
//! nothing more.

use std::sync::Arc;

use super::check::{check, fails};
use crate::sync::{AtomicUsize, Ordering, SegQueue, thread};

/// Invariant: each value is popped once, by one of the threads that pop, with all that was written
/// to it before the push.
/// Legal end: both were popped.
#[test]
fn each_pushed_value_is_popped_once() {
    check(2, |ledger| {
        let queue = Arc::new(SegQueue::new());
        let pushers = [0; 2].map(|_| {
            let (queue, task) = (Arc::clone(&queue), ledger.task());
            thread::spawn(move || queue.push(task))
        });
        let theirs = Arc::clone(&queue);
        let popper = thread::spawn(move || theirs.pop().map(|task| task()));
        queue.pop().map(|task| task());
        pushers.into_iter().for_each(|thread| thread.join().expect("no panic"));
        popper.join().expect("no panic");
        while let Some(task) = queue.pop() {
            task();
        }
        ledger.assert_closed(2);
    });
}

/// A control: a doorbell that is a flag beside the queue, with nothing that orders the two, loses a
/// wake-up. If loom does not find this, the stand-in orders more than crossbeam's queue does, and
/// other models pass for no good reason.
#[test]
fn a_flag_beside_the_queue_is_no_doorbell() {
    fails("deadlock", || {
        let shared = Arc::new((SegQueue::new(), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            let (queue, asleep) = &*theirs;
            while queue.pop().is_none() {
                asleep.store(1, Ordering::Release);
                if queue.is_empty() {
                    thread::park();
                }
                asleep.store(0, Ordering::Release);
            }
        });
        let (queue, asleep) = &*shared;
        queue.push(());
        if asleep.load(Ordering::Acquire) == 1 {
            worker.thread().unpark();
        }
    });
}
