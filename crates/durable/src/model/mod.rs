//! The writer against a map: random calls, clocks that jump, and a store that loses connections and
//! crashes before or after what it was asked to do.
//!
//! The test turns the writer, the engine and the handlers by hand, so each case is repeatable.

mod faulty;
mod own;
mod steps;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use crossbeam_channel::Receiver;
use proptest::prelude::*;
use tourbillon::{Driver, ManualClock, Timer};

use self::faulty::{Faults, Faulty};
use self::steps::{Step, steps};
use crate::clock::{Micros, WallClock};
use crate::commit::{self, Commit, Patience, Responder};
use crate::due::{Due, Outcome, Pending};
use crate::error::CommitError;
use crate::events::Events;
use crate::handlers::{Call, Handler, Handlers, Lease, Run, Runners, Surroundings};
use crate::inbox::{Command, End, Ended, Inbox, Reply};
use crate::retry::RetryPolicy;
use crate::stats::Counters;
use crate::store::sqlite::SqliteStore;
use crate::store::{Op, Owner, Store, Token};
use crate::window::Window;
use crate::writer::{Limits, Parts, Writer};

const KEYS: u8 = 5;
const WINDOW: Duration = Duration::from_secs(30);

/// A wall clock that the test moves.
#[derive(Clone)]
struct Wall(Arc<AtomicI64>);

impl WallClock for Wall {
    fn now(&self) -> SystemTime {
        Micros(self.0.load(Ordering::Relaxed)).to_system_time()
    }
}

/// A process that is alive.
struct Process {
    writer: Writer,
    inbox: Arc<Inbox>,
    handlers: Arc<Handlers>,
    patience: Arc<Patience>,
    timer: Timer,
    driver: Driver,
    runs: Receiver<Run>,
}

/// The row of a key, as far as the test knows it.
#[derive(Clone, Copy, Debug)]
struct Row {
    generation: i64,
    /// Whether a run has ended it, and a crash may have lost that.
    may_be_gone: bool,
    has_run: bool,
}

struct World {
    path: PathBuf,
    wall: Wall,
    engine: ManualClock,
    faults: Faults,
    process: Option<Process>,
    rows: HashMap<String, Row>,
    /// The last generation of a key that is known.
    last: HashMap<String, i64>,
    /// How many processes have been started.
    starts: u32,
    /// The timeouts that are claimed and have not run.
    claimed: Vec<Due>,
    handed_out: HashSet<(String, i64, u32)>,
    _directory: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut world = Self {
            path: directory.path().join("timeouts.db"),
            wall: Wall(Arc::new(AtomicI64::new(1_000_000_000_000_000))),
            engine: ManualClock::new(),
            faults: Faults::default(),
            process: None,
            rows: HashMap::new(),
            last: HashMap::new(),
            starts: 0,
            claimed: Vec::new(),
            handed_out: HashSet::new(),
            _directory: directory,
        };
        world.start();
        world
    }

    fn start(&mut self) {
        self.faults.crashed.store(false, Ordering::Relaxed);
        self.starts += 1;
        let wall: Arc<dyn WallClock> = Arc::new(self.wall.clone());
        let mut store = SqliteStore::open(&self.path).unwrap();
        store.begin(Arc::clone(&wall), Arc::default()).unwrap();
        let (timer, driver) = Timer::builder().clock(self.engine.clone()).build_driven().unwrap();
        let inbox = Arc::new(Inbox::new(100));
        // By the engine's clock, which the test has.
        let patience = Arc::new(Patience::new(timer.clone(), Duration::from_secs(3_600)));
        let (lease, counters) = (Arc::new(Lease::default()), Arc::new(Counters::new()));
        let (runners, runs) = Runners::by_hand(Surroundings {
            abandoned: Arc::default(),
            inbox: Arc::clone(&inbox),
            lease: Arc::clone(&lease),
            wall: Arc::clone(&wall),
            counters: Arc::clone(&counters),
        });
        let mut handlers = Handlers::default();
        handlers.insert(
            "handler",
            Some(Handler {
                call: Call::Blocks(Arc::new(|_| Outcome::Done)),
                limit: 1,
                max_running: 3,
                max_attempts: 1_000,
                retry: RetryPolicy::default(),
                paused: false.into(),
            }),
        );
        let handlers = Arc::new(handlers);
        let writer = Writer::new(Parts {
            store: Box::new(Faulty { store, faults: self.faults.clone() }),
            inbox: Arc::clone(&inbox),
            patience: Arc::clone(&patience),
            window: Window::new(timer.clone(), Arc::clone(&inbox), 3),
            handlers: Arc::clone(&handlers),
            runners,
            lease,
            owner: Owner {
                id: fastrand::i64(1..),
                lease: Duration::from_secs(3_600),
                handlers: vec!["handler".to_owned()],
            },
            wall,
            timer: timer.clone(),
            counters,
            events: Events::default(),
            limits: Limits { window: WINDOW, window_capacity: 3, overdue_per_second: 1_000 },
        });
        self.process = Some(Process { writer, inbox, handlers, patience, timer, driver, runs });
    }

    /// Turns all once, and starts the process again if it has crashed.
    fn turn(&mut self) {
        let process = self.process.as_mut().unwrap();
        let is_paused = process.handlers.not_paused().is_empty();
        process.driver.turn();
        let incoming = process.inbox.take(Duration::ZERO, process.writer.room(), usize::MAX);
        assert!(process.writer.turn(incoming));
        for run in process.runs.try_iter() {
            let due = run.due;
            let token = (due.key().to_owned(), due.generation(), due.attempt());
            assert!(due.claimed_at >= due.due, "{token:?} was claimed early");
            assert!(!is_paused, "{token:?} was claimed though its handler was paused");
            assert!(self.handed_out.insert(token.clone()), "{token:?} was handed out twice");
            self.claimed.push(due);
        }
        if self.faults.crashed.load(Ordering::Relaxed) {
            self.process = None;
            self.claimed.clear();
            self.start();
        }
    }

    fn pause(&mut self, paused: bool) {
        let process = self.process.as_ref().unwrap();
        process.handlers.pause("handler", paused).expect("it has this handler");
        process.inbox.poke();
        self.turn();
    }

    fn advance(&mut self, by: Duration) {
        self.wall.0.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::Relaxed);
        self.engine.advance(by);
    }

    /// Makes a call and turns until it is answered.
    fn ask<T>(&mut self, op: Op, reply: impl FnOnce(Responder<T>) -> Reply) -> Result<T, CommitError> {
        let starts = self.starts;
        let process = self.process.as_ref().unwrap();
        let (responder, mut commit) = commit::channel(&process.patience);
        process.inbox.push(Command { op, reply: reply(responder) }).unwrap();
        for _ in 0..1_000 {
            self.turn();
            if let Some(answer) = answer_of(&mut commit) {
                let stopped = matches!(answer, Err(CommitError::Stopped));
                assert!(!stopped || self.starts > starts, "nobody has stopped it");
                return answer;
            }
            // An error is followed by a pause.
            self.advance(Duration::from_millis(20));
        }
        panic!("a call was not answered");
    }

    fn get(&mut self, key: &str) -> Option<Pending> {
        loop {
            if let Ok(row) = self.ask(Op::Get { key: key.into() }, Reply::Row) {
                return row;
            }
        }
    }

    /// Whether a claim of the last generation has not ended.
    fn is_claimed(&self, key: &str, generation: i64) -> bool {
        self.claimed.iter().any(|due| due.key() == key && due.generation() == generation)
    }

    /// After a call whose answer was lost: looks at what it has done.
    fn look(&mut self, key: &str) {
        let before = self.rows.get(key).copied();
        match self.get(key) {
            Some(row) if before.is_some_and(|before| before.generation == row.generation) => {}
            Some(row) => self.renewed(key, row.generation),
            None => drop(self.rows.remove(key)),
        }
    }

    fn renewed(&mut self, key: &str, generation: i64) {
        let last = self.last.insert(key.to_owned(), generation);
        assert!(last.is_none_or(|last| last < generation), "generations of {key} go back");
        self.rows.insert(key.to_owned(), Row { generation, may_be_gone: false, has_run: false });
    }

    fn carry_out(&mut self, step: Step) {
        let name = |key: u8| format!("key:{key}");
        let due = |world: &Self, ms| Micros(world.wall.0.load(Ordering::Relaxed)).plus(Duration::from_millis(ms));
        match step {
            Step::Schedule { key, delay_ms, if_absent } => {
                let (key, due) = (name(key), due(self, delay_ms));
                let op = Op::Schedule {
                    key: key.as_str().into(),
                    due,
                    handler: "handler".into(),
                    payload: [].into(),
                    owned: false,
                    if_absent,
                };
                let answer = if if_absent {
                    self.ask(op, Reply::ScheduledIfAbsent)
                } else {
                    self.ask(op, Reply::Scheduled).map(Some)
                };
                let row = self.rows.get(&key).copied();
                match answer {
                    Ok(Some(scheduled)) => {
                        let is_free = row.is_none_or(|row| row.may_be_gone);
                        assert!(!if_absent || is_free, "{key} was there: {row:?}");
                        self.renewed(&key, scheduled.generation);
                    }
                    Ok(None) => assert!(row.is_some(), "{key} was not there"),
                    Err(CommitError::Failed(_)) => {}
                    Err(_) => self.look(&key),
                }
            }
            Step::Reset { key, delay_ms } => {
                let (key, due) = (name(key), due(self, delay_ms));
                let answer = self.ask(Op::Reset { key: key.as_str().into(), due, owned: false }, Reply::Whether);
                self.answered(&key, answer, true);
            }
            Step::Cancel { key } => {
                let key = name(key);
                let answer = self.ask(Op::Cancel { key: key.as_str().into() }, Reply::Whether);
                self.answered(&key, answer, false);
            }
            Step::Own { key, call, delay_ms, commit } => {
                let due = due(self, delay_ms).to_system_time();
                self.own(&name(key), call, due, commit);
                self.turn();
            }
            Step::Advance { ms } => {
                self.advance(Duration::from_millis(ms));
                self.turn();
            }
            Step::Jump { ms } => {
                self.wall.0.fetch_add(ms * 1_000, Ordering::Relaxed);
                self.turn();
            }
            Step::Run(outcome) => self.run(End::Returned(outcome)),
            Step::Panic => self.run(End::Panicked),
            Step::Drop => self.run(End::Dropped),
            Step::Refuse => self.run(End::Refused),
            Step::Pause(paused) => self.pause(paused),
            Step::Fault { after, fault } => *self.faults.next.lock().unwrap() = Some((after, fault)),
        }
    }

    /// Checks the answer to a reset or a cancel.
    fn answered(&mut self, key: &str, answer: Result<bool, CommitError>, is_reset: bool) {
        let row = self.rows.get(key).copied();
        match answer {
            Ok(true) => {
                let row = row.expect("there was a row");
                assert!(!self.is_claimed(key, row.generation), "{key} was claimed");
                if is_reset {
                    if let Some(pending) = self.get(key) {
                        self.renewed(key, pending.generation);
                    }
                } else {
                    self.rows.remove(key);
                }
            }
            Ok(false) => {
                let known = row.is_none_or(|row| row.may_be_gone || self.is_claimed(key, row.generation));
                // A claim whose answer was lost is handed out when there is room for a run.
                let allowed = known || self.get(key).is_some_and(|pending| pending.running);
                assert!(allowed, "{key} waits: {row:?}");
            }
            Err(CommitError::Failed(_)) => {}
            Err(_) => self.look(key),
        }
    }

    fn run(&mut self, end: End) {
        if self.claimed.is_empty() {
            self.turn();
            return;
        }
        let due = self.claimed.remove(0);
        let has_run = !matches!(end, End::Refused);
        if !has_run {
            // The next run has the same token.
            self.handed_out.remove(&(due.key().to_owned(), due.generation(), due.attempt()));
        }
        let last = self.last[due.key()];
        assert!(due.generation() <= last);
        if due.generation() == last {
            let row = self.rows.get_mut(due.key()).expect("nothing that was cancelled runs");
            row.has_run |= has_run;
            row.may_be_gone |= matches!(end, End::Returned(Outcome::Done | Outcome::DeadLetter));
        }
        let token = Token { key: due.key().into(), generation: due.generation(), attempt: due.attempt() };
        self.process.as_ref().unwrap().inbox.push_ended(Ended { token, end, took: Duration::ZERO });
        self.turn();
    }

    /// Without more faults, all that is in the store runs.
    fn finish(&mut self) {
        *self.faults.next.lock().unwrap() = None;
        self.pause(false);
        for _ in 0..900 {
            self.advance(Duration::from_millis(500));
            self.turn();
            while !self.claimed.is_empty() {
                self.run(End::Returned(Outcome::Done));
            }
            self.turn();
        }
        for (key, row) in &self.rows {
            assert!(row.has_run, "{key} was lost: {row:?}");
        }
        for key in 0..KEYS {
            let row = self.get(&format!("key:{key}"));
            assert!(row.is_none(), "key:{key} is left: {row:?}");
        }
        assert_eq!(self.process.as_ref().unwrap().timer.stats().pending, 0, "the wheel is empty");
    }
}

fn answer_of<T>(commit: &mut Commit<T>) -> Option<Result<T, CommitError>> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(commit).poll(&mut context) {
        std::task::Poll::Ready(answer) => Some(answer),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn timeouts_that_a_jump_of_the_clock_has_brought_up_run_within_seconds() {
    let mut world = World::new();
    // One is in the wheel, and one is not.
    for (key, delay_ms) in [(0, 20_000), (1, 100_000)] {
        world.carry_out(Step::Schedule { key, delay_ms, if_absent: false });
    }
    world.carry_out(Step::Jump { ms: 200_000 });
    for _ in 0..20 {
        world.carry_out(Step::Advance { ms: 100 });
    }
    let mut keys: Vec<&str> = world.claimed.iter().map(Due::key).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["key:0", "key:1"]);
}

#[test]
fn timeouts_that_the_wheel_has_no_room_for_are_not_late_by_a_scan() {
    // In the window, and beyond it when it is scheduled.
    for delay_ms in [5_000, 40_000] {
        let mut world = World::new();
        for key in 0..12 {
            world.carry_out(Step::Schedule { key, delay_ms, if_absent: false });
        }
        for _ in 0..=(delay_ms + 1_000) / 100 {
            world.carry_out(Step::Advance { ms: 100 });
            while !world.claimed.is_empty() {
                world.carry_out(Step::Run(Outcome::Done));
            }
        }
        assert_eq!(world.handed_out.len(), 12, "after {delay_ms} ms");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_early_lost_or_twice_whatever_fails(steps in proptest::collection::vec(steps(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            world.carry_out(step);
        }
        world.finish();
    }
}
