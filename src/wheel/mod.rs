//! The timing wheel: slots, levels, bitmaps. No clock, no thread, no synchronisation, no allocation per operation: it is
//! told what time it is and says what is due ("sans-io"). One owner; reached through `&mut`.
//!
//! With s = log2 of `ticks_per_wheel`, a slot of level l is 2^(s·l) ticks wide, and the slot of a tick is
//! `(tick >> s·l) & mask` (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", 1987; Netty, Kafka). For 512 ticks
//! of 1 ms a wheel:
//!
//! | level | slot width | reaches | cascade starts before its slot begins |
//! |---|---|---|---|
//! | 0 | 1 ms | 1.0 s | - |
//! | 1 | 0.5 s | 8.7 min | 0.26 s |
//! | 2 | 4.4 min | 3.1 days | 2.2 min |
//! | 3 | 37 h | 4.4 years, then rounds | 19 h |
//!
//! **Twice the slots.** If there is more than one level, each has 2·`ticks_per_wheel` slots and so reaches two blocks of
//! the level above. That is what allows a cascade to be spread: when a block of level l is opened, half a block *before*
//! it begins, all its entries already fit into level l - 1, so they can be moved a few at a time, tick by tick, while the
//! ticks before it are expired on time. With exactly one revolution of slots a cascade could only be done all at once, in
//! the tick in which it is due (that is where Kafka's p99 of tens of milliseconds comes from).
//!
//! **Rounds.** What lies beyond the last level's reach is linked into the last level all the same, and linked again each
//! time its slot comes up. With `levels(1)` that is Netty's hashed wheel.
//!
//! **Never** is a list of its own, which no time reaches.
//!
//! **A jump of the clock** costs one step an occupied slot, not one a tick. If it outruns the last level's whole ring, all
//! slots are set aside and looked at once each (`sweep`), instead of going round and round.

mod level;
mod occupancy;
#[cfg(all(test, not(loom)))]
mod oracle;
mod slots;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ptr::NonNull;

use level::Level;
pub(crate) use level::LevelView;
use slots::Slots;

use crate::entry::{Entry, entry_ref};
use crate::time::Tick;

/// How many entries a cascade moves in its first ticks. It doubles each eighth of the time that is left, so that a slot
/// of any size is empty before it is due: 2,048 entries are about 50 µs of work in a tick.
const CASCADE_QUOTA: usize = 2_048;

/// No cursor: ticks are not that wide.
const UNMEASURED: u64 = u64::MAX;

/// How many entries are left to be handled in this turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    pub(crate) fn new(entries: usize) -> Self {
        Self(entries)
    }

    pub(crate) fn is_spent(self) -> bool {
        self.0 == 0
    }

    /// Takes one out of what is not [spent](Self::is_spent).
    #[inline]
    pub(crate) fn spend(&mut self) {
        self.0 -= 1;
    }
}

/// A cascade under way: the entries of one opened block, on their way to the level below.
#[derive(Debug)]
struct Cascade {
    /// Where the list is, in the wheel's array.
    place: usize,
    /// When its block begins: by then the list must be empty.
    due: u64,
    /// The last tick in which a part was moved: once a tick is enough.
    stepped: u64,
}

#[derive(Debug)]
pub(crate) struct Wheel {
    slots: Slots,
    levels: Box<[Level]>,
    /// Of level l at l - 1: at most one at a time, as a block is due before the next one is opened.
    cascades: Box<[Cascade]>,
    /// Lists that no ring holds.
    due_place: usize,
    never_place: usize,
    /// What is brought when its tick has passed: taken after what is due, and before what comes due next, so that neither can
    /// keep the other waiting for ever when there is more than the budget allows.
    late_place: usize,
    late_is_next: bool,
    /// All slots as they were when the clock outran the wheel, and how far they have been gone through.
    sweep: Slots,
    swept: usize,
    /// All ticks before this one have been processed.
    cursor: u64,
    /// The cursor for which the levels were measured; [`UNMEASURED`] if a block was opened since.
    measured: u64,
    len: usize,
    cascaded: u64,
}

/// What is to be done next, and when.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A slot of level 0 is due.
    Due(u64),
    /// The block of a level is to be opened.
    Open(usize, u64),
    /// A cascade must be over.
    Finish(usize),
}

/// The largest `levels × log2(ticks_per_wheel)`: all of a tick's bits.
pub(crate) const MAX_TICK_BITS: u32 = 55;

impl Wheel {
    /// `ticks_per_wheel` is a power of two, and at least 2 if there is more than one level; the builder has checked both
    /// bounds. None if there is no memory for its slots.
    pub(crate) fn new(ticks_per_wheel: usize, levels: usize) -> Option<Self> {
        debug_assert!(ticks_per_wheel.is_power_of_two() && levels >= 1);
        debug_assert!(levels == 1 || ticks_per_wheel >= 2);
        let bits = ticks_per_wheel.ilog2();
        let ring = if levels == 1 { ticks_per_wheel } else { 2 * ticks_per_wheel };
        let level_of = |level: usize| {
            let level_bits = u32::try_from(level).unwrap_or(u32::MAX);
            Level::new(bits * level_bits, level * ring, ring)
        };
        let rings = levels * ring;
        let cascade_of = |level: usize| Cascade { place: rings + 1 + level, due: 0, stepped: 0 };
        let late_place = rings + 1 + levels;
        let lists = late_place + 1;
        Some(Self {
            slots: Slots::new(lists)?,
            levels: (0..levels).map(level_of).collect(),
            cascades: (1..levels).map(cascade_of).collect(),
            due_place: rings,
            never_place: rings + 1,
            late_place,
            late_is_next: true,
            sweep: Slots::new(lists)?,
            swept: lists,
            cursor: 0,
            measured: UNMEASURED,
            len: 0,
            cascaded: 0,
        })
    }

    /// Its levels, the finest first, to be looked at from outside.
    pub(crate) fn view(&self) -> Vec<LevelView> {
        self.levels.iter().map(Level::view).collect()
    }

    /// Entries in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Entries that were moved to a lower level so far.
    pub(crate) fn cascaded(&self) -> u64 {
        self.cascaded
    }

    /// Links an entry at a tick. One that has passed is due at once.
    ///
    /// # Safety
    /// The entry is in no slot, belongs to this wheel's owner alone as far as its links go, and stays valid until it comes
    /// out of the wheel again.
    #[inline]
    pub(crate) unsafe fn insert(&mut self, entry: NonNull<Entry>, tick: Tick) {
        self.len += 1;
        // SAFETY: handed on.
        unsafe { self.link(entry, tick) };
    }

    /// The same, out of line: for entries that are linked once more, so that the first time is inlined where it is
    /// done most.
    ///
    /// # Safety
    /// As for [`insert`](Self::insert).
    #[inline(never)]
    pub(crate) unsafe fn insert_again(&mut self, entry: NonNull<Entry>, tick: Tick) {
        // SAFETY: handed on.
        unsafe { self.insert(entry, tick) };
    }

    /// # Safety
    /// As for [`insert`](Self::insert).
    #[inline]
    unsafe fn link(&mut self, entry: NonNull<Entry>, tick: Tick) {
        let place = self.place_for(tick);
        // SAFETY: handed on.
        unsafe { self.slots.push(place, entry) };
    }

    /// Chooses the lowest level that reaches the tick, and marks its slot.
    #[inline]
    fn place_for(&mut self, tick: Tick) -> usize {
        if tick == Tick::NEVER {
            return self.never_place;
        }
        let (cursor, tick) = (self.cursor, tick.get());
        if tick < cursor {
            return self.late_place;
        }
        // Once a turn or so, and not for each entry.
        if self.measured != cursor {
            self.levels.iter_mut().for_each(|level| level.measure(cursor));
            self.measured = cursor;
        }
        // The last one takes what none reaches.
        let index = self.levels.iter().position(|level| level.reaches(tick)).unwrap_or(self.levels.len() - 1);
        let level = &mut self.levels[index];
        let block = level.block_of(tick);
        // A tick that the level below does not reach lies in a block that this level has not opened yet: the level
        // below reaches two whole blocks beyond the one that the cursor is in, and a block is opened at most half a
        // block early.
        debug_assert!(block >= level.first_unopened(cursor));
        let place = level.place(block);
        level.mark(place, true);
        place
    }

    /// Unlinks an entry.
    ///
    /// # Safety
    /// The entry is in this wheel, and [`pop_due`](Self::pop_due), if it was ever called, has said that there are no more: before
    /// that not all entries know where they are linked.
    #[inline]
    pub(crate) unsafe fn remove(&mut self, entry: NonNull<Entry>) {
        self.len -= 1;
        // SAFETY: handed on.
        unsafe { self.unlink(entry) };
    }

    /// # Safety
    /// As for [`remove`](Self::remove).
    #[inline]
    unsafe fn unlink(&mut self, entry: NonNull<Entry>) {
        // SAFETY: handed on.
        let Some(emptied) = (unsafe { self.slots.unlink(entry) }) else { return };
        if let Some(level) = self.levels.iter_mut().find(|level| level.holds_place(emptied)) {
            level.mark(emptied, false);
        }
    }

    /// The next entry whose slot has come by `now`, unlinked; none if there is none, or the budget is spent, and until then
    /// nothing may be [removed](Self::remove). Whether the entry is due by its own word is for the caller to say, and to insert
    /// it again if not.
    // Always inlined, and so is `Slots::take`: this is done for each timeout that expires.
    #[inline(always)]
    pub(crate) fn pop_due(&mut self, now: Tick, budget: &mut Budget) -> Option<NonNull<Entry>> {
        // Nearly always there is another one in the slot that is due.
        if !budget.is_spent()
            && self.is_swept()
            && let Some(entry) = self.slots.take(self.due_place)
        {
            budget.spend();
            self.len -= 1;
            return Some(entry);
        }
        self.pop_next_due(now, budget)
    }

    /// As [`pop_due`](Self::pop_due), which it has to begin with what is swept, and to find out what comes next.
    #[inline(never)]
    fn pop_next_due(&mut self, now: Tick, budget: &mut Budget) -> Option<NonNull<Entry>> {
        loop {
            if budget.is_spent() {
                self.slots.seal(self.due_place);
                if self.swept < self.sweep.len() {
                    self.sweep.seal(self.swept);
                }
                return None;
            }
            if let Some(entry) = self.take_swept().or_else(|| self.slots.take(self.due_place)) {
                budget.spend();
                self.len -= 1;
                return Some(entry);
            }
            if (self.late_is_next || now.get() < self.cursor) && self.take_late() {
                continue;
            }
            if now.get() < self.cursor {
                self.late_is_next = true;
                return None;
            }
            let last = self.levels.last().expect("a wheel has a level");
            if last.is_outrun(self.cursor, now.get()) {
                self.set_all_aside(now.get());
                continue;
            }
            match self.next_event() {
                Some((at, event)) if at <= now.get() => {
                    self.handle(at, event, budget);
                    self.late_is_next = true;
                }
                _ if self.take_late() => {}
                _ => {
                    self.late_is_next = true;
                    self.cursor = now.next().get();
                    return None;
                }
            }
        }
    }

    /// Makes due what was brought late, when nothing else is due. False if there is none.
    fn take_late(&mut self) -> bool {
        self.late_is_next = false;
        let is_there = !self.slots.is_empty(self.late_place);
        self.slots.move_slot(self.late_place, &self.slots, self.due_place);
        is_there
    }

    /// Moves a part of each cascade under way, once a tick. To be called when nothing is due any more.
    pub(crate) fn step_cascades(&mut self, budget: &mut Budget) {
        for index in (0..self.cascades.len()).rev() {
            let Cascade { place, due, stepped } = self.cascades[index];
            if stepped == self.cursor || self.slots.is_empty(place) {
                continue;
            }
            self.cascades[index].stepped = self.cursor;
            let lead = self.levels[index + 1].lead();
            let left = due.saturating_sub(self.cursor);
            let eighths = (lead - left.min(lead)) * 8 / lead;
            let quota = CASCADE_QUOTA << eighths;
            self.cascade(place, if left <= 1 { usize::MAX } else { quota }, budget);
        }
    }

    /// When the wheel wants to be looked at next: [`Tick::ZERO`] for at once, none for never.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        let is_due = |place| !self.slots.is_empty(place);
        if self.swept < self.sweep.len() || is_due(self.due_place) || is_due(self.late_place) {
            return Some(Tick::ZERO);
        }
        if self.cascades.iter().any(|cascade| !self.slots.is_empty(cascade.place)) {
            return Some(Tick::new(self.cursor));
        }
        self.next_event().map(|(at, _)| Tick::new(at))
    }

    /// The earliest deadline that an entry has by its own word; [`Tick::NEVER`] if there is none. Slots are looked at in the
    /// order of the time that they stand for, until none can hold anything earlier than what was found.
    pub(crate) fn earliest(&self) -> Tick {
        let due = [self.due_place, self.late_place].map(|place| self.slots.earliest_in(place));
        let at_once = due.into_iter().chain((self.swept..self.sweep.len()).map(|place| self.sweep.earliest_in(place)));
        let cascading = self.cascades.iter().map(|cascade| self.slots.earliest_in(cascade.place));
        let found = at_once.chain(cascading).min().unwrap_or(Tick::NEVER);
        self.levels.iter().fold(found, |mut found, level| {
            for (begins, place) in level.occupied(self.cursor) {
                if begins >= found.get() {
                    break;
                }
                found = found.min(self.slots.earliest_in(place));
            }
            found
        })
    }

    /// Unlinks all entries, one after the other, and gives them to `take`.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(NonNull<Entry>)) {
        while let Some(entry) = self.take_swept() {
            self.len -= 1;
            take(entry);
        }
        let occupied = self.levels.iter_mut().flat_map(|level| level.take_occupied(self.cursor));
        for place in occupied.chain(self.due_place..self.slots.len()) {
            while let Some(entry) = self.slots.take(place) {
                self.len -= 1;
                take(entry);
            }
        }
        debug_assert_eq!(self.len, 0, "an occupied slot is marked");
    }

    fn next_event(&self) -> Option<(u64, Event)> {
        let due = self.levels[0].next_occupied(self.cursor).map(|tick| (tick, Event::Due(tick)));
        let opens = self.levels.iter().enumerate().skip(1).filter_map(|(index, level)| {
            let block = level.next_occupied(self.cursor)?;
            Some((level.opens(block), Event::Open(index, block)))
        });
        let finishes = self.cascades.iter().enumerate().filter_map(|(index, cascade)| {
            (!self.slots.is_empty(cascade.place)).then_some((cascade.due, Event::Finish(index)))
        });
        // Of two at the same tick a cascade goes first: what it brings may be due in that very tick.
        finishes.chain(opens).chain(due).min_by_key(|(at, _)| *at)
    }

    fn handle(&mut self, at: u64, event: Event, budget: &mut Budget) {
        match event {
            Event::Due(tick) => {
                let place = self.levels[0].place(tick);
                self.levels[0].mark(place, false);
                self.slots.move_slot(place, &self.slots, self.due_place);
                self.cursor = tick + 1;
            }
            Event::Open(index, block) => {
                let level = &mut self.levels[index];
                let place = level.place(block);
                level.mark(place, false);
                let cascade = &mut self.cascades[index - 1];
                cascade.due = level.begins(block);
                cascade.stepped = 0;
                level.open(block);
                self.measured = UNMEASURED;
                self.slots.move_slot(place, &self.slots, cascade.place);
                self.cursor = self.cursor.max(at);
            }
            Event::Finish(index) => {
                let place = self.cascades[index].place;
                self.cascade(place, usize::MAX, budget);
            }
        }
    }

    /// Moves up to `quota` entries of a cascade to where they belong now.
    fn cascade(&mut self, place: usize, quota: usize, budget: &mut Budget) {
        for _ in 0..quota {
            if budget.is_spent() {
                break;
            }
            let Some(entry) = self.slots.take(place) else { break };
            budget.spend();
            // SAFETY: entries in a slot are valid.
            let deadline = unsafe { entry_ref(entry) }.state.deadline();
            // SAFETY: it is in no slot now, and still the wheel's.
            unsafe { self.link(entry, deadline) };
            self.cascaded += 1;
        }
        self.slots.seal(place);
    }

    fn take_swept(&mut self) -> Option<NonNull<Entry>> {
        while self.swept < self.sweep.len() {
            let entry = self.sweep.take(self.swept);
            if entry.is_some() {
                return entry;
            }
            self.swept += 1;
        }
        None
    }

    /// Whether all that was set aside has been gone through.
    pub(crate) fn is_swept(&self) -> bool {
        self.swept == self.sweep.len()
    }

    /// Has all entries come up, for the caller to see by their own words when they are due: some may have got an earlier deadline, and nobody
    /// can say which. Only when the wheel [is swept](Self::is_swept).
    #[cold]
    pub(crate) fn rescan(&mut self, now: Tick) {
        self.set_all_aside(now.get());
        let last = self.sweep.len() - 1;
        self.slots.move_slot(self.never_place, &self.sweep, last);
    }

    /// Whatever slot an entry is in says nothing any more, as the clock has outrun the last level's ring, for example. All lists are set
    /// aside, in the order of their levels and blocks, and time goes on at once.
    #[cold]
    fn set_all_aside(&mut self, now: u64) {
        debug_assert!(self.is_swept());
        let mut to = 0;
        let mut set_aside = |place: usize| {
            self.slots.move_slot(place, &self.sweep, to);
            to += 1;
        };
        for (index, level) in self.levels.iter_mut().enumerate() {
            if index > 0 {
                set_aside(self.cascades[index - 1].place);
            }
            level.take_occupied(self.cursor).for_each(&mut set_aside);
        }
        self.swept = 0;
        self.cursor = self.cursor.max(now + 1);
    }
}
