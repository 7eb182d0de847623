//! Transactions of the user's, pauses and stops beside rows that somebody has locked, and beside
//! runs that go on.

#![cfg(all(unix, feature = "sqlite", feature = "postgres"))]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, IsolationLevel, NoTls};
use tourbillon_durable::transaction::postgres as pg;
use tourbillon_durable::{DurableTimer, Filter, HandlerOptions, Operator, Outcome};

use support::postgres::Server;
use support::runs::{FAR, Runs, ms};
use support::{Start, file, until, waits};

#[test]
fn a_transaction_with_an_old_snapshot_neither_cancels_nor_moves_what_runs() {
    let Some(server) = Server::start() else { return };
    let (handler, ends) = waits();
    let builder = DurableTimer::open(server.url()).unwrap().lease(ms(2_000)).handler("close", handler);
    let timers = builder.started();
    timers.schedule("key", Duration::ZERO, "close", b"").unwrap().wait().unwrap();
    until(|| timers.get("key").unwrap().wait().unwrap().is_some_and(|row| row.running));
    let mut client = Client::connect(&server.url(), NoTls).unwrap();
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let mut own = client.build_transaction().isolation_level(level).start().unwrap();
        own.query("SELECT count(*) FROM tourbillon_owners", &[]).unwrap();
        // The lease of the snapshot has ended, and that of the process has been renewed since.
        thread::sleep(ms(3_000));
        assert!(!pg::cancel(&mut own, "key").unwrap(), "{level:?}: it runs");
        assert!(!pg::reset(&mut own, "key", FAR).unwrap(), "{level:?}: it runs");
    }
    ends.send(()).unwrap();
    until(|| timers.get("key").unwrap().wait().unwrap().is_none());
}

#[test]
fn a_schedule_if_absent_does_not_wait_for_who_has_locked_the_row_that_is_there() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    let timers = runs.open(server.url()).started();
    timers.schedule("key", FAR, "close", b"").unwrap().wait().unwrap();
    let mut client = Client::connect(&server.url(), NoTls).unwrap();
    let mut own = client.transaction().unwrap();
    own.execute("SELECT 1 FROM tourbillon_timeouts FOR UPDATE", &[]).unwrap();
    assert_eq!(timers.schedule_if_absent("key", FAR, "close", b"").unwrap().wait().unwrap(), None);
}

#[test]
fn locked_rows_of_a_paused_handler_hold_up_no_other_that_is_given_back() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    let timers = runs.open(server.url()).window(FAR).lease(FAR).started();
    until(|| timers.stats().scans > 0);
    let keys = (0..600).map(|n| format!("locked:{n}")).chain((0..600).map(|n| format!("free:{n}")));
    let calls: Vec<_> = keys.map(|key| timers.schedule(&key, FAR / 2, "close", b"").unwrap()).collect();
    calls.into_iter().for_each(|call| _ = call.wait().unwrap());
    let mut client = Client::connect(&server.url(), NoTls).unwrap();
    let mut own = client.transaction().unwrap();
    own.execute("SELECT 1 FROM tourbillon_timeouts WHERE key ^@ 'locked:' FOR UPDATE", &[]).unwrap();
    timers.pause("close").unwrap();
    let owned = "SELECT count(*) FROM tourbillon_timeouts WHERE key ^@ 'free:' AND owner IS NOT NULL";
    until(|| server.number(owned) == 0);
}

#[test]
fn a_stop_waits_for_a_run_although_a_row_that_is_to_be_given_back_is_locked() {
    let Some(server) = Server::start() else { return };
    let (handler, ends) = waits();
    let builder = DurableTimer::open(server.url()).unwrap().window(FAR).handler("idle", |_due| Outcome::Done);
    let timers = builder.handler("runs", handler).started();
    until(|| timers.stats().scans > 0);
    timers.schedule("idle", FAR / 2, "idle", b"").unwrap().wait().unwrap();
    timers.schedule("runs", Duration::ZERO, "runs", b"").unwrap().wait().unwrap();
    until(|| timers.stats().running == 1);
    let mut client = Client::connect(&server.url(), NoTls).unwrap();
    let mut own = client.transaction().unwrap();
    own.execute("SELECT 1 FROM tourbillon_timeouts WHERE key = 'idle' FOR UPDATE", &[]).unwrap();
    timers.pause("idle").unwrap();
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            // Longer than a stop waits for a store that refuses.
            thread::sleep(ms(7_000));
            assert_eq!(server.number("SELECT count(*) FROM tourbillon_owners"), 1, "the lease was given up");
            own.rollback().unwrap();
            ends.send(()).unwrap();
        });
        timers.stop();
    });
    assert!(begun.elapsed() >= ms(7_000), "it has not waited");
    assert_eq!(server.number("SELECT count(*) FROM tourbillon_timeouts WHERE key = 'runs'"), 0, "its end is lost");
}

#[test]
fn an_operator_sees_at_once_that_a_handler_goes_on() {
    let (_directory, path) = file();
    let timers = DurableTimer::open(&path)
        .unwrap()
        .lease(FAR)
        .handler_with("close", HandlerOptions::new().paused(true), |_due| Outcome::Done)
        .handler("other", |_due| Outcome::Done)
        .started();
    timers.schedule("key", FAR, "close", b"").unwrap().wait().unwrap();
    let operator = Operator::open(&path).unwrap();
    let without = || operator.count(&Filter::new().without_handler()).is_ok_and(|count| count == 1);
    until(without);
    timers.resume("close").unwrap();
    until(|| !without());
    timers.pause("close").unwrap();
    until(without);
}
