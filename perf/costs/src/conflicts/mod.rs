//! The conflict matrix: for every pair of operations the cache lines that both touch and one
//! writes.
//!
//! Operations that write no line which another one touches scale with the cores. An operation that
//! is only compared with itself may hide one that does not scale (Clements and others, "The
//! Scalable Commutativity Rule", 2013). So two threads do all operations, one thread after the
//! other, and every operation of one is compared with every operation of the other.

mod compare;
mod measure;
mod names;
mod print;
pub(crate) mod subject;
mod table;

use super::operation::Operation;
use table::Line;

pub(crate) use compare::{accept, compare};
pub(crate) use measure::measure;
pub(crate) use print::print;
pub(crate) use table::{Relation, Table};

/// The operations of a producer.
fn producers() -> impl Iterator<Item = Operation> {
    Operation::all().iter().copied().filter(|operation| operation.is_producers())
}

/// What a thread does that turns a shard, by the label of its turn.
fn of_a_turn(label: Operation) -> &'static str {
    match label {
        Operation::Expire | Operation::ExpireHeld => "expire",
        Operation::Wake => "wake",
        _ => "take in, collect",
    }
}

/// The same line, seen from the other thread.
fn turned(line: &Line) -> Line {
    Line { name: line.name.clone(), one: line.other.clone(), other: line.one.clone() }
}
