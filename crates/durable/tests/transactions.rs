//! Schedule, reset and cancel in a transaction of the user's: with its commit all of it happens,
//! and with its rollback nothing.

#![cfg(all(unix, feature = "sqlite", feature = "tokio-postgres"))]

mod support;

use std::error::Error;
use std::thread;
use std::time::{Duration, SystemTime};

use postgres::NoTls;
use rusqlite::{Connection, TransactionBehavior};
use tourbillon_durable::transaction::{postgres as pg, sqlite, tokio_postgres as tokio_pg};
use tourbillon_durable::{Outcome, Scheduled};

use support::pooler::Pooler;
use support::postgres::Server;
use support::runs::{FAR, Runs, ms, schedule};
use support::{Start, Started, file, until};

/// Timers that scan each half hour: only a peek brings what is due sooner.
fn start(runs: &Runs, location: &str) -> Started {
    let timers = runs.open(location).window(FAR).started();
    until(|| timers.stats().scans > 0);
    timers
}

/// A transaction of either store.
enum Own<'a> {
    Sqlite(rusqlite::Transaction<'a>),
    Postgres(postgres::Transaction<'a>),
}

type Answer<T> = Result<T, Box<dyn Error>>;

impl Own<'_> {
    fn schedule(&mut self, key: &str, delay: Duration) -> Answer<Scheduled> {
        Ok(match self {
            Own::Sqlite(transaction) => sqlite::schedule(transaction, key, delay, "close", b"paid")?,
            Own::Postgres(transaction) => pg::schedule(transaction, key, delay, "close", b"paid")?,
        })
    }

    fn schedule_at(&mut self, key: &str, due: SystemTime) -> Answer<Scheduled> {
        Ok(match self {
            Own::Sqlite(transaction) => sqlite::schedule_at(transaction, key, due, "close", b"paid")?,
            Own::Postgres(transaction) => pg::schedule_at(transaction, key, due, "close", b"paid")?,
        })
    }

    fn reset(&mut self, key: &str, delay: Duration) -> Answer<bool> {
        Ok(match self {
            Own::Sqlite(transaction) => sqlite::reset(transaction, key, delay)?,
            Own::Postgres(transaction) => pg::reset(transaction, key, delay)?,
        })
    }

    fn reset_at(&mut self, key: &str, due: SystemTime) -> Answer<bool> {
        Ok(match self {
            Own::Sqlite(transaction) => sqlite::reset_at(transaction, key, due)?,
            Own::Postgres(transaction) => pg::reset_at(transaction, key, due)?,
        })
    }

    fn cancel(&mut self, key: &str) -> Answer<bool> {
        Ok(match self {
            Own::Sqlite(transaction) => sqlite::cancel(transaction, key)?,
            Own::Postgres(transaction) => pg::cancel(transaction, key)?,
        })
    }

    fn end(self, commit: bool) {
        match self {
            Own::Sqlite(transaction) if commit => transaction.commit().unwrap(),
            Own::Postgres(transaction) if commit => transaction.commit().unwrap(),
            Own::Sqlite(transaction) => transaction.rollback().unwrap(),
            Own::Postgres(transaction) => transaction.rollback().unwrap(),
        }
    }
}

/// A connection of the user's.
enum Client {
    Sqlite(Connection),
    Postgres(postgres::Client),
}

impl Client {
    fn open(location: &str) -> Self {
        if location.starts_with("postgres") {
            return Self::Postgres(postgres::Client::connect(location, NoTls).unwrap());
        }
        Self::Sqlite(Connection::open(location).unwrap())
    }

    fn begin(&mut self) -> Own<'_> {
        match self {
            Self::Sqlite(client) => {
                Own::Sqlite(client.transaction_with_behavior(TransactionBehavior::Immediate).unwrap())
            }
            Self::Postgres(client) => Own::Postgres(client.transaction().unwrap()),
        }
    }
}

/// Runs a test on each store.
fn each_store(test: impl Fn(&str)) {
    let (_directory, path) = file();
    test(path.to_str().unwrap());
    if let Some(server) = Server::start() {
        test(&server.url());
    }
}

#[test]
fn committed_timeouts_run_in_time_and_rolled_back_ones_never() {
    each_store(|location| {
        let runs = Runs::default();
        let timers = start(&runs, location);
        let mut client = Client::open(location);
        let mut own = client.begin();
        own.schedule("rolled:now", Duration::ZERO).unwrap();
        own.schedule("rolled:soon", ms(1_000)).unwrap();
        own.end(false);
        let mut own = client.begin();
        own.schedule("due:now", Duration::ZERO).unwrap();
        own.schedule_at("due:past", SystemTime::UNIX_EPOCH).unwrap();
        own.schedule("due:soon", ms(1_000)).unwrap();
        let generation = own.schedule_at("due:at", SystemTime::now() + ms(1_500)).unwrap().generation;
        own.end(true);
        runs.wait_for("due", 4);
        for run in runs.of("due") {
            assert_eq!((run.due.payload(), run.due.attempt()), (&b"paid"[..], 1));
        }
        assert_eq!(runs.of("due:at")[0].due.generation(), generation);
        assert!(runs.of("rolled").is_empty());
        assert_eq!(timers.get("rolled:soon").unwrap().wait().unwrap(), None);
        until(|| timers.stats().completed == 4);
    });
}

#[test]
fn a_reset_and_a_cancel_happen_with_the_commit_or_not_at_all() {
    each_store(|location| {
        let runs = Runs::default();
        let timers = start(&runs, location);
        for key in ["kept", "gone", "due:far", "due:near"] {
            schedule(&timers, key, FAR);
        }
        let row = |key: &str| timers.get(key).unwrap().wait().unwrap();
        let kept = row("kept");
        let mut client = Client::open(location);
        let mut own = client.begin();
        assert!(own.reset("kept", Duration::ZERO).unwrap() && own.cancel("kept").unwrap());
        own.end(false);
        let mut own = client.begin();
        assert!(own.reset("gone", Duration::ZERO).unwrap());
        assert!(own.cancel("gone").unwrap());
        assert!(!own.cancel("gone").unwrap(), "it is gone already");
        assert!(own.reset("due:far", ms(300)).unwrap());
        assert!(own.reset_at("due:near", SystemTime::now()).unwrap());
        assert!(!own.reset("nobody", FAR).unwrap() && !own.cancel("nobody").unwrap());
        own.end(true);
        runs.wait_for("due", 2);
        assert_eq!((row("kept"), row("gone")), (kept, None));
        assert_eq!(runs.of("").len(), 2);
    });
}

#[test]
fn a_timeout_that_runs_is_neither_reset_nor_cancelled_and_a_schedule_replaces_it() {
    each_store(|location| {
        let runs = Runs::default();
        let (go, going) = std::sync::mpsc::channel::<()>();
        let going = std::sync::Mutex::new(going);
        let timers = runs.open(location).lease(FAR).handler("slow", move |_due| {
            _ = going.lock().unwrap().recv();
            Outcome::Done
        });
        let timers = timers.started();
        timers.schedule("key", Duration::ZERO, "slow", b"").unwrap().wait().unwrap();
        until(|| timers.get("key").unwrap().wait().unwrap().is_some_and(|row| row.running));
        let mut client = Client::open(location);
        let mut own = client.begin();
        assert!(!own.reset("key", FAR).unwrap() && !own.cancel("key").unwrap());
        let later = own.schedule("key", FAR).unwrap().generation;
        own.end(true);
        go.send(()).unwrap();
        until(|| timers.stats().stale_completions == 1);
        let row = timers.get("key").unwrap().wait().unwrap().unwrap();
        assert_eq!((row.generation, row.attempts), (later, 0), "a new timeout, which has had no run");
    });
}

#[test]
fn generations_grow_whoever_writes() {
    each_store(|location| {
        let runs = Runs::default();
        let timers = start(&runs, location);
        let mut client = Client::open(location);
        let mut last = 0;
        for round in 0..20 {
            let mut own = client.begin();
            let first = own.schedule("key", FAR).unwrap().generation;
            let second = own.schedule("key", FAR).unwrap().generation;
            own.end(round % 2 == 0);
            let third = timers.schedule("key", FAR, "close", b"").unwrap().wait().unwrap().generation;
            assert!(last < first && first < second, "{last} {first} {second}");
            assert!(third > if round % 2 == 0 { second } else { last });
            last = third;
        }
    });
}

#[test]
fn an_open_transaction_holds_up_only_what_it_has_written() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    let fleet = [start(&runs, &server.url()), start(&runs, &server.url())];
    let mut client = Client::open(&server.url());
    // They come up while the transaction is open. On a machine that is busy they need more time.
    let mut delay = ms(500);
    let (held, mut own) = loop {
        let held = format!("held in {delay:?}:");
        let keys = ["cancelled", "moved", "replaced"].map(|key| format!("{held}{key}"));
        keys.iter().for_each(|key| schedule(&fleet[0], key, delay));
        let mut own = client.begin();
        if keys.iter().all(|key| own.reset(key, FAR).unwrap()) {
            assert!(own.cancel(&keys[0]).unwrap());
            own.schedule(&keys[2], FAR).unwrap();
            break (held, own);
        }
        own.end(false);
        delay *= 4;
    };
    own.schedule(&format!("{held}new"), Duration::ZERO).unwrap();
    for round in 0..30 {
        let delay = ms(if round % 2 == 0 { 100 } else { 1_500 });
        schedule(&fleet[round % 2], &format!("due:{round}"), delay);
        thread::sleep(ms(50));
    }
    runs.wait_for("due", 30);
    thread::sleep(delay);
    assert!(runs.of(&held).is_empty(), "they wait for the transaction");
    own.end(true);
    runs.wait_for(&format!("{held}new"), 1);
    thread::sleep(ms(500));
    assert_eq!(runs.of(&held).len(), 1, "the cancel, the reset and the schedule are final");
    assert!(fleet.iter().all(|timers| timers.stats().store_errors == 0));
}

#[test]
fn timeouts_that_come_up_while_sqlite_is_locked_run_when_it_is_free() {
    let (_directory, path) = file();
    let path = path.to_str().unwrap();
    let runs = Runs::default();
    let timers = start(&runs, path);
    schedule(&timers, "before", ms(500));
    let mut client = Client::open(path);
    let mut own = client.begin();
    own.schedule("due:1", Duration::ZERO).unwrap();
    let call = timers.schedule("due:2", Duration::ZERO, "close", b"").unwrap();
    thread::sleep(ms(1_500));
    assert!(runs.of("due").is_empty());
    own.end(true);
    call.wait().expect("it has waited");
    runs.wait_for("due", 2);
    runs.wait_for("before", 1);
}

#[test]
fn a_value_that_is_out_of_bounds_is_refused_with_what_is_right() {
    each_store(|location| {
        let runs = Runs::default();
        let _timers = start(&runs, location);
        let mut client = Client::open(location);
        let far = Duration::from_secs(u64::MAX / 4);
        let long = "x".repeat(1_025);
        type Call<'a> = &'a dyn Fn(&mut Own<'_>) -> Answer<()>;
        let calls: [(Call<'_>, &str); 6] = [
            (&|own| own.schedule("", FAR).map(drop), "1 to 1,024 bytes"),
            (&|own| own.reset(&long, FAR).map(drop), "1 to 1,024 bytes"),
            (&|own| own.cancel(&long).map(drop), "1 to 1,024 bytes"),
            (&|own| own.schedule("key", far).map(drop), "the year 200,000"),
            (&|own| own.reset("key", far).map(drop), "the year 200,000"),
            (&|own| own.schedule_at("key", SystemTime::now() + FAR * 2_000_000_000).map(drop), "the year 200,000"),
        ];
        for (call, right) in calls {
            let mut own = client.begin();
            let error = call(&mut own).unwrap_err();
            let text = error.source().map_or(error.to_string(), |source| format!("{error}: {source}"));
            assert!(text.contains(right), "{text}");
        }
    });
}

#[test]
fn sqlite_refuses_a_wrong_name_a_long_payload_and_a_call_without_a_transaction() {
    let (_directory, path) = file();
    let runs = Runs::default();
    let _timers = start(&runs, path.to_str().unwrap());
    let mut client = Connection::open(&path).unwrap();
    let error = sqlite::cancel(&client, "key").unwrap_err();
    assert!(matches!(error, sqlite::Error::NoTransaction), "{error}");
    let transaction = client.transaction().unwrap();
    let error = sqlite::schedule(&transaction, "key", FAR, "a\nb", b"").unwrap_err().to_string();
    assert!(error.contains("1 to 255 bytes"), "{error}");
    let error = sqlite::schedule(&transaction, "key", FAR, "close", vec![0; (1 << 20) + 1]).unwrap_err().to_string();
    assert!(error.contains("1048576"), "{error}");
}

#[test]
fn any_client_of_postgres_calls_the_functions_from_any_schema() {
    let Some(server) = Server::start() else { return };
    server.run_sql(
        "CREATE SCHEMA \"The Shop\"; CREATE ROLE maker LOGIN; CREATE ROLE app LOGIN;
         GRANT ALL ON SCHEMA \"The Shop\" TO maker; ALTER ROLE maker SET search_path = \"The Shop\";
         REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    );
    let runs = Runs::default();
    let timers = start(&runs, &server.url_of("maker"));
    server.run_sql(
        "GRANT USAGE ON SCHEMA \"The Shop\" TO app;
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"The Shop\" TO app;
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA \"The Shop\" TO app",
    );
    // It neither may make anything nor has the schema in its path.
    let mut app = postgres::Client::connect(&server.url_of("app"), NoTls).unwrap();
    app.batch_execute(
        "SET datestyle = 'German'; SET timezone = 'Asia/Tokyo'; BEGIN;
         SELECT \"The Shop\".tourbillon_schedule('due:1', '1 second', 'close', '\\x01');
         SELECT \"The Shop\".tourbillon_schedule(key => 'due:2', delay => interval '300 ms', handler => 'close');
         SELECT \"The Shop\".tourbillon_schedule_at('due:3', clock_timestamp() + interval '1 s', 'close');
         SELECT \"The Shop\".tourbillon_schedule('gone', '1 hour', 'close');
         SELECT \"The Shop\".tourbillon_schedule('due:4', '1 day', 'close');
         SELECT \"The Shop\".tourbillon_reset('due:4', '1 second');
         COMMIT",
    )
    .unwrap();
    let mut cancel = || app.query_one("SELECT \"The Shop\".tourbillon_cancel('gone')", &[]).unwrap().get::<_, bool>(0);
    assert!(cancel() && !cancel(), "once");
    runs.wait_for("due", 4);
    assert_eq!(runs.of("due:1")[0].due.payload(), b"\x01");
    for (call, right) in [
        ("tourbillon_schedule('key', '1 s', E'a\\nb')", "1 to 255 bytes"),
        ("tourbillon_schedule('key', '1 s', NULL)", "1 to 255 bytes"),
        ("tourbillon_schedule(NULL, '1 s', 'close')", "1 to 1,024 bytes"),
        ("tourbillon_schedule('key', NULL, 'close')", "before the year 200,000"),
        ("tourbillon_schedule_at('key', 'infinity', 'close')", "before the year 200,000"),
        ("tourbillon_schedule('key', '1 s', 'close', decode(repeat('00', 1048577), 'hex'))", "at most 1048576"),
    ] {
        let error = app.batch_execute(&format!("SELECT \"The Shop\".{call}")).unwrap_err();
        let error = error.as_db_error().unwrap();
        assert!(error.message().contains(right) && error.code().code() == "22023", "{call}: {error}");
    }
    timers.stop();
    // Next, one that may only use what is there.
    server.run_sql("ALTER ROLE app SET search_path = \"The Shop\"");
    let timers = start(&runs, &server.url_of("app"));
    let mut client = Client::open(&server.url_of("app"));
    let mut own = client.begin();
    own.schedule("later", Duration::ZERO).unwrap();
    own.end(true);
    runs.wait_for("later", 1);
    assert_eq!(timers.stats().store_errors, 0);
}

#[test]
fn the_calls_and_the_peeks_work_behind_a_pool() {
    let Some(server) = Server::start() else { return };
    let Some(pooler) = Pooler::start(&server, "transaction", 2) else { return };
    let runs = Runs::default();
    let timers = start(&runs, &pooler.url());
    let mut clients = [Client::open(&pooler.url()), Client::open(&pooler.url())];
    for round in 0..40 {
        let mut own = clients[round % 2].begin();
        own.schedule(&format!("due:{round}"), ms(1_000)).unwrap();
        own.schedule(&format!("gone:{round}"), FAR).unwrap();
        own.end(true);
        let mut own = clients[(round + 1) % 2].begin();
        assert!(own.cancel(&format!("gone:{round}")).unwrap());
        own.end(true);
    }
    runs.wait_for("due", 40);
    assert_eq!(timers.get("gone:0").unwrap().wait().unwrap(), None);
    assert_eq!((timers.stats().disconnects, timers.stats().store_errors), (0, 0));
}

#[test]
fn a_transaction_of_tokio_postgres_has_the_same_calls() {
    let Some(server) = Server::start() else { return };
    let runs = Runs::default();
    let timers = start(&runs, &server.url());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let own = client.transaction().await.unwrap();
        tokio_pg::schedule(&own, "due:1", ms(500), "close", b"").await.unwrap();
        tokio_pg::schedule_at(&own, "due:2", SystemTime::now(), "close", b"").await.unwrap();
        tokio_pg::schedule(&own, "gone", ms(500), "close", b"").await.unwrap();
        assert!(tokio_pg::cancel(&own, "gone").await.unwrap());
        assert!(tokio_pg::reset(&own, "due:1", ms(600)).await.unwrap());
        assert!(tokio_pg::reset_at(&own, "due:2", SystemTime::now() + ms(300)).await.unwrap());
        own.commit().await.unwrap();
        let own = client.transaction().await.unwrap();
        tokio_pg::schedule(&own, "rolled", Duration::ZERO, "close", b"").await.unwrap();
        own.rollback().await.unwrap();
    });
    runs.wait_for("due", 2);
    assert_eq!(runs.of("").len(), 2);
    until(|| timers.stats().completed == 2);
}
