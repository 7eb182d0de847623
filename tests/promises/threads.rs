//! The engine's threads: when they start, what they are called, and which cores they run on.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use tourbillon::{Executor, Expired, Inline, Pinning, ThreadPool, Timer};

use crate::common::{HOUR, MS, PATIENCE, SeenThread, allowed_cores, cores_in, eventually, threads_named};

/// Schedules a first timeout, and waits until it has run.
fn warm_up(timer: &Timer) {
    let (send, receive) = channel();
    timer.schedule_detached(Duration::ZERO, move || send.send(()).expect("the test waits")).expect("accepted");
    receive.recv_timeout(PATIENCE).expect("it fires");
}

/// Warms up by `producers` threads that live at the same time.
fn warm_up_from(timer: &Timer, producers: usize) {
    let hold = Barrier::new(producers);
    thread::scope(|scope| {
        for _ in 0..producers {
            scope.spawn(|| {
                warm_up(timer);
                hold.wait();
            });
        }
    });
}

fn names(prefix: &str) -> Vec<String> {
    let mut names: Vec<_> = threads_named(prefix).into_iter().map(|thread| thread.name).collect();
    names.sort();
    names
}

#[test]
fn threads_start_with_the_first_timeout_and_have_names() {
    let timer = Timer::builder().thread_name("names-a").shards(1).build().expect("the options make sense");
    let clone = timer.clone();
    assert_eq!((clone.pending(), timer.stats().turns), (0, 0));
    assert_eq!(names("names-a"), [""; 0], "build starts no thread");
    let far = timer.schedule(HOUR, || ()).expect("accepted");
    eventually("the worker starts", || names("names-a") == ["names-a-0"]);
    drop(far);
    warm_up(&timer);
    eventually("the pool starts", || names("names-a").len() > 1);
    assert!(names("names-a-pool").contains(&"names-a-pool-0".to_owned()));
}

#[test]
fn as_many_producers_as_shards_are_spread_over_all_of_them() {
    let timer = Timer::builder().thread_name("names-b").shards(3).executor(Inline).build().expect("sensible");
    warm_up_from(&timer, 3);
    let fired: Vec<_> = timer.stats().shards.iter().map(|shard| shard.fired).collect();
    assert_eq!(fired, [1, 1, 1]);
    assert_eq!(names("names-b"), ["names-b-0", "names-b-1", "names-b-2"], "each shard has a worker of its own");
}

#[test]
fn a_name_with_a_nul_in_it_is_no_reason_to_panic() {
    let timer = Timer::builder().thread_name("names\0-c").build().expect("the options make sense");
    warm_up(&timer);
    assert!(names("names-c").contains(&"names-c-0".to_owned()));
}

#[test]
fn a_worker_runs_on_the_core_that_it_was_given_and_stats_say_which() {
    for core in allowed_cores() {
        let builder = Timer::builder().thread_name("pinned-a").shards(1).executor(Inline);
        let timer = builder.pinning(Pinning::Cores(vec![core])).build().expect("the core is in the cpuset");
        assert_eq!(timer.stats().shards[0].pinned_to, None, "it has not been started");
        warm_up(&timer);
        assert_eq!(timer.stats().shards[0].pinned_to, Some(core));
        let worker = threads_named("pinned-a-0").pop().expect("it runs");
        assert_eq!(cores_in(worker.field("Cpus_allowed_list")), [core]);
        assert!(timer.shutdown().is_ok());
        eventually("it ends", || threads_named("pinned-a").is_empty());
    }
}

#[test]
fn given_cores_are_used_in_turn_if_there_are_more_workers() {
    let core = allowed_cores()[0];
    let builder = Timer::builder().shards(2).executor(Inline).pinning(Pinning::Cores(vec![core]));
    let timer = builder.build().expect("the core is in the cpuset");
    warm_up_from(&timer, 16);
    let pinned: Vec<_> = timer.stats().shards.iter().map(|shard| shard.pinned_to).collect();
    assert_eq!(pinned, [Some(core), Some(core)]);
}

#[test]
fn automatic_pinning_gives_each_worker_a_core_of_its_own_where_there_are_enough() {
    let allowed = allowed_cores();
    for shards in 1..=allowed.len() + 1 {
        let timer = Timer::builder().shards(shards).executor(Inline).build().expect("the options make sense");
        warm_up_from(&timer, 8 * shards);
        eventually("all workers have run", || timer.stats().shards.iter().all(|shard| shard.turns > 0));
        let mut pinned: Vec<_> = timer.stats().shards.iter().filter_map(|shard| shard.pinned_to).collect();
        assert!(pinned.iter().all(|core| allowed.contains(core)));
        pinned.sort_unstable();
        pinned.dedup();
        assert_eq!(pinned.len(), if shards < allowed.len() { shards } else { 0 }, "{shards} shards");
    }
}

#[test]
fn without_pinning_no_worker_is_pinned() {
    let builder = Timer::builder().thread_name("pinned-b").executor(Inline).pinning(Pinning::None);
    let timer = builder.build().expect("the options make sense");
    warm_up(&timer);
    assert_eq!(timer.stats().shards[0].pinned_to, None);
    let worker = threads_named("pinned-b-0").pop().expect("it runs");
    assert_eq!(cores_in(worker.field("Cpus_allowed_list")), allowed_cores());
}

#[test]
fn the_pools_threads_are_not_tied_to_the_core_of_the_worker_that_starts_them() {
    let allowed = allowed_cores();
    let builder = Timer::builder().thread_name("pinned-c").shards(1);
    let timer = builder.pinning(Pinning::Cores(vec![allowed[0]])).build().expect("the core is in the cpuset");
    warm_up(&timer);
    for thread in threads_named("pinned-c-pool") {
        assert_eq!(cores_in(thread.field("Cpus_allowed_list")), allowed, "{}", thread.name);
    }
}

/// Puts the calling thread under a policy that takes no privileges.
fn choose_policy(policy: libc::c_int) {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread; the structure is one number.
    assert_eq!(unsafe { libc::sched_setscheduler(0, policy, &raw const priority) }, 0, "anybody may");
}

/// Keeps a core busy.
fn spin_on(core: usize, busy: &Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let busy = Arc::clone(busy);
    thread::spawn(move || {
        core_affinity::set_for_current(core_affinity::CoreId { id: core });
        while busy.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    })
}

#[test]
fn a_pools_thread_may_run_on_other_cores_than_its_worker_before_it_has_run_at_all() {
    let allowed = allowed_cores();
    let mut seen_one = false;
    for core in allowed.iter().copied().cycle().take(20) {
        let (send, receive) = channel();
        let (pool, busy) = (ThreadPool::new(1), Arc::new(AtomicBool::new(true)));
        // A thread that may run only where there is nothing else to do, which it has from its maker, does not run while all
        // cores are busy.
        let spinners: Vec<_> = allowed.iter().map(|&core| spin_on(core, &busy)).collect();
        let seen = move |expired: Expired| {
            choose_policy(libc::SCHED_IDLE);
            pool.execute(expired);
            choose_policy(libc::SCHED_OTHER);
            // A thread has its maker's name until it runs.
            let seen = threads_named("pinned-e-0");
            let seen: Vec<_> = seen.iter().map(|thread| cores_in(thread.field("Cpus_allowed_list"))).collect();
            send.send((allowed_cores(), seen)).expect("the test waits");
        };
        let builder = Timer::builder().thread_name("pinned-e").shards(1).executor(seen);
        let timer = builder.pinning(Pinning::Cores(vec![core])).build().expect("the core is in the cpuset");
        timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
        let (workers, seen) = receive.recv_timeout(PATIENCE).expect("it fires");
        busy.store(false, Ordering::Relaxed);
        spinners.into_iter().for_each(|spinner| spinner.join().expect("no panic"));
        assert_eq!(workers, [core], "it is pinned, again");
        assert!(seen.iter().filter(|cores| **cores != allowed).count() <= 1, "more than the worker: {seen:?}");
        seen_one |= seen.len() > 1;
        drop(timer);
        eventually("it ends", || threads_named("pinned-e").is_empty());
    }
    assert!(seen_one, "in 20 tries a new thread was looked at before it ran");
}

#[test]
fn a_thread_of_the_users_that_starts_workers_and_pools_stays_where_it_was_pinned() {
    let first = allowed_cores()[0];
    let (send, receive) = channel();
    let user = thread::spawn(move || {
        assert!(core_affinity::set_for_current(core_affinity::CoreId { id: first }));
        send.send(fs::read_link("/proc/thread-self").expect("Linux")).expect("the test waits");
        for _ in 0..50 {
            let (give, take) = channel();
            let executor = move |expired: Expired| drop(give.send(expired));
            let timer = Timer::builder().shards(1).executor(executor).build().expect("the options make sense");
            timer.schedule_detached(Duration::ZERO, || ()).expect("accepted, by a worker that this thread starts");
            let expired = take.recv_timeout(PATIENCE).expect("it fires");
            // Starts a thread of the pool.
            ThreadPool::new(1).execute(expired);
        }
    });
    let path = Path::new("/proc").join(receive.recv_timeout(PATIENCE).expect("it is pinned"));
    while let Some(seen) = SeenThread::read(&path) {
        assert_eq!(cores_in(seen.field("Cpus_allowed_list")), [first]);
    }
    user.join().expect("no panic");
}

#[test]
fn the_cpuset_is_the_process_s_and_not_that_of_the_thread_that_builds() {
    let allowed = allowed_cores();
    let builder = thread::spawn(move || {
        assert!(core_affinity::set_for_current(core_affinity::CoreId { id: allowed[0] }));
        for core in allowed {
            let built = Timer::builder().pinning(Pinning::Cores(vec![core])).build();
            assert!(built.is_ok(), "{built:?}");
        }
    });
    builder.join().expect("its assertions hold");
}

#[test]
fn a_worker_that_is_started_by_a_pinned_thread_is_not_pinned_with_it() {
    let allowed = allowed_cores();
    let first = allowed[0];
    let starter = thread::spawn(move || {
        assert!(core_affinity::set_for_current(core_affinity::CoreId { id: first }));
        let builder = Timer::builder().thread_name("pinned-d").executor(Inline).pinning(Pinning::None);
        let timer = builder.build().expect("the options make sense");
        warm_up(&timer);
        cores_in(threads_named("pinned-d-0").pop().expect("it runs").field("Cpus_allowed_list"))
    });
    assert_eq!(starter.join().expect("no panic"), allowed, "the operating system decides");
}

#[test]
fn the_workers_timer_slack_is_as_small_as_it_gets() {
    let (send, receive) = channel();
    let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
    let task = move || {
        // A thread's slack is shown under its own number only, and not under `task`.
        let path = fs::read_link("/proc/thread-self").expect("Linux");
        let number = path.file_name().and_then(|number| number.to_str()).expect("a thread has a number");
        send.send(fs::read_to_string(format!("/proc/{number}/timerslack_ns"))).expect("the test waits");
    };
    timer.schedule_detached(MS, task).expect("accepted");
    let slack = receive.recv_timeout(PATIENCE).expect("it fires").expect("Linux shows it");
    assert_eq!(slack.trim(), "1", "nanoseconds");
}

/// The slice of the calling thread, as Linux shows it. None before 6.12, where a thread can't choose.
fn slice_ns() -> Option<u64> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    let mut parts = release.split(['.', '-']).map_while(|part| part.trim().parse::<u32>().ok());
    let version = (parts.next().expect("a number"), parts.next().expect("a number"));
    let shown = fs::read_to_string("/proc/thread-self/sched").ok().filter(|_| version >= (6, 12))?;
    let line = shown.lines().find(|line| line.starts_with("se.slice"))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn workers_and_the_pools_threads_have_short_slices_and_the_users_threads_keep_theirs() {
    let before = slice_ns();
    // A thread of a pool asks by itself: it need not be a worker that starts it.
    let (hand_on, handed_on) = channel::<Expired>();
    let elsewhere = thread::spawn(move || {
        let pool = ThreadPool::new(1);
        handed_on.iter().for_each(|expired| pool.execute(expired));
    });
    let hand_on = move |expired: Expired| hand_on.send(expired).expect("it waits");
    for builder in [Timer::builder().executor(Inline), Timer::builder(), Timer::builder().executor(hand_on)] {
        let timer = builder.build().expect("the options make sense");
        let (send, receive) = channel();
        timer.schedule_detached(MS, move || send.send(slice_ns()).expect("the test waits")).expect("accepted");
        let slice = receive.recv_timeout(PATIENCE).expect("it fires");
        assert_eq!(slice, before.map(|_| 100_000), "the shortest, if one can be chosen");
    }
    elsewhere.join().expect("no panic");
    assert_eq!(slice_ns(), before);
    assert!(before != Some(100_000), "what has been asked for must not be what all have");
}

#[test]
fn a_scheduling_policy_that_was_chosen_is_left_as_it_is() {
    let scheduling = |path: &str| {
        let shown = fs::read_to_string(path).ok()?;
        let of = |key: &str| shown.lines().find(|line| line.starts_with(key))?.rsplit(' ').next().map(str::to_owned);
        Some((of("policy")?, of("se.slice")))
    };
    let starter = thread::spawn(move || {
        choose_policy(libc::SCHED_BATCH);
        let mine = scheduling("/proc/thread-self/sched");
        let timer = Timer::builder().executor(Inline).build().expect("the options make sense");
        let (send, receive) = channel();
        let task = move || send.send(scheduling("/proc/thread-self/sched")).expect("the test waits");
        timer.schedule_detached(MS, task).expect("accepted");
        (mine, receive.recv_timeout(PATIENCE).expect("it fires"))
    });
    let (mine, workers) = starter.join().expect("no panic");
    assert_eq!(workers, mine, "the worker has inherited it");
    assert!(mine.is_none_or(|(policy, _)| policy == "3"), "SCHED_BATCH");
}
