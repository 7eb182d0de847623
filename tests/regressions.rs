//! Bugs of other timers, each as a test that would have found it. The issues say where it happened.

mod common;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tourbillon::{Timeout, Timer};

use common::{DAY, Drops, HOUR, MS, Runs, assert_counters_reconcile, driven, driven_by, settle};

const NS: Duration = Duration::from_nanos(1);

/// Schedules one timeout, and checks that it fires exactly at `fires` after now: not 1 ns before,
/// and then at once.
fn assert_fires_at(builder: tourbillon::Builder, delay: Duration, fires: Duration) {
    let (timer, mut driver, clock) = driven_by(builder);
    let timeout = timer.schedule(delay, || ()).expect("accepted");
    driver.turn();
    clock.advance(fires - NS);
    assert_eq!(settle(&mut driver, &clock), 0, "{delay:?}: early");
    clock.advance(NS);
    assert_eq!(settle(&mut driver, &clock), 1, "{delay:?}: late");
    assert!(timeout.is_expired());
}

/// Wheels of one level and of several, small enough that delays of some ticks go around.
fn wheels() -> impl Iterator<Item = (usize, usize)> {
    [1, 2, 3].into_iter().flat_map(|levels| [2, 4, 8, 32].map(|slots| (levels, slots)))
}

fn wheel(levels: usize, slots: usize) -> tourbillon::Builder {
    Timer::builder().levels(levels).ticks_per_wheel(slots)
}

// 1: akka/akka-core#1016.
#[test]
fn a_delay_of_an_exact_multiple_of_the_wheels_period_fires_on_time() {
    for (levels, slots) in wheels() {
        let period = MS * u32::try_from(slots.pow(u32::try_from(levels).expect("few"))).expect("small");
        for multiple in [1, 2, 3, 10] {
            for delay in [period * multiple - MS, period * multiple, period * multiple + MS] {
                assert_fires_at(wheel(levels, slots), delay, delay);
            }
        }
    }
}

// 2: twitter/rpc-perf#180; netty/netty#1959 (B13): one round early, or one round late.
#[test]
fn a_delay_longer_than_the_wheel_fires_neither_a_round_early_nor_a_round_late() {
    for (levels, slots) in wheels() {
        for delay in [33, 100, 1_000, 12_345, 1_000_000] {
            assert_fires_at(wheel(levels, slots), delay * MS, delay * MS);
        }
    }
}

// 3: aeron-io/agrona#73, mozilla/neqo#886, sozu-proxy/sozu#1354 (B14: 60 s that ended after 59.901
// s).
#[test]
fn a_delay_that_is_no_multiple_of_the_tick_is_rounded_up_to_a_part_of_it() {
    for tick in [3 * MS, 7 * MS, 100 * MS, 128 * MS] {
        for delay in [MS, 5 * MS, 59_901 * MS, Duration::from_secs(60), HOUR + NS] {
            let parts = (16 * delay.as_nanos()).div_ceil(tick.as_nanos());
            let fires_ns = u64::try_from((parts * tick.as_nanos()).div_ceil(16)).expect("not so many");
            assert_fires_at(Timer::builder().tick_duration(tick), delay, Duration::from_nanos(fires_ns));
        }
    }
}

// 4: tokio-rs/tokio#8252 (B3): cancelled while in the registration queue, and inserted all the
// same, for two years.
#[test]
fn a_timeout_that_is_cancelled_before_it_is_inserted_is_not_inserted() {
    let (timer, mut driver, _clock) = driven();
    for round in 1..=100 {
        let timeout = timer.schedule(600 * DAY, || ()).expect("accepted");
        assert!(timeout.cancel());
        driver.turn();
        let stats = timer.stats();
        assert_eq!((stats.shards[0].linked, stats.pending, stats.cancelled), (0, 0, round));
    }
    assert_eq!(driver.next_wakeup(), None, "nothing is left to wake up for");
    assert!(timer.stats().capacity <= 128, "the entry is used again");
}

// 5: netty/netty#14959 (B9): the counter went down twice.
#[test]
fn a_cancel_within_the_tick_that_it_would_fire_in_is_counted_once() {
    let (timer, mut driver, clock) = driven();
    let timeouts: Vec<_> = (0..10).map(|_| timer.schedule(MS, || ()).expect("accepted")).collect();
    let other = timer.schedule(HOUR, || ()).expect("accepted");
    driver.turn();
    clock.advance(MS + MS / 2);
    assert!(timeouts.iter().all(Timeout::cancel));
    for _ in 0..3 {
        assert_eq!((driver.turn(), timer.pending()), (0, 1));
        clock.advance(MS);
    }
    assert!(other.is_pending());
    assert_counters_reconcile(&timer.stats());
}

// 6: netty/netty#14081, #366 (B28): stop returned timeouts without cancelling them, and went on
// accepting.
#[test]
fn a_shutdown_cancels_what_it_returns_and_nothing_is_accepted_after_it() {
    let (timer, mut driver, clock) = driven();
    let timeouts = timer.schedule_many(MS, (0..5).map(|_| || panic!("it was returned"))).expect("accepted");
    let left = timer.shutdown().expect("the first");
    assert!(timeouts.iter().all(|timeout| timeout.is_cancelled() && !timeout.cancel()));
    assert!(timer.schedule(Duration::ZERO, || ()).is_err());
    clock.advance(HOUR);
    assert_eq!((left.len(), settle(&mut driver, &clock), timer.pending()), (5, 0, 0));
    assert_eq!(timer.stats().panicked, 0);
}

// 7: netty/netty#12888, #13018 (B15): the code took a slot to be sorted by rounds, and never
// reached its end.
#[test]
fn timeouts_of_many_rounds_in_one_slot_fire_each_in_its_own_whatever_their_order() {
    for levels in [1, 2] {
        let (timer, mut driver, clock) = driven_by(wheel(levels, 8));
        let rounds = [5_u32, 0, 9, 1, 1, 30, 3, 2, 0, 17];
        for round in rounds {
            timer.schedule_detached((8 * round + 3) * MS, || ()).expect("accepted");
            driver.turn();
        }
        clock.advance(3 * MS);
        for round in 0..40 {
            let due = rounds.iter().filter(|&&of| of == round).count();
            assert_eq!(settle(&mut driver, &clock), due, "round {round}");
            clock.advance(8 * MS);
        }
    }
}

// 8: netty/netty#1959, akka/akka-core#20424 (B11), tokio-rs/tokio#8334 (B12): counters that
// wrapped, after days.
#[test]
fn short_delays_are_exact_however_long_the_engine_has_run_and_beside_a_very_long_one() {
    let (timer, mut driver, clock) = driven();
    let very_long = timer.schedule(Duration::MAX, || ()).expect("accepted");
    let long = timer.schedule(100 * 365 * DAY, || ()).expect("accepted");
    driver.turn();
    let start = clock.now();
    for bits in [20, 24, 29, 30, 31, 32, 33, 36, 40] {
        // From just before the number of ticks reaches 2^bits to just after it.
        let before = Duration::from_millis((1 << bits) - 5);
        clock.advance(start + before - clock.now());
        settle(&mut driver, &clock);
        for delay in 1..20_u32 {
            let timeout = timer.schedule(delay * MS, || ()).expect("accepted");
            clock.advance(delay * MS - NS);
            assert_eq!(settle(&mut driver, &clock), 0, "2^{bits} ticks, {delay} ms");
            clock.advance(NS);
            assert_eq!(settle(&mut driver, &clock), 1, "2^{bits} ticks, {delay} ms");
            assert!(timeout.is_expired());
        }
    }
    assert!(long.is_pending() && very_long.is_pending());
}

// 9: netty/netty#5647 (B5): out of memory, as there was no limit. 10: netty/netty#6028: room only
// after the task.
#[test]
fn a_limit_refuses_and_a_task_finds_the_room_that_it_leaves() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().max_pending_timeouts(1));
    let answer: Arc<Mutex<Option<bool>>> = Arc::default();
    let (own, to) = (timer.clone(), Arc::clone(&answer));
    let task = move || {
        let pending = own.pending();
        let room = own.schedule_detached(MS, || ()).is_ok();
        *to.lock().expect("no panic") = Some(pending == 0 && room);
    };
    timer.schedule_detached(MS, task).expect("there is room");
    assert!(timer.schedule_detached(MS, || ()).is_err());
    clock.advance(MS);
    driver.turn();
    assert_eq!(*answer.lock().expect("no panic"), Some(true));
}

// 11: folly's TestSchedulingWithinCallback, Caffeine's fuzzer, netty/netty#2651 (B26): re-entrancy.
#[test]
fn tasks_may_schedule_reset_and_cancel_during_an_expiry() {
    fn chain(timer: Timer, runs: Runs, id: usize, delay: Duration) {
        runs.task(id)();
        if id + 1 < 100 {
            let next = timer.clone();
            timer.schedule_detached(delay, move || chain(next, runs, id + 1, delay)).expect("accepted");
        }
    }
    let (timer, mut driver, clock) = driven();
    let (fast, slow) = (Runs::new(100), Runs::new(100));
    let (one, two) = ((timer.clone(), fast.clone()), (timer.clone(), slow.clone()));
    timer.schedule_detached(Duration::ZERO, move || chain(one.0, one.1, 0, Duration::ZERO)).expect("accepted");
    timer.schedule_detached(MS, move || chain(two.0, two.1, 0, MS)).expect("accepted");
    let (victim, pushed_out) = (timer.schedule(2 * MS, || ()).expect("ok"), timer.schedule(2 * MS, || ()).expect("ok"));
    let resets = move || assert!(victim.cancel() && pushed_out.reset(HOUR));
    timer.schedule_detached(MS, resets).expect("accepted");
    assert_eq!(settle(&mut driver, &clock), 100, "without delay: all at once, and it comes to an end");
    for tick in 1..=100 {
        clock.advance(MS);
        settle(&mut driver, &clock);
        assert_eq!(slow.total(), tick);
    }
    fast.assert_each_ran_once();
    slow.assert_each_ran_once();
    assert_eq!(timer.stats().panicked, 0);
    assert_eq!(timer.pending(), 1, "the one that was pushed out");
}

// 12: Agrona's shouldCopeWithExceptionFromHandler, Caffeine's advance_exception, Yoric/timer.rs#19
// (B27).
#[test]
fn a_panic_leaves_the_wheel_whole() {
    let (timer, mut driver, clock) = driven_by(wheel(2, 4));
    for ticks in 1..=50_u32 {
        timer.schedule_detached(ticks * MS, || panic!("on purpose")).expect("accepted");
        timer.schedule_detached(ticks * MS, || ()).expect("accepted");
    }
    for ticks in 1..=50 {
        clock.advance(MS);
        assert_eq!(settle(&mut driver, &clock), 2, "tick {ticks}");
    }
    assert_eq!((timer.stats().panicked, timer.pending()), (50, 0));
}

// 13: tokio's and Caffeine's: a clock that goes backwards, and one that jumps far.
#[test]
fn a_clock_that_goes_backwards_delays_at_worst_and_breaks_nothing() {
    struct Unsteady(Arc<Mutex<Instant>>);
    impl tourbillon::Clock for Unsteady {
        fn now(&self) -> Instant {
            *self.0.lock().expect("no panic")
        }
    }
    let start = Instant::now();
    let now = Arc::new(Mutex::new(start));
    let (timer, mut driver) = Timer::builder().clock(Unsteady(Arc::clone(&now))).build_driven().expect("sensible");
    let set = |ms: u64| *now.lock().expect("no panic") = start + Duration::from_millis(ms);
    let runs = Runs::new(3);
    timer.schedule_detached(1000 * MS, runs.task(0)).expect("accepted");
    set(900);
    assert_eq!(driver.turn(), 0);
    set(100);
    assert_eq!(driver.turn(), 0);
    timer.schedule_detached(50 * MS, runs.task(1)).expect("accepted");
    set(1000);
    assert_eq!(driver.turn(), 2);
    set(0);
    timer.schedule_detached(HOUR, runs.task(2)).expect("accepted");
    assert_eq!(driver.turn(), 0);
    set(3_600_000);
    assert_eq!(driver.turn(), 1);
    runs.assert_each_ran_once();
}

// 14: netty/netty#7760, #1953, tokio-rs/tokio#2271 and many more (B10, B16): Long.MAX fired at
// once, -1 after 10 s.
#[test]
fn no_delay_past_deadlines_and_forever_keep_their_meaning() {
    let (timer, mut driver, clock) = driven();
    clock.advance(10 * MS);
    let now = clock.now();
    timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
    drop(timer.schedule_at(now - 10 * MS, || ()).expect("accepted"));
    drop(timer.schedule_at(now - HOUR, || ()).expect("accepted"));
    let forever = [Duration::MAX, Duration::MAX - NS, Duration::from_millis(u64::MAX), Duration::from_nanos(u64::MAX)];
    let forever = forever.map(|delay| timer.schedule(delay, || ()).expect("accepted"));
    assert_eq!(settle(&mut driver, &clock), 3);
    clock.advance(250 * 365 * DAY);
    assert_eq!(settle(&mut driver, &clock), 0);
    assert!(forever.iter().all(Timeout::is_pending));
}

// netty/netty#2541, grpc/grpc-java#1307 (B1, B4): cancelled timeouts kept their closures until they
// were due.
#[test]
fn a_cancel_frees_the_closure_at_once_and_the_entry_with_the_next_turn() {
    let (timer, mut driver, _clock) = driven();
    let drops = Drops::default();
    for round in 1..=1000 {
        let witness = drops.witness();
        let timeout = timer.schedule(DAY, move || drop(witness)).expect("accepted");
        driver.turn();
        assert!(timeout.cancel());
        assert_eq!(drops.count(), round);
    }
    driver.turn();
    assert_eq!((timer.stats().shards[0].linked, timer.pending()), (0, 0));
    assert!(timer.stats().capacity <= 512);
}

// KAFKA-4051, wingo/fibers#89 (B17): 100 % processor time, ticking through a jump of five years.
#[test]
fn a_jump_of_the_clock_costs_slots_and_not_ticks() {
    for levels in [1, 4] {
        let (timer, mut driver, clock) =
            driven_by(Timer::builder().levels(levels).tick_duration(Duration::from_micros(1)));
        timer.schedule_detached(5 * 365 * DAY, || ()).expect("accepted");
        for _ in 0..10 {
            timer.schedule_detached(HOUR, || ()).expect("accepted");
        }
        let before = Instant::now();
        clock.advance(2 * 365 * DAY);
        assert_eq!(settle(&mut driver, &clock), 10);
        clock.advance(3 * 365 * DAY);
        assert_eq!(settle(&mut driver, &clock), 1);
        assert!(before.elapsed() < Duration::from_secs(5), "10^14 ticks, took {:?}", before.elapsed());
        assert!(timer.stats().turns < 100);
    }
}

// tokio-rs/tokio#6866 (B21): one tick more on exact multiples.
#[test]
fn a_deadline_on_a_tick_stays_on_it_at_any_phase_of_the_engines_start() {
    for start in [0, 1, 499_999, 500_000, 999_999].map(Duration::from_nanos) {
        let (timer, mut driver, clock) = driven();
        clock.advance(start);
        for ticks in 1..50_u32 {
            let to_tick = ticks * MS - start;
            let timeout = timer.schedule(to_tick, || ()).expect("accepted");
            assert_eq!(timeout.deadline(), clock.now() + to_tick);
            timeout.cancel();
        }
        driver.turn();
    }
}

// camunda/camunda#767, aeron-io/agrona#73 (B22): one slot a poll, so that a slow poller never
// catches up.
#[test]
fn one_turn_catches_up_with_all_ticks_that_were_missed() {
    let (timer, mut driver, clock) = driven();
    for ticks in 1..=10_000_u32 {
        timer.schedule_detached(ticks * MS, || ()).expect("accepted");
    }
    clock.advance(10_000 * MS);
    assert_eq!(driver.turn(), 10_000);
}

// apache/pulsar#14443, redisson/redisson#2304 (B24): a cancel that waits for the callback which
// waits for the caller.
#[test]
fn a_cancel_never_waits_for_a_task() {
    common::in_time("a cancel while the task waits for the canceller", || {
        let timer = Timer::new().expect("the defaults make sense");
        let ((begun, has_begun), (release, released)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let task = move || {
            begun.send(()).expect("the test waits");
            released.recv().expect("the test releases it");
        };
        let timeout = timer.schedule(Duration::ZERO, task).expect("accepted");
        has_begun.recv().expect("it runs");
        assert!(!timeout.cancel() && !timeout.reset(HOUR));
        release.send(()).expect("it waits");
    });
}

// camunda/camunda#14882 (B29): a burst of 550,000 triggers, some of them twice.
#[test]
fn a_burst_of_550_000_fires_exactly_once_within_its_budget() {
    const BURST: usize = 550_000;
    let (timer, mut driver, clock) = driven();
    let runs = Runs::new(BURST);
    for id in 0..BURST {
        timer.schedule_detached(30 * MS, runs.task(id)).expect("accepted");
    }
    settle(&mut driver, &clock);
    clock.advance(30 * MS);
    let mut left = BURST;
    while left > 0 {
        let fired = driver.turn();
        assert!((1..=100_000).contains(&fired), "{fired} in one turn");
        left -= fired;
    }
    assert_eq!(settle(&mut driver, &clock), 0);
    runs.assert_each_ran_once();
}

// DataDog/glommio#44 (B40): 65,536 registered, 65,536 cancelled, and none should fire.
#[test]
fn timeouts_registered_and_cancelled_in_bulk_leave_nothing_behind() {
    let (timer, mut driver, clock) = driven();
    for linked in [false, true] {
        let timeouts = timer.schedule_many(5 * MS, (0..65_536).map(|_| || ())).expect("accepted");
        if linked {
            driver.turn();
        }
        assert!(timeouts.iter().all(Timeout::cancel));
        clock.advance(DAY);
        assert_eq!(settle(&mut driver, &clock), 0);
        assert_eq!((timer.pending(), timer.stats().shards[0].linked), (0, 0));
    }
}

// benoitc/erlang_quic#140, facebook/folly@5d211e3c4 (B33, B42): a message, or a wake-up, for each
// packet.
#[test]
fn a_reset_to_later_leaves_the_wheel_alone_until_the_old_deadline_comes() {
    let (timer, mut driver, clock) = driven();
    let timeout = timer.schedule(60_000 * MS, || ()).expect("accepted");
    driver.turn();
    for _ in 0..59_000 {
        clock.advance(MS);
        assert!(timeout.reset(60_000 * MS));
    }
    settle(&mut driver, &clock);
    assert_eq!(timer.stats().relinked, 0, "59,000 packets, and no work for the worker");
    clock.advance(59_999 * MS);
    assert_eq!(settle(&mut driver, &clock), 0);
    clock.advance(MS);
    assert_eq!((settle(&mut driver, &clock), timer.stats().reset), (1, 59_000));
    assert!(timer.stats().relinked <= 2, "{}", timer.stats().relinked);
}

// golang/go#37196, #69186, Agrona's ids (B51, B52): an old handle that hits a new timer, an old
// firing after a reset.
#[test]
fn an_old_handle_never_touches_the_timeout_that_took_its_place() {
    let (timer, mut driver, clock) = driven();
    let mut old = Vec::new();
    for round in 0..200 {
        let fired = timer.schedule(MS, || ()).expect("accepted");
        let cancelled = timer.schedule(MS, || ()).expect("accepted");
        assert!(cancelled.cancel());
        clock.advance(MS);
        assert_eq!(settle(&mut driver, &clock), 1);
        old.extend([fired, cancelled]);
        let new = timer.schedule(HOUR, || ()).expect("accepted");
        for handle in &old {
            assert!(!handle.cancel() && !handle.reset(Duration::ZERO) && !handle.is_pending());
        }
        assert_eq!(settle(&mut driver, &clock), 0, "round {round}");
        assert!(new.is_pending() && new.cancel());
    }
}

// tokio-rs/tokio#6682 (B41): an earlier timeout that came during the search for the next wake-up
// was forgotten.
#[test]
fn an_earlier_timeout_moves_the_next_wake_up_forward() {
    let (timer, driver, clock) = driven();
    let rings = Arc::new(Mutex::new(0));
    let rung = Arc::clone(&rings);
    driver.on_earlier(move || *rung.lock().expect("no panic") += 1);
    timer.schedule_detached(HOUR, || ()).expect("accepted");
    for (n, delay) in [900 * MS, 400 * MS, 100 * MS, MS].into_iter().enumerate() {
        let before = driver.next_wakeup().expect("something is pending");
        assert!(before > clock.now() + delay);
        let rings_before = *rings.lock().expect("no panic");
        if n % 2 == 0 {
            timer.schedule_detached(delay, || ()).expect("accepted");
        } else {
            let moved = timer.schedule(2 * HOUR, || ()).expect("accepted");
            assert_eq!(*rings.lock().expect("no panic"), rings_before, "nothing to wake up for");
            assert!(moved.reset(delay));
        }
        assert_eq!(*rings.lock().expect("no panic"), rings_before + 1, "the loop is woken, once");
        assert!(driver.next_wakeup().expect("something is pending") <= clock.now() + delay);
    }
}

#[test]
fn a_reset_behind_others_that_a_limit_left_over_is_the_next_deadline() {
    let (timer, mut driver, clock) = driven_by(Timer::builder().transfer_limit(1).expiry_limit(1));
    let start = clock.now();
    let timeouts = [50, 60, 70].map(|ms| timer.schedule(ms * MS, || ()).expect("accepted"));
    settle(&mut driver, &clock);
    assert!(timeouts[0].reset(40 * MS) && timeouts[1].reset(41 * MS));
    // It reads one of the two resets.
    driver.turn();
    assert!(timeouts[2].reset(20 * MS));
    assert!(clock.advance_to_next(&timer));
    assert_eq!(clock.now() - start, 20 * MS);
}
