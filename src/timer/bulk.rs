//! Many timeouts at once.

use std::time::Duration;

use super::error::{Refusal, ScheduleError};
use super::schedule::{Once, Target, fill, take_back};
use super::timeout::Timeout;
use crate::entry::{ArmFlags, entry_ref};

impl Target<'_> {
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
        let shared = self.shared;
        if shared.is_forked() {
            return Err(ScheduleError::new(Refusal::Forked, tasks));
        }
        let deadline = shared.timeline().tick_after(delay);
        let flags = ArmFlags::HANDLE.and(self.owner());
        let len = tasks.len();
        let entries = shared.with_thread_state(|mine| {
            let remote = shared.home_of(mine, self.shard);
            let counts = shared.counts_of(mine, remote);
            if remote.is_closed() {
                counts.rejected.add(len as u64);
                return Err(ScheduleError::new(Refusal::Shutdown, tasks));
            }
            if !shared.take_places(len) {
                counts.rejected.add(len as u64);
                return Err(ScheduleError::new(Refusal::Full, tasks));
            }
            let refuse = |tasks, why: Refusal| {
                shared.give_places_back(len);
                counts.rejected.add(len as u64);
                Err(ScheduleError::new(why, tasks))
            };
            // SAFETY: the producer is this thread's, and the engine's.
            let Some(entries) = (unsafe { shared.take_entries(mine, remote, len) }) else {
                return refuse(tasks, Refusal::OutOfMemory);
            };
            for (&entry, task) in entries.iter().zip(tasks) {
                fill(entry, remote, deadline, flags, Once(task));
            }
            let (Some(&first), Some(&last)) = (entries.first(), entries.last()) else { return Ok(entries) };
            for pair in entries.windows(2) {
                // SAFETY: ours until they are accepted.
                unsafe { entry_ref(pair[0]) }.set_next(pair[1].as_ptr());
            }
            // SAFETY: just filled in and linked, and ours until they are accepted.
            match unsafe { remote.push_chain(first, last, len, deadline) } {
                Ok(()) => {
                    counts.scheduled.add(len as u64);
                    Ok(entries)
                }
                Err(_closed) => {
                    let take_back_one = |entry| {
                        // SAFETY: the entries were not accepted, so they are still ours, with the tasks just put in; the producer
                        // is this thread's.
                        let Once(task) = unsafe { take_back(mine, shared, entry) };
                        task
                    };
                    refuse(entries.into_iter().map(take_back_one).collect(), Refusal::Shutdown)
                }
            }
        })?;
        if let Some(group) = self.group {
            // SAFETY: armed with the group as an owner, which it becomes here, once.
            unsafe { group.add(shared, &entries) };
        }
        // SAFETY: just armed with a handle each, and these are the ones.
        Ok(entries.into_iter().map(|entry| unsafe { Timeout::new(entry) }).collect())
    }
}
