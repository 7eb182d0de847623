//! Somebody else's lock holds up only the keys that it covers. Calls for those are answered in
//! time.

#![cfg(all(unix, feature = "postgres"))]

mod support;

use std::thread;
use std::time::Instant;

use postgres::Client;
use tourbillon_durable::{CommitError, Outcome};

use support::postgres::Server;
use support::runs::{FAR, LATE, Runs, ms, schedule};
use support::{Start, until};

/// Takes a lock as somebody at a console would, and keeps it until the client goes.
fn lock(server: &Server, statement: &str) -> Client {
    let mut client = server.connect().unwrap();
    client.batch_execute(&format!("BEGIN; {statement}")).unwrap();
    client
}

fn lock_row(server: &Server, key: &str) -> Client {
    lock(server, &format!("SELECT key FROM tourbillon_timeouts WHERE key = '{key}' FOR UPDATE"))
}

#[test]
fn a_locked_row_makes_no_other_late_in_a_fleet() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    let fleet = [runs.start(server.url()), runs.start(server.url())];
    schedule(&fleet[0], "victim", ms(1_500));
    let locked = lock_row(&server, "victim");
    // More than a lease passes until the lock goes.
    for second in 0..8 {
        for (member, timers) in fleet.iter().enumerate() {
            let begun = Instant::now();
            schedule(timers, &format!("other:{member}:{second}"), ms(1_000));
            assert!(begun.elapsed() < LATE, "an answer took {:?}", begun.elapsed());
        }
        thread::sleep(LATE);
    }
    runs.are_in_time("other", 16);
    assert!(runs.of("victim").is_empty(), "it was locked");
    drop(locked);
    runs.wait_for("victim", 1);
    let lost: u64 = fleet.iter().map(|timers| timers.stats().stale_completions).sum();
    assert_eq!(lost, 0);
}

#[test]
fn calls_for_a_locked_row_are_carried_out_when_the_lock_goes_and_answered_when_it_stays() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    let timers = runs.open(server.url()).started_within(ms(2_000));
    for key in ["scheduled", "reset", "cancelled"] {
        schedule(&timers, key, FAR);
    }
    let all = || {
        let scheduled = timers.schedule("scheduled", FAR, "close", b"again").unwrap();
        let reset = timers.reset("reset", FAR).unwrap();
        let cancelled = timers.cancel("cancelled").unwrap();
        (scheduled, reset, cancelled)
    };

    let locked = lock(&server, "SELECT key FROM tourbillon_timeouts FOR UPDATE");
    let (begun, (scheduled, reset, cancelled)) = (Instant::now(), all());
    let answers = [scheduled.wait().map(drop), reset.wait().map(drop), cancelled.wait().map(drop)];
    assert!(begun.elapsed() < ms(3_000), "the answers took {:?}", begun.elapsed());
    for answer in answers {
        assert!(matches!(answer, Err(CommitError::Failed(_) | CommitError::Unknown(_))), "{answer:?}");
    }
    drop(locked);

    // A call that was withdrawn is not carried out later.
    thread::sleep(ms(500));
    assert_eq!(timers.get("scheduled").unwrap().wait().unwrap().unwrap().payload, b"");
    assert!(timers.get("cancelled").unwrap().wait().unwrap().is_some());
    let locked = lock(&server, "SELECT key FROM tourbillon_timeouts FOR UPDATE");
    let (scheduled, reset, cancelled) = all();
    thread::sleep(ms(700));
    drop(locked);
    scheduled.wait().unwrap();
    assert!(reset.wait().unwrap() && cancelled.wait().unwrap());
}

#[test]
fn keys_that_an_open_transaction_has_inserted_hold_up_no_other_keys() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    let timers = runs.open(server.url()).started_within(ms(3_000));
    let insert = "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation)
        SELECT 'victim:' || i, 1, 'elsewhere', '', i FROM generate_series(1, 5) AS i";
    let inserted = lock(&server, insert);
    let victims: Vec<_> =
        (1..=5).map(|i| timers.schedule(&format!("victim:{i}"), FAR, "close", b"").unwrap()).collect();
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < ms(2_500) {
        let sent = Instant::now();
        schedule(&timers, &format!("other:{count}"), ms(100));
        assert!(sent.elapsed() < LATE, "an answer took {:?}", sent.elapsed());
        count += 1;
    }
    assert!(count > 5, "{count} calls were answered");
    for victim in victims {
        assert!(victim.wait().is_err(), "it is locked");
    }
    runs.are_in_time("other", count);
    drop(inserted);
    (1..=5).for_each(|i| schedule(&timers, &format!("victim:{i}"), FAR));
}

#[test]
fn a_locked_table_holds_up_neither_answers_nor_a_stop() {
    let Some(server) = Server::start() else { return };
    for mode in ["ACCESS EXCLUSIVE", "SHARE"] {
        let runs = Runs::default();
        let timers = runs.open(server.url()).started_within(ms(2_000));
        schedule(&timers, "due", ms(1_000));
        let locked = lock(&server, &format!("LOCK TABLE tourbillon_timeouts IN {mode} MODE"));
        for _ in 0..2 {
            let begun = Instant::now();
            let answer = timers.schedule("key", FAR, "close", b"").unwrap().wait();
            assert!(answer.is_err(), "{mode}: the table is locked");
            assert!(begun.elapsed() < ms(3_500), "{mode}: an answer took {:?}", begun.elapsed());
        }
        let begun = Instant::now();
        timers.stop();
        assert!(begun.elapsed() < ms(8_000), "{mode}: a stop took {:?}", begun.elapsed());
        assert!(runs.of("due").is_empty(), "{mode}: the table is locked");
        drop(locked);
        let timers = runs.start(server.url());
        runs.wait_for("due", 1);
        timers.stop();
    }
}

#[test]
fn locked_dead_letters_hold_up_only_what_dies() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    let timers = runs.open(server.url()).handler("die", |_| Outcome::DeadLetter).started();
    let locked = lock(&server, "LOCK TABLE tourbillon_dead_letters IN ACCESS EXCLUSIVE MODE");
    for i in 0..3 {
        timers.schedule(&format!("dies:{i}"), ms(200), "die", b"").unwrap().wait().unwrap();
    }
    for i in 0..40 {
        schedule(&timers, &format!("other:{i}"), ms(200));
        thread::sleep(ms(50));
    }
    runs.are_in_time("other", 40);
    assert_eq!(timers.stats().dead_lettered, 0);
    drop(locked);
    until(|| timers.stats().dead_lettered == 3);
    until(|| timers.stats().completed == 40);
}

#[test]
fn calls_that_wait_for_a_lock_are_bounded_and_nothing_else_waits_behind_them() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    let capacity = 2_000;
    let timers = runs.open(server.url()).queue_capacity(capacity).started();
    schedule(&timers, "locked", FAR);
    let _locked = lock_row(&server, "locked");
    let parked = timers.cancel("locked").unwrap();
    thread::sleep(ms(300));
    let begun = Instant::now();
    assert_eq!(timers.dead_letters(1).unwrap().wait().unwrap(), []);
    assert!(begun.elapsed() < LATE, "a list was answered after {:?}", begun.elapsed());

    // Nobody waits for these, but for the last. All come in less time than one is given up after.
    let mut calls = 0;
    while calls < 2 * capacity {
        if timers.cancel("locked").is_ok() {
            calls += 1;
        }
        if calls % 100 == 0 {
            thread::sleep(ms(5));
        }
    }
    let last = timers.cancel("locked").unwrap().wait();
    assert!(begun.elapsed() < ms(4_500), "{:?}", begun.elapsed());
    assert!(matches!(&last, Err(CommitError::Failed(reason)) if reason.contains("too many")), "{last:?}");
    let begun = Instant::now();
    schedule(&timers, "free", FAR);
    assert!(begun.elapsed() < LATE, "another key's call took {:?}", begun.elapsed());
    drop(parked);
}
