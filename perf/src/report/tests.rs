//! The page's words for a peer that breaks a promise, and for one that can't do a case.

use serde_json::json;

use super::*;

fn figure(median: f64, ratio: f64) -> serde_json::Value {
    json!({"median": median, "min": median * 0.9, "max": median * 1.5, "ratio": ratio})
}

fn count(value: f64) -> serde_json::Value {
    json!({"median": value, "min": value, "max": value})
}

fn row(system: &str, values: serde_json::Value) -> serde_json::Value {
    json!({"system": system, "selection": "all", "counted": [3, 3], "values": values})
}

fn late(system: &str, p99: f64, early: f64) -> serde_json::Value {
    row(system, json!({"p99_ms": figure(p99, 1.0), "early": count(early)}))
}

fn file(case: &str, keys: &[&str], rows: &[serde_json::Value]) -> Report {
    let metric = |key: &&str| json!({"key": key, "heading": key, "more_is_better": false, "decimals": 2});
    let metrics: Vec<_> = keys.iter().map(metric).collect();
    let machine = json!({
        "processor": "a <processor>", "cores": 2, "memory": "1 kB", "kernel": "6", "clock_source": "tsc",
        "transparent_huge_pages": "never", "rustc": "rustc 1", "commit": "abc", "started": "2026-01-01T00:00:00Z",
        "debug_assertions": false, "crates": {"tokio": "1.2.3"}
    });
    let table = json!({"case": case, "title": "a title", "producers": 1, "metrics": metrics, "rows": rows});
    let report = json!({
        "machine": machine, "repeat": 3, "scale": 1.0, "near_below_ns": 100.0, "reference": "tourbillon",
        "minutes": 1.5, "systems": {"tourbillon": "ours"}, "tables": [table]
    });
    serde_json::from_value(report).expect("what compare writes")
}

fn page_and_plot(report: &Report) -> (String, String) {
    let plot = plot(&report.tables[0], "tourbillon");
    (page(report, std::slice::from_ref(&plot)), plot.unwrap_or_default())
}

#[test]
fn a_peer_that_fires_early_is_told_and_is_not_in_the_plot() {
    let rows = [late("tourbillon", 1.1, 0.0), late("a-wheel", 0.9, 123.0), late("netty", 2.0, 0.0)];
    let (page, plot) = page_and_plot(&file("w4", &["p99_ms", "early"], &rows));
    assert!(page.contains("up to 123 early"), "{page}");
    assert!(plot.contains("netty") && !plot.contains("a-wheel"), "{plot}");
}

#[test]
fn a_row_that_was_not_measured_says_why_and_nothing_is_markup() {
    let absent = json!({"system": "odd <one>", "selection": "all", "values": {}, "not_measured": "no <cancel>"});
    let (page, _) = page_and_plot(&file("w2", &["ns"], &[row("tourbillon", json!({"ns": figure(30.0, 1.0)})), absent]));
    for text in ["odd &lt;one&gt;", "not measured: no &lt;cancel&gt;", "a &lt;processor&gt;", "30.00"] {
        assert!(page.contains(text), "no {text} in {page}");
    }
}
