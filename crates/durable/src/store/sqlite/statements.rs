//! The statements that share their conditions with PostgreSQL's. `{now}` is the function that asks
//! the injected clock, or a parameter behind the others.

use crate::store::schema::{ANEW, GIVE_UP, GONE, IS_TOKENS, NOT_RUNNING, SQLITE};

pub(crate) struct Statements {
    /// Key, due, handler, payload, generation, owner.
    pub(crate) schedule: String,
    pub(super) schedule_if_absent: String,
    /// Key, due, generation, owner.
    pub(crate) reset: String,
    pub(crate) cancel: String,
    /// These begin with the four parameters of a token: key, generation, attempt, owner.
    pub(super) complete: String,
    /// Due, owner.
    pub(super) retry: String,
    pub(super) copy_to_dead: String,
    pub(super) unclaim: String,
    /// The others whose leases have ended. Owner.
    pub(super) gone: String,
    /// Rowid.
    pub(super) give_up: String,
}

impl Statements {
    /// `now` is the text that asks for the time.
    pub(crate) fn new(now: &str) -> Self {
        let token = IS_TOKENS
            .replace("{key}", "?1")
            .replace("{generation}", "?2")
            .replace("{attempt}", "?3")
            .replace("{owner}", "?4");
        let not_running = NOT_RUNNING.replace("{gone}", GONE);
        let fill = |text: String| text.replace("{now}", now).replace("{false}", SQLITE.r#false);
        let insert = "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation, owner)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        Self {
            schedule_if_absent: format!("{insert} ON CONFLICT (key) DO NOTHING"),
            schedule: fill(format!(
                "{insert}
                 ON CONFLICT (key) DO UPDATE SET due = excluded.due, handler = excluded.handler,
                     payload = excluded.payload, generation = excluded.generation, owner = excluded.owner, {ANEW}"
            )),
            reset: fill(format!(
                "UPDATE tourbillon_timeouts SET due = ?2, generation = ?3, owner = ?4, {ANEW}
                 WHERE key = ?1 AND {not_running} RETURNING handler, octet_length(payload)"
            )),
            cancel: fill(format!("DELETE FROM tourbillon_timeouts WHERE key = ?1 AND {not_running}")),
            complete: format!("DELETE FROM tourbillon_timeouts WHERE {token}"),
            retry: format!(
                "UPDATE tourbillon_timeouts SET due = ?5, owner = ?6, failures = failures + 1, suspect = 0, running = 0
                 WHERE {token}"
            ),
            copy_to_dead: fill(format!(
                "INSERT INTO tourbillon_dead_letters (key, generation, due, handler, payload, attempts, died_at)
                 SELECT key, generation, due, handler, payload, attempts, {{now}}
                 FROM tourbillon_timeouts WHERE {token}"
            )),
            unclaim: format!(
                "UPDATE tourbillon_timeouts SET attempts = attempts - 1, owner = NULL, running = 0 WHERE {token}"
            ),
            gone: fill(format!("SELECT owner FROM ({GONE}) WHERE owner <> ?1")),
            give_up: fill(format!("UPDATE tourbillon_timeouts SET {GIVE_UP} WHERE rowid = ?1")),
        }
    }
}
