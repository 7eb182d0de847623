//! A process that uses a store is killed by SIGKILL at a random moment, again and again: what was
//! answered is in the store, and nothing runs early, twice or after it was cancelled.

#![cfg(all(unix, any(feature = "postgres", feature = "sqlite")))]

mod support;

use std::ops::Range;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use support::checker::{check, report};
use support::history::{History, now};
use support::player::{PART, Part};
use support::process::Process;
use support::{PATIENCE, number};

/// A process is killed this long after it has begun to call.
const LIVES: Range<u64> = 50..400;
/// One process of so many is killed while it starts.
const STILLBORN: u32 = 8;
const LEASE: Duration = Duration::from_secs(2);

/// The processes of one store, one after the other.
struct Lives<'a> {
    test: &'a str,
    directory: TempDir,
    store: &'a dyn Fn(u32) -> String,
    /// Waits until nothing of a killed process can reach the store any more.
    wait_for_the_end_of: &'a dyn Fn(u32),
    history: History,
}

impl Lives<'_> {
    fn file(&self, process: u32) -> PathBuf {
        self.directory.path().join(format!("{process}.history"))
    }

    fn start(&self, process: u32, threads: u32) -> Process {
        let part = Part {
            process,
            store: (self.store)(process),
            history: self.file(process),
            keys: 256,
            threads,
            lease: LEASE,
            window: Duration::from_secs(2),
            delays: vec![(60, 10, 300), (10, 300, 3_000), (30, 3_600_000, 7_200_000)],
            works: vec![(70, 0, 5), (30, 5, 60)],
            pauses: vec![(100, 0, 4)],
            beats: false,
        };
        Process::start(self.test, PART, &serde_json::to_string(&part).expect("plain data"))
    }

    /// Starts a process that gets each key, and then calls at random until it is killed.
    fn kill_one(&mut self, process: u32) {
        let mut running = self.start(process, 3);
        if fastrand::u32(..STILLBORN) == 0 {
            thread::sleep(Duration::from_millis(fastrand::u64(..100)));
        } else {
            assert_eq!(running.hear(), "ready");
            if fastrand::bool() {
                running.tell("look");
            }
            thread::sleep(Duration::from_millis(fastrand::u64(LIVES)));
        }
        running.kill();
        (self.wait_for_the_end_of)(process);
        self.read(process);
    }

    /// Starts a process that makes no random calls, and waits until all that was due has run.
    fn finish(&mut self, process: u32) {
        let mut running = self.start(process, 0);
        assert_eq!(running.hear(), "ready");
        let begun = Instant::now();
        loop {
            let answer = running.ask("look");
            if answer.starts_with("0 ") {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "rows that are due, and rows: {answer}: they don't run");
            thread::sleep(Duration::from_millis(100));
        }
        println!("{}", running.ask("stop"));
        running.join();
        self.read(process);
    }

    fn read(&mut self, process: u32) {
        self.history.add(process, &self.file(process), now());
    }
}

/// Plays the part of a process if this is one. If not, kills processes and checks what they wrote.
fn kill_and_check(test: &str, store: &dyn Fn(u32) -> String, wait_for_the_end_of: &dyn Fn(u32)) {
    let rounds = u32::try_from(number("TOURBILLON_KILL_ROUNDS", 20)).expect("fewer rounds");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut lives = Lives { test, directory, store, wait_for_the_end_of, history: History::default() };
    for round in 0..rounds {
        lives.kill_one(round);
    }
    lives.finish(rounds);
    let violations = check(&lives.history, LEASE);
    println!("{test}: {rounds} kills, {}, {} violations", lives.history.summary(), violations.len());
    if !violations.is_empty() {
        println!("{}", report(&violations));
        panic!("{} violations; the histories are in {}", violations.len(), lives.directory.keep().display());
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn calls_that_sqlite_answered_survive_kill_minus_nine() {
    if let Some(part) = Part::mine() {
        return part.play();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("timeouts.db");
    let store = |_| path.to_str().expect("UTF-8").to_owned();
    kill_and_check("calls_that_sqlite_answered_survive_kill_minus_nine", &store, &|_| ());
}

#[cfg(feature = "postgres")]
#[test]
fn calls_that_postgres_answered_survive_kill_minus_nine() {
    if let Some(part) = Part::mine() {
        return part.play();
    }
    let Some(server) = support::postgres::Server::start() else { return };
    let application = |process| format!("life-{process}");
    // By turns through the socket and through TCP.
    let store = |process| match process % 2 {
        0 => format!("{}?application_name={}", server.url(), application(process)),
        _ => format!("{}&application_name={}", server.socket_url(), application(process)),
    };
    let wait_for_the_end_of = |process| server.wait_for_the_end_of(&application(process));
    kill_and_check("calls_that_postgres_answered_survive_kill_minus_nine", &store, &wait_for_the_end_of);
}
