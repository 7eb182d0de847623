//! The server goes, hangs, or ends sessions: calls have answers in time, a stop ends, and all goes
//! on when the server is back.

#![cfg(all(unix, feature = "postgres"))]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use tourbillon_durable::{CommitError, DurableTimer};

use support::postgres::Server;
use support::runs::{FAR, Runs, ms, schedule};
use support::{Start, Started, stop_in_time, until};

const LIMIT: Duration = Duration::from_secs(2);
/// A loaded machine may add this.
const SLACK: Duration = Duration::from_secs(2);

fn start(server: &Server, runs: &Runs) -> Started {
    let timers = runs.open(server.url()).started_within(LIMIT);
    schedule(&timers, "before", FAR);
    timers
}

/// Calls that no store answers.
fn are_answered_in_time(timers: &DurableTimer) {
    for key in ["first", "second", "third"] {
        let begun = Instant::now();
        let answer = timers.schedule(key, FAR, "close", b"").unwrap().wait();
        assert!(matches!(answer, Err(CommitError::Failed(_) | CommitError::Unknown(_))), "{key}: {answer:?}");
        assert!(begun.elapsed() < LIMIT + SLACK, "{key} was answered after {:?}", begun.elapsed());
    }
}

/// Calls are answered again, and what was scheduled before runs.
fn goes_on(timers: &DurableTimer, runs: &Runs) {
    until(|| timers.schedule("after", ms(10), "close", b"").unwrap().wait().is_ok());
    until(|| !runs.of("after").is_empty());
    assert!(timers.reset("before", Duration::ZERO).unwrap().wait().unwrap());
    runs.wait_for("before", 1);
}

#[test]
fn calls_are_answered_and_a_stop_ends_while_the_server_is_away() {
    let Some(mut server) = Server::start() else { return };
    let (runs, others) = (Runs::default(), Runs::default());
    let timers = start(&server, &runs);
    let stopped = start(&server, &others);
    server.stop();
    are_answered_in_time(&timers);
    stop_in_time(&stopped);
    server.start_again();
    goes_on(&timers, &runs);
    stop_in_time(&timers);
}

#[test]
fn calls_are_answered_and_a_stop_ends_while_the_server_hangs() {
    let Some(mut server) = Server::start() else { return };
    let (runs, others) = (Runs::default(), Runs::default());
    let timers = start(&server, &runs);
    let stopped = start(&server, &others);
    server.hang();
    are_answered_in_time(&timers);
    stop_in_time(&stopped);
    // Longer than the store waits for an answer, and for a connection.
    thread::sleep(ms(25_000));
    server.go_on();
    goes_on(&timers, &runs);
    stop_in_time(&timers);
}

/// A commit waits for a replica that is away, for longer than the store waits and than a lease
/// lasts, and nobody looks at the server meanwhile. Then the replica is back, and the row is there
/// after all.
#[test]
fn a_row_that_a_commit_writes_long_after_it_was_given_up_runs() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    let timers = runs.open(server.url()).window(ms(30_000)).started_within(LIMIT);
    schedule(&timers, "before", FAR);
    let replica = |name: &str| {
        server.run_sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
        server.run_sql("SELECT pg_reload_conf()");
    };
    replica("away");
    // The server takes a while to read its settings: until then a commit does not wait.
    let waits = |key: &String| {
        let answer = timers.schedule(key, ms(28_000), "close", b"").unwrap().wait();
        assert!(matches!(answer, Ok(_) | Err(CommitError::Unknown(_))), "{answer:?}");
        answer.is_err()
    };
    let late = (0..1_000).map(|nth| format!("late:{nth}")).find(waits).expect("a commit waits for the replica");
    thread::sleep(ms(40_000));
    let waiting = server.number("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    assert!(waiting <= 1, "{waiting} sessions were left behind");
    replica("");
    runs.wait_for(&late, 1);
    goes_on(&timers, &runs);
}

#[test]
fn a_session_that_was_ended_while_it_was_idle_costs_no_call_an_error() {
    let Some(server) = Server::start_with("UTF8", &["idle_session_timeout=500ms"]) else { return };
    let runs = Runs::default();
    let timers = runs.open(server.url()).window(ms(60_000)).started();
    for call in 0..3 {
        thread::sleep(ms(1_200));
        schedule(&timers, &format!("key:{call}"), FAR);
    }
    for call in 0..3 {
        server.run_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()");
        assert!(timers.cancel(&format!("key:{call}")).unwrap().wait().unwrap());
    }
    schedule(&timers, "due", ms(1_200));
    runs.are_in_time("due", 1);
    assert!(timers.stats().disconnects > 0, "no session was ended");
}
