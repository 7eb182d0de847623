//! A process as a whole, with its cores, signals and files, and several processes on one host. Each
//! test runs itself again, in processes of their own.

#![cfg(target_os = "linux")]

#[path = "common/child.rs"]
mod child;
mod common;

use std::fs;
use std::io::{Read, Write, pipe};
use std::os::unix::process::CommandExt;
use std::process::Output;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use testkit::again;
use tourbillon::{BuildError, Builder, Inline, Pinning, ShutdownError, Timer};

use child::in_child;
use common::{PATIENCE, allowed_cores, cores_in, eventually, in_time, threads_named};

/// Set in a process that a test has started. It names the part of the test that this process is.
const PART: &str = "TOURBILLON_TEST_PART";

/// Returns the part of a test that this process is, or `None` if it is the process that starts the
/// others.
fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// Runs a test again as a part of itself, restricted to `cores`. Fails if the part fails. Returns
/// its output.
fn run(test: &'static str, part: &str, cores: &[usize]) -> String {
    let mut command = again::test(test);
    // On one thread the test runs on the process's first, which is what `pin_main` pins.
    command.args(["--test-threads", "1"]).env(PART, part);
    let set = set_of(cores);
    // SAFETY: `sched_setaffinity` is only a system call, so it may be called between a fork and an
    // exec.
    unsafe { command.pre_exec(move || set_affinity(0, &set)) };
    let Output { status, stdout, stderr } = in_time(test, move || command.output()).expect("it can be started");
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{part}: {stdout}{}", String::from_utf8_lossy(&stderr));
    assert!(stdout.contains("1 passed"), "{part}: {stdout}");
    stdout
}

fn set_of(cores: &[usize]) -> libc::cpu_set_t {
    // SAFETY: a set of cores is an array of bits, so all zeros are a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the cores are this machine's, so their numbers are within the set.
    cores.iter().for_each(|&core| unsafe { libc::CPU_SET(core, &mut set) });
    set
}

fn set_affinity(thread: libc::pid_t, set: &libc::cpu_set_t) -> std::io::Result<()> {
    // SAFETY: the size is the set's own.
    let failed = unsafe { libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), set) };
    if failed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Pins as a `main` that pins itself does.
fn pin_main(core: usize) {
    // SAFETY: `getpid` has no preconditions. The process's id is its first thread's.
    let main = unsafe { libc::getpid() };
    set_affinity(main, &set_of(&[core])).expect("the core is in the cpuset");
}

/// Moves all threads as `taskset --all-tasks --pid` does.
fn move_all_threads(cores: &[usize]) {
    for task in fs::read_dir("/proc/self/task").expect("Linux") {
        let name = task.expect("Linux").file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok()).expect("a number");
        set_affinity(thread, &set_of(cores)).expect("the cores are in the cpuset");
    }
}

fn build(name: &str, pinning: Pinning) -> Timer {
    Timer::builder().thread_name(name).shards(1).pinning(pinning).build().expect("the options make sense")
}

/// Runs this number of tasks that wait for each other, and so need a thread each.
fn run_together(timer: &Timer, tasks: usize) {
    let together = Arc::new(Barrier::new(tasks + 1));
    for _ in 0..tasks {
        let (begin, begun) = channel();
        let together = Arc::clone(&together);
        let task = move || {
            begin.send(()).expect("the test waits");
            together.wait();
        };
        timer.schedule_detached(Duration::ZERO, task).expect("accepted");
        // One after the other, so that they are not one batch.
        begun.recv_timeout(PATIENCE).expect("it runs");
    }
    together.wait();
}

fn assert_may_run_on(threads: &str, cores: &[usize]) {
    let seen = threads_named(threads);
    assert!(!seen.is_empty(), "no thread is called {threads}");
    for thread in seen {
        assert_eq!(cores_in(thread.field("Cpus_allowed_list")), cores, "{}", thread.name);
    }
}

/// Returns the cores that this machine lets the tests use, or `None` if it is only one.
fn several_cores() -> Option<Vec<usize>> {
    let allowed = allowed_cores();
    if allowed.len() < 2 {
        println!("SKIPPED: this process may use one core only");
    }
    Some(allowed).filter(|allowed| allowed.len() >= 2)
}

#[test]
fn a_main_that_pins_itself_takes_no_thread_of_ours_with_it() {
    let test = "a_main_that_pins_itself_takes_no_thread_of_ours_with_it";
    let Some(allowed) = several_cores() else { return };
    match part().as_deref() {
        Some("before") => {
            pin_main(allowed[0]);
            let timer = build("before", Pinning::None);
            run_together(&timer, 2);
            assert_may_run_on("before", &allowed);
        }
        Some("after") => {
            let timer = build("after", Pinning::None);
            pin_main(allowed[0]);
            run_together(&timer, 2);
            assert_may_run_on("after", &allowed);
        }
        Some("pinned") => {
            let timer = build("pinned", Pinning::Cores(vec![allowed[0]]));
            pin_main(allowed[1]);
            run_together(&timer, 2);
            assert_may_run_on("pinned-pool", &allowed);
            // The worker is unpinned while it starts a thread.
            let worker = || cores_in(threads_named("pinned-0")[0].field("Cpus_allowed_list"));
            eventually("the worker is where it belongs", || worker() == [allowed[0]]);
        }
        Some(_) => {
            pin_main(allowed[0]);
            for &core in &allowed {
                let timer = build("cores", Pinning::Cores(vec![core]));
                run_together(&timer, 1);
                assert_eq!(timer.stats().shards[0].pinned_to, Some(core));
                assert_may_run_on("cores-pool", &allowed);
            }
            core_of_an_engine();
        }
        None => ["before", "after", "pinned", "cores"].iter().for_each(|part| _ = run(test, part, &allowed)),
    }
}

#[test]
fn a_process_that_was_started_on_some_cores_only_keeps_all_threads_there() {
    let test = "a_process_that_was_started_on_some_cores_only_keeps_all_threads_there";
    match part().as_deref() {
        Some(part) => {
            let given = allowed_cores();
            let pinning = if part == "auto" { Pinning::Auto } else { Pinning::None };
            let timer = build("given", pinning);
            run_together(&timer, 2);
            assert_may_run_on("given", &given);
            let outside = (0..).find(|core| !given.contains(core)).expect("it was started on a part of them");
            let refused = Timer::builder().pinning(Pinning::Cores(vec![outside])).build();
            assert!(matches!(refused, Err(BuildError::UnknownCore { core, .. }) if core == outside), "{refused:?}");
        }
        None => {
            let Some(allowed) = several_cores() else { return };
            for core in allowed {
                for part in ["none", "auto"] {
                    run(test, part, &[core]);
                }
            }
        }
    }
}

#[test]
fn a_process_whose_threads_are_all_moved_starts_no_thread_elsewhere() {
    let test = "a_process_whose_threads_are_all_moved_starts_no_thread_elsewhere";
    let Some(allowed) = several_cores() else { return };
    match part().as_deref() {
        Some(part) => {
            let pinning = if part == "pinned" { Pinning::Cores(vec![allowed[1]]) } else { Pinning::None };
            let timer = build("moved", pinning);
            let builder: Builder = Timer::builder().thread_name("inline").executor(Inline);
            let _unrelated = builder.build().expect("the options make sense");
            drop(timer.schedule(PATIENCE, || ()).expect("accepted, by a worker that starts now"));
            eventually("it has put itself where it belongs", || timer.stats().shards[0].turns > 0);
            move_all_threads(&allowed[..1]);
            run_together(&timer, 2);
            assert_may_run_on("moved", &allowed[..1]);
        }
        None => ["pinned", "unpinned"].iter().for_each(|part| _ = run(test, part, &allowed)),
    }
}

/// On at least two cores, this number of processes all choose the same core with a chance of 2^-39,
/// which is less than 10^-11.
const PROCESSES: usize = 40;

/// Returns the core of an engine's only worker, which the engine pins. (On a heavily loaded machine
/// the worker may have given its core up by then.)
fn core_of_an_engine() -> usize {
    let core = |_| {
        let timer = Timer::builder().shards(1).executor(Inline).build().expect("the options make sense");
        run_together(&timer, 1);
        timer.stats().shards[0].pinned_to
    };
    (0..20).find_map(core).expect("there are more cores than workers")
}

fn assert_not_all_the_same(cores: &[usize]) {
    assert_eq!(cores.len(), PROCESSES);
    assert!(cores.iter().any(|core| *core != cores[0]), "all processes pin their worker to core {}", cores[0]);
}

#[test]
fn processes_do_not_all_pin_their_worker_to_the_same_core() {
    let test = "processes_do_not_all_pin_their_worker_to_the_same_core";
    let Some(allowed) = several_cores() else { return };
    if part().is_some() {
        println!("\npinned to {};", core_of_an_engine());
        return;
    }
    let core = |_| {
        let said = run(test, "one of many", &allowed);
        let core = said.split("pinned to ").nth(1).and_then(|rest| rest.split(';').next()).expect("it says so");
        core.parse().expect("a number")
    };
    assert_not_all_the_same(&(0..PROCESSES).map(core).collect::<Vec<usize>>());
}

#[test]
fn forked_processes_do_not_all_pin_their_worker_to_the_same_core() {
    let test = "forked_processes_do_not_all_pin_their_worker_to_the_same_core";
    let Some(allowed) = several_cores() else { return };
    // In a process of its own, in which no other test has threads at the time of a fork.
    if part().is_none() {
        run(test, "the parent", &allowed);
        return;
    }
    // Each child inherits its parent's random number.
    core_of_an_engine();
    let core = |_| {
        let (mut said, mut say) = pipe().expect("a pipe");
        in_child("an engine of its own", || {
            let core = core_of_an_engine().to_ne_bytes();
            i32::from(say.write_all(&core).is_err())
        });
        drop(say);
        let mut core = [0; size_of::<usize>()];
        said.read_exact(&mut core).expect("it has said so");
        usize::from_ne_bytes(core)
    };
    assert_not_all_the_same(&(0..PROCESSES).map(core).collect::<Vec<usize>>());
}

#[test]
fn the_global_engine_is_the_one_that_was_built_first_and_stays_it() {
    const TEST: &str = "the_global_engine_is_the_one_that_was_built_first_and_stays_it";
    let build = |shards| Timer::builder().shards(shards).build_global();
    match part().as_deref() {
        None => ["built", "used before"].iter().for_each(|part| drop(run(TEST, part, &allowed_cores()))),
        Some("built") => {
            assert_eq!(build(0).unwrap_err(), BuildError::Zero { option: "shards" }, "and nothing is built");
            let timer = build(3).expect("it is the first");
            assert_eq!((timer.shards(), Timer::global().shards()), (3, 3));
            assert_eq!(build(2).unwrap_err(), BuildError::GlobalExists);
            let (send, receive) = channel();
            timer
                .schedule_detached(Duration::from_millis(1), move || send.send(()).expect("the test waits"))
                .expect("accepted");
            receive.recv_timeout(PATIENCE).expect("the refused one took nothing with it");
            assert_eq!(timer.shutdown().unwrap_err(), ShutdownError::Global);
        }
        Some(_) => {
            let shards = Timer::global().shards();
            assert_eq!(build(shards + 1).unwrap_err(), BuildError::GlobalExists);
            assert_eq!(Timer::global().shards(), shards);
        }
    }
}

/// Schedules on the engine again and again, and returns whether all ran.
fn all_run(timer: &Timer, for_how_long: Duration) -> bool {
    let begun = Instant::now();
    let (send, ran) = channel();
    while begun.elapsed() < for_how_long {
        let send = send.clone();
        let run = move || send.send(()).expect("the test waits");
        let accepted = timer.schedule_detached(Duration::from_millis(1), run).is_ok();
        if !accepted || ran.recv_timeout(PATIENCE).is_err() {
            return false;
        }
    }
    true
}

/// Returns engines whose threads have been started.
fn warm_engines() -> [Timer; 2] {
    [Timer::builder(), Timer::builder().executor(Inline)].map(|builder| {
        let timer = builder.build().expect("the options make sense");
        assert!(all_run(&timer, Duration::from_millis(100)));
        timer
    })
}

#[test]
fn a_signal_that_is_sent_to_the_process_is_left_to_a_thread_that_waits_for_it() {
    in_child("sigwait", || {
        // The engines' threads are there before `main` blocks the signal.
        let _engines = warm_engines();
        // SAFETY: the set is initialised by `sigemptyset`. `kill` sends a signal to this process,
        // which waits for it.
        unsafe {
            let (mut set, mut signal) = (std::mem::zeroed(), 0);
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            libc::kill(libc::getpid(), libc::SIGTERM);
            libc::sigwait(&raw const set, &raw mut signal);
            i32::from(signal != libc::SIGTERM)
        }
    });
}

/// Has the kernel kill this process when one of its threads opens a file.
fn forbid_to_open_files() {
    const TSYNC: libc::c_ulong = 1;
    let jump = |jf, k| libc::sock_filter { code: 0x15, jt: 0, jf, k };
    let end = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let kill = end(libc::SECCOMP_RET_KILL_PROCESS);
    let opens = [libc::SYS_open, libc::SYS_openat, libc::SYS_openat2];
    let mut program = vec![libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 }];
    for call in opens {
        program.extend([jump(1, u32::try_from(call).expect("a number of a call")), kill]);
    }
    program.push(end(libc::SECCOMP_RET_ALLOW));
    let len = u16::try_from(program.len()).expect("a few");
    let filter = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the filter lives until the call has read it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::SECCOMP_SET_MODE_FILTER;
        assert_eq!(libc::syscall(libc::SYS_seccomp, set, TSYNC, &raw const filter), 0);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_warm_engine_opens_no_file() {
    in_child("a sandbox that kills", || {
        let engines = warm_engines();
        forbid_to_open_files();
        // The producers' clock is reviewed once a second.
        i32::from(!engines.iter().all(|timer| all_run(timer, Duration::from_millis(1_500))))
    });
}
