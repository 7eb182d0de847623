//! Schedules many timeouts at once.

use std::time::Duration;

use super::error::{Refusal, ScheduleError};
use super::schedule::{Once, Target, arm, take_back};
use super::timeout::Timeout;
use crate::entry::{ArmFlags, entry_ref};

impl Target<'_> {
    /// Schedules many tasks with one deadline: all of them, by one exchange on the inbox, or none.
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
            // SAFETY: `mine` is the calling thread's state, and `with_thread_state` gives that of
            // this engine.
            let Some(entries) = (unsafe { shared.take_entries(mine, remote, len) }) else {
                return refuse(tasks, Refusal::OutOfMemory);
            };
            for (&entry, task) in entries.iter().zip(tasks) {
                arm(entry, remote, deadline, flags, Once(task));
            }
            let (Some(&first), Some(&last)) = (entries.first(), entries.last()) else { return Ok(entries) };
            for pair in entries.windows(2) {
                // SAFETY: the calling thread has just taken the entries, and is their sole owner
                // until the inbox accepts them.
                unsafe { entry_ref(pair[0]) }.set_next(pair[1].as_ptr());
            }
            // SAFETY: the entries were just armed and linked, and are the calling thread's until
            // the inbox accepts them.
            match unsafe { remote.push_chain(first, last, len, deadline) } {
                Ok(()) => {
                    counts.scheduled.add(len as u64);
                    Ok(entries)
                }
                Err(_closed) => {
                    let take_back_one = |entry| {
                        // SAFETY: the inbox did not accept the entries, so they are still the
                        // calling thread's, and each has its `Once<F>` from above. `mine` is the
                        // calling thread's state of this engine.
                        let Once(task) = unsafe { take_back(mine, shared, entry) };
                        task
                    };
                    refuse(entries.into_iter().map(take_back_one).collect(), Refusal::Shutdown)
                }
            }
        })?;
        if let Some(group) = self.group {
            // SAFETY: the entries are of this engine, and were armed with the group as an owner.
            // They are added here once.
            unsafe { group.add(shared, &entries) };
        }
        // SAFETY: each entry was just armed with a handle. This makes it, once.
        Ok(entries.into_iter().map(|entry| unsafe { Timeout::new(entry) }).collect())
    }
}
