//! The statements of an operator. Their text is the same for both stores, but for parameters and
//! prefixes.

use super::filter::{Filter, MOST};
use crate::clock::whole_micros;
use crate::migrations::Dialect;
use crate::store::desk::{Query, Value};
use crate::store::schema::{GONE, NOT_RUNNING};

/// How many rows a list has, if its filter says nothing.
const LIMIT: u32 = 100;

/// The columns of a [`TimeoutRow`](super::TimeoutRow).
const TIMEOUT: &str = "t.key, t.due, t.handler, t.generation, t.attempts, t.failures,
    CASE WHEN {running} THEN 1 ELSE 0 END, t.owner, octet_length(t.payload)";
/// The columns of a [`DeadLetterRow`](super::DeadLetterRow).
const DEAD_LETTER: &str = "t.key, t.generation, t.due, t.handler, t.attempts, t.died_at, octet_length(t.payload)";

/// Whose rows a filter is for. In a statement the table is `t`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Timeouts,
    DeadLetters,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Timeouts => "tourbillon_timeouts",
            Self::DeadLetters => "tourbillon_dead_letters",
        }
    }
}

/// The rows that a statement is about: those of a table for which a filter holds.
pub(super) struct Rows {
    pub(super) dialect: Dialect,
    pub(super) table: Table,
    pub(super) filter: Filter,
    /// The handlers of live processes, if the filter asks for them.
    pub(super) live: Vec<String>,
}

impl Rows {
    pub(super) fn count(&self) -> Query {
        let mut text = Text::new(self.dialect);
        let which = text.conditions(self);
        text.query(&format!("SELECT count(*) FROM {} t WHERE {which}", self.table.name()))
    }

    /// In the order of keys.
    pub(super) fn list(&self) -> Query {
        let columns = if self.table == Table::Timeouts { TIMEOUT } else { DEAD_LETTER };
        self.page(columns, self.filter.limit.unwrap_or(LIMIT).min(MOST))
    }

    /// The first one, and its payload.
    pub(super) fn with_payload(&self) -> Query {
        self.page(&format!("{TIMEOUT}, t.payload"), 1)
    }

    /// The first deadlines first.
    pub(super) fn oldest(&self) -> Query {
        let mut text = Text::new(self.dialect);
        let which = text.conditions(self);
        let limit = text.bind(Value::Int(self.filter.limit.unwrap_or(LIMIT).min(MOST).into()));
        text.query(&format!(
            "SELECT {TIMEOUT} FROM tourbillon_timeouts t WHERE {which} ORDER BY t.due, t.key LIMIT {limit}"
        ))
    }

    /// The names of the next rows that are to be changed.
    pub(super) fn ids(&self) -> Query {
        self.page("t.key, t.generation", MOST)
    }

    fn page(&self, columns: &str, limit: u32) -> Query {
        let mut text = Text::new(self.dialect);
        let mut which = text.conditions(self);
        let mut order = "t.key";
        if self.table == Table::DeadLetters {
            order = "t.key, t.generation";
        }
        if let Some((key, generation)) = &self.filter.after {
            let key = text.bind(Value::Text(key.clone()));
            which += &match self.table {
                Table::Timeouts => format!(" AND t.key > {key}"),
                Table::DeadLetters => {
                    let generation = text.bind(Value::Int(*generation));
                    format!(" AND (t.key, t.generation) > ({key}, {generation})")
                }
            };
        }
        let limit = text.bind(Value::Int(limit.into()));
        text.query(&format!(
            "SELECT {columns} FROM {} t WHERE {which} ORDER BY {order} LIMIT {limit}",
            self.table.name()
        ))
    }

    pub(super) fn by_handler(&self) -> Query {
        let mut text = Text::new(self.dialect);
        let which = text.conditions(self);
        text.query(&format!(
            "SELECT t.handler, count(*),
                 sum(CASE WHEN t.due <= (SELECT {{now}}) AND NOT {{running}} THEN 1 ELSE 0 END),
                 sum(CASE WHEN {{running}} THEN 1 ELSE 0 END), min(t.due)
             FROM tourbillon_timeouts t WHERE {which} GROUP BY t.handler ORDER BY t.handler"
        ))
    }

    /// Deletes those of these timeouts that still match, and do not run. It waits for no row.
    pub(super) fn cancel(&self, ids: &[(String, i64)]) -> Vec<Query> {
        let mut text = Text::new(self.dialect);
        let keys = text.values(ids.iter().map(|(key, _)| [Value::Text(key.clone())]));
        let which = text.conditions(self);
        let delete = match self.dialect {
            Dialect::Sqlite => format!("DELETE FROM tourbillon_timeouts AS t WHERE t.key IN ({keys})"),
            Dialect::Postgres => format!(
                "WITH x AS MATERIALIZED (
                     SELECT t.key AS k FROM ({keys}) AS a(k), tourbillon_timeouts t
                     WHERE t.key = a.k FOR UPDATE OF t SKIP LOCKED)
                 DELETE FROM tourbillon_timeouts t USING x WHERE t.key = x.k"
            ),
        };
        vec![text.query(&format!("{delete} AND {which} AND {NOT_RUNNING} RETURNING 1"))]
    }

    /// Deletes these dead letters.
    pub(super) fn delete_dead(&self, ids: &[(String, i64)]) -> Vec<Query> {
        let mut text = Text::new(self.dialect);
        let these = text.ids(ids);
        vec![text.query(&format!(
            "DELETE FROM tourbillon_dead_letters AS t WHERE (t.key, t.generation) IN ({these}) RETURNING 1"
        ))]
    }

    /// Schedules these dead letters once more, after a delay. Of a key that has several, only the
    /// last one; none if the key has been scheduled since.
    pub(super) fn revive(&self, ids: &[(String, i64)], delay: i64) -> Vec<Query> {
        match self.dialect {
            Dialect::Postgres => vec![revive_at_once(ids, delay)],
            Dialect::Sqlite => revive_by_steps(ids, delay),
        }
    }
}

/// Of a key only the last one.
const LAST: &str = "NOT EXISTS (
    SELECT 1 FROM tourbillon_dead_letters l WHERE l.key = t.key AND l.generation > t.generation)";

fn revive_at_once(ids: &[(String, i64)], delay: i64) -> Query {
    let mut text = Text::new(Dialect::Postgres);
    let these = text.ids(ids);
    let delay = text.bind(Value::Int(delay));
    text.query(&format!(
        "WITH revived AS (
             INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation)
             SELECT t.key, {{now}} + {delay}, t.handler, t.payload, nextval('tourbillon_generations')
             FROM tourbillon_dead_letters t WHERE (t.key, t.generation) IN ({these}) AND {LAST}
             ORDER BY t.key COLLATE \"C\"
             ON CONFLICT (key) DO NOTHING RETURNING key),
         gone AS (
             DELETE FROM tourbillon_dead_letters t USING revived
             WHERE t.key = revived.key AND (t.key, t.generation) IN ({these}) AND {LAST})
         SELECT 1 FROM revived"
    ))
}

/// The generations that it takes are new, so they say afterwards what was revived.
fn revive_by_steps(ids: &[(String, i64)], delay: i64) -> Vec<Query> {
    let reserve = {
        let mut text = Text::new(Dialect::Sqlite);
        let count = text.bind(Value::Int(count(ids)));
        text.query(&format!("UPDATE tourbillon_generations SET last = last + {count}"))
    };
    let insert = {
        let mut text = Text::new(Dialect::Sqlite);
        let (these, count) = (text.ids(ids), text.bind(Value::Int(count(ids))));
        let delay = text.bind(Value::Int(delay));
        text.query(&format!(
            "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation)
             SELECT t.key, {{now}} + {delay}, t.handler, t.payload,
                 (SELECT last FROM tourbillon_generations) - {count} + row_number() OVER ()
             FROM tourbillon_dead_letters t WHERE (t.key, t.generation) IN ({these}) AND {LAST}
             ON CONFLICT (key) DO NOTHING RETURNING 1"
        ))
    };
    let delete = {
        let mut text = Text::new(Dialect::Sqlite);
        let (these, count) = (text.ids(ids), text.bind(Value::Int(count(ids))));
        text.query(&format!(
            "DELETE FROM tourbillon_dead_letters AS t WHERE (t.key, t.generation) IN ({these}) AND {LAST}
             AND EXISTS (
                 SELECT 1 FROM tourbillon_timeouts r
                 WHERE r.key = t.key AND r.generation > (SELECT last FROM tourbillon_generations) - {count})"
        ))
    };
    vec![reserve, insert, delete]
}

fn count(ids: &[(String, i64)]) -> i64 {
    i64::try_from(ids.len()).expect("a batch is small")
}

/// All processes that the store knows of.
pub(super) fn processes(dialect: Dialect) -> Query {
    Text::new(dialect).query(
        "SELECT p.owner, p.lease_until, CASE WHEN p.owner IN ({gone}) THEN 0 ELSE p.lease_until - {now} END, p.handlers,
             (SELECT count(*) FROM tourbillon_timeouts t WHERE t.owner = p.owner),
             (SELECT count(*) FROM tourbillon_timeouts t WHERE t.owner = p.owner AND t.running)
         FROM tourbillon_owners p ORDER BY p.lease_until DESC, p.owner",
    )
}

/// A statement that is being written.
struct Text {
    dialect: Dialect,
    values: Vec<Value>,
}

impl Text {
    fn new(dialect: Dialect) -> Self {
        Self { dialect, values: Vec::new() }
    }

    /// Returns the parameter that has this value.
    fn bind(&mut self, value: Value) -> String {
        self.values.push(value);
        let sign = if self.dialect == Dialect::Postgres { '$' } else { '?' };
        format!("{sign}{}", self.values.len())
    }

    /// Returns a table of these values.
    fn values<const N: usize>(&mut self, rows: impl Iterator<Item = [Value; N]>) -> String {
        let rows: Vec<String> = rows.map(|row| format!("({})", row.map(|value| self.bind(value)).join(", "))).collect();
        format!("VALUES {}", rows.join(", "))
    }

    fn ids(&mut self, ids: &[(String, i64)]) -> String {
        self.values(ids.iter().map(|(key, generation)| [Value::Text(key.clone()), Value::Int(*generation)]))
    }

    /// Returns what holds for the rows.
    fn conditions(&mut self, rows: &Rows) -> String {
        let Filter { key, prefix, handler, overdue, running, without_handler, .. } = &rows.filter;
        let mut all = vec!["true".to_owned()];
        if let Some(key) = key {
            all.push(format!("t.key = {}", self.bind(Value::Text(key.clone()))));
        }
        if let Some(prefix) = prefix {
            all.push(self.begins_with(prefix));
        }
        if let Some(handler) = handler {
            all.push(format!("t.handler = {}", self.bind(Value::Text(handler.clone()))));
        }
        if let Some(by) = overdue {
            // The time of the store, asked once.
            all.push(format!("t.due <= (SELECT {{now}}) - {}", self.bind(Value::Int(whole_micros(*by)))));
        }
        let is_running = if rows.table == Table::Timeouts { "{running}" } else { "false" };
        if *running == Some(true) {
            all.push(is_running.to_owned());
        }
        if *running == Some(false) || overdue.is_some() {
            all.push(format!("NOT {is_running}"));
        }
        if *without_handler && !rows.live.is_empty() {
            let live = self.values(rows.live.iter().map(|name| [Value::Text(name.clone())]));
            all.push(format!("t.handler NOT IN ({live})"));
        }
        all.join(" AND ")
    }

    /// Compares bytes, whatever the collation of the database is.
    fn begins_with(&mut self, prefix: &str) -> String {
        if prefix.is_empty() {
            return "true".to_owned();
        }
        let first = self.bind(Value::Text(prefix.to_owned()));
        match (self.dialect, behind(prefix)) {
            // By an index, if there is one in the order of bytes.
            (Dialect::Postgres, _) => format!("t.key ^@ {first}"),
            (Dialect::Sqlite, Some(behind)) => {
                format!("t.key >= {first} AND t.key < {}", self.bind(Value::Text(behind)))
            }
            (Dialect::Sqlite, None) => format!("t.key >= {first}"),
        }
    }

    fn query(self, text: &str) -> Query {
        let words = self.dialect.words();
        let text = text
            .replace("{running}", &format!("NOT coalesce({NOT_RUNNING}, false)"))
            .replace("{gone}", GONE)
            .replace("{now}", words.now)
            .replace("{false}", words.r#false);
        Query { text, values: self.values }
    }
}

/// Returns the first text, in the order of bytes, that is behind all that begin with `prefix`. In
/// UTF-8 that is the order of characters as well. `None` if nothing is behind them.
fn behind(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // The surrogates are no characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_behind_a_prefix_is_behind_all_that_begin_with_it() {
        for prefix in ["a", "a\u{7f}", "ä", "a\u{7ff}", "\u{d7ff}", "\u{ffff}", "a\u{10ffff}", "%"] {
            let behind = behind(prefix).unwrap();
            assert!(*format!("{prefix}\u{10ffff}\u{10ffff}") < *behind && !behind.starts_with(prefix), "{prefix:?}");
        }
        assert_eq!(behind("\u{10ffff}"), None);
        assert_eq!(behind("a\u{10ffff}").as_deref(), Some("b"));
    }
}
