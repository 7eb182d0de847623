//! The end of an engine that futures still have a reference in: it ends once, when the last
//! reference goes, and not before.

use std::sync::Arc;

use super::check::check;
use super::rig::{driven, ticks};
use crate::future::Sleep;
use crate::sync::{ProtocolCell, thread};
use crate::thread::{LocalRefs, ShardedRef};
use crate::timer::Timer;

/// Futures that another thread has made, and counts.
fn by_another<const N: usize>(timer: &Timer) -> [Sleep; N] {
    let timer = timer.clone();
    thread::spawn(move || [(); N].map(|()| timer.sleep(ticks(9)))).join().expect("no panic")
}

/// Invariant: an engine has ended when its last timer and the futures of two threads have gone at
/// the same time.
/// Legal ends: any of them was last, and ended it.
#[test]
fn the_last_reference_ends_the_engine() {
    check(3, |ledger| {
        let (timer, driver, _clock) = driven(|b| b.capacity(2));
        timer.schedule_detached(ticks(9), ledger.task()).expect("open");
        let mine = timer.sleep(ticks(9));
        let [theirs] = by_another(&timer);
        let one = thread::spawn(move || drop(mine));
        let two = thread::spawn(move || drop(theirs));
        drop(timer);
        one.join().expect("no panic");
        two.join().expect("no panic");
        // The pending timeouts have gone with it.
        ledger.assert_closed(0);
        drop(driver);
    });
}

/// Invariant: as long as a future exists the engine goes on, although its timer has gone. Two
/// futures of one thread count as two.
/// Legal ends: any of them was last, and ended it.
#[test]
fn an_engine_goes_on_for_its_last_future() {
    check(None, |ledger| {
        let (timer, mut driver, clock) = driven(|b| b.capacity(2));
        timer.schedule_detached(ticks(1), ledger.task()).expect("open");
        // The last future is counted where the counts are closed last.
        let one = timer.sleep(ticks(9));
        let [two, last] = by_another(&timer);
        let go = [thread::spawn(move || drop(one)), thread::spawn(move || drop(two))];
        drop(timer);
        clock.advance(ticks(1));
        assert_eq!(driver.turn(), 1, "it has ended too soon");
        go.into_iter().for_each(|goes| goes.join().expect("no panic"));
        ledger.assert_closed(1);
        drop(last);
        assert!(driver.next_wakeup().is_none());
    });
}

/// Invariant: the thread that ends the engine, and frees its memory, does so after all uses by
/// other threads: two futures of one thread and one of another, which go one after the timer and
/// the driver.
/// Legal ends: each of the three was last.
#[test]
fn the_memory_goes_after_the_last_future() {
    check(3, |_| {
        let (timer, driver, _clock) = driven(|b| b.capacity(2));
        let mine = [(); 2].map(|()| timer.sleep(ticks(9)));
        let [theirs] = by_another(&timer);
        drop(driver);
        drop(timer);
        let go = mine.map(|sleep| thread::spawn(move || drop(sleep)));
        drop(theirs);
        go.into_iter().for_each(|goes| goes.join().expect("no panic"));
    });
}

/// Invariant: this holds also while the timer goes and the counts are closed. A handle that is
/// dropped on another thread, which gets a thread state for it, changes nothing.
/// Legal ends: each of the three was last; the timer was last; the handle freed the memory.
#[test]
fn the_memory_goes_after_the_last_owner() {
    check(2, |_| {
        let (timer, driver, _clock) = driven(|b| b.capacity(2));
        let handle = timer.schedule(ticks(9), || ()).expect("open");
        let mine = timer.sleep(ticks(9));
        drop(driver);
        let future = thread::spawn(move || drop(mine));
        let other = thread::spawn(move || drop(handle));
        drop(timer);
        future.join().expect("no panic");
        other.join().expect("no panic");
    });
}

/// Invariant: all use of a reference happens before the release, also if the reference had gone
/// when its count was closed.
/// Legal ends: the thread that closes the counts releases; the reference does.
#[test]
fn the_release_sees_what_was_done_with_each_reference() {
    struct Counted {
        refs: ShardedRef,
        count: LocalRefs,
        used: ProtocolCell<bool>,
    }
    // SAFETY: loom checks that no thread uses the cell while another one does.
    unsafe impl Sync for Counted {}
    check(None, |_| {
        let counted = Counted { refs: ShardedRef::new(), count: LocalRefs::default(), used: ProtocolCell::new(false) };
        // SAFETY: the counts are closed below.
        unsafe { counted.count.add() };
        let counted = Arc::new(counted);
        let theirs = Arc::clone(&counted);
        let reference = thread::spawn(move || {
            // SAFETY: loom checks it.
            theirs.used.with_mut(|used| unsafe { *used = true });
            // SAFETY: this is the reference that was added, and `remove` says whether to settle.
            unsafe {
                if theirs.count.remove() {
                    ShardedRef::settle(&theirs.refs, 1);
                }
            }
        });
        let released = Arc::clone(&counted);
        // SAFETY: loom checks it.
        let on_release = move || assert!(released.used.with(|used| unsafe { *used }));
        // SAFETY: called once, and the callback keeps it alive.
        unsafe { ShardedRef::close(&counted.refs, std::iter::once(&counted.count), on_release) };
        reference.join().expect("no panic");
    });
}
