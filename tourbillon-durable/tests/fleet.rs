//! A fleet of processes shares one PostgreSQL. Processes are stopped, some past their lease, and
//! killed, and the server crashes. What they did is checked against what is promised.

#![cfg(all(unix, feature = "postgres"))]

mod support;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use support::checker::{check, report};
use support::history::{History, now};
use support::player::{PART, Part};
use support::postgres::Server;
use support::process::Process;
use support::{PATIENCE, number};

const TEST: &str = "a_fleet_runs_each_timeout_under_its_lease";
const LEASE: Duration = Duration::from_secs(2);

struct Member {
    number: u32,
    process: Process,
    /// Until when it is stopped by SIGSTOP.
    stopped_until: Option<Instant>,
}

struct Fleet {
    server: Server,
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
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (kills, stops, long_stops, restarts) = (0, 0, 0, 0);
        let history = History::default();
        let mut fleet =
            Self { server, directory, members: Vec::new(), next: 0, history, kills, stops, long_stops, restarts };
        for _ in 0..size {
            let member = fleet.start();
            fleet.members.push(member);
        }
        fleet
    }

    fn start(&mut self) -> Member {
        let number = self.next;
        self.next += 1;
        let part = Part {
            process: number,
            store: format!("{}?application_name={}", self.server.url(), application(number)),
            history: self.file(number),
            keys: 200,
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
    let size = fastrand::usize(3..=5);
    let mut fleet = Fleet::new(server, size);
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
    fleet.finish();
    let violations = check(&fleet.history, LEASE);
    let Fleet { kills, stops, long_stops, restarts, .. } = fleet;
    println!(
        "{size} processes for {seconds} s: {}, {kills} kills, {stops} stops, of which {long_stops} past the lease, \
         {restarts} crashes of the server, {} violations",
        fleet.history.summary(),
        violations.len()
    );
    if !violations.is_empty() {
        println!("{}", report(&violations));
        panic!("{} violations; the histories are in {}", violations.len(), fleet.directory.keep().display());
    }
}
