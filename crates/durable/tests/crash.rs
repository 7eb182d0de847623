//! Handlers that end their process: the innocents that were claimed beside them run all the same.

#![cfg(unix)]

mod support;

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use support::Start;
use support::player::say;
use support::process::Process;
use tourbillon_durable::{Due, DurableTimer, Outcome};

/// The environment variable that makes a test the process that crashes: the store.
const CRASHING: &str = "TOURBILLON_DURABLE_CRASHING";
const KILLERS: usize = 4;
const INNOCENTS: usize = 20;
/// A killer is given up after so many runs.
const ATTEMPTS: u32 = 2;

fn run(due: &Due) -> Outcome {
    if due.key().starts_with("killer") {
        // So that others are under way.
        thread::sleep(Duration::from_millis(20));
        say(&format!("died {}", due.key()));
        std::process::abort();
    }
    say(&format!("ran {}", due.key()));
    Outcome::Done
}

/// Plays until its parent has gone, or a handler ends it. On `schedule` it schedules all.
fn play(store: &str) {
    let timers = DurableTimer::open(store)
        .unwrap()
        .handler("work", |due| run(&due))
        .threads(8)
        .max_attempts(ATTEMPTS)
        .lease(Duration::from_secs(2))
        .window(Duration::from_millis(500))
        .started();
    say("ready");
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "schedule" => {
                let name = |n| if n < KILLERS { format!("killer:{n}") } else { format!("innocent:{n}") };
                let calls: Vec<_> = (0..KILLERS + INNOCENTS)
                    .map(|n| timers.schedule(&name(n), Duration::from_millis(200), "work", b"").unwrap())
                    .collect();
                calls.into_iter().for_each(|call| drop(call.wait()));
            }
            _ => {
                let dead = timers.dead_letters(100).unwrap().wait().unwrap();
                let killers = dead.iter().filter(|letter| letter.key.starts_with("killer")).count();
                say(&format!("dead {killers} of {}", dead.len()));
            }
        }
    }
    std::process::exit(0);
}

fn each_innocent_runs(test: &str, store: &str) {
    let mut runs: HashMap<String, u32> = HashMap::new();
    let mut process = Process::start(test, CRASHING, store);
    let mut starts = 1;
    assert_eq!(process.hear(), "ready");
    process.tell("schedule");
    loop {
        // A process that has nothing to say has died, or has nothing left to run.
        match process.hear_within(Duration::from_secs(4)) {
            Some(line) if line.starts_with("dead ") => {
                if line == format!("dead {KILLERS} of {KILLERS}") {
                    break;
                }
                thread::sleep(Duration::from_millis(500));
                process.tell_if_alive("count");
            }
            Some(line) => *runs.entry(line).or_default() += 1,
            None if process.is_alive() => process.tell_if_alive("count"),
            None => {
                starts += 1;
                assert!(starts <= 1 + KILLERS * ATTEMPTS as usize + 1, "{runs:?}");
                process = Process::start(test, CRASHING, store);
                assert_eq!(process.hear(), "ready");
            }
        }
    }
    for n in KILLERS..KILLERS + INNOCENTS {
        let key = format!("ran innocent:{n}");
        assert!(runs.contains_key(&key), "{runs:?}");
    }
}

#[test]
#[cfg(feature = "sqlite")]
fn a_handler_that_ends_its_process_takes_no_other_with_it() {
    if let Ok(store) = std::env::var(CRASHING) {
        return play(&store);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("timeouts.db");
    each_innocent_runs("a_handler_that_ends_its_process_takes_no_other_with_it", path.to_str().unwrap());
}

#[test]
#[cfg(feature = "postgres")]
fn a_handler_that_ends_its_process_takes_no_other_with_it_in_a_fleet() {
    if let Ok(store) = std::env::var(CRASHING) {
        return play(&store);
    }
    let Some(server) = support::postgres::Server::start() else { return };
    each_innocent_runs("a_handler_that_ends_its_process_takes_no_other_with_it_in_a_fleet", &server.url());
}
