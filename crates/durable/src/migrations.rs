//! The tables as text, for a team's own migration tool.

use crate::store::schema::{self, POSTGRES, SQLITE, Words};

/// The language of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

impl Dialect {
    pub(crate) fn words(self) -> &'static Words {
        match self {
            Self::Sqlite => &SQLITE,
            Self::Postgres => &POSTGRES,
        }
    }
}

/// Returns the migrations, each with its number, from the first to the last.
///
/// [`DurableTimer::open`](crate::DurableTimer::open) runs those that a store lacks. With PostgreSQL
/// a team may run them by its own migration tool instead, so that the role of its processes needs
/// no right to create anything. Run each once, in the order of the numbers, in a transaction. The
/// text has none of its own. It ends by writing its number into `tourbillon_schema`, and an open
/// that finds the last number there makes nothing.
///
/// The role then needs `SELECT`, `INSERT`, `UPDATE` and `DELETE` on the tables, and `USAGE` on the
/// sequence. A text that was released never changes. Run new ones before the version that brings
/// them: processes of older versions go on beside it, and can't be started any more.
///
/// ```
/// use tourbillon_durable::{Dialect, migrations};
///
/// for (number, sql) in migrations(Dialect::Postgres) {
///     println!("-- {number:04}_tourbillon.sql\n{sql}");
/// }
/// ```
pub fn migrations(dialect: Dialect) -> impl Iterator<Item = (i64, String)> {
    schema::migrations(0, dialect.words())
}
