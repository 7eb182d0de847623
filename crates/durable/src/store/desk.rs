//! A store as an operator uses it: to read rows, and to change them by compare and swap. An
//! operator owns no row and has no lease.

use super::Failure;
use crate::migrations::Dialect;

/// A value of a statement or of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    /// Also what is of no type that is known here.
    Null,
}

/// The values of its columns. A boolean is 0 or 1.
pub(crate) type Row = Vec<Value>;

/// A statement, with a value for each of its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) text: String,
    pub(crate) values: Vec<Value>,
}

/// A connection of an operator's own, so that it holds up no process.
pub(crate) trait Desk: Send {
    fn dialect(&self) -> Dialect;

    /// Reads rows, all of one moment.
    fn read(&mut self, query: Query) -> Result<Vec<Row>, Failure>;

    /// Carries out the statements in a transaction, and returns how many rows they have returned,
    /// once that is on disk. It waits for locks only for a moment.
    fn change(&mut self, queries: Vec<Query>) -> Result<u64, Failure>;
}
