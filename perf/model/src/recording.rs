//! What a replay needs of a trace: for each thread its operations, with their accesses to what
//! other threads touch, too.

use std::collections::HashMap;

use super::stepper::{Section, Trace};

const LINE: u64 = 64;
const WORD: u64 = 8;

/// The operations of each thread. Lines and words are numbered from zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recording {
    pub(crate) lanes: Vec<Vec<Op>>,
    pub(crate) lines: usize,
    pub(crate) words: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Op {
    pub(crate) instructions: usize,
    /// In order. Only those to lines that more than one thread touches, and one of them writes:
    /// the others stay in the cache of their core.
    pub(crate) accesses: Vec<Access>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Access {
    pub(crate) line: usize,
    pub(crate) word: usize,
    pub(crate) manner: Manner,
    /// So many of the operation's instructions come before it.
    pub(crate) at: usize,
}

/// What is done to the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Read,
    Write,
    ReadModifyWrite,
    CompareExchange,
    /// A mutex is locked.
    Lock,
    Unlock,
}

impl Manner {
    pub(crate) fn is_read_modify_write(self) -> bool {
        !matches!(self, Self::Read | Self::Write)
    }
}

impl From<super::decode::Manner> for Manner {
    fn from(manner: super::decode::Manner) -> Self {
        use super::decode::Manner as Traced;
        match manner {
            Traced::Read => Self::Read,
            Traced::Write => Self::Write,
            Traced::CompareExchange => Self::CompareExchange,
            Traced::Exchange | Traced::ReadModifyWrite => Self::ReadModifyWrite,
        }
    }
}

/// Who touches a line.
#[derive(Debug)]
struct Users {
    first: u64,
    others: bool,
    written: bool,
}

impl Recording {
    /// With `mutexes`, mutexes are looked for.
    pub(crate) fn of(trace: &Trace, mutexes: bool) -> Self {
        let mut users = HashMap::<u64, Users>::new();
        for section in &trace.sections {
            for (line, access) in
                section.accesses.iter().flat_map(|access| lines(access).map(move |line| (line, access)))
            {
                let users = users.entry(line).or_insert(Users { first: section.lane, others: false, written: false });
                users.others |= users.first != section.lane;
                users.written |= access.manner != super::decode::Manner::Read;
            }
        }
        users.retain(|_, users| users.others && users.written);
        let mut recording = Self::default();
        let (mut line_numbers, mut word_numbers) = (Numbers::default(), Numbers::default());
        for section in &trace.sections {
            let lane = usize::try_from(section.lane).unwrap_or(usize::MAX);
            let manners = manners(section, mutexes);
            let mut op = Op { instructions: section.path.len(), accesses: Vec::new() };
            for (access, manner) in section.accesses.iter().zip(manners) {
                for line in lines(access).filter(|line| users.contains_key(line)) {
                    let (line, word) = (line_numbers.of(line), word_numbers.of(access.address / WORD));
                    op.accesses.push(Access { line, word, manner, at: access.at });
                }
            }
            if recording.lanes.len() <= lane {
                recording.lanes.resize_with(lane + 1, Vec::new);
            }
            recording.lanes[lane].push(op);
        }
        Self { lines: line_numbers.0.len(), words: word_numbers.0.len(), ..recording }
    }

    /// Instructions of an operation, on average.
    pub(crate) fn instructions(&self) -> f64 {
        let ops = || self.lanes.iter().flatten();
        ops().map(|op| op.instructions).sum::<usize>() as f64 / ops().count() as f64
    }
}

fn lines(access: &super::stepper::Access) -> impl Iterator<Item = u64> {
    access.address / LINE..=(access.address + access.bytes.max(1) - 1) / LINE
}

/// Of the accesses of a section. A mutex of std is locked by a compare-and-exchange of a word, and
/// unlocked by the next exchange of it.
fn manners(section: &Section, mutexes: bool) -> Vec<Manner> {
    use super::decode::Manner as Traced;
    let mut manners: Vec<Manner> = section.accesses.iter().map(|access| access.manner.into()).collect();
    let mut locked = HashMap::<u64, usize>::new();
    for (at, access) in section.accesses.iter().enumerate().filter(|_| mutexes) {
        match access.manner {
            Traced::CompareExchange => _ = locked.insert(access.address, at),
            Traced::Exchange => {
                if let Some(locked_at) = locked.remove(&access.address) {
                    (manners[locked_at], manners[at]) = (Manner::Lock, Manner::Unlock);
                }
            }
            _ => {}
        }
    }
    manners
}

/// Numbers from zero, in order of appearance.
#[derive(Debug, Default)]
struct Numbers(HashMap<u64, usize>);

impl Numbers {
    fn of(&mut self, address: u64) -> usize {
        let next = self.0.len();
        *self.0.entry(address).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Manner as Traced;
    use crate::stepper::Access as Touch;

    fn section(lane: u64, accesses: &[(u64, Traced)]) -> Section {
        let access = |(at, &(address, manner)): (usize, &(u64, Traced))| Touch { address, bytes: 8, manner, at };
        let accesses: Vec<_> = accesses.iter().enumerate().map(access).collect();
        Section { lane, operations: 1, path: (0..10).collect(), accesses, ..Section::default() }
    }

    fn recording(sections: Vec<Section>, mutexes: bool) -> Recording {
        Recording::of(&Trace { sections, base: 0 }, mutexes)
    }

    #[test]
    fn only_lines_that_two_threads_touch_and_one_of_them_writes_are_kept() {
        let (both, mine, only_read) = (0x1000, 0x2000, 0x3000);
        let first = section(0, &[(mine, Traced::Write), (both, Traced::Read), (only_read, Traced::Read)]);
        let second = section(1, &[(both + 8, Traced::Write), (only_read, Traced::Read)]);
        let recording = recording(vec![first, second], false);
        let access = |word, manner, at| Access { line: 0, word, manner, at };
        assert_eq!(recording.lanes[0][0].accesses, [access(0, Manner::Read, 1)]);
        assert_eq!(recording.lanes[1][0].accesses, [access(1, Manner::Write, 0)]);
        assert_eq!((recording.lines, recording.words, recording.instructions()), (1, 2, 10.0));
    }

    #[test]
    fn what_crosses_a_line_is_an_access_to_both() {
        let crossing = section(0, &[(0x103c, Traced::Write)]);
        let recording = recording(vec![crossing.clone(), Section { lane: 1, ..crossing }], false);
        assert_eq!((recording.lines, recording.lanes[0][0].accesses.len()), (2, 2));
    }

    #[test]
    fn a_mutex_is_a_compare_exchange_and_the_next_exchange_of_the_same_word() {
        let (mutex, other) = (0x1000, 0x1040);
        let accesses = [
            (other, Traced::Exchange),
            (mutex, Traced::CompareExchange),
            (other, Traced::CompareExchange),
            (mutex, Traced::Exchange),
            (mutex, Traced::Exchange),
        ];
        let sections = || vec![section(0, &accesses), section(1, &accesses)];
        let manners = |mutexes| {
            let recording = recording(sections(), mutexes);
            recording.lanes[1][0].accesses.iter().map(|access| access.manner).collect::<Vec<_>>()
        };
        let (rmw, exchange) = (Manner::ReadModifyWrite, Manner::CompareExchange);
        assert_eq!(manners(true), [rmw, Manner::Lock, exchange, Manner::Unlock, rmw]);
        assert_eq!(manners(false), [rmw, exchange, exchange, rmw, rmw]);
    }
}
