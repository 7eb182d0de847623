//! Where rows are that can't be read, as scans have found them.

use std::time::{Duration, Instant};

/// After this time a row may have been repaired.
const FORGET: Duration = Duration::from_secs(300);

/// The rows of a handler that are due from `first` until before `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) handler: String,
    pub(super) first: i64,
    pub(super) until: i64,
}

/// The parts that can't be read.
#[derive(Debug, Default)]
pub(super) struct Holes {
    parts: Vec<Part>,
    found: Option<Instant>,
}

impl Holes {
    pub(super) fn push(&mut self, hole: Part) {
        self.found.get_or_insert_with(Instant::now);
        self.parts.push(hole);
    }

    pub(super) fn forget(&mut self) {
        if self.found.is_some_and(|found| found.elapsed() > FORGET) {
            *self = Self::default();
        }
    }

    /// Returns the rest of this time for each handler.
    pub(super) fn around(&self, handlers: &[String], first: i64, until: i64) -> Vec<Part> {
        let mut parts = Vec::new();
        for handler in handlers {
            let mut holes: Vec<&Part> = self.parts.iter().filter(|hole| hole.handler == *handler).collect();
            holes.sort_unstable_by_key(|hole| hole.first);
            let mut at = first;
            for hole in holes {
                parts.push(Part { handler: handler.clone(), first: at, until: hole.first.min(until) });
                at = at.max(hole.until);
            }
            parts.push(Part { handler: handler.clone(), first: at, until });
        }
        parts.retain(|part| part.first < part.until);
        parts
    }
}

/// How far a process has got with looking through the table for what it can give up around damage.
#[derive(Debug, Default)]
pub(super) struct Around {
    next: i64,
    /// When it had looked at all.
    done: Option<Instant>,
}

/// After this time it looks again, for processes that have died since.
const AGAIN: Duration = Duration::from_secs(30);

impl Around {
    pub(super) fn is_done(&self) -> bool {
        self.done.is_some_and(|done| done.elapsed() < AGAIN)
    }

    /// The first block to look at.
    pub(super) fn next(&self) -> i64 {
        if self.done.is_some() { 0 } else { self.next }
    }

    pub(super) fn got_to(&mut self, next: i64, more: bool) {
        *self = Self { next, done: (!more).then(Instant::now) };
    }
}

/// Halves it, if it is more than the rows of one microsecond.
pub(super) fn split(parts: &[Part]) -> Option<(Vec<Part>, Vec<Part>)> {
    if let [Part { handler, first, until }] = parts {
        let middle = first.midpoint(*until);
        let part = |first, until| vec![Part { handler: handler.clone(), first, until }];
        return (until.wrapping_sub(*first) != 1).then(|| (part(*first, middle), part(middle, *until)));
    }
    let (first, second) = parts.split_at(parts.len() / 2);
    Some((first.to_vec(), second.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(handler: &str, first: i64, until: i64) -> Part {
        Part { handler: handler.to_owned(), first, until }
    }

    #[test]
    fn a_hole_is_left_out_of_its_handler_s_time() {
        let mut holes = Holes::default();
        holes.push(part("a", 7, 8));
        holes.push(part("a", 3, 4));
        holes.push(part("b", 100, 101));
        let handlers = ["a".to_owned(), "b".to_owned()];
        assert_eq!(
            holes.around(&handlers, i64::MIN, 10),
            [part("a", i64::MIN, 3), part("a", 4, 7), part("a", 8, 10), part("b", i64::MIN, 10)]
        );
        assert_eq!(holes.around(&handlers, 7, 8), [part("b", 7, 8)]);
    }

    #[test]
    fn any_time_is_halved_down_to_a_microsecond() {
        for bad in [i64::MIN, -1, 0, 1, 1_700_000_000_000_000, i64::MAX - 1] {
            let (mut parts, mut tries) = (vec![part("a", i64::MIN, i64::MAX)], 0);
            while let Some((first, second)) = split(&parts) {
                parts = if first[0].until > bad { first } else { second };
                tries += 1;
            }
            assert_eq!(parts, [part("a", bad, bad + 1)]);
            assert!(tries <= 64, "{tries}");
        }
    }
}
