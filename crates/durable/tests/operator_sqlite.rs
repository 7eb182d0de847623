//! An operator opens an SQLite file that a process owns, and takes nothing from it.

#![cfg(all(unix, feature = "sqlite"))]

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use tourbillon_durable::{Dialect, DurableTimer, Filter, OpenError, Operator, OperatorError, Outcome, migrations};

use support::player::say;
use support::process::Process;
use support::{Start, Started, file};

/// The environment variable that makes a test the process that owns a file: its path.
const OWNER: &str = "TOURBILLON_DURABLE_OPERATED";
const HOUR: Duration = Duration::from_secs(3_600);

fn start(path: &Path) -> Started {
    DurableTimer::open(path).unwrap().handler("work", |_due| Outcome::Done).started()
}

fn schedule(timers: &DurableTimer, key: &str) {
    timers.schedule(key, HOUR, "work", b"").unwrap().wait().unwrap();
}

fn is_in_use(path: &Path) -> bool {
    matches!(DurableTimer::open(path), Err(OpenError::InUse { .. }))
}

fn why_not(path: &Path) -> String {
    Operator::open(path).expect_err("it is not opened").to_string()
}

/// Plays a process that owns the file, and has an operator of its own. On `read` it reads and
/// closes its own file.
fn play(path: &str) {
    let timers = start(path.as_ref());
    schedule(&timers, "order:1");
    say("ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (word, key) = line.split_once(' ').unwrap();
        say(&match word {
            "read" => fs::read(path).map(|_| "read".to_owned()).unwrap(),
            "schedule" => format!("{:?}", timers.schedule(key, HOUR, "work", b"").unwrap().wait().map(drop)),
            "cancel" => {
                let operator = Operator::open(path).unwrap();
                operator.cancel(&Filter::new().key(key)).unwrap().cancelled.to_string()
            }
            other => panic!("{other}"),
        });
    }
    std::process::exit(0);
}

#[test]
fn operators_in_the_process_that_owns_a_file_and_in_others_leave_it_to_its_owner() {
    if let Ok(path) = std::env::var(OWNER) {
        return play(&path);
    }
    let (_directory, path) = file();
    let name = "operators_in_the_process_that_owns_a_file_and_in_others_leave_it_to_its_owner";
    let mut process = Process::start(name, OWNER, path.to_str().unwrap());
    assert_eq!(process.hear(), "ready");
    let operator = Operator::open(&path).unwrap();
    assert_eq!(operator.count(&Filter::new()).unwrap(), 1);
    assert_eq!(process.ask("cancel order:2"), "0");
    assert_eq!(process.ask("cancel order:1"), "1");
    assert!(is_in_use(&path), "the lock has ended");
    assert_eq!(operator.count(&Filter::new()).unwrap(), 0);
    // It opens a file that nobody owns, and keeps nobody from it.
    process.kill();
    assert_eq!(operator.count(&Filter::new().running(true)).unwrap(), 0);
    let dead = operator.processes().unwrap().remove(0);
    assert!(dead.live && dead.lease_left <= Duration::from_secs(60), "{dead:?}");
    let timers = start(&path);
    schedule(&timers, "order:3");
    assert!(operator.processes().unwrap().iter().all(|process| process.process != dead.process));
    drop(operator);
    let operator = Operator::open(&path).unwrap();
    timers.stop();
    drop(timers);
    assert_eq!(operator.cancel(&Filter::new().prefix("order:")).unwrap().cancelled, 1);
    assert!(start(&path).get("order:3").unwrap().wait().unwrap().is_none());
}

#[test]
fn an_operator_leaves_the_log_to_the_owner() {
    if let Ok(path) = std::env::var(OWNER) {
        return play(&path);
    }
    let (_directory, path) = file();
    let name = "an_operator_leaves_the_log_to_the_owner";
    let mut process = Process::start(name, OWNER, path.to_str().unwrap());
    assert_eq!(process.hear(), "ready");
    assert_eq!(process.ask("read it"), "read");
    let operator = Operator::open(&path).unwrap();
    assert_eq!(operator.cancel(&Filter::new()).unwrap().cancelled, 1);
    drop(operator);
    assert_eq!(process.ask("schedule order:2"), "Ok(())");
    process.kill();
    let operator = Operator::open(&path).unwrap();
    assert_eq!(operator.list(&Filter::new()).unwrap()[0].key, "order:2");
    // Nor does it delete it when nobody else has the file open.
    drop(operator);
    assert!(path.with_extension("db-wal").exists());
    assert!(start(&path).get("order:2").unwrap().wait().unwrap().is_some());
}

#[test]
fn a_file_that_is_not_there_is_not_made_and_one_without_tables_is_left_alone() {
    let (directory, path) = file();
    assert!(why_not(&path).contains("No such file"), "{}", why_not(&path));
    assert!(why_not(directory.path()).contains("is no file"), "{}", why_not(directory.path()));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    for (number, sql) in migrations(Dialect::Sqlite) {
        let shell = Connection::open(&path).unwrap();
        shell.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        match Operator::open(&path) {
            Err(OpenError::OlderSchema { found, .. }) => assert_eq!(found, number - 1),
            other => panic!("{other:?}"),
        }
        shell.execute_batch(&format!("BEGIN; {sql} COMMIT")).unwrap();
    }
    assert_eq!(Operator::open(&path).unwrap().count(&Filter::new()).unwrap(), 0);
    // Tables that a team has made by itself are those that an open would make.
    schedule(&start(&path), "order:1");
    let (_other, other) = file();
    drop(start(&other));
    let tables = |path| {
        let shell = Connection::open(path).unwrap();
        let mut tables = shell.prepare("SELECT sql FROM sqlite_schema ORDER BY name").unwrap();
        let tables = tables.query_map([], |row| row.get(0)).unwrap();
        tables.collect::<Result<Vec<Option<String>>, _>>().unwrap()
    };
    assert_eq!(tables(&path), tables(&other));
    Connection::open(&path).unwrap().execute("UPDATE tourbillon_schema SET version = 99", []).unwrap();
    assert!(matches!(Operator::open(&path), Err(OpenError::NewerSchema { found: 99, .. })));
}

#[test]
fn a_file_that_is_not_what_its_name_leads_to_is_not_written() {
    let (directory, path) = file();
    schedule(&start(&path), "order:1");
    let hard = directory.path().join("hard.db");
    fs::hard_link(&path, &hard).unwrap();
    for name in [&path, &hard] {
        assert!(why_not(name).contains("hard link"), "{}", why_not(name));
    }
    fs::remove_file(&hard).unwrap();
    let operator = Operator::open(&path).unwrap();
    fs::rename(&path, directory.path().join("old.db")).unwrap();
    let all = Filter::new();
    for error in [operator.count(&all).unwrap_err(), operator.cancel(&all).unwrap_err()] {
        assert!(matches!(&error, OperatorError::Store { changed: 0, .. }), "{error:?}");
        assert!(error.to_string().contains("deleted or replaced"), "{error}");
    }
}

#[test]
fn rows_that_somebody_has_written_by_hand_are_counted_and_left_out_of_lists() {
    let (_directory, path) = file();
    let timers = start(&path);
    schedule(&timers, "a");
    let shell = Connection::open(&path).unwrap();
    shell
        .execute_batch(
            "INSERT INTO tourbillon_timeouts (key, due, handler, payload, generation) VALUES
                 ('b', 'tomorrow', 'work', '', 1000), ('c', 4000000000000000, 'work', 'text', 1001),
                 ('d', 4000000000000000, x'80', '', 1002), (x'80', 4000000000000000, 'work', '', 1003)",
        )
        .unwrap();
    let operator = Operator::open(&path).unwrap();
    let keys: Vec<_> = operator.list(&Filter::new()).unwrap().into_iter().map(|row| row.key).collect();
    assert_eq!(keys, ["a", "c"]);
    assert_eq!(operator.count(&Filter::new()).unwrap(), 5);
    assert_eq!(operator.get("c").unwrap().unwrap().1, b"text");
    // To cancel one by its key helps.
    assert_eq!(operator.cancel(&Filter::new().key("b")).unwrap().cancelled, 1);
}

#[test]
fn a_child_that_was_forked_is_refused() {
    let (_directory, path) = file();
    let timers = start(&path);
    schedule(&timers, "order:1");
    let operator = Operator::open(&path).unwrap();
    // SAFETY: the child calls what looks at its number, and ends.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            let refused = operator.count(&Filter::new()) == Err(OperatorError::Forked);
            drop(operator);
            // SAFETY: nothing of the parent's is dropped.
            unsafe { nix::libc::_exit(i32::from(!refused)) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            let status = nix::sys::wait::waitpid(child, None).unwrap();
            assert_eq!(status, nix::sys::wait::WaitStatus::Exited(child, 0));
        }
    }
    assert_eq!(operator.cancel(&Filter::new()).unwrap().cancelled, 1);
}
