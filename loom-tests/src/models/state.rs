//! The state word: there is one way out of PENDING, and the thread that takes it owns the task.

use std::num::NonZeroU16;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::check::check;
use super::rig::Ledger;
use crate::entry::{
    ArmFlags, Cancel, EngineGone, Entry, Expire, FromQueue, Handle, HandleGone, Home, OutOfQueue, Queued, Reset,
    Snapshot, State, TaskPlace, Token, raw,
};
use crate::sync::thread;
use crate::time::Subtick;

fn tick(n: u64) -> Subtick {
    Subtick::new(n)
}

/// Returns an entry outside of any arena, with a handle, in the state in which the worker links it.
fn linked(ledger: &Ledger, deadline: u64) -> Arc<Entry> {
    let entry = Arc::new(Entry::new_free());
    raw::fill(&entry, None, ledger.task());
    entry.state.arm(tick(deadline), ArmFlags::HANDLE);
    assert_eq!(entry.state.link(), Some(tick(deadline)));
    entry
}

/// Returns the entry's handle, which each model lets go once.
fn handle(entry: &Entry) -> Handle {
    // SAFETY: the entry was armed with a handle, and lives as long as the model.
    unsafe { Handle::new(NonNull::from(entry)) }
}

fn cancel(entry: &Entry) -> Cancel {
    let mut won = Cancel::Won;
    let handle = handle(entry);
    handle.cancel(|_| won = Cancel::WonQueued).map_or(Cancel::TooLate, |_| won)
}

fn reset(entry: &Entry, deadline: u64) -> Reset {
    handle(entry).reset(tick(deadline), |_| ())
}

/// Pops the entry off a side queue, as the worker does. The model has queued it, once.
fn pop(entry: &Entry) -> OutOfQueue {
    // SAFETY: QUEUED is set, and the model makes one such value for it.
    unsafe { FromQueue::from_raw(NonNull::from(entry)) }.pop()
}

/// Lets go of the handle. If it is the last owner, the entry is used again, by `reuse`.
fn let_go(entry: &Entry, reuse: &impl Fn(&Entry)) -> bool {
    let handle = handle(entry);
    match handle.let_go() {
        HandleGone::Last => {
            reuse(entry);
            assert!(handle.free().is_none());
            true
        }
        HandleGone::OthersOwn => false,
        HandleGone::Orphan => panic!("no engine has ended"),
    }
}

/// Ends the wait by `end`, which looks again if the word has changed since its look. Returns
/// whether it did.
fn ends_wait(entry: &Entry, end: impl Fn(&State, Snapshot) -> Expire) -> bool {
    loop {
        match end(&entry.state, entry.state.load()) {
            Expire::Changed => {}
            end => return matches!(end, Expire::Done | Expire::Alone),
        }
    }
}

/// Expires it as a sleeping future's is, which stays the engine's. Returns whether it did.
fn expire(entry: &Entry, now: u64) -> bool {
    let expired = ends_wait(entry, |state, seen| state.expire(seen, tick(now)));
    if expired {
        // SAFETY: this thread has just taken the entry out of PENDING, and owns its task.
        unsafe { raw::take_task(&entry) }.run();
    }
    expired
}

/// Invariant: the task goes to exactly one winner.
/// Legal ends: it ran, and both cancels were too late; or one cancel won, and it never runs.
#[test]
fn exactly_one_of_expiry_and_two_cancels_wins() {
    check(None, |ledger| {
        let entry = linked(&ledger, 1);
        let cancels = [0; 2].map(|_| {
            let entry = Arc::clone(&entry);
            thread::spawn(move || cancel(&entry) != Cancel::TooLate)
        });
        let fired = expire(&entry, 1);
        let cancelled = cancels.into_iter().filter_map(|thread| thread.join().ok()).filter(|&won| won).count();
        assert_eq!(usize::from(fired) + cancelled, 1);
        ledger.assert_closed(usize::from(fired));
    });
}

/// Invariant: a reset that returned true holds: the timeout does not fire before the new deadline,
/// not even by a worker that has already found it in the old slot.
/// Legal ends: fired at 1, and the reset was too late; fired at 5, and the reset was in time;
/// cancelled.
#[test]
fn a_reset_to_later_holds_against_the_worker_and_a_cancel() {
    check(None, |ledger| {
        let entry = linked(&ledger, 1);
        let (a, b) = (Arc::clone(&entry), Arc::clone(&entry));
        let reset = thread::spawn(move || reset(&a, 5));
        let cancel = thread::spawn(move || cancel(&b));
        let at_1 = expire(&entry, 1);
        let (reset, cancel) = (reset.join().expect("no panic"), cancel.join().expect("no panic"));
        let at_4 = expire(&entry, 4);
        let at_5 = expire(&entry, 5);
        let fired_early = at_1 || at_4;
        match reset {
            Reset::Later => assert!(!fired_early),
            Reset::TooLate => assert!(fired_early || cancel == Cancel::WonQueued),
            Reset::Earlier | Reset::EarlierQueued => panic!("it was to later"),
        }
        let fired = fired_early || at_5;
        assert_eq!(cancel == Cancel::TooLate, fired);
        ledger.assert_closed(usize::from(fired));
    });
}

/// Invariant: an entry is never in both side queues. The entry that the worker pops says where it
/// is.
/// Legal ends: fired out of its slot, and the queue brings it afterwards; moved to its new
/// deadline, and fired then; cancelled, and brought by one of the queues.
#[test]
fn a_reset_to_earlier_and_a_cancel_queue_an_entry_once() {
    check(None, |ledger| {
        let entry = linked(&ledger, 5);
        let (a, b) = (Arc::clone(&entry), Arc::clone(&entry));
        let reset = thread::spawn(move || reset(&a, 1));
        let cancel = thread::spawn(move || cancel(&b));
        let in_slot = expire(&entry, 5);
        let (reset, cancel) = (reset.join().expect("no panic"), cancel.join().expect("no panic"));
        let queued = [reset == Reset::EarlierQueued, cancel == Cancel::WonQueued];
        assert!(queued != [true, true], "it is in both queues");
        if queued != [false, false] {
            match pop(&entry) {
                OutOfQueue::Elsewhere => assert!(in_slot),
                OutOfQueue::Moved(_) => assert_eq!((cancel, in_slot), (Cancel::TooLate, false)),
                OutOfQueue::Cancelled(_) => assert!(cancel != Cancel::TooLate),
                OutOfQueue::Last(_) => panic!("its handle is held"),
            }
        }
        let fired = in_slot || expire(&entry, 1);
        assert_eq!(cancel == Cancel::TooLate, fired);
        ledger.assert_closed(usize::from(fired));
    });
}

/// Invariant: of engine and handle exactly one is the last owner, and it sees what the other did to
/// the entry.
/// Legal ends: the engine gives the entry back; the handle does.
#[test]
fn exactly_one_owner_lets_go_last() {
    check(None, |ledger| {
        let entry = linked(&ledger, 1);
        let again = ledger.clone();
        // The arena does this to the memory of an entry that comes back.
        let reuse = move |entry: &Entry| {
            raw::set_next(&entry, ptr::null_mut());
            entry.set_in_use(false);
            raw::fill(&entry, None, again.task());
        };
        let (theirs, reused) = (Arc::clone(&entry), reuse.clone());
        let handle = thread::spawn(move || {
            if cancel(&theirs) == Cancel::WonQueued {
                // SAFETY: the cancel has set QUEUED.
                unsafe { Queued::new(NonNull::from(&*theirs)) }.refused();
            }
            let_go(&theirs, &reused)
        });
        let fired = expire(&entry, 1);
        let engine_was_last = entry.state.engine_lets_go() == EngineGone::Last;
        if engine_was_last {
            reuse(&entry);
        }
        let handle_was_last = handle.join().expect("no panic");
        assert!(engine_was_last != handle_was_last);
        // SAFETY: the last owner has armed it again, and owns the task.
        drop(unsafe { raw::take_task(&entry) });
        ledger.assert_closed(usize::from(fired));
    });
}

/// Invariant: of a shutdown and two cancels exactly one gets the task.
/// Legal ends: withdrawn by the shutdown; cancelled by one of the two.
#[test]
fn a_withdrawal_and_two_cancels_share_no_task() {
    check(None, |ledger| {
        let entry = linked(&ledger, 1);
        let cancels = [0; 2].map(|_| {
            let entry = Arc::clone(&entry);
            thread::spawn(move || cancel(&entry) != Cancel::TooLate)
        });
        let withdrawn = entry.state.withdraw().is_some();
        if withdrawn {
            // SAFETY: this thread has just taken the entry out of PENDING, and owns its task.
            unsafe { raw::take_task(&entry) }.run();
        }
        let cancelled = cancels.into_iter().filter_map(|thread| thread.join().ok()).filter(|&won| won).count();
        assert_eq!(usize::from(withdrawn) + cancelled, 1);
        assert!(entry.snapshot().is_cancelled());
        ledger.assert_closed(usize::from(withdrawn));
    });
}

/// Invariant: the worker knows for certain whether a cancelled or reset entry was linked, and at
/// which tick.
/// Legal ends: the worker found it cancelled, and no thread queues it; the worker linked it, and
/// the canceller queues it, unless a reset to earlier has queued it before. The link goes by a
/// reset that came before it.
#[test]
fn a_cancel_a_reset_and_the_link_agree_on_their_order() {
    check(None, |ledger| {
        let entry = Arc::new(Entry::new_free());
        raw::fill(&entry, None, ledger.task());
        entry.state.arm(tick(5), ArmFlags::HANDLE);
        let (a, b) = (Arc::clone(&entry), Arc::clone(&entry));
        let cancel = thread::spawn(move || cancel(&a));
        let reset = thread::spawn(move || reset(&b, 1));
        let transfer = entry.state.link();
        let (cancel, reset) = (cancel.join().expect("no panic"), reset.join().expect("no panic"));
        match transfer {
            None => assert_eq!(cancel, Cancel::Won),
            Some(at) => {
                let by_queue = reset == Reset::EarlierQueued;
                assert_eq!(cancel, if by_queue { Cancel::Won } else { Cancel::WonQueued });
                assert_eq!(at, tick(if reset == Reset::Earlier { 1 } else { 5 }));
                assert!(matches!(pop(&entry), OutOfQueue::Cancelled(_)));
            }
        }
        ledger.assert_closed(0);
    });
}

/// Invariant: a claim that succeeds gives the entry up in the same step, and the copy that was made
/// before it is the task. The canceller and the handle, which may reuse the entry at once, disturb
/// neither. Legal ends: it ran, and the handle gave the entry back; it was cancelled, and either
/// did.
#[test]
fn a_claim_takes_the_task_and_gives_the_entry_up() {
    check(None, move |ledger| {
        let entry = linked(&ledger, 1);
        let again = ledger.clone();
        let reuse = move |entry: &Entry| {
            entry.set_in_use(false);
            raw::fill(&entry, None, again.task());
        };
        let (theirs, reused) = (Arc::clone(&entry), reuse.clone());
        let handle = thread::spawn(move || {
            let cancel = cancel(&theirs);
            if cancel == Cancel::WonQueued {
                // The push to the cancelled queue writes this. It finds the queue closed.
                raw::set_aside(&theirs, ptr::null_mut());
                // SAFETY: the cancel has set QUEUED.
                unsafe { Queued::new(NonNull::from(&*theirs)) }.refused();
            }
            let last = let_go(&theirs, &reused);
            (cancel, last)
        });
        let is_due = ends_wait(&entry, |state, seen| state.mark(seen, tick(1)));
        let (claim, copy) = if is_due { claim(&entry, 1) } else { (Expire::Cancelled, TaskPlace::uninit()) };
        let fired = matches!(claim, Expire::Done | Expire::Alone);
        if fired {
            // SAFETY: this thread has just claimed the entry, after the copy.
            unsafe { copy.assume_init() }.run();
        }
        // A claim that has won with a handle there has given the entry up.
        let engine_was_last = match claim {
            Expire::Done => false,
            Expire::Alone => true,
            _ => entry.state.engine_lets_go() == EngineGone::Last,
        };
        if engine_was_last {
            reuse(&entry);
        }
        let (cancel, handle_was_last) = handle.join().expect("no panic");
        assert_eq!(cancel == Cancel::TooLate, fired);
        assert!(!is_due || cancel != Cancel::WonQueued || !fired);
        assert!(engine_was_last != handle_was_last);
        // SAFETY: the last owner has filled it again, and owns the task.
        drop(unsafe { raw::take_task(&entry) });
        ledger.assert_closed(usize::from(fired));
    });
}

/// Claims a marked entry as its runner does. Returns the copy of the task, which is the task if the
/// claim has won.
fn claim(entry: &Entry, now: u64) -> (Expire, TaskPlace) {
    loop {
        let mut copy = TaskPlace::uninit();
        // SAFETY: the engine owns the entry, which is marked.
        match entry.state.claim(entry.state.load(), tick(now), || copy = unsafe { raw::copy_task(entry) }) {
            Expire::Changed => {}
            end => return (end, copy),
        }
    }
}

/// Invariant: the worker writes to the word without an exchange once no other owner is left, and no
/// sooner. It overwrites nothing that another owner has done. The thread that uses the entry next
/// sees all that this owner did to it before it let go.
/// Legal ends: it was reset in time and fired at 2, or fired at 1; it was cancelled, if the model
/// cancels; either is the last owner.
#[test]
fn the_engine_stores_plainly_only_as_the_sole_owner() {
    for cancels in [false, true] {
        check(None, move |ledger| {
            let entry = Arc::new(Entry::new_free());
            raw::fill(&entry, None, ledger.task());
            entry.state.arm(tick(1), ArmFlags::HANDLE);
            let next = ledger.clone();
            let reuse = move |entry: &Entry| {
                entry.set_in_use(false);
                // SAFETY: nobody looks for a remote there.
                let home = unsafe { Home::new(NonZeroU16::MIN) };
                raw::fill(&entry, Some(home), next.task());
            };
            let (theirs, reused) = (Arc::clone(&entry), reuse.clone());
            let handle = thread::spawn(move || {
                let reset = reset(&theirs, 2);
                let cancel = if cancels { cancel(&theirs) } else { Cancel::TooLate };
                let cancelled = cancel != Cancel::TooLate;
                if cancel == Cancel::WonQueued {
                    // SAFETY: the cancel has set QUEUED.
                    unsafe { Queued::new(NonNull::from(&*theirs)) }.refused();
                }
                // Every handle reads it before it lets go.
                assert!(theirs.home().is_none());
                let last = let_go(&theirs, &reused);
                (reset, cancelled, last)
            });
            let linked = entry.state.link();
            let at_1 = expire(&entry, 1);
            let at_2 = !at_1 && expire(&entry, 2);
            let engine_was_last = entry.state.engine_lets_go() == EngineGone::Last;
            if engine_was_last {
                reuse(&entry);
            }
            let (reset, cancelled, handle_was_last) = handle.join().expect("no panic");
            assert_eq!([at_1, at_2, cancelled].into_iter().filter(|&way| way).count(), 1);
            assert!(linked.is_some() || cancelled);
            assert!(!at_1 || reset == Reset::TooLate, "a true reset is not overtaken");
            assert!(!at_2 || reset == Reset::Later);
            assert!(engine_was_last != handle_was_last);
            // SAFETY: the last owner has armed it again, and owns the task.
            drop(unsafe { raw::take_task(&entry) });
            ledger.assert_closed(usize::from(at_1 || at_2));
        });
    }
}

/// Invariant: of engine, handle and side queue exactly one is the last owner, and it sees what the
/// others did to the entry. The worker pops the entry off its queue while a runner of its batch
/// claims it, and while the handle goes.
/// Legal ends: each of the three gives the entry back.
#[test]
fn exactly_one_of_three_owners_lets_go_last() {
    check(None, |ledger| {
        let entry = linked(&ledger, 5);
        assert_eq!(reset(&entry, 1), Reset::EarlierQueued);
        // The slot comes up before the queue is popped.
        assert!(ends_wait(&entry, |state, seen| state.mark(seen, tick(5))));
        let again = ledger.clone();
        let reuse = move |entry: &Entry| {
            entry.set_in_use(false);
            // As a free list marks it.
            entry.state.disarm();
            raw::set_aside(&entry, ptr::null_mut());
            raw::fill(&entry, None, again.task());
        };
        let (theirs, reused) = (Arc::clone(&entry), reuse.clone());
        let handle = thread::spawn(move || let_go(&theirs, &reused));
        let (theirs, reused) = (Arc::clone(&entry), reuse.clone());
        let runner = thread::spawn(move || {
            let (claim, copy) = claim(&theirs, 5);
            assert!(matches!(claim, Expire::Done | Expire::Alone));
            // SAFETY: this thread has just claimed the entry, after the copy.
            unsafe { copy.assume_init() }.run();
            let is_last = matches!(claim, Expire::Alone);
            if is_last {
                reused(&theirs);
            }
            is_last
        });
        let queue_was_last = match pop(&entry) {
            OutOfQueue::Last(_) => {
                reuse(&entry);
                true
            }
            OutOfQueue::Elsewhere => false,
            OutOfQueue::Moved(_) | OutOfQueue::Cancelled(_) => panic!("it is in a batch"),
        };
        let last = [handle.join().expect("no panic"), runner.join().expect("no panic"), queue_was_last];
        assert_eq!(last.into_iter().filter(|last| *last).count(), 1, "{last:?}");
        // SAFETY: the last owner has filled it again, and owns the task.
        drop(unsafe { raw::take_task(&entry) });
        ledger.assert_closed(1);
    });
}
