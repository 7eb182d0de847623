//! The comparison as a user runs it, as small as can be: it starts its processes, and writes down
//! all that a report needs.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tourbillon-perf");
const SMALL: [&str; 6] = ["--scale", "0.0001", "--pace", "0.2", "--peers", "/nonexistent"];

fn compare(args: &[&str], json: &str) -> (Output, Value) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(json);
    let output = Command::new(PROGRAM).arg("compare").args(args).args(SMALL).arg("--json").arg(&path).output();
    let output = output.expect("the program starts");
    let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("no result: {why}; {output:?}"));
    (output, serde_json::from_str(&text).expect("JSON"))
}

fn row<'a>(report: &'a Value, case: &str, system: &str) -> &'a Value {
    let tables = report["tables"].as_array().expect("tables");
    let table = tables.iter().find(|table| table["case"] == case).expect("the case");
    let rows = table["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["system"] == system).unwrap_or_else(|| panic!("{system} is not in {case}"))
}

#[test]
fn each_run_is_there_with_its_tag_and_the_medians_with_their_ratios() {
    let (output, report) =
        compare(&["--cases", "w2,w4", "--systems", "tourbillon,heap,netty", "--repeat", "2"], "compare.json");
    assert!(output.status.success(), "{output:?}");
    for key in ["processor", "cores", "kernel", "commit", "rustc", "started", "crates"] {
        assert!(!report["machine"][key].is_null(), "no {key}");
    }
    let crates = &report["machine"]["crates"];
    assert!(crates["tourbillon"].is_string() && crates["tokio"].is_string(), "{crates}");
    assert_eq!((&report["repeat"], &report["reference"]), (&2.into(), &"tourbillon".into()));
    for system in ["tourbillon", "heap"] {
        let w2 = row(&report, "w2", system);
        assert_eq!(w2["runs"].as_array().map(Vec::len), Some(2));
        for run in w2["runs"].as_array().expect("runs") {
            assert!(run["metrics"]["cpu_ns"].as_f64().is_some_and(|ns| ns >= 0.0), "{run}");
            let alone = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
            assert!(alone || run["ping_pong_ns"].as_f64().is_some_and(|ns| ns > 0.0), "{run}");
        }
        let ns = &w2["values"]["ns"];
        assert!(ns["median"].as_f64().is_some() && ns["min"].as_f64() <= ns["max"].as_f64(), "{ns}");
        assert!(ns["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{ns}");
        let w4 = row(&report, "w4", system);
        assert_eq!((&w4["values"]["early"]["max"], &w4["values"]["missing"]["max"]), (&0.0.into(), &0.0.into()));
    }
    let netty = row(&report, "w2", "netty");
    assert!(netty["not_measured"].as_str().is_some_and(|why| why.contains("scripts/peers")), "{netty}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("netty: not measured: no TimerCase.class"), "{text}");
}

#[test]
fn builds_are_compared_with_each_other() {
    let (old, new) = (format!("old={PROGRAM}"), format!("new={PROGRAM}"));
    let (output, report) =
        compare(&["--cases", "w3", "--build", &old, "--build", &new, "--repeat", "1"], "builds.json");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(report["reference"], "old");
    assert!(row(&report, "w3", "new")["values"]["ns"]["ratio"].as_f64().is_some());
}

#[test]
fn a_build_that_fails_is_told_and_is_no_success() {
    let broken = "broken=/bin/false".to_owned();
    let (output, report) = compare(&["--cases", "w2", "--build", &broken, "--repeat", "1"], "broken.json");
    assert!(!output.status.success());
    assert!(row(&report, "w2", "broken")["not_measured"].as_str().is_some());
}

#[test]
#[cfg(not(feature = "peers"))]
fn without_the_feature_it_says_what_is_missing() {
    let (output, report) = compare(&["--cases", "w7", "--systems", "tourbillon,tokio", "--repeat", "1"], "bare.json");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--features peers"));
    assert!(row(&report, "w7", "tokio")["not_measured"].as_str().is_some_and(|why| why.contains("peers")));
}
