//! Servers, databases and roles are set up in many ways. None of them changes what is promised.

#![cfg(all(unix, feature = "postgres"))]

mod support;

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use tourbillon_durable::{CommitError, Dialect, DurableTimer, Outcome, migrations};

use support::postgres::Server;
use support::runs::{FAR, Runs, ms, schedule};
use support::{Start, until};

#[test]
fn each_isolation_level_that_a_role_may_have_is_right() {
    let Some(server) = Server::start() else { return };
    for level in ["read committed", "repeatable read", "serializable"] {
        server.run_sql(&format!("ALTER ROLE postgres SET default_transaction_isolation = '{level}'"));
        let runs = Runs::default();
        let fleet: Vec<_> = (0..3).map(|_| runs.start(server.url())).collect();
        thread::scope(|scope| {
            for (member, timers) in fleet.iter().enumerate() {
                scope.spawn(move || {
                    for round in 0..10 {
                        let keys = (0..20).flat_map(|i| [format!("own:{member}:{round}:{i}"), format!("shared:{i}")]);
                        let calls = keys.map(|key| timers.schedule(&key, ms(400), "close", b"").unwrap());
                        let calls: Vec<_> = calls.collect();
                        assert!(calls.into_iter().all(|call| call.wait().is_ok()));
                    }
                });
            }
        });
        runs.wait_for("own", 600);
        until(|| server.number("SELECT count(*) FROM tourbillon_timeouts") == 0);
        runs.have_tokens_of_their_own();
        assert!(fleet.iter().all(|timers| timers.stats().store_errors == 0), "{level}");
        fleet.iter().for_each(|timers| timers.stop());
    }
}

#[test]
fn the_settings_of_a_role_change_nothing() {
    let Some(server) = Server::start() else { return };
    server.run_sql(
        "CREATE SCHEMA shop;
         ALTER ROLE postgres SET search_path = shop;
         ALTER ROLE postgres SET statement_timeout = '20ms';
         ALTER ROLE postgres SET lock_timeout = '1ms';
         ALTER ROLE postgres SET idle_in_transaction_session_timeout = '1ms';
         ALTER ROLE postgres SET default_transaction_read_only = on;
         ALTER ROLE postgres SET plan_cache_mode = force_generic_plan;
         ALTER ROLE postgres SET enable_indexscan = off;
         ALTER ROLE postgres SET bytea_output = 'escape';
         ALTER ROLE postgres SET datestyle = 'German'",
    );
    let runs = Runs::default();
    let fleet = [runs.start(server.url()), runs.start(server.url())];
    let calls: Vec<_> = (0..10_000)
        .map(|i| fleet[i % 2].schedule(&format!("due:{i}"), ms(2_000), "close", b"\\x00").unwrap())
        .collect();
    assert!(calls.into_iter().all(|call| call.wait().is_ok()));
    runs.wait_for("due", 10_000);
    assert!(runs.of("due").iter().all(|run| run.due.payload() == b"\\x00"));
    assert!(fleet.iter().all(|timers| timers.stats().store_errors == 0));
    fleet.iter().for_each(|timers| timers.stop());
}

#[test]
fn processes_that_start_at_once_make_the_tables_once() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    thread::scope(|scope| {
        (0..6).for_each(|_| drop(scope.spawn(|| drop(runs.open(server.url())))));
    });
    let last = migrations(Dialect::Postgres).last().unwrap().0;
    assert_eq!(server.number("SELECT version FROM tourbillon_schema"), last);
}

#[test]
fn a_role_with_rights_on_rows_only_works_with_tables_that_are_there() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    server.run_sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE app LOGIN");
    assert!(DurableTimer::open(server.url_of("app")).is_err(), "there are no tables");
    drop(runs.open(server.url()));
    server.run_sql(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app;
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO app",
    );
    let timers = runs.open(server.url_of("app")).handler("die", |_| Outcome::DeadLetter);
    let timers = timers.started();
    schedule(&timers, "due", ms(50));
    schedule(&timers, "cancelled", FAR);
    timers.schedule("dead", ms(50), "die", b"").unwrap().wait().unwrap();
    runs.wait_for("due", 1);
    assert!(timers.cancel("cancelled").unwrap().wait().unwrap());
    until(|| timers.stats().dead_lettered == 1);
    let letter = timers.dead_letters(1).unwrap().wait().unwrap().remove(0);
    assert!(timers.revive(&letter, FAR).unwrap().wait().unwrap());
    assert_eq!(timers.stats().store_errors, 0);
}

/// Writes rows of a process with this lease, as it leaves them behind.
fn left_behind(owner: i64, lease: &str, count: usize) -> String {
    format!(
        "INSERT INTO tourbillon_owners
             VALUES ({owner}, (extract(epoch FROM now() + interval '{lease}') * 1000000)::bigint);
         INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation, attempts, owner, running)
             SELECT 'left:' || {owner} || ':' || i, (extract(epoch FROM now()) * 1000000)::bigint, 'close', '',
                 nextval('tourbillon_generations'), i % 2, {owner}, i % 2 = 1
             FROM generate_series(1, {count}) AS i"
    )
}

#[test]
fn a_lease_that_a_wrong_clock_has_set_is_at_an_end() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    drop(runs.open(server.url()));
    server.run_sql(&left_behind(7, "1 year", 4));
    server.run_sql(&left_behind(8, "-1 second", 4));
    server.run_sql(&left_behind(9, "1 hour", 4));
    let timers = runs.start(server.url());
    runs.wait_for("left:7", 4);
    runs.wait_for("left:8", 4);
    thread::sleep(ms(2_500));
    assert!(runs.of("left:9").is_empty(), "their process may live");
    assert!(!timers.cancel("left:9:1").unwrap().wait().unwrap(), "it may run");
}

#[test]
fn a_key_that_the_server_can_t_store_is_refused_alone() {
    let Some(server) = Server::start_with("LATIN1", &[]) else { return };
    let runs = Runs::default();
    let timers = runs.start(server.url());
    let key = |i: usize| if i % 20 == 7 { format!("due:漢字:{i}") } else { format!("due:é:{i}") };
    let calls: Vec<_> = (0..200).map(|i| timers.schedule(&key(i), ms(500), "close", b"").unwrap()).collect();
    for (i, call) in calls.into_iter().enumerate() {
        let answer = call.wait();
        assert_eq!(matches!(answer, Err(CommitError::Failed(_))), i % 20 == 7, "{i}: {answer:?}");
    }
    assert!(timers.get("漢字").unwrap().wait().is_err());
    runs.wait_for("due:é", 190);
}

#[test]
fn a_row_that_the_database_refuses_is_refused_alone() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    let timers = runs.start(server.url());
    server.run_sql("ALTER TABLE tourbillon_timeouts ADD CHECK (key NOT LIKE '%:1_')");
    let calls: Vec<_> =
        (0..200).map(|i| timers.schedule(&format!("due:{i}"), ms(500), "close", b"").unwrap()).collect();
    let refused = calls.into_iter().map(|call| call.wait()).filter(Result::is_err).count();
    assert_eq!(refused, 10);
    runs.wait_for("due", 190);
}

#[test]
fn a_row_that_can_t_be_read_is_set_aside() {
    let Some(server) = Server::start_with("SQL_ASCII", &[]) else { return };
    let runs = Runs::default();
    let timers = runs.start(server.url());
    // Such a server stores what other programs send as it is.
    server.run_sql(
        "SET client_encoding = 'SQL_ASCII';
         INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation)
             VALUES ('due:before', 1, 'close', '', 0), (E'bad:\\xff', 1, 'close', '', 0), ('due:behind', 1, 'close', '', 0)",
    );
    schedule(&timers, "due:é", ms(500));
    runs.wait_for("due", 3);
    until(|| timers.stats().set_aside > 0);
}

/// Makes one block of a file unreadable.
fn damage(file: &Path, block: u64) {
    let mut file = File::options().write(true).open(file).unwrap();
    // Where its free space begins, which can't be there.
    file.seek(SeekFrom::Start(block * 8_192 + 12)).unwrap();
    file.write_all(&[0xff; 4]).unwrap();
}

/// Makes one block of the table unreadable.
fn damage_table(server: &mut Server, block: u64) {
    let mut client = server.connect().unwrap();
    let file = client.query_one("SELECT pg_relation_filepath('tourbillon_timeouts')", &[]).unwrap();
    // The server repeats all later writes when it starts again, and so repairs their blocks.
    client.batch_execute("CHECKPOINT").unwrap();
    server.stop();
    damage(&server.directory().join("data").join(file.get::<_, &str>(0)), block);
    server.start_again();
    assert!(server.connect().unwrap().query("SELECT sum(due) FROM tourbillon_timeouts", &[]).is_err());
}

#[test]
fn a_damaged_block_of_the_table_takes_only_its_own_rows_with_it() {
    let Some(mut server) = Server::start() else { return };
    let runs = Runs::default();
    let timers = runs.open(server.url()).window(ms(8_000)).started();
    // Every other one is in the wheel when it happens, and the rest is scanned later.
    let calls: Vec<_> = (0..1_000)
        .map(|i| {
            let delay = ms(if i % 2 == 0 { 6_000 } else { 14_000 } + i);
            timers.schedule(&format!("due:{i:04}"), delay, "close", b"").unwrap()
        })
        .collect();
    assert!(calls.into_iter().all(|call| call.wait().is_ok()));
    // Rows move while they are taken. To read them tidies their blocks up.
    thread::sleep(ms(1_000));
    assert_eq!(server.number("SELECT count(*) FROM tourbillon_timeouts"), 1_000);
    damage_table(&mut server, 3);

    // The block has some seventy rows, and places where rows were.
    until(|| runs.of("due").len() > 900);
    assert!(timers.stats().set_aside > 0);
    schedule(&timers, "later", ms(100));
    runs.wait_for("later", 1);
}

#[test]
fn a_damaged_block_leaves_the_other_rows_of_a_dead_process_to_others() {
    let Some(mut server) = Server::start() else { return };
    let runs = Runs::default();
    drop(runs.open(server.url()));
    server.run_sql(&left_behind(7, "-1 second", 1_000));
    assert_eq!(server.number("SELECT count(*) FROM tourbillon_timeouts"), 1_000);
    damage_table(&mut server, 3);
    let timers = runs.start(server.url());
    // One of them in two was claimed, and such rows run one at a time.
    until(|| runs.of("left").len() > 800);
    assert!(timers.stats().set_aside > 0);
}

/// The tables of the first version, with a row for each state.
const FIRST: &str = "
    CREATE TABLE tourbillon_schema (version BIGINT NOT NULL);
    INSERT INTO tourbillon_schema VALUES (1);
    CREATE TABLE tourbillon_timeouts (
        key TEXT NOT NULL PRIMARY KEY, due BIGINT NOT NULL, handler TEXT NOT NULL, payload BYTEA NOT NULL,
        generation BIGINT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, owner BIGINT,
        running BOOLEAN NOT NULL DEFAULT false);
    CREATE INDEX tourbillon_timeouts_due ON tourbillon_timeouts (due) WHERE owner IS NULL;
    CREATE INDEX tourbillon_timeouts_owner ON tourbillon_timeouts (owner) WHERE owner IS NOT NULL;
    CREATE TABLE tourbillon_owners (owner BIGINT NOT NULL PRIMARY KEY, lease_until BIGINT NOT NULL);
    CREATE TABLE tourbillon_dead_letters (
        key TEXT NOT NULL, generation BIGINT NOT NULL, due BIGINT NOT NULL, handler TEXT NOT NULL,
        payload BYTEA NOT NULL, attempts INTEGER NOT NULL, died_at BIGINT NOT NULL, PRIMARY KEY (key, generation));
    CREATE INDEX tourbillon_dead_letters_died_at ON tourbillon_dead_letters (died_at);
    CREATE SEQUENCE tourbillon_generations START 100;
    INSERT INTO tourbillon_owners VALUES (3, 1);
    INSERT INTO tourbillon_timeouts VALUES
        ('due:free', 1, 'close', 'paid', 1, 0, NULL, false), ('due:held', 1, 'close', 'paid', 2, 0, 3, false),
        ('due:ran', 1, 'close', 'paid', 3, 2, 3, true), ('far', 4000000000000000, 'close', 'paid', 4, 0, NULL, false);
    INSERT INTO tourbillon_dead_letters VALUES ('dead', 5, 1, 'close', 'paid', 20, 1);";

#[test]
fn a_store_of_the_first_version_is_brought_up_to_date() {
    let Some(server) = Server::start() else { return };
    server.run_sql(FIRST);
    let runs = Runs::default();
    let timers = runs.start(server.url());
    runs.wait_for("due", 3);
    assert!(runs.of("due").iter().all(|run| run.due.payload() == b"paid"));
    assert_eq!(runs.of("due:ran")[0].due.attempt(), 3);
    assert!(timers.reset("far", Duration::ZERO).unwrap().wait().unwrap());
    let letter = timers.dead_letters(1).unwrap().wait().unwrap().remove(0);
    assert!(timers.revive(&letter, Duration::ZERO).unwrap().wait().unwrap());
    runs.wait_for("", 5);
    server.run_sql("SELECT tourbillon_schedule('sql', '0', 'close')");
    runs.wait_for("sql", 1);
    timers.stop();
    server.run_sql("UPDATE tourbillon_schema SET version = 1000");
    let newer = DurableTimer::open(server.url()).unwrap_err();
    assert!(newer.to_string().contains("1000"), "{newer}");
}
