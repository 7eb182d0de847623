//! What a turn does: it takes out what is due, and moves a part of each cascade.

use crate::block::{Block, CELLS};
use crate::event::Event;
use crate::items::{Items, NEVER, OutOfMemory, Place, Take};
use crate::list::Lists;
use crate::wheel::{ASIDE, DUE, FAR, HOMELESS, LATE, Wheel, cascade_list};

impl<T: Copy + Eq> Wheel<T> {
    /// Takes out what is due at tick `now`, in the order of the deadlines, and what has the same
    /// deadline in the order in which it was inserted.
    ///
    /// `take` says what becomes of each item. It is called only for items whose deadline, as the
    /// store says, has come. If it panics, the item counts as taken. `now` should not go back: what
    /// was due by an earlier call, and what is late, then waits until `now` is where it was.
    ///
    /// `budget` is how many items the call may handle. The call lowers it for each: also for those
    /// that come up and are not due, since their deadlines were moved. If a cascade has to be over,
    /// the call moves as many items of it at most, or the
    /// [quota of cascades](Self::set_cascade_quota) if that is more. What is left over in either
    /// way waits for the next call: then the budget is 0, and [`next_wakeup`](Self::next_wakeup)
    /// says when that has to be. What was due when it was inserted is taken together with what
    /// comes due next.
    ///
    /// A jump of the clock costs a step for each occupied slot, and not for each tick. If it goes
    /// beyond all that the last level reaches, the call looks at each item once, and sorts what is
    /// due: in one step, as what was late when it was inserted. Without memory for that, what is
    /// due comes out in another order.
    pub fn expire<S: Items<Item = T>>(
        &mut self,
        items: &mut S,
        now: u64,
        budget: &mut usize,
        mut take: impl FnMut(&mut S, T) -> Take,
    ) {
        self.expire_unseen(items, now, budget, |items, item, due_by| {
            if items.deadline(item) > due_by { Take::Later } else { take(items, item) }
        });
    }

    /// As [`expire`](Self::expire), for a store that is dear to ask: `take` looks at the deadline
    /// itself. It is called for each item that comes up, with the tick by which it has to be due.
    /// If it is not, `take` has to say [`Take::Later`]: others may be due before it.
    pub fn expire_unseen<S: Items<Item = T>>(
        &mut self,
        items: &mut S,
        now: u64,
        budget: &mut usize,
        mut take: impl FnMut(&mut S, T, u64) -> Take,
    ) {
        let now = now.min(NEVER - 1);
        // A move is cheap beside what is done with an item that is due.
        let mut moves = (*budget).max(self.cascade_quota);
        loop {
            if self.homeless_at <= now {
                self.lists.splice(HOMELESS, ASIDE);
                (self.homeless_at, self.is_swept) = (NEVER, false);
            }
            if !self.is_swept && !self.sweep(items, now, &mut moves) {
                break;
            }
            // All ticks before the cursor have been processed.
            let due_by = now.min(self.cursor.saturating_sub(1));
            if !self.take_due(items, due_by, budget, &mut take) {
                return;
            }
            // What is late and what comes up next go together, so that neither waits for ever.
            if !self.lists.is_empty(LATE) {
                self.take_late(items);
            }
            if self.is_outrun(now) {
                // What is late does not wait for the sweep.
                if self.lists.is_empty(DUE) {
                    self.set_all_aside();
                    self.move_cursor(now + 1);
                }
                continue;
            }
            match self.next_event(now) {
                Some(event) if !self.handle(event, items, &mut moves) => break,
                None if self.lists.is_empty(DUE) => {
                    self.move_cursor(now + 1);
                    // Of a block that has just lost its home, some items may be due.
                    if self.homeless_at > now || self.lists.is_empty(HOMELESS) {
                        return;
                    }
                }
                _ => {}
            }
        }
        // There are no moves left, and what is due may be among what has still to move.
        *budget = 0;
    }

    /// Moves a part of each cascade, once a tick. It is called after [`expire`](Self::expire), so
    /// that what is due does not wait for it. `budget` is as there.
    pub fn cascade<S: Items<Item = T>>(&mut self, items: &mut S, budget: &mut usize) {
        for index in (1..self.levels.len()).rev() {
            let (cursor, level, below) = (self.cursor, &self.levels[index], &self.levels[index - 1]);
            if level.stepped == cursor || self.lists.is_empty(cascade_list(index)) {
                continue;
            }
            let (left, time) = (level.cascade_due(below).saturating_sub(cursor), level.lead() - below.lead());
            let eighths = (time - left.min(time)) * 8 / time;
            let quota = if left <= 1 { usize::MAX } else { self.cascade_quota << eighths };
            self.levels[index].stepped = cursor;
            self.move_down(index, items, budget, quota);
        }
        #[cfg(test)]
        self.check();
    }

    /// Moves up to `quota` items of a level's cascade into the level below, and no farther. There
    /// they go in front of the items of the same deadline that were inserted after them. Returns
    /// whether the cascade is over.
    fn move_down<S: Items<Item = T>>(&mut self, level: usize, items: &mut S, budget: &mut usize, quota: usize) -> bool {
        self.go_through(cascade_list(level), items, budget, quota, |wheel, items, item| {
            wheel.cascaded += 1;
            let (deadline, below) = (items.deadline(item), &wheel.levels[level - 1]);
            // If it has no slot there, its deadline was moved, or it waits for its round.
            let is_below = below.holds(deadline, wheel.cursor);
            let list = if is_below { below.ring.list_at(deadline) } else { wheel.list_for(deadline, 0) };
            wheel.put(items, item, list).map_err(|OutOfMemory| HOMELESS)
        })
    }

    /// Takes what is due out, in its order. Returns whether that is all.
    fn take_due<S: Items<Item = T>>(
        &mut self,
        items: &mut S,
        due_by: u64,
        budget: &mut usize,
        take: &mut impl FnMut(&mut S, T, u64) -> Take,
    ) -> bool {
        while let Some(at) = self.lists.first(DUE) {
            self.prefetch_behind(items, at);
            let is_through = self.take_block(items, at, due_by, budget, take);
            if self.lists.blocks.get(at).live == 0 {
                self.lists.free(at);
            } else if is_through {
                self.lists.move_block(at, HOMELESS);
                // It may be due by now.
                self.homeless_at = 0;
            }
            if !is_through {
                return false;
            }
        }
        true
    }

    /// Takes the items of one block. Returns false if not all were looked at.
    #[inline(always)]
    fn take_block<S: Items<Item = T>>(
        &mut self,
        items: &mut S,
        at: u32,
        due_by: u64,
        budget: &mut usize,
        take: &mut impl FnMut(&mut S, T, u64) -> Take,
    ) -> bool {
        let mut cell = 0;
        loop {
            let Block { cells, live, .. } = self.lists.blocks.get_mut(at);
            // Only this loop is for each item. Nobody else reaches the block from `take`.
            let (item, taken) = loop {
                let Some(slot) = cells.get_mut(cell) else { return true };
                cell += 1;
                let Some(item) = *slot else { continue };
                if *budget == 0 {
                    return false;
                }
                // It counts as taken, should the call panic.
                *slot = None;
                *live -= 1;
                self.len -= 1;
                let taken = take(items, item, due_by);
                if taken != Take::Taken {
                    break (item, taken);
                }
                *budget -= 1;
            };
            match self.after_look(items, Place::new(at, cell - 1), item, due_by, taken, budget) {
                Some(next) => cell = next,
                None => return false,
            }
        }
    }

    /// Puts an item that has come up and is not taken where it belongs. Returns the cell to go on
    /// with, or `None` if it stays, and so does all behind it.
    #[inline(never)]
    fn after_look<S: Items<Item = T>>(
        &mut self,
        items: &mut S,
        place: Place,
        item: T,
        due_by: u64,
        taken: Take,
        budget: &mut usize,
    ) -> Option<usize> {
        let (at, cell) = (place.block(), place.cell());
        self.lists.blocks.get_mut(at).put(cell, item);
        self.len += 1;
        match items.deadline(item) {
            _ if taken == Take::Stop => None,
            // Its deadline was moved once more, and is due: `take` gets it again.
            deadline if deadline <= due_by => Some(cell),
            // Its tick has been processed, so the caller's time has gone back, and it waits for
            // that.
            deadline if deadline < self.cursor => None,
            deadline => {
                self.put_off += 1;
                // Without memory it stays, and costs nothing: the next call may come by it again.
                if self.put(items, item, self.list_for(deadline, 0)).is_ok() {
                    let _ = self.lists.blocks.get_mut(at).empty(cell);
                    *budget -= 1;
                }
                Some(cell + 1)
            }
        }
    }

    /// Makes what is late due, and sorts all that is due.
    fn take_late<S: Items<Item = T>>(&mut self, items: &mut S) {
        self.lists.splice(LATE, DUE);
        self.lists.sort(items, DUE);
    }

    /// Handles an event that is due. Returns false if it takes more moves.
    fn handle<S: Items<Item = T>>(&mut self, event: Event, items: &mut S, moves: &mut usize) -> bool {
        match event {
            Event::Finish(level) => return self.move_down(level, items, moves, usize::MAX),
            Event::Open(index, span) => {
                let level = &mut self.levels[index];
                level.open(span);
                let (list, opens) = (level.ring.list(span), level.opens(span));
                self.move_cursor(opens);
                self.splice_slot(list, cascade_list(index));
            }
            Event::Due(tick) => {
                self.move_cursor(tick + 1);
                self.splice_slot(self.levels[0].ring.list(tick), DUE);
            }
        }
        true
    }

    /// Moves the items of a slot: first those that a cascade has brought, which are older.
    fn splice_slot(&mut self, list: u32, to: u32) {
        self.lists.splice(list, to);
        self.lists.splice(list + 1, to);
    }

    /// Returns whether time has outrun the last level: a whole revolution or more lies between the
    /// cursor and `now`.
    fn is_outrun(&self, now: u64) -> bool {
        let last = self.levels.last().expect("a wheel has a level");
        now.saturating_sub(self.cursor) >> last.ring.bits() > 0
    }

    /// Makes the next [`expire`](Self::expire) look at all items, and put each where its deadline
    /// of then belongs. It is for deadlines that were moved to earlier ones without a
    /// [`reinsert`](Self::reinsert). Until all were looked at, nothing is taken: so a rescan before
    /// each call may keep all waiting. What is due then is sorted in one step.
    #[cold]
    pub fn rescan(&mut self) {
        self.set_all_aside();
        self.lists.splice(FAR, ASIDE);
    }

    /// Sets all aside, the oldest items of a deadline first: what cascades, or calls that were not
    /// through, have put back, then what is still on its way, then what was inserted directly; and
    /// of each of these the coarsest level first.
    #[cold]
    fn set_all_aside(&mut self) {
        if self.levels.len() == 1 {
            // Some may have come up for another round.
            self.lists.splice(DUE, HOMELESS);
        }
        self.lists.splice(ASIDE, HOMELESS);
        (self.homeless_at, self.is_swept) = (NEVER, false);
        let Self { lists, levels, cursor, .. } = self;
        let splice_slots = |lists: &mut Lists<T>, which: u32| {
            for level in levels.iter().rev() {
                level.marked(*cursor).for_each(|span| lists.splice(level.ring.list(span) + which, ASIDE));
            }
        };
        splice_slots(lists, 0);
        (1..levels.len()).rev().for_each(|level| lists.splice(cascade_list(level), ASIDE));
        lists.splice(HOMELESS, ASIDE);
        splice_slots(lists, 1);
    }

    /// Looks at what was set aside, and makes due what is. Once it is through, sorts all that is
    /// due, or late. Returns whether it is.
    #[cold]
    fn sweep<S: Items<Item = T>>(&mut self, items: &mut S, now: u64, moves: &mut usize) -> bool {
        self.is_swept = self.go_through(ASIDE, items, moves, usize::MAX, |wheel, items, item| {
            let deadline = items.deadline(item);
            let list = if deadline < wheel.cursor { DUE } else { wheel.list_for(deadline, 0) };
            wheel.put(items, item, list).map_err(|OutOfMemory| {
                if deadline <= now {
                    return DUE;
                }
                wheel.homeless_at = wheel.homeless_at.min(deadline);
                HOMELESS
            })
        });
        if self.is_swept {
            self.take_late(items);
        }
        self.is_swept
    }

    /// Goes through up to `quota` items of a list, from the first on. Returns whether it is empty
    /// now. `each` moves an item to another list. If it has no memory for that, it says to which
    /// list the item's whole block goes.
    #[inline]
    fn go_through<S: Items<Item = T>>(
        &mut self,
        list: u32,
        items: &mut S,
        budget: &mut usize,
        mut quota: usize,
        mut each: impl FnMut(&mut Self, &mut S, T) -> Result<(), u32>,
    ) -> bool {
        while let Some(at) = self.lists.first(list) {
            self.prefetch_behind(items, at);
            let mut to = HOMELESS;
            for cell in 0..CELLS {
                let Some(item) = self.lists.blocks.get(at).cells[cell] else { continue };
                if *budget == 0 || quota == 0 {
                    return false;
                }
                match each(self, items, item) {
                    Ok(()) => {
                        let _ = self.lists.blocks.get_mut(at).empty(cell);
                        (*budget, quota) = (*budget - 1, quota - 1);
                    }
                    // It costs nothing, as the next call may come by it again.
                    Err(DUE) => to = DUE,
                    Err(_) => {}
                }
            }
            if self.lists.blocks.get(at).live == 0 {
                self.lists.free(at);
            } else {
                self.lists.move_block(at, to);
                // What was set aside has just been looked at. Anything else may be due by now.
                if list != ASIDE {
                    self.homeless_at = 0;
                }
            }
        }
        true
    }

    /// Prefetches the items of the block behind this one, which come next.
    #[inline]
    fn prefetch_behind<S: Items<Item = T>>(&self, items: &S, at: u32) {
        let Some(behind) = self.lists.blocks.get(at).behind.block() else { return };
        self.lists.blocks.get(behind).cells.iter().flatten().for_each(|item| items.prefetch(*item));
    }
}
