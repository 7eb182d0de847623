//! Compares the wheel with the oracle: any operations, any sizes, months of time. Also checks
//! costs, which an oracle can't see.

mod cascades;
#[cfg(debug_assertions)]
mod checks;
mod finer;
mod order;

use std::collections::BTreeMap;
use std::ptr::NonNull;

use proptest::prelude::*;

use super::oracle::Oracle;
use super::*;
use crate::entry::{ArmFlags, Entry, Handle, Home, Reset, Still, Task, Tell, Token, raw};

/// An entry of the test's own. It is held by its address alone, as in the arena, because a `Box`
/// that is moved says that no other pointer points there.
struct Held(NonNull<Entry>);

impl Held {
    fn new() -> Self {
        Self(NonNull::from(Box::leak(Box::new(Entry::new_free()))))
    }

    fn entry(&self) -> &Entry {
        // SAFETY: it lives until it is dropped, and is only ever shared.
        unsafe { self.0.as_ref() }
    }

    fn reset(&self, deadline: Subtick, tell: Tell) -> Reset {
        // SAFETY: it is armed with a handle, which does not let it go here.
        unsafe { Handle::new(self.0) }.reset(deadline, tell)
    }

    /// Returns what a queue of the shard would name.
    fn queued(&self) -> MaybeLinked {
        // SAFETY: as below.
        unsafe { MaybeLinked::new(self.0) }
    }

    /// Returns what the wheel would own in an engine.
    fn linkable(&self) -> Linkable {
        // SAFETY: the test is the engine. It gives the entry to the wheel while that does not have
        // it, and names it to the wheel while that does. It is held until it is out of the wheel.
        unsafe { Linkable::from_raw(self.0) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: from a box, and given up here once, out of the wheel.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A wheel with its entries, used as the shard uses it.
struct Bench {
    wheel: Wheel,
    oracle: Oracle,
    entries: BTreeMap<usize, Held>,
    division: Division,
    /// The ticks of those that came before their time and were not reset: they come out in order.
    in_order: BTreeMap<usize, u64>,
    next_id: usize,
    now: u64,
    wants_rescan: bool,
    /// How many entries came out of the wheel, to see the work and not only the answers.
    popped: u64,
}

impl Bench {
    fn new(ticks_per_wheel: usize, levels: usize) -> Self {
        Self::divided(ticks_per_wheel, levels, 0, ComesUp::WithLast)
    }

    /// With 2^`bits` subticks in a tick.
    fn divided(ticks_per_wheel: usize, levels: usize, bits: u32, comes_up: ComesUp) -> Self {
        let division = Division::new(bits);
        let wheel = Wheel::new(ticks_per_wheel, levels, division, comes_up).expect("memory");
        Self {
            wheel,
            division,
            oracle: Oracle::default(),
            entries: BTreeMap::new(),
            in_order: BTreeMap::new(),
            next_id: 0,
            now: 0,
            wants_rescan: false,
            popped: 0,
        }
    }

    fn schedule(&mut self, deadline: u64) -> usize {
        let (id, deadline) = (self.next_id, Subtick::new(deadline));
        self.next_id += 1;
        let held = Held::new();
        let id_as_address = NonNull::new(std::ptr::without_provenance_mut(id + 1)).expect("not null");
        // SAFETY: nobody looks for a remote there.
        raw::fill(held.entry(), Some(unsafe { Home::new(id_as_address) }), Task::new(|| ()));
        held.entry().state.arm(deadline, ArmFlags::HANDLE);
        self.wheel.insert(held.linkable(), deadline);
        self.entries.insert(id, held);
        self.oracle.insert(id, deadline.get());
        if deadline.get() > self.now {
            self.in_order.insert(id, self.division.tick_of(deadline));
        }
        id
    }

    fn reset(&mut self, id: usize, deadline: u64) {
        let deadline = Subtick::new(deadline);
        let held = &self.entries[&id];
        match held.reset(deadline, Tell::ByQueue) {
            Reset::Later => {}
            Reset::Earlier => {
                // The worker does this with the reset queue.
                // SAFETY: pending entries are in the wheel.
                let entry = unsafe { self.wheel.unlink(held.queued()) };
                self.wheel.insert(entry, deadline);
            }
            other => panic!("{other:?}"),
        }
        self.oracle.reset(id, deadline.get());
        self.in_order.remove(&id);
    }

    fn reset_unsaid(&mut self, id: usize, deadline: u64) {
        assert_eq!(self.entries[&id].reset(Subtick::new(deadline), Tell::ByRescan), Reset::Earlier);
        self.oracle.reset(id, deadline);
        self.in_order.remove(&id);
        self.wants_rescan = true;
    }

    fn cancel(&mut self, id: usize) {
        let held = self.entries.remove(&id).expect("it is pending");
        // SAFETY: pending entries are in the wheel.
        let _ = unsafe { self.wheel.unlink(held.queued()) };
        self.oracle.cancel(id);
    }

    /// Does one turn with a budget. Returns the ids that fired.
    fn turn(&mut self, budget: usize) -> Vec<usize> {
        let (now, mut fired) = (self.wheel.set_now(Subtick::new(self.now)), Vec::new());
        let mut budget = Budget::new(budget);
        if self.wheel.is_swept() && std::mem::take(&mut self.wants_rescan) {
            self.wheel.rescan(now);
        }
        let mut expiry = self.wheel.expire();
        while let Some(entry) = expiry.pop(now, &mut budget) {
            self.popped += 1;
            let Ok(once) = entry.look() else { panic!("they run once") };
            match once.batch(now) {
                Ok(entry) => {
                    let id = entry.into_owned().home().expect("it was filled").address().addr().get() - 1;
                    assert!(self.oracle.deadline(id).is_some_and(|deadline| deadline <= self.now), "early");
                    fired.push(id);
                }
                Err(Still::NotBefore(entry, deadline)) => expiry.insert_again(entry, deadline),
                Err(_) => panic!("it was cancelled, or reset by a node"),
            }
        }
        drop(expiry);
        let mut cascades = Budget::new(100_000);
        self.wheel.step_cascades(&mut cascades);
        fired.iter().for_each(|id| drop(self.entries.remove(id)));
        fired
    }

    /// Turns until nothing is left over, as a worker does, and compares with the oracle.
    fn advance_to(&mut self, now: u64, budget: usize) {
        self.now = now;
        let mut fired = Vec::new();
        loop {
            fired.extend(self.turn(budget));
            match self.wheel.next_due() {
                Some(at) if at.get() <= self.now => {}
                _ if self.wants_rescan => {}
                _ => break,
            }
        }
        let order: Vec<_> = fired.iter().filter_map(|id| Some((self.in_order.remove(id)?, id))).collect();
        assert!(order.is_sorted(), "by tick, and those of one tick as they were inserted: {order:?}");
        for (id, deadline) in self.oracle.due(now) {
            if fired.contains(&id) {
                self.oracle.cancel(id);
            } else {
                assert!(self.comes_out_by(deadline) > now, "{id} is late");
            }
        }
        assert_eq!(self.wheel.len(), self.oracle.len());
        // `earliest` looks at each entry of a slot, so this compares it only while there are few.
        if self.oracle.len() < 1_000 {
            let earliest = self.oracle.next_deadline().unwrap_or(Subtick::NEVER.get());
            assert_eq!(self.wheel.earliest().get(), earliest);
        }
        // The wheel may want to be looked at earlier than the next deadline, for a cascade or a
        // reset, but not later.
        let finite = |deadline: &u64| *deadline != Subtick::NEVER.get();
        if let Some(next) = self.oracle.next_deadline().filter(finite) {
            let end = self.comes_out_by(next);
            assert!(self.wheel.next_due().is_some_and(|due| due.get() <= end), "would sleep past {next}");
        }
    }

    /// Returns when an entry has come out at the latest.
    fn comes_out_by(&self, deadline: u64) -> u64 {
        match self.wheel.comes_up {
            ComesUp::WithFirst => deadline,
            // It may wait for others of its tick, until that tick has come.
            ComesUp::WithLast => self.division.end_of_tick(Subtick::new(deadline)).get(),
        }
    }

    fn finish(mut self) {
        let left = self.oracle.len();
        assert_eq!(self.wheel.drain().count(), left, "all that is left can be taken out");
        assert_eq!(self.wheel.len(), 0);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Schedule(u64),
    Reset(usize, u64),
    /// Resets to an earlier deadline, if it is one, without naming the entry to the wheel.
    ResetUnsaid(usize, u64),
    Cancel(usize),
    /// By this many subticks.
    Advance(u64),
    /// To the next time that the wheel asks for.
    Sleep,
}

/// Delays and jumps of all magnitudes, up to some months of milliseconds.
fn ticks() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..10,
        0_u64..2_000,
        0_u64..1_000_000,
        0_u64..10_000_000_000,
        (0_u32..34).prop_map(|bit| 1 << bit),
        (0_u32..34).prop_map(|bit| (1 << bit) - 1),
        Just(u64::MAX),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let jump = ticks().prop_map(|ticks| if ticks == u64::MAX { 1 } else { ticks });
    prop_oneof![
        4 => ticks().prop_map(Op::Schedule),
        2 => (any::<usize>(), ticks()).prop_map(|(id, ticks)| Op::Reset(id, ticks)),
        1 => (any::<usize>(), ticks()).prop_map(|(id, ticks)| Op::ResetUnsaid(id, ticks)),
        1 => any::<usize>().prop_map(Op::Cancel),
        2 => jump.prop_map(Op::Advance),
        2 => Just(Op::Sleep),
    ]
}

fn run(mut bench: Bench, ops: Vec<Op>, budget: usize) {
    let pick = |bench: &Bench, n: usize| {
        let ids = bench.oracle.ids();
        (!ids.is_empty()).then(|| ids[n % ids.len()])
    };
    for op in ops {
        let after = |bench: &Bench, ticks: u64| bench.now.saturating_add(ticks);
        match op {
            Op::Schedule(delay) => {
                let deadline = after(&bench, delay);
                bench.schedule(deadline);
            }
            Op::ResetUnsaid(n, delay) => {
                let deadline = after(&bench, delay);
                let is_earlier = |id: &usize| bench.oracle.deadline(*id).is_some_and(|before| deadline < before);
                if let Some(id) = pick(&bench, n).filter(is_earlier) {
                    bench.reset_unsaid(id, deadline);
                }
            }
            Op::Reset(n, delay) => {
                if let Some(id) = pick(&bench, n) {
                    let deadline = after(&bench, delay);
                    bench.reset(id, deadline);
                }
            }
            Op::Cancel(n) => {
                if let Some(id) = pick(&bench, n) {
                    bench.cancel(id);
                }
            }
            Op::Advance(by) => {
                let now = after(&bench, by);
                bench.advance_to(now, budget);
            }
            Op::Sleep => {
                if let Some(at) = bench.wheel.next_due() {
                    let now = at.get().max(bench.now);
                    bench.advance_to(now, budget);
                }
            }
        }
    }
    bench.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_wheel_of_any_size_does_what_the_oracle_does(
        (bits, levels) in (1_u32..10, prop_oneof![Just(1_usize), Just(2), Just(4), Just(6)]),
        division in prop_oneof![Just(0), 1_u32..=10],
        comes_up in prop_oneof![Just(ComesUp::WithFirst), Just(ComesUp::WithLast)],
        ops in prop::collection::vec(op(), 1..200),
        budget in prop_oneof![1_usize..10, Just(100_000)],
    ) {
        run(Bench::divided(1 << bits, levels, division, comes_up), ops, budget);
    }
}

/// The same on small wheels, with numbers that Miri can make: xorshift64.
#[test]
fn small_wheels_do_what_the_oracle_does() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let mut op = || {
        let ticks = match below(12) {
            11 => u64::MAX,
            bits => below(2 << bits),
        };
        let which = usize::try_from(below(1_000)).expect("small");
        match below(11) {
            0..4 => Op::Schedule(ticks),
            4 | 5 => Op::Reset(which, ticks),
            6 => Op::Cancel(which),
            7 | 8 => Op::Advance(ticks.min(700)),
            _ => Op::Sleep,
        }
    };
    for (ticks_per_wheel, levels, division) in
        [(1, 1, 0), (4, 1, 0), (4, 1, 2), (2, 2, 0), (2, 2, 3), (2, 5, 0), (4, 3, 1), (8, 2, 0), (8, 2, 4)]
    {
        for (budget, comes_up) in
            [(1, ComesUp::WithLast), (1, ComesUp::WithFirst), (3, ComesUp::WithLast), (100, ComesUp::WithFirst)]
        {
            let len = if cfg!(miri) { 60 } else { 2_000 };
            let bench = Bench::divided(ticks_per_wheel, levels, division, comes_up);
            run(bench, (0..len).map(|_| op()).collect(), budget);
        }
    }
}

#[test]
fn a_wheel_of_one_slot_works() {
    let ops = vec![Op::Schedule(3), Op::Schedule(0), Op::Sleep, Op::Advance(2), Op::Advance(1)];
    run(Bench::new(1, 1), ops, 10);
}

/// akka-core#1016: a delay that is an exact multiple of the wheel's period.
#[test]
fn multiples_of_every_period_fire_exactly_then() {
    for levels in [1, 2, 4] {
        for delay in [8_u64, 16, 64, 128, 512, 1024, 4096, 65_536] {
            for offset in if cfg!(miri) { &[0_u64, 7][..] } else { &[0, 1, 7, 8, 9] } {
                let (offset, mut bench) = (*offset, Bench::new(8, levels));
                bench.advance_to(offset, 100);
                bench.schedule(offset + delay);
                bench.advance_to(offset + delay - 1, 100);
                assert_eq!(bench.oracle.len(), 1);
                bench.advance_to(offset + delay, 100);
                assert_eq!(bench.oracle.len(), 0);
            }
        }
    }
}

/// An oracle can't see right answers at the wrong cost.
#[test]
fn a_jump_of_the_clock_costs_slots_and_not_ticks() {
    let many = if cfg!(miri) { 50 } else { 1_000 };
    for levels in [1, 2, 4] {
        let mut bench = Bench::new(64, levels);
        for deadline in 1..many {
            bench.schedule(deadline * 1_000);
        }
        bench.schedule(u64::MAX);
        let begun = std::time::Instant::now();
        bench.advance_to(1 << 50, 100_000);
        assert!(begun.elapsed().as_secs() < 10, "went through the ticks one by one");
        assert!(bench.popped <= 2 * many, "looked {} times at {} entries", bench.popped, many - 1);
        bench.finish();
    }
}

#[test]
fn a_budget_of_one_is_enough_for_everything() {
    let mut bench = Bench::new(4, 3);
    for deadline in [0, 1, 5, 5, 17, 300, 301, 5_000] {
        bench.schedule(deadline);
    }
    bench.advance_to(10_000, 1);
    assert_eq!(bench.oracle.len(), 0);
}

#[test]
fn an_empty_wheel_wants_nothing_and_never_is_never() {
    let mut bench = Bench::new(512, 4);
    assert_eq!(bench.wheel.next_due(), None);
    let id = bench.schedule(u64::MAX);
    assert_eq!(bench.wheel.next_due(), None);
    bench.advance_to(1 << 52, 10);
    bench.cancel(id);
    let id = bench.schedule(bench.now + 3);
    bench.cancel(id);
    assert_eq!(bench.wheel.next_due(), None, "a slot that a cancel has emptied wakes nobody");
}

#[test]
fn a_wheel_drained_during_a_sweep_gives_out_all_its_entries() {
    for levels in [1, 2, 3] {
        let mut bench = Bench::new(8, levels);
        for deadline in 1..100 {
            bench.schedule(deadline * 7);
        }
        bench.now = 1 << 40;
        assert_eq!(bench.turn(10).len(), 0, "in the midst of the sweep");
        bench.schedule(bench.now + 5);
        bench.finish();
    }
}

#[test]
fn entries_left_when_the_budget_is_spent_can_be_cancelled() {
    // The entries that are due in one tick, and those that are swept: two long lists, each broken
    // off at every point.
    for (now, spread) in [(7, 0), (1 << 40, 60)] {
        for budget in 1..20 {
            let mut bench = Bench::new(8, 2);
            let ids: Vec<_> = (0..60).map(|n| bench.schedule(7 + n * spread)).collect();
            bench.now = now;
            let fired = bench.turn(budget);
            assert_eq!(fired.len(), if now == 7 { budget } else { 0 }, "a sweep comes first");
            fired.iter().for_each(|id| bench.oracle.cancel(*id));
            ids.into_iter().filter(|id| !fired.contains(id)).for_each(|id| bench.cancel(id));
            assert_eq!((bench.wheel.len(), bench.turn(1).len()), (0, 0));
        }
    }
}

/// An overloaded wheel: in each turn more late entries arrive than the budget allows.
#[test]
fn due_and_late_entries_do_not_keep_each_other_waiting() {
    let mut bench = Bench::new(8, 2);
    let waiting: Vec<_> = (1..=4).map(|tick| bench.schedule(tick)).collect();
    bench.now = 4;
    let mut fired = bench.turn(1);
    let mut late = Vec::new();
    for _ in 0..40 {
        late.extend((0..3).map(|_| bench.schedule(0)));
        fired.extend(bench.turn(2));
    }
    assert!(waiting.iter().all(|id| fired.contains(id)), "those that were due first: {waiting:?} of {fired:?}");
    assert!(late[..12].iter().all(|id| fired.contains(id)), "and those that were brought first");
}

/// The same while the clock goes on: another entry has always come due before the late one is
/// looked at.
#[test]
fn an_endless_stream_of_due_entries_does_not_keep_late_ones_waiting() {
    let mut bench = Bench::new(8, 2);
    for tick in 1..=100 {
        (0..3).for_each(|_| _ = bench.schedule(tick));
    }
    let tick_on = |bench: &mut Bench| {
        bench.now += 1;
        bench.turn(2)
    };
    (0..20).for_each(|_| _ = tick_on(&mut bench));
    let late = bench.schedule(0);
    let turns = (1..).find(|_| tick_on(&mut bench).contains(&late));
    assert!(turns.is_some_and(|turns| turns <= 4), "it fired in turn {turns:?}, with two in each");
}
