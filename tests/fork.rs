//! A process that forks while engines run: in the child the old engines say so, hang nowhere and
//! run nothing, and new ones work. The child only uses the engines and exits with a number that
//! says what went wrong.

#![cfg(target_os = "linux")]

#[path = "common/child.rs"]
mod child;
mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{
    Inline, ManualClock, PausableClock, Refusal, ScheduleError, Shutdown, ShutdownError, Sleep, ThreadPool, Timer,
    WorkerState,
};

use child::in_child;
use common::{
    Counter, HOUR, HandedOver, MS, PATIENCE, Runs, assert_counters_reconcile, eventually, fire_one, on_workers,
};

/// One fork at a time: another test's threads would be gone in the child, with the locks they hold.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of the first step that is false, or 0 if all are true.
fn first_wrong(steps: &[bool]) -> i32 {
    let wrong = steps.iter().position(|is_so| !is_so).map_or(0, |at| at + 1);
    i32::try_from(wrong).expect("few steps")
}

fn wait_for(is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() && start.elapsed() < PATIENCE / 3 {
        thread::sleep(MS);
    }
    is_so()
}

fn engines() -> [(&'static str, Timer); 4] {
    let build = |builder: tourbillon::Builder| builder.shards(2).build().expect("the options make sense");
    [
        ("inline", build(Timer::builder().executor(Inline))),
        ("a pool", build(Timer::builder())),
        ("by hand", build(Timer::builder().clock(ManualClock::new()))),
        ("a clock that can be stopped", build(Timer::builder().clock(PausableClock::new()))),
    ]
}

fn is_forked<T, F>(answer: Result<T, ScheduleError<F>>) -> bool {
    answer.is_err_and(|error| error.kind() == Refusal::Forked)
}

#[test]
fn in_the_child_a_schedule_gives_the_closure_back_and_a_shutdown_says_why() {
    let _alone = alone();
    for (kind, timer) in engines() {
        let runs = Runs::new(6);
        let before = timer.schedule(Duration::ZERO, || ()).expect("accepted");
        eventually("a worker runs", || kind == "by hand" || before.is_expired());
        in_child(kind, || {
            let error = timer.schedule(MS, runs.task(0)).expect_err("forked");
            let forked = error.kind() == Refusal::Forked;
            let is_other = error.is_shutdown() || error.is_full();
            error.into_inner()();
            let many = timer.schedule_many(MS, [1, 2].map(|id| runs.task(id)));
            let many = many.is_err_and(|error| error.kind() == Refusal::Forked && error.into_inner().len() == 2);
            let detached = is_forked(timer.schedule_detached(MS, || ()));
            let at = is_forked(timer.schedule_at(Instant::now(), || ()));
            let rate = is_forked(timer.schedule_at_fixed_rate(MS, MS, || ()));
            let repeating = is_forked(timer.schedule_repeating(MS, || None));
            let keyed = is_forked(timer.shard_for("key").schedule(MS, || ()));
            let ends = [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(HOUR)]
                .map(|how| timer.shutdown_with(how).err() == Some(ShutdownError::Forked));
            first_wrong(&[
                forked,
                !is_other,
                runs.of(0) == 1,
                many,
                detached,
                at,
                rate,
                repeating,
                keyed,
                ends[0],
                ends[1],
                ends[2],
            ])
        });
        // The parent goes on.
        let after = timer.schedule(HOUR, || ()).expect("accepted");
        assert!(after.cancel() && !timer.is_shutdown());
        drop(timer.shutdown().expect("the first"));
    }
}

#[test]
fn in_the_child_handles_and_questions_hang_nowhere() {
    let _alone = alone();
    for (kind, timer) in engines() {
        let held = timer.schedule(HOUR, || ()).expect("accepted");
        let others: Vec<_> = (0..100).map(|_| timer.schedule(HOUR, || ()).expect("accepted")).collect();
        eventually("a worker runs", || kind == "by hand" || timer.stats().transferred > 0);
        in_child(kind, || {
            let pending = held.is_pending() && timer.pending() == 101;
            // In the child they would never run.
            let reset = !held.reset(MS) && !held.reset(2 * HOUR) && held.is_pending();
            let all = others.iter().all(|other| other.cancel() && other.is_cancelled());
            let cancelled = held.cancel() && held.is_cancelled();
            let _ = (timer.health(), timer.stats(), timer.current_tick(), timer.is_shutdown());
            first_wrong(&[pending, reset, all, cancelled])
        });
        assert_eq!(timer.pending(), 101, "the parent's are the parent's");
        assert_eq!(timer.shutdown().expect("the first").len(), 101);
    }
}

#[test]
fn in_the_child_the_end_of_a_pause_calls_no_worker() {
    let _alone = alone();
    let clock = PausableClock::over(ManualClock::new());
    let (timer, driver) = Timer::builder().clock(clock.clone()).build_driven().expect("the options make sense");
    let rings = Counter::default();
    driver.on_earlier(rings.task());
    let _far = timer.schedule(HOUR, || ()).expect("accepted");
    assert!(driver.next_wakeup().is_some());
    let before = rings.get();
    let pause = || {
        clock.pause();
        clock.resume();
        rings.get() - before
    };
    in_child("a driver that waits", || first_wrong(&[pause() == 0, !clock.is_paused()]));
    assert_eq!(pause(), 1, "in the parent it does");
}

#[test]
fn in_the_child_health_says_forked_and_a_manual_clock_waits_for_no_worker() {
    let _alone = alone();
    let (timer, clock) = on_workers(Timer::builder().shards(1));
    let timeout = timer.schedule(HOUR, || ()).expect("accepted");
    eventually("its worker runs", || timer.stats().transferred == 1);
    in_child("a manual clock", || {
        clock.advance(2 * HOUR);
        let stepped = clock.advance_to_next(&timer);
        let health = timer.health();
        let is_told = health.shards[0].worker == WorkerState::Forked && !health.is_healthy();
        first_wrong(&[!stepped, timeout.is_pending(), is_told])
    });
    clock.advance(HOUR);
    assert!(timeout.is_expired() && timer.health().is_healthy());
}

#[test]
fn in_the_child_the_last_timer_can_be_dropped_and_nothing_runs() {
    let _alone = alone();
    for (kind, timer) in engines() {
        let runs = Counter::default();
        for delay in [MS, 5 * MS, HOUR] {
            timer.schedule_detached(delay, runs.task()).expect("accepted");
        }
        let before = runs.get();
        let parents = &timer;
        in_child(kind, || {
            let before = runs.get();
            // SAFETY: the child's copy is the only one in its process, and the child leaves without
            // dropping it again.
            drop(unsafe { std::ptr::read(parents) });
            thread::sleep(30 * MS);
            first_wrong(&[runs.get() == before])
        });
        assert!(before <= 2);
        // The parent's timeouts run in the parent.
        eventually("they fire in the parent", || kind == "by hand" || runs.get() == 2);
        assert_eq!(timer.shutdown().expect("the first").len(), if kind == "by hand" { 3 } else { 1 });
        assert_counters_reconcile(&timer.stats());
    }
}

#[test]
fn in_the_child_a_new_engine_works_and_so_does_one_that_is_driven() {
    let _alone = alone();
    let (_kind, old) = &engines()[1];
    fire_one(old, Duration::ZERO);
    in_child("a new engine", || {
        let timer = Timer::builder().shards(2).build().expect("the options make sense");
        let runs = Runs::new(100);
        for id in 0..100 {
            let delay = Duration::from_millis(id as u64 % 5);
            drop(timer.shard_for(&id).schedule(delay, runs.task(id)).expect("accepted"));
        }
        let periodic = Counter::default();
        let rate = timer.schedule_at_fixed_rate(MS, MS, periodic.task()).expect("accepted");
        let all_ran = wait_for(|| runs.total() == 100 && periodic.get() >= 3);
        let left = timer.schedule(HOUR, || ()).expect("accepted");
        let cancelled = rate.cancel();
        let shut_down = timer.shutdown().is_ok_and(|unfired| unfired.len() == 1) && left.is_cancelled();
        let (driven, mut driver) = Timer::builder().build_driven().expect("the options make sense");
        let due = driven.schedule(Duration::ZERO, || ()).expect("accepted");
        let turned = driver.turn() == 1 && due.is_expired();
        let clock = PausableClock::new();
        let can_be_stopped = Timer::builder().clock(clock.clone()).build().expect("the options make sense");
        let fired = can_be_stopped.schedule(MS, || ()).expect("accepted");
        clock.pause();
        clock.resume();
        first_wrong(&[all_ran, cancelled, shut_down, turned, wait_for(|| fired.is_expired())])
    });
    fire_one(old, MS);
}

#[test]
fn in_the_child_a_pool_from_before_runs_what_a_new_engine_gives_it_and_nothing_of_the_parents() {
    let _alone = alone();
    let pool = ThreadPool::new(1);
    let (old, handed_over) = HandedOver::by(pool.clone());
    let ((began, has_begun), (release, wait)) = (channel(), channel::<()>());
    // The pool's only thread is held up, and a batch of the parent's waits in its queue.
    let hold = move || {
        began.send(()).expect("the test waits");
        let _ = wait.recv();
    };
    old.schedule_detached(Duration::ZERO, hold).expect("accepted");
    has_begun.recv().expect("it begins");
    let parents = Counter::default();
    let queued = old.schedule(Duration::ZERO, parents.task()).expect("accepted");
    eventually("it waits in the queue", || handed_over.get() == 2);
    drop(queued);
    thread::sleep(10 * MS);
    in_child("an old pool", || {
        let timer = Timer::builder().executor(pool.clone()).build().expect("the options make sense");
        let runs = Runs::new(50);
        (0..50).for_each(|id| timer.schedule_detached(MS, runs.task(id)).expect("accepted"));
        let all_ran = wait_for(|| runs.total() == 50);
        let ended = timer.shutdown().is_ok_and(|left| left.is_empty());
        first_wrong(&[all_ran, ended, parents.get() == 0])
    });
    drop(release);
    eventually("the parent's runs in the parent", || parents.get() == 1);
    assert_eq!(old.shutdown().expect("the first").len(), 0);
}

#[test]
fn the_parent_is_not_disturbed_by_children_that_come_and_go() {
    let _alone = alone();
    let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
    let (runs, start) = (Runs::new(300), Instant::now());
    for id in 0..300 {
        let (run, due) = (runs.task(id), Duration::from_millis(id as u64 / 3));
        let task = move || {
            assert!(start.elapsed() >= due, "early");
            run();
        };
        timer.schedule_detached(due, task).expect("accepted");
        if id % 30 == 0 {
            in_child("a short life", || first_wrong(&[timer.schedule(MS, || ()).is_err()]));
        }
    }
    eventually("all fire", || runs.total() == 300);
    runs.assert_each_ran_once();
    assert_eq!(timer.stats().panicked, 0);
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn a_child_of_a_child_is_a_child() {
    let _alone = alone();
    let timer = Timer::new().expect("the defaults make sense");
    in_child("a child that forks", || {
        let own = Timer::new().expect("the defaults make sense");
        let works = own.schedule(Duration::ZERO, || ()).is_ok_and(|due| wait_for(|| due.is_expired()));
        // SAFETY: the grandchild uses this library only, and leaves by `_exit`.
        let grandchild = unsafe { libc::fork() };
        if grandchild == 0 {
            let both = [&timer, &own].map(|timer| is_forked(timer.schedule(MS, || ())));
            // SAFETY: `_exit` may be called at any time.
            unsafe { libc::_exit(first_wrong(&both)) };
        }
        let mut status = 0;
        // SAFETY: `grandchild` is the child's own child, and `status` is valid for the write.
        let waited = unsafe { libc::waitpid(grandchild, &raw mut status, 0) };
        let goes_on = own.schedule(MS, || ()).is_ok_and(|due| wait_for(|| due.is_expired()));
        first_wrong(&[works, waited == grandchild && status == 0, goes_on])
    });
}

#[test]
fn in_the_child_a_driver_from_before_runs_nothing_that_is_the_parents() {
    let _alone = alone();
    let runs = Counter::default();
    let (timer, mut driver) = Timer::builder().build_driven().expect("the options make sense");
    let periodic = timer.schedule_at_fixed_rate(MS, MS, runs.task()).expect("accepted");
    thread::sleep(3 * MS);
    in_child("driven", || {
        let turned = driver.turn() == 0 && driver.next_wakeup().is_none();
        first_wrong(&[turned, runs.get() == 0])
    });
    assert!(driver.turn() > 0 && runs.get() > 0, "the parent's go on");
    assert!(periodic.cancel());
}

#[test]
fn in_the_child_a_sleep_is_ready_when_it_is_polled_after_its_deadline() {
    let _alone = alone();
    let timer = Timer::new().expect("defaults");
    let (mut polled, mut new) = (timer.sleep(50 * MS), timer.sleep(50 * MS));
    let is_ready = |sleep: &mut Sleep| Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(!is_ready(&mut polled));
    in_child("sleeps", || {
        thread::sleep(60 * MS);
        let are_ready = [is_ready(&mut polled), is_ready(&mut new)];
        polled.reset(Duration::ZERO);
        first_wrong(&[are_ready[0], are_ready[1], is_ready(&mut polled)])
    });
}

#[test]
fn in_the_child_the_futures_of_the_parents_engine_end() {
    let _alone = alone();
    // Nobody moves the clock that is moved by hand.
    for (kind, timer) in engines().into_iter().filter(|(kind, _)| *kind != "by hand") {
        // One was polled before the fork, the others are of the child.
        let mut polled = timer.sleep(50 * MS);
        assert!(Pin::new(&mut polled).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        in_child(kind, || {
            let begun = Instant::now();
            let limited = pollster::block_on(timer.timeout(5 * MS, std::future::pending::<()>()));
            pollster::block_on(timer.sleep(5 * MS));
            let in_time = begun.elapsed() >= 10 * MS;
            pollster::block_on(polled);
            let mut interval = timer.interval(MS);
            pollster::block_on(async { (interval.tick().await, interval.tick().await) });
            first_wrong(&[limited.is_err(), in_time])
        });
    }
}

/// Set in the process that makes a global engine before it forks.
const FORKS: &str = "TOURBILLON_TEST_FORKS";

#[test]
fn each_process_has_a_global_engine_of_its_own() {
    if std::env::var_os(FORKS).is_none() {
        // In a process of its own, which has a global engine from here on.
        let test = "each_process_has_a_global_engine_of_its_own";
        let status = testkit::again::test(test).env(FORKS, "").status().expect("it can be started");
        assert!(status.success());
        return;
    }
    let works = || {
        pollster::block_on(tourbillon::sleep(5 * MS));
        pollster::block_on(tourbillon::timeout(5 * MS, std::future::pending::<()>())).is_err()
    };
    let parents = Timer::global();
    assert!(works());
    in_child("a child", || {
        let refuses = is_forked(parents.schedule(MS, || ()));
        let built = Timer::builder().shards(3).build_global().is_ok_and(|timer| timer.shards() == 3);
        let again = Timer::builder().build_global().is_err();
        let is_its_own = Timer::global().shards() == 3 && works();
        in_child("a child of it", || first_wrong(&[works(), Timer::global().schedule(MS, || ()).is_ok()]));
        first_wrong(&[refuses, built, again, is_its_own, works()])
    });
    assert!(works());
}

/// Whether all other threads of this process sleep. Then none of them is inside the C library with
/// one of its locks, which only a fork through that library would unlock in the child.
fn others_sleep() -> bool {
    // SAFETY: it only asks for a number.
    let this = unsafe { libc::gettid() }.to_string();
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    threads.filter(|thread| *thread.file_name() != *this).all(|thread| {
        // It may have ended since. The state stands behind the name, which is in brackets.
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_else(|_| ") S".to_owned());
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
    })
}

#[test]
fn a_child_by_a_raw_clone_is_a_child() {
    let _alone = alone();
    let clone = || {
        let flags = libc::c_long::from(libc::SIGCHLD);
        // SAFETY: without a stack of its own the call is a fork, past the handlers of the C
        // library. The child uses this library only, and leaves by `_exit`.
        let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
        libc::pid_t::try_from(child).expect("the id of a process")
    };
    for (kind, timer) in engines() {
        let timeout = timer.schedule(HOUR, || ()).expect("accepted");
        // One look is not enough: a thread may wake another, and then sleep.
        eventually("the others sleep", || (0..5).all(|_| others_sleep()));
        child::in_child_by(clone, kind, || {
            let refuses = is_forked(timer.schedule(MS, || ()));
            let is_reset = timeout.reset(HOUR);
            let is_ended = matches!(timer.shutdown(), Err(ShutdownError::Forked));
            let new = Timer::new().expect("defaults");
            let fired = new.schedule(MS, || ()).expect("accepted");
            first_wrong(&[refuses, !is_reset, is_ended, wait_for(|| fired.is_expired())])
        });
        assert!(timeout.reset(HOUR) && timer.schedule_detached(HOUR, || ()).is_ok(), "the parent goes on");
    }
}

#[test]
fn in_the_child_a_reusable_timeout_refuses_and_does_not_wait_for_a_lock() {
    let _alone = alone();
    let timer = Timer::builder().shards(1).build().expect("the options make sense");
    let reusable = timer.reusable(|| ()).expect("accepted");
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        // It holds the lock most of the time.
        scope.spawn(|| {
            while !stops.load(Ordering::Relaxed) {
                reusable.arm(HOUR).expect("accepted");
                reusable.disarm();
            }
        });
        for round in 0..20 {
            thread::sleep(MS);
            in_child(&format!("round {round}"), || {
                let refused = reusable.arm(MS) == Err(Refusal::Forked);
                first_wrong(&[refused, !reusable.disarm(), !reusable.is_armed()])
            });
        }
        stops.store(true, Ordering::Relaxed);
    });
}

#[test]
fn in_the_child_a_shutdown_that_the_parent_awaits_says_forked() {
    let _alone = alone();
    let timer = Timer::builder().shards(1).build().expect("the options make sense");
    timer.schedule_detached(HOUR, || ()).expect("accepted");
    let mut shutdown = timer.shutdown_async(Shutdown::Drain(HOUR));
    eventually("it accepts nothing", || timer.is_shutdown());
    in_child("the future", || {
        let shown = format!("{shutdown:?}");
        let polled = Pin::new(&mut shutdown).poll(&mut Context::from_waker(Waker::noop()));
        let is_forked = matches!(polled, std::task::Poll::Ready(Err(ShutdownError::Forked)));
        first_wrong(&[shown.contains("ShutdownFuture"), is_forked])
    });
}
