//! The way of a timeout into the engine, on the producer's side.

use std::ptr::NonNull;

use super::error::ScheduleError;
use crate::entry::{Entry, Task, entry_ref};
use crate::shard::{HubRef, Mailbox};
use crate::time::Tick;

/// Fills in an entry and gives it to the calling thread's home shard.
#[inline]
pub(super) fn schedule<F>(
    hub: &HubRef,
    deadline: Tick,
    with_handle: bool,
    task: F,
) -> Result<NonNull<Entry>, ScheduleError<F>>
where
    F: FnOnce() + Send + 'static,
{
    hub.with_producer(|mine| {
        let mailbox = hub.home_of(mine);
        if mailbox.is_closed() {
            mine.rejected.add(1);
            return Err(ScheduleError::Shutdown(task));
        }
        if !hub.take_places(1) {
            mine.rejected.add(1);
            return Err(ScheduleError::Full(task));
        }
        // SAFETY: the producer is this thread's, the arena is the hub's.
        let entry = unsafe { mine.take_entry(&hub.arena, mailbox) };
        fill(entry, mailbox, deadline, with_handle, task);
        // SAFETY: just filled in, and ours until it is accepted.
        match unsafe { mailbox.post(entry, deadline) } {
            Ok(()) => {
                mine.scheduled.add(1);
                Ok(entry)
            }
            Err(_closed) => {
                // SAFETY: the entry was not accepted, so it is still ours, with the task that was just put in.
                let task = unsafe { take_back(entry) };
                // SAFETY: as for taking it; it is ours alone.
                unsafe { mine.put_entry(&hub.arena, entry) };
                hub.give_places_back(1);
                mine.rejected.add(1);
                Err(ScheduleError::Shutdown(task))
            }
        }
    })
}

/// The same for many tasks with one deadline: all of them, by one exchange on the inbox, or none.
pub(super) fn schedule_many<F>(
    hub: &HubRef,
    deadline: Tick,
    tasks: Vec<F>,
) -> Result<Vec<NonNull<Entry>>, ScheduleError<Vec<F>>>
where
    F: FnOnce() + Send + 'static,
{
    let len = tasks.len();
    hub.with_producer(|mine| {
        let mailbox = hub.home_of(mine);
        if mailbox.is_closed() {
            mine.rejected.add(len as u64);
            return Err(ScheduleError::Shutdown(tasks));
        }
        if !hub.take_places(len) {
            mine.rejected.add(len as u64);
            return Err(ScheduleError::Full(tasks));
        }
        let fill_one = |task| {
            // SAFETY: the producer is this thread's, the arena is the hub's.
            let entry = unsafe { mine.take_entry(&hub.arena, mailbox) };
            fill(entry, mailbox, deadline, true, task);
            entry
        };
        let entries: Vec<_> = tasks.into_iter().map(fill_one).collect();
        let (Some(&first), Some(&last)) = (entries.first(), entries.last()) else { return Ok(entries) };
        for pair in entries.windows(2) {
            // SAFETY: ours until they are accepted.
            unsafe { entry_ref(pair[0]) }.set_next(pair[1].as_ptr());
        }
        // SAFETY: just filled in and linked, and ours until they are accepted.
        match unsafe { mailbox.post_chain(first, last, len, deadline) } {
            Ok(()) => {
                mine.scheduled.add(len as u64);
                Ok(entries)
            }
            Err(_closed) => {
                let take_back_one = |entry| {
                    // SAFETY: the entries were not accepted, so they are still ours, with the tasks just put in.
                    let task = unsafe { take_back(entry) };
                    // SAFETY: as for taking it; it is ours alone.
                    unsafe { mine.put_entry(&hub.arena, entry) };
                    task
                };
                let tasks = entries.into_iter().map(take_back_one).collect();
                hub.give_places_back(len);
                mine.rejected.add(len as u64);
                Err(ScheduleError::Shutdown(tasks))
            }
        }
    })
}

/// Fills in a free entry of ours.
#[inline]
fn fill<F>(entry: NonNull<Entry>, mailbox: &Mailbox, deadline: Tick, with_handle: bool, task: F)
where
    F: FnOnce() + Send + 'static,
{
    // SAFETY: the callers have just taken it from the arena.
    let entry = unsafe { entry_ref(entry) };
    entry.fill(std::ptr::from_ref(mailbox).cast(), Task::new(task));
    entry.state.arm(deadline, with_handle);
}

/// # Safety
/// The entry was filled in with an `F`, and never accepted.
unsafe fn take_back<F>(entry: NonNull<Entry>) -> F {
    // SAFETY: as above: it is ours.
    let entry = unsafe { entry_ref(entry) };
    entry.state.disarm();
    // SAFETY: never published.
    let task = unsafe { entry.take_task() };
    // SAFETY: the caller names the type.
    unsafe { task.into_inner() }
}
