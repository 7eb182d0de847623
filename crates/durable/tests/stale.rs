//! A process that was stopped past its lease comes back, and ends what it had begun. Another has
//! taken that over. The first one's completions change nothing, and no two runs have one token.

#![cfg(all(unix, feature = "postgres"))]

mod support;

use std::io::{self, BufRead};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tourbillon_durable::{Due, DurableTimer, Outcome};

use support::PATIENCE;
use support::player::say;
use support::postgres::Server;
use support::process::Process;

/// The environment variable with the store, which makes the test one of the two processes.
const STORE: &str = "TOURBILLON_DURABLE_STALE";
/// The keys, each with what the first process's handler returns. The second's returns `Done`.
const KEYS: [(&str, Outcome); 3] = [
    ("done", Outcome::Done),
    ("retried", Outcome::RetryAfter(Duration::from_millis(1))),
    ("buried", Outcome::DeadLetter),
];

/// The runs of one process, which the parent lets end.
#[derive(Default)]
struct Runs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The key, the generation and the attempt of each run, as one word.
    begun: Vec<String>,
    ended: usize,
    may_end: bool,
}

impl Runs {
    /// Blocks until the parent lets the handlers end.
    fn run(&self, due: &Due) {
        let mut state = self.state.lock().expect("no panic");
        state.begun.push(format!("{}/{}/{}", due.key(), due.generation(), due.attempt()));
        self.changed.notify_all();
        state = self.changed.wait_while(state, |state| !state.may_end).expect("no panic");
        state.ended += 1;
        self.changed.notify_all();
    }

    fn let_them_end(&self) {
        self.state.lock().expect("no panic").may_end = true;
        self.changed.notify_all();
    }

    fn wait_until(&self, is_so: impl Fn(&State) -> bool) {
        let state = self.state.lock().expect("no panic");
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| !is_so(state)).expect("no panic");
        assert!(!waited.1.timed_out(), "begun: {:?}, ended: {}", waited.0.begun, waited.0.ended);
    }
}

/// One of the two processes, which does what the parent says.
fn obey(store: &str) {
    let runs = Arc::new(Runs::default());
    let timer = tourbillon::Timer::new().expect("an engine");
    let handling = Arc::clone(&runs);
    let timers = DurableTimer::open(store)
        .expect("the server is up")
        .handler("work", move |due: Due| {
            handling.run(&due);
            // The first attempt is the first process's.
            let answer = KEYS.iter().find(|(key, _)| *key == due.key() && due.attempt() == 1);
            answer.map_or(Outcome::Done, |(_, outcome)| *outcome)
        })
        .threads(KEYS.len() + 1)
        .window(Duration::from_secs(2))
        .lease(Duration::from_secs(2))
        .start(&timer)
        .expect("the options make sense");
    say("ready");
    for line in io::stdin().lock().lines() {
        match line.expect("the parent's words").as_str() {
            // They come up when all have been committed: nothing is committed after the claims.
            "schedule" => {
                for (key, _) in KEYS {
                    let commit = timers.schedule(key, Duration::from_millis(200), "work", b"").expect("accepted");
                    commit.wait().expect("the server is up");
                }
            }
            "begun" => {
                runs.wait_until(|state| state.begun.len() >= KEYS.len());
                say("begun");
            }
            "one has begun" => {
                runs.wait_until(|state| !state.begun.is_empty());
                say("begun");
            }
            "end" => {
                runs.let_them_end();
                runs.wait_until(|state| state.ended >= KEYS.len());
                say("ended");
            }
            "rows" => {
                let row = |(key, _)| timers.get(key).expect("accepted").wait().expect("the server is up");
                let rows = KEYS.map(row).into_iter().flatten();
                let mut rows: Vec<_> = rows.map(|row| format!("{} {}", row.attempts, row.running)).collect();
                // On a busy machine any of their leases may have been the first to end.
                rows.sort_unstable_by(|a, b| b.cmp(a));
                say(&rows.join(", "));
            }
            "stale" => say(&timers.stats().stale_completions.to_string()),
            "tokens" => say(&runs.state.lock().expect("no panic").begun.join(" ")),
            "stop" => {
                timers.stop();
                return say("stopped");
            }
            word => panic!("{word:?} is no word of the parent's"),
        }
    }
}

/// Asks until the answer is the right one.
fn ask_until(process: &mut Process, what: &str, right: &str) {
    let begun = Instant::now();
    loop {
        let answer = process.ask(what);
        if answer == right {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {answer:?}, and not {right:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn start(test: &str, server: &Server) -> Process {
    let mut process = Process::start(test, STORE, &server.url());
    assert_eq!(process.hear(), "ready");
    process
}

#[test]
fn a_stale_owner_cannot_complete() {
    if let Ok(store) = std::env::var(STORE) {
        return obey(&store);
    }
    let Some(server) = Server::start() else { return };
    let start = || start("a_stale_owner_cannot_complete", &server);
    let mut first = start();
    first.tell("schedule");
    assert_eq!(first.ask("begun"), "begun");

    first.signal(Signal::SIGSTOP);
    let mut second = start();
    // It takes over what the first one's lease does not protect any more. Its owner may have died
    // of one of them, so one runs at a time.
    assert_eq!(second.ask("one has begun"), "begun");
    assert_eq!(second.ask("rows"), "2 true, 1 false, 1 false");

    first.signal(Signal::SIGCONT);
    assert_eq!(first.ask("end"), "ended");
    ask_until(&mut first, "stale", "3");
    assert_eq!(second.ask("rows"), "2 true, 1 false, 1 false", "the first one has completed nothing of the second's");

    assert_eq!(second.ask("end"), "ended");
    ask_until(&mut second, "rows", "");
    // Longer than a window, in which both scan.
    thread::sleep(Duration::from_secs(3));
    for (process, what) in [
        (&mut first, "it claims nothing of it again"),
        (&mut second, "nothing is retried, as the first one's handler had asked"),
    ] {
        assert_eq!(process.ask("tokens").split(' ').count(), KEYS.len(), "{what}");
    }
    assert_eq!(second.ask("stale"), "0");
    assert_eq!(first.ask("stale"), "3");
    for mut process in [first, second] {
        assert_eq!(process.ask("stop"), "stopped");
        process.join();
    }
}

/// How often the server crashes. A crash loses a claim only if the server has not written it yet.
const CRASHES: u32 = 5;

#[test]
fn a_token_is_given_once_though_the_server_crashes() {
    if let Ok(store) = std::env::var(STORE) {
        return obey(&store);
    }
    let Some(mut server) = Server::start() else { return };
    for _ in 0..CRASHES {
        let test = "a_token_is_given_once_though_the_server_crashes";
        let mut first = start(test, &server);
        first.tell("schedule");
        assert_eq!(first.ask("begun"), "begun");
        first.signal(Signal::SIGSTOP);
        server.restart();

        let mut second = start(test, &server);
        assert_eq!(second.ask("one has begun"), "begun");
        first.signal(Signal::SIGCONT);
        let stale = first.ask("tokens");
        assert_eq!(second.ask("end"), "ended");
        let current = second.ask("tokens");
        let stale: Vec<_> = stale.split(' ').collect();
        assert!(!current.split(' ').any(|token| stale.contains(&token)), "both ran under one token: {current}");
        assert_eq!(first.ask("end"), "ended");
        ask_until(&mut second, "rows", "");
    }
}
