//! The thread that talks to the store: it claims what has come up, commits what was asked for, and
//! scans for what comes up soon.
//!
//! There is one, so what it writes is in one order. While it waits for the disk, calls gather; the
//! next commit takes them all.

mod claim;
mod commit;
mod scan;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tourbillon::Timer;

use crate::clock::{Micros, Offset, WallClock};
use crate::due::Outcome;
use crate::events;
use crate::handlers::{Handlers, Lease, Runners};
use crate::inbox::{Armed, End, Ended, Inbox, Incoming};
use crate::stats::Counters;
use crate::store::{Claim, Failure, Op, Owner, Store, Taken, Token};
use crate::window::Window;

/// What is later than this is overdue: its process was not there when it came up.
const OVERDUE: Duration = Duration::from_secs(1);
/// How often the clocks are compared.
const CLOCK_CHECK: Duration = Duration::from_secs(1);
/// After an error of the store: how long until the next try, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A claimed timeout is to have a thread within this time.
const SOON: Duration = Duration::from_millis(50);
/// How long a run takes, before any has ended.
const FIRST_RUN_TIME: Duration = Duration::from_millis(10);
/// How long a stop tries to reach a store that was lost.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The options that the writer goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) window: Duration,
    pub(crate) max_attempts: u32,
    /// The threads that run handlers.
    pub(crate) threads: usize,
    /// Claimed rows that may run or wait for a thread, however short the runs are.
    pub(crate) max_running: usize,
    pub(crate) overdue_per_second: u32,
}

/// What the writer is given.
pub(crate) struct Parts {
    pub(crate) store: Box<dyn Store>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) window: Window,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) runners: Runners,
    pub(crate) lease: Arc<Lease>,
    pub(crate) owner: Owner,
    pub(crate) wall: Arc<dyn WallClock>,
    pub(crate) timer: Timer,
    pub(crate) counters: Arc<Counters>,
    pub(crate) limits: Limits,
}

pub(crate) struct Writer {
    parts: Parts,
    /// What has come up and is not claimed, in that order.
    came_up: VecDeque<Arc<Armed>>,
    /// The claims whose runs have not ended.
    running: HashSet<Token>,
    /// How long a run takes, of late.
    run_time: Duration,
    /// What the ends of runs ask the store for. It is asked until it answers.
    ends: VecDeque<Op>,
    offset: Offset,
    next_clock_check: Instant,
    next_scan: Instant,
    /// The first deadline that may be without an owner before the horizon, as there was no room.
    beyond_room: Option<Micros>,
    /// When the next overdue timeout is to run.
    next_overdue: Micros,
    /// The store is not asked before.
    not_before: Option<Instant>,
    pause: Duration,
    lost: bool,
    stopping: Option<Instant>,
    /// Whether a stop has given back what this process need not run.
    gave_back: bool,
}

impl Writer {
    pub(crate) fn new(parts: Parts) -> Self {
        let engine = parts.timer.now();
        let wall = Micros::round_down(parts.wall.now());
        Self {
            came_up: VecDeque::new(),
            running: HashSet::new(),
            run_time: FIRST_RUN_TIME,
            ends: VecDeque::new(),
            offset: Offset::new(wall, engine),
            next_clock_check: engine + CLOCK_CHECK,
            next_scan: engine,
            beyond_room: None,
            next_overdue: Micros(0),
            not_before: None,
            pause: FIRST_PAUSE,
            lost: false,
            stopping: None,
            gave_back: false,
            parts,
        }
    }

    /// Works until it is told to stop, and nothing is left.
    pub(crate) fn run(mut self) {
        loop {
            let commands = if self.may_ask() { self.parts.store.batch() } else { 0 };
            let incoming = self.parts.inbox.take(self.sleep(), commands);
            if !self.turn(incoming) {
                break;
            }
        }
    }

    /// Does all that is to be done now. Returns whether it is to go on.
    pub(crate) fn turn(&mut self, incoming: Incoming) -> bool {
        let Incoming { mut commands, due, ended, stopping, mut more } = incoming;
        if stopping && self.stopping.is_none() {
            self.stopping = Some(self.engine());
            self.parts.runners.abandon();
        }
        for ended in ended {
            self.end(ended);
        }
        if self.stopping.is_none() {
            self.came_up.extend(due);
            self.check_clock();
        }
        if self.may_ask() {
            self.not_before = None;
            // What a lost answer said may be among what has come up. A claim is late the soonest.
            let reached = self.resume()
                && if self.stopping.is_some() { self.give_back() } else { self.claim() }
                && self.commit(std::mem::take(&mut commands))
                && (self.stopping.is_some() || self.scan())
                && self.renew();
            if reached {
                self.pause = FIRST_PAUSE;
            } else if !commands.is_empty() {
                // The store has failed before it was asked for them. They wait for it.
                self.parts.inbox.put_back(commands);
                more = true;
            }
        } else {
            debug_assert!(commands.is_empty(), "none were taken");
        }
        Counters::set(&self.parts.counters.held, self.parts.window.len());
        Counters::set(&self.parts.counters.running, self.running.len());
        self.stopping.is_none_or(|since| !self.stop(since, more))
    }

    /// Returns how long there is nothing to do, if nothing comes.
    fn sleep(&self) -> Duration {
        let now = self.engine();
        let until = |at: Instant| at.saturating_duration_since(now);
        if let Some(not_before) = self.not_before {
            return until(not_before);
        }
        if !self.ends.is_empty() || (!self.came_up.is_empty() && self.may_claim() > 0) {
            return Duration::ZERO;
        }
        if self.stopping.is_some() {
            return FIRST_PAUSE;
        }
        let mut sleep = until(self.next_scan);
        if let Some(due) = self.beyond_room {
            sleep = sleep.min(due.minus(OVERDUE).since(self.wall()));
        }
        if self.holds_any() {
            sleep = sleep.min(until(self.next_clock_check));
        }
        sleep
    }

    /// Ends, if nothing is left to do. Returns whether it has.
    fn stop(&mut self, since: Instant, more: bool) -> bool {
        let failing = self.lost || self.pause > FIRST_PAUSE;
        let given_up = failing && self.engine().saturating_duration_since(since) > LAST_WORDS;
        if !given_up && (more || !self.running.is_empty() || !self.ends.is_empty() || !self.may_ask()) {
            return false;
        }
        self.parts.window.clear();
        // If that fails, the lease ends by itself.
        let released = self.parts.store.release(&self.parts.owner);
        events::stopped(released.err());
        true
    }

    /// While a stop waits for runs, others are to run what has not begun.
    fn give_back(&mut self) -> bool {
        if self.gave_back || self.running.is_empty() {
            return true;
        }
        let given = self.parts.store.give_back(&self.parts.owner);
        if self.answered(given).is_none() {
            return false;
        }
        self.gave_back = true;
        self.came_up.clear();
        self.parts.window.clear();
        true
    }

    fn end(&mut self, Ended { token, end, took }: Ended) {
        if !matches!(end, End::NotBegun) {
            self.run_time = (self.run_time * 7 + took) / 8;
        }
        let last = token.attempt >= self.parts.limits.max_attempts;
        let counters = &self.parts.counters;
        let op = match end {
            End::NotBegun => Op::Unclaim(token),
            End::Returned(Outcome::Done) => Op::Complete(token),
            End::Returned(Outcome::RetryAfter(delay)) if !last => self.retry(token, delay),
            End::Returned(_) => Op::Bury(token),
            End::Panicked => {
                counters.panicked.add(1);
                events::panicked(&token);
                let delay = Duration::from_secs(1 << (token.attempt - 1).min(9)).min(Duration::from_secs(600));
                if last { Op::Bury(token) } else { self.retry(token, delay) }
            }
        };
        self.ends.push_back(op);
    }

    fn retry(&self, token: Token, delay: Duration) -> Op {
        Op::Retry { token, due: self.wall().plus(delay), owned: false }
    }

    /// After a lost connection: connects, and asks for what the lost answers said.
    fn resume(&mut self) -> bool {
        if !self.lost {
            return true;
        }
        let asked = self.asked_for_lease();
        let found = self.parts.store.reconnect().and_then(|()| {
            self.parts.store.renew(&self.parts.owner)?;
            self.parts.store.mine(&self.parts.owner)
        });
        let Some(mine) = self.answered(found) else { return false };
        self.grant(asked);
        let now = self.wall();
        let mut under_way = Vec::new();
        for Taken { key, due, generation, attempts, running } in mine {
            // A claim whose answer was lost is claimed once more, which answers the same.
            let attempts = if running { attempts.saturating_sub(1) } else { attempts };
            let token = Token { key, generation, attempt: attempts + 1 };
            if self.running.contains(&token) {
                if !running {
                    // A server that crashed has lost the claim, and the run goes on.
                    under_way.push(Claim { key: token.key, generation, attempts });
                }
            } else if !self.parts.window.holds(&token.key, generation) {
                self.parts.window.hold(token.key, generation, attempts, due, now);
            }
        }
        self.next_scan = self.engine();
        if !under_way.is_empty() {
            let claimed = self.parts.store.claim(&self.parts.owner, &under_way);
            if self.answered(claimed).is_none() {
                return false;
            }
        }
        self.lost = false;
        events::reconnected();
        true
    }

    /// Renews the lease, if this process has rows and half of it is over. A stop waits for the runs
    /// that go on, and until then nobody else is to repeat them.
    fn renew(&mut self) -> bool {
        let has_rows = if self.stopping.is_some() { !self.running.is_empty() } else { self.holds_any() };
        !(has_rows && self.parts.lease.is_half_over(self.wall())) || self.renew_now()
    }

    fn renew_now(&mut self) -> bool {
        let asked = self.asked_for_lease();
        let renewed = self.parts.store.renew(&self.parts.owner);
        if self.answered(renewed).is_none() {
            return false;
        }
        self.parts.counters.renewals.add(1);
        self.grant(asked);
        true
    }

    /// The time before the question: the lease counts from the answer, or earlier.
    fn asked_for_lease(&self) -> (Instant, Micros) {
        (Instant::now(), self.wall())
    }

    fn grant(&self, (real, wall): (Instant, Micros)) {
        self.parts.lease.grant(real, wall, self.parts.owner.lease);
    }

    /// Compares the clocks, and arms all anew if one has jumped.
    fn check_clock(&mut self) {
        let engine = self.engine();
        if engine < self.next_clock_check {
            return;
        }
        self.next_clock_check = engine + CLOCK_CHECK;
        let now = self.wall();
        if let Some(jump) = self.offset.jump(now, engine) {
            self.parts.counters.clock_jumps.add(1);
            events::clock_jumped(jump);
            self.parts.window.rearm(now);
            // The horizon is a wall time: after a jump, it is somewhere else.
            self.next_scan = engine;
            self.next_overdue = Micros(0);
        }
        self.parts.window.arm_refused(now);
    }

    fn holds_any(&self) -> bool {
        self.parts.window.len() > 0 || !self.running.is_empty()
    }

    fn may_claim(&self) -> usize {
        if self.stopping.is_some() {
            return 0;
        }
        // What is claimed can't be cancelled. So no more wait for a thread than will soon have one.
        let runs = SOON.as_nanos() / self.run_time.as_nanos().max(1);
        let soon = self.parts.limits.threads.saturating_mul(usize::try_from(runs).unwrap_or(usize::MAX));
        let most = soon.saturating_add(self.parts.limits.threads).min(self.parts.limits.max_running);
        most.saturating_sub(self.running.len())
    }

    /// Whether the store may be asked now. After an error there is a pause.
    pub(crate) fn may_ask(&self) -> bool {
        self.not_before.is_none_or(|at| self.engine() >= at)
    }

    /// Returns what the store has answered, or takes note of its failure.
    fn answered<T>(&mut self, answer: Result<T, Failure>) -> Option<T> {
        answer.map_err(|failure| self.failed(&failure)).ok()
    }

    fn failed(&mut self, failure: &Failure) {
        let counters = &self.parts.counters;
        if let Failure::Lost(_) = failure {
            if !self.lost {
                counters.disconnects.add(1);
            }
            self.lost = true;
        } else {
            counters.store_errors.add(1);
        }
        events::store_failed(failure);
        self.not_before = Some(self.engine() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn wall(&self) -> Micros {
        Micros::round_down(self.parts.wall.now())
    }

    fn engine(&self) -> Instant {
        self.parts.timer.now()
    }
}

impl Drop for Writer {
    /// Whoever waits for an answer gets one, also after a panic.
    fn drop(&mut self) {
        self.parts.inbox.stop();
        drop(self.parts.inbox.take(Duration::ZERO, usize::MAX));
    }
}
