//! The operations to be committed: calls, and the ends of runs. A commit has each key once. A busy
//! operation waits for a moment. Later calls of the same key wait behind a busy call.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::CommitError;
use crate::inbox::{Command, Inbox, Reply};
use crate::store::{Op, Token};

/// The payloads of one commit. More would take too long on a slow connection.
pub(super) const BYTES: usize = 4 << 20;
/// Why a call is not kept that would have to wait.
const TOO_MANY: &str = "too many calls wait for others of their keys, or for rows that somebody has locked";
/// The first wait before a busy operation is tried again, and the longest.
const FIRST_BUSY: Duration = Duration::from_millis(2);
const LONGEST_BUSY: Duration = Duration::from_millis(250);
/// The first wait before the end of a run that can't be written is tried again, and the longest.
const FIRST_BAD: Duration = Duration::from_secs(1);
const LONGEST_BAD: Duration = Duration::from_secs(60);

/// An operation that is not answered yet.
pub(super) struct Work {
    pub(super) op: Op,
    pub(super) rest: Rest,
}

/// All of it but the operation.
#[derive(Default)]
pub(super) struct Rest {
    /// Whom to answer. `None` for the end of a run.
    pub(super) reply: Option<Reply>,
    /// When it is given up if it waits, also if nobody waits for its answer.
    expires: Option<Instant>,
    /// How many times it was answered that it can't be carried out now.
    tries: u32,
    not_before: Option<Instant>,
}

impl Rest {
    pub(super) fn was_rejected(&self) -> bool {
        self.tries > 0
    }

    /// Whether it was rejected, or waits behind a call of its key that was.
    fn is_parked(&self) -> bool {
        self.not_before.is_some()
    }

    fn waits(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|at| at > now)
    }
}

pub(super) struct Queue {
    ends: VecDeque<Work>,
    calls: VecDeque<Work>,
    /// The calls that wait behind others, or for a lock.
    waiting: usize,
    /// So many may wait here, as in the inbox.
    capacity: usize,
}

/// The keys of a commit, and of what waits for a later one: until when, or for the next.
type Keys = HashMap<Arc<str>, Option<Instant>>;

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        Self { ends: VecDeque::new(), calls: VecDeque::new(), waiting: 0, capacity }
    }

    pub(super) fn push_call(&mut self, Command { op, reply }: Command, expires: Option<Instant>) {
        self.calls.push_back(Work { op, rest: Rest { reply: Some(reply), expires, ..Rest::default() } });
    }

    pub(super) fn push_end(&mut self, op: Op) {
        self.ends.push_back(Work { op, rest: Rest::default() });
    }

    /// How many calls more may be taken in, if a commit has so many.
    pub(super) fn room(&self, batch: usize) -> usize {
        (batch + self.waiting).saturating_sub(self.calls.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.calls.is_empty()
    }

    /// Whether there is something, and all of it waits for what was rejected.
    pub(super) fn is_parked(&self) -> bool {
        !self.is_empty() && self.ends.iter().chain(&self.calls).all(|work| work.rest.is_parked())
    }

    /// How many ends there are of runs for which `goes_on` holds.
    pub(super) fn ends_of(&self, goes_on: impl Fn(&Token) -> bool) -> usize {
        self.ends.iter().filter_map(|work| work.op.token()).filter(|token| goes_on(token)).count()
    }

    /// How many rows are to be given back, but for those that were rejected.
    pub(super) fn given_back(&self) -> usize {
        let is_one = |work: &&Work| matches!(work.op, Op::GiveBack(_)) && !work.rest.is_parked();
        self.ends.iter().filter(is_one).count()
    }

    /// When the first of it may be committed.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        self.ends.iter().chain(&self.calls).map(|work| work.rest.not_before.unwrap_or(now)).min()
    }

    /// Takes out what one commit has.
    pub(super) fn select(&mut self, now: Instant, most: usize) -> Vec<Work> {
        let mut keys = Keys::new();
        let mut selected = Vec::new();
        self.select_ends(now, most, &mut keys, &mut selected);
        self.select_calls(now, most, &mut keys, &mut selected);
        selected
    }

    /// An end is about its own claim, whatever is called meanwhile. So nothing waits behind it.
    fn select_ends(&mut self, now: Instant, most: usize, keys: &mut Keys, selected: &mut Vec<Work>) {
        let mut left = VecDeque::new();
        while let Some(work) = self.ends.pop_front() {
            if selected.len() == most {
                left.push_back(work);
                break;
            }
            let key = work.op.key().expect("a run has a key");
            if work.rest.waits(now) || keys.contains_key(key) {
                left.push_back(work);
            } else {
                keys.insert(Arc::clone(key), None);
                selected.push(work);
            }
        }
        left.append(&mut self.ends);
        self.ends = left;
    }

    fn select_calls(&mut self, now: Instant, most: usize, keys: &mut Keys, selected: &mut Vec<Work>) {
        let (mut left, mut left_bytes, mut bytes, mut count) = (VecDeque::new(), 0, 0, 0);
        while let Some(mut work) = self.calls.pop_front() {
            let behind = work.op.key().and_then(|key| keys.get(key));
            if let Some(Some(until)) = behind {
                work.rest.not_before = work.rest.not_before.max(Some(*until));
            }
            let reply = work.rest.reply.as_ref().expect("a call has a caller").pending();
            if behind.is_some() || work.rest.waits(now) {
                // Not the others' calls: they wait for nobody.
                if left.len() >= self.capacity || left_bytes >= Inbox::BYTES {
                    let reply = work.rest.reply.take().expect("a call has a caller");
                    reply.fail(CommitError::Failed(TOO_MANY.to_owned()));
                    continue;
                }
                if reply.is_withdrawn() || work.rest.expires.is_some_and(|at| at <= now) {
                    continue;
                }
                if let Some(key) = work.op.key()
                    && behind.is_none()
                {
                    keys.insert(Arc::clone(key), work.rest.not_before);
                }
                left_bytes += work.op.payload_len();
                left.push_back(work);
                continue;
            }
            if count == most || bytes > BYTES {
                self.calls.push_front(work);
                break;
            }
            if reply.begin() {
                count += 1;
                bytes += work.op.payload_len();
                keys.extend(work.op.key().map(|key| (Arc::clone(key), None)));
                selected.push(work);
            }
        }
        self.waiting = left.len();
        left.append(&mut self.calls);
        self.calls = left;
    }

    /// Puts back what was not carried out, in front of the rest.
    pub(super) fn put_back(&mut self, works: Vec<Work>) {
        for work in works.into_iter().rev() {
            match &work.rest.reply {
                Some(reply) => {
                    reply.pending().hold_back();
                    self.calls.push_front(work);
                }
                None => self.ends.push_front(work),
            }
        }
    }

    /// Has it tried again when the lock that it met may be free.
    pub(super) fn busy(&mut self, work: Work, now: Instant) {
        self.later(work, now, FIRST_BUSY, LONGEST_BUSY);
    }

    /// Has the end of a run tried again when somebody may have repaired its row.
    pub(super) fn bad(&mut self, work: Work, now: Instant) {
        self.later(work, now, FIRST_BAD, LONGEST_BAD);
    }

    fn later(&mut self, mut work: Work, now: Instant, first: Duration, longest: Duration) {
        let delay = (first * (1 << work.rest.tries.min(16))).min(longest);
        work.rest.tries += 1;
        work.rest.not_before = Some(now + delay);
        self.put_back(vec![work]);
    }
}
