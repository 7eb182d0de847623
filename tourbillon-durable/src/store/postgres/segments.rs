//! A batch in parts that are each written by a few statements.

use std::collections::HashSet;

use crate::store::Op;

/// Operations with keys that differ, by their kinds: as indexes of the batch, in the order of the
/// keys.
#[derive(Default)]
pub(super) struct Segment {
    kinds: [Vec<usize>; KINDS.len()],
    pub(super) others: Vec<usize>,
}

/// The places of the kinds that are written by arrays.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Schedule,
    Reset,
    Cancel,
    Get,
    Complete,
    Retry,
    Bury,
    Unclaim,
}

/// In their order as places.
const KINDS: [Kind; 8] =
    [Kind::Schedule, Kind::Reset, Kind::Cancel, Kind::Get, Kind::Complete, Kind::Retry, Kind::Bury, Kind::Unclaim];

impl Segment {
    /// Whether one statement writes it, and locks its rows in the order of their keys. An update
    /// joins, and so locks many rows in any order.
    pub(super) fn is_one_statement(&self) -> bool {
        let in_order = |kind| self.of(kind).len();
        let many = self.kinds.iter().map(Vec::len).sum::<usize>();
        self.others.is_empty() && (many == 1 || many == in_order(Kind::Schedule) || many == in_order(Kind::Get))
    }

    /// The kinds that it has, each with the places of its operations.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (Kind, &[usize])> {
        KINDS.into_iter().map(|kind| (kind, self.of(kind))).filter(|(_, indexes)| !indexes.is_empty())
    }

    fn of(&self, kind: Kind) -> &[usize] {
        &self.kinds[kind as usize]
    }
}

fn kind(op: &Op) -> Option<Kind> {
    Some(match op {
        Op::Schedule { .. } => Kind::Schedule,
        Op::Reset { .. } => Kind::Reset,
        Op::Cancel { .. } => Kind::Cancel,
        Op::Get { .. } => Kind::Get,
        Op::Complete(_) => Kind::Complete,
        Op::Retry { .. } => Kind::Retry,
        Op::Bury(_) => Kind::Bury,
        Op::Unclaim(_) => Kind::Unclaim,
        Op::DeadLetters { .. } | Op::Revive { .. } | Op::DeleteDead { .. } => return None,
    })
}

pub(super) fn key(op: &Op) -> &str {
    match op {
        Op::Schedule { key, .. } | Op::Reset { key, .. } | Op::Cancel { key } | Op::Get { key } => key,
        Op::Revive { key, .. } | Op::DeleteDead { key, .. } => key,
        Op::Complete(token) | Op::Retry { token, .. } | Op::Bury(token) | Op::Unclaim(token) => &token.key,
        Op::DeadLetters { .. } => "",
    }
}

/// Returns the keys of the rows that a batch may change.
pub(super) fn locked_keys(ops: &[Op]) -> Vec<&str> {
    let mut keys: Vec<&str> = ops.iter().filter(|op| !matches!(op, Op::Get { .. })).map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Cuts a batch where a key comes again. A list of the dead letters sees what was before it.
pub(super) fn segments(ops: &[Op]) -> Vec<Segment> {
    let mut segments = vec![Segment::default()];
    let mut keys = HashSet::new();
    for (index, op) in ops.iter().enumerate() {
        let lists = matches!(op, Op::DeadLetters { .. });
        if !keys.insert(key(op)) || lists {
            segments.push(Segment::default());
            keys.clear();
            keys.insert(key(op));
        }
        let segment = segments.last_mut().expect("there is one");
        match kind(op) {
            Some(kind) => segment.kinds[kind as usize].push(index),
            None => segment.others.push(index),
        }
    }
    for segment in &mut segments {
        for kind in &mut segment.kinds {
            kind.sort_unstable_by(|&a, &b| key(&ops[a]).cmp(key(&ops[b])));
        }
    }
    segments
}
