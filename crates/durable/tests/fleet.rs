//! A fleet of processes shares one PostgreSQL, half of them through a pool, and calls of all are
//! about the same few keys. Processes are stopped, some past their lease, and killed, somebody
//! locks rows and the table, and the server crashes. The checker compares their histories with the
//! promises.

#![cfg(all(unix, feature = "postgres"))]

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use support::checker::{check, report};
use support::history::{History, now};
use support::player::{PART, Part};
use support::pooler::Pooler;
use support::postgres::Server;
use support::process::Process;
use support::{PATIENCE, number};

const TEST: &str = "a_fleet_runs_each_timeout_under_its_lease";
const LEASE: Duration = Duration::from_secs(2);
const KEYS: u32 = 50;

struct Member {
    number: u32,
    process: Process,
    /// Until when it is stopped by SIGSTOP.
    stopped_until: Option<Instant>,
}

/// Locks rows and the table by hand, as an operator might.
struct Locker {
    stopping: Arc<AtomicBool>,
    locks: Arc<AtomicU32>,
    thread: JoinHandle<()>,
}

impl Locker {
    fn start(url: String) -> Self {
        let (stopping, locks) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
        let (stop, count) = (Arc::clone(&stopping), Arc::clone(&locks));
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // The server may be down, or crash meanwhile.
                if lock_one(&url).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(100));
            }
        });
        Self { stopping, locks, thread }
    }

    fn stop(self) -> u32 {
        self.stopping.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic");
        self.locks.load(Ordering::Relaxed)
    }
}

/// Holds a lock for less than a lease: so the end of a run can be stored under it.
fn lock_one(url: &str) -> Result<(), postgres::Error> {
    let mut client = postgres::Client::connect(url, postgres::NoTls)?;
    let mut transaction = client.transaction()?;
    if fastrand::u32(..20) == 0 {
        transaction.batch_execute("LOCK TABLE tourbillon_timeouts IN ACCESS EXCLUSIVE MODE")?;
        thread::sleep(Duration::from_millis(fastrand::u64(50..300)));
    } else {
        let key = format!("key:{}", fastrand::u32(..KEYS));
        transaction.query("SELECT key FROM tourbillon_timeouts WHERE key = $1 FOR UPDATE", &[&key])?;
        thread::sleep(Duration::from_millis(fastrand::u64(50..1_200)));
    }
    transaction.rollback()
}

struct Fleet {
    server: Server,
    /// `None` if there is no PgBouncer.
    pooler: Option<Pooler>,
    directory: TempDir,
    members: Vec<Member>,
    /// Each process has a number of its own, also one that replaces another.
    next: u32,
    history: History,
    kills: u32,
    stops: u32,
    long_stops: u32,
    restarts: u32,
}

impl Fleet {
    fn new(server: Server, size: usize) -> Self {
        let pooler = Pooler::start(&server, "transaction", 10);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (kills, stops, long_stops, restarts) = (0, 0, 0, 0);
        let history = History::default();
        let mut fleet = Self {
            server,
            pooler,
            directory,
            members: Vec::new(),
            next: 0,
            history,
            kills,
            stops,
            long_stops,
            restarts,
        };
        for _ in 0..size {
            let member = fleet.start();
            fleet.members.push(member);
        }
        fleet
    }

    fn start(&mut self) -> Member {
        let number = self.next;
        self.next += 1;
        let pooler = self.pooler.as_ref().filter(|_| number.is_multiple_of(2));
        let url = pooler.map_or_else(|| self.server.url(), Pooler::url);
        let part = Part {
            process: number,
            store: format!("{url}?application_name={}", application(number)),
            history: self.file(number),
            keys: KEYS,
            threads: 3,
            lease: LEASE,
            window: Duration::from_secs(if fastrand::bool() { 2 } else { 4 }),
            delays: vec![(35, 0, 300), (40, 300, 3_000), (20, 3_000, 8_000), (5, 3_600_000, 7_200_000)],
            works: vec![(90, 0, 30), (6, 30, 500), (4, 1_500, 3_500)],
            pauses: vec![(100, 5, 60)],
            beats: true,
        };
        let mut process = Process::start(TEST, PART, &serde_json::to_string(&part).expect("plain data"));
        assert_eq!(process.hear(), "ready");
        Member { number, process, stopped_until: None }
    }

    fn file(&self, number: u32) -> PathBuf {
        self.directory.path().join(format!("{number}.history"))
    }

    /// Does something bad to a random member, or nothing.
    fn disturb(&mut self) {
        let at = fastrand::usize(..self.members.len());
        match fastrand::u32(..100) {
            ..30 => self.stop(at, Duration::from_millis(fastrand::u64(20..1_500))),
            30..55 => {
                self.long_stops += 1;
                self.stop(at, LEASE + Duration::from_millis(fastrand::u64(300..3_500)));
            }
            55..80 => self.replace(at),
            _ => {}
        }
    }

    fn stop(&mut self, at: usize, time: Duration) {
        self.stops += 1;
        self.members[at].process.signal(Signal::SIGSTOP);
        self.members[at].stopped_until = Some(Instant::now() + time);
    }

    /// Kills a member, which may be stopped, and starts another process in its place.
    fn replace(&mut self, at: usize) {
        self.kills += 1;
        let member = self.members.swap_remove(at);
        member.process.kill();
        self.server.wait_for_the_end_of(&application(member.number));
        self.read(member.number);
        let member = self.start();
        self.members.push(member);
    }

    fn restart_server(&mut self) {
        self.restarts += 1;
        self.server.restart();
    }

    fn continue_those_stopped_until(&mut self, time: Instant) {
        for member in &mut self.members {
            if member.stopped_until.is_some_and(|until| until <= time) {
                member.process.signal(Signal::SIGCONT);
                member.stopped_until = None;
            }
        }
    }

    /// Ends the random calls, waits until all that is due has run, and stops all members.
    fn finish(&mut self) {
        for member in &mut self.members {
            member.process.signal(Signal::SIGCONT);
            assert_eq!(member.process.ask("quiet"), "quiet");
        }
        let begun = Instant::now();
        loop {
            let answer = self.members[0].process.ask("look");
            if answer.starts_with("0 ") {
                break;
            }
            assert!(begun.elapsed() < 2 * PATIENCE, "rows that are due, and rows: {answer}: they don't run");
            thread::sleep(Duration::from_millis(200));
        }
        for mut member in std::mem::take(&mut self.members) {
            println!("member {}: {}", member.number, member.process.ask("stop"));
            member.process.join();
            self.read(member.number);
        }
    }

    fn read(&mut self, number: u32) {
        self.history.add(number, &self.file(number), now());
    }
}

fn application(number: u32) -> String {
    format!("member-{number}")
}

#[test]
fn a_fleet_runs_each_timeout_under_its_lease() {
    if let Some(part) = Part::mine() {
        return part.play();
    }
    let Some(server) = Server::start() else { return };
    let seconds = number("TOURBILLON_FLEET_SECONDS", 20);
    let size = fastrand::usize(4..=5);
    let mut fleet = Fleet::new(server, size);
    let locker = Locker::start(fleet.server.url());
    let (time, begun) = (Duration::from_secs(seconds), Instant::now());
    // Twice at least, and each 30 s.
    let crashes = number("TOURBILLON_FLEET_CRASHES", (seconds / 30).max(2));
    let crashes = u32::try_from(crashes).expect("a few");
    while begun.elapsed() < time {
        thread::sleep(Duration::from_millis(fastrand::u64(100..1_600)));
        fleet.continue_those_stopped_until(Instant::now());
        fleet.disturb();
        if begun.elapsed() >= time * (fleet.restarts + 1) / (crashes + 1) {
            fleet.restart_server();
        }
    }
    let locks = locker.stop();
    fleet.finish();
    let violations = check(&fleet.history, LEASE);
    let Fleet { kills, stops, long_stops, restarts, .. } = fleet;
    println!(
        "{size} processes for {seconds} s: {}, {kills} kills, {stops} stops, of which {long_stops} past the lease, \
         {restarts} crashes of the server, {locks} locks by hand, {} violations",
        fleet.history.summary(),
        violations.len()
    );
    if !violations.is_empty() {
        println!("{}", report(&violations));
        panic!("{} violations; the histories are in {}", violations.len(), fleet.directory.keep().display());
    }
}
