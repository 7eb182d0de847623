//! The text of each statement. None is prepared under a name: behind a pool, the next transaction
//! may be another session's.

use std::sync::LazyLock;

use crate::store::schema::{ANEW, GIVE_UP, GONE, IS_TOKENS, NOT_RUNNING, POSTGRES};

/// A run's token, as `unnest` gives it. `n` is its place.
const TOKENS: &str = "unnest($2::text[], $3::bigint[], $4::int[]) WITH ORDINALITY AS x(k, g, a, n)";
/// The condition that a row is in the blocks of the table from `$2` until before `$3`. It goes with
/// conditions that no index serves: an index's order would meet the same block again.
const IN_BLOCKS: &str = "t.ctid >= format('(%s,0)', $2)::tid AND t.ctid < format('(%s,0)', $3)::tid";
/// The columns of a [`Taken`](crate::store::Taken).
const TAKEN: &str = "t.key, t.due, t.generation, t.attempts, t.handler, octet_length(t.payload), t.suspect, t.running";

/// Each handler by itself, so that rows of the others are not even looked at.
const TAKE: &str = "
    WITH x AS MATERIALIZED (
        SELECT found.key AS k
        FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS part(handler, first, until)
        CROSS JOIN LATERAL (
            SELECT key, due FROM tourbillon_timeouts
            WHERE owner IS NULL AND handler = part.handler AND due >= part.first AND due < part.until
            ORDER BY due {order} LIMIT $5 FOR UPDATE SKIP LOCKED) AS found
        ORDER BY found.due {order} LIMIT $5)
    UPDATE tourbillon_timeouts t SET owner = $1, running = false FROM x WHERE t.key = x.k
    RETURNING {taken}";

/// `$1` is this process, unless a statement says something else.
pub(super) struct Statements {
    /// Locks rows, and passes over those that somebody else has locked.
    pub(super) lock: String,
    /// Locks rows in the order in which they are asked for, and waits for each.
    pub(super) lock_in_order: String,
    /// Which of these rows there are.
    pub(super) present: String,
    pub(super) insert: String,
    /// The same, or what changes the row if the key is there.
    pub(super) schedule: String,
    /// The same, but rows of the keys `$7` stay as they are. In one statement, so that all locks
    /// are taken in one order.
    pub(super) schedule_if_absent: String,
    pub(super) reset: String,
    pub(super) cancel: String,
    pub(super) get: String,
    pub(super) complete: String,
    pub(super) retry: String,
    pub(super) bury: String,
    pub(super) unclaim: String,
    /// Gives back rows that are not claimed.
    pub(super) give_back_some: String,
    pub(super) dead_letters: String,
    pub(super) revive: String,
    pub(super) delete_dead: String,
    pub(super) claim: String,
    /// Which rows could be claimed but for a lock.
    pub(super) claimable: String,
    /// Gives up rows of others whose leases have ended.
    pub(super) give_up: String,
    /// The same in some blocks of the table.
    pub(super) give_up_in: String,
    /// Takes rows of handlers, each between two deadlines.
    pub(super) take: String,
    /// The same, the last ones first.
    pub(super) take_backwards: String,
    pub(super) mine: String,
    /// The same in some blocks of the table.
    pub(super) mine_in: String,
    pub(super) blocks: String,
    pub(super) renew: String,
    /// Deletes the leases that ended a day ago, of processes without rows.
    pub(super) forget_gone: String,
    pub(super) give_back: String,
    pub(super) release: String,
}

pub(super) static STATEMENTS: LazyLock<Statements> = LazyLock::new(Statements::new);

impl Statements {
    fn new() -> Self {
        let could_claim = "t.key = x.k AND t.generation = x.g AND t.owner IS NOT DISTINCT FROM $1
            AND (t.attempts = x.a AND NOT t.running OR t.attempts = x.a + 1 AND t.running)";
        let text = |text: &str| {
            text.replace("{is_tokens}", IS_TOKENS)
                .replace("{key}", "x.k")
                .replace("{generation}", "x.g")
                .replace("{attempt}", "x.a")
                .replace("{owner}", "$1")
                .replace("{could_claim}", could_claim)
                .replace("{tokens}", TOKENS)
                .replace("{taken}", TAKEN)
                .replace("{not_running}", NOT_RUNNING)
                .replace("{give_up}", GIVE_UP)
                .replace("{anew}", ANEW)
                .replace("{gone}", GONE)
                .replace("{false}", "false")
                .replace("{now}", POSTGRES.now)
        };
        let insert = "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation, owner)
                 SELECT k, d, h, p, nextval('tourbillon_generations'), CASE WHEN mine THEN $1::bigint END
                 FROM unnest($2::text[], $3::bigint[], $4::text[], $5::bytea[], $6::bool[]) AS x(k, d, h, p, mine)
                 {conflict} RETURNING key, generation";
        let upsert = "ON CONFLICT (key) DO UPDATE SET due = excluded.due, handler = excluded.handler,
                     payload = excluded.payload, generation = nextval('tourbillon_generations'),
                     owner = excluded.owner, {anew}";
        Self {
            // By a join: for an array the planner may read the whole index.
            lock: text(
                "SELECT x.n FROM unnest($1::text[]) WITH ORDINALITY AS x(k, n), tourbillon_timeouts t
                 WHERE t.key = x.k FOR UPDATE OF t SKIP LOCKED",
            ),
            lock_in_order: text(
                "SELECT x.n FROM unnest($1::text[]) WITH ORDINALITY AS x(k, n), tourbillon_timeouts t
                 WHERE t.key = x.k ORDER BY x.n FOR UPDATE OF t",
            ),
            present: text(
                "SELECT x.n FROM unnest($1::text[]) WITH ORDINALITY AS x(k, n), tourbillon_timeouts t
                 WHERE t.key = x.k",
            ),
            insert: text(&insert.replace("{conflict}", "")),
            // A generation that was drawn before the row was locked may be less than the row's.
            schedule: text(&insert.replace("{conflict}", upsert)),
            schedule_if_absent: text(
                &insert
                    .replace("{conflict}", &format!("{upsert} WHERE excluded.key NOT IN (SELECT unnest($7::text[]))")),
            ),
            reset: text(
                "UPDATE tourbillon_timeouts t SET due = x.d, generation = nextval('tourbillon_generations'),
                     owner = CASE WHEN x.mine AND t.handler = ANY($2::text[]) THEN $1::bigint END, {anew}
                 FROM unnest($3::text[], $4::bigint[], $5::bool[]) WITH ORDINALITY AS x(k, d, mine, n)
                 WHERE t.key = x.k AND {not_running}
                 RETURNING x.n, t.generation, t.owner IS NOT NULL, t.handler, octet_length(t.payload)",
            ),
            cancel: text(
                "DELETE FROM tourbillon_timeouts USING unnest($1::text[]) WITH ORDINALITY AS x(k, n)
                 WHERE key = x.k AND {not_running} RETURNING x.n",
            ),
            get: text(
                "SELECT x.n, t.due, t.handler, t.payload, t.generation, t.attempts, t.running
                 FROM unnest($1::text[]) WITH ORDINALITY AS x(k, n), tourbillon_timeouts t WHERE t.key = x.k",
            ),
            complete: text("DELETE FROM tourbillon_timeouts t USING {tokens} WHERE {is_tokens} RETURNING x.n"),
            retry: text(
                "UPDATE tourbillon_timeouts t SET due = x.d, owner = CASE WHEN x.mine THEN $1::bigint END,
                     failures = failures + 1, suspect = false, running = false
                 FROM unnest($2::text[], $3::bigint[], $4::int[], $5::bigint[], $6::bool[])
                     WITH ORDINALITY AS x(k, g, a, d, mine, n)
                 WHERE {is_tokens} RETURNING x.n",
            ),
            bury: text(
                "WITH dead AS (
                     DELETE FROM tourbillon_timeouts t USING {tokens} WHERE {is_tokens}
                     RETURNING x.n, t.key, t.generation, t.due, t.handler, t.payload, t.attempts),
                 buried AS (
                     INSERT INTO tourbillon_dead_letters
                         (key, generation, due, handler, payload, attempts, died_at)
                     SELECT key, generation, due, handler, payload, attempts, {now} FROM dead)
                 SELECT n FROM dead",
            ),
            unclaim: text(
                "UPDATE tourbillon_timeouts t SET attempts = t.attempts - 1, owner = NULL, running = false
                 FROM {tokens} WHERE {is_tokens} RETURNING x.n",
            ),
            give_back_some: text(
                "UPDATE tourbillon_timeouts t SET owner = NULL FROM {tokens}
                 WHERE t.key = x.k AND t.generation = x.g AND t.attempts = x.a
                     AND t.owner IS NOT DISTINCT FROM $1 AND NOT t.running RETURNING x.n",
            ),
            dead_letters: text(
                "SELECT key, generation, due, handler, payload, attempts, died_at
                 FROM tourbillon_dead_letters ORDER BY died_at LIMIT $1",
            ),
            revive: text(
                "WITH revived AS (
                     INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation, owner)
                     SELECT key, $5, handler, payload, nextval('tourbillon_generations'),
                         CASE WHEN $6 AND handler = ANY($2::text[]) THEN $1::bigint END
                     FROM tourbillon_dead_letters WHERE key = $3 AND generation = $4
                     ON CONFLICT (key) DO NOTHING RETURNING generation, owner, handler, octet_length(payload)),
                 gone AS (
                     DELETE FROM tourbillon_dead_letters
                     WHERE key = $3 AND generation = $4 AND EXISTS (SELECT 1 FROM revived))
                 SELECT 0::bigint, generation, owner IS NOT NULL, handler, octet_length FROM revived",
            ),
            delete_dead: text(
                "DELETE FROM tourbillon_dead_letters WHERE key = $1 AND generation = $2 RETURNING generation",
            ),
            claim: text(
                "WITH x AS MATERIALIZED (
                     SELECT x.n, t.key AS k, x.g, x.a FROM {tokens}, tourbillon_timeouts t
                     WHERE {could_claim} FOR UPDATE OF t SKIP LOCKED)
                 UPDATE tourbillon_timeouts t SET running = true, attempts = x.a + 1 FROM x WHERE {could_claim}
                 RETURNING x.n, t.attempts, t.failures, t.due, t.handler, t.payload, {now}",
            ),
            claimable: text("SELECT x.n FROM {tokens}, tourbillon_timeouts t WHERE {could_claim}"),
            // An array is a constant to the planner, which then goes by the index of the owners.
            give_up: text(
                "WITH x AS MATERIALIZED (
                     SELECT key AS k FROM tourbillon_timeouts
                     WHERE owner = ANY(ARRAY({gone})) AND owner <> $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
                 UPDATE tourbillon_timeouts t SET {give_up} FROM x WHERE t.key = x.k RETURNING 1",
            ),
            give_up_in: text(&format!(
                "WITH x AS MATERIALIZED (
                     SELECT key AS k FROM tourbillon_timeouts t
                     WHERE coalesce(owner, 0) = ANY(ARRAY({{gone}})) AND coalesce(owner, 0) <> $1 AND {IN_BLOCKS}
                     FOR UPDATE SKIP LOCKED)
                 UPDATE tourbillon_timeouts t SET {{give_up}} FROM x WHERE t.key = x.k"
            )),
            take: text(&TAKE.replace("{order}", "ASC")),
            take_backwards: text(&TAKE.replace("{order}", "DESC")),
            mine: text("SELECT {taken} FROM tourbillon_timeouts t WHERE t.owner = $1"),
            mine_in: text(&format!(
                "SELECT {{taken}} FROM tourbillon_timeouts t WHERE coalesce(t.owner, 0) = $1 AND {IN_BLOCKS}"
            )),
            blocks: text("SELECT pg_relation_size('tourbillon_timeouts') / current_setting('block_size')::bigint"),
            renew: text(
                "INSERT INTO tourbillon_owners (owner, lease_until, handlers) VALUES ($1, {now} + $2, $3)
                 ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until, handlers = excluded.handlers",
            ),
            forget_gone: text(
                "DELETE FROM tourbillon_owners WHERE owner = ANY(ARRAY(
                     SELECT o.owner FROM tourbillon_owners o
                     WHERE o.lease_until < {now} - 86400000000 AND o.owner <> $1
                         AND NOT EXISTS (SELECT 1 FROM tourbillon_timeouts t WHERE t.owner = o.owner)
                     LIMIT 100 FOR UPDATE SKIP LOCKED))",
            ),
            give_back: text(
                "WITH x AS MATERIALIZED (
                     SELECT key AS k FROM tourbillon_timeouts
                     WHERE owner = $1 AND NOT running LIMIT $2 FOR UPDATE SKIP LOCKED)
                 UPDATE tourbillon_timeouts t SET owner = NULL FROM x WHERE t.key = x.k RETURNING 1",
            ),
            release: text("UPDATE tourbillon_owners SET lease_until = 0 WHERE owner = $1"),
        }
    }
}
