//! An SQLite file has one owner, whatever names it has and whatever becomes of it, and what was
//! answered is where the next owner finds it.

#![cfg(all(unix, feature = "sqlite"))]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Pid, fork};
use rusqlite::Connection;
use support::player::say;
use support::process::Process;
use support::{Start, Started, file, until};
use tourbillon_durable::{CommitError, DurableTimer, OpenError, Outcome};

/// The environment variable that makes a test the process that owns a file: its path.
const OWNER: &str = "TOURBILLON_DURABLE_OWNER";
const HOUR: Duration = Duration::from_secs(3_600);
/// A call without an answer by then fails.
const LIMIT: Duration = Duration::from_secs(2);

fn start(path: &Path) -> Started {
    DurableTimer::open(path).unwrap().handler("work", |_due| Outcome::Done).started_within(LIMIT)
}

fn schedule(timers: &DurableTimer, key: &str) -> Result<(), CommitError> {
    timers.schedule(key, HOUR, "work", b"").unwrap().wait().map(drop)
}

fn has(timers: &DurableTimer, key: &str) -> bool {
    timers.get(key).unwrap().wait().unwrap().is_some()
}

fn is_in_use(path: &Path) -> bool {
    matches!(DurableTimer::open(path), Err(OpenError::InUse { .. }))
}

fn why_not(path: &Path) -> String {
    DurableTimer::open(path).expect_err("it is not opened").to_string()
}

/// Plays the owner of a file, in a process of its own, until its parent has gone. On `fork` it
/// forks a child that lives on, and says its number; on `read` it reads and closes its own file.
fn play(path: &str) {
    let timers = start(path.as_ref());
    schedule(&timers, "first").unwrap();
    say("ready");
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "fork" => {
                // SAFETY: the child does nothing but to sleep.
                match unsafe { fork() }.unwrap() {
                    ForkResult::Parent { child } => say(&child.to_string()),
                    ForkResult::Child => loop {
                        std::thread::sleep(HOUR);
                    },
                }
            }
            "read" => {
                fs::read(path).unwrap();
                say(&format!("{:?}", schedule(&timers, "after the read")));
            }
            other => say(&format!("{:?}", schedule(&timers, other))),
        }
    }
    std::process::exit(0);
}

/// A process that owns the file.
fn owner(test: &str, path: &Path) -> Process {
    let mut process = Process::start(test, OWNER, path.to_str().unwrap());
    assert_eq!(process.hear(), "ready");
    process
}

#[test]
fn another_process_is_refused_by_whatever_name_it_opens_the_file() {
    if let Ok(path) = std::env::var(OWNER) {
        return play(&path);
    }
    let (directory, path) = file();
    let process = owner("another_process_is_refused_by_whatever_name_it_opens_the_file", &path);
    let (hard, soft) = (directory.path().join("hard.db"), directory.path().join("soft.db"));
    fs::hard_link(&path, &hard).unwrap();
    symlink(&path, &soft).unwrap();
    _ = fs::remove_file(directory.path().join("timeouts.db-lock"));
    for name in [&path, &hard, &soft] {
        assert!(is_in_use(name), "{}", name.display());
    }
    process.kill();
    // The log is beside one of the names. Under the other one it would be lost.
    for name in [&path, &hard] {
        assert!(why_not(name).contains("hard link"), "{}", why_not(name));
    }
    fs::remove_file(&hard).unwrap();
    assert!(has(&start(&soft), "first"));
}

#[test]
fn a_second_timer_of_the_process_is_refused_until_the_first_is_gone() {
    let (directory, path) = file();
    let soft = directory.path().join("soft.db");
    symlink(&path, &soft).unwrap();
    let first = start(&soft);
    assert!(is_in_use(&path) && is_in_use(&soft));
    // To be refused has not harmed the first.
    schedule(&first, "key").unwrap();
    first.stop();
    drop(first);
    let second = start(&path);
    assert!(has(&second, "key") && is_in_use(&soft));
}

#[test]
fn a_child_that_outlives_its_parent_does_not_keep_the_file() {
    if let Ok(path) = std::env::var(OWNER) {
        return play(&path);
    }
    let (_directory, path) = file();
    let mut process = owner("a_child_that_outlives_its_parent_does_not_keep_the_file", &path);
    let child = Pid::from_raw(process.ask("fork").parse().unwrap());
    assert!(is_in_use(&path));
    process.kill();
    kill(child, None).expect("the child lives");
    let timers = DurableTimer::open(&path).map(drop);
    kill(child, Signal::SIGKILL).unwrap();
    timers.unwrap();
    assert!(has(&start(&path), "first"));
}

#[test]
fn a_process_that_reads_its_own_file_is_still_the_one_owner() {
    if let Ok(path) = std::env::var(OWNER) {
        return play(&path);
    }
    let (_directory, path) = file();
    let mut process = owner("a_process_that_reads_its_own_file_is_still_the_one_owner", &path);
    assert_eq!(process.ask("read"), "Ok(())");
    assert!(is_in_use(&path));
    process.kill();
    let timers = start(&path);
    assert!(has(&timers, "first") && has(&timers, "after the read"));
}

#[test]
fn an_owner_that_lost_the_file_unnoticed_writes_no_more() {
    if let Ok(path) = std::env::var(OWNER) {
        return play(&path);
    }
    let (_directory, path) = file();
    let timers = start(&path);
    schedule(&timers, "mine").unwrap();
    // Its first lease is written without being asked for.
    until(|| timers.stats().renewals > 0);
    // That ends the lock: nothing of it is written until the next transaction.
    fs::read(&path).unwrap();
    let mut process = owner("an_owner_that_lost_the_file_unnoticed_writes_no_more", &path);
    let error = schedule(&timers, "too late").unwrap_err().to_string();
    assert!(error.contains("another process has taken the database over"), "{error}");
    assert_eq!(process.ask("theirs"), "Ok(())");
    timers.stop();
    drop(timers);
    process.kill();
    let timers = start(&path);
    for (key, there) in [("mine", true), ("first", true), ("theirs", true), ("too late", false)] {
        assert_eq!(has(&timers, key), there, "{key}");
    }
}

/// Whether a call fails, and goes on failing.
fn nothing_is_answered_any_more(timers: &DurableTimer, reason: &str) {
    for key in ["first", "second"] {
        let error = schedule(timers, key).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn nothing_is_answered_as_on_disk_after_the_file_was_deleted() {
    let (_directory, path) = file();
    let timers = start(&path);
    schedule(&timers, "before").unwrap();
    fs::remove_file(&path).unwrap();
    nothing_is_answered_any_more(&timers, "deleted");
    timers.stop();
}

#[test]
fn nothing_is_answered_as_on_disk_after_the_file_was_replaced() {
    let (directory, path) = file();
    let timers = start(&path);
    schedule(&timers, "before").unwrap();
    let other = directory.path().join("other.db");
    fs::copy(&path, &other).unwrap();
    fs::rename(&other, &path).unwrap();
    nothing_is_answered_any_more(&timers, "replaced");
    timers.stop();
}

#[test]
fn nothing_is_answered_as_on_disk_after_the_log_was_deleted() {
    let (directory, path) = file();
    let timers = start(&path);
    schedule(&timers, "before").unwrap();
    fs::remove_file(directory.path().join("timeouts.db-wal")).unwrap();
    nothing_is_answered_any_more(&timers, "timeouts.db-wal was deleted");
    timers.stop();
    drop(timers);
    // SQLite has still had the log open, and has brought it into the file.
    assert!(has(&start(&path), "before"));
}

#[test]
fn a_file_that_came_back_is_used_again() {
    let (directory, path) = file();
    let timers = start(&path);
    let aside = directory.path().join("aside.db");
    fs::rename(&path, &aside).unwrap();
    schedule(&timers, "meanwhile").unwrap_err();
    fs::rename(&aside, &path).unwrap();
    schedule(&timers, "after").unwrap();
}

#[test]
fn a_path_that_leads_to_no_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    assert!(why_not(directory.path()).contains("no file"));
    let text = directory.path().join("text.db");
    fs::write(&text, "Dear diary, ".repeat(1_000)).unwrap();
    assert!(why_not(&text).contains("not a database"));
    let nowhere = directory.path().join("nowhere").join("timeouts.db");
    assert!(why_not(&nowhere).contains("No such file"));
    let newer = directory.path().join("newer.db");
    let shell = Connection::open(&newer).unwrap();
    shell.execute_batch("CREATE TABLE tourbillon_schema (version); INSERT INTO tourbillon_schema VALUES (99)").unwrap();
    assert!(matches!(DurableTimer::open(&newer), Err(OpenError::NewerSchema { found: 99, .. })));
}
