//! SQLite: rows and pages that can't be read, and files of earlier versions. Each harms nobody
//! else.

#![cfg(all(unix, feature = "sqlite"))]

#[allow(dead_code, reason = "the tests of both stores use the rest")]
mod stores;

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, params};
use stores::{Start, Started, stop_in_time, until};
use tempfile::TempDir;
use tourbillon_durable::{CommitError, DurableTimer, Event, Outcome};

const HOUR: Duration = Duration::from_secs(3_600);
const SOON: Duration = Duration::from_millis(500);

/// A file, timers on it, and what they have run and set aside.
struct Scene {
    directory: TempDir,
    ran: Arc<Mutex<HashSet<String>>>,
    set_aside: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, ran: Arc::default(), set_aside: Arc::default() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("timeouts.db")
    }

    /// Timers whose handler `work` keeps the key, and gives up what has the payload `dead`.
    fn start(&self) -> Started {
        let (ran, set_aside) = (Arc::clone(&self.ran), Arc::clone(&self.set_aside));
        DurableTimer::open(self.path())
            .unwrap()
            .handler("work", move |due| {
                ran.lock().unwrap().insert(due.key().to_owned());
                if due.payload() == b"dead" { Outcome::DeadLetter } else { Outcome::Done }
            })
            .window(Duration::from_secs(2))
            .on_event(move |event| {
                if let Event::SetAside { row, reason } = event {
                    set_aside.lock().unwrap().push(format!("{row}: {reason}"));
                }
            })
            .started()
    }

    /// The connection of somebody else.
    fn shell(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    fn ran(&self, key: &str) -> bool {
        self.ran.lock().unwrap().contains(key)
    }

    fn has_set_aside(&self, part: &str) -> bool {
        self.set_aside.lock().unwrap().iter().any(|said| said.contains(part))
    }
}

fn micros_from_now(delay: Duration) -> i64 {
    let due = SystemTime::now() + delay;
    i64::try_from(due.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

#[test]
fn a_row_with_a_payload_of_text_runs() {
    let scene = Scene::new();
    let timers = scene.start();
    let insert = "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation)
        VALUES (?1, ?2, 'work', 'hello', 1000000)";
    scene.shell().execute(insert, params!["soon", micros_from_now(SOON)]).unwrap();
    scene.shell().execute(insert, params!["later", micros_from_now(HOUR)]).unwrap();
    until(|| scene.ran("soon"));
    assert_eq!(timers.get("later").unwrap().wait().unwrap().unwrap().payload, b"hello");
    until(|| timers.stats().completed == 1);
    assert_eq!(timers.stats().set_aside, 0);
}

#[test]
fn rows_that_cannot_be_read_are_set_aside_and_the_others_run() {
    let scene = Scene::new();
    let timers = scene.start();
    let due = micros_from_now(SOON);
    let insert = |columns: &str, values: &str| {
        let sql =
            format!("INSERT INTO tourbillon_timeouts (due, generation, {columns}) VALUES ({due}, 1000000, {values})");
        scene.shell().execute(&sql, []).unwrap();
    };
    insert("key, handler, payload", "x'ff01', 'work', x''");
    insert("key, handler, payload", "'blob as handler', x'776f726b', x''");
    insert("key, handler, payload", "'number as payload', 'work', 5");
    insert("key, handler, payload, attempts", "'text as attempts', 'work', x'', 'many'");
    insert("key, handler, payload", "'good', 'work', x''");
    scene.shell().execute_batch("UPDATE tourbillon_timeouts SET due = 'soon' WHERE key = 'text as due'").unwrap();
    insert("key, handler, payload", "'text as due', 'work', x''");
    scene.shell().execute_batch("UPDATE tourbillon_timeouts SET due = 'soon' WHERE key = 'text as due'").unwrap();
    timers.schedule("other", SOON, "work", b"").unwrap().wait().unwrap();
    until(|| scene.ran("good") && scene.ran("other"));
    for bad in ["FF01", "blob as handler", "number as payload", "text as attempts", "text as due"] {
        until(|| scene.has_set_aside(bad));
    }
    let unreadable = timers.get("text as due").unwrap();
    let readable = timers.schedule("beside", HOUR, "work", b"").unwrap();
    assert!(matches!(unreadable.wait(), Err(CommitError::Failed(_))));
    readable.wait().unwrap();
    // It says so once, and goes on.
    std::thread::sleep(Duration::from_secs(3));
    let said = scene.set_aside.lock().unwrap().iter().filter(|said| said.contains("text as due")).count();
    assert_eq!(said, 1);
    timers.schedule("number as payload", Duration::ZERO, "work", b"").unwrap().wait().unwrap();
    timers.schedule("text as due", SOON, "work", b"").unwrap().wait().unwrap();
    until(|| scene.ran("number as payload") && scene.ran("text as due"));
}

#[test]
fn a_row_that_was_unreadable_and_is_scheduled_anew_comes_up_in_time() {
    let scene = Scene::new();
    let timers = scene.start();
    let insert =
        "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation) VALUES ('key', 1, 'work', x'', 'x')";
    scene.shell().execute(insert, []).unwrap();
    until(|| scene.has_set_aside("key"));
    // Beyond the window: so a scan has to find it.
    timers.schedule("key", Duration::from_secs(4), "work", b"").unwrap().wait().unwrap();
    until(|| scene.ran("key"));
    let lateness = timers.stats().lateness_max;
    assert!(lateness < Duration::from_secs(2), "it is {lateness:?} late");
}

#[test]
fn a_call_that_the_store_rejects_fails_alone_and_leaves_nothing() {
    let scene = Scene::new();
    let timers = scene.start();
    scene
        .shell()
        .execute_batch(
            "CREATE TRIGGER no_bad BEFORE INSERT ON tourbillon_timeouts WHEN new.key LIKE 'bad%'
                 BEGIN SELECT RAISE(ABORT, 'not this one'); END;
             CREATE TRIGGER no_dead BEFORE DELETE ON tourbillon_timeouts WHEN old.payload = x'64656164'
                 BEGIN SELECT RAISE(ABORT, 'it stays'); END;",
        )
        .unwrap();
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let key = format!("{}:{n}", if n % 10 == 0 { "bad" } else { "good" });
            (key.clone(), timers.schedule(&key, HOUR, "work", b"").unwrap())
        })
        .collect();
    for (key, call) in calls {
        match call.wait() {
            Ok(_) => assert!(key.starts_with("good"), "{key}"),
            Err(error) => {
                assert!(key.starts_with("bad") && error.to_string().contains("not this one"), "{key}: {error}")
            }
        }
    }
    assert_eq!(timers.stats().written, 90);
    // A dead letter that can't be taken out of the rows is not among the dead letters either.
    timers.schedule("half", Duration::ZERO, "work", b"dead").unwrap().wait().unwrap();
    until(|| scene.has_set_aside("half"));
    assert_eq!(timers.dead_letters(10).unwrap().wait().unwrap(), []);
    assert!(timers.get("half").unwrap().wait().unwrap().unwrap().running);
    stop_in_time(&timers);
}

/// Writes nonsense over a page in the middle: how many entries it has. Returns how many it had.
fn damage(path: &Path, of: &str) -> usize {
    let connection = Connection::open(path).unwrap();
    let mut leaves = connection
        .prepare("SELECT pageno, ncell FROM dbstat WHERE name = ?1 AND pagetype = 'leaf' ORDER BY path")
        .unwrap();
    let leaves: Vec<(u32, u32)> =
        leaves.query_map([of], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect::<Result<_, _>>().unwrap();
    let (page, entries) = leaves[leaves.len() / 4];
    println!("{of}: {entries} entries on page {page}, one of {} leaves", leaves.len());
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0xff, 0xff], u64::from(page - 1) * 4_096 + 3).unwrap();
    entries as usize
}

/// Damages a page of an index, or of the table. Most rows run; those on the page don't, and some
/// beside it: a page that becomes empty, or too full, is balanced with its neighbours.
fn a_damaged_page_stops_few(of: &str) {
    const ROWS: usize = 3_000;
    let scene = Scene::new();
    let timers = scene.start();
    let key = |n| format!("key:{n:05}");
    let delay = |n| if n < ROWS { Duration::from_millis(4_000 + n as u64) } else { HOUR };
    let calls: Vec<_> =
        (0..2 * ROWS).map(|n| timers.schedule(&key(n), delay(n), "work", vec![7; 50]).unwrap()).collect();
    calls.into_iter().for_each(|call| _ = call.wait().unwrap());
    timers.stop();
    drop(timers);
    let entries = damage(&scene.path(), of);
    let timers = scene.start();
    timers.schedule("new", SOON, "work", b"").unwrap().wait().unwrap();
    until(|| scene.ran(&key(ROWS - 1)));
    until(|| scene.ran.lock().unwrap().len() + 3 * entries >= ROWS);
    assert!(scene.ran("new") && scene.ran(&key(0)));
    assert!(timers.stats().set_aside > 0);
    timers.schedule("newer", SOON, "work", b"").unwrap().wait().unwrap();
    until(|| scene.ran("newer"));
    stop_in_time(&timers);
}

#[test]
fn a_damaged_page_of_the_table_stops_few() {
    a_damaged_page_stops_few("tourbillon_timeouts");
}

#[test]
fn a_damaged_page_of_an_index_stops_few() {
    a_damaged_page_stops_few("tourbillon_timeouts_due");
}

#[test]
fn a_file_of_the_first_version_is_brought_up_to_date_and_its_rows_run() {
    let scene = Scene::new();
    let due = micros_from_now(Duration::from_secs(2));
    scene
        .shell()
        .execute_batch(&format!(
            "CREATE TABLE tourbillon_schema (version BIGINT NOT NULL);
             INSERT INTO tourbillon_schema VALUES (1);
             CREATE TABLE tourbillon_timeouts (
                 key TEXT NOT NULL PRIMARY KEY, due BIGINT NOT NULL, handler TEXT NOT NULL, payload BLOB NOT NULL,
                 generation BIGINT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, owner BIGINT,
                 running INTEGER NOT NULL DEFAULT 0);
             CREATE INDEX tourbillon_timeouts_due ON tourbillon_timeouts (due) WHERE owner IS NULL;
             CREATE INDEX tourbillon_timeouts_owner ON tourbillon_timeouts (owner) WHERE owner IS NOT NULL;
             CREATE TABLE tourbillon_owners (owner BIGINT NOT NULL PRIMARY KEY, lease_until BIGINT NOT NULL);
             CREATE TABLE tourbillon_dead_letters (
                 key TEXT NOT NULL, generation BIGINT NOT NULL, due BIGINT NOT NULL, handler TEXT NOT NULL,
                 payload BLOB NOT NULL, attempts INTEGER NOT NULL, died_at BIGINT NOT NULL,
                 PRIMARY KEY (key, generation));
             CREATE INDEX tourbillon_dead_letters_died_at ON tourbillon_dead_letters (died_at);
             CREATE TABLE tourbillon_generations (last BIGINT NOT NULL);
             INSERT INTO tourbillon_generations VALUES (4);
             INSERT INTO tourbillon_owners VALUES (77, {due} + 3600000000);
             INSERT INTO tourbillon_timeouts VALUES ('free', {due}, 'work', x'', 1, 0, NULL, 0);
             INSERT INTO tourbillon_timeouts VALUES ('held', {due}, 'work', x'', 2, 1, 77, 0);
             INSERT INTO tourbillon_timeouts VALUES ('ran', {due}, 'work', x'', 3, 2, 77, 1);
             INSERT INTO tourbillon_dead_letters VALUES ('dead', 4, 1, 'work', x'', 20, 1);"
        ))
        .unwrap();
    let timers = scene.start();
    until(|| timers.stats().completed == 3);
    for key in ["free", "held", "ran"] {
        assert!(scene.ran(key), "{key}");
    }
    let letters = timers.dead_letters(10).unwrap().wait().unwrap();
    assert!(timers.revive(&letters[0], Duration::ZERO).unwrap().wait().unwrap());
    until(|| scene.ran("dead"));
    assert!(timers.schedule("next", HOUR, "work", b"").unwrap().wait().unwrap().generation > 4);
}
