//! The modelled caches: who has a copy of which line, and who waits for one.

use std::collections::VecDeque;

/// Picoseconds since the replay began.
pub(crate) type Time = u64;

/// More would not fit into a line's set of holders.
pub(crate) const MOST_CORES: usize = 128;

/// A core's request for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) core: usize,
    /// To write: the others lose their copies.
    pub(crate) alone: bool,
    /// Whether the core stands still until the line is there. A plain store does not: it waits in
    /// the store buffer.
    pub(crate) stands: bool,
}

/// A line, with its entry in the directory: one transfer at a time, first come, first served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// A bit for each core that has a copy.
    holders: u128,
    /// Who may write to it, if it is one.
    owner: Option<usize>,
    /// Whether the owner has written since it came.
    dirty: bool,
    /// Whether anybody has.
    written: bool,
    under_way: Option<Request>,
    waiting: VecDeque<Request>,
}

impl Line {
    /// Whether the core can read it at once. What nobody has written has been everywhere.
    pub(crate) fn read(&mut self, core: usize) -> bool {
        if self.holders & bit(core) != 0 {
            return true;
        }
        let clean = !self.written && self.under_way.is_none();
        if clean {
            self.holders |= bit(core);
        }
        clean
    }

    /// Whether the core can write to it at once. What nobody else has is its own.
    pub(crate) fn write(&mut self, core: usize) -> bool {
        let others = self.holders & !bit(core) != 0;
        let lies_there = self.holders != 0 || !self.written;
        if self.owner != Some(core) && (others || !lies_there || self.under_way.is_some()) {
            return false;
        }
        (self.holders, self.owner, self.dirty, self.written) = (bit(core), Some(core), true, true);
        true
    }

    /// Queues a request. Returns whether a transfer begins.
    pub(crate) fn ask(&mut self, request: Request) -> bool {
        self.waiting.push_back(request);
        self.under_way.is_none() && self.begin_next()
    }

    /// Begins the transfer for the next one that waits. Returns false if there is none.
    pub(crate) fn begin_next(&mut self) -> bool {
        self.under_way = self.waiting.pop_front();
        self.under_way.is_some()
    }

    /// The request has come to whoever has the line. With `migrates`, a read of a line that its
    /// owner has written takes it away, as a write would: what is read is presumably written next.
    pub(crate) fn give_up(&mut self, migrates: bool) {
        let Some(request) = &mut self.under_way else { return };
        request.alone |= migrates && self.dirty;
        if request.alone {
            self.holders = 0;
        }
        (self.owner, self.dirty) = (None, false);
    }

    /// The line has come to the one that asked for it.
    pub(crate) fn arrive(&mut self) -> Option<Request> {
        let request = self.under_way.take()?;
        self.holders |= bit(request.core);
        if request.alone {
            self.owner = Some(request.core);
        }
        if !request.stands {
            // The store leaves the buffer.
            (self.dirty, self.written) = (true, true);
        }
        Some(request)
    }
}

fn bit(core: usize) -> u128 {
    1 << core
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(core: usize, alone: bool) -> Request {
        Request { core, alone, stands: true }
    }

    fn transfer(line: &mut Line, request: Request, migrates: bool) {
        assert!(line.ask(request), "nobody else waits");
        line.give_up(migrates);
        assert_eq!(line.arrive().map(|request| request.core), Some(request.core));
        assert!(!line.begin_next());
    }

    #[test]
    fn what_nobody_has_written_is_read_by_all() {
        let mut line = Line::default();
        assert!((0..MOST_CORES).all(|core| line.read(core)));
        assert!(!line.write(0), "the others have copies");
    }

    #[test]
    fn a_writer_takes_the_copies_of_the_others() {
        let mut line = Line::default();
        assert!(line.write(0) && line.write(0) && line.read(0));
        assert!(!line.read(1) && !line.write(1));
        transfer(&mut line, request(1, true), false);
        assert!(line.write(1) && line.read(1) && !line.read(0) && !line.write(0));
    }

    #[test]
    fn a_reader_gets_a_copy_and_the_writer_has_to_ask_for_the_line_again() {
        let mut line = Line::default();
        assert!(line.write(0));
        transfer(&mut line, request(1, false), false);
        assert!(line.read(0) && line.read(1) && !line.write(0) && !line.write(1));
    }

    #[test]
    fn a_line_that_migrates_goes_to_the_reader_whole_once_it_was_written() {
        let mut line = Line::default();
        assert!(line.write(0));
        transfer(&mut line, request(1, false), true);
        assert!(!line.read(0) && line.read(1) && line.write(1));
        transfer(&mut line, request(2, false), true);
        transfer(&mut line, request(0, false), true);
        assert!(line.read(2) && line.read(0) && !line.write(0), "core 2 has not written");
    }

    #[test]
    fn requests_are_served_in_order_and_the_owner_has_the_line_until_it_is_asked_for() {
        let mut line = Line::default();
        assert!(line.write(0));
        assert!(line.ask(request(1, true)) && !line.ask(request(2, true)));
        assert!(line.write(0), "the request has not come to it yet");
        line.give_up(false);
        assert!(!line.write(0) && !line.write(1));
        assert_eq!(line.arrive().map(|request| request.core), Some(1));
        assert!(line.begin_next() && line.write(1));
        line.give_up(false);
        assert_eq!(line.arrive().map(|request| request.core), Some(2));
    }
}
