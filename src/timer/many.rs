//! Many timeouts at once.

use std::time::Duration;

use super::error::{Refusal, ScheduleError};
use super::schedule::{Once, Place, fill, take_back};
use super::timeout::Timeout;
use crate::entry::{With, entry_ref};

impl Place<'_> {
    /// Many tasks with one deadline: all of them, by one exchange on the inbox, or none.
    pub(super) fn schedule_many<F>(
        self,
        delay: Duration,
        tasks: impl IntoIterator<Item = F>,
    ) -> Result<Vec<Timeout>, ScheduleError<Vec<F>>>
    where
        F: FnOnce() + Send + 'static,
    {
        let tasks: Vec<F> = tasks.into_iter().collect();
        let hub = self.hub;
        if hub.is_forked() {
            return Err(ScheduleError::new(Refusal::Forked, tasks));
        }
        let deadline = hub.timeline().tick_after(delay);
        let with = With::HANDLE.and(self.owner());
        let len = tasks.len();
        let entries = hub.with_producer(|mine| {
            let mailbox = hub.home_of(mine, self.shard);
            let counts = hub.counts_of(mine, mailbox);
            if mailbox.is_closed() {
                counts.rejected.add(len as u64);
                return Err(ScheduleError::new(Refusal::Shutdown, tasks));
            }
            if !hub.take_places(len) {
                counts.rejected.add(len as u64);
                return Err(ScheduleError::new(Refusal::Full, tasks));
            }
            let refuse = |tasks, why: Refusal| {
                hub.give_places_back(len);
                counts.rejected.add(len as u64);
                Err(ScheduleError::new(why, tasks))
            };
            // SAFETY: the producer is this thread's, and the hub's.
            let Some(entries) = (unsafe { mine.take_entries(hub, mailbox, len) }) else {
                return refuse(tasks, Refusal::OutOfMemory);
            };
            for (&entry, task) in entries.iter().zip(tasks) {
                fill(entry, mailbox, deadline, with, Once(task));
            }
            let (Some(&first), Some(&last)) = (entries.first(), entries.last()) else { return Ok(entries) };
            for pair in entries.windows(2) {
                // SAFETY: ours until they are accepted.
                unsafe { entry_ref(pair[0]) }.set_next(pair[1].as_ptr());
            }
            // SAFETY: just filled in and linked, and ours until they are accepted.
            match unsafe { mailbox.post_chain(first, last, len, deadline) } {
                Ok(()) => {
                    counts.scheduled.add(len as u64);
                    Ok(entries)
                }
                Err(_closed) => {
                    let take_back_one = |entry| {
                        // SAFETY: the entries were not accepted, so they are still ours, with the tasks just put in; the producer
                        // is this thread's.
                        let Once(task) = unsafe { take_back(mine, hub, entry) };
                        task
                    };
                    refuse(entries.into_iter().map(take_back_one).collect(), Refusal::Shutdown)
                }
            }
        })?;
        if let Some(group) = self.group {
            // SAFETY: armed with the group as an owner, which it becomes here, once.
            unsafe { group.add(hub, &entries) };
        }
        // SAFETY: just armed with a handle each, and these are the ones.
        Ok(entries.into_iter().map(|entry| unsafe { Timeout::new(entry) }).collect())
    }
}
