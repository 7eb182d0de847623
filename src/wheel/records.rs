//! What a debug build writes down for its checks.

use crate::entry::{Entry, Linkable, Token};
use crate::time::Subtick;

/// For how many entries the deadline is kept by which they were linked. An entry's own word may
/// name another one by the time its slot comes up.
const KEPT: usize = 256;

/// How many slots and entries a turn may look at, on average. So a wheel of a few slots is gone
/// through in each turn, and the default one in every 129th.
const LOOKS: usize = 64;

fn place_of(entry: usize) -> usize {
    entry / size_of::<Entry>() % KEPT
}

#[derive(Debug)]
pub(super) struct Records {
    /// The address of an entry, and the deadline by which it was linked last, at a place that the
    /// address names. An entry is looked for only while it is in this wheel, so what is kept of
    /// others does no harm.
    linked: Box<[Option<(usize, Subtick)>]>,
    /// How much may be looked at by now.
    looks: usize,
}

impl Records {
    pub(super) fn new() -> Self {
        Self { linked: vec![None; if cfg!(debug_assertions) { KEPT } else { 0 }].into(), looks: 0 }
    }

    pub(super) fn link(&mut self, entry: &Linkable, deadline: Subtick) {
        let entry = entry.as_link().addr();
        self.linked[place_of(entry)] = Some((entry, deadline));
    }

    /// Returns the deadline by which an entry was linked, if it is kept.
    pub(super) fn linked_by(&self, entry: usize) -> Option<Subtick> {
        let kept = self.linked[place_of(entry)];
        kept.filter(|(kept, _)| *kept == entry).map(|(_, deadline)| deadline)
    }

    /// Ends a turn. Returns whether so much may be looked at.
    pub(super) fn may_look_at(&mut self, many: usize) -> bool {
        self.looks += LOOKS;
        let may = self.looks >= many;
        if may {
            self.looks = 0;
        }
        may
    }
}
