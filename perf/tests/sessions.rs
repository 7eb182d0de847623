//! The server of sessions as a user runs it, with few of them: each request is answered, whatever
//! the timers are, and ours are never early.

#![cfg(all(feature = "peers", target_os = "linux"))]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tourbillon-perf");
/// A run takes two to three seconds of a machine of its own.
const PATIENCE: Duration = Duration::from_secs(120);

fn serve(name: &str, args: &[&str]) -> Value {
    let json = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sessions-{name}.json"));
    // What an earlier run has left says nothing about this one.
    let _ = fs::remove_file(&json);
    let mut command = Command::new(PROGRAM);
    command.args(["sessions", "--sessions", "300", "--duration", "1s"]).args(args).arg("--json").arg(&json);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the program starts");
    let limit = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().expect("the program can be looked at") {
            break status;
        }
        if Instant::now() >= limit {
            child.kill().expect("the program can be ended");
            panic!("{name} {args:?} has not ended in time");
        }
        thread::sleep(Duration::from_millis(50));
    };
    let text = fs::read_to_string(&json).unwrap_or_else(|why| panic!("no result of {name}: {why}"));
    let found: Value = serde_json::from_str(&text).expect("JSON");
    // pingora-timeout cuts the clock off to milliseconds.
    assert!(status.success() || name.contains("pingora"), "{name} {args:?}: {found}");
    found
}

fn figure(found: &Value, key: &str) -> f64 {
    found[key].as_f64().unwrap_or_else(|| panic!("no {key} in {found}"))
}

const IN_ONE_LOOP: [&str; 6] =
    ["tourbillon-driven", "tourbillon-inline", "no-timers", "tokio", "delay-queue", "pingora"];
const A_TASK_EACH: [&str; 4] = ["tourbillon-future", "no-timers", "tokio", "pingora"];

#[test]
fn each_request_is_answered_once_and_none_before_its_time() {
    let in_one_loop = IN_ONE_LOOP.map(|name| (name, ["--system", name].to_vec()));
    let a_task_each = A_TASK_EACH.map(|name| (name, ["--system", name, "--tasks"].to_vec()));
    for (name, args) in in_one_loop.into_iter().chain(a_task_each) {
        let found = serve(name, &args);
        assert_eq!(figure(&found, "missing"), 0.0, "{name} {args:?}: {found}");
        assert!(figure(&found, "early") == 0.0 || name == "pingora", "{name} {args:?}: {found}");
        assert!(figure(&found, "rate") > 0.0 && figure(&found, "cpu_ns") > 0.0, "{name} {args:?}: {found}");
        let paces = !(name == "no-timers" && args.contains(&"--tasks"));
        assert_eq!(figure(&found, "p999_ms") > 0.0, paces, "{name} {args:?}: {found}");
        assert_eq!(figure(&found, "closed"), 0.0, "{name} {args:?}: {found}");
    }
}

#[test]
fn a_session_that_is_silent_for_too_long_is_closed_and_may_come_again() {
    for (name, more) in [("tourbillon-driven", None), ("tourbillon-future", Some("--tasks")), ("tokio", None)] {
        let mut args = vec!["--system", name, "--idle", "200ms", "--chain", "1", "--rate", "400"];
        args.extend(more);
        let found = serve(&format!("{name}-idle"), &args);
        assert!(figure(&found, "closed") > 0.0 && figure(&found, "missing") == 0.0, "{name}: {found}");
    }
}

#[test]
fn as_fast_as_it_goes_is_faster_than_a_rate() {
    let rate = |rate| figure(&serve(&format!("rate-{rate}"), &["--rate", rate, "--under-way", "300"]), "rate");
    let (slow, full) = (rate("100"), rate("full"));
    assert!(full > 2.0 * slow, "{full} a second, and {slow} at a rate of 100");
}
