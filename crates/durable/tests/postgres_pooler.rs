//! A PgBouncer between the timers and the server, whose sessions are everybody's.

#![cfg(all(unix, feature = "postgres"))]

mod support;

use std::thread;

use postgres::Client;
use tourbillon_durable::{Filter, Operator};

use support::pooler::Pooler;
use support::postgres::Server;
use support::runs::{FAR, Runs, ms, schedule};
use support::until;

/// Settings that a transaction of the timers changes.
const SETTINGS: &str = "SELECT format('%s %s %s %s %s %s', current_setting('synchronous_commit'),
    current_setting('enable_seqscan'), current_setting('lock_timeout'), current_setting('statement_timeout'),
    current_setting('idle_in_transaction_session_timeout'), current_setting('jit'))";

fn settings(client: &mut Client) -> String {
    // By the simple protocol: a pool in transaction mode keeps no statement that is prepared.
    let answers = client.simple_query(SETTINGS).unwrap();
    let values = answers.iter().filter_map(|answer| match answer {
        postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    values.collect()
}

/// Two processes work behind a pool.
fn work(server: &Server, pooler: &Pooler) {
    let before = settings(&mut server.connect().unwrap());
    let runs = Runs::default();
    let fleet = [runs.start(pooler.url()), runs.start(pooler.url())];
    for i in 0..50 {
        schedule(&fleet[i % 2], &format!("due:{i}"), ms(500));
        schedule(&fleet[i % 2], &format!("far:{i}"), FAR);
        assert_eq!(settings(&mut pooler.connect().unwrap()), before);
    }
    for i in 0..40 {
        let timers = &fleet[(i + 1) % 2];
        assert!(timers.cancel(&format!("far:{i}")).unwrap().wait().unwrap());
    }
    let operator = Operator::open(pooler.url()).unwrap();
    assert_eq!(operator.cancel(&Filter::new().prefix("far:")).unwrap().cancelled, 10);
    assert_eq!(operator.count(&Filter::new().prefix("far:").without_handler()).unwrap(), 0);
    (0..10).for_each(|_| assert_eq!(settings(&mut pooler.connect().unwrap()), before));
    runs.are_in_time("due", 50);
    runs.have_tokens_of_their_own();
    for timers in fleet {
        assert_eq!((timers.stats().disconnects, timers.stats().store_errors), (0, 0));
        timers.stop();
    }
}

#[test]
fn timers_work_behind_a_pool_in_either_mode_and_leave_its_sessions_as_they_were() {
    let Some(server) = Server::start() else { return };
    for mode in ["transaction", "session"] {
        let Some(pooler) = Pooler::start(&server, mode, 5) else { return };
        work(&server, &pooler);
    }
}

#[test]
fn a_neighbour_in_the_pool_may_be_idle_within_a_transaction() {
    let Some(server) = Server::start() else { return };
    let Some(pooler) = Pooler::start(&server, "transaction", 3) else { return };
    let runs = Runs::default();
    let timers = runs.start(pooler.url());
    let mut neighbours: Vec<Client> = (0..2).map(|_| pooler.connect().unwrap()).collect();
    for round in 0..10 {
        schedule(&timers, &format!("key:{round}"), FAR);
        // Each gets any of the pool's sessions.
        neighbours.iter_mut().for_each(|client| client.batch_execute("BEGIN; SELECT 1").unwrap());
        schedule(&timers, &format!("also:{round}"), FAR);
        thread::sleep(if round == 0 { ms(1_500) } else { ms(1) });
        neighbours.iter_mut().for_each(|client| client.batch_execute("COMMIT").unwrap());
    }
}

#[test]
fn calls_answered_behind_a_pool_survive_a_crash_of_the_server() {
    let Some(mut server) = Server::start_with("UTF8", &["wal_writer_delay=2s", "synchronous_commit=off"]) else {
        return;
    };
    let Some(pooler) = Pooler::start(&server, "transaction", 1) else { return };
    let runs = Runs::default();
    let timers = runs.start(pooler.url());
    for round in 0..5 {
        // Scans and leases, which need not be on disk, have the same session.
        for i in 0..20 {
            schedule(&timers, &format!("key:{round}:{i}"), FAR);
        }
        server.restart();
        assert_eq!(server.number("SELECT count(*) FROM tourbillon_timeouts"), 20 * (round + 1));
        until(|| timers.get("key").unwrap().wait().is_ok());
    }
}
