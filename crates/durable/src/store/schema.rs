//! The tables, and how those of an earlier version become those of this one.
//!
//! The text is the same for both stores, but for the names of three types and the functions of
//! PostgreSQL.

use std::cmp::Ordering;

use crate::error::OpenError;

/// Each entry leads from its index to the next number. Never change one that was released: add one.
const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE tourbillon_timeouts (
    key TEXT NOT NULL PRIMARY KEY,
    due BIGINT NOT NULL,
    handler TEXT NOT NULL,
    payload {bytes} NOT NULL,
    generation BIGINT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    owner BIGINT,
    running {bool} NOT NULL DEFAULT {false}
);
CREATE INDEX tourbillon_timeouts_due ON tourbillon_timeouts (due) WHERE owner IS NULL;
CREATE INDEX tourbillon_timeouts_owner ON tourbillon_timeouts (owner) WHERE owner IS NOT NULL;
CREATE TABLE tourbillon_owners (
    owner BIGINT NOT NULL PRIMARY KEY,
    lease_until BIGINT NOT NULL
);
CREATE TABLE tourbillon_dead_letters (
    key TEXT NOT NULL,
    generation BIGINT NOT NULL,
    due BIGINT NOT NULL,
    handler TEXT NOT NULL,
    payload {bytes} NOT NULL,
    attempts INTEGER NOT NULL,
    died_at BIGINT NOT NULL,
    PRIMARY KEY (key, generation)
);
CREATE INDEX tourbillon_dead_letters_died_at ON tourbillon_dead_letters (died_at);
{generations}
",
    "
ALTER TABLE tourbillon_timeouts ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tourbillon_timeouts ADD COLUMN suspect {bool} NOT NULL DEFAULT {false};
DROP INDEX tourbillon_timeouts_due;
CREATE INDEX tourbillon_timeouts_due ON tourbillon_timeouts (handler, due) WHERE owner IS NULL;
",
    // The names of a process's handlers, one a line. Null if an older version has written the row.
    "
ALTER TABLE tourbillon_owners ADD COLUMN handlers TEXT;
",
    "{functions}",
];

/// The words that differ between the stores.
pub(crate) struct Words {
    bytes: &'static str,
    bool: &'static str,
    pub(crate) r#false: &'static str,
    /// The statements that make the counter of generations.
    generations: &'static str,
    /// The functions that other clients call in transactions of their own.
    functions: &'static str,
    /// The store's clock, in microseconds.
    pub(crate) now: &'static str,
}

pub(crate) const SQLITE: Words = Words {
    bytes: "BLOB",
    bool: "INTEGER",
    r#false: "0",
    generations: "CREATE TABLE tourbillon_generations (last BIGINT NOT NULL);
INSERT INTO tourbillon_generations VALUES (0);",
    // Its calls are `transaction::sqlite`.
    functions: "",
    // A function of the connection.
    now: "tourbillon_now()",
};
pub(crate) const POSTGRES: Words = Words {
    bytes: "BYTEA",
    bool: "BOOLEAN",
    r#false: "false",
    // Rows live for a short time: vacuum them before they are a tenth of the table.
    generations: "CREATE SEQUENCE tourbillon_generations;
ALTER TABLE tourbillon_timeouts
    SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);",
    functions: include_str!("postgres/functions.sql"),
    now: "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
};

/// The number that a store has when it is up to date.
pub(crate) fn current() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("a few migrations")
}

/// Whether an operator can use tables with this number: 0 if there are none.
pub(crate) fn check(found: i64) -> Result<(), OpenError> {
    let known = current();
    match found.cmp(&known) {
        Ordering::Less => Err(OpenError::OlderSchema { found, needed: known }),
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(OpenError::NewerSchema { found, known }),
    }
}

/// Returns the statements that lead from schema `found` to the current one, each with the number
/// that it leads to. Those of one number are one transaction.
pub(crate) fn migrations(found: i64, words: &Words) -> impl Iterator<Item = (i64, String)> + use<'_> {
    MIGRATIONS.iter().zip(1..).filter(move |&(_, number)| number > found).map(|(text, number)| {
        let text = text
            .trim()
            .replace("{bytes}", words.bytes)
            .replace("{bool}", words.bool)
            .replace("{false}", words.r#false)
            .replace("{generations}", words.generations)
            .replace("{functions}", words.functions)
            .replace("{gone}", &GONE.replace("{now}", "now_micros"));
        let first = if number == 1 { FIRST } else { "" };
        let version = "DELETE FROM tourbillon_schema;\nINSERT INTO tourbillon_schema VALUES";
        (number, format!("{first}{text}\n{version} ({number});\n"))
    })
}

/// It holds the number of the last migration.
const FIRST: &str = "CREATE TABLE IF NOT EXISTS tourbillon_schema (version BIGINT NOT NULL);\n";

/// The owners whose leases have ended. `{now}` is the store's clock. A lease is at most a day long,
/// so one that ends later was written by a clock that was wrong, and has ended as well. A migration
/// has this text, too: a change of it must leave a released migration as it was.
pub(crate) const GONE: &str =
    "SELECT o.owner FROM tourbillon_owners o WHERE o.lease_until < {now} OR o.lease_until > {now} + 86460000000";

/// That no run under a lease has a row. Then it may be cancelled and moved.
pub(crate) const NOT_RUNNING: &str = "(NOT running OR owner IN ({gone}))";

/// New values of a row that its owner has left behind: nobody's, and a suspect if it was running.
/// One that was running as a suspect was alone, and its process ended: it has failed once more.
pub(super) const GIVE_UP: &str = "owner = NULL, running = {false}, suspect = suspect OR running,
    failures = CASE WHEN running AND suspect THEN failures + 1 ELSE failures END,
    due = CASE WHEN running AND suspect
        THEN {now} + 1000000 * CASE WHEN failures < 9 THEN 1 << failures ELSE 600 END ELSE due END";

/// The row is still that of a run's token: `{key}`, `{generation}` and `{attempt}` of the token,
/// and `{owner}` the process.
pub(super) const IS_TOKENS: &str = "key = {key} AND generation = {generation} AND attempts = {attempt}
    AND owner IS NOT DISTINCT FROM {owner} AND running";

/// The schedule of one that is new, or begins anew. It has not failed yet.
pub(super) const ANEW: &str = "attempts = 0, failures = 0, suspect = {false}, running = {false}";
