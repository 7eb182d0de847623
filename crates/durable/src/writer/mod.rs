//! The thread that talks to the store: it claims what has come up, commits what was asked for, and
//! scans for what comes up soon.
//!
//! There is one, so what it writes is in one order. While it waits for the disk, calls gather; the
//! next commit takes them all. Claims, commits and scans each have a pause of their own after an
//! error, so none holds up the others.

mod claim;
mod commit;
mod lanes;
mod pause;
mod paused;
mod peek;
mod resume;
mod scan;
mod work;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tourbillon::Timer;

use self::lanes::Lanes;
use self::pause::{Pace, Pause};
use self::work::{BYTES, Queue};
use crate::clock::{Micros, Offset, WallClock};
use crate::commit::Patience;
use crate::due::Outcome;
use crate::events::{Event, Events};
use crate::handlers::{Handlers, Lease, Runners};
use crate::inbox::{End, Ended, Inbox, Incoming};
use crate::retry::RetryPolicy;
use crate::stats::Counters;
use crate::store::{Failure, Op, Owner, Store, Token};
use crate::window::Window;

/// A timeout that is later than this is overdue: its process was not there when it came up.
const OVERDUE: Duration = Duration::from_secs(1);
/// How often the clocks are compared.
const CLOCK_CHECK: Duration = Duration::from_secs(1);
/// While a stop waits for runs, it looks so often.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// How long a stop tries to reach a store that fails.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The options that the writer goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) window: Duration,
    pub(crate) window_capacity: usize,
    pub(crate) overdue_per_second: u32,
}

/// The parts that the writer is given.
pub(crate) struct Parts {
    pub(crate) store: Box<dyn Store>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) patience: Arc<Patience>,
    pub(crate) window: Window,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) runners: Runners,
    pub(crate) lease: Arc<Lease>,
    pub(crate) owner: Owner,
    pub(crate) wall: Arc<dyn WallClock>,
    pub(crate) timer: Timer,
    pub(crate) counters: Arc<Counters>,
    pub(crate) events: Events,
    pub(crate) limits: Limits,
}

/// The kinds of calls to the store. Each has a pause of its own after an error.
#[derive(Clone, Copy, Debug)]
enum Activity {
    Connect,
    Claim,
    Commit,
    Scan,
}

/// A claim whose end is not in the store.
struct Running {
    handler: Arc<str>,
    bytes: usize,
    failures: u32,
    /// Whether it counts as a run of its handler.
    counts: bool,
    /// When it was claimed.
    since: Instant,
}

pub(crate) struct Writer {
    parts: Parts,
    /// The timeouts that have come up and are not claimed.
    lanes: Lanes,
    running: HashMap<Token, Running>,
    /// The operations that are to be committed.
    work: Queue,
    /// The rows of paused handlers that this process has.
    giving_back: VecDeque<Token>,
    /// Whether the store does not know yet which handlers are paused.
    must_tell: bool,
    offset: Offset,
    next_clock_check: Instant,
    next_scan: Instant,
    next_peek: Instant,
    /// The first deadline that may be without an owner before the horizon, as there was no room.
    beyond_room: Option<Micros>,
    pace: Pace,
    pauses: [Pause; 4],
    lost: bool,
    /// The last reason that the operator was told, while the store fails.
    told: Option<String>,
    /// Until then a scan looks for rows that a lost connection may have written late.
    look_until: Option<Instant>,
    next_look: Instant,
    /// When the stop was called.
    stopping: Option<Instant>,
    /// The same, until the writer has looked for the first time what there is to wait for.
    stop_began: Option<Instant>,
    /// Since when a stop waits for the store alone.
    stuck: Option<Instant>,
    /// Whether a stop has given back what this process need not run.
    gave_back: bool,
}

impl Writer {
    pub(crate) fn new(parts: Parts) -> Self {
        let engine = parts.timer.now();
        let wall = Micros::round_down(parts.wall.now());
        let Limits { window_capacity, overdue_per_second, .. } = parts.limits;
        // One that is slow leaves the others their part of the wheel.
        let backlog = (window_capacity / parts.handlers.here().count().max(1)).max(1);
        Self {
            lanes: Lanes::new(Arc::clone(&parts.handlers), backlog),
            running: HashMap::new(),
            work: Queue::new(parts.inbox.capacity),
            giving_back: VecDeque::new(),
            must_tell: false,
            offset: Offset::new(wall, engine),
            next_clock_check: engine + CLOCK_CHECK,
            next_scan: engine,
            next_peek: engine,
            beyond_room: None,
            pace: Pace::new(overdue_per_second),
            pauses: Default::default(),
            lost: false,
            told: None,
            look_until: None,
            next_look: engine,
            stopping: None,
            stop_began: None,
            stuck: None,
            gave_back: false,
            parts,
        }
    }

    /// Works until it is told to stop, and nothing is left.
    pub(crate) fn run(mut self) {
        loop {
            let incoming = self.parts.inbox.take(self.sleep(), self.room(), BYTES);
            if !self.turn(incoming) {
                break;
            }
        }
    }

    /// How many calls it takes in now.
    pub(crate) fn room(&self) -> usize {
        if self.lost || !self.may(Activity::Commit) { 0 } else { self.work.room(self.parts.store.batch()) }
    }

    /// Does all that is to be done now. Returns whether it is to go on.
    pub(crate) fn turn(&mut self, incoming: Incoming) -> bool {
        let Incoming { commands, due, ended, stopping, more } = incoming;
        if stopping.is_some() && self.stopping.is_none() {
            self.stopping = stopping;
            self.stop_began = stopping;
            self.parts.runners.abandon();
        }
        let expires = self.parts.patience.until(self.engine());
        commands.into_iter().for_each(|command| self.work.push_call(command, expires));
        ended.into_iter().for_each(|ended| self.end(ended));
        if self.stopping.is_none() {
            due.into_iter().for_each(|armed| self.lanes.came_up(armed));
            self.check_clock();
            self.switch();
            self.give_some_back();
            self.tell_full();
        }
        // Resume first: a timeout that has come up may be that of a lost answer. Then claim, as
        // claims are late the soonest.
        if self.resume() {
            if self.stopping.is_some() {
                self.give_back()
            } else {
                self.claim()
            }
            self.unless_lost(Self::commit);
            if self.stopping.is_none() {
                self.unless_lost(Self::scan);
                self.unless_lost(Self::peek);
            }
            self.unless_lost(Self::renew);
        }
        Counters::set(&self.parts.counters.held, self.parts.window.len());
        Counters::set(&self.parts.counters.running, self.running.len());
        self.stopping.is_none() || !self.stop(more)
    }

    fn unless_lost(&mut self, work: impl FnOnce(&mut Self)) {
        if !self.lost {
            work(self);
        }
    }

    /// Returns how long there is nothing to do, if nothing comes.
    fn sleep(&self) -> Duration {
        let now = self.engine();
        let pause = |activity: Activity| self.pauses[activity as usize].until();
        if self.lost {
            return pause(Activity::Connect).unwrap_or(now).saturating_duration_since(now);
        }
        let commit = self.work.next(now).map(|next| next.max(pause(Activity::Commit).unwrap_or(next)));
        let give_back = self.may_give_back().then(|| pause(Activity::Commit).map_or(now, |until| until.max(now)));
        let calls_wait = pause(Activity::Commit).filter(|_| self.parts.inbox.waiting() > 0);
        let claim = if self.stopping.is_some() { None } else { self.lanes.next(now) };
        let claim = claim.map(|next| next.max(pause(Activity::Claim).unwrap_or(next)));
        let check = self.stopping.map(|_| now + STOP_CHECK);
        let scan = self.stopping.is_none().then(|| self.next_look(now)).flatten();
        let next = [commit, give_back, calls_wait, claim, check, scan].into_iter().flatten().min();
        next.map_or(CLOCK_CHECK, |next| next.saturating_duration_since(now))
    }

    /// When a scan is due, or the clocks are to be compared.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let beyond = self.beyond_room.map(|due| now + due.minus(OVERDUE).since(self.wall()));
        let scan = beyond.into_iter().chain([self.next_scan, self.next_peek]).min()?;
        let scan = self.pauses[Activity::Scan as usize].until().map_or(scan, |until| scan.max(until));
        Some(if self.holds_any() {
            scan.min(self.next_clock_check)
        } else {
            scan.min(now + self.parts.owner.lease / 4)
        })
    }

    /// Ends, if nothing is left to do. Returns whether it has.
    fn stop(&mut self, more: bool) -> bool {
        let refuses = self.pauses[Activity::Commit as usize].until().is_some() && !self.work.is_empty();
        // Ends whose rows are locked or can't be written, and no run goes on.
        let goes_on = |token: &Token| self.running.contains_key(token);
        let rejects = self.work.is_parked() && self.running.len() <= self.work.ends_of(goes_on);
        // The call that the stop has met may have taken some of the time.
        let from = self.stop_began.take().unwrap_or_else(Instant::now);
        if self.lost || refuses || rejects {
            self.stuck.get_or_insert(from);
        } else if self.work.is_empty() {
            self.stuck = None;
        }
        let given_up = self.stuck.is_some_and(|since| since.elapsed() > LAST_WORDS);
        if !given_up && (more || !self.running.is_empty() || !self.work.is_empty() || self.lost) {
            return false;
        }
        self.parts.window.clear();
        if !self.lost {
            // If that fails, the lease ends by itself.
            if let Err(failure) = self.parts.store.release(&self.parts.owner) {
                self.failed(Activity::Connect, &failure);
            }
        }
        self.parts.events.tell(Event::Stopped);
        true
    }

    /// While a stop waits for runs, others are to run what has not begun.
    fn give_back(&mut self) {
        if self.gave_back || self.running.is_empty() || !self.may(Activity::Claim) {
            return;
        }
        let given = self.parts.store.give_back(&self.parts.owner);
        if self.answered(Activity::Claim, given).is_some() {
            self.gave_back = true;
            self.lanes.clear();
            self.giving_back.clear();
            self.parts.window.clear();
        }
    }

    fn end(&mut self, Ended { token, end, took }: Ended) {
        let running = self.running.get(&token);
        let failures = running.map_or(0, |running| running.failures).saturating_add(1);
        let handler = running.and_then(|running| self.parts.handlers.get(&running.handler));
        if let Some(running) = running
            && !matches!(end, End::NotBegun | End::Refused)
        {
            self.lanes.took(&running.handler, took);
        }
        let delay = match end {
            End::NotBegun => return self.work.push_end(Op::Unclaim(token)),
            End::Refused => {
                self.runtime_is_gone(&token);
                return self.work.push_end(Op::Unclaim(token));
            }
            End::Returned(Outcome::Done) => return self.work.push_end(Op::Complete(token)),
            End::Returned(Outcome::DeadLetter) => return self.work.push_end(Op::Bury(token)),
            End::Returned(Outcome::RetryAfter(delay)) => Some(delay),
            End::Returned(Outcome::Retry) => None,
            End::Panicked => {
                self.parts.counters.panicked.add(1);
                self.parts.events.panicked(&token);
                None
            }
            End::Dropped => {
                self.parts.events.dropped(&token);
                None
            }
        };
        if handler.is_some_and(|handler| failures >= handler.max_attempts) {
            return self.work.push_end(Op::Bury(token));
        }
        let by_policy = || handler.map_or_else(RetryPolicy::default, |handler| handler.retry.clone()).delay(failures);
        let due = self.wall().plus(delay.unwrap_or_else(by_policy));
        self.work.push_end(Op::Retry { token, due, owned: false });
    }

    /// Renews the lease, if half of it is over and this process has rows, or could have: an
    /// operator sees by it which handlers are there. A stop waits for the runs that go on, and
    /// until then nobody else is to repeat them.
    fn renew(&mut self) {
        let is_needed = if self.stopping.is_some() {
            !self.running.is_empty()
        } else {
            self.holds_any() || !self.parts.owner.handlers.is_empty() || self.must_tell
        };
        let is_due = self.must_tell || self.parts.lease.is_half_over(self.wall());
        if is_needed && is_due && self.may(Activity::Scan) {
            self.renew_now(Activity::Scan);
        }
    }

    fn renew_now(&mut self, activity: Activity) -> bool {
        let asked = self.asked_for_lease();
        let renewed = self.parts.store.renew(&self.parts.owner);
        if self.answered(activity, renewed).is_none() {
            return false;
        }
        self.parts.counters.renewals.add(1);
        self.must_tell = false;
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
        if let Some(micros) = self.offset.jump(now, engine) {
            self.parts.counters.clock_jumps.add(1);
            self.parts.events.tell(Event::ClockJumped { micros });
            self.parts.window.rearm(now);
            // The horizon is a wall time: after a jump, it is somewhere else.
            self.next_scan = engine;
            self.pace.reset();
        }
        self.parts.window.arm_refused(now);
    }

    fn holds_any(&self) -> bool {
        self.parts.window.len() > 0 || !self.running.is_empty()
    }

    /// Whether the store may be asked for it now. After an error there is a pause.
    fn may(&self, activity: Activity) -> bool {
        self.pauses[activity as usize].is_over(self.engine())
    }

    /// Returns what the store has answered, or takes note of its failure.
    fn answered<T>(&mut self, activity: Activity, answer: Result<T, Failure>) -> Option<T> {
        match answer {
            Ok(answer) => {
                // A connection is one when all has been asked that comes first.
                if !matches!(activity, Activity::Connect) && self.pauses[activity as usize].until().is_some() {
                    self.pauses[activity as usize].succeeded();
                    self.parts.patience.note(None);
                    if !self.lost && self.told.take().is_some() {
                        self.parts.events.tell(Event::Reconnected);
                    }
                }
                Some(answer)
            }
            Err(failure) => {
                self.failed(activity, &failure);
                None
            }
        }
    }

    fn failed(&mut self, activity: Activity, failure: &Failure) {
        let (counters, now) = (&self.parts.counters, self.engine());
        let (Failure::Lost { reason, .. } | Failure::Unavailable(reason) | Failure::Locked(reason)) = failure;
        let event = match failure {
            Failure::Lost { .. } => {
                if !self.lost {
                    counters.disconnects.add(1);
                }
                self.lost = true;
                self.pauses[Activity::Connect as usize].failed(now);
                Event::Disconnected { reason }
            }
            Failure::Unavailable(_) => {
                counters.store_errors.add(1);
                self.pauses[activity as usize].failed(now);
                Event::StoreFailed { reason }
            }
            Failure::Locked(_) => {
                counters.store_errors.add(1);
                self.pauses[activity as usize].locked(now);
                Event::StoreFailed { reason }
            }
        };
        // It is tried each second. The log says once what is wrong.
        if self.told.as_ref() != Some(reason) {
            self.told = Some(reason.clone());
            self.parts.events.tell(event);
        }
        self.parts.patience.note(Some(reason.clone()));
        // Meanwhile their callers give up.
        self.parts.inbox.forget_withdrawn();
    }

    fn wall(&self) -> Micros {
        Micros::round_down(self.parts.wall.now())
    }

    fn engine(&self) -> Instant {
        self.parts.timer.now()
    }
}

impl Drop for Writer {
    /// Callers that wait for an answer get one, also after a panic.
    fn drop(&mut self) {
        self.parts.inbox.stop();
        drop(self.parts.inbox.take(Duration::ZERO, usize::MAX, usize::MAX));
    }
}
