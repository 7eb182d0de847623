//! PostgreSQL finds rows by their keys, also in a table that has grown since it was last analyzed.

#![cfg(all(unix, feature = "postgres"))]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use support::postgres::Server;
use support::{PATIENCE, Start};
use tourbillon_durable::{DurableTimer, Outcome};

const FAR: Duration = Duration::from_secs(3_600);
const ROWS: i64 = 50_000;

/// Has each kind of statement carried out once, and some several times.
fn use_all(timers: &DurableTimer, client: &mut Client) {
    let completed = timers.stats().completed;
    timers.schedule("order:1", FAR, "close", b"").unwrap().wait().unwrap();
    assert!(timers.get("order:1").unwrap().wait().unwrap().is_some());
    assert!(timers.reset("order:1", FAR).unwrap().wait().unwrap());
    assert!(timers.cancel("order:1").unwrap().wait().unwrap());
    let in_the_window = Duration::from_secs(20);
    for was_absent in [true, false] {
        let call = timers.schedule_if_absent("order:3", in_the_window, "close", b"").unwrap();
        assert_eq!(call.wait().unwrap().is_some(), was_absent);
    }
    // It gives the row back.
    timers.pause("close").unwrap();
    assert!(timers.cancel("order:3").unwrap().wait().unwrap());
    timers.resume("close").unwrap();
    for call in ["schedule('order:1', '1 h', 'close')", "reset('order:1', '1 h')", "cancel('order:1')"] {
        client.query(&format!("SELECT tourbillon_{call}"), &[]).unwrap();
    }
    timers.schedule("order:2", Duration::ZERO, "close", b"").unwrap().wait().unwrap();
    let begun = Instant::now();
    while timers.stats().completed == completed {
        assert!(begun.elapsed() < PATIENCE, "it has not run");
        thread::sleep(Duration::from_millis(5));
    }
}

/// How many rows of the table were read so far, which makes some changes at first.
fn rows_read(client: &mut Client, timers: &DurableTimer) -> i64 {
    // Sessions report what they have done once a second.
    thread::sleep(Duration::from_millis(1_500));
    use_all(timers, client);
    thread::sleep(Duration::from_millis(1_500));
    let sum = "SELECT (seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables
         WHERE relname = 'tourbillon_timeouts'";
    client.query_one(sum, &[]).unwrap().get(0)
}

#[test]
fn a_table_that_has_just_grown_is_not_read_from_end_to_end() {
    let Some(server) = Server::start() else { return };
    let timers = DurableTimer::open(server.url()).unwrap().handler("close", |_due| Outcome::Done).started();
    let mut client = server.connect().unwrap();
    client.batch_execute("ALTER TABLE tourbillon_timeouts SET (autovacuum_enabled = false)").unwrap();
    timers.schedule("kept", FAR, "close", b"").unwrap().wait().unwrap();
    client.batch_execute("VACUUM ANALYZE tourbillon_timeouts").unwrap();
    // After the fifth time the server may keep a plan, for a table of one page.
    for _ in 0..8 {
        use_all(&timers, &mut client);
    }
    // Half of them belong to a process that is there.
    let fill = "INSERT INTO tourbillon_timeouts
         (key, due, handler, payload, generation, attempts, owner)
         SELECT 'other:' || i, 4000000000000000, 'close', '', i, 0, CASE WHEN i % 2 = 0 THEN o.owner END
         FROM generate_series(1, $1::bigint) AS i, (SELECT max(owner) AS owner FROM tourbillon_owners) AS o";
    client.execute(fill, &[&ROWS]).unwrap();
    let mut read = || rows_read(&mut client, &timers);
    let before = read();
    let after = read();
    assert!(after - before < ROWS, "{} rows were read for a few", after - before);
}

#[test]
fn overdue_rows_of_handlers_that_no_process_has_are_not_looked_at() {
    let Some(server) = Server::start() else { return };
    let open = DurableTimer::open(server.url()).unwrap().handler("close", |_due| Outcome::Done);
    let timers = open.window(Duration::from_millis(500)).started();
    let mut client = server.connect().unwrap();
    let fill = "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation)
         SELECT 'other:' || i, i, 'renamed', '', i FROM generate_series(1, $1::bigint) AS i";
    client.execute(fill, &[&ROWS]).unwrap();
    // It scans four times a second.
    let before = rows_read(&mut client, &timers);
    let after = rows_read(&mut client, &timers);
    assert!(timers.stats().scans > 10);
    assert!(after - before < 1_000, "{} rows were read for a few", after - before);
    timers.stop();
}
