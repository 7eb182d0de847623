//! The rows that an operator reads, and the outcome of a cancel.

use std::time::{Duration, SystemTime};

use crate::clock::Micros;
use crate::store::desk::{Row, Value};

/// The row of a timeout, but for its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeoutRow {
    /// The key.
    pub key: String,
    /// The deadline, to the microsecond.
    pub due: SystemTime,
    /// The name of the handler.
    pub handler: String,
    /// The number of the schedule or reset that this row comes from.
    pub generation: i64,
    /// How many times this generation has been claimed.
    pub attempts: u32,
    /// How many of its runs are known to have failed.
    pub failures: u32,
    /// Whether a process runs it, whose lease has not ended.
    pub running: bool,
    /// The number of the process that has it in its wheel, or runs it.
    pub process: Option<i64>,
    /// The length of the payload in bytes.
    pub payload_len: u64,
}

/// A timeout that was given up, but for its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetterRow {
    /// The key.
    pub key: String,
    /// The generation. A key may have dead letters of several.
    pub generation: i64,
    /// The deadline of the last attempt.
    pub due: SystemTime,
    /// The name of the handler.
    pub handler: String,
    /// How many times it was claimed.
    pub attempts: u32,
    /// When it was given up, by the clock of the store.
    pub died_at: SystemTime,
    /// The length of the payload in bytes.
    pub payload_len: u64,
}

/// The timeouts of one handler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerRow {
    /// The name.
    pub handler: String,
    /// How many there are.
    pub pending: u64,
    /// How many of them have come up and do not run.
    pub overdue: u64,
    /// How many of them run.
    pub running: u64,
    /// The first deadline, that of one that runs included.
    pub oldest: Option<SystemTime>,
    /// How many live processes have it, and have not paused it, by their last signs of life. One of
    /// an older version does not say so.
    pub processes: u64,
}

/// A process that has timeouts, or could have them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessRow {
    /// Its number, which it draws when it starts.
    pub process: i64,
    /// When its lease ends, by the clock of the store. In 1970 if it has given it up.
    pub lease_until: SystemTime,
    /// How long its lease still holds, by the clock of the store. Zero if it has ended.
    pub lease_left: Duration,
    /// Whether its lease has not ended. If it has, others take its timeouts over. A process that
    /// has died counts as live until then, or, with SQLite, until the next process opens the file.
    pub live: bool,
    /// The handlers that it has. `None` if it is of an older version, which does not say so.
    pub handlers: Option<Vec<String>>,
    /// How many timeouts it has.
    pub timeouts: u64,
    /// How many of them it has claimed for a run.
    pub running: u64,
}

/// The outcome of a cancel of many timeouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cancelled {
    /// How many were cancelled. No claim of them comes any more.
    pub cancelled: u64,
    /// How many match and are there all the same: they run, somebody has locked their rows, or they
    /// were scheduled meanwhile.
    pub left: u64,
}

/// The values of a row, in the order of its columns. A value of a wrong type reads as `None`: a
/// user who writes rows by hand may store it.
struct Cells(std::vec::IntoIter<Value>);

impl Cells {
    fn of(row: Row) -> Self {
        Self(row.into_iter())
    }

    fn int(&mut self) -> Option<i64> {
        if let Value::Int(int) = self.0.next()? { Some(int) } else { None }
    }

    fn text(&mut self) -> Option<String> {
        if let Value::Text(text) = self.0.next()? { Some(text) } else { None }
    }

    fn maybe<T>(&mut self, read: impl FnOnce(Value) -> Option<T>) -> Option<Option<T>> {
        match self.0.next()? {
            Value::Null => Some(None),
            value => read(value).map(Some),
        }
    }

    fn time(&mut self) -> Option<SystemTime> {
        self.int().map(|micros| Micros(micros).to_system_time())
    }

    fn count(&mut self) -> Option<u64> {
        self.int().map(|count| u64::try_from(count).unwrap_or(0))
    }

    fn small(&mut self) -> Option<u32> {
        self.int().map(|count| u32::try_from(count).unwrap_or(0))
    }

    fn bool(&mut self) -> Option<bool> {
        self.int().map(|int| int != 0)
    }
}

pub(super) fn timeout(row: Row) -> Option<TimeoutRow> {
    let mut cells = Cells::of(row);
    Some(TimeoutRow {
        key: cells.text()?,
        due: cells.time()?,
        handler: cells.text()?,
        generation: cells.int()?,
        attempts: cells.small()?,
        failures: cells.small()?,
        running: cells.bool()?,
        process: cells.maybe(|value| if let Value::Int(int) = value { Some(int) } else { None })?,
        payload_len: cells.count()?,
    })
}

pub(super) fn dead_letter(row: Row) -> Option<DeadLetterRow> {
    let mut cells = Cells::of(row);
    Some(DeadLetterRow {
        key: cells.text()?,
        generation: cells.int()?,
        due: cells.time()?,
        handler: cells.text()?,
        attempts: cells.small()?,
        died_at: cells.time()?,
        payload_len: cells.count()?,
    })
}

pub(super) fn handler(row: Row) -> Option<HandlerRow> {
    let mut cells = Cells::of(row);
    Some(HandlerRow {
        handler: cells.text()?,
        pending: cells.count()?,
        overdue: cells.count()?,
        running: cells.count()?,
        oldest: Some(cells.time()?),
        processes: 0,
    })
}

pub(super) fn process(row: Row) -> Option<ProcessRow> {
    let mut cells = Cells::of(row);
    let (process, lease_until, lease_left) = (cells.int()?, cells.time()?, Duration::from_micros(cells.count()?));
    Some(ProcessRow {
        process,
        lease_until,
        lease_left,
        live: !lease_left.is_zero(),
        handlers: cells.maybe(|value| if let Value::Text(text) = value { Some(names(&text)) } else { None })?,
        timeouts: cells.count()?,
        running: cells.count()?,
    })
}

/// The name of a row that is to be changed.
pub(super) fn id(row: Row) -> Option<(String, i64)> {
    let mut cells = Cells::of(row);
    Some((cells.text()?, cells.int()?))
}

pub(super) fn number(row: Row) -> Option<u64> {
    Cells::of(row).count()
}

/// The payload comes last.
pub(super) fn with_payload(mut row: Row) -> Option<(TimeoutRow, Vec<u8>)> {
    let payload = match row.pop()? {
        Value::Bytes(bytes) => bytes,
        // A user who inserts a row by hand may write text.
        Value::Text(text) => text.into_bytes(),
        _ => return None,
    };
    Some((timeout(row)?, payload))
}

/// One name a line, in no order.
fn names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
    names.sort_unstable();
    names
}
