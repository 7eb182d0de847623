//! An operator beside processes on PostgreSQL: collations, locks, rights, and a server that ends.

#![cfg(all(unix, feature = "postgres"))]

mod support;

use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use tourbillon_durable::{Dialect, DurableTimer, Filter, OpenError, Operator, OperatorError, Outcome, migrations};

use support::postgres::Server;
use support::{PATIENCE, Start, Started};

const HOUR: Duration = Duration::from_secs(3_600);

fn start(url: &str) -> Started {
    DurableTimer::open(url).unwrap().handler("work", |_due| Outcome::Done).started()
}

fn schedule(timers: &DurableTimer, key: &str) {
    timers.schedule(key, HOUR, "work", b"").unwrap().wait().unwrap();
}

fn keys(operator: &Operator, filter: &Filter) -> Vec<String> {
    let mut keys: Vec<_> = operator.list(filter).unwrap().into_iter().map(|row| row.key).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn prefixes_and_pages_are_right_in_a_collation_of_a_language() {
    let Some(server) = Server::start() else { return };
    // Here "ä" is between "a" and "b", case and punctuation come last, and "ch" is a letter.
    server.run_sql(
        "CREATE DATABASE words TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'
             LOCALE_PROVIDER icu ICU_LOCALE 'cs-u-ka-shifted'",
    );
    let url = server.url().replace("/postgres", "/words").replace("//words", "//postgres");
    let mut client = Client::connect(&url, NoTls).unwrap();
    assert!(client.query_one("SELECT 'a' < 'ä' AND 'ä' < 'b' AND 'h' < 'ch'", &[]).unwrap().get::<_, bool>(0));
    let timers = start(&url);
    let all = [
        "a",
        "ä",
        "äb",
        "A",
        "a-b",
        "ab",
        "a:b",
        "a%",
        "a_",
        "a\\",
        "a\u{308}",
        "c",
        "ch",
        "cha",
        "chb",
        "h",
        "c h",
        "C",
        "Ch",
        "\u{10ffff}",
    ];
    all.iter().for_each(|key| schedule(&timers, key));
    let operator = Operator::open(&url).unwrap();
    for prefix in all.iter().chain(&["", "a-", "%", "_", "b"]) {
        let mut expected: Vec<_> = all.into_iter().filter(|key| key.starts_with(prefix)).collect();
        expected.sort_unstable();
        assert_eq!(keys(&operator, &Filter::new().prefix(*prefix)), expected, "{prefix:?}");
        // The same by pages.
        let (mut filter, mut found) = (Filter::new().prefix(*prefix).limit(3), Vec::new());
        while let Some(last) = operator.list(&filter).unwrap().last() {
            found.append(&mut keys(&operator, &filter));
            filter = filter.after(&last.key);
        }
        found.sort_unstable();
        assert_eq!(found, expected, "{prefix:?}");
    }
    assert_eq!(operator.cancel(&Filter::new().prefix("c")).unwrap().cancelled, 5);
    assert_eq!(operator.cancel(&Filter::new().prefix("ä")).unwrap().cancelled, 2);
    assert_eq!(operator.count(&Filter::new()).unwrap(), all.len() as u64 - 7);
}

#[test]
fn a_row_that_somebody_has_locked_holds_up_no_other() {
    let Some(server) = Server::start() else { return };
    let timers = start(&server.url());
    ["a:1", "a:2", "a:3"].iter().for_each(|key| schedule(&timers, key));
    let mut client = server.connect().unwrap();
    let mut transaction = client.transaction().unwrap();
    transaction.execute("SELECT 1 FROM tourbillon_timeouts WHERE key = 'a:2' FOR UPDATE", &[]).unwrap();
    let operator = Operator::open(server.url()).unwrap();
    let begun = Instant::now();
    let done = operator.cancel(&Filter::new().prefix("a:")).unwrap();
    assert_eq!((done.cancelled, done.left), (2, 1));
    assert!(begun.elapsed() < PATIENCE / 2);
    transaction.rollback().unwrap();
    let done = operator.cancel(&Filter::new().prefix("a:")).unwrap();
    assert_eq!((done.cancelled, done.left), (1, 0));
}

#[test]
fn a_role_that_may_only_read_sees_all_and_changes_nothing() {
    let Some(server) = Server::start() else { return };
    let timers = start(&server.url());
    schedule(&timers, "a");
    server.run_sql("CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader");
    let operator = Operator::open(server.url_of("reader")).unwrap();
    assert_eq!(keys(&operator, &Filter::new()), ["a"]);
    assert_eq!(operator.handlers(&Filter::new()).unwrap().len(), 1);
    assert!(operator.processes().unwrap().len() <= 1);
    let error = operator.cancel(&Filter::new()).unwrap_err();
    assert!(matches!(&error, OperatorError::Store { changed: 0, .. }), "{error:?}");
    assert!(error.to_string().contains("permission denied"), "{error}");
    assert_eq!(operator.count(&Filter::new()).unwrap(), 1);
}

#[test]
fn a_team_makes_the_tables_by_its_own_tool() {
    let Some(server) = Server::start() else { return };
    server.run_sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE app LOGIN");
    for (number, sql) in migrations(Dialect::Postgres) {
        match Operator::open(server.url()) {
            Err(OpenError::OlderSchema { found, .. }) => assert_eq!(found, number - 1),
            other => panic!("{other:?}"),
        }
        server.run_sql(&format!("BEGIN; {sql} COMMIT"));
        assert_eq!(server.number("SELECT version FROM tourbillon_schema"), number);
    }
    server.run_sql(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app;
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO app",
    );
    let timers = start(&server.url_of("app"));
    schedule(&timers, "a");
    let operator = Operator::open(server.url_of("app")).unwrap();
    assert_eq!(operator.cancel(&Filter::new().key("a")).unwrap().cancelled, 1);
    assert_eq!(timers.stats().store_errors, 0);
}

#[test]
fn an_operator_goes_on_after_a_crash_of_the_server() {
    let Some(mut server) = Server::start() else { return };
    let timers = start(&server.url());
    schedule(&timers, "a");
    let operator = Operator::open(server.url()).unwrap();
    server.stop();
    let error = operator.count(&Filter::new()).unwrap_err();
    assert!(matches!(error, OperatorError::Store { .. }), "{error:?}");
    server.start_again();
    assert_eq!(operator.count(&Filter::new()).unwrap(), 1);
    server.restart();
    assert_eq!(operator.cancel(&Filter::new().key("a")).unwrap().cancelled, 1);
}

#[test]
fn the_settings_of_a_role_change_nothing_for_an_operator() {
    let Some(server) = Server::start() else { return };
    server.run_sql(
        "ALTER ROLE postgres SET statement_timeout = '20ms';
         ALTER ROLE postgres SET idle_in_transaction_session_timeout = '1ms';
         ALTER ROLE postgres SET default_transaction_read_only = on;
         ALTER ROLE postgres SET default_transaction_isolation = 'serializable';
         ALTER ROLE postgres SET standard_conforming_strings = off",
    );
    let timers = start(&server.url());
    let calls: Vec<_> = (0..1_000).map(|i| timers.schedule(&format!("a\\{i}"), HOUR, "work", b"").unwrap()).collect();
    calls.into_iter().for_each(|call| assert!(call.wait().is_ok()));
    let operator = Operator::open(server.url()).unwrap();
    assert_eq!(operator.count(&Filter::new().prefix("a\\")).unwrap(), 1_000);
    assert_eq!(operator.cancel(&Filter::new().prefix("a\\")).unwrap().cancelled, 1_000);
}

#[test]
fn a_row_that_the_server_can_t_send_fails_only_the_calls_that_meet_it() {
    let Some(server) = Server::start_with("SQL_ASCII", &[]) else { return };
    let timers = start(&server.url());
    ["ä:1", "ä:2", "a:1"].iter().for_each(|key| schedule(&timers, key));
    server.run_sql(
        r"INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation)
          VALUES (E'\xe4:1', 4000000000000000, 'work', '', 1000)",
    );
    let operator = Operator::open(server.url()).unwrap();
    let error = operator.list(&Filter::new()).unwrap_err().to_string();
    assert!(error.contains("invalid byte sequence"), "{error}");
    assert_eq!(keys(&operator, &Filter::new().prefix("ä:")), ["ä:1", "ä:2"]);
    assert_eq!(operator.count(&Filter::new()).unwrap(), 4);
    assert_eq!(operator.cancel(&Filter::new().prefix("ä:")).unwrap().cancelled, 2);
}
