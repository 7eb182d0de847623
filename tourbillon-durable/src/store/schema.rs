//! The tables, and how those of an earlier version become those of this one.
//!
//! The text is the same for both stores, but for the names of three types.

/// Each entry leads from its index to the next number. Never change one that was released: add one.
const MIGRATIONS: &[&str] = &["
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
"];

/// What the stores write differently.
pub(super) struct Dialect {
    pub(super) bytes: &'static str,
    pub(super) bool: &'static str,
    pub(super) r#false: &'static str,
    /// What hands out generations.
    pub(super) generations: &'static str,
}

/// The number that a store has when it is up to date.
pub(super) fn current() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("a few migrations")
}

/// Returns the statements that lead from schema `found` to the current one, each with the number
/// that it leads to.
pub(super) fn migrations(found: i64, dialect: &Dialect) -> impl Iterator<Item = (i64, String)> + '_ {
    MIGRATIONS.iter().zip(1..).filter(move |&(_, number)| number > found).map(|(text, number)| {
        let text = text
            .replace("{bytes}", dialect.bytes)
            .replace("{bool}", dialect.bool)
            .replace("{false}", dialect.r#false)
            .replace("{generations}", dialect.generations);
        (number, text)
    })
}

/// That nobody has a row, or only one whose lease has ended. `{now}` is the store's clock.
pub(super) const ABANDONED: &str = "owner IN (SELECT o.owner FROM tourbillon_owners o WHERE o.lease_until < {now})";

/// That a run under a lease has a row. Then it is neither cancelled nor moved.
pub(super) const NOT_RUNNING: &str =
    "(NOT running OR owner IN (SELECT o.owner FROM tourbillon_owners o WHERE o.lease_until < {now}))";
