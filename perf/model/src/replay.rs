//! Replays a recording on modelled cores.
//!
//! A core goes through its operations again and again. Between two accesses it takes time by the
//! instructions between them. An access to a line that its cache has in the right state takes none.
//! Otherwise the line has to come, which takes a transfer; requests for one line are served one
//! after the other. Who has the line keeps it for the first half of a transfer, until the request
//! has come. What else the model says:
//!
//! * A plain store does not hold its core up. A read-modify-write waits for all stores before it.
//! * A compare-and-exchange of a word that the operation has read fails if another core has
//!   written that word since. The core goes back to behind the read: the exchange has told it what
//!   is there.
//! * A mutex that is held is waited for without touching its line, first come, first served. When
//!   it is unlocked, the first asks for the line. Whoever has the line at that moment may be
//!   quicker, and lock it once more. Nobody sleeps in the kernel, however long it takes.
//! * Caches lose nothing for want of room, and a core does one thing after the other: what it could
//!   do while it waits for a line, it does not do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use anyhow::{Context, Result, ensure};

use super::lines::{Line, MOST_CORES, Request, Time};
use super::recording::{Access, Manner, Op, Recording};

/// Of the operations at the beginning so many are not counted: one of five.
const UNCOUNTED: u64 = 5;

/// What the modelled machine is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Of one instruction, of those between two accesses.
    pub(crate) instruction_ns: f64,
    /// Of a line, from one core to another.
    pub(crate) transfer_ns: f64,
    /// Whether a read of a line that its owner has written takes it from the owner.
    pub(crate) migrates: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// Of an operation, as its core sees it.
    pub(crate) ns: f64,
    /// Of an operation, on average.
    pub(crate) transfers: f64,
    pub(crate) failed_exchanges: f64,
    /// How often an operation finds a mutex held.
    pub(crate) waits: f64,
}

/// Replays it: each lane on a core of its own.
pub(crate) fn replay(recording: &Recording, machine: Machine) -> Result<Outcome> {
    let lanes = &recording.lanes;
    ensure!((1..=MOST_CORES).contains(&lanes.len()), "{} cores can't be modelled", lanes.len());
    ensure!(lanes.iter().all(|ops| !ops.is_empty()), "a core has nothing to do");
    ensure!(lanes.iter().flatten().all(|op| op.instructions > 0), "an operation has no instructions");
    Replay::new(recording, machine).run()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The core comes to its next access, or to its operation's end.
    Step(usize),
    /// A request has come to those who have the line.
    GiveUp(usize),
    /// The line has come to the one that asked for it.
    Arrive(usize),
}

#[derive(Clone, Debug, Default)]
struct Core {
    op: usize,
    access: usize,
    /// Lines that its store buffer waits for.
    stores: Vec<usize>,
    /// Whether it waits for all of them.
    drains: bool,
    /// Words that this operation has read, in which state they were, and by which access.
    seen: Vec<(usize, u64, usize)>,
    /// Whether it was the first of those that waited for a mutex.
    is_next: bool,
}

#[derive(Clone, Debug, Default)]
struct Mutex {
    held: bool,
    waiting: VecDeque<usize>,
}

/// What became of an access.
enum Step {
    Done,
    /// The core stands still until an event lets it try once more.
    Stands,
    /// The exchange failed: the core goes on behind this access.
    Back(usize),
}

/// The counts since the beginning.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    at: Time,
    operations: u64,
    transfers: u64,
    failed_exchanges: u64,
    waits: u64,
}

struct Replay<'a> {
    recording: &'a Recording,
    machine: Machine,
    transfer: Time,
    /// The number of an event breaks ties: first come, first served.
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    number: u64,
    lines: Vec<Line>,
    cores: Vec<Core>,
    /// How often each word was written.
    written: Vec<u64>,
    mutexes: Vec<Mutex>,
    counts: Counts,
}

impl<'a> Replay<'a> {
    fn new(recording: &'a Recording, machine: Machine) -> Self {
        Self {
            recording,
            machine,
            transfer: picoseconds(machine.transfer_ns),
            events: BinaryHeap::new(),
            number: 0,
            lines: vec![Line::default(); recording.lines],
            cores: vec![Core::default(); recording.lanes.len()],
            written: vec![0; recording.words],
            mutexes: vec![Mutex::default(); recording.words],
            counts: Counts::default(),
        }
    }

    fn run(mut self) -> Result<Outcome> {
        let cores = self.cores.len();
        // Not all at the same moment.
        let op = self.time_of(self.recording.instructions());
        (0..cores).for_each(|core| self.after(op * core as u64 / cores as u64, Event::Step(core)));
        let all: u64 = self.recording.lanes.iter().map(|ops| ops.len() as u64).sum();
        self.run_until(all.div_ceil(UNCOUNTED))?;
        let first = self.counts;
        self.run_until(all + 1)?;
        let last = self.counts;
        let operations = (last.operations - first.operations) as f64;
        let each = |of: fn(&Counts) -> u64| (of(&last) - of(&first)) as f64 / operations;
        Ok(Outcome {
            ns: each(|counts| counts.at) * cores as f64 / 1e3,
            transfers: each(|counts| counts.transfers),
            failed_exchanges: each(|counts| counts.failed_exchanges),
            waits: each(|counts| counts.waits),
        })
    }

    fn run_until(&mut self, operations: u64) -> Result<()> {
        while self.counts.operations < operations {
            let Reverse((at, _, event)) = self.events.pop().context("all cores stand still")?;
            self.counts.at = at;
            match event {
                Event::Step(core) => self.step(core),
                Event::GiveUp(line) => self.lines[line].give_up(self.machine.migrates),
                Event::Arrive(line) => self.arrive(line),
            }
        }
        Ok(())
    }

    fn step(&mut self, core: usize) {
        let recording = self.recording;
        let (ops, at) = (&recording.lanes[core], self.cores[core].access);
        let op = &ops[self.cores[core].op];
        let Some(access) = op.accesses.get(at) else {
            self.counts.operations += 1;
            let next = (self.cores[core].op + 1) % ops.len();
            let Core { stores, .. } = std::mem::take(&mut self.cores[core]);
            self.cores[core] = Core { op: next, stores, ..Core::default() };
            return self.go_on(core, 0, &ops[next]);
        };
        match self.perform(core, access) {
            Step::Done => {
                self.cores[core].access += 1;
                self.go_on(core, access.at, op);
            }
            Step::Back(behind) => {
                self.cores[core].access = behind + 1;
                self.go_on(core, op.accesses[behind].at, op);
            }
            Step::Stands => {}
        }
    }

    /// From this instruction to the next access of its operation, or to the end.
    fn go_on(&mut self, core: usize, from: usize, op: &Op) {
        let until = op.accesses.get(self.cores[core].access).map_or(op.instructions, |access| access.at);
        let time = self.time_of((until - from) as f64);
        self.after(time, Event::Step(core));
    }

    fn perform(&mut self, core: usize, access: &Access) -> Step {
        let Access { line, word, manner, .. } = *access;
        let stored = self.cores[core].stores.contains(&line);
        if manner.is_read_modify_write() && !self.cores[core].stores.is_empty() {
            self.cores[core].drains = true;
            return Step::Stands;
        }
        let there = match manner {
            // From the store buffer, or into it.
            Manner::Read => stored || self.lines[line].read(core),
            Manner::Write => stored || self.lines[line].write(core),
            _ => self.lines[line].write(core),
        };
        if !there {
            let stands = manner != Manner::Write;
            if !stands {
                self.cores[core].stores.push(line);
            }
            self.ask(line, Request { core, alone: manner != Manner::Read, stands });
            if stands {
                return Step::Stands;
            }
        }
        let seen = self.cores[core].seen.iter().position(|&(of, ..)| of == word);
        match manner {
            Manner::Read => {
                let now = (word, self.written[word], self.cores[core].access);
                match seen {
                    Some(place) => self.cores[core].seen[place] = now,
                    None => self.cores[core].seen.push(now),
                }
                return Step::Done;
            }
            Manner::CompareExchange => {
                if let Some(place) = seen {
                    let (_, then, by) = self.cores[core].seen[place];
                    if then != self.written[word] {
                        self.cores[core].seen[place].1 = self.written[word];
                        self.counts.failed_exchanges += 1;
                        return Step::Back(by);
                    }
                }
            }
            Manner::Lock => {
                let mutex = &mut self.mutexes[word];
                let is_next = std::mem::take(&mut self.cores[core].is_next);
                if mutex.held {
                    self.counts.waits += 1;
                    if is_next {
                        mutex.waiting.push_front(core)
                    } else {
                        mutex.waiting.push_back(core)
                    };
                    return Step::Stands;
                }
                mutex.held = true;
            }
            Manner::Unlock => {
                self.mutexes[word].held = false;
                if let Some(next) = self.mutexes[word].waiting.pop_front() {
                    self.cores[next].is_next = true;
                    self.after(0, Event::Step(next));
                }
            }
            Manner::Write | Manner::ReadModifyWrite => {}
        }
        self.written[word] += 1;
        if let Some(place) = seen {
            self.cores[core].seen.swap_remove(place);
        }
        Step::Done
    }

    fn ask(&mut self, line: usize, request: Request) {
        if self.lines[line].ask(request) {
            self.transfer(line);
        }
    }

    fn transfer(&mut self, line: usize) {
        self.counts.transfers += 1;
        self.after(self.transfer / 2, Event::GiveUp(line));
        self.after(self.transfer, Event::Arrive(line));
    }

    fn arrive(&mut self, line: usize) {
        if let Some(Request { core, stands, .. }) = self.lines[line].arrive() {
            if stands {
                self.after(0, Event::Step(core));
            } else {
                let of = &mut self.cores[core];
                of.stores.retain(|&stored| stored != line);
                if of.stores.is_empty() && std::mem::take(&mut of.drains) {
                    self.after(0, Event::Step(core));
                }
            }
        }
        if self.lines[line].begin_next() {
            self.transfer(line);
        }
    }

    fn after(&mut self, time: Time, event: Event) {
        self.number += 1;
        self.events.push(Reverse((self.counts.at + time, self.number, event)));
    }

    fn time_of(&self, instructions: f64) -> Time {
        picoseconds(instructions * self.machine.instruction_ns)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few microseconds")]
fn picoseconds(ns: f64) -> Time {
    (ns * 1e3).round() as Time
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSFER_NS: f64 = 100.0;
    const MACHINE: Machine = Machine { instruction_ns: 1.0, transfer_ns: TRANSFER_NS, migrates: false };

    fn access(line: usize, manner: Manner, at: usize) -> Access {
        Access { line, word: line, manner, at }
    }

    /// All cores do the same, again and again.
    fn recording(cores: usize, instructions: usize, accesses: &[Access]) -> Recording {
        let op = Op { instructions, accesses: accesses.to_vec() };
        Recording { lanes: vec![vec![op; 100]; cores], lines: 8, words: 8 }
    }

    fn outcome(cores: usize, instructions: usize, accesses: &[Access]) -> Outcome {
        replay(&recording(cores, instructions, accesses), MACHINE).expect("an outcome")
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= expected / 100.0, "{found}, and not {expected}");
    }

    /// Each write of a core comes a transfer after the other's, as in `ping_pong.rs`.
    #[test]
    fn a_line_that_two_cores_write_in_turn_takes_a_round_trip_for_each_of_their_operations() {
        let outcome = outcome(2, 80, &[access(0, Manner::ReadModifyWrite, 0)]);
        assert_near(outcome.ns, 2.0 * TRANSFER_NS);
        assert_near(outcome.transfers, 1.0);
    }

    #[test]
    fn a_core_alone_pays_for_its_instructions_only() {
        let all = [
            access(0, Manner::Read, 0),
            access(0, Manner::CompareExchange, 3),
            access(1, Manner::Lock, 5),
            access(2, Manner::Write, 6),
            access(1, Manner::Unlock, 8),
        ];
        let outcome = outcome(1, 70, &all);
        assert_near(outcome.ns, 70.0);
        assert_eq!((outcome.transfers, outcome.failed_exchanges, outcome.waits), (0.0, 0.0, 0.0));
    }

    #[test]
    fn lines_of_their_own_do_not_slow_cores_down() {
        for cores in [1, 2, 16, MOST_CORES] {
            let mut recording = recording(cores, 50, &[access(0, Manner::ReadModifyWrite, 10)]);
            recording.lines = cores;
            for (core, ops) in recording.lanes.iter_mut().enumerate() {
                ops.iter_mut().for_each(|op| op.accesses[0].line = core);
            }
            assert_near(replay(&recording, MACHINE).expect("an outcome").ns, 50.0);
        }
    }

    #[test]
    fn lines_that_are_only_read_do_not_slow_cores_down() {
        for cores in [1, 2, 16, MOST_CORES] {
            assert_near(outcome(cores, 50, &[access(0, Manner::Read, 10)]).ns, 50.0);
        }
    }

    /// One line, of which each operation needs one transfer: so many operations as transfers.
    #[test]
    fn a_line_that_all_write_bounds_them_together() {
        for cores in [4, 16, MOST_CORES] {
            let outcome = outcome(cores, 80, &[access(0, Manner::ReadModifyWrite, 0)]);
            assert_near(outcome.ns, cores as f64 * TRANSFER_NS);
        }
    }

    /// Of 500 instructions 400 are in the section; locked, it takes 400, and the line's way to the
    /// next.
    #[test]
    fn the_section_of_a_mutex_serialises() {
        let accesses = [access(0, Manner::Lock, 0), access(0, Manner::Unlock, 400)];
        let outcome = outcome(8, 500, &accesses);
        // Those who come to wait in between take the line from the one that holds the mutex, which
        // has to have it once more to unlock.
        let (least, most) = (8.0 * (400.0 + TRANSFER_NS), 8.0 * (400.0 + 3.0 * TRANSFER_NS));
        assert!((least * 0.99..most * 1.01).contains(&outcome.ns), "{}", outcome.ns);
        assert!(outcome.waits >= 0.99, "{}", outcome.waits);
    }

    #[test]
    fn a_store_does_not_hold_its_core_up_and_a_read_modify_write_waits_for_it() {
        // The other core takes both lines back each time. A load of another line is not held up.
        let store = outcome(2, 500, &[access(0, Manner::Write, 10)]);
        assert_near(store.ns, 500.0);
        let both = outcome(2, 500, &[access(0, Manner::Write, 10), access(1, Manner::ReadModifyWrite, 11)]);
        // A transfer for the store, of which one nanosecond goes by before it is waited for, and
        // then one for the read-modify-write.
        assert_near(both.ns, 500.0 + 2.0 * TRANSFER_NS - 1.0);
    }

    #[test]
    fn an_exchange_fails_if_another_core_wrote_after_the_read_and_is_tried_again() {
        // 60 instructions between the read and the exchange are more than half a transfer.
        let outcome = outcome(2, 62, &[access(0, Manner::Read, 0), access(0, Manner::CompareExchange, 60)]);
        assert!(outcome.failed_exchanges > 0.1, "{}", outcome.failed_exchanges);
        assert!(outcome.ns > 62.0 + TRANSFER_NS, "{}", outcome.ns);
    }

    #[test]
    fn a_line_that_migrates_is_fetched_once_for_a_read_and_an_exchange() {
        let accesses = [access(0, Manner::Read, 0), access(0, Manner::CompareExchange, 10)];
        let transfers = |migrates| {
            let recording = recording(2, 300, &accesses);
            replay(&recording, Machine { migrates, ..MACHINE }).expect("an outcome").transfers
        };
        assert_near(transfers(true), 1.0);
        // Two, or one if the other has only read since.
        assert!(transfers(false) > 1.4, "{}", transfers(false));
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        assert!(replay(&Recording::default(), MACHINE).is_err());
        assert!(replay(&recording(1, 0, &[]), MACHINE).is_err());
        assert!(replay(&recording(MOST_CORES + 1, 1, &[]), MACHINE).is_err());
        // A mutex that is locked twice.
        let twice = [access(0, Manner::Lock, 0), access(0, Manner::Lock, 1)];
        assert!(replay(&recording(1, 2, &twice), MACHINE).is_err());
    }
}
