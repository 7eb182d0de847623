//! What a server thread, its clients' thread and the engine's tasks share.
//!
//! A lane is one server thread and one client thread; they meet over sockets, and here only to
//! compare notes. Tasks never touch a connection: they put a [`Signal`] into the lane's queue and
//! wake the server, which owns the connections and looks whether the signal still means anything.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use mio::Waker;

use super::kind::Kind;
use super::recorder::Recorder;
use crate::duration::Epoch;

/// What a task was armed for: a place among the server's connections, and a number that is never
/// used twice within a lane, so that a signal can't be taken for that of a later timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) place: u32,
    pub(crate) serial: u32,
}

/// What a task tells the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signal {
    /// The idle timeout fired, at this instant.
    Idle(Key, Instant),
    /// The request's deadline has passed.
    Deadline(Key),
    /// The work step is done.
    Done(Key),
}

/// Counts shown while the run is on.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) accepted: CachePadded<AtomicU64>,
    pub(crate) reaped: CachePadded<AtomicU64>,
    pub(crate) opened: CachePadded<AtomicU64>,
    pub(crate) silent: CachePadded<AtomicU64>,
    /// Silent clients that have seen their connection closed.
    pub(crate) silent_closed: CachePadded<AtomicU64>,
    pub(crate) answers: CachePadded<AtomicU64>,
}

/// Adds one to a gauge. Only one thread writes each gauge, and no other memory depends on it.
pub(crate) fn count(gauge: &AtomicU64) {
    gauge.store(gauge.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// What the server leaves for a client whose connection it reaps, before it closes it.
#[derive(Debug, Default)]
struct ReapNote {
    received: AtomicU32,
    /// Nanoseconds since the epoch, plus one; 0: not reaped.
    deadline: AtomicU64,
}

/// See the module.
pub(crate) struct Lane {
    pub(crate) control: Arc<Control>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) gauges: Gauges,
    epoch: Epoch,
    signals: SegQueue<Signal>,
    /// A wake-up is on its way: one is enough for any number of signals.
    awake: AtomicBool,
    waker: Waker,
    notes: Box<[ReapNote]>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("signals", &self.signals.len()).finish_non_exhaustive()
    }
}

impl Lane {
    pub(crate) fn new(
        clients: usize,
        waker: Waker,
        epoch: Epoch,
        recorder: Arc<Recorder>,
        control: Arc<Control>,
    ) -> Self {
        Self {
            control,
            recorder,
            gauges: Gauges::default(),
            epoch,
            signals: SegQueue::new(),
            awake: AtomicBool::new(false),
            waker,
            notes: (0..clients).map(|_| ReapNote::default()).collect(),
        }
    }

    /// Hands a signal to the server, and wakes it if no other thread has.
    pub(crate) fn signal(&self, signal: Signal) {
        self.signals.push(signal);
        self.wake();
    }

    /// Wakes the server.
    pub(crate) fn wake(&self) {
        // AcqRel: the server, which clears the flag before it empties the queue, either sees what
        // was pushed before this, or this sees the cleared flag and wakes it again.
        if !self.awake.swap(true, Ordering::AcqRel) {
            // Fails only when the poller is gone, and then no thread has to be woken.
            let _ = self.waker.wake();
        }
    }

    /// To be called by the server before it takes signals: from now on a new one wakes it again.
    pub(crate) fn woken(&self) {
        self.awake.swap(false, Ordering::AcqRel);
    }

    /// The next signal.
    pub(crate) fn take(&self) -> Option<Signal> {
        self.signals.pop()
    }

    /// The work step of a request is done; captures of 24 bytes.
    pub(crate) fn work_task(lane: &Arc<Self>, key: Key, deadline: Instant) -> impl FnOnce() + use<> {
        let (lane, deadline) = (Arc::clone(lane), lane.epoch.nanos(deadline));
        move || {
            lane.recorder.fired(Kind::Work, lane.epoch.at(deadline), Instant::now());
            lane.signal(Signal::Done(key));
        }
    }

    /// A request's deadline has passed.
    pub(crate) fn deadline_task(lane: &Arc<Self>, key: Key, deadline: Instant) -> impl FnOnce() + use<> {
        let (lane, deadline) = (Arc::clone(lane), lane.epoch.nanos(deadline));
        move || {
            lane.recorder.fired(Kind::Request, lane.epoch.at(deadline), Instant::now());
            lane.signal(Signal::Deadline(key));
        }
    }

    /// A connection was idle. Its deadline has moved since it was armed, so only the server can
    /// judge whether this is on time.
    pub(crate) fn idle_task(lane: &Arc<Self>, key: Key) -> impl FnOnce() + use<> {
        let lane = Arc::clone(lane);
        move || {
            let ran = Instant::now();
            lane.recorder.fired_unjudged(Kind::Idle);
            lane.signal(Signal::Idle(key, ran));
        }
    }

    /// A client has waited too long for its answer. It goes on waiting; the recorder counts that
    /// the timeout fired.
    pub(crate) fn answer_task(lane: &Arc<Self>, deadline: Instant) -> impl FnOnce() + use<> {
        let (lane, deadline) = (Arc::clone(lane), lane.epoch.nanos(deadline));
        move || lane.recorder.fired(Kind::Answer, lane.epoch.at(deadline), Instant::now())
    }

    /// Leaves the note that `client` is reaped: the server has `received` messages from it, and its
    /// idle timeout was over at `deadline`.
    pub(crate) fn note_reaped(&self, client: u32, received: u32, deadline: Instant) {
        if let Some(note) = self.notes.get(client as usize) {
            note.received.store(received, Ordering::Relaxed);
            // Release: pairs with the Acquire in `reaped`, so that the number above is there.
            note.deadline.store(self.epoch.nanos(deadline) + 1, Ordering::Release);
        }
    }

    /// The note left for `client`: messages received from it, and when its idle timeout was over.
    pub(crate) fn reaped(&self, client: u32) -> Option<(u32, Instant)> {
        let note = self.notes.get(client as usize)?;
        let deadline = note.deadline.load(Ordering::Acquire).checked_sub(1)?;
        Some((note.received.load(Ordering::Relaxed), self.epoch.at(deadline)))
    }
}

/// How far the run is: written by the main thread, read by all.
#[derive(Debug, Default)]
pub(crate) struct Control {
    start: OnceLock<Instant>,
    phase: AtomicU8,
}

const FINISHING: u8 = 1;

impl Control {
    /// Starts the run's clock; clients go silent from now on.
    pub(crate) fn begin(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }

    /// When the run began, if it has.
    pub(crate) fn begun(&self) -> Option<Instant> {
        self.start.get().copied()
    }

    /// Tells the clients to send no more and to close.
    pub(crate) fn finish(&self) {
        self.phase.store(FINISHING, Ordering::Release);
    }

    pub(crate) fn is_finishing(&self) -> bool {
        self.phase.load(Ordering::Acquire) == FINISHING
    }
}
