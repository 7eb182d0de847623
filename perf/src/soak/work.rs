//! The tasks of a soak, and the ways to schedule them: each call with its record.

use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use testkit::ledger::scoped;
use testkit::record::{Fault, Kind, Scope};
use tourbillon::{MissedTicks, Refusal, ScheduleError, Shard, Timeout, Timer};

use super::context::{TaskContext, Token};
use super::held::Held;
use super::tally::Count;

/// The payload of a task's panic, which `resume_unwind` raises without a panic hook, so nothing is
/// printed.
struct Deliberate;

/// The behaviour of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Plain,
    /// Has more captures than fit into an entry.
    Large,
    Panic,
    /// Takes some milliseconds.
    Slow(u8),
    /// Takes 100 ms: if it runs inline, it holds its worker.
    Hold,
    /// Schedules, and by these bits resets or cancels what it scheduled.
    Nested(u8),
    /// Resets a series of the same engine, or by chance cancels it.
    Meddle(u8),
}

const HOLD: Duration = Duration::from_millis(100);
/// How long a task waits for another: all threads of its engine may wait.
const WAIT: Duration = Duration::from_millis(5);

impl Body {
    fn run(self, context: &Arc<TaskContext>) {
        context.ledger.inside(|| self.run_inside(context));
    }

    fn run_inside(self, context: &Arc<TaskContext>) {
        match self {
            Self::Plain | Self::Large => {}
            Self::Panic => {
                context.tally.did(Count::Panic);
                resume_unwind(Box::new(Deliberate));
            }
            Self::Slow(ms) => {
                context.tally.did(Count::Slow);
                thread::sleep(Duration::from_millis(ms.into()));
            }
            Self::Hold => {
                context.tally.did(Count::Held);
                thread::sleep(HOLD);
            }
            Self::Nested(bits) => nested(context, bits),
            Self::Meddle(bits) => meddle(context, bits),
        }
    }
}

/// A task's own operations.
fn nested(context: &Arc<TaskContext>, bits: u8) {
    let Some(timer) = context.timer() else { return };
    context.tally.did(Count::InTask);
    let delay = Duration::from_micros(u64::from(bits) * 100);
    let way = if bits & 1 == 0 { Way::In(delay) } else { Way::Detached(delay) };
    let Some(mut held) = once(context, &Place::Timer(&timer), way, Body::Plain) else { return };
    if bits & 16 != 0 {
        // It may be a later one of the same batch.
        context.tally.did(Count::Waited);
        let begin = Instant::now();
        while held.is_pending() && begin.elapsed() < WAIT {
            thread::sleep(WAIT / 10);
        }
    }
    if bits & 2 != 0 {
        held.reset(Duration::from_millis(u64::from(bits)));
    }
    match bits & 12 {
        4 => _ = held.cancel(),
        8 => held.guard(),
        _ => {}
    }
}

/// A task that resets or cancels series of the engine that runs it.
fn meddle(context: &Arc<TaskContext>, bits: u8) {
    let Some(board) = &context.board else { return };
    for _ in 0..4 {
        let Some(held) = board.pop() else { return };
        if bits & 7 == 0 {
            held.cancel();
        } else if held.reset(Duration::from_millis(u64::from(bits))) {
            board.push(held).unwrap_or_else(|held| _ = held.cancel());
        }
    }
}

/// Where to schedule.
pub(crate) enum Place<'a> {
    Timer(&'a Timer),
    Shard(Shard<'a>),
}

macro_rules! at_place {
    ($place:expr, $on:ident => $call:expr) => {
        match $place {
            Place::Timer($on) => $call,
            Place::Shard($on) => $call,
        }
    };
}

/// When something runs once.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    In(Duration),
    At(Instant),
    Detached(Duration),
}

fn count(context: &TaskContext, place: &Place<'_>, op: Count, how_many: u64) {
    context.tally.did_many(op, how_many);
    match place {
        Place::Timer(_) => {}
        Place::Shard(_) => context.tally.did_many(Count::OnShard, how_many),
    }
}

/// Schedules what runs once.
pub(crate) fn once(context: &Arc<TaskContext>, place: &Place<'_>, way: Way, body: Body) -> Option<Held> {
    let (op, floor) = match way {
        Way::In(delay) => (Count::Schedule, context.ledger.floor_in(delay)),
        Way::At(at) => (Count::At, context.ledger.floor_at(at)),
        Way::Detached(delay) => (Count::Detached, context.ledger.floor_in(delay)),
    };
    let token = context.open(Kind::Once, floor)?;
    let id = token.id;
    count(context, place, op, 1);
    let scheduled = if body == Body::Large {
        let ballast = [id; 8];
        put(context, place, way, move || {
            if token.begin() && ballast != [token.id; 8] {
                token.context.ledger.fault(token.id, Fault::Spoilt);
            }
        })
    } else {
        put(context, place, way, move || {
            if token.begin() {
                body.run(&token.context);
            }
        })
    };
    made(context, id, scheduled)
}

/// Notes what became of a schedule. Returns `None` if it was refused, or gave no handle.
fn made(context: &Arc<TaskContext>, id: u64, scheduled: Option<Option<Timeout>>) -> Option<Held> {
    if scheduled.is_none() {
        context.ledger.let_go(id);
    }
    Held::accepted(&context.checked, id, scheduled?)
}

/// Notes that the engine refused so many timeouts, and drops what came back.
fn refuse<F>(context: &TaskContext, error: ScheduleError<F>, how_many: u64) {
    (0..how_many).for_each(|_| context.ledger.rejected());
    let op = match error.kind() {
        Refusal::Full => Count::Full,
        Refusal::Shutdown => Count::Closed,
        Refusal::OutOfMemory => Count::NoMemory,
        other => return context.ledger.violation(&format!("refused for no reason that there is: {other}")),
    };
    context.tally.did_many(op, how_many);
    scoped(Scope::Refused, || drop(error.into_inner()));
}

fn put<F>(context: &TaskContext, place: &Place<'_>, way: Way, task: F) -> Option<Option<Timeout>>
where
    F: FnOnce() + Send + 'static,
{
    let outcome = at_place!(place, on => match way {
        Way::In(delay) => on.schedule(delay, task).map(Some),
        Way::At(at) => on.schedule_at(at, task).map(Some),
        Way::Detached(delay) => on.schedule_detached(delay, task).map(|()| None),
    });
    unless_refused(context, outcome)
}

/// Returns what the engine made of one timeout, and notes it if it refused.
fn unless_refused<T, F>(context: &TaskContext, outcome: Result<T, ScheduleError<F>>) -> Option<T> {
    outcome.map_err(|error| refuse(context, error, 1)).ok()
}

/// Schedules `how_many` at once.
pub(crate) fn many(context: &Arc<TaskContext>, timer: &Timer, delay: Duration, how_many: usize) -> Vec<Held> {
    let floor = context.ledger.floor_in(delay);
    let tokens: Vec<Token> = (0..how_many).map_while(|_| context.open(Kind::Once, floor)).collect();
    let ids: Vec<u64> = tokens.iter().map(|token| token.id).collect();
    context.tally.did_many(Count::Many, ids.len() as u64);
    let tasks = tokens.into_iter().map(|token| move || _ = token.begin());
    match timer.schedule_many(delay, tasks) {
        Ok(timeouts) => {
            if timeouts.len() != ids.len() {
                context.ledger.violation("schedule_many gave another number of handles than of tasks");
            }
            let made = ids.into_iter().zip(timeouts);
            made.filter_map(|(id, timeout)| Held::accepted(&context.checked, id, Some(timeout))).collect()
        }
        Err(error) => {
            refuse(context, error, ids.len() as u64);
            ids.into_iter().for_each(|id| context.ledger.let_go(id));
            Vec::new()
        }
    }
}

/// A series' rule.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    Rate(Duration, MissedTicks),
    Delay(Duration),
    /// Answers with this delay, this many times.
    Repeating(Duration, u32),
}

/// Schedules a series. It ends by itself after `runs`, if that is not 0: by cancelling itself, by a
/// panic, or by its answer.
pub(crate) fn series(
    context: &Arc<TaskContext>,
    timer: &Timer,
    initial: Duration,
    rule: Rule,
    runs: u32,
    body: Body,
) -> Option<Held> {
    let (kind, op) = match rule {
        Rule::Rate(period, _) => (Kind::Rate { period: crate::duration::nanos(period) }, Count::Rate),
        Rule::Delay(_) => (Kind::FromEnd, Count::Delay),
        Rule::Repeating(..) => (Kind::FromEnd, Count::Repeating),
    };
    let token = context.open(kind, context.ledger.floor_in(initial))?;
    let id = token.id;
    context.tally.did(op);
    let own = Arc::new(OnceLock::<Held>::new());
    let mine = (runs > 0).then(|| Arc::clone(&own));
    let mut left = runs;
    let mut run = move |next: Option<Duration>| {
        if !token.begin() {
            return;
        }
        left = left.saturating_sub(1);
        if left == 0
            && let Some(own) = mine.as_ref().and_then(|own| own.get())
        {
            token.context.tally.did(Count::SelfCancel);
            token.context.ledger.inside(|| _ = own.cancel());
        }
        // Of a series that panics, some later run does.
        if body != Body::Panic || left.is_multiple_of(2) {
            body.run(&token.context);
        }
        token.context.ledger.finish(token.id, next);
    };
    let scheduled = match rule {
        Rule::Rate(period, missed) => {
            let task = move || run(None);
            unless_refused(context, timer.schedule_at_fixed_rate_with(initial, period, missed, task))
        }
        Rule::Delay(delay) => {
            let task = move || run(Some(delay));
            unless_refused(context, timer.schedule_with_fixed_delay(initial, delay, task))
        }
        Rule::Repeating(delay, mut times) => {
            let task = move || {
                let next = times.checked_sub(1).map(|_| delay);
                times = times.saturating_sub(1);
                run(next);
                next
            };
            unless_refused(context, timer.schedule_repeating(initial, task))
        }
    };
    let held = made(context, id, scheduled.map(Some))?;
    if runs > 0 && !matches!(rule, Rule::Repeating(..)) {
        // The task has the handle, through which it ends itself.
        let _ = own.set(held);
        return None;
    }
    Some(held)
}
