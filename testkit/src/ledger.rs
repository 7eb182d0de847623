//! The records of one engine's timeouts, by id. Closures and callers report to it, and at the end
//! its counts must be the engine's.

use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tourbillon::Stats;

use crate::counters::{Comparison, Counts, reconcile};
use crate::record::{End, Fault, Kind, Record, Scope, Stage};

/// An id is a serial number and, in its lowest bits, the place of its record.
const PLACE_BITS: u32 = 20;

thread_local! {
    /// On whose behalf this thread drops closures. Without a destructor, so that a dying thread's
    /// other locals can use it.
    static SCOPE: Cell<Scope> = const { Cell::new(Scope::Engine) };
    /// The engine, by its ledger's address, whose task this thread is running.
    static INSIDE: Cell<*const Ledger> = const { Cell::new(std::ptr::null()) };
}

/// Puts back, also when a task panics, what the thread was running before.
struct Inside(*const Ledger);

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// Does `work` with all closures that this thread drops in it on this behalf.
pub fn scoped<R>(scope: Scope, work: impl FnOnce() -> R) -> R {
    let before = SCOPE.replace(scope);
    let result = work();
    SCOPE.set(before);
    result
}

/// The program's counts, to be compared with the engine's `stats`.
#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    rejected: AtomicU64,
    resets: AtomicU64,
    runs: AtomicU64,
    by_hand: AtomicU64,
    once_runs: AtomicU64,
    /// By [`End`], of what is over.
    ended: [AtomicU64; 5],
    unsure: AtomicU64,
}

/// How many timeouts of an engine ended in which way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ends {
    /// Ran, and are over.
    pub fired: u64,
    /// Runs of series that did not end them.
    pub runs: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Given back by a shutdown.
    pub returned: u64,
    /// Dropped with their engine.
    pub discarded: u64,
    /// Never accepted.
    pub refused: u64,
}

type Now = Box<dyn Fn() -> Instant + Send + Sync>;
type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// All that is known of one engine's timeouts.
pub struct Ledger {
    now: Now,
    tell: Tell,
    epoch: Instant,
    tick: u64,
    places: Box<[Mutex<Record>]>,
    free: Mutex<Vec<u64>>,
    serial: AtomicU64,
    whenever: AtomicBool,
    discarding: AtomicBool,
    ending: AtomicBool,
    over: AtomicBool,
    counts: Counters,
    /// One thread runs all of this engine's tasks.
    pub on_one_thread: bool,
    /// The executor keeps batches, and a shutdown does not wait for them.
    pub holds_batches: bool,
    /// The greatest lateness, where that is known exactly.
    latest: AtomicU64,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("open", &self.open_records()).finish_non_exhaustive()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}

impl Ledger {
    /// For an engine that is about to be built, with room for `room` timeouts at once. `now` reads
    /// the engine's clock, and `tell` is told what is wrong.
    pub fn new(
        now: impl Fn() -> Instant + Send + Sync + 'static,
        tick: Duration,
        room: usize,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let room = room.min(1 << PLACE_BITS);
        Self {
            epoch: now(),
            now: Box::new(now),
            tell: Box::new(tell),
            tick: nanos(tick),
            places: (0..room).map(|_| Mutex::new(Record::free())).collect(),
            free: Mutex::new((0..room as u64).rev().collect()),
            serial: AtomicU64::new(1),
            whenever: AtomicBool::new(false),
            discarding: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            over: AtomicBool::new(false),
            counts: Counters::default(),
            on_one_thread: false,
            holds_batches: false,
            latest: AtomicU64::new(0),
        }
    }

    /// The engine's time in nanoseconds.
    pub fn now(&self) -> u64 {
        nanos(self.clock_now().saturating_duration_since(self.epoch))
    }

    /// Returns the time before which a deadline so long after now may not come. To be called before
    /// the engine is.
    pub fn floor_in(&self, delay: Duration) -> u64 {
        self.now().saturating_add(nanos(delay))
    }

    /// The same for a point in time. One that has passed is due at once.
    pub fn floor_at(&self, at: Instant) -> u64 {
        nanos(at.saturating_duration_since(self.epoch)).max(self.now())
    }

    /// Returns the time of the engine's clock.
    pub fn clock_now(&self) -> Instant {
        (self.now)()
    }

    /// A shutdown is about to fire all that are left, whatever their deadlines.
    pub fn expect_fire(&self) {
        self.whenever.store(true, Ordering::SeqCst);
    }

    /// The last timer is about to be dropped.
    pub fn expect_discard(&self) {
        self.discarding.store(true, Ordering::SeqCst);
    }

    /// A shutdown is about to be called.
    pub fn expect_end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// The shutdown has returned.
    pub fn set_over(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Tells what is wrong.
    pub fn violation(&self, what: &str) {
        (self.tell)(what);
    }

    /// Tells what is wrong with a timeout, and what was done with it.
    pub fn fault(&self, id: u64, fault: Fault) {
        let record = self.place(id).clone();
        let history = if record.id == id {
            format!(
                "{}; {} runs, not before {} ns; its history:{}",
                if record.is_once() { "runs once" } else { "a series" },
                record.runs,
                record.floor(),
                record.history
            )
        } else {
            "it was over, and its place in use by another".to_owned()
        };
        self.violation(&format!("timeout {id}, at {} ns: {fault}; {history}", self.now()));
    }

    fn place(&self, id: u64) -> MutexGuard<'_, Record> {
        lock(&self.places[usize::try_from(id & ((1 << PLACE_BITS) - 1)).unwrap_or(0)])
    }

    /// Does `work` with a record; `None` if it is over.
    fn with<R>(&self, id: u64, work: impl FnOnce(&mut Record) -> R) -> Option<R> {
        let mut record = self.place(id);
        (record.id == id).then(|| work(&mut record))
    }

    fn check(&self, id: u64, outcome: Option<Result<(), Fault>>) {
        if let Some(Err(fault)) = outcome {
            self.fault(id, fault);
        }
    }

    /// The id of a timeout that is about to be scheduled. Returns `None` if there are too many.
    pub fn open(&self, kind: Kind, floor: u64) -> Option<u64> {
        let place = lock(&self.free).pop()?;
        let id = (self.serial.fetch_add(1, Ordering::Relaxed) << PLACE_BITS) | place;
        *self.place(id) = Record::open(id, kind, floor, self.now());
        Some(id)
    }

    /// The engine has accepted a timeout.
    pub fn accepted(&self) {
        add(&self.counts.accepted);
    }

    /// The engine has refused a timeout.
    pub fn rejected(&self) {
        add(&self.counts.rejected);
    }

    /// A run begins. False if it must not go on.
    pub fn begin(&self, id: u64) -> bool {
        let by_hand = SCOPE.get() == Scope::Returned;
        add(if by_hand { &self.counts.by_hand } else { &self.counts.runs });
        let whenever = by_hand || self.whenever.load(Ordering::SeqCst);
        let now = self.now();
        let begun = self.with(id, |record| {
            if record.is_once() && !by_hand {
                add(&self.counts.once_runs);
            }
            record.begin(now, whenever).map(|late| if record.is_exact() { late } else { 0 })
        });
        match begun.unwrap_or(Err(Fault::AfterEnd)) {
            Ok(late) => {
                if late > self.latest.load(Ordering::Relaxed) {
                    self.latest.fetch_max(late, Ordering::Relaxed);
                }
                true
            }
            Err(fault) => {
                self.fault(id, fault);
                false
            }
        }
    }

    /// The greatest lateness of a run.
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::Relaxed)
    }

    /// A run of a series ends, and says how long after this the next one is due.
    pub fn finish(&self, id: u64, next: Option<Duration>) {
        let now = self.now();
        self.with(id, |record| record.finish(now, next.map(|delay| now.saturating_add(nanos(delay)))));
    }

    /// Runs a task's body.
    pub fn inside(&self, body: impl FnOnce()) {
        let _before = Inside(INSIDE.replace(self));
        body();
    }

    /// Whether this is a task on the only thread that runs any.
    fn is_alone(&self) -> bool {
        self.on_one_thread && std::ptr::eq(INSIDE.get(), self)
    }

    /// Resets: `reset` is given the floor of it, and answers whether it took.
    pub fn reset(&self, id: u64, floor: u64, reset: impl FnOnce() -> bool) -> bool {
        self.with(id, |record| record.announce_reset(floor, self.now()));
        let took = reset();
        if took {
            add(&self.counts.resets);
        }
        let outcome = self.with(id, |record| record.settle_reset(took, self.now(), self.tick, self.is_alone()));
        self.check(id, outcome);
        took
    }

    /// Cancels: `cancel` answers whether it took.
    pub fn cancel(&self, id: u64, cancel: impl FnOnce() -> bool) -> bool {
        self.with(id, |record| record.announce_cancel(self.now()));
        let took = scoped(Scope::Cancelling, cancel);
        let outcome = self.with(id, |record| record.settle_cancel(took, self.now(), self.is_alone()));
        self.check(id, outcome);
        took
    }

    /// A guard may cancel it, which does not tell whether that was in time.
    pub fn may_be_cancelled(&self, id: u64) {
        self.with(id, |record| record.unsure |= !record.is_once());
    }

    /// From here on several threads have the handle.
    pub fn share(&self, id: u64) {
        self.with(id, Record::share);
    }

    /// A handle goes, or a call that would have made one.
    pub fn let_go(&self, id: u64) {
        let mut record = self.place(id);
        if record.id == id {
            let end = record.let_go(self.now());
            self.close_record(record, end);
        }
    }

    /// The closure is dropped.
    pub fn drop_closure(&self, id: u64) {
        let is = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
        let stage = Stage {
            discarding: is(&self.discarding),
            ending: is(&self.ending),
            over: is(&self.over),
            holds_batches: self.holds_batches,
        };
        let mut record = self.place(id);
        if record.id != id {
            drop(record);
            return self.fault(id, Fault::DroppedTwice);
        }
        let outcome = record.drop_closure(SCOPE.get(), stage, self.now());
        if let Err(fault) = outcome {
            drop(record);
            self.fault(id, fault);
            record = self.place(id);
        }
        let end = record.closed();
        self.close_record(record, end);
    }

    fn close_record(&self, mut record: MutexGuard<'_, Record>, end: Option<End>) {
        let Some(end) = end else { return };
        add(&self.counts.ended[end as usize]);
        if record.unsure && end == End::Fired {
            add(&self.counts.unsure);
        }
        let place = record.id & ((1 << PLACE_BITS) - 1);
        record.id = 0;
        drop(record);
        lock(&self.free).push(place);
    }

    /// How many timeouts are open: their closures have not been dropped yet, or not all of their
    /// handles.
    pub fn open_records(&self) -> usize {
        self.places.iter().filter(|place| lock(place).id != 0).count()
    }

    /// Reconciles the counters when closures and handles have gone. `after` is what the engine
    /// counts, if it can still be asked. `returned` is how many timeouts a shutdown gave back.
    pub fn reconcile(&self, after: Option<&Stats>, returned: u64) -> Ends {
        let mut left = Vec::new();
        for place in &self.places {
            let record = lock(place);
            if record.id != 0 {
                left.push((record.id, record.is_dropped()));
            }
        }
        for &(id, dropped) in &left {
            if dropped {
                self.violation(&format!("timeout {id} is still open, though its closure is gone"));
            } else {
                self.fault(id, Fault::Lost);
            }
        }
        let ended = |end: End| get(&self.counts.ended[end as usize]);
        let accepted = get(&self.counts.accepted);
        let (fired, cancelled) = (ended(End::Fired), ended(End::Cancelled));
        let by_id = fired + cancelled + ended(End::Returned) + ended(End::Discarded);
        let rejected = get(&self.counts.rejected);
        let mut compared = vec![
            Comparison { what: "accepted, and ended by id", here: accepted, there: by_id + left.len() as u64 },
            Comparison { what: "rejected, and given back", here: rejected, there: ended(End::Refused) },
        ];
        let mut wrong = String::new();
        let runs = get(&self.counts.runs);
        if let Some(after) = after {
            let (unsure, late) = (get(&self.counts.unsure), ended(End::Returned).saturating_sub(returned));
            let most = returned + late + fired_late(self, fired);
            let theirs = Counts::of(after);
            compared.extend(
                Counts {
                    scheduled: accepted,
                    rejected,
                    reset: get(&self.counts.resets),
                    fired: runs,
                    // By id some ends can't be known, which leaves some room. The counters' sum
                    // leaves none.
                    cancelled: theirs.cancelled.clamp(cancelled, cancelled + unsure),
                    returned: theirs.returned.clamp(returned, most),
                    pending: 0,
                    // These two are not counted here.
                    repeated: theirs.repeated,
                    panicked: theirs.panicked,
                }
                .against(&theirs),
            );
            if let Err(what) = reconcile(after) {
                let _ = write!(wrong, "\n    {what}");
            }
        }
        for comparison in compared.iter().filter(|comparison| !comparison.holds()) {
            let _ = write!(wrong, "\n    {comparison}");
        }
        if !wrong.is_empty() {
            self.violation(&format!("the counters do not reconcile:{wrong}"));
        }
        Ends {
            fired,
            // Of what ran for the last time, one run each.
            runs: runs.saturating_sub(fired),
            cancelled,
            returned: ended(End::Returned),
            discarded: ended(End::Discarded),
            refused: rejected,
        }
    }
}

/// Series that had run before, and were perhaps counted as returned: they came back out of an
/// executor when all was over.
fn fired_late(ledger: &Ledger, fired: u64) -> u64 {
    fired.saturating_sub(get(&ledger.counts.once_runs))
}

#[cfg(test)]
mod tests;
