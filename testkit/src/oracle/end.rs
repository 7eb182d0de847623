//! The ends of a program: each pending timeout has exactly one outcome.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use tourbillon::{Shutdown, ShutdownError};

use super::model::Runner;
use super::tasks::{Answer, Event, small_once};
use super::{End, Pair};
use crate::MS;

impl Pair {
    /// Ends the program, and checks the outcomes of all that are left.
    pub fn end(self, how: End) {
        self.heed_the_bell();
        self.check_handles();
        match how {
            End::Shutdown(how) => self.shut_down(how),
            End::DropTimers => self.drop_timers(),
            End::DropDriver => self.drop_driver(),
        }
    }

    /// Each pending timeout runs now, if the shutdown fires, or is returned with its deadline.
    /// Nothing else does.
    fn shut_down(mut self, how: Shutdown) {
        let now = self.now_due();
        let by = match how {
            Shutdown::FireNow => Runner::FireNow,
            Shutdown::Drain(_) => Runner::Drain(now),
            _ => Runner::User,
        };
        let before = self.deadlines();
        let left = self.timer.shutdown_with(how).expect("the first");
        // A task that runs what was returned may move the clock.
        let (at, then, after) = (self.now(), self.now_due(), self.deadlines());
        let events = self.shared.take_log();
        assert!(by != Runner::User || events.is_empty(), "nothing runs");
        self.model.hear(events, by);
        assert!(by != Runner::FireNow || left.is_empty(), "all of it runs");
        assert_eq!(left.len(), self.model.pending.len(), "all that is left is returned");
        for left in left {
            let deadline = left.deadline();
            let ran = catch_unwind(AssertUnwindSafe(|| left.run()));
            let events = self.shared.take_log();
            let Some(Event::Began { id }) = events.first().copied() else { panic!("it ran: {events:?}") };
            assert_eq!(ran.is_err(), events.iter().any(Event::is_a_panic));
            let is_periodic = self.model.is_periodic(id);
            let due = self.model.take_back(id);
            // By a task of a drain.
            let is_moved = by != Runner::User && self.model.moved.contains(&id);
            // A drain begins no run of a periodic timeout.
            let may_be_due = by == Runner::User || is_moved || is_periodic;
            assert!(may_be_due || due > now, "{id} was due, and did not run");
            // The deadline that its handle shows, or has shown before.
            let shown = after.iter().chain(before.iter().filter(|_| !is_moved));
            let others: Vec<_> = shown.filter(|(of, shown)| *of == id && *shown != deadline).collect();
            assert!(others.is_empty(), "of {id}: {deadline:?}, and its handle shows {others:?}");
            let ns = (deadline - self.shared.start).as_nanos();
            if due <= then {
                assert!(ns <= at.as_nanos(), "of {id}, which was due");
            } else if due != super::NEVER {
                assert_eq!(ns, self.model.ns_of(due), "of {id}");
            }
            self.model.hear(events, Runner::User);
        }
        self.has_ended();
        assert_eq!(self.timer.shutdown().err(), Some(ShutdownError::AlreadyShutdown));
        self.check_counts();
    }

    /// The deadlines that the held handles show.
    fn deadlines(&self) -> Vec<(u64, Instant)> {
        self.shared.handles().iter().map(|(id, handle)| (*id, handle.timeout().deadline())).collect()
    }

    fn drop_driver(mut self) {
        self.driver = None;
        self.model.drop_all();
        self.has_ended();
        self.check_counts();
    }

    /// Nothing is pending, and the engine accepts nothing any more.
    fn has_ended(&mut self) {
        assert!(self.model.pending.is_empty());
        assert_eq!((self.timer.pending(), self.shared.alive()), (0, 0));
        assert!(self.timer.is_shutdown());
        let refused = self.timer.schedule_detached(MS, small_once(&self.shared, self.shared.new_id()));
        assert_eq!(refused.map_err(|refused| Answer::of(&refused)), Err(Answer::Shutdown));
        self.model.counts.rejected += 1;
        self.check_handles();
    }

    fn drop_timers(mut self) {
        self.shared.leave();
        self.model.drop_all();
        let Self { timer, driver, shared, model, .. } = self;
        drop(timer);
        let mut driver = driver.expect("it is dropped at the end");
        assert_eq!((driver.turn(), driver.next_wakeup()), (0, None));
        assert_eq!(shared.alive(), 0, "tasks that are kept");
        for (id, handle) in shared.handles().iter() {
            let timeout = handle.timeout();
            assert!(!timeout.is_pending() && !timeout.cancel() && !timeout.reset(MS));
            assert_eq!(timeout.is_cancelled(), model.cancelled.contains(id), "{id}");
        }
    }
}
