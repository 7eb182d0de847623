//! The program of an operator, beside a live process: what it prints, and how it ends.

#![cfg(all(unix, feature = "cli", feature = "sqlite"))]

mod stores;

use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use stores::{Place, Start, each_store, until};
use tourbillon_durable::{Dialect, DurableTimer, Outcome, migrations};

const HOUR: Duration = Duration::from_secs(3_600);

fn tool(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillon-durable"));
    command.env_remove("TOURBILLON_STORE").args(arguments).output().unwrap()
}

/// Returns what it prints, if it succeeds.
fn says(place: &Place, arguments: &[&str]) -> String {
    let output = tool(&[&["--store", &place.url()], arguments].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The objects that it prints.
fn objects(place: &Place, arguments: &[&str]) -> Vec<Value> {
    let said = says(place, &[&["--json"], arguments].concat());
    said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

fn keys(place: &Place, arguments: &[&str]) -> Vec<String> {
    objects(place, arguments).iter().map(|object| object["key"].as_str().unwrap().to_owned()).collect()
}

/// Its exit code and its last words.
fn fails(arguments: &[&str]) -> (Option<i32>, String) {
    let output = tool(arguments);
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn schedule(timers: &DurableTimer, key: &str, delay: Duration, handler: &str) {
    timers.schedule(key, delay, handler, b"payload").unwrap().wait().unwrap();
}

#[test]
fn an_operator_s_hour_beside_a_live_process() {
    each_store(|place| {
        let (end, wait) = channel::<()>();
        let wait = Mutex::new(wait);
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("hang", move |_due| {
                _ = wait.lock().unwrap_or_else(PoisonError::into_inner).recv();
                Outcome::Done
            })
            .handler("close", |_due| Outcome::DeadLetter)
            .elsewhere("renamed")
            .started();
        schedule(&timers, "c:7:run", Duration::ZERO, "hang");
        (0..5).for_each(|i| schedule(&timers, &format!("c:7:{i}"), HOUR, "close"));
        schedule(&timers, "c:70:1", HOUR, "close");
        schedule(&timers, "c:8:late", Duration::ZERO, "renamed");
        schedule(&timers, "odd\u{1b}[2J", HOUR, "close");
        until(|| keys(place, &["list", "--running"]) == ["c:7:run"]);

        // The operator asks which timeouts are overdue, and why.
        assert_eq!(keys(place, &["list", "--overdue"]), ["c:8:late"]);
        assert_eq!(keys(place, &["list", "--overdue=1h"]), [""; 0]);
        assert_eq!(keys(place, &["list", "--without-handler"]), ["c:8:late"]);
        let handlers = says(place, &["handlers"]);
        let line = handlers.lines().find(|line| line.starts_with("renamed")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[1], words[2], words[3], *words.last().unwrap()), ("1", "1", "0", "none"), "{handlers}");
        let owners = objects(place, &["owners"]);
        assert_eq!((owners.len(), &owners[0]["live"], &owners[0]["running"]), (1, &true.into(), &1.into()));
        assert_eq!(owners[0]["handlers"], serde_json::json!(["close", "hang"]));
        let owners = says(place, &["owners"]);
        assert!(owners.contains("close, hang") && owners.contains(" s left "), "{owners}");

        // A list is aligned, its times are UTC, and nothing in it moves the cursor.
        let list = says(place, &["list"]);
        let lines: Vec<&str> = list.lines().collect();
        assert_eq!(lines.len(), 10, "{list}");
        let column = lines[0].find("DUE").unwrap();
        assert!(lines[1..].iter().all(|line| line[column..].starts_with("20") && line[column + 20..].contains("Z  ")));
        assert!(list.contains("odd\\u{1b}[2J") && !list.contains('\u{1b}'), "{list}");
        assert_eq!(keys(place, &["list", "--oldest", "--limit", "2"]).len(), 2);
        let mut pages = keys(place, &["list", "--limit", "4"]);
        pages.extend(keys(place, &["list", "--limit", "10", "--after", pages.last().unwrap()]));
        assert_eq!(pages, keys(place, &["list", "--all"]));
        assert_eq!(says(place, &["count", "--prefix", "c:7:"]), "6\n");
        assert_eq!(objects(place, &["count", "--handler", "close"])[0]["count"], 7);
        assert!(says(place, &["get", "c:7:1"]).contains("payload: payload\n"));
        assert_eq!(objects(place, &["get", "c:7:1"])[0]["payload"], "payload");

        // A customer's are cancelled, and nobody else's.
        let would = says(place, &["cancel", "--prefix", "c:7:", "--dry-run"]);
        assert_eq!(would, "5 would be cancelled. 1 run, and would not.\n");
        assert_eq!(says(place, &["cancel", "c:7:0"]), "1 cancelled.\n");
        let cancelled = objects(place, &["cancel", "--prefix", "c:7:"]);
        assert_eq!(cancelled, [serde_json::json!({ "cancelled": 4, "left": 1 })]);
        assert_eq!(keys(place, &["list"]), ["c:70:1", "c:7:run", "c:8:late", "odd\u{1b}[2J"]);
        let url = place.url();
        let fails = |arguments: &[&str]| fails(&[&["--store", &url], arguments].concat());
        let (code, why) = fails(&["cancel", "c:7:run"]);
        assert_eq!((code, why.contains("1 left: running")), (Some(1), true), "{why}");

        // Dead letters.
        for key in ["c:9:1", "c:9:2", "c:9:3"] {
            schedule(&timers, key, Duration::ZERO, "close");
        }
        until(|| timers.stats().dead_lettered == 3);
        assert_eq!(keys(place, &["dead", "list", "--prefix", "c:9:"]), ["c:9:1", "c:9:2", "c:9:3"]);
        assert!(says(place, &["dead", "list"]).starts_with("KEY"));
        assert!(says(place, &["dead", "revive", "--prefix", "c:9:", "--dry-run"]).starts_with("3 match."));
        assert_eq!(says(place, &["dead", "revive", "c:9:2", "--delay", "60min"]), "1 scheduled.\n");
        assert_eq!(keys(place, &["list", "--prefix", "c:9:"]), ["c:9:2"]);
        assert_eq!(objects(place, &["dead", "delete", "--prefix", "c:9:", "--dry-run"])[0]["would_delete"], 2);
        assert_eq!(objects(place, &["dead", "delete", "--prefix", "c:9:"])[0]["deleted"], 2);
        assert_eq!(says(place, &["dead", "list"]), "");
        assert_eq!(timers.stats().store_errors, 0);
        drop(end);
    });
}

#[test]
fn a_command_that_matches_nothing_says_so_with_code_1() {
    each_store(|place| {
        let url = place.url();
        let start = |url| DurableTimer::open(url).unwrap().handler("close", |_due| Outcome::DeadLetter);
        let timers = start(url.clone()).started();
        schedule(&timers, "again", Duration::ZERO, "close");
        until(|| timers.stats().dead_lettered == 1);
        schedule(&timers, "again", HOUR, "close");
        for (arguments, expected) in [
            (&["get", "nope"][..], "no timeout matches"),
            (&["cancel", "nope"], "no timeout matches"),
            (&["cancel", "--prefix", "nope", "--dry-run"], "no timeout matches"),
            (&["dead", "revive", "nope"], "no dead letter matches"),
            (&["dead", "revive", "again"], "each key that matches is scheduled already"),
            (&["dead", "delete", "--handler", "nope", "--dry-run"], "no dead letter matches"),
        ] {
            let (code, why) = fails(&[&["--store", &url], arguments].concat());
            assert_eq!((code, why), (Some(1), format!("error: {expected}\n")), "{arguments:?}");
        }
        let output = tool(&["--store", &url, "--json", "dead", "delete", "nope"]);
        assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b"{\"deleted\":0}\n"[..]));
        // To a question an empty list is an answer.
        assert_eq!(
            (says(place, &["list", "--prefix", "nope"]), says(place, &["dead", "list", "nope"])),
            Default::default()
        );
    });
    assert!(String::from_utf8(tool(&["--help"]).stdout).unwrap().contains("with 1 if nothing"));
}

#[test]
fn a_store_without_tables_is_code_2_and_the_two_ways_out() {
    let needed = format!("schema {} is needed", migrations(Dialect::Sqlite).count());
    each_store(|place| {
        let url = place.url();
        if let Place::Sqlite(_) = place {
            std::fs::write(&url, "").unwrap();
        }
        let (code, why) = fails(&["--store", &url, "list"]);
        assert_eq!(code, Some(2));
        for part in ["no tables yet", &needed, "start the service once", "`tourbillon-durable migrations --after 0`"] {
            assert!(why.contains(part), "no {part:?} in {why}");
        }
    });
}

#[test]
fn it_is_told_what_to_change_before_it_changes_anything() {
    let place = Place::Sqlite(tempfile::tempdir().unwrap());
    drop(DurableTimer::open(place.url()).unwrap());
    let url = place.url();
    for arguments in [
        &["cancel"][..],
        &["cancel", "--overdue=60"],
        &["cancel", "--prefix", ""],
        &["cancel", "key", "--prefix", "k"],
        &["dead", "delete"],
        &["dead", "revive", "--without-handler"],
        &["list", "--overdue=soon"],
        &["list", "--limit", "0"],
        &["everything"],
    ] {
        let (code, why) = fails(&[&["--store", &url], arguments].concat());
        assert_eq!(code, Some(2), "{arguments:?}: {why}");
        assert!(why.starts_with("error: "), "{why}");
    }
    for right in ["60", "60s", "1.5h"] {
        let cancel = ["cancel", "--prefix", "k", "--dry-run", "--overdue", right];
        assert_eq!(fails(&[&["--store", &url][..], &cancel].concat()).0, Some(1), "{right}");
    }
    for wrong in ["soon", "60 s", "500ms", "-1", "inf", ""] {
        let (code, why) = fails(&["--store", &url, "list", &format!("--overdue={wrong}")]);
        let says_both = why.contains(&format!("'{wrong}'")) && why.contains("60s");
        assert!(code == Some(2) && says_both, "{wrong:?}: {why}");
    }
    // A URL in its place hides no other mistake, and none is where there is none.
    let (_, why) = fails(&["--store", "postgres://shop:secret@db/shop", "list", "--overdue=soon"]);
    assert!(why.contains("soon") && !why.contains("secret"), "{why}");
    let (code, why) = fails(&[]);
    assert!(code == Some(2) && why.contains("Usage: "), "{why}");
}

#[test]
fn a_failure_is_a_sentence_without_a_password_and_code_2() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.db");
    let (code, why) = fails(&["--store", missing.to_str().unwrap(), "list"]);
    assert_eq!(code, Some(2));
    assert!(why.starts_with("error: can't open ") && why.contains("missing.db"), "{why}");
    assert!(!missing.exists());
    let (code, why) = fails(&["list"]);
    assert_eq!((code, &*why), (Some(2), "error: say where the store is: by --store, or by TOURBILLON_STORE\n"));
    // Nobody listens there.
    let url = "postgres://app:secret@127.0.0.1:1/app";
    let misplaced = [&["--store", url, "list"][..], &[url, "list"], &["list", url], &["--store", url, "get"]];
    for arguments in misplaced {
        let (code, why) = fails(arguments);
        assert_eq!(code, Some(2), "{why}");
        assert!(why.starts_with("error: ") && !why.contains("secret"), "{why}");
    }
}

#[test]
fn migrations_are_text_for_a_tool_of_one_s_own() {
    let all: Vec<_> = migrations(Dialect::Postgres).collect();
    let printed = tool(&["migrations", "--store", "postgres://app:secret@127.0.0.1:1/app", "--json"]);
    assert!(printed.status.success());
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(!printed.contains("secret"));
    let printed: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let printed: Vec<_> =
        printed.iter().map(|one| (one["number"].as_i64().unwrap(), one["sql"].as_str().unwrap().to_owned())).collect();
    assert_eq!(printed, all);
    let last = tool(&["migrations", "--dialect", "sqlite", "--after", &(all.len() - 1).to_string()]);
    let (number, sql) = migrations(Dialect::Sqlite).last().unwrap();
    let expected = format!("-- tourbillon-durable, migration {number}\n{sql}\n");
    assert_eq!(String::from_utf8(last.stdout).unwrap(), expected);
}
