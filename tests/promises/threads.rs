//! The engine's threads: when they start, their names, and the cores they run on.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use tourbillon::{Builder, Executor, Expired, Inline, Pinning, ThreadPool, Timer};

use crate::common::{HOUR, MS, PATIENCE, SeenThread, allowed_cores, built, cores_in, eventually, threads_named};
use crate::policy;

/// Schedules a first timeout, and waits until it has run.
fn warm_up(timer: &Timer) {
    let (send, receive) = channel();
    timer.schedule_detached(Duration::ZERO, move || send.send(()).expect("the test waits")).expect("accepted");
    receive.recv_timeout(PATIENCE).expect("it fires");
}

/// Does that from `producers` threads that live at the same time.
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
        let expected = if shards < allowed.len() { shards } else { 0 };
        let pinned = || {
            let timer = Timer::builder().shards(shards).executor(Inline).build().expect("the options make sense");
            warm_up_from(&timer, 8 * shards);
            eventually("all workers have run", || timer.stats().shards.iter().all(|shard| shard.turns > 0));
            let mut pinned: Vec<_> = timer.stats().shards.iter().filter_map(|shard| shard.pinned_to).collect();
            assert!(pinned.iter().all(|core| allowed.contains(core)));
            assert!(pinned.len() <= expected);
            pinned.sort_unstable();
            pinned.dedup();
            pinned.len()
        };
        // On a heavily loaded machine a worker does not get its core, and has given it up by then.
        assert!((0..20).any(|_| pinned() == expected), "{shards} shards");
    }
}

#[test]
fn without_pinning_no_worker_is_pinned() {
    let timer = built(Timer::builder().thread_name("pinned-b").executor(Inline).pinning(Pinning::None));
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

/// Keeps cores busy until it is dropped.
struct Spinners {
    busy: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Spinners {
    fn on(cores: &[usize]) -> Self {
        let busy = Arc::new(AtomicBool::new(true));
        let spin = |&core| {
            let busy = Arc::clone(&busy);
            thread::spawn(move || {
                core_affinity::set_for_current(core_affinity::CoreId { id: core });
                while busy.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        Self { threads: cores.iter().map(spin).collect(), busy }
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.busy.store(false, Ordering::Relaxed);
        self.threads.drain(..).for_each(|spinner| spinner.join().expect("no panic"));
    }
}

#[test]
fn a_pools_thread_may_run_on_other_cores_than_its_worker_before_it_has_run_at_all() {
    let allowed = allowed_cores();
    // If it takes a privilege to come back from SCHED_IDLE, the test does not keep the thread from
    // running.
    let may_return = thread::spawn(|| policy::choose(libc::SCHED_IDLE, 0) && policy::choose(libc::SCHED_OTHER, 0));
    let may_return = may_return.join().expect("no panic") && !is_real_time();
    let mut seen_one = !may_return;
    for core in allowed.iter().copied().cycle().take(20) {
        let (send, receive) = channel();
        let pool = ThreadPool::new(1);
        // A thread inherits SCHED_IDLE from the thread that starts it. Under that policy it does
        // not run while all cores are busy.
        let spinners = may_return.then(|| Spinners::on(&allowed));
        let seen = move |expired: Expired| {
            assert!(!may_return || policy::choose(libc::SCHED_IDLE, 0));
            pool.execute(expired);
            assert!(!may_return || policy::choose(libc::SCHED_OTHER, 0));
            // A thread has the name of the thread that starts it until it runs.
            let seen = threads_named("pinned-e-0");
            let seen: Vec<_> = seen.iter().map(|thread| cores_in(thread.field("Cpus_allowed_list"))).collect();
            send.send((allowed_cores(), seen)).expect("the test waits");
        };
        let builder = Timer::builder().thread_name("pinned-e").shards(1).executor(seen);
        let timer = builder.pinning(Pinning::Cores(vec![core])).build().expect("the core is in the cpuset");
        timer.schedule_detached(Duration::ZERO, || ()).expect("accepted");
        let (workers, seen) = receive.recv_timeout(PATIENCE).expect("it fires");
        drop(spinners);
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
fn a_thread_of_the_users_that_starts_a_worker_takes_signals_as_before() {
    let blocked = || SeenThread::read(Path::new("/proc/thread-self")).expect("Linux").field("SigBlk").to_owned();
    let before = blocked();
    warm_up(&built(Timer::builder().shards(1).executor(Inline)));
    assert_eq!(blocked(), before);
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
        let timer = built(Timer::builder().thread_name("pinned-d").executor(Inline).pinning(Pinning::None));
        warm_up(&timer);
        cores_in(threads_named("pinned-d-0").pop().expect("it runs").field("Cpus_allowed_list"))
    });
    assert_eq!(starter.join().expect("no panic"), allowed, "the operating system decides");
}

/// Returns the timer slack of the calling thread, in nanoseconds.
fn slack_ns() -> u64 {
    // Linux shows a thread's slack under its own number only, and not under `task`.
    let path = fs::read_link("/proc/thread-self").expect("Linux");
    let number = path.file_name().and_then(|number| number.to_str()).expect("a thread has a number");
    let shown = fs::read_to_string(format!("/proc/{number}/timerslack_ns")).expect("Linux shows it");
    shown.trim().parse().expect("a number")
}

/// Returns the policy and the slice of the calling thread, in nanoseconds, as Linux shows them.
/// Returns `None` if it does not show them, or does not let a thread choose its slice, which it
/// does since 6.12.
fn policy_and_slice() -> Option<(u64, u64)> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    let mut parts = release.split(['.', '-']).map_while(|part| part.trim().parse::<u32>().ok());
    let version = (parts.next().expect("a number"), parts.next().expect("a number"));
    let shown = fs::read_to_string("/proc/thread-self/sched").ok().filter(|_| version >= (6, 12))?;
    let of = |key: &str| shown.lines().find(|line| line.starts_with(key))?.rsplit(' ').next()?.parse().ok();
    Some((of("policy")?, of("se.slice")?))
}

/// Returns slack, policy and slice of the thread that runs the engine's tasks.
fn scheduling_of_its_tasks(builder: Builder) -> (u64, Option<(u64, u64)>) {
    let timer = builder.build().expect("the options make sense");
    let (send, receive) = channel();
    let task = move || send.send((slack_ns(), policy_and_slice())).expect("the test waits");
    timer.schedule_detached(MS, task).expect("accepted");
    receive.recv_timeout(PATIENCE).expect("it fires")
}

/// Returns whether this runs under SCHED_FIFO or SCHED_RR, which know neither slack nor slices:
/// then there is nothing to see.
fn is_real_time() -> bool {
    // SAFETY: 0 is the calling thread.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    [libc::SCHED_FIFO, libc::SCHED_RR].map(libc::c_long::from).contains(&policy)
}

#[test]
fn workers_have_the_smallest_timer_slack_and_the_shortest_slices_if_they_can_be_chosen() {
    if is_real_time() {
        return;
    }
    let shortest = policy_and_slice().map(|(policy, slice)| (policy, if policy == 0 { 100_000 } else { slice }));
    assert_eq!(scheduling_of_its_tasks(Timer::builder().executor(Inline)), (1, shortest));
}

#[test]
fn pool_threads_have_the_users_scheduling_whichever_thread_starts_them() {
    let users = (slack_ns(), policy_and_slice());
    assert_eq!(scheduling_of_its_tasks(Timer::builder()), users, "started by a worker");
    let (hand_on, handed_on) = channel::<Expired>();
    let elsewhere = thread::spawn(move || {
        let pool = ThreadPool::new(1);
        handed_on.iter().for_each(|expired| pool.execute(expired));
    });
    let hand_on = move |expired: Expired| hand_on.send(expired).expect("it waits");
    assert_eq!(scheduling_of_its_tasks(Timer::builder().executor(hand_on)), users, "started by a thread of the user's");
    elsewhere.join().expect("no panic");
    if users.1.is_none_or(|(policy, _)| policy != 0) {
        return;
    }
    // Under a policy that was set at the worker's start they have that, and otherwise what they
    // have without.
    let batch = Timer::builder().on_worker_start(|_| _ = policy::choose(libc::SCHED_BATCH, 0));
    let (slack, policy_and_slice) = scheduling_of_its_tasks(batch);
    assert_eq!((slack, policy_and_slice.map(|(_, slice)| slice)), (users.0, users.1.map(|(_, slice)| slice)));
}

#[test]
fn a_worker_that_has_started_a_thread_keeps_its_sched_hints() {
    let pool = ThreadPool::new(1);
    let (send, receive) = channel();
    let seen = move |expired: Expired| {
        let before = (slack_ns(), policy_and_slice());
        pool.execute(expired);
        send.send((before, (slack_ns(), policy_and_slice()))).expect("the test waits");
    };
    let timer = Timer::builder().executor(seen).build().expect("the options make sense");
    timer.schedule_detached(MS, || ()).expect("accepted");
    let (before, after) = receive.recv_timeout(PATIENCE).expect("it fires");
    assert_eq!(before, after);
}

#[test]
fn a_scheduling_policy_that_was_chosen_is_left_as_it_is() {
    let starter = thread::spawn(move || {
        // A thread without the privilege is under a policy that was chosen already.
        policy::choose(libc::SCHED_BATCH, 0);
        let mine = policy_and_slice();
        assert!(mine.is_none_or(|(policy, _)| policy != 0));
        let (_, workers) = scheduling_of_its_tasks(Timer::builder().executor(Inline));
        assert_eq!(workers, mine, "the worker has inherited it");
    });
    starter.join().expect("no panic");
}
