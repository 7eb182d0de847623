//! The wishes and complaints of users of other timers, and the faults that they met. Here are the
//! tests for those lines that no other file holds; the table says for each line where its test is,
//! or why there is none.
//!
//! | line | what | held by |
//! |---|---|---|
//! | 1 | memory of cancelled timeouts | `regressions::a_cancel_frees_the_closure_at_once_and_the_entry_with_the_next_turn` |
//! | 2 | far-out timers that are cancelled | `memory::millions_of_schedules_and_cancels_leave_memory_where_it_was`, `memory::a_bulk_of_cancelled_timeouts_is_collected_though_the_worker_has_no_other_reason_to_wake` |
//! | 3 | cancelled while in the queue | `regressions::a_timeout_that_is_cancelled_before_it_is_inserted_is_not_inserted`, `loom-tests/src/models/cancelled::a_cancel_between_accept_and_link_leaves_nothing_stuck` |
//! | 4 | as 1 | `promises/outcomes::a_cancel_that_says_true_has_dropped_the_closure_on_the_callers_thread` |
//! | 5 | a limit that gives the task back | `promises/limits::a_refused_timeout_changes_only_the_count_of_refusals_and_its_closure_comes_back` |
//! | 6 | no small fixed queue | `promises/limits::without_a_limit_there_is_none`, `promises/bursts::a_full_inbox_drains_over_several_turns_of_a_worker_without_loss` |
//! | 7 | armed again without a cancel | `peers/demand::connections_that_arm_again_at_each_heartbeat_leave_no_orphans` |
//! | 8 | a stop that leaks | `engines::engines_with_unfired_timeouts_drop_each_closure_once` |
//! | 9 | a counter that goes down twice | `regressions::a_cancel_within_the_tick_that_it_would_fire_in_is_counted_once` |
//! | 10 | far future | `promises/time::duration_max_never_fires_and_nothing_overflows`, `src/time/tick::far_deadlines_saturate_to_never_and_stay_an_instant` |
//! | 11 | ticks that wrap | `regressions::short_delays_are_exact_however_long_the_engine_has_run_and_beside_a_very_long_one` |
//! | 12 | months of uptime | `simulation::after_each_step_of_the_clock_exactly_the_due_timeouts_have_run_over_months` |
//! | 13 | a round too late | `regressions::a_delay_longer_than_the_wheel_fires_neither_a_round_early_nor_a_round_late`, `crates/wheel/src/tests::it_is_what_an_ordered_map_is` |
//! | 14 | rounding that fires early | `regressions::a_delay_that_is_no_multiple_of_the_tick_is_rounded_up_to_a_part_of_it`, `threads::nothing_is_early_by_a_microsecond` |
//! | 15 | order within a slot | `regressions::timeouts_of_many_rounds_in_one_slot_fire_each_in_its_own_whatever_their_order` |
//! | 16 | a negative delay | `regressions::no_delay_past_deadlines_and_forever_keep_their_meaning` |
//! | 17 | a clock that jumps | `regressions::a_jump_of_the_clock_costs_slots_and_not_ticks` |
//! | 18 | suspend | `peers/demand::a_clock_that_counts_a_suspend_fires_timeouts_that_became_due_in_it`, `clocks::workers_fire_what_has_become_due_when_their_clock_jumps_and_says_so` |
//! | 19 | a burst after a standstill | `peers/demand::after_a_standstill_a_rate_runs_once_unless_it_was_told_to_make_up` |
//! | 20 | periods that drift | `peers/demand::a_rate_keeps_to_its_schedule_however_long_its_runs_take_and_a_delay_counts_from_their_end` |
//! | 21 | one tick more on exact multiples | `regressions::a_deadline_on_a_tick_stays_on_it_at_any_phase_of_the_engines_start` |
//! | 22 | one slot a poll | `regressions::one_turn_catches_up_with_all_ticks_that_were_missed` |
//! | 23 | a slow or hung task | `promises/executors::a_slow_task_does_not_hold_up_later_timeouts_on_the_default_pool`, `peers/demand::a_task_that_keeps_its_worker_is_reported_while_it_does` |
//! | 24 | callbacks that take locks | `regressions::a_cancel_never_waits_for_a_task`, `promises/outcomes::a_closure_may_use_the_engine_while_a_cancel_drops_it` |
//! | 25 | wheels of blocked workers | `promises/executors::a_task_may_block_for_long_without_holding_up_the_worker` |
//! | 26 | races of cancel, insert, expire | `loom-tests/src/models/state::exactly_one_of_expiry_and_two_cancels_wins`, `loom-tests/src/models/cancelled::a_cancel_races_with_the_expiry_of_its_slot`, `threads::a_cancel_that_races_the_expiry_wins_or_the_task_runs_but_never_both` |
//! | 27 | a worker that dies | `promises/panics::a_panic_never_ends_a_worker_nor_a_pool_thread_even_if_the_hook_panics_too`, `peers/demand::a_worker_whose_clock_panics_is_reported_and_goes_on_when_it_can` |
//! | 28 | ways to shut down | `peers/demand::every_way_to_shut_down_accounts_for_every_timeout`, `peers/demand::every_way_to_schedule_is_refused_after_a_shutdown_and_gives_the_task_back`, `peers/demand::a_periodic_timeout_that_races_a_shutdown_ends_and_is_accounted_for`, `peers/demand::a_shutdown_accounts_for_a_periodic_timeout_that_is_reset_while_its_run_waits` |
//! | 29 | bursts | `regressions::a_burst_of_550_000_fires_exactly_once_within_its_budget` |
//! | 30 | too many timers | `peers/demand::the_global_engine_is_the_same_for_all_threads_and_keeps_no_process_from_ending`, `promises/threads::threads_start_with_the_first_timeout_and_have_names` |
//! | 31 | ticking while idle | `idle::an_engine_whose_only_timeout_is_an_hour_away_sleeps` |
//! | 32 | idle reapers that spin | `idle::an_empty_engine_sleeps` |
//! | 33 | two wake-ups for a timeout | `idle::resets_cancels_and_later_timeouts_do_not_wake_the_worker` |
//! | 34 | less than a millisecond | `peers/demand::a_tick_of_fifty_microseconds_is_kept_to_the_nanosecond` |
//! | 35 | timer slack | `promises/threads::workers_have_the_smallest_timer_slack_and_the_shortest_slices_if_they_can_be_chosen` |
//! | 36 | tolerance | `promises/finer::timeouts_of_one_tick_share_a_wake_up` |
//! | 37 | ways to wait | `promises/builder::every_wait_strategy_works`, `threads::nothing_is_early_lost_or_twice_however_the_workers_wait` |
//! | 38 | what a poll costs | `allocations::in_the_steady_state_timeouts_do_not_allocate`; the time is for `benches` to measure |
//! | 39 | a wheel of the wrong size | `peers/demand::a_wheel_that_is_too_small_for_its_timeouts_moves_each_only_from_level_to_level` |
//! | 40 | arm and disarm | `regressions::timeouts_registered_and_cancelled_in_bulk_leave_nothing_behind`; the time is for `benches` to measure |
//! | 41 | one sleeper for all shards | `idle::a_shard_sleeps_while_another_works`, `regressions::an_earlier_timeout_moves_the_next_wake_up_forward` |
//! | 42 | a reset for each packet | `regressions::a_reset_to_later_leaves_the_wheel_alone_until_the_old_deadline_comes` |
//! | 43 | a handle that can be moved | `promises/outcomes::a_timeout_reset_to_earlier_fires_at_its_new_deadline_only` |
//! | 44 | a cancel that is one exchange | `threads::of_many_cancels_of_one_timeout_exactly_one_wins` |
//! | 45 | what can be seen | `peers/demand::the_shards_counters_add_up_to_the_engines_and_lateness_is_what_the_clock_says` |
//! | 46 | a clock for tests | `simulation::timeouts_without_delay_from_tasks_have_run_when_advance_returns`, `peers/demand::a_clock_steps_from_timeout_to_timeout_and_says_when_there_is_none` |
//! | 47 | no timer given to hyper | `integrations/tests/hyper::a_connection_that_sends_half_a_header_is_closed` |
//! | 48 | hyper's reset and now | `integrations/tests/hyper::a_reset_moves_our_sleep_where_it_is_and_replaces_any_other`, `integrations/tests/hyper::half_a_header_is_given_its_time_to_the_last_nanosecond_of_the_engines_clock` |
//! | 49 | futures without a runtime | `futures/sleeps::a_sleep_is_ready_when_its_time_has_come_and_not_before` |
//! | 50 | a sleep that is not Unpin | `futures/sleeps::a_sleep_can_be_moved_shared_shown_and_polled_where_it_lies` |
//! | 51 | a stale firing after a reset | `promises/outcomes::a_timeout_reset_to_later_does_not_fire_before_its_new_deadline`, `loom-tests/src/models/cancelled::a_timeout_does_not_fire_before_the_deadline_that_a_reset_gave_it` |
//! | 52 | a stale handle | `regressions::an_old_handle_never_touches_the_timeout_that_took_its_place` |
//! | 53 | fork | `peers/demand::a_forked_child_gets_its_task_back_and_does_not_hang_and_its_parent_goes_on` |
//! | 54 | pinning that fails in silence | `promises/threads::a_worker_runs_on_the_core_that_it_was_given_and_stats_say_which`, `promises/builder::a_core_outside_of_the_cpuset_is_refused_with_those_inside` |
//! | 55 | timeouts that shrink under load | none: no such factor is offered |
//! | 56 | heartbeats | `peers/demand::connections_that_arm_again_at_each_heartbeat_leave_no_orphans` |

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use testkit::again;
use tourbillon::{
    Driver, Expired, Inline, ManualClock, MissedTicks, ScheduleError, ShardStats, Shutdown, Timeout, Timer, Unfired,
    WorkerState,
};

use crate::common::{
    Counter, DAY, HOUR, MS, Random, Runs, assert_counters_reconcile, built, driven, driven_by, eventually, fire_one,
    on_workers, settle,
};

const NS: Duration = Duration::from_nanos(1);

/// Moves the clock to the time at which the engine asks to be turned, and turns it.
fn turn_at_next_wakeup(driver: &mut Driver, clock: &ManualClock) {
    let at = driver.next_wakeup().expect("something is pending");
    clock.advance(at.saturating_duration_since(clock.now()));
    driver.turn();
}

/// 7, 56: apache/hertzbeat#4201, OpenTSDB/asynchbase#142: millions of orphans.
#[test]
fn connections_that_arm_again_at_each_heartbeat_leave_no_orphans() {
    const CONNECTIONS: usize = 1_000;
    let (timer, mut driver, clock) = driven();
    let mut random = Random::new(7);
    let mut guards = HashMap::new();
    let resets: Vec<_> = (0..CONNECTIONS).map(|_| timer.schedule(30_000 * MS, || ()).expect("accepted")).collect();
    for _ in 0..50 {
        for (connection, reset) in resets.iter().enumerate() {
            // Half of the connections move their one timeout, the others put a new guard in the old
            // one's place.
            let new = timer.schedule(30_000 * MS, || ()).expect("accepted").cancel_on_drop();
            drop(guards.insert(connection, new));
            assert!(reset.reset(30_000 * MS));
        }
        clock.advance(random.duration(20_000 * MS));
        assert_eq!((settle(&mut driver, &clock), timer.pending()), (0, 2 * CONNECTIONS));
    }
    assert_eq!(timer.stats().shards[0].linked, 2 * CONNECTIONS as u64);
    drop(guards);
    assert_eq!(timer.pending(), CONNECTIONS);
    clock.advance(30_001 * MS);
    assert_eq!((settle(&mut driver, &clock), timer.pending()), (CONNECTIONS, 0));
    assert_counters_reconcile(&timer.stats());
}

/// 18: tokio-rs/tokio#3185, golang/go#24595.
#[test]
fn a_clock_that_counts_a_suspend_fires_timeouts_that_became_due_in_it() {
    /// A clock that goes on during a suspend. A process sees it jump.
    struct Boottime(Instant, Arc<Mutex<Duration>>);
    impl tourbillon::Clock for Boottime {
        fn now(&self) -> Instant {
            self.0 + *self.1.lock().expect("no panic")
        }
    }
    let since_boot: Arc<Mutex<Duration>> = Arc::default();
    let clock = Boottime(Instant::now(), Arc::clone(&since_boot));
    let (timer, mut driver) = Timer::builder().clock(clock).build_driven().expect("the options make sense");
    let [in_sleep, after] = [HOUR, 9 * HOUR].map(|delay| timer.schedule(delay, || ()).expect("accepted"));
    assert!(driver.next_wakeup().is_some() && driver.turn() == 0);
    *since_boot.lock().expect("no panic") += 8 * HOUR;
    assert_eq!(driver.turn(), 1);
    assert!(in_sleep.is_expired() && after.is_pending());
    let soon = timer.schedule(MS, || ()).expect("accepted");
    *since_boot.lock().expect("no panic") += MS;
    assert_eq!(driver.turn(), 1, "delays are counted from the time after the jump");
    assert!(soon.is_expired() && after.is_pending());
}

/// 34: tokio-rs/tokio#5021, commonwarexyz/monorepo#4365.
#[test]
fn a_tick_of_fifty_microseconds_is_kept_to_the_nanosecond() {
    const TICK: Duration = Duration::from_micros(50);
    let (timer, mut driver, clock) = driven_by(Timer::builder().tick_duration(TICK));
    let start = clock.now();
    let mut deadlines: Vec<_> = (0..200_u64).map(|n| Duration::from_nanos(1 + n * n * 7_919)).collect();
    let timeouts: Vec<_> = deadlines.iter().map(|&delay| timer.schedule(delay, || ()).expect("accepted")).collect();
    for deadline in &mut deadlines {
        // It has 2 parts, of 25 us each.
        let parts = (2 * deadline.as_nanos()).div_ceil(TICK.as_nanos());
        *deadline = Duration::from_nanos(u64::try_from(parts * TICK.as_nanos()).expect("not so many").div_ceil(2));
    }
    for (timeout, deadline) in timeouts.iter().zip(deadlines) {
        clock.advance((start + deadline - clock.now()).saturating_sub(Duration::from_nanos(1)));
        settle(&mut driver, &clock);
        assert!(clock.now() >= start + deadline || timeout.is_pending(), "early: {deadline:?}");
        clock.advance(start + deadline - clock.now());
        settle(&mut driver, &clock);
        assert!(timeout.is_expired(), "late: {deadline:?}");
    }
}

/// 39: typelevel/cats-effect#1731, netty/netty#1115: those needed a wheel of 32,768 ticks.
#[test]
fn a_wheel_that_is_too_small_for_its_timeouts_moves_each_only_from_level_to_level() {
    const TIMEOUTS: u64 = 5_000;
    let (timer, mut driver, clock) = driven_by(Timer::builder().ticks_per_wheel(8));
    let start = clock.now();
    for n in 0..TIMEOUTS {
        timer.schedule_detached(Duration::from_millis(300_000 + n % 500), || ()).expect("accepted");
    }
    while let Some(at) = driver.next_wakeup() {
        clock.advance(at.saturating_duration_since(clock.now()));
        driver.turn();
    }
    let stats = timer.stats();
    assert_eq!((stats.fired, clock.now() - start), (TIMEOUTS, Duration::from_millis(300_499)));
    // 300,000 ticks are below 8^7: seven levels, so six moves at most.
    assert!(stats.cascaded <= 6 * TIMEOUTS && stats.relinked == 0, "{} moves", stats.cascaded);
    assert!(stats.turns < 1_500, "{} turns for 500 ticks with something due", stats.turns);
}

/// 19: akka/akka-core#26910, foundry-rs/foundry#8221: a burst of ticks after a pause.
#[test]
fn after_a_standstill_a_rate_runs_once_unless_it_was_told_to_make_up() {
    assert_eq!(MissedTicks::default(), MissedTicks::Skip);
    let cases = [(MissedTicks::Skip, 1, 1_010), (MissedTicks::Delay, 1, 1_015), (MissedTicks::Burst, 100, 1_010)];
    for (missed, in_the_jump, next) in cases {
        let (timer, clock) = on_workers(Timer::builder());
        let counter = Counter::default();
        let periodic = timer.schedule_at_fixed_rate_with(10 * MS, 10 * MS, missed, counter.task()).expect("accepted");
        clock.advance(1_005 * MS);
        assert_eq!(counter.get(), in_the_jump, "{missed:?}");
        clock.advance((next - 1_005) * MS - NS);
        assert_eq!(counter.get(), in_the_jump, "{missed:?}: early");
        clock.advance(NS);
        assert_eq!(counter.get(), in_the_jump + 1, "{missed:?}: late");
        assert!(periodic.is_pending());
    }
}

/// 20: slawlor/ractor#57, tokio-rs/tokio#6029: a period that begins when the work has ended.
#[test]
fn a_rate_keeps_to_its_schedule_however_long_its_runs_take_and_a_delay_counts_from_their_end() {
    for keeps_rate in [true, false] {
        let (timer, mut driver, clock) = driven();
        let (start, began) = (clock.now(), Arc::<Mutex<Vec<Duration>>>::default());
        let (works, seen) = (clock.clone(), Arc::clone(&began));
        let task = move || {
            seen.lock().expect("no panic").push(works.now() - start);
            works.advance(3 * MS);
        };
        let periodic = match keeps_rate {
            true => timer.schedule_at_fixed_rate(10 * MS, 10 * MS, task),
            false => timer.schedule_with_fixed_delay(10 * MS, 10 * MS, task),
        };
        let periodic = periodic.expect("accepted");
        while began.lock().expect("no panic").len() < 50 {
            turn_at_next_wakeup(&mut driver, &clock);
        }
        let step = if keeps_rate { 10 * MS } else { 13 * MS };
        let expected: Vec<_> = (0..50).map(|run| 10 * MS + run * step).collect();
        assert_eq!(*began.lock().expect("no panic"), expected);
        assert!(periodic.cancel());
    }
}

/// 28: netty/netty#14081, redisson/redisson#2304: no report of the outcome of a timeout after a
/// stop.
#[test]
fn every_way_to_shut_down_accounts_for_every_timeout() {
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(50 * MS)] {
        let (timer, clock) = on_workers(Timer::builder());
        let runs = Runs::new(40);
        for (ids, delay) in [(0..10, MS), (10..20, 20 * MS), (20..40, HOUR)] {
            drop(timer.schedule_many(delay, ids.map(|id| runs.task(id))).expect("accepted"));
        }
        clock.advance(MS);
        let clone = timer.clone();
        let call = thread::spawn(move || clone.shutdown_with(how).expect("the first"));
        eventually("it begins", || timer.is_shutdown());
        eventually("it ends", || {
            // Only a drain waits for time to pass.
            if matches!(how, Shutdown::Drain(_)) {
                clock.advance(10 * MS);
            }
            call.is_finished()
        });
        let left = call.join().expect("no panic");
        let (ran, returned) = match how {
            Shutdown::Cancel => (10, 30),
            Shutdown::FireNow => (40, 0),
            _ => (20, 20),
        };
        assert_eq!((runs.total(), left.len(), timer.pending()), (ran, returned, 0), "{how:?}");
        assert_counters_reconcile(&timer.stats());
        left.into_iter().for_each(Unfired::run);
        runs.assert_each_ran_once();
    }
}

/// 28: netty/netty#366, akka/akka-core#22127.
#[test]
fn every_way_to_schedule_is_refused_after_a_shutdown_and_gives_the_task_back() {
    fn gives_back<F>(refused: Result<Timeout, ScheduleError<F>>) -> F {
        match refused {
            Err(error) if error.is_shutdown() => error.into_inner(),
            other => panic!("{other:?}"),
        }
    }
    let (timer, _driver, clock) = driven();
    assert!(timer.shutdown().expect("the first").is_empty());
    let counter = Counter::default();
    gives_back(timer.schedule_at_fixed_rate(MS, MS, counter.task()))();
    gives_back(timer.schedule_at_fixed_rate_with(MS, MS, MissedTicks::Burst, counter.task()))();
    gives_back(timer.schedule_with_fixed_delay(MS, MS, counter.task()))();
    gives_back(timer.shard_for("a key").schedule(MS, counter.task()))();
    let (answers, counted) = (Duration::from_secs(7), counter.clone());
    let repeating = timer.schedule_repeating(MS, move || {
        counted.task()();
        Some(answers)
    });
    assert_eq!(gives_back(repeating)(), Some(answers));
    clock.advance(HOUR);
    assert_eq!((counter.get(), timer.pending(), timer.stats().scheduled), (5, 0, 0));
}

/// 28, 20: a run that is under way when the engine is shut down has no successor.
#[test]
fn a_periodic_timeout_that_races_a_shutdown_ends_and_is_accounted_for() {
    for round in 0..100 {
        let timer = Timer::builder().tick_duration(Duration::from_micros(50)).build().expect("the options make sense");
        let counter = Counter::default();
        let mut periodic: Vec<_> = (0..10)
            .map(|_| timer.schedule_at_fixed_rate(Duration::ZERO, Duration::from_micros(50), counter.task()))
            .collect();
        eventually("they run", || counter.get() >= round % 20);
        let left = timer.shutdown().expect("the first");
        let (ran, returned) = (counter.get(), left.len());
        assert!(periodic.drain(..).all(|periodic| !periodic.expect("accepted").is_pending()), "round {round}");
        drop(left);
        thread::sleep(MS);
        assert_eq!(counter.get(), ran, "round {round}: it went on");
        let stats = timer.stats();
        assert_eq!((stats.pending, stats.scheduled), (0, 10), "round {round}");
        assert!(returned <= 10, "round {round}: {returned} returned");
        assert_counters_reconcile(&stats);
    }
}

/// 30: netty/netty#6225, redisson/redisson#239: too many timers, and threads that keep a process
/// from ending.
#[test]
fn the_global_engine_is_the_same_for_all_threads_and_keeps_no_process_from_ending() {
    const CHILD: &str = "TOURBILLON_PEERS_CHILD";
    let there = thread::spawn(Timer::global).join().expect("no panic");
    assert!(std::ptr::eq(there, Timer::global()));
    let soon = Timer::global().schedule(MS, || ()).expect("accepted");
    eventually("it fires", || soon.is_expired());
    if std::env::var_os(CHILD).is_some() {
        // A task that runs for ever, and a timeout of an hour: the child ends all the same.
        Timer::global().schedule_detached(HOUR, || ()).expect("accepted");
        return Timer::global().schedule_detached(MS, || thread::sleep(HOUR)).expect("accepted");
    }
    let name = "demand::the_global_engine_is_the_same_for_all_threads_and_keeps_no_process_from_ending";
    let child = again::test(name).env(CHILD, "1").stdout(Stdio::null()).spawn();
    let mut child = child.expect("there is room for a process");
    eventually("the child ends", || child.try_wait().expect("it is ours").is_some());
    assert!(child.wait().expect("it is ours").success());
}

/// 45: netty/netty#6681, golang/go#75956: counters and lateness, for each shard.
#[test]
fn the_shards_counters_add_up_to_the_engines_and_lateness_is_what_the_clock_says() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().shards(2).max_pending_timeouts(100));
    let schedule = |key: u32| timer.shard_for(&key).schedule(5 * MS, || ());
    let timeouts: Vec<_> = (0..100).map(|key| schedule(key).expect("there is room")).collect();
    assert!((100..110).all(|key| schedule(key).is_err()));
    assert!(timeouts[..10].iter().all(Timeout::cancel));
    assert!(timeouts[10..30].iter().all(|timeout| timeout.reset(8 * MS)));
    clock.advance(25 * MS);
    assert_eq!(settle(&mut driver, &clock), 90);
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.cancelled), (100, 90, 10));
    assert_eq!((stats.reset, stats.rejected, stats.pending), (20, 10, 0));
    let sum = |of: fn(&ShardStats) -> u64| stats.shards.iter().map(of).sum::<u64>();
    assert_eq!([sum(|shard| shard.scheduled), sum(|shard| shard.fired)], [stats.scheduled, stats.fired]);
    assert_eq!([sum(|shard| shard.cancelled), sum(|shard| shard.reset)], [stats.cancelled, stats.reset]);
    assert_eq!([sum(|shard| shard.rejected), sum(|shard| shard.lateness.count())], [stats.rejected, 90]);
    assert!(stats.shards.iter().all(|shard| shard.scheduled > 0), "both have had their part");
    assert_eq!((stats.lateness.count(), stats.lateness.max()), (90, 20 * MS));
    // Twenty of ninety were due at 8 ms, the others at 5 ms. A value is exact to a sixteenth.
    let about = |said: Duration, exact: Duration| said >= exact && said <= exact * 17 / 16;
    assert!(about(stats.lateness.percentile(10.0), 17 * MS), "{:?}", stats.lateness.percentile(10.0));
    assert!(about(stats.lateness.percentile(50.0), 20 * MS), "{:?}", stats.lateness.percentile(50.0));
}

/// 46: tokio-rs/tokio#3883, #3289: a step to the next timer, with any number of threads.
#[test]
fn a_clock_steps_from_timeout_to_timeout_and_says_when_there_is_none() {
    let (timer, clock) = on_workers(Timer::builder().shards(2));
    let (start, runs) = (clock.now(), Runs::new(6));
    let delays = [MS, 7 * MS, 700 * MS, HOUR, 400 * DAY, 4_000 * DAY];
    for (id, delay) in delays.into_iter().enumerate().rev() {
        drop(timer.shard_for(&id).schedule(delay, runs.task(id)).expect("accepted"));
    }
    for (id, delay) in delays.into_iter().enumerate() {
        assert!(clock.advance_to_next(&timer));
        assert_eq!((clock.now() - start, runs.total(), runs.of(id)), (delay, id + 1, 1));
    }
    assert!(!clock.advance_to_next(&timer), "nothing is pending");
    assert_eq!(clock.now() - start, 4_000 * DAY, "so it stands still");
}

/// 53: tokio-rs/tokio#4301, pantsbuild/pants#6950: a forked child does not have its parent's
/// threads.
#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_gets_its_task_back_and_does_not_hang_and_its_parent_goes_on() {
    let timer = Timer::new().expect("the defaults make sense");
    let before = timer.schedule(20 * MS, || ()).expect("accepted");
    // SAFETY: the child only calls the engine and `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: `alarm` only sets a timer of the child's, so that the child does not outlive the
        // test if it hangs.
        unsafe { libc::alarm(20) };
        let refused = timer.schedule(MS, || ()).is_err_and(|error| error.kind() == tourbillon::Refusal::Forked);
        let not_shut_down = timer.shutdown().err() == Some(tourbillon::ShutdownError::Forked);
        // SAFETY: `_exit` ends the child without running any code of the parent's.
        unsafe { libc::_exit(i32::from(!(refused && not_shut_down))) };
    }
    assert!(child > 0, "there is room for a process");
    let mut status = -1;
    // SAFETY: `child` is this process's own child, and `status` is valid for the write.
    eventually("the child ends", || unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child);
    assert_eq!(status, 0, "refused, and not shut down");
    eventually("the parent's fires", || before.is_expired());
    assert!(timer.shutdown().is_ok());
}

/// 23: netty/netty#10099, AsyncHttpClient/async-http-client#2313: a hung task that nothing reports.
#[test]
fn a_task_that_keeps_its_worker_is_reported_while_it_does() {
    let timer = Timer::builder().executor(Inline).shards(1).build().expect("sensible");
    let stuck = || timer.health().shards[0].stuck_task;
    let (release, released) = channel::<()>();
    timer.schedule_detached(MS, move || assert!(released.recv().is_err())).expect("accepted");
    eventually("it is reported", || stuck().is_some_and(|since| since >= Duration::from_secs(1)));
    assert!(!timer.health().is_healthy());
    drop(release);
    eventually("all is well again", || timer.health().is_healthy() && stuck().is_none());
}

/// 27: Yoric/timer.rs#19: the worker has died, and each schedule panics.
#[test]
fn a_worker_whose_clock_panics_is_reported_and_goes_on_when_it_can() {
    struct Broken(Arc<AtomicBool>);
    impl tourbillon::Clock for Broken {
        fn now(&self) -> Instant {
            let is_worker = thread::current().name().is_some_and(|name| name == "broken-0");
            assert!(!(is_worker && self.0.load(Ordering::Relaxed)), "on purpose");
            Instant::now()
        }
    }
    let is_broken = Arc::new(AtomicBool::new(false));
    let timer = built(Timer::builder().clock(Broken(Arc::clone(&is_broken))).thread_name("broken").shards(1));
    fire_one(&timer, MS);
    is_broken.store(true, Ordering::Relaxed);
    let later = timer.schedule(MS, || ()).expect("a schedule is no matter of the worker's");
    eventually("it is reported", || timer.health().shards[0].worker == WorkerState::Panicking);
    assert!(!timer.health().is_healthy() && timer.stats().panicked_turns > 0 && later.is_pending());
    is_broken.store(false, Ordering::Relaxed);
    eventually("it goes on", || later.is_expired());
    eventually("it is well again, though it has nothing to do", || timer.health().is_healthy());
    assert!(timer.shutdown().expect("the worker is there").is_empty());
}

/// 28: a run that waits in an executor, and is moved, when the engine is shut down.
#[test]
fn a_shutdown_accounts_for_a_periodic_timeout_that_is_reset_while_its_run_waits() {
    let (keep, kept) = channel::<Expired>();
    let (timer, clock) = on_workers(Timer::builder().executor(move |batch| keep.send(batch).expect("it is there")));
    let counter = Counter::default();
    let periodic = timer.schedule_at_fixed_rate(MS, MS, counter.task()).expect("accepted");
    clock.advance(MS);
    let waiting = kept.recv().expect("it has expired");
    assert!(periodic.reset(HOUR) && periodic.is_pending());
    let left = timer.shutdown().expect("the first");
    waiting.run();
    assert!(counter.get() == 0 && !periodic.is_pending());
    let stats = timer.stats();
    // Its executor ran it after the shutdown had answered. It was dropped, and counted as returned.
    assert_eq!((stats.returned, left.len()), (1, 0));
    assert!(periodic.is_cancelled());
    assert_counters_reconcile(&stats);
}
