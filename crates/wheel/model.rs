//! A wheel beside an oracle, on which any program runs. The tests of this crate and a fuzz target
//! use it. Its parent module has the names of the crate in scope.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use super::{Items, NEVER, OutOfMemory, Place, Take, Wheel};

/// The idea of a wheel: things with deadlines, of which those are due whose deadline has come.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) pending: BTreeMap<u32, Pending>,
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) deadline: u64,
    pub(super) place: Option<Place>,
    /// It came before its time, and was not reset. So it comes out in order.
    is_in_order: bool,
}

impl Items for Store {
    type Item = u32;

    fn deadline(&self, item: u32) -> u64 {
        self.pending[&item].deadline
    }

    fn placed(&mut self, item: u32, place: Place) {
        self.pending.get_mut(&item).expect("it is in the wheel").place = Some(place);
    }

    fn prefetch(&self, item: u32) {
        assert!(self.pending.contains_key(&item), "{item} is prefetched, and is not in the wheel");
    }
}

pub(super) struct Bench {
    pub(super) wheel: Wheel<u32>,
    pub(super) store: Store,
    next: u32,
    pub(super) now: u64,
    /// Whether memory was ever missing. Then the order is not promised.
    pub(super) was_short: bool,
    /// Whether a turn has left over items that are due. Late ones may come out behind them.
    has_left_over: bool,
    /// The deadline and the number of the last item that came out in order.
    last: (u64, u32),
}

impl Bench {
    pub(super) fn new(slots: usize, levels: usize) -> Self {
        let wheel = Wheel::new(slots, levels).expect("memory");
        let (store, last) = (Store::default(), (0, 0));
        Self { wheel, store, next: 0, now: 0, was_short: false, has_left_over: false, last }
    }

    pub(super) fn insert(&mut self, deadline: u64) -> Option<u32> {
        let id = self.next;
        self.next += 1;
        let is_in_order = deadline > self.now;
        self.store.pending.insert(id, Pending { deadline, place: None, is_in_order });
        match self.wheel.insert(&mut self.store, id) {
            Ok(()) => Some(id),
            Err(OutOfMemory) => {
                self.store.pending.remove(&id);
                self.was_short = true;
                None
            }
        }
    }

    pub(super) fn place(&self, id: u32) -> Place {
        self.store.pending[&id].place.expect("it is in the wheel")
    }

    pub(super) fn remove(&mut self, id: u32) {
        assert!(self.wheel.remove(self.place(id), id));
        assert!(!self.wheel.remove(self.place(id), id), "it is not there any more");
        self.store.pending.remove(&id);
    }

    pub(super) fn reset(&mut self, id: u32, deadline: u64) {
        let pending = self.store.pending.get_mut(&id).expect("pending");
        let is_earlier = deadline < pending.deadline;
        (pending.deadline, pending.is_in_order) = (deadline, false);
        if is_earlier {
            let place = self.place(id);
            assert!(self.wheel.reinsert(&mut self.store, place, id));
        }
    }

    /// Does one turn. Returns what was taken, with its deadline.
    pub(super) fn turn(&mut self, mut budget: usize, stop_after: usize) -> Vec<(u32, u64, bool)> {
        let (now, mut taken) = (self.now, Vec::new());
        self.wheel.expire(&mut self.store, now, &mut budget, |store, id| {
            if taken.len() == stop_after {
                return Take::Stop;
            }
            let Pending { deadline, is_in_order, .. } = store.pending.remove(&id).expect("taken once");
            assert!(deadline <= now, "{id} is early");
            taken.push((id, deadline, is_in_order));
            Take::Taken
        });
        self.wheel.cascade(&mut self.store, &mut 100);
        for (id, deadline, _) in taken.iter().filter(|(.., is_in_order)| *is_in_order) {
            let before = std::mem::replace(&mut self.last, (*deadline, *id));
            assert!(self.was_short || before <= self.last, "{:?} comes out behind {before:?}", self.last);
        }
        self.has_left_over = self.wheel.next_wakeup(&self.store).is_some_and(|at| at <= now);
        taken
    }

    /// Turns until nothing is left over, and compares with the oracle.
    pub(super) fn advance_to(&mut self, now: u64, budget: usize) {
        self.now = now;
        let due: Vec<_> = self.store.pending.iter().filter(|(_, pending)| pending.deadline <= now).collect();
        let due: Vec<_> = due.into_iter().map(|(id, _)| *id).collect();
        let (mut taken, had_left_over) = (Vec::new(), self.has_left_over);
        // A budget may be used up by items that are not due, but not for ever.
        for turn in 0.. {
            taken.extend(self.turn(budget, usize::MAX));
            if !self.has_left_over {
                break;
            }
            assert!(turn < 1_000_000, "turns without an end");
        }
        let mut ids: Vec<_> = taken.iter().map(|(id, ..)| *id).collect();
        // With a small budget, what was late comes with what is due next.
        let by_deadline = taken.is_sorted_by_key(|(_, deadline, _)| *deadline);
        assert!(by_deadline || self.was_short || had_left_over || budget < 100_000, "by deadline: {taken:?}");
        ids.sort_unstable();
        assert_eq!(ids, due, "what is due at {now}, no more and no less");
        assert_eq!(self.wheel.len(), self.store.pending.len());
        let earliest = self.store.pending.values().map(|pending| pending.deadline).min();
        assert_eq!(self.wheel.earliest(&self.store), earliest.filter(|at| *at < NEVER));
        let wakeup = self.wheel.next_wakeup(&self.store).unwrap_or(NEVER);
        assert!(wakeup <= earliest.unwrap_or(NEVER), "it would be turned too late");
    }

    /// Does one step of a program.
    pub(super) fn play(&mut self, op: Op) {
        match op {
            Op::Insert(delays) => delays.into_iter().for_each(|delay| _ = self.insert(self.now + delay)),
            Op::Never => _ = self.insert(NEVER),
            Op::Remove(which) => which
                .into_iter()
                .filter_map(|any| self.pick(any))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .for_each(|id| self.remove(id)),
            Op::Reset(any, delay) => {
                if let Some(id) = self.pick(any) {
                    self.reset(id, self.now + delay);
                }
            }
            Op::Advance(step, budget) => self.advance_to(self.now + step, budget),
            Op::Turn(step, budget, stop_after) => {
                self.now += step;
                let _ = self.turn(budget, stop_after);
            }
            Op::Rescan => self.wheel.rescan(),
            Op::Shrink => self.wheel.shrink_to(&mut self.store, 0),
        }
    }

    fn pick(&self, any: u32) -> Option<u32> {
        let len = self.store.pending.len().max(1);
        self.store.pending.keys().nth(any as usize % len).copied()
    }
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Insert(Vec<u64>),
    Never,
    Remove(Vec<u32>),
    Reset(u32, u64),
    Advance(u64, usize),
    /// One turn, of which something may be left over.
    Turn(u64, usize, usize),
    Rescan,
    Shrink,
}
