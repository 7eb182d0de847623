//! Timeouts that have come up, by their handlers. Each handler has its own share of claims, so a
//! slow one holds up only its own timeouts. Suspects are apart: of those one runs at a time, unless
//! it hangs.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::handlers::{Call, Handlers};
use crate::inbox::Armed;
use crate::store::Token;

/// A claimed timeout is to have a thread within this time.
const SOON: Duration = Duration::from_millis(50);
/// A suspect that runs for longer holds up the others no more: a handler that hangs would do so for
/// ever, and most that end their process do it sooner.
const ALONE: Duration = Duration::from_secs(10);
/// An operator is told of a handler that has as many runs as it may, of which none has ended for so
/// long.
const TELL_AFTER: Duration = Duration::from_secs(60);
/// How long a run takes, before any has ended.
const FIRST_RUN_TIME: Duration = Duration::from_millis(10);

pub(super) struct Lanes {
    by_handler: HashMap<Arc<str>, Lane>,
    suspects: VecDeque<Arc<Armed>>,
    /// The suspect that runs, and since when.
    alone: Option<(Token, Instant)>,
    handlers: Arc<Handlers>,
    /// So many of a handler may wait here.
    backlog: usize,
}

#[derive(Default)]
struct Lane {
    came_up: VecDeque<Arc<Armed>>,
    running: usize,
    /// So many run at the same time, each on a thread if the handler blocks.
    limit: usize,
    /// So many may run or wait for their turn, however short the runs are.
    max_running: usize,
    /// How long a run takes, of late.
    run_time: Duration,
    /// When an operator is told, if it has as many runs as it may.
    tell_at: Option<Instant>,
}

impl Lanes {
    pub(super) fn new(handlers: Arc<Handlers>, backlog: usize) -> Self {
        Self { by_handler: HashMap::new(), suspects: VecDeque::new(), alone: None, handlers, backlog }
    }

    pub(super) fn came_up(&mut self, armed: Arc<Armed>) {
        if armed.suspect {
            self.suspects.push_back(armed);
        } else {
            self.lane(&armed.handler).came_up.push_back(armed);
        }
    }

    /// Takes out what may be claimed: at most so many, with payloads of so many bytes and one more.
    pub(super) fn ready(&mut self, now: Instant, most: usize, bytes: usize) -> Vec<Arc<Armed>> {
        let suspect = self.next_suspect(now).and_then(|at| self.suspects.remove(at));
        let mut ready: Vec<Arc<Armed>> = suspect.into_iter().collect();
        let first = self.first_suspect(now).cloned();
        let mut length = 0;
        // A lane that comes late in this order has its turn in the next part: the others are empty
        // by then, or have as many runs as they may.
        for (handler, lane) in &mut self.by_handler {
            let mut may_claim = lane.may_claim(first.as_ref() == Some(handler));
            while may_claim > 0
                && ready.len() < most
                && length <= bytes
                && let Some(armed) = lane.came_up.pop_front()
            {
                may_claim -= 1;
                length += armed.bytes;
                ready.push(armed);
            }
        }
        ready
    }

    /// The next suspect, if none runs. It needs a thread that is free, so that it runs at once.
    fn next_suspect(&self, now: Instant) -> Option<usize> {
        self.first_suspect(now)?;
        let is_free = |armed: &Arc<Armed>| self.running(&armed.handler) < self.limit(&armed.handler);
        self.suspects.iter().position(is_free)
    }

    /// The handler of the suspect that comes next, if it may run. A thread is left to it.
    fn first_suspect(&self, now: Instant) -> Option<&Arc<str>> {
        if self.alone.as_ref().is_some_and(|(_, since)| *since + ALONE > now) {
            return None;
        }
        self.suspects.front().map(|armed| &armed.handler)
    }

    /// When there is something to claim, if no more comes.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let first = self.first_suspect(now);
        let ready = |(handler, lane): (&Arc<str>, &Lane)| {
            let leaves_one = first == Some(handler);
            !lane.came_up.is_empty() && lane.may_claim(leaves_one) > 0
        };
        if self.next_suspect(now).is_some() || self.by_handler.iter().any(ready) {
            return Some(now);
        }
        // Without one that is alone, it waits for a thread.
        self.alone.as_ref().filter(|_| !self.suspects.is_empty()).map(|(_, since)| (*since + ALONE).max(now + SOON))
    }

    /// Whether no more of a handler is to wait here: others may run it.
    pub(super) fn is_full(&self, handler: &str) -> bool {
        self.by_handler.get(handler).is_some_and(|lane| lane.came_up.len() >= self.backlog)
    }

    /// How many runs of a handler are under way.
    pub(super) fn running(&self, handler: &str) -> usize {
        self.by_handler.get(handler).map_or(0, |lane| lane.running)
    }

    pub(super) fn begun(&mut self, handler: &Arc<str>, suspect: Option<Token>, now: Instant) {
        let lane = self.lane(handler);
        lane.running += 1;
        if lane.running == lane.limit {
            lane.tell_at = Some(now + TELL_AFTER);
        }
        self.alone = suspect.map(|token| (token, now)).or(self.alone.take());
    }

    /// Returns a handler that an operator is to be told of, and how many runs it has.
    pub(super) fn full(&mut self, now: Instant) -> Option<(Arc<str>, usize)> {
        let is_full =
            |lane: &Lane| lane.tell_at.is_some_and(|at| at <= now) && lane.running + lane.came_up.len() > lane.limit;
        let (handler, lane) = self.by_handler.iter_mut().find(|(_, lane)| is_full(lane))?;
        lane.tell_at = None;
        Some((Arc::clone(handler), lane.limit))
    }

    /// Notes how long a run took.
    pub(super) fn took(&mut self, handler: &Arc<str>, took: Duration) {
        let lane = self.lane(handler);
        lane.run_time = (lane.run_time * 7 + took) / 8;
    }

    /// Notes that the end of a run is in the store, or waits for its row. Not before: so claims and
    /// commits have many rows each, however short the runs are.
    pub(super) fn ended(&mut self, handler: &Arc<str>, token: &Token, now: Instant) {
        let lane = self.lane(handler);
        lane.running = lane.running.saturating_sub(1);
        lane.tell_at = (lane.running >= lane.limit).then(|| now + TELL_AFTER);
        if self.alone.as_ref().is_some_and(|(alone, _)| alone == token) {
            self.alone = None;
        }
    }

    /// Forgets what of a handler has come up.
    pub(super) fn forget(&mut self, handler: &str) {
        self.suspects.retain(|armed| &*armed.handler != handler);
        if let Some(lane) = self.by_handler.get_mut(handler) {
            lane.came_up.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.suspects.clear();
        self.by_handler.values_mut().for_each(|lane| lane.came_up.clear());
    }

    fn lane(&mut self, handler: &Arc<str>) -> &mut Lane {
        if !self.by_handler.contains_key(handler) {
            // Nothing of a handler that is elsewhere comes up here.
            let mut lane = Lane { limit: 1, max_running: 1, run_time: FIRST_RUN_TIME, ..Lane::default() };
            if let Some(handler) = self.handlers.get(handler) {
                (lane.limit, lane.max_running) = (handler.limit, handler.max_running);
                if matches!(handler.call, Call::Waits(_)) {
                    // It is async because it waits.
                    lane.run_time = SOON;
                }
            }
            self.by_handler.insert(Arc::clone(handler), lane);
        }
        self.by_handler.get_mut(handler).expect("it was inserted")
    }

    /// How many runs of a handler go on at the same time.
    fn limit(&self, handler: &str) -> usize {
        self.handlers.get(handler).map_or(1, |handler| handler.limit)
    }
}

impl Lane {
    fn may_claim(&self, leaves_one: bool) -> usize {
        if leaves_one {
            return (self.limit - 1).saturating_sub(self.running);
        }
        // A claimed timeout can't be cancelled. So no more wait for their turn than soon have it.
        let runs = SOON.as_nanos() / self.run_time.as_nanos().max(1);
        let soon = self.limit.saturating_mul(usize::try_from(runs).unwrap_or(usize::MAX));
        soon.saturating_add(self.limit).min(self.max_running).saturating_sub(self.running)
    }
}
