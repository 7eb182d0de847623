//! The hooks that the engine calls: `on_worker_start` before a worker's first turn, `on_turn` after
//! each turn that has done something, `on_panic` after each panic.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use tourbillon::{Builder, Expired, Inline, ManualClock, Pinning, Shutdown, ShutdownError, ThreadPool, Timer, Turn};

use crate::common::{
    HOUR, MS, Rig, Runs, allowed_cores, assert_counters_reconcile, built, driven_by, eventually, fire_one, in_time,
    settle,
};
use crate::shard_of;

/// The arguments of `on_turn`.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Turn>>>);

impl Told {
    fn hook(&self) -> impl Fn(&Turn) + Send + Sync + 'static {
        let told = Arc::clone(&self.0);
        move |tick| told.lock().expect("no panic").push(tick.clone())
    }

    fn builder(&self) -> Builder {
        Timer::builder().on_turn(self.hook())
    }

    fn take(&self) -> Vec<Turn> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }

    /// Shard, number, expired.
    fn take_short(&self) -> Vec<(usize, u64, usize)> {
        self.take().iter().map(|tick| (tick.shard(), tick.number(), tick.expired())).collect()
    }
}

#[test]
fn on_turn_is_called_once_for_a_driven_turn_and_not_for_skipped_ticks() {
    let told = Told::default();
    let (timer, mut driver, clock) = driven_by(told.builder());
    driver.turn();
    assert_eq!(told.take_short(), [], "nothing has happened yet");
    clock.advance(MS);
    driver.turn();
    driver.turn();
    assert_eq!(told.take_short(), [(0, 1, 0)]);
    (0..3).for_each(|_| timer.schedule_detached(Duration::ZERO, || ()).expect("accepted"));
    driver.turn();
    assert_eq!(told.take_short(), [(0, 1, 3)], "in the same tick, but something expired");
    timer.schedule_detached(MS, || ()).expect("accepted");
    timer.schedule_detached(500 * MS, || ()).expect("accepted");
    let _left = [(); 3].map(|()| timer.schedule(HOUR, || ()).expect("accepted"));
    driver.turn();
    assert_eq!(told.take_short(), []);
    clock.advance(1_000 * MS);
    driver.turn();
    let ticks = told.take();
    assert_eq!(ticks.len(), 1, "a thousand ticks in one turn");
    assert_eq!((ticks[0].number(), ticks[0].expired(), ticks[0].linked()), (1_001, 2, 3));
}

#[test]
fn each_shard_is_reported_by_itself() {
    let told = Told::default();
    let (timer, mut driver, clock) = driven_by(told.builder().shards(3));
    timer.shard_for(&key_of(&timer, 1)).schedule_detached(5 * MS, || ()).expect("accepted");
    clock.advance(5 * MS);
    driver.turn();
    assert_eq!(told.take_short(), [(0, 5, 0), (1, 5, 1), (2, 5, 0)]);
}

#[test]
fn turns_that_a_limit_cuts_short_are_reported_one_by_one() {
    let told = Told::default();
    let (timer, mut driver, clock) = driven_by(told.builder().expiry_limit(10));
    (0..25).for_each(|_| timer.schedule_detached(MS, || ()).expect("accepted"));
    clock.advance(MS);
    assert_eq!(settle(&mut driver, &clock), 25);
    assert_eq!(told.take_short().iter().map(|(_, _, expired)| expired).sum::<usize>(), 25);
}

#[test]
fn it_took_as_long_as_its_tasks_by_the_engines_clock() {
    for (rig, told) in [Rig::driven, Rig::inline].map(|make| {
        let told = Told::default();
        (make(told.builder()), told)
    }) {
        let mut rig = rig;
        let clock = rig.clock.clone();
        rig.timer.schedule_detached(MS, move || clock.advance(7 * MS)).expect("accepted");
        rig.advance(MS);
        let took: Vec<_> = told.take().iter().filter(|tick| tick.expired() == 1).map(Turn::took).collect();
        assert_eq!(took, [7 * MS], "{}", rig.kind);
    }
}

#[test]
fn the_time_that_a_driven_shard_took_leaves_out_other_shards() {
    let told = Told::default();
    let (timer, mut driver, clock) = driven_by(told.builder().shards(2));
    let moving = clock.clone();
    timer.shard_for(&key_of(&timer, 0)).schedule_detached(5 * MS, move || moving.advance(7 * MS)).expect("accepted");
    timer.shard_for(&key_of(&timer, 1)).schedule_detached(5 * MS, || ()).expect("accepted");
    clock.advance(5 * MS);
    driver.turn();
    let took: Vec<_> = told.take().iter().map(|tick| (tick.shard(), tick.expired(), tick.took())).collect();
    assert_eq!(took, [(0, 1, 7 * MS), (1, 1, Duration::ZERO)]);
}

#[test]
fn workers_call_it_too_in_the_order_of_ticks_on_their_own_threads() {
    for executor in ["inline", "a pool"] {
        let told = Told::default();
        let names: Arc<Mutex<Vec<String>>> = Arc::default();
        let (hook, seen) = (told.hook(), Arc::clone(&names));
        let builder = Timer::builder().shards(1).thread_name("hook-a").on_turn(move |turn| {
            seen.lock().expect("no panic").push(thread::current().name().unwrap_or_default().to_owned());
            hook(turn);
        });
        let rig = match executor {
            "inline" => Rig::inline(builder),
            _ => Rig::pool(builder),
        };
        let (runs, mut rig) = (Runs::new(40), rig);
        (0..40).for_each(|id| {
            rig.timer.schedule_detached(Duration::from_millis(id as u64 % 20 * 5), runs.task(id)).expect("accepted")
        });
        rig.settle();
        rig.walk(100);
        let ticks = told.take_short();
        assert_eq!(ticks.iter().map(|(_, _, expired)| expired).sum::<usize>(), 40);
        assert!(ticks.is_sorted_by_key(|(_, number, _)| *number), "{ticks:?}");
        assert!(ticks.iter().all(|(shard, _, _)| *shard == 0));
        assert!(ticks.iter().filter(|(_, _, expired)| *expired > 0).all(|(_, number, _)| number % 5 == 0));
        assert!(names.lock().expect("no panic").iter().all(|name| name == "hook-a-0"));
    }
}

#[test]
fn on_the_real_clock_an_idle_engine_is_not_reported() {
    let told = Told::default();
    let timer = told.builder().shards(1).build().expect("the options make sense");
    let first = timer.schedule(5 * MS, || ()).expect("accepted");
    eventually("it fires", || first.is_expired());
    let _far = timer.schedule(HOUR, || ()).expect("accepted");
    thread::sleep(20 * MS);
    let _ = told.take();
    thread::sleep(100 * MS);
    assert!(told.take().len() <= 1, "a hundred ticks have passed, with nothing to do");
}

#[test]
fn a_panic_in_it_is_treated_as_a_tasks() {
    let heard = Arc::new(AtomicUsize::new(0));
    let builder = || {
        let hears = Arc::clone(&heard);
        let hook = move |payload: &(dyn Any + Send)| {
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"on purpose"));
            hears.fetch_add(1, Ordering::SeqCst);
        };
        Timer::builder().shards(1).on_panic(hook).on_turn(|_| panic!("on purpose"))
    };
    for mut rig in Rig::each(builder) {
        let runs = Runs::new(10);
        (0..10).for_each(|id| {
            rig.timer.schedule_detached(Duration::from_millis(id as u64), runs.task(id)).expect("accepted")
        });
        rig.walk(20);
        runs.assert_each_ran_once();
        let panicked = rig.timer.stats().panicked;
        assert!(panicked >= 10, "{panicked}, {}", rig.kind);
        assert_eq!(rig.timer.stats().panicked_turns, 0);
        assert_counters_reconcile(&rig.timer.stats());
        let timer = rig.timer.clone();
        assert!(in_time("a shutdown", move || timer.shutdown()).expect("the first").is_empty());
        assert_eq!(heard.swap(0, Ordering::SeqCst) as u64, rig.timer.stats().panicked);
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

fn with_a_bomb_in_each_hook_and_the_executor() -> Builder {
    let [start, turn, panic, executor] = [Bomb, Bomb, Bomb, Bomb];
    let builder = Timer::builder().shards(1).on_worker_start(move |_| _ = &start).on_turn(move |_| _ = &turn);
    builder.on_panic(move |_| _ = &panic).executor(move |expired: Expired| {
        let _ = &executor;
        expired.run();
    })
}

#[test]
fn captures_of_hooks_and_executors_may_panic_when_dropped_and_nothing_is_lost() {
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(MS)] {
        for has_started in [true, false] {
            let timer = with_a_bomb_in_each_hook_and_the_executor().build().expect("the options make sense");
            let runs = Runs::new(5);
            if has_started {
                let first = timer.schedule(MS, || ()).expect("accepted");
                eventually("it fires", || first.is_expired());
                (0..5).for_each(|id| timer.schedule_detached(HOUR, runs.task(id)).expect("accepted"));
            }
            let left = timer.shutdown_with(how).expect("the first").len();
            let pending = if has_started { 5 } else { 0 };
            assert_eq!((left + runs.total(), runs.total() > 0), (pending, has_started && how == Shutdown::FireNow));
        }
    }
    drop(with_a_bomb_in_each_hook_and_the_executor().build().expect("the options make sense"));
}

/// Returns the key of a timeout on that shard.
fn key_of(timer: &Timer, shard: usize) -> u32 {
    (0..1_000).find(|key| shard_of(timer, key) == shard).expect("keys are spread")
}

#[test]
fn each_worker_reports_its_start_once_on_its_own_thread_and_no_other_worker_does() {
    let starts: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
    let told = Arc::clone(&starts);
    let builder = Timer::builder().shards(3).thread_name("start-a").on_worker_start(move |shard| {
        let name = thread::current().name().unwrap_or_default().to_owned();
        told.lock().expect("no panic").push((shard, name));
    });
    let timer = builder.build().expect("the options make sense");
    assert!(starts.lock().expect("no panic").is_empty(), "no thread has been needed");
    for shard in [2, 0] {
        for _ in 0..3 {
            let timeout = timer.shard_for(&key_of(&timer, shard)).schedule(MS, || ()).expect("accepted");
            eventually("it fires", || timeout.is_expired());
        }
    }
    assert!(timer.shutdown().expect("the first").is_empty());
    let name = |shard| (shard, format!("start-a-{shard}"));
    assert_eq!(*starts.lock().expect("no panic"), [name(2), name(0)]);
}

#[test]
fn a_worker_is_pinned_when_it_reports_its_start() {
    let late = Late::default();
    let (own, seen) = (Arc::clone(&late), Arc::new(OnceLock::new()));
    let (go, wait) = channel::<()>();
    let (wait, saw) = (Mutex::new(wait), Arc::clone(&seen));
    let core = allowed_cores()[0];
    let builder = Timer::builder().shards(1).pinning(Pinning::Cores(vec![core])).on_worker_start(move |shard| {
        let _ = wait.lock().expect("no panic").recv();
        let pinned = own.get().map(|timer| timer.stats().shards[shard].pinned_to);
        saw.set(pinned).expect("once");
    });
    let timer = builder.build().expect("the options make sense");
    late.set(timer.clone()).expect("once");
    let timeout = timer.schedule(MS, || ()).expect("accepted");
    go.send(()).expect("it waits");
    eventually("it fires", || timeout.is_expired());
    assert_eq!(seen.get(), Some(&Some(Some(core))));
    drop(timer.shutdown());
}

#[test]
fn a_start_that_panics_is_reported_as_a_task_and_the_worker_works() {
    let heard = Arc::new(AtomicUsize::new(0));
    let hears = Arc::clone(&heard);
    let builder = Timer::builder().shards(1).on_panic(move |_| _ = hears.fetch_add(1, Ordering::SeqCst));
    let timer = builder.on_worker_start(|_| panic!("on purpose")).build().expect("the options make sense");
    fire_one(&timer, MS);
    assert!(timer.shutdown().expect("the first").is_empty());
    assert_eq!((heard.load(Ordering::SeqCst), timer.stats().panicked, timer.stats().panicked_turns), (1, 1, 0));
    assert_counters_reconcile(&timer.stats());
}

#[test]
fn at_a_workers_start_its_engine_may_be_used_but_not_shut_down() {
    let (late, answer): (Late, Arc<OnceLock<_>>) = Default::default();
    let (own, said) = (Arc::clone(&late), Arc::clone(&answer));
    let runs = Runs::new(101);
    let (count, (go, wait)) = (runs.clone(), channel::<()>());
    let wait = Mutex::new(wait);
    let builder = Timer::builder().shards(1).on_worker_start(move |_| {
        let _ = wait.lock().expect("no panic").recv();
        let timer = own.get().expect("it has been set");
        (0..100).for_each(|id| timer.schedule_detached(MS, count.task(id)).expect("accepted"));
        said.set(timer.shutdown().err()).expect("once");
    });
    let timer = builder.build().expect("the options make sense");
    late.set(timer.clone()).expect("once");
    timer.schedule_detached(MS, runs.task(100)).expect("accepted");
    go.send(()).expect("it waits");
    eventually("all run", || runs.total() == 101);
    assert_eq!(answer.get(), Some(&Some(ShutdownError::FromTask)));
    runs.assert_each_ran_once();
    let shut = timer.clone();
    assert!(in_time("a shutdown", move || shut.shutdown()).expect("the first that counts").is_empty());
    assert_eq!(timer.stats().panicked, 0);
}

#[test]
fn a_driven_engine_has_no_worker_that_starts() {
    let builder = Timer::builder().on_worker_start(|_| panic!("there is no worker"));
    let (timer, mut driver, clock) = driven_by(builder);
    let timeout = timer.schedule(MS, || ()).expect("accepted");
    clock.advance(MS);
    driver.turn();
    assert!(timeout.is_expired());
    assert_eq!(timer.stats().panicked, 0);
}

/// A timer for its own hook.
type Late = Arc<OnceLock<Timer>>;

#[test]
fn an_engine_is_not_shut_down_from_its_own_hook() {
    for how in [Shutdown::Cancel, Shutdown::FireNow, Shutdown::Drain(HOUR)] {
        for make in [Rig::driven, Rig::inline, Rig::pool] {
            let (late, answers): (Late, Arc<Mutex<Vec<_>>>) = Default::default();
            let (own, said) = (Arc::clone(&late), Arc::clone(&answers));
            let hook = move |_: &Turn| {
                if let Some(timer) = own.get() {
                    said.lock().expect("no panic").push(timer.shutdown_with(how).err());
                }
            };
            let mut rig = make(Timer::builder().shards(1).on_turn(hook));
            late.set(rig.timer.clone()).expect("once");
            let timeout = rig.timer.schedule(MS, || ()).expect("accepted");
            rig.advance(MS);
            let answers = std::mem::take(&mut *answers.lock().expect("no panic"));
            assert!(!answers.is_empty() && answers.iter().all(|said| *said == Some(ShutdownError::FromTask)));
            assert!(timeout.is_expired() && !rig.timer.is_shutdown(), "{how:?}, {}", rig.kind);
            drop(rig.timer.shutdown().expect("the first that counts"));
        }
    }
}

#[test]
fn a_hook_may_use_its_engine() {
    for make in [Rig::driven, Rig::inline, Rig::pool] {
        let late = Late::default();
        let (own, runs) = (Arc::clone(&late), Runs::new(100));
        let (count, scheduled) = (runs.clone(), AtomicUsize::new(0));
        let hook = move |_: &Turn| {
            let Some(timer) = own.get() else { return };
            assert!(timer.health().is_healthy() && timer.stats().pending <= 101);
            let id = scheduled.fetch_add(1, Ordering::SeqCst);
            if id < 100 {
                timer.schedule_detached(MS, count.task(id)).expect("accepted");
            }
        };
        let mut rig = make(Timer::builder().shards(1).on_turn(hook));
        late.set(rig.timer.clone()).expect("once");
        rig.timer.schedule_detached(MS, || ()).expect("accepted");
        rig.walk(150);
        assert_eq!(rig.timer.stats().panicked, 0);
        runs.assert_each_ran_once();
        drop(rig.timer.shutdown());
    }
}

#[test]
fn on_panic_is_called_on_the_thread_that_ran_the_task() {
    let heard: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let clock = ManualClock::new();
    let hears = Arc::clone(&heard);
    let hook = move |payload: &(dyn Any + Send)| {
        let text = payload.downcast_ref::<String>().cloned().unwrap_or_default();
        let thread = thread::current().name().unwrap_or_default().to_owned();
        hears.lock().expect("no panic").push((text, thread));
    };
    for (executor, name) in [(0, "tourbillon-pool"), (1, "hook-b-0")] {
        let builder = Timer::builder().shards(1).thread_name("hook-b").clock(clock.clone()).on_panic(hook.clone());
        let timer = built(if executor == 0 { builder.executor(ThreadPool::new(2)) } else { builder.executor(Inline) });
        let mut runs = 0;
        let task = move || {
            runs += 1;
            assert!(runs < 3, "on purpose, in run {runs}");
        };
        let periodic = timer.schedule_at_fixed_rate(MS, MS, task).expect("accepted");
        (0..5).for_each(|_| clock.advance(MS));
        assert!(periodic.is_expired());
        let heard = std::mem::take(&mut *heard.lock().expect("no panic"));
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard[0].0 == "on purpose, in run 3" && heard[0].1.starts_with(name), "{heard:?}");
    }
}
