//! The timing wheel: slots, levels, bitmaps. It has no clock, no thread and no synchronisation, and
//! allocates nothing per operation. Its caller tells it the time, and it answers what is due
//! ("sans-io"). It has one owner, which reaches it through `&mut`.
//!
//! With s = log2 of `ticks_per_wheel`, a slot of level l is 2^(s·l) ticks wide, and the slot of a
//! tick is `(tick >> s·l) & mask` (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels",
//! 1987; Netty, Kafka). For 512 ticks of 1 ms a wheel:
//!
//! | level | slot width | reaches | cascade starts before its slot begins |
//! |---|---|---|---|
//! | 0 | 1 ms | 1.0 s | - |
//! | 1 | 0.5 s | 8.7 min | 0.26 s |
//! | 2 | 4.4 min | 3.1 days | 2.2 min |
//! | 3 | 37 h | 4.4 years, then rounds | 19 h |
//!
//! **Twice the slots.** If there is more than one level, each has 2·`ticks_per_wheel` slots, and so
//! reaches two blocks of the level above. This allows a cascade to be spread over many ticks. A
//! block of level l is opened half a block *before* it begins, and then all its entries already fit
//! into level l - 1. So they can be moved a few at a time, tick by tick, while the ticks before the
//! block are expired on time. With exactly one revolution of slots a cascade could only be done all
//! at once, in the tick in which it is due. (That is the cause of Kafka's p99 of tens of
//! milliseconds.)
//!
//! **Deadlines are finer than ticks** (see [`Division`]), and a slot of level 0 keeps the last that
//! was put into it. It [comes up](ComesUp) when that is due, and at the end of its tick at the
//! latest. So a timeout that is alone in its tick is not late by the rest of it, and a crowd of one
//! tick still runs at once. The word of an entry holds the fine deadline. Slots, levels and the
//! cursor count ticks.
//!
//! **Rounds.** A deadline beyond the last level's reach is linked into the last level too, and
//! linked again each time its slot comes up. With `levels(1)` the wheel is Netty's hashed wheel.
//!
//! **Never** has a list of its own, which no time reaches.
//!
//! **A jump of the clock** costs one step per occupied slot, not one per tick. If it outruns the
//! whole ring of the last level, all slots are set aside and looked at once each (`sweep`), instead
//! of round after round. What is due then is sorted by tick.
//!
//! **Entries of one tick come out in the order in which they were inserted.** A slot is first in,
//! first out. An entry that a coarse level holds was inserted before all those of its tick that
//! finer levels hold, because each level reaches farther as time goes on, and never less far. So a
//! cascade moves the last entry of its block first, and to the front of the finer slot. Only an
//! entry that was reset, or that was due when it was inserted, may come out elsewhere. So may one
//! of a single level that waits for its round, if others of its tick are inserted between two parts
//! of a turn whose budget is spent.

mod check;
mod comes_up;
mod hurry;
mod lanes;
mod level;
mod occupancy;
#[cfg(all(test, not(loom)))]
mod oracle;
mod records;
mod slots;
mod sweep;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use comes_up::ComesUp;
use level::Level;
use records::Records;
use slots::{HasSlots, Open, OpenDue, SlotIndex, Slots};

use crate::entry::{CameUp, Linkable, Linked, MaybeLinked};
use crate::time::{Division, Subtick};

/// How many entries a cascade moves in its first ticks. The number doubles with each eighth of the
/// time that is left, so that a slot of any size is empty before it is due. 2,048 entries are about
/// 50 µs of work in a tick.
const CASCADE_QUOTA: usize = 2_048;

/// A cursor that does not exist: ticks have fewer bits.
const UNMEASURED: u64 = u64::MAX;

/// How many more entries this turn may handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    pub(crate) fn new(entries: usize) -> Self {
        Self(entries)
    }

    pub(crate) fn is_spent(self) -> bool {
        self.0 == 0
    }

    /// Takes one off a budget that is not [spent](Self::is_spent).
    #[inline]
    pub(crate) fn spend(&mut self) {
        self.0 -= 1;
    }
}

/// A cascade under way: the entries of one opened block, on their way to the level below.
#[derive(Debug)]
struct Cascade {
    /// Where the list is.
    place: SlotIndex,
    /// When its block begins: by then the list must be empty.
    due: u64,
    /// The last tick in which a part was moved: once a tick is enough.
    stepped: u64,
}

#[derive(Debug)]
pub(crate) struct Wheel {
    slots: Slots,
    levels: Box<[Level]>,
    division: Division,
    comes_up: ComesUp,
    /// The cascade of level l is at l - 1. There is at most one at a time, because a block is due
    /// before the next one is opened.
    cascades: Box<[Cascade]>,
    /// Entries that never come up.
    never_place: SlotIndex,
    /// Entries that arrive after their tick has passed. They are taken after the entries that are
    /// due, and before those that come due next. So neither can keep the other waiting for ever
    /// when there is more than the budget allows.
    late_place: SlotIndex,
    late_is_next: bool,
    /// How many lists of what was set aside are not yet gone through: the last ones.
    unswept: usize,
    /// Whether a sweep sets periodic timeouts to never.
    keeps_series_back: bool,
    /// All ticks before this one have been processed.
    cursor: u64,
    /// All that is due before this has come out. It may lie within the cursor's tick.
    unseen: Subtick,
    /// The latest time that the wheel was told.
    now: Subtick,
    /// The slot of its tick comes up with this subtick, if not before.
    hurried: Subtick,
    /// The cursor for which the levels were measured, or [`UNMEASURED`] if a block was opened
    /// since.
    measured: u64,
    len: usize,
    cascaded: u64,
    /// For the checks of a debug build.
    records: Records,
}

/// A slot, and its level. A slot outside of all levels has the number of levels there.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: SlotIndex,
    level: usize,
    /// The entry's [rank](ComesUp::rank), if the slot comes up with its tick. Otherwise 0.
    rank: u16,
}

/// What is to be done next, and when.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The slot of a tick is due.
    Due(u64),
    /// The block of a level is to be opened.
    Open(usize, u64),
    /// A cascade must be over.
    Finish(usize),
}

/// The largest `levels × log2(ticks_per_wheel)`: a few bits more than a tick has.
pub(crate) const MAX_TICK_BITS: u32 = 55;

impl Wheel {
    /// Returns a wheel, or `None` if there is no memory for its slots. `ticks_per_wheel` is a power
    /// of two, and at least 2 if there is more than one level. The builder has checked both bounds.
    pub(crate) fn new(ticks_per_wheel: usize, levels: usize, division: Division, comes_up: ComesUp) -> Option<Self> {
        debug_assert!(ticks_per_wheel.is_power_of_two() && levels >= 1);
        debug_assert!(levels == 1 || ticks_per_wheel >= 2);
        let bits = ticks_per_wheel.ilog2();
        let ring = if levels == 1 { ticks_per_wheel } else { 2 * ticks_per_wheel };
        let (slots, layout) = Slots::new(levels, ring)?;
        let rings = layout.rings.into_iter().zip((0..).map(|level| bits * level));
        Some(Self {
            slots,
            levels: rings.map(|(ring, shift)| Level::new(shift, ring)).collect(),
            division,
            comes_up,
            cascades: layout.cascades.into_iter().map(|place| Cascade { place, due: 0, stepped: 0 }).collect(),
            never_place: layout.never,
            late_place: layout.late,
            late_is_next: true,
            unswept: 0,
            keeps_series_back: false,
            cursor: 0,
            unseen: Subtick::ZERO,
            now: Subtick::ZERO,
            hurried: Subtick::NEVER,
            measured: UNMEASURED,
            len: 0,
            cascaded: 0,
            records: Records::new(),
        })
    }

    /// Returns how many entries are in the wheel.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns how many entries were moved to a lower level so far.
    pub(crate) fn cascaded(&self) -> u64 {
        self.cascaded
    }

    /// Links an entry that is due at `deadline`, or at once if that has passed.
    #[inline]
    pub(crate) fn insert(&mut self, entry: Linkable, deadline: Subtick) {
        self.len += 1;
        let place = self.place_for(deadline);
        self.check_link(&entry, deadline, place);
        if self.slots.push_back(place.slot, entry, place.rank) {
            self.mark(place);
        }
    }

    /// Like [`insert`](Self::insert), but out of line, for entries that are linked once more. So
    /// the compiler inlines `insert` where most entries are linked.
    #[inline(never)]
    pub(crate) fn insert_again(&mut self, entry: Linkable, deadline: Subtick) {
        self.insert(entry, deadline);
    }

    /// Links an entry that was reset to an earlier deadline, unless it is one of those that are
    /// [kept back](Self::keep_series_back).
    pub(crate) fn insert_after_reset(&mut self, entry: Linkable, deadline: Subtick) {
        let is_kept_back = self.keeps_back(entry.snapshot());
        self.insert_again(entry, if is_kept_back { Subtick::NEVER } else { deadline });
    }

    #[inline]
    fn rank(&self, deadline: Subtick) -> u16 {
        self.comes_up.rank(self.division, deadline)
    }

    /// Returns when the slot of a tick comes up: by the highest rank in it, or in a hurry.
    fn comes_up_at(&self, tick: u64) -> Subtick {
        let highest = self.slots.highest(self.levels[0].place(tick));
        let by_rank = self.comes_up.at(self.division, tick, highest);
        if self.division.tick_of(self.hurried) == tick { by_rank.min(self.hurried) } else { by_rank }
    }

    /// Marks a slot that may have been empty.
    #[inline]
    fn mark(&mut self, place: Place) {
        if let Some(level) = self.levels.get_mut(place.level) {
            level.mark(place.slot, true);
        }
    }

    /// Returns one of the lists that are in no level.
    fn outside(&self, slot: SlotIndex) -> Place {
        Place { slot, level: self.levels.len(), rank: 0 }
    }

    /// Chooses the lowest level that reaches the deadline's tick.
    #[inline]
    fn place_for(&mut self, deadline: Subtick) -> Place {
        if deadline == Subtick::NEVER {
            return self.outside(self.never_place);
        }
        let (cursor, tick) = (self.cursor, self.division.tick_of(deadline));
        if tick < cursor {
            return self.outside(self.late_place);
        }
        // A deadline that has just passed is rounded up to the next subtick.
        if deadline <= self.now.next()
            && let Some(place) = self.place_at_once(tick, deadline)
        {
            return place;
        }
        self.measure();
        // The last level takes the deadlines that no level reaches.
        let reaches = self.levels.iter().position(|level| level.reaches(tick));
        let index = reaches.unwrap_or(self.levels.len() - 1);
        let level = &self.levels[index];
        let block = level.block_of(tick);
        // A tick that the level below does not reach lies in a block that this level has not opened
        // yet: the level below reaches two whole blocks beyond the block of the cursor, and a block
        // is opened at most half a block early.
        debug_assert!(block >= level.first_unopened(cursor));
        let rank = if reaches == Some(0) { self.rank(deadline) } else { 0 };
        Place { slot: level.place(block), level: index, rank }
    }

    /// Tells the wheel the time, before entries are inserted. Returns the latest that it was told.
    pub(crate) fn set_now(&mut self, now: Subtick) -> Subtick {
        self.now = self.now.max(now);
        self.now
    }

    /// Unlinks an entry, unless it has come out of its slot already.
    ///
    /// # Safety
    /// The entry was in this wheel, and has been in no other list since. `entry` was named by a
    /// queue of its shard, and the caller is the shard's worker. No [`Expiry`] or [`Drain`] of this
    /// wheel was forgotten.
    #[inline]
    pub(crate) unsafe fn unlink(&mut self, entry: MaybeLinked) -> Linkable {
        // SAFETY: 1. A queue of this shard named the entry, to the shard's worker, as the caller
        // says. So if it is in a slot, it is in one of this wheel's. 2. That slot is sealed: what
        // leaves a slot open borrows the wheel, and seals the slot when it is dropped. Within the
        // wheel, only what the worker calls from outside comes here.
        let emptied = unsafe { Linked::of_queued(&entry).map(|entry| self.slots.unlink(entry)) };
        if let Some(emptied) = emptied {
            self.len -= 1;
            emptied.into_iter().for_each(|emptied| self.unmark(emptied));
        }
        // SAFETY: it is in no slot any more.
        unsafe { entry.into_linkable() }
    }

    /// Says that a slot is empty, if it is one of a level's.
    fn unmark(&mut self, emptied: SlotIndex) {
        if let Some(level) = self.levels.iter_mut().find(|level| level.holds_place(emptied)) {
            level.mark(emptied, false);
        }
    }

    /// Begins to take out what comes up.
    pub(crate) fn expire(&mut self) -> Expiry<'_> {
        Expiry { due: OpenDue::new(self) }
    }

    /// Makes the late entries due, when nothing else is. Returns false if there are none.
    fn take_late(&mut self) -> bool {
        self.late_is_next = false;
        let is_there = !self.slots.is_empty(self.late_place);
        if is_there {
            self.slots.move_slot(self.late_place, SlotIndex::DUE);
        }
        is_there
    }

    /// Moves a part of each cascade under way, once a tick. Called when nothing is due any more.
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
            self.cascade(index, if left <= 1 { usize::MAX } else { quota }, budget);
        }
        self.reconcile();
    }

    /// Returns when the wheel has to be looked at next: [`Subtick::ZERO`] for at once, `None` for
    /// never.
    pub(crate) fn next_due(&self) -> Option<Subtick> {
        let is_due = |place| !self.slots.is_empty(place);
        if !self.is_swept() || is_due(SlotIndex::DUE) || is_due(self.late_place) {
            return Some(Subtick::ZERO);
        }
        let event = self.next_event().map(|(at, _)| at);
        let is_cascading = self.cascades.iter().any(|cascade| !self.slots.is_empty(cascade.place));
        event.into_iter().chain(is_cascading.then(|| self.division.end(self.cursor))).min()
    }

    /// Returns the earliest deadline that an entry has by its own word, or [`Subtick::NEVER`] if
    /// there is none. Looks at slots in the order of their ticks, until none can hold an earlier
    /// deadline than the one found.
    pub(crate) fn earliest(&self) -> Subtick {
        let due = [SlotIndex::DUE, self.late_place].map(|place| self.slots.earliest_in(place));
        let swept = self.slots.lists() - self.unswept..self.slots.lists();
        let at_once = due.into_iter().chain(swept.map(|index| self.slots.earliest_in(self.slots.aside(index))));
        let cascading = self.cascades.iter().map(|cascade| self.slots.earliest_in(cascade.place));
        let found = at_once.chain(cascading).min().unwrap_or(Subtick::NEVER);
        self.levels.iter().fold(found, |mut found, level| {
            for (begins, place) in level.occupied(self.cursor) {
                if self.division.begin(begins) >= found {
                    break;
                }
                found = found.min(self.slots.earliest_in(place));
            }
            found
        })
    }

    /// Takes all entries out, one after the other.
    pub(crate) fn drain(&mut self) -> Drain<'_> {
        Drain { from: Open::front(self, SlotIndex::DUE) }
    }

    /// Returns a slot that has entries.
    fn next_occupied(&mut self) -> Option<SlotIndex> {
        let is_occupied = |place: &SlotIndex| !self.slots.is_empty(*place);
        while !self.is_swept() {
            let place = self.next_swept();
            if is_occupied(&place) {
                return Some(place);
            }
            self.unswept -= 1;
        }
        let in_a_level = |level: &Level| level.next_occupied(self.cursor).map(|block| level.place(block));
        let cascades = self.cascades.iter().map(|cascade| cascade.place);
        let mut outside = [self.never_place].into_iter().chain(cascades).chain([self.late_place]);
        self.levels.iter().find_map(in_a_level).or_else(|| outside.find(is_occupied))
    }

    fn next_event(&self) -> Option<(Subtick, Event)> {
        // What is due before `unseen` is late, and in no slot, as a rule. A reset may have put it
        // there: then what is to be done before that tick still goes first.
        let at = |tick| self.comes_up_at(tick).max(self.unseen);
        let due = self.levels[0].next_occupied(self.cursor).map(|tick| (at(tick), Event::Due(tick)));
        let opens = self.levels.iter().enumerate().skip(1).filter_map(|(index, level)| {
            let block = level.next_occupied(self.cursor)?;
            // Before anything of that tick is due. A part of it may have come before the block was
            // occupied.
            let at = self.division.begin(level.opens(block)).max(self.unseen);
            Some((at, Event::Open(index, block)))
        });
        let finishes = self.cascades.iter().enumerate().filter_map(|(index, cascade)| {
            let at = self.division.begin(cascade.due);
            (!self.slots.is_empty(cascade.place)).then_some((at, Event::Finish(index)))
        });
        // If two are due at the same time, a cascade goes first: its entries may be due at that
        // very time.
        finishes.chain(opens).chain(due).min_by_key(|(at, _)| *at)
    }

    /// Handles an event that is due, where `last_tick` has come and none after it.
    fn handle(&mut self, event: Event, last_tick: u64, budget: &mut Budget) {
        match event {
            Event::Due(tick) => {
                let place = self.levels[0].place(tick);
                self.check_slot(0, place);
                self.levels[0].mark(place, false);
                self.slots.move_slot(place, SlotIndex::DUE);
                self.hurried = Subtick::NEVER;
                // Unless a part of it is yet to come.
                self.cursor = self.cursor.max(tick.min(last_tick) + 1);
            }
            Event::Open(index, block) => {
                let place = self.levels[index].place(block);
                self.check_slot(index, place);
                let level = &mut self.levels[index];
                level.mark(place, false);
                let cascade = &mut self.cascades[index - 1];
                cascade.due = level.begins(block);
                cascade.stepped = 0;
                level.open(block);
                self.measured = UNMEASURED;
                self.cursor = self.cursor.max(level.opens(block));
                self.slots.move_slot(place, cascade.place);
            }
            Event::Finish(index) => {
                self.cascade(index, usize::MAX, budget);
            }
        }
    }

    /// Moves up to `quota` entries of a cascade to the slots where they belong now.
    fn cascade(&mut self, index: usize, quota: usize, budget: &mut Budget) {
        let Cascade { place, due, .. } = self.cascades[index];
        let mut from = Open::back(self, place);
        for _ in 0..quota {
            if budget.is_spent() {
                break;
            }
            let Some(entry) = from.pop() else { break };
            budget.spend();
            let wheel = from.holder();
            wheel.check_cascaded(&entry, index + 1, due);
            let deadline = entry.deadline();
            let place = wheel.place_below(index + 1, deadline);
            wheel.check_link(&entry, deadline, place);
            wheel.slots.push_front(place.slot, entry, place.rank);
            wheel.mark(place);
            wheel.cascaded += 1;
        }
    }

    /// Chooses where an entry of a level's cascade goes: in front of the entries of its tick that
    /// were inserted next after it. They are in the level below, or on their way out of it.
    fn place_below(&mut self, level: usize, deadline: Subtick) -> Place {
        self.measure();
        let tick = self.division.tick_of(deadline);
        for index in (0..level).rev() {
            let below = &self.levels[index];
            let block = below.block_of(tick);
            if block >= below.first_unopened(self.cursor) {
                if !below.reaches(tick) {
                    break;
                }
                let rank = if index == 0 { self.rank(deadline) } else { 0 };
                return Place { slot: below.place(block), level: index, rank };
            }
            let begins = below.begins(block);
            let Some(cascade) = index.checked_sub(1).map(|index| &self.cascades[index]) else { break };
            if cascade.due == begins && !self.slots.is_empty(cascade.place) {
                return self.outside(cascade.place);
            }
        }
        // It was reset, or waits for its round.
        self.place_for(deadline)
    }

    /// Measures how far the levels reach: about once a turn, and not for each entry.
    #[inline]
    fn measure(&mut self) {
        let cursor = self.cursor;
        if self.measured != cursor {
            self.levels.iter_mut().for_each(|level| level.measure(cursor));
            self.measured = cursor;
        }
    }
}

impl HasSlots for Wheel {
    #[inline(always)]
    fn slots(&self) -> &Slots {
        &self.slots
    }
}

/// What comes up in a turn. No entry can be unlinked while this value exists: it borrows the wheel,
/// and seals the slot that it leaves open when it is dropped.
pub(crate) struct Expiry<'a> {
    due: OpenDue<'a, Wheel>,
}

impl Expiry<'_> {
    #[inline(always)]
    fn wheel(&mut self) -> &mut Wheel {
        self.due.holder()
    }

    /// Pops the first entry of what is due.
    #[inline(always)]
    fn pop_first(&mut self) -> Option<CameUp> {
        let entry = self.due.pop()?;
        self.wheel().len -= 1;
        Some(CameUp::of(entry))
    }

    /// Unlinks and returns the next entry whose slot has come up by `now`. Returns `None` if there
    /// is none, or if the budget is spent. The caller checks by the entry's own word whether it is
    /// due, and inserts it again if not.
    // Always inlined, like `Slots::pop_front`: this runs for each timeout that expires.
    #[inline(always)]
    pub(crate) fn pop(&mut self, now: Subtick, budget: &mut Budget) -> Option<CameUp> {
        // Nearly always there is another entry in the slot that is due.
        if !budget.is_spent()
            && self.wheel().is_swept()
            && let Some(entry) = self.pop_first()
        {
            budget.spend();
            return Some(entry);
        }
        self.pop_next(now, budget)
    }

    /// The rest of [`pop`](Self::pop): goes through what was set aside first, and finds what comes
    /// next.
    #[inline(never)]
    fn pop_next(&mut self, now: Subtick, budget: &mut Budget) -> Option<CameUp> {
        loop {
            if !self.wheel().is_swept() {
                self.wheel().sweep(now, budget);
            }
            if budget.is_spent() {
                return None;
            }
            if let Some(entry) = self.pop_first() {
                budget.spend();
                return Some(entry);
            }
            let wheel = self.wheel();
            if (wheel.late_is_next || now < wheel.unseen) && wheel.take_late() {
                continue;
            }
            if now < wheel.unseen {
                wheel.late_is_next = true;
                return None;
            }
            let last = wheel.levels.last().expect("a wheel has a level");
            let last_tick = wheel.division.last_tick(now);
            // By the tick of which a part has come. What is due in that part may be in a slot that
            // comes up a whole revolution early, before the ticks in between.
            if last.is_outrun(wheel.cursor, wheel.division.tick_of(now)) {
                wheel.set_all_aside(last_tick);
                continue;
            }
            match wheel.next_event() {
                Some((at, event)) if at <= now => {
                    wheel.handle(event, last_tick, budget);
                    wheel.late_is_next = true;
                }
                _ if wheel.take_late() => {}
                _ => {
                    wheel.late_is_next = true;
                    wheel.cursor = wheel.cursor.max(last_tick + 1);
                    wheel.unseen = now.next();
                    return None;
                }
            }
        }
    }

    /// Links an entry again: see [`Wheel::insert_again`].
    pub(crate) fn insert_again(&mut self, entry: Linkable, deadline: Subtick) {
        self.wheel().insert_again(entry, deadline);
    }

    /// Links an entry so that it comes up again in the tick after the one of `now`.
    pub(crate) fn insert_for_next_tick(&mut self, entry: Linkable, now: Subtick) {
        let next_tick = self.wheel().division.next_tick(now);
        self.insert_again(entry, next_tick);
    }
}

/// Takes all entries out of a wheel. What is left when it is dropped stays in the wheel.
pub(crate) struct Drain<'a> {
    from: Open<'a, Wheel>,
}

impl Iterator for Drain<'_> {
    type Item = Linkable;

    #[inline]
    fn next(&mut self) -> Option<Linkable> {
        loop {
            if let Some(entry) = self.from.pop() {
                self.from.holder().len -= 1;
                return Some(entry);
            }
            self.from.go_on(|wheel, emptied| {
                wheel.unmark(emptied);
                let next = wheel.next_occupied();
                debug_assert!(next.is_some() || wheel.len == 0, "an occupied slot is marked");
                next
            })?;
        }
    }
}
