//! A process that uses a store at random, and writes its history. Its parent tells it what to do,
//! line by line on its standard input, and reads the answers on its standard output.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tourbillon_durable::{Commit, CommitError, Due, DurableTimer, Outcome, Refused, Scheduled};

use super::PATIENCE;
use super::history::{Answer, Call, Ending, Line, OpId, Row, Run, Writer, micros, now};
use super::own::{Ended, Own, Wanted};

/// The environment variable that makes a test play this part.
pub(crate) const PART: &str = "TOURBILLON_DURABLE_PLAYER";

/// Chances in percent, each with the bounds of a random time in milliseconds.
pub(crate) type Times = Vec<(u32, u64, u64)>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) process: u32,
    /// The location for `DurableTimer::open`.
    pub(crate) store: String,
    pub(crate) history: PathBuf,
    pub(crate) keys: u32,
    pub(crate) threads: u32,
    pub(crate) lease: Duration,
    pub(crate) window: Duration,
    pub(crate) delays: Times,
    pub(crate) works: Times,
    /// Between the calls of a thread.
    pub(crate) pauses: Times,
    /// Whether it shows by commits of its own that it is alive.
    pub(crate) beats: bool,
}

impl Part {
    /// Returns the part of this process, or `None` if it is the test itself.
    pub(crate) fn mine() -> Option<Self> {
        let part = std::env::var(PART).ok()?;
        Some(serde_json::from_str(&part).expect("the parent wrote it"))
    }

    /// Plays until the parent says `stop`, or has gone.
    ///
    /// - `quiet` ends the random calls; answered `quiet`.
    /// - `look` gets each key; answered by how many rows are due soon, and how many there are.
    /// - `stop` stops the timers; answered by their statistics.
    pub(crate) fn play(self) {
        let player = Arc::new(Player::start(self));
        let mut callers = player.start_callers();
        let beating = player.part.beats.then(|| player.start_beating());
        say("ready");
        for line in io::stdin().lock().lines() {
            match line.expect("the parent's words").as_str() {
                "quiet" => {
                    player.is_quiet.store(true, Ordering::Relaxed);
                    callers.drain(..).for_each(|caller| caller.join().expect("it does not panic"));
                    say("quiet");
                }
                "look" => {
                    let (soon, rows) = player.look();
                    say(&format!("{soon} {rows}"));
                }
                "stop" => {
                    player.is_quiet.store(true, Ordering::Relaxed);
                    callers.drain(..).for_each(|caller| caller.join().expect("it does not panic"));
                    player.timers.stop();
                    player.has_stopped.store(true, Ordering::Relaxed);
                    beating.into_iter().for_each(|beating| beating.join().expect("it does not panic"));
                    say(&format!("{:?}", player.timers.stats()));
                    return;
                }
                word => panic!("{word:?} is no word of the parent's"),
            }
        }
        // The parent has gone, so nobody checks how this ends.
        std::process::exit(1);
    }
}

/// Tells the parent, on a line of its own: the test harness may have begun one.
pub(crate) fn say(answer: &str) {
    let mut out = io::stdout().lock();
    write!(out, "\n> {answer}\n").and_then(|()| out.flush()).expect("the parent reads");
}

struct Player {
    part: Part,
    timers: DurableTimer,
    history: Arc<Writer>,
    next: AtomicU64,
    is_quiet: AtomicBool,
    has_stopped: AtomicBool,
    _timer: tourbillon::Timer,
}

/// A call that is under way.
enum Pending {
    Schedule(Commit<Scheduled>),
    ScheduleIfAbsent(Commit<Option<Scheduled>>),
    Did(Commit<bool>),
    Get(Commit<Option<tourbillon_durable::Pending>>),
}

impl Player {
    fn start(part: Part) -> Self {
        let history = Arc::new(Writer::open(&part.history));
        let timer = tourbillon::Timer::new().expect("an engine");
        let begun = Instant::now();
        let timers = loop {
            match Self::open(&part, &history, &timer) {
                Ok(timers) => break timers,
                // The server may be down.
                Err(_) if begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(50)),
                Err(error) => panic!("{}: {error}", part.store),
            }
        };
        let (is_quiet, has_stopped) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { part, timers, history, next: AtomicU64::new(0), is_quiet, has_stopped, _timer: timer }
    }

    fn open(
        part: &Part,
        history: &Arc<Writer>,
        timer: &tourbillon::Timer,
    ) -> Result<DurableTimer, Box<dyn std::error::Error>> {
        let (process, works, history) = (part.process, part.works.clone(), Arc::clone(history));
        let timers = DurableTimer::open(&part.store)?
            .handler("work", move |due: Due| work(process, &works, &history, &due))
            .threads(8)
            .window(part.window)
            .lease(part.lease)
            // No timeout of these tests becomes a dead letter by its attempts.
            .max_attempts(1_000_000)
            .start(timer)?;
        Ok(timers)
    }

    fn start_callers(self: &Arc<Self>) -> Vec<JoinHandle<()>> {
        let caller = |_| {
            let player = Arc::clone(self);
            thread::spawn(move || {
                let mut own = Own::default();
                while !player.is_quiet.load(Ordering::Relaxed) {
                    if fastrand::u32(..4) == 0 {
                        player.transact(&mut own);
                    } else {
                        player.call_some();
                    }
                    thread::sleep(random(&player.part.pauses));
                }
            })
        };
        (0..self.part.threads).map(caller).collect()
    }

    /// Makes one call, or some that share commits.
    fn call_some(&self) {
        let burst = if fastrand::u32(..4) == 0 { fastrand::usize(2..10) } else { 1 };
        let begun: Vec<_> = (0..burst).filter_map(|_| self.begin(fastrand::u32(..self.part.keys), None)).collect();
        for (number, pending) in begun {
            self.end(number, pending);
        }
    }

    /// Makes some calls in a transaction of its own. They are in the order of their keys, so two
    /// transactions wait for each other in one direction only.
    fn transact(&self, own: &mut Own) {
        let mut keys: Vec<u32> = (0..fastrand::usize(1..4)).map(|_| fastrand::u32(..self.part.keys)).collect();
        keys.sort_unstable();
        keys.dedup();
        let begun: Vec<(u64, Wanted)> = keys.into_iter().map(|key| self.want(key)).collect();
        let (numbers, wanted): (Vec<u64>, Vec<Wanted>) = begun.into_iter().unzip();
        let answers = match own.transact(&self.part.store, &wanted) {
            Ended::Committed(answers) => answers,
            Ended::RolledBack => vec![Answer::Refused; numbers.len()],
            Ended::Unknown => vec![Answer::Unknown; numbers.len()],
        };
        for (number, answer) in numbers.into_iter().zip(answers) {
            self.history.write(&Line::End { number, answer, at: now() });
        }
    }

    /// Begins a random call in a transaction.
    fn want(&self, key: u32) -> (u64, Wanted) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let delay = random(&self.part.delays);
        let at = SystemTime::now() + delay;
        let due = micros(at);
        let call = match fastrand::u32(..100) {
            ..60 => Call::Schedule { due },
            60..80 => Call::Reset { due },
            _ => Call::Cancel,
        };
        self.history.write(&Line::Begin { number, key, call, at: now() });
        let payload = OpId { process: self.part.process, number }.to_string();
        (number, Wanted { key: name(key), call, delay, at: fastrand::bool().then_some(at), payload })
    }

    /// Begins this call, or a random one. Returns `None` if it was refused.
    fn begin(&self, key: u32, call: Option<Call>) -> Option<(u64, Pending)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = name(key);
        let delay = random(&self.part.delays);
        let at = SystemTime::now() + delay;
        let begin = |call| self.history.write(&Line::Begin { number, key, call, at: now() });
        let due = micros(at);
        let payload = OpId { process: self.part.process, number }.to_string();
        let is_relative = fastrand::bool();
        let pending = match (call, fastrand::u32(..100)) {
            (Some(Call::Get), _) | (None, 90..) => {
                begin(Call::Get);
                self.timers.get(&name).map(Pending::Get)
            }
            (None, ..10) => {
                begin(Call::ScheduleIfAbsent { due });
                self.timers.schedule_if_absent(&name, delay, "work", payload).map(Pending::ScheduleIfAbsent)
            }
            (None, ..50) => {
                begin(Call::Schedule { due });
                let schedule = if is_relative {
                    self.timers.schedule(&name, delay, "work", payload)
                } else {
                    self.timers.schedule_at(&name, at, "work", payload)
                };
                schedule.map(Pending::Schedule)
            }
            (None, 50..75) => {
                begin(Call::Reset { due });
                let reset = if is_relative { self.timers.reset(&name, delay) } else { self.timers.reset_at(&name, at) };
                reset.map(Pending::Did)
            }
            _ => {
                begin(Call::Cancel);
                self.timers.cancel(&name).map(Pending::Did)
            }
        };
        match pending {
            Ok(pending) => Some((number, pending)),
            Err(refused) => {
                let _: Refused = refused;
                self.history.write(&Line::End { number, answer: Answer::Refused, at: now() });
                None
            }
        }
    }

    /// Waits for the answer. Returns the row that a `get` has found.
    fn end(&self, number: u64, pending: Pending) -> Answered {
        let (answer, found) = match pending {
            Pending::Schedule(commit) => {
                (commit.wait().map(|scheduled| Answer::Generation(scheduled.generation)), None)
            }
            Pending::ScheduleIfAbsent(commit) => {
                let answer = |scheduled: Option<_>| {
                    scheduled
                        .map_or(Answer::Did(false), |scheduled: Scheduled| Answer::Generation(scheduled.generation))
                };
                (commit.wait().map(answer), None)
            }
            Pending::Did(commit) => (commit.wait().map(Answer::Did), None),
            Pending::Get(commit) => match commit.wait() {
                Ok(found) => (Ok(Answer::Found(found.as_ref().map(seen))), found),
                Err(error) => (Err(error), None),
            },
        };
        let answer = answer.unwrap_or_else(|error| match error {
            CommitError::Unknown(_) => Answer::Unknown,
            _ => Answer::Refused,
        });
        self.history.write(&Line::End { number, answer, at: now() });
        match answer {
            Answer::Unknown | Answer::Refused => Answered::Nothing,
            _ => found.map_or(Answered::NoRow, |pending| Answered::Row(pending.due)),
        }
    }

    /// Gets each key. Returns how many rows are due within ten minutes, and how many there are. A
    /// row whose `get` was not answered counts as both.
    fn look(&self) -> (usize, usize) {
        let begun: Vec<_> = (0..self.part.keys).map(|key| self.begin(key, Some(Call::Get))).collect();
        let answers = begun.into_iter().map(|begun| match begun {
            Some((number, pending)) => self.end(number, pending),
            None => Answered::Nothing,
        });
        let answers: Vec<_> = answers.collect();
        let soon = SystemTime::now() + Duration::from_secs(600);
        let is_soon = |answer: &&Answered| match answer {
            Answered::Row(due) => *due < soon,
            Answered::Nothing => true,
            Answered::NoRow => false,
        };
        let rows = answers.iter().filter(|answer| !matches!(answer, Answered::NoRow));
        (answers.iter().filter(is_soon).count(), rows.count())
    }

    /// Commits something that is not the timers', and has the timers commit, again and again. While
    /// that goes on, they can renew their lease.
    #[cfg(feature = "postgres")]
    fn start_beating(self: &Arc<Self>) -> JoinHandle<()> {
        let player = Arc::clone(self);
        thread::spawn(move || {
            while !player.has_stopped.load(Ordering::Relaxed) {
                let Ok(mut client) = postgres::Client::connect(&player.part.store, postgres::NoTls) else {
                    thread::sleep(Duration::from_millis(50));
                    continue;
                };
                // A message in the log, which a commit makes wait for its fsync.
                let commit = "SELECT pg_logical_emit_message(true, 'beat', '')";
                let answers = || player.timers.get("beat").is_ok_and(|answer| answer.wait().is_ok());
                while client.execute(commit, &[]).is_ok() && !player.has_stopped.load(Ordering::Relaxed) {
                    if !answers() {
                        thread::sleep(Duration::from_millis(20));
                        continue;
                    }
                    player.history.write(&Line::Beat { at: now() });
                    thread::sleep(Duration::from_millis(100));
                }
            }
        })
    }

    #[cfg(not(feature = "postgres"))]
    fn start_beating(self: &Arc<Self>) -> JoinHandle<()> {
        panic!("only a fleet beats, and a fleet needs PostgreSQL")
    }
}

enum Answered {
    Row(SystemTime),
    NoRow,
    Nothing,
}

/// The handler: writes when it begins and how it ends.
fn work(process: u32, works: &Times, history: &Writer, due: &Due) -> Outcome {
    let start = now();
    let payload = std::str::from_utf8(due.payload()).expect("a payload of these tests");
    let (generation, attempt) = (due.generation(), due.attempt());
    history.write(&Line::Start(Run {
        process,
        key: number(due.key()),
        op: payload.parse().expect("a payload of these tests"),
        generation,
        attempt,
        due: micros(due.due()),
        claimed_at: micros(due.claimed_at()),
        start,
        end: None,
    }));
    thread::sleep(random(works));
    let (outcome, ending) = match fastrand::u32(..100) {
        ..85 => (Outcome::Done, Ending::Done),
        85..98 => (Outcome::RetryAfter(Duration::from_millis(fastrand::u64(..400))), Ending::Retry),
        _ => (Outcome::DeadLetter, Ending::Dead),
    };
    history.write(&Line::Ended { generation, attempt, ending, at: now() });
    outcome
}

fn seen(pending: &tourbillon_durable::Pending) -> Row {
    let payload = std::str::from_utf8(&pending.payload).expect("a payload of these tests");
    let op = payload.parse().expect("a payload of these tests");
    Row { op, generation: pending.generation, attempts: pending.attempts, running: pending.running }
}

fn name(key: u32) -> String {
    format!("key:{key}")
}

fn number(name: &str) -> u32 {
    name.strip_prefix("key:").and_then(|number| number.parse().ok()).expect("a key of these tests")
}

/// Returns a time by chance.
pub(crate) fn random(times: &Times) -> Duration {
    let whole: u32 = times.iter().map(|(percent, ..)| percent).sum();
    let mut chance = fastrand::u32(..whole);
    for &(percent, from, to) in times {
        if chance < percent {
            return Duration::from_micros(fastrand::u64(from * 1_000..=to * 1_000));
        }
        chance -= percent;
    }
    unreachable!("the chance is less than their sum")
}
