//! The next thing to do, and when.

use crate::block::Memory;
use crate::items::{Items, NEVER};
use crate::level::Span;
use crate::wheel::{DUE, LATE, Wheel, cascade_list};

/// A step that time brings, at a level.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A cascade must be over.
    Finish(usize),
    /// A span is to be opened. On level 0 it is due.
    Open(usize, Span),
}

impl<T: Copy + Eq, M: Memory<T>> Wheel<T, M> {
    /// Returns the tick at which the wheel has to be turned next: by [`expire`](Self::expire), and
    /// then [`cascade`](Self::cascade), with the time of then. 0 means at once, `None` that nothing
    /// will come up.
    ///
    /// That is not later than the earliest deadline. It may be earlier, for a cascade, or for an
    /// item whose deadline has been moved, or waits for another round. A few items that are alone
    /// in a coarse slot, and have no neighbours in the next, need no cascade: then it is their
    /// deadline, so that a thread that sleeps until then is woken once.
    #[must_use]
    pub fn next_wakeup<S: Items<Item = T>>(&mut self, items: &S) -> Option<u64> {
        if !self.lists.is_empty(DUE) || !self.lists.is_empty(LATE) || (self.rescans && self.len > 0) {
            return Some(0);
        }
        let (lists, cursor) = (&self.lists, self.cursor);
        let of_cascade = |list| lists.earliest_of_few(items, list..=list).unwrap_or(cursor);
        let under_way = (1..self.levels.len()).map(cascade_list).filter(|list| !lists.is_empty(*list));
        let mut next = under_way.map(of_cascade).min().unwrap_or(NEVER);
        for (index, level) in self.levels.iter_mut().enumerate() {
            if index > 0 && next <= self.quiet_until {
                break;
            }
            let Some(span) = level.next_occupied(level.first_unopened(cursor), lists) else { continue };
            let (list, opens) = (level.ring.list(span), level.opens(span));
            let may_be_few = index > 0 && opens < next;
            let few = may_be_few.then(|| lists.earliest_of_few(items, list..=list + 1)).flatten();
            next = next.min(few.unwrap_or(opens));
            if few.is_some() {
                let behind = level.next_occupied(span + 1, lists).filter(|behind| *behind < level.end(cursor));
                next = behind.map_or(next, |behind| next.min(level.opens(behind)));
            }
        }
        (next < NEVER).then_some(next)
    }

    /// Returns the next event, if it comes by `now`.
    #[inline]
    pub(crate) fn next_event(&mut self, now: u64) -> Option<Event> {
        let (lists, cursor) = (&self.lists, self.cursor);
        let due = self.levels[0].next_occupied(cursor, lists).filter(|tick| *tick <= now);
        let by = due.unwrap_or(now);
        let above = if by < self.quiet_until { None } else { self.next_above(by) };
        above.or(due.map(|tick| Event::Open(0, tick)))
    }

    /// Returns the next event above level 0, if it comes by this tick. One that comes at the tick
    /// goes before the items that are due then, as those of a cascade may be due at that tick.
    #[inline(never)]
    fn next_above(&mut self, by: u64) -> Option<Event> {
        let (lists, cursor) = (&self.lists, self.cursor);
        let mut next = (NEVER, None);
        let mut consider = |at: u64, event: Event| {
            if at < next.0 {
                next = (at, Some(event));
            }
        };
        // If two come at one tick, the first of them here goes first. The items of a cascade may
        // belong to the span that is opened then.
        for index in (1..self.levels.len()).rev().filter(|index| !lists.is_empty(cascade_list(*index))) {
            consider(self.levels[index].cascade_due(&self.levels[index - 1]), Event::Finish(index));
        }
        for (index, level) in self.levels.iter_mut().enumerate().skip(1).rev() {
            if let Some(span) = level.next_occupied(level.first_unopened(cursor), lists) {
                consider(level.opens(span), Event::Open(index, span));
            }
        }
        let (at, event) = next;
        self.quiet_until = at;
        event.filter(|_| at <= by)
    }
}
