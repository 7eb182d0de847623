//! The locks of a commit hold up no other process for long: all take them in one order, and they
//! end soon after their process stands still.

#![cfg(all(unix, feature = "postgres"))]

mod support;

use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tourbillon_durable::{DurableTimer, Outcome};

use support::PATIENCE;
use support::player::{PART, Part, say};
use support::postgres::Server;
use support::process::Process;

const KEYS: u32 = 32;
const LEASE: Duration = Duration::from_secs(2);

/// Starts a process that writes without a pause. Its application is `busy`.
fn start_busy(test: &str, server: &Server, history: &Path) -> Process {
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
    let mut busy = Process::start(test, PART, &serde_json::to_string(&part).expect("plain data"));
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
    let test = "a_process_that_stops_within_a_commit_holds_nobody_up";
    let busy = start_busy(test, &server, &directory.path().join("history"));
    let timer = tourbillon::Timer::new().expect("an engine");
    let open = DurableTimer::open(server.url()).expect("the server is up");
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

/// The environment variable with the store, which makes a test a process that writes to all keys.
const WRITER: &str = "TOURBILLON_DURABLE_WRITER";
const TIME: Duration = Duration::from_secs(5);
/// Calls of a round. Each key is in it several times, in random order.
const ROUND: usize = 200;

/// Schedules, resets and cancels, so that rows come and go. Says how much was carried out, and how
/// long the slowest round took in milliseconds.
fn write_all(store: &str) {
    let timer = tourbillon::Timer::new().expect("an engine");
    let far = Duration::from_secs(3_600);
    let open = DurableTimer::open(store).expect("the server is up");
    let timers = open.handler("work", |_| Outcome::Done).start(&timer).expect("the options make sense");
    let (mut count, mut slowest) = (0, Duration::ZERO);
    let begun = Instant::now();
    while begun.elapsed() < TIME {
        let round = Instant::now();
        let (mut schedules, mut others) = (Vec::new(), Vec::new());
        for _ in 0..ROUND {
            let key = format!("key:{}", fastrand::u32(..KEYS));
            match fastrand::u32(..8) {
                0..4 => schedules.push(timers.schedule(&key, far, "work", b"").expect("accepted")),
                4 => others.push(timers.reset(&key, far).expect("accepted")),
                _ => others.push(timers.cancel(&key).expect("accepted")),
            }
        }
        count += schedules.len() + others.len();
        schedules.into_iter().for_each(|call| _ = call.wait().expect("committed"));
        others.into_iter().for_each(|call| _ = call.wait().expect("committed"));
        slowest = slowest.max(round.elapsed());
    }
    timers.stop();
    say(&format!("{count} {}", slowest.as_millis()));
}

#[test]
fn processes_that_write_to_the_same_keys_do_not_lock_each_other_out() {
    if let Ok(store) = std::env::var(WRITER) {
        return write_all(&store);
    }
    let Some(server) = Server::start() else { return };
    let test = "processes_that_write_to_the_same_keys_do_not_lock_each_other_out";
    let mut writers: Vec<_> = (0..4).map(|_| Process::start(test, WRITER, &server.url())).collect();
    let mut total = 0;
    for mut writer in writers.drain(..) {
        let said = writer.hear();
        let (count, slowest) = said.split_once(' ').expect("two numbers");
        total += count.parse::<u32>().expect("a number");
        let slowest: u64 = slowest.parse().expect("a number");
        assert!(slowest < 3_000, "a round took {slowest} ms");
        writer.join();
    }
    let log = server.log();
    let deadlocks: Vec<_> = log.match_indices("deadlock detected").collect();
    let first = deadlocks.first().map(|&(at, _)| log[at..].lines().take(20).collect::<Vec<_>>().join("\n"));
    assert_eq!(deadlocks.len(), 0, "{}", first.unwrap_or_default());
    // A deadlock or two would leave a tenth of it.
    assert!(total > 2_000, "{total} calls in {TIME:?}");
}
