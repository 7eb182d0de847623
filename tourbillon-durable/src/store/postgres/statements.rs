//! The statements, prepared once for a connection.

use postgres::{Client, Statement};

use crate::store::schema::{ABANDONED, NOT_RUNNING};

/// The server's clock, in microseconds.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
pub(super) struct Statements {
    pub(super) lock: Statement,
    pub(super) schedule: Statement,
    pub(super) reset: Statement,
    pub(super) cancel: Statement,
    pub(super) get: Statement,
    pub(super) complete: Statement,
    pub(super) retry: Statement,
    pub(super) bury: Statement,
    pub(super) unclaim: Statement,
    pub(super) claim: Statement,
    pub(super) scan: Statement,
    pub(super) renew: Statement,
}

/// Locks rows in one order for all processes, which that of an update's join is not. It finds them
/// by a join, as with an array the planner may read the whole index.
const LOCK: &str = "SELECT 1 FROM unnest($1::text[]) AS x(k), tourbillon_timeouts t WHERE t.key = x.k
     ORDER BY t.key COLLATE \"C\" FOR UPDATE OF t";
/// A run's token, as `unnest` gives it.
const TOKEN: &str = "unnest($1::text[], $2::bigint[], $3::int[]) AS x(k, g, a)";
/// That the row is still that of the token. `$4` is the owner, by an operator that no index has: a
/// process may own most of the rows, and this is to find a few by their keys.
const IS_TOKENS: &str =
    "t.key = x.k AND t.generation = x.g AND t.attempts = x.a AND t.owner IS NOT DISTINCT FROM $4 AND t.running";

impl Statements {
    pub(super) fn prepare(client: &mut Client) -> Result<Self, postgres::Error> {
        let mut prepare = |text: String| client.prepare(&text.replace("{now}", NOW));
        Ok(Self {
            lock: prepare(LOCK.to_owned())?,
            schedule: prepare(
                "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation, owner)
                 SELECT k, d, h, p, nextval('tourbillon_generations'), CASE WHEN mine THEN $6::bigint END
                 FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[], $5::bool[]) AS x(k, d, h, p, mine)
                 ON CONFLICT (key) DO UPDATE SET due = excluded.due, handler = excluded.handler,
                     payload = excluded.payload, generation = nextval('tourbillon_generations'),
                     attempts = 0, owner = excluded.owner, running = false
                 RETURNING key, generation"
                    .to_owned(),
            )?,
            reset: prepare(format!(
                "UPDATE tourbillon_timeouts t SET due = x.d, generation = nextval('tourbillon_generations'),
                     attempts = 0, running = false,
                     owner = CASE WHEN x.mine AND t.handler = ANY($5::text[]) THEN $4::bigint END
                 FROM unnest($1::text[], $2::bigint[], $3::bool[]) AS x(k, d, mine)
                 WHERE t.key = x.k AND {NOT_RUNNING}
                 RETURNING t.key, t.generation, t.owner IS NOT NULL"
            ))?,
            cancel: prepare(format!(
                "DELETE FROM tourbillon_timeouts USING unnest($1::text[]) AS x(k)
                 WHERE key = x.k AND {NOT_RUNNING} RETURNING key"
            ))?,
            get: prepare(
                "SELECT key, due, handler, payload, generation, attempts, running
                 FROM tourbillon_timeouts WHERE key = ANY($1::text[])"
                    .to_owned(),
            )?,
            complete: prepare(format!(
                "DELETE FROM tourbillon_timeouts t USING {TOKEN} WHERE {IS_TOKENS} RETURNING t.key"
            ))?,
            retry: prepare(format!(
                "UPDATE tourbillon_timeouts t SET due = x.d, running = false,
                     owner = CASE WHEN x.mine THEN $4::bigint END
                 FROM unnest($1::text[], $2::bigint[], $3::int[], $5::bigint[], $6::bool[]) AS x(k, g, a, d, mine)
                 WHERE {IS_TOKENS} RETURNING t.key"
            ))?,
            bury: prepare(format!(
                "WITH dead AS (
                     DELETE FROM tourbillon_timeouts t USING {TOKEN} WHERE {IS_TOKENS}
                     RETURNING t.key, t.generation, t.due, t.handler, t.payload, t.attempts)
                 INSERT INTO tourbillon_dead_letters
                 SELECT key, generation, due, handler, payload, attempts, {{now}} FROM dead RETURNING key"
            ))?,
            unclaim: prepare(format!(
                "UPDATE tourbillon_timeouts t SET attempts = t.attempts - 1, owner = NULL, running = false
                 FROM {TOKEN} WHERE {IS_TOKENS} RETURNING t.key"
            ))?,
            claim: prepare(format!(
                "WITH x AS MATERIALIZED (
                     SELECT t.key AS k, x.g, x.a FROM {TOKEN}, tourbillon_timeouts t WHERE t.key = x.k
                     ORDER BY t.key COLLATE \"C\" FOR UPDATE OF t)
                 UPDATE tourbillon_timeouts t SET running = true, attempts = x.a + 1 FROM x
                 WHERE t.key = x.k AND t.generation = x.g AND t.owner IS NOT DISTINCT FROM $4
                     AND (t.attempts = x.a AND NOT t.running OR t.attempts = x.a + 1 AND t.running)
                 RETURNING t.key, t.generation, t.attempts, t.due, t.handler, t.payload, {{now}}"
            ))?,
            // One statement, so that an idle process asks once for each scan.
            scan: prepare(format!(
                "WITH overdue AS (
                     SELECT key FROM tourbillon_timeouts
                     WHERE owner IS NULL AND due < $3 AND handler = ANY($2::text[])
                     ORDER BY due LIMIT $4 FOR UPDATE SKIP LOCKED),
                 soon AS (
                     SELECT key FROM tourbillon_timeouts
                     WHERE owner IS NULL AND due >= $3 AND due < $5 AND handler = ANY($2::text[])
                     ORDER BY due LIMIT $6 FOR UPDATE SKIP LOCKED),
                 orphans AS (
                     SELECT key FROM tourbillon_timeouts
                     WHERE owner IS NOT NULL AND owner <> $1 AND {} AND handler = ANY($2::text[])
                     LIMIT $6 FOR UPDATE SKIP LOCKED),
                 found AS (SELECT key FROM overdue UNION ALL SELECT key FROM soon UNION ALL SELECT key FROM orphans),
                 lease AS (
                     INSERT INTO tourbillon_owners SELECT $1, {{now}} + $7 WHERE EXISTS (SELECT 1 FROM found)
                     ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until)
                 UPDATE tourbillon_timeouts t SET owner = $1, running = false FROM found WHERE t.key = found.key
                 RETURNING t.key, t.due, t.generation, t.attempts, t.running",
                // An array is a constant to the planner, so it goes by the index.
                ABANDONED.replace("IN (", "= ANY (ARRAY(") + ")"
            ))?,
            // Who has been gone for a day has no rows any more.
            renew: prepare(
                "WITH gone AS (
                     DELETE FROM tourbillon_owners o WHERE lease_until < {now} - 86400000000
                     AND NOT EXISTS (SELECT 1 FROM tourbillon_timeouts t WHERE t.owner = o.owner))
                 INSERT INTO tourbillon_owners VALUES ($1, {now} + $2)
                 ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until"
                    .to_owned(),
            )?,
        })
    }
}
