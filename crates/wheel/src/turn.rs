//! A turn: it takes out the items that are due, and moves a part of each cascade.

use crate::block::{Block, CELLS, Memory};
use crate::event::Event;
use crate::items::{Items, NEVER, Place, Take};
use crate::wheel::{DUE, FAR, LATE, Wheel, cascade_list};

impl<T: Copy + Eq, M: Memory<T>> Wheel<T, M> {
    /// Takes out the items that are due at tick `now`, in the order of their deadlines, and those
    /// of one deadline in the order in which they were inserted.
    ///
    /// The call asks `take` for each item whose deadline, as the store says, has come. If `take`
    /// panics, the item counts as taken. If `now` goes back, items that were due before may come
    /// out all the same.
    ///
    /// `budget` is how many items the call may handle. The call lowers it for each: also for those
    /// that come up and are not due, since their deadlines were moved. (Without memory to move them
    /// it may lower it by one for 14 of them.) If a cascade has to be over, the call moves as many
    /// items of it at most, or the [quota of cascades](Self::set_cascade_quota) if that is more.
    /// Items that are left over in either way wait for the next call: then the budget is 0, and
    /// [`next_wakeup`](Self::next_wakeup) says when that has to be. Items that were late when they
    /// were inserted are taken together with those that come due next.
    ///
    /// A jump of the clock costs a step for each occupied slot, and not for each tick. If it goes
    /// twice as far as the last level reaches, the call looks at all items and sorts those that are
    /// due, in one step. It sorts late items in the same way. Items may come out in another order
    /// if there is no memory for that, or was none for a [`reinsert`](Self::reinsert).
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
        // A time that has gone back counts as the last tick that is processed.
        let now = now.max(self.cursor.saturating_sub(1)).min(NEVER - 1);
        // A move is cheap beside the work for an item that is due.
        let mut moves = (*budget).max(self.cascade_quota);
        if self.rescans {
            self.gather(now);
        }
        loop {
            if !self.take_due(items, budget, &mut take) {
                return;
            }
            // If time has outrun the last level by two revolutions. (No ring is as wide as 2^63
            // ticks.) A shorter jump is gone through slot by slot, which costs less than to look at
            // all items.
            if now.saturating_sub(self.cursor) >> self.by_distance[63].bits() >= 2 {
                self.gather(now);
            }
            // Late items go together with those that come up next, so that neither wait for ever.
            if !self.lists.is_empty(LATE) {
                self.lists.sort(items, LATE, self.cursor);
                self.lists.splice(LATE, DUE);
            }
            match self.next_event(now) {
                Some(event) if !self.handle(event, items, &mut moves) => break,
                None if self.lists.is_empty(DUE) => {
                    self.cursor = now + 1;
                    return;
                }
                _ => {}
            }
        }
        // There are no moves left, and some of the items that have still to move may be due.
        *budget = 0;
    }

    /// Moves a part of each cascade, once a tick. Call it after [`expire`](Self::expire): then
    /// items that are due do not wait for it. `budget` is as there.
    pub fn cascade<S: Items<Item = T>>(&mut self, items: &mut S, budget: &mut usize) {
        for index in (1..self.levels.len()).rev() {
            let (cursor, level, below) = (self.cursor, &self.levels[index], &self.levels[index - 1]);
            if level.stepped == cursor || self.lists.is_empty(cascade_list(index)) {
                continue;
            }
            let (left, time) = (level.cascade_due(below).saturating_sub(cursor), level.lead() - below.lead());
            let eighths = (time - left.min(time)) * 8 / time;
            let most = if left <= 1 { *budget } else { (self.cascade_quota << eighths).min(*budget) };
            let mut moves = most;
            self.levels[index].stepped = cursor;
            self.move_down(index, items, &mut moves);
            *budget -= most - moves;
        }
        #[cfg(test)]
        self.check();
    }

    /// Moves items of a level's cascade, as many as `moves` says, into the level below, and no
    /// farther. There they go in front of the items of the same deadline that were inserted after
    /// them. Returns whether the cascade is over.
    fn move_down<S: Items<Item = T>>(&mut self, level: usize, items: &mut S, moves: &mut usize) -> bool {
        while let Some(at) = self.lists.first(cascade_list(level)) {
            self.prefetch_behind(items, at);
            for cell in 0..CELLS {
                let Some(item) = self.lists.blocks.get(at).cells[cell] else { continue };
                if *moves == 0 {
                    return false;
                }
                let (deadline, below) = (items.deadline(item), &self.levels[level - 1]);
                // If it has no slot there, its deadline was moved, or it waits for its round.
                let is_below = below.holds(deadline, self.cursor);
                let list = if is_below { below.ring.list_at(deadline) } else { self.list_for(deadline, 0) };
                if self.put(items, item, list).is_ok() {
                    let _ = self.lists.blocks.get_mut(at).empty(cell);
                    (*moves, self.cascaded) = (*moves - 1, self.cascaded + 1);
                }
            }
            self.leave(items, at, moves);
        }
        true
    }

    /// Frees a block whose items were all looked at. If some are left, as they found no cell
    /// elsewhere, the block goes to where the earliest of them belongs.
    #[inline]
    fn leave<S: Items<Item = T>>(&mut self, items: &S, at: u32, budget: &mut usize) {
        if self.lists.blocks.get(at).live == 0 {
            self.lists.free(at);
        } else {
            self.put_block(items, at);
            *budget = budget.saturating_sub(1);
        }
    }

    /// Takes out the items that are due, in their order. Returns false if the budget, or `take`,
    /// has put an end to that.
    fn take_due<S: Items<Item = T>>(
        &mut self,
        items: &mut S,
        budget: &mut usize,
        take: &mut impl FnMut(&mut S, T, u64) -> Take,
    ) -> bool {
        // All ticks before the cursor have been processed.
        let due_by = self.cursor.saturating_sub(1);
        while let Some(at) = self.lists.first(DUE) {
            self.prefetch_behind(items, at);
            if !self.take_block(items, at, due_by, budget, take) {
                return false;
            }
            self.leave(items, at, budget);
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
            // Only this loop runs for each item. `take` can't reach the wheel, so the loop may
            // borrow the block.
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
            match self.after_look(items, Place::new(at, cell - 1), item, taken, budget) {
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
        taken: Take,
        budget: &mut usize,
    ) -> Option<usize> {
        let (at, cell) = (place.block(), place.cell());
        self.lists.blocks.get_mut(at).put(cell, item);
        self.len += 1;
        match items.deadline(item) {
            _ if taken == Take::Stop => None,
            // Its deadline was moved once more, and is due: `take` gets it again.
            deadline if deadline < self.cursor => Some(cell),
            deadline => {
                // Without memory it stays, and goes with its block.
                if self.put(items, item, self.list_for(deadline, 0)).is_ok() {
                    let _ = self.lists.blocks.get_mut(at).empty(cell);
                    (*budget, self.put_off) = (*budget - 1, self.put_off + 1);
                }
                Some(cell + 1)
            }
        }
    }

    /// Handles an event that is due. Returns false if the moves have run out before its end.
    fn handle<S: Items<Item = T>>(&mut self, event: Event, items: &mut S, moves: &mut usize) -> bool {
        match event {
            Event::Finish(level) => self.move_down(level, items, moves),
            Event::Open(index, span) => {
                let level = &mut self.levels[index];
                // No cursor, so that the cascade's first part is moved in this very tick.
                (level.opened, level.stepped) = (span + 1, u64::MAX);
                let list = level.ring.list(span);
                self.cursor = level.opens(span) + u64::from(index == 0);
                // The items that a cascade has brought are older.
                self.lists.splice(list, cascade_list(index));
                self.lists.splice(list + 1, cascade_list(index));
                true
            }
        }
    }

    /// Makes the next [`expire`](Self::expire) look at all items, and sort those that are due, in
    /// one step. It takes those first, and then puts the others where they belong. It is for
    /// deadlines that were moved to earlier ones without a [`reinsert`](Self::reinsert).
    pub fn rescan(&mut self) {
        self.rescans = true;
    }

    /// Puts all items among the late ones, and moves the cursor behind `now`.
    #[cold]
    fn gather(&mut self, now: u64) {
        self.rescans = false;
        // The oldest items of a deadline go first: those that were put back, by cascades or because
        // they were not due, then those on their way, then those that were inserted directly. Of
        // each of these the coarsest level goes first. All go by way of FAR, so that late items
        // keep their place.
        self.splice_slots(0);
        (0..self.levels.len()).rev().for_each(|level| self.lists.splice(cascade_list(level), FAR));
        self.lists.splice(LATE, FAR);
        self.splice_slots(1);
        self.lists.splice(FAR, LATE);
        self.cursor = now + 1;
    }

    /// Moves one list of each slot to FAR.
    fn splice_slots(&mut self, which: u32) {
        let Self { lists, levels, cursor, .. } = self;
        for level in levels.iter().rev() {
            level.marked(*cursor).for_each(|span| lists.splice(level.ring.list(span) + which, FAR));
        }
    }

    /// Prefetches the items of the block behind this one, which come next.
    #[inline]
    fn prefetch_behind<S: Items<Item = T>>(&self, items: &S, at: u32) {
        let Some(behind) = self.lists.blocks.get(at).behind.block() else { return };
        self.lists.blocks.get(behind).cells.iter().flatten().for_each(|item| items.prefetch(*item));
    }
}
