//! A process that stands still in the middle of a commit does not hold the fleet up: its locks end
//! with its session, and its session ends soon.

#![cfg(all(unix, feature = "postgres"))]

mod support;

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tourbillon_durable::{DurableTimer, Outcome};

use support::PATIENCE;
use support::player::{PART, Part};
use support::postgres::Server;
use support::process::Process;

const TEST: &str = "a_process_that_stops_within_a_commit_holds_nobody_up";
const KEYS: u32 = 8;
const LEASE: Duration = Duration::from_secs(2);

/// Starts a process that writes to the same few keys without a pause.
fn start_busy(server: &Server, history: &std::path::Path) -> Process {
    let part = Part {
        process: 0,
        store: format!("{}?application_name=busy", server.url()),
        history: history.to_owned(),
        keys: KEYS,
        threads: 8,
        lease: LEASE,
        window: LEASE,
        delays: vec![(100, 3_600_000, 7_200_000)],
        works: vec![(100, 0, 0)],
        pauses: vec![(100, 0, 0)],
        beats: false,
    };
    let mut busy = Process::start(TEST, PART, &serde_json::to_string(&part).expect("plain data"));
    assert_eq!(busy.hear(), "ready");
    busy
}

/// Stops the process while the server waits for the next statement of one of its transactions.
fn stop_within_a_commit(server: &Server, busy: &Process) {
    let mut client = server.connect().expect("the server is up");
    let mut is_within = || {
        let count = "SELECT count(*) FROM pg_stat_activity, pg_locks
                     WHERE pg_stat_activity.pid = pg_locks.pid AND mode = 'RowExclusiveLock'
                     AND application_name = 'busy' AND state = 'idle in transaction'";
        client.query_one(count, &[]).expect("the server is up").get::<_, i64>(0) > 0
    };
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if is_within() {
            busy.signal(Signal::SIGSTOP);
            // The server carries out what it had got, and then waits or is done.
            thread::sleep(Duration::from_millis(50));
            if is_within() {
                return;
            }
            busy.signal(Signal::SIGCONT);
        }
    }
    panic!("no commit was met in {PATIENCE:?}");
}

#[test]
fn a_process_that_stops_within_a_commit_holds_nobody_up() {
    if let Some(part) = Part::mine() {
        return part.play();
    }
    let Some(server) = Server::start() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let busy = start_busy(&server, &directory.path().join("history"));
    let timer = tourbillon::Timer::new().expect("an engine");
    let open = DurableTimer::open(&server.url()).expect("the server is up");
    let timers = open.handler("work", |_| Outcome::Done).start(&timer).expect("the options make sense");
    stop_within_a_commit(&server, &busy);

    let (send, answers) = channel();
    let waiting = thread::spawn(move || {
        for key in 0..KEYS {
            let key = format!("key:{key}");
            let commit = timers.schedule(&key, Duration::from_secs(3_600), "work", b"0:0").expect("accepted");
            let _ = send.send(commit.wait());
        }
    });
    for key in 0..KEYS {
        let answer = answers.recv_timeout(PATIENCE / 2);
        if answer.is_err() {
            // So that this process can end.
            busy.signal(Signal::SIGCONT);
        }
        answer.unwrap_or_else(|_| panic!("key {key} is locked by a process that stands still")).expect("committed");
    }
    waiting.join().expect("it does not panic");
}
