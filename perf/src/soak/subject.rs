//! An engine under test: how it is made, and how it ends.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam_queue::ArrayQueue;
use testkit::ledger::{Ledger, scoped};
use testkit::record::Scope;
use tourbillon::{Builder, Clock, Driver, Shutdown, ShutdownError, Timer, Unfired, WaitStrategy};

use super::context::{Jumping, TaskContext, Violations};
use super::executors::{self, Runner};
use super::tally::{Count, Tally};

/// How long closures, and the handles in them, may take to be dropped when their engine is over: so
/// many looks, 1 ms apart. Counted, and not timed, as the process may stand still meanwhile.
const PATIENCE: usize = 20_000;

/// Series that tasks may reset and cancel.
const BOARD: usize = 64;
/// How long a driver sleeps at most.
const LONGEST_REST: Duration = Duration::from_millis(20);

/// The plan of an engine: its executor, its clock and its other options.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) runner: Runner,
    pub(crate) shards: usize,
    pub(crate) tick: Duration,
    pub(crate) wait: WaitStrategy,
    pub(crate) limit: Option<usize>,
    pub(crate) jumping: Option<Jumping>,
    /// Small limits, few levels: everything that a large engine meets, sooner.
    pub(crate) cramped: bool,
    pub(crate) driven: bool,
    /// Timeouts at once, at most.
    pub(crate) room: usize,
}

impl Plan {
    /// The defaults.
    pub(crate) fn new(name: &str, runner: Runner) -> Self {
        Self {
            name: name.to_owned(),
            runner,
            shards: 1,
            tick: Duration::from_millis(1),
            wait: WaitStrategy::Park,
            limit: None,
            jumping: None,
            cramped: false,
            driven: false,
            room: 1 << 14,
        }
    }

    /// Whether all its tasks run on one thread. (A driven engine's may run on that of a shutdown,
    /// too.)
    fn runs_on_one_thread(&self) -> bool {
        !self.driven
            && match self.runner {
                Runner::Slow => true,
                Runner::Inline | Runner::Refusing | Runner::Panicking => self.shards == 1,
                Runner::Default | Runner::HandingOver | Runner::Spawning => false,
            }
    }

    fn builder(&self) -> Builder {
        let mut builder = Timer::builder().shards(self.shards).tick_duration(self.tick).wait(self.wait);
        if let Some(limit) = self.limit {
            builder = builder.max_pending_timeouts(limit);
        }
        if let Some(clock) = &self.jumping {
            builder = builder.clock(clock.clone());
        }
        if self.cramped {
            builder = builder.transfer_limit(37).expiry_limit(23).ticks_per_wheel(16).levels(3);
        }
        builder
    }
}

/// A thread that turns a driven engine.
struct TurningThread {
    thread: JoinHandle<()>,
    drop_driver: Arc<AtomicBool>,
}

/// An engine, its records, and what turns it.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) limit: Option<usize>,
    pub(crate) jumping: Option<Jumping>,
    pub(crate) inline: bool,
    /// Batches that other threads were given, and have not run to their end.
    under_way: Option<Arc<AtomicUsize>>,
    runner: Mutex<Option<TurningThread>>,
    returned: Mutex<u64>,
}

impl Subject {
    pub(crate) fn build(plan: &Plan, tally: &Arc<Tally>, violations: &Arc<Violations>) -> Result<Self> {
        let (clock, name, violations) = (plan.jumping.clone(), plan.name.clone(), Arc::clone(violations));
        let now = move || clock.as_ref().map_or_else(Instant::now, Clock::now);
        let tell = move |what: &str| violations.add(&format!("engine {name}: {what}"));
        let mut ledger = Ledger::new(now, plan.tick, plan.room, tell);
        ledger.on_one_thread = plan.runs_on_one_thread();
        ledger.holds_batches = plan.runner.holds_batches();
        let board = ledger.on_one_thread.then(|| ArrayQueue::new(BOARD));
        let context = Arc::new(TaskContext::new(ledger, Arc::clone(tally), board));
        tally.engines.fetch_add(1, Ordering::Relaxed);
        let (timer, under_way, runner) = if plan.driven {
            let (timer, driver) = plan.builder().build_driven().context("a driven engine")?;
            (timer, None, Some(TurningThread::start(driver)))
        } else {
            let (builder, under_way) = executors::set(plan.builder(), plan.runner, tally);
            (builder.build().context("an engine")?, under_way, None)
        };
        context.set_timer(timer);
        Ok(Self {
            name: plan.name.clone(),
            context,
            limit: plan.limit,
            jumping: plan.jumping.clone(),
            inline: !plan.driven && matches!(plan.runner, Runner::Inline | Runner::Refusing | Runner::Panicking),
            under_way,
            runner: Mutex::new(runner),
            returned: Mutex::new(0),
        })
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.context.ledger
    }

    pub(crate) fn timer(&self) -> Option<Timer> {
        self.context.timer()
    }

    /// Ends the engine, in the way that is counted as `how`. Of the timeouts that come back, it
    /// runs some by hand, and drops the rest.
    pub(crate) fn stop(&self, how: Count) {
        let Some(timer) = self.timer() else { return };
        self.context.tally.did(how);
        self.ledger().expect_end();
        match how {
            Count::StopCancel | Count::StopDriven => self.hand_back(timer.shutdown()),
            Count::StopFireNow => {
                self.ledger().expect_fire();
                self.hand_back(timer.shutdown_with(Shutdown::FireNow));
            }
            Count::StopDrain => self.hand_back(timer.shutdown_with(Shutdown::Drain(Duration::from_millis(30)))),
            Count::StopRace => {
                let both =
                    thread::scope(|scope| [0, 1].map(|_| scope.spawn(|| timer.shutdown())).map(|thread| thread.join()));
                let outcomes: Vec<_> = both.into_iter().flatten().collect();
                let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
                if won != 1 {
                    self.ledger().violation(&format!("of two shutdowns at once {won} were the first"));
                }
                outcomes.into_iter().filter(Result::is_ok).for_each(|outcome| self.hand_back(outcome));
            }
            Count::StopDropped | Count::StopDriverDropped => {
                self.ledger().expect_discard();
                if how == Count::StopDriverDropped
                    && let Some(runner) = self.runner.lock().unwrap_or_else(PoisonError::into_inner).take()
                {
                    runner.stop();
                }
                drop(timer);
                // A task that is about to schedule may hold the last one, and drop it.
                drop(self.context.take_timer());
            }
            other => panic!("{other:?} ends no engine"),
        }
        if let Some(runner) = self.runner.lock().unwrap_or_else(PoisonError::into_inner).take() {
            runner.stop();
        }
        self.ledger().set_over();
        while self.under_way.as_ref().is_some_and(|batches| batches.load(Ordering::SeqCst) > 0) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn hand_back(&self, outcome: Result<Vec<Unfired>, ShutdownError>) {
        match outcome {
            Ok(unfired) => {
                *self.returned.lock().unwrap_or_else(PoisonError::into_inner) += unfired.len() as u64;
                scoped(Scope::Returned, || {
                    for (at, unfired) in unfired.into_iter().enumerate() {
                        if at % 16 == 0 {
                            // It may be one that panics.
                            let run = std::panic::AssertUnwindSafe(move || unfired.run());
                            let _ = std::panic::catch_unwind(run);
                        }
                    }
                });
            }
            Err(why) => self.ledger().violation(&format!("shutdown: {why}")),
        }
    }

    /// Reconciles the counters. When this is called, no thread has a handle any more, or it will
    /// soon drop it.
    pub(crate) fn reconcile(&self) {
        for _ in 0..PATIENCE {
            // Each time: a task that still runs, on a worker that nobody waits for, puts back what
            // it has taken off.
            self.context.clear_board();
            // Handles as well: a series' own goes after the rest of its closure.
            if self.ledger().open_records() == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let returned = *self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        // An engine that was dropped can't be asked.
        let timer = self.context.take_timer();
        let stats = timer.map(|timer| timer.stats());
        self.context.tally.add(self.ledger().reconcile(stats.as_ref(), returned));
    }

    /// The greatest lateness. None is known of a clock that jumps.
    pub(crate) fn latest(&self) -> Option<u64> {
        self.jumping.is_none().then(|| self.ledger().latest())
    }

    /// Checks the limit on pending timeouts, which holds at any time.
    pub(crate) fn look(&self) {
        if let (Some(limit), Some(timer)) = (self.limit, self.timer()) {
            let pending = timer.pending();
            if pending > limit {
                self.ledger().violation(&format!("{pending} are pending, of {limit} at most"));
            }
        }
    }
}

impl TurningThread {
    fn start(mut driver: Driver) -> Self {
        let drop_driver = Arc::new(AtomicBool::new(false));
        let must_drop = Arc::clone(&drop_driver);
        let thread = thread::spawn(move || {
            let this = thread::current();
            driver.on_earlier(move || this.unpark());
            while !must_drop.load(Ordering::SeqCst) {
                driver.turn();
                let until = driver.next_wakeup().map(|at| at.saturating_duration_since(Instant::now()));
                thread::park_timeout(until.map_or(LONGEST_REST, |until| until.min(LONGEST_REST)));
            }
        });
        Self { thread, drop_driver }
    }

    /// Drops the driver.
    fn stop(self) {
        self.drop_driver.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}
