//! The traits that callers expect of the public types. These tests fail by not compiling.

use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::{RefUnwindSafe, UnwindSafe};

use tourbillon::{
    BuildError, Builder, ClockListener, Driver, Elapsed, Executor, Expired, Health, Inline, Interval, Lateness,
    ManualClock, MissedTicks, PausableClock, Pinning, Refusal, Reusable, ScheduleError, Shard, ShardHealth, ShardStats,
    Shutdown, ShutdownError, ShutdownFuture, Sleep, Stats, ThreadPool, TimeoutFuture, TimeoutGuard, Timer, Turn,
    Unfired, WaitStrategy, WorkerState,
};

fn is_debug_and_send<T: Debug + Send>() {}
fn is_shared<T: Send + Sync + ?Sized>() {}
fn is_value<T: Clone + Eq + Debug + Send + Sync>() {}
fn is_key<T: Eq + Hash + Debug + Send + Sync>() {}
fn is_error<T: Error + Send + Sync + 'static>() {}
fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}

/// A task that may be sent and not shared.
type Task = Box<dyn FnOnce() + Send>;

#[test]
fn handles_may_be_shared_between_threads_and_caught_in_a_panic() {
    is_shared::<Timer>();
    is_shared::<tourbillon::Timeout>();
    is_shared::<TimeoutGuard>();
    is_shared::<Reusable>();
    is_shared::<Shard<'_>>();
    is_shared::<Sleep>();
    is_shared::<Interval>();
    is_shared::<ManualClock>();
    is_shared::<PausableClock>();
    is_shared::<dyn ClockListener>();
    is_shared::<ThreadPool>();
    is_unwind_safe::<Timer>();
    is_unwind_safe::<tourbillon::Timeout>();
    is_unwind_safe::<TimeoutGuard>();
    is_unwind_safe::<Shard<'_>>();
    is_unwind_safe::<Sleep>();
    is_unwind_safe::<Interval>();
}

#[test]
fn every_public_type_shows_itself_and_may_be_sent() {
    is_debug_and_send::<(Builder, Driver, Expired, Unfired, ShutdownFuture)>();
    is_debug_and_send::<TimeoutFuture<std::future::Ready<()>>>();
    is_debug_and_send::<(Timer, tourbillon::Timeout, TimeoutGuard, Reusable, Shard<'_>)>();
    is_debug_and_send::<(Sleep, Interval, ManualClock, PausableClock, ThreadPool, Inline, Turn)>();
}

#[test]
fn figures_are_values_and_choices_may_be_keys() {
    is_value::<Stats>();
    is_value::<ShardStats>();
    is_value::<Lateness>();
    is_value::<Health>();
    is_value::<ShardHealth>();
    is_key::<(Turn, Inline, Pinning, WaitStrategy, MissedTicks, Shutdown, WorkerState)>();
    is_key::<(Refusal, BuildError, ShutdownError, Elapsed)>();
}

#[test]
fn errors_go_through_the_question_mark_whatever_they_carry() {
    is_error::<ScheduleError<Task>>();
    is_error::<ScheduleError<Vec<Task>>>();
    is_error::<BuildError>();
    is_error::<ShutdownError>();
    is_error::<Refusal>();
    is_error::<Elapsed>();
}

#[test]
fn an_executor_may_be_chosen_at_run_time() {
    fn is_executor<T: Executor>() {}
    is_executor::<Box<dyn Executor>>();
    let executors: [Box<dyn Executor>; 2] = [Box::new(Inline), Box::new(ThreadPool::new(1))];
    for executor in executors {
        let timer = Timer::builder().executor(executor).build().expect("the options make sense");
        assert_eq!(timer.pending(), 0);
    }
}
