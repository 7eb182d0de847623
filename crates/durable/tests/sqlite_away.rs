//! SQLite while somebody else has locked all, while the disk is full, and while somebody reads for
//! long: each call has an answer in time, and all goes on afterwards.

#![cfg(all(unix, feature = "sqlite"))]

#[allow(dead_code, reason = "the tests of both stores use the rest")]
mod stores;

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use stores::{Start, Started, file, stop_in_time, until};
use testkit::again;
use tourbillon_durable::{CommitError, DurableTimer, Outcome};

const HOUR: Duration = Duration::from_secs(3_600);
const SOON: Duration = Duration::from_millis(500);
/// A call has an answer within this time, and its answer may be a little late.
const LIMIT: Duration = Duration::from_secs(1);
const ANSWERED: Duration = Duration::from_secs(4);

fn start(path: &Path) -> Started {
    DurableTimer::open(path).unwrap().handler("work", |_due| Outcome::Done).started_within(LIMIT)
}

/// Schedules, and says what the answer was, which must come in time.
fn schedule(timers: &DurableTimer, key: &str, delay: Duration, payload: &[u8]) -> Result<(), CommitError> {
    let begun = Instant::now();
    let answer = timers.schedule(key, delay, "work", payload).unwrap().wait().map(drop);
    assert!(begun.elapsed() < ANSWERED, "{key}: {answer:?} after {:?}", begun.elapsed());
    answer
}

#[test]
fn while_somebody_else_has_the_write_lock_calls_are_answered_and_then_all_runs() {
    let (_directory, path) = file();
    let timers = start(&path);
    for n in 0..50 {
        schedule(&timers, &format!("due:{n}"), SOON, b"").unwrap();
    }
    let shell = Connection::open(&path).unwrap();
    until(|| shell.execute_batch("BEGIN EXCLUSIVE").is_ok());
    let under_lock = timers.stats().completed;
    let mut failed = Vec::new();
    for n in 0..3 {
        let key = format!("meanwhile:{n}");
        let error = schedule(&timers, &key, HOUR, b"").unwrap_err();
        assert!(error.to_string().contains("locked"), "{error}");
        // It is not known if the writer waited for the lock with it just then.
        if !matches!(error, CommitError::Unknown(_)) {
            failed.push(key);
        }
    }
    assert_eq!(timers.stats().completed, under_lock, "it can't be completed under the lock");
    shell.execute_batch("COMMIT").unwrap();
    until(|| timers.stats().completed == 50);
    schedule(&timers, "after", HOUR, b"").unwrap();
    for key in failed {
        let row = timers.get(&key).unwrap().wait().unwrap();
        assert_eq!(row, None, "its caller was told that nothing of it is on disk");
    }
}

#[test]
fn a_stop_ends_in_time_while_somebody_else_has_the_write_lock() {
    let (_directory, path) = file();
    let timers = start(&path);
    schedule(&timers, "far", HOUR, b"").unwrap();
    schedule(&timers, "near", SOON, b"").unwrap();
    let shell = Connection::open(&path).unwrap();
    until(|| shell.execute_batch("BEGIN EXCLUSIVE").is_ok());
    thread::sleep(2 * SOON);
    stop_in_time(&timers);
    drop(timers);
    shell.execute_batch("COMMIT").unwrap();
    let timers = start(&path);
    assert!(timers.get("far").unwrap().wait().unwrap().is_some());
    until(|| timers.get("near").unwrap().wait().unwrap().is_none());
}

#[test]
fn the_log_becomes_short_again_after_somebody_has_read_for_long() {
    let (directory, path) = file();
    let log = || fs::metadata(directory.path().join("timeouts.db-wal")).unwrap().len() >> 20;
    let timers = start(&path);
    let write = |count: usize, len: usize| {
        let key = |n: usize| format!("key:{}", n % 500);
        let calls: Vec<_> = (0..count).map(|n| timers.schedule(&key(n), HOUR, "work", vec![5; len]).unwrap()).collect();
        calls.into_iter().for_each(|call| _ = call.wait().unwrap());
    };
    write(500, 1_000);
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM tourbillon_timeouts").unwrap();
    until(|| {
        write(500, 20_000);
        log() > 150
    });
    reader.execute_batch("COMMIT").unwrap();
    let mut calls = 0;
    while log() > 64 {
        write(100, 2_000);
        calls += 100;
        assert!(calls < 20_000, "the log has {} MiB after {calls} calls", log());
    }
}

#[test]
fn the_log_keeps_its_length_while_nobody_reads_for_long() {
    let (directory, path) = file();
    let log = || fs::metadata(directory.path().join("timeouts.db-wal")).unwrap().len();
    let timers = start(&path);
    let mut shrunk = 0;
    let mut last = log();
    for round in 0..150 {
        let key = |n: usize| format!("key:{}", (n * 7 + round) % 3_000);
        let calls: Vec<_> = (0..500).map(|n| timers.schedule(&key(n), HOUR, "work", vec![5; 2_000]).unwrap()).collect();
        calls.into_iter().for_each(|call| _ = call.wait().unwrap());
        shrunk += u32::from(log() < last);
        last = log();
    }
    assert!(shrunk <= 1, "it has become shorter {shrunk} times");
    assert!(last < 64 << 20, "it has {last} bytes");
}

/// The environment variable that names a small disk, which the test has to itself.
const SMALL_DISK: &str = "TOURBILLON_SMALL_DISK";

/// Runs a test again with a disk of 8 MiB. Returns whether that can be had here.
fn run_with_a_small_disk(test: &str) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let with_disk = |rest: &str| {
        let script = format!("mount -t tmpfs -o size=8m none {} && {rest}", directory.path().display());
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]).env(SMALL_DISK, directory.path());
        command
    };
    if !with_disk("true").output().is_ok_and(|output| output.status.success()) {
        return false;
    }
    let again = again::test(test);
    let words: Vec<_> = [again.get_program()].into_iter().chain(again.get_args()).collect();
    let words: Vec<_> = words.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    assert!(with_disk(&format!("exec {}", words.join(" "))).status().unwrap().success());
    true
}

/// Takes all space that is left, and returns the file.
fn fill(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("somebody.log");
    let mut file = fs::File::create(&path).unwrap();
    for size in [1 << 16, 1 << 12, 1 << 8, 1] {
        let some = vec![1; size];
        while file.write_all(&some).is_ok() {}
    }
    path
}

#[test]
fn while_the_disk_is_full_calls_are_answered_and_then_all_runs() {
    let test = "while_the_disk_is_full_calls_are_answered_and_then_all_runs";
    let Some(disk) = env::var_os(SMALL_DISK) else {
        if !run_with_a_small_disk(test) {
            eprintln!("SKIPPED: {test}: no mount here, it takes root");
        }
        return;
    };
    let disk = Path::new(&disk);
    let timers = start(&disk.join("timeouts.db"));
    for n in 0..20 {
        schedule(&timers, &format!("due:{n}"), Duration::from_secs(6), b"").unwrap();
    }
    let filled = fill(disk);
    for n in 0..4 {
        // Large enough for the space that SQLite has already.
        let error = schedule(&timers, &format!("late:{n}"), HOUR, &vec![1; 1_000_000]).unwrap_err();
        assert!(error.to_string().contains("full"), "{error}");
    }
    thread::sleep(Duration::from_secs(4));
    fs::remove_file(&filled).unwrap();
    until(|| timers.stats().completed == 20);
    schedule(&timers, "after", HOUR, b"").unwrap();
    fill(disk);
    stop_in_time(&timers);
}
