//! Two small runs, made up, and the promises of their page.

use serde_json::{Value, json};

use super::echo::EchoRun;
use super::*;

fn figure(median: f64, ratio: f64) -> Value {
    json!({"median": median, "min": median * 0.9, "max": median * 1.5, "ratio": ratio, "compared": "all"})
}

fn count(value: f64) -> Value {
    json!({"median": value, "min": value, "max": value})
}

fn row(system: &str, values: Value) -> Value {
    let runs = [45.0, 46.0, 300.0].map(|trip| json!({"ping_pong_ns": trip, "metrics": {}, "notes": ["v1 of it"]}));
    json!({"system": system, "selection": "all", "values": values, "runs": runs})
}

fn late(system: &str, early: f64, p99: f64, p999: f64, ratio: f64) -> Value {
    let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];
    let percentiles: Vec<_> = shares.iter().map(|share| (share, p999 * (0.1 + share))).collect();
    let mut row = row(
        system,
        json!({"p99_ms": figure(p99, ratio), "p999_ms": figure(p999, ratio), "early": count(early), "missing": count(0.0)}),
    );
    row["percentiles"] = json!(percentiles);
    row
}

fn absent(system: &str, why: &str) -> Value {
    json!({"system": system, "selection": "all", "values": {}, "not_measured": why, "runs": []})
}

fn table(case: &str, producers: usize, keys: &[&str], rows: &[Value]) -> Value {
    let metrics: Vec<_> =
        keys.iter().map(|key| json!({"key": key, "heading": key, "more_is_better": *key == "mops"})).collect();
    json!({"case": case, "title": format!("title of {case}"), "producers": producers, "metrics": metrics, "rows": rows})
}

fn file(tables: &[Value]) -> Value {
    let machine = json!({
        "processor": "a <processor>", "cores": 2, "memory": "1 kB", "kernel": "6", "clock_source": "tsc",
        "transparent_huge_pages": "never", "rustc": "rustc 1", "commit": "abc", "started": "2026-01-01T00:00:00Z",
        "debug_assertions": false, "crates": {"tourbillon": "0.1.0", "tokio": "1.2.3"}
    });
    json!({
        "machine": machine, "repeat": 3, "scale": 1.0, "near_below_ns": 100.0, "reference": "tourbillon", "minutes": 1.5,
        "systems": {"tourbillon": "ours", "odd <name> & \"more\"": "a <b>bold</b> one"}, "tables": tables
    })
}

fn read(file: Value) -> RunFile {
    serde_json::from_value(file).expect("what compare writes")
}

/// A default run: in W1 another is ahead.
pub(crate) fn first_run() -> RunFile {
    let op = |ns: f64, ratio: f64| json!({"ns": figure(ns, ratio), "cpu_ns": figure(ns * 2.0, ratio)});
    let odd = row("odd <name> & \"more\"", op(300.0, 10.0));
    read(file(&[
        table("w1", 1, &["ns", "cpu_ns"], &[row("tourbillon", op(20.0, 1.0)), row("netty", op(9.1, 0.455))]),
        table(
            "w2",
            1,
            &["ns", "cpu_ns"],
            &[
                row("tourbillon", op(31.0, 1.0)),
                row("netty", op(100.0, 3.33)),
                odd,
                absent("hashed-wheel", "it has no <cancel>"),
            ],
        ),
        table(
            "w4",
            1,
            &["p99_ms", "p999_ms", "early", "missing"],
            &[
                late("tourbillon", 0.0, 1.1, 1.5, 1.0),
                late("netty", 0.0, 2.0, 3.0, 2.0),
                late("hashed-wheel", 123_000.0, 0.9, 1.0, 0.7),
            ],
        ),
        table("w5", 1, &["bytes"], &[row("tourbillon", json!({"bytes": figure(66.0, 1.0)}))]),
        table("w7", 1, &["ms"], &[row("tourbillon", json!({"ms": figure(3.0, 1.0)}))]),
    ]))
}

/// A later one, of W8 and of one row of W2.
pub(crate) fn second_run() -> RunFile {
    read(second_file())
}

fn second_file() -> Value {
    let cost =
        |ns: f64| json!({"schedule_ns": figure(ns, 1.0), "cancel_ns": figure(ns, 1.0), "reset_ns": figure(ns, 1.0)});
    let keys = ["schedule_ns", "cancel_ns", "reset_ns"];
    let mut ours = row("tourbillon", json!({"ns": figure(30.0, 1.0), "cpu_ns": figure(60.0, 1.0)}));
    ours["selection"] = json!("near");
    ours["runs"] = json!([{"ping_pong_ns": 45.0}, {"ping_pong_ns": 45.0}, {"ping_pong_ns": 45.0}]);
    file(&[
        table("w8-1m", 1, &keys, &[row("tourbillon", cost(40.0)), row("netty", cost(90.0))]),
        table("w8-10k", 1, &keys, &[row("tourbillon", cost(20.0)), row("netty", cost(50.0))]),
        table("w2", 1, &["ns", "cpu_ns"], &[ours]),
    ])
}

pub(crate) fn data() -> Data {
    Data::merged(vec![first_run(), second_run()]).expect("runs that belong together")
}

/// Closes `meta`, the only void element of the page, and gives the only attribute without a value
/// one: XML wants that, HTML does not.
fn as_xml(page: &str) -> String {
    let page = page.replace("<details open>", "<details open=\"\">");
    let mut parts = page.split("<meta ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |page, part| page + "<meta " + &part.replacen('>', "/>", 1))
}

/// Parses, and fails if it is not well-formed.
pub(crate) fn parse(text: &str, look: impl FnOnce(&roxmltree::Document<'_>)) {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    match roxmltree::Document::parse_with_options(text, options) {
        Ok(document) => look(&document),
        Err(why) => panic!("{why} in {text}"),
    }
}

fn all_text(node: roxmltree::Node<'_, '_>) -> String {
    node.descendants().filter(roxmltree::Node::is_text).filter_map(|text| text.text()).collect()
}

#[test]
fn each_row_of_the_data_is_a_row_of_the_page() {
    let data = data();
    let text = page::write(&data, &figures::all(&data).expect("plots"));
    parse(&as_xml(&text), |document| {
        for table in &data.tables {
            let id = format!("{}-{}", table.case, table.producers);
            let section = document.descendants().find(|node| node.attribute("id") == Some(&id));
            let section = section.unwrap_or_else(|| panic!("no {id}"));
            assert!(section.ancestors().any(|node| node.has_tag_name("details")), "{id} is not folded");
            let rows: Vec<_> =
                section.descendants().filter(|node| node.has_tag_name("tr")).skip(1).map(all_text).collect();
            assert_eq!(rows.len(), table.rows.len(), "{id}");
            for (row, text) in table.rows.iter().zip(&rows) {
                assert!(text.starts_with(&systems::look(&data, &row.system).label), "{text}");
                for value in row.values.values() {
                    let spread = value.spread;
                    for figure in [spread.median, spread.min, spread.max] {
                        assert!(text.contains(&numbers::short(figure)), "{figure} is not in {text}");
                    }
                }
                let why = row.not_measured.as_deref().unwrap_or_default();
                assert!(text.contains(why) && (why.is_empty() || text.contains("not measured")), "{text}");
                assert!(row.values.is_empty() || text.contains(&row.tag()), "{text}");
            }
        }
    });
}

#[test]
fn the_page_needs_no_other_file_and_says_which_plots_are_missing() {
    let data = data();
    let text = page::write(&data, &figures::all(&data).expect("plots"));
    parse(&as_xml(&text), |document| {
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            assert!(!["script", "link", "img", "iframe"].contains(&node.tag_name().name()), "{:?}", node.tag_name());
            for attribute in node.attributes().filter(|attribute| ["href", "src"].contains(&attribute.name())) {
                let target = attribute.value().strip_prefix('#').expect("a link within the page");
                assert!(document.descendants().any(|node| node.attribute("id") == Some(target)), "no {target}");
            }
        }
        let body = all_text(document.root_element());
        for text in [
            "Reset: ns per operation: not in this run (needs w3)",
            "not in this run (needs w8-producers)",
            "a <b>bold</b> one",
            "hashed_wheel_timer: up to 123,000 early in a run",
            "w1, ns: Netty 4.1 ×2.20",
            "tokio: a Sleep without a task",
            "a <processor>, 2 cores",
        ] {
            assert!(body.contains(text), "no {text:?} in {body}");
        }
    });
    assert!(!text.contains("url(") && !text.contains("@import"));
}

fn echo_run(timers: &str, processor_ns: f64) -> EchoRun {
    let run = json!({
        "runtime": "compio", "timers": timers, "commit": "abc", "connections": 1000, "idle_ms": 500,
        "requests_per_second": 100_000.0, "processor_ns_per_request": processor_ns,
        "late_ns_p50": 500_000, "late_ns_p99": 1_500_000, "late_ns_max": 4_000_000,
    });
    serde_json::from_value(run).expect("a run")
}

#[test]
fn what_other_commands_have_found_is_on_the_page() {
    let counts = json!({
        "machine": first_run().machine, "requests": 5000, "connections": 1,
        "rows": [
            {"server": "echo", "timers": "tourbillon", "instructions": {"median": 1000.0, "min": 990.0, "max": 1010.0}},
            {"server": "echo", "timers": "tokio", "instructions": {"median": 1250.0, "min": 1240.0, "max": 1260.0}},
        ],
    });
    let line = json!({
        "name": "the inbox's head", "one": {"writes": ["schedule"], "reads": []}, "other": {"writes": ["schedule"], "reads": []},
    });
    let conflicts = json!({
        "operations": ["schedule", "cancel"], "turns": ["expire"],
        "relations": {"same-shard": [line], "other-shard": []},
    });
    let beside = Beside {
        counts: vec![serde_json::from_value(counts).expect("counts")],
        echo: [1_000.0, 3_000.0, 2_000.0]
            .map(|ns| echo_run("tourbillon", ns))
            .into_iter()
            .chain([echo_run("runtime", 2_500.0)])
            .collect(),
        conflicts: Some(serde_json::from_value(conflicts).expect("a table")),
    };
    let data = Data { beside, ..data() };
    let text = page::write(&data, &figures::all(&data).expect("plots"));
    parse(&as_xml(&text), |document| {
        let body = all_text(document.root_element());
        for text in [
            "1,250 ×1.25",
            "1,240 – 1,260",
            "2,000 (1,000 – 3,000)",
            "2,500 (2,500 – 2,500) ×1.25",
            "0.500, 1.50, 4",
            "a: the inbox's head",
            "each with a shard of its own: none, in any of 4 pairs",
        ] {
            assert!(body.contains(text), "no {text:?} in {body}");
        }
        let rows = document.descendants().filter(|node| node.has_tag_name("tr")).map(all_text);
        let rows: Vec<_> = rows.filter(|row| row.starts_with("1 schedule") || row.starts_with("2 cancel")).collect();
        assert_eq!(rows, ["1 schedulea", "2 cancel"]);
    });
    assert!(!page::write(&crate::report::tests::data(), &[]).contains("id=\"instructions\""), "nothing was counted");
}

#[test]
fn only_the_headline_is_not_folded() {
    let data = data();
    let text = page::write(&data, &figures::all(&data).expect("plots"));
    parse(&as_xml(&text), |document| {
        let tables = document.descendants().filter(|node| node.has_tag_name("table"));
        let open = tables.filter(|node| !node.ancestors().any(|node| node.has_tag_name("details")));
        assert_eq!(open.map(|table| table.attribute("class")).collect::<Vec<_>>(), [Some("headline")]);
    });
}

#[test]
fn each_run_is_done_again_at_its_own_commit() {
    let mut runs = vec![first_run(), second_run(), second_run()];
    runs[1].machine.commit = "v1-2-gdef-dirty".to_owned();
    let mut old = second_file();
    old["machine"].as_object_mut().expect("an object").remove("commit");
    runs[2] = read(old);
    let data = Data::merged(runs).expect("runs that belong together");
    let text = page::write(&data, &figures::all(&data).expect("plots"));
    parse(&as_xml(&text), |document| {
        let again = document.descendants().find(|node| node.has_tag_name("pre")).map(all_text).expect("commands");
        for line in [
            "git checkout abc\n",
            "git checkout v1-2-gdef    # with changes that were not committed\n",
            "at commit not recorded\n",
            "--cases w8-1m,w8-10k,w2 ",
            "report run1.json run2.json run3.json",
        ] {
            assert!(again.contains(line), "no {line:?} in {again}");
        }
        let body = all_text(document.root_element());
        assert!(body.contains("(commits abc, v1-2-gdef-dirty, not recorded)"), "{body}");
    });
}

#[test]
fn the_committed_report_is_written_only_where_it_is_named() {
    let out = |line: &[&str]| {
        let command = ReportArgs::augment_args(clap::Command::new("report"));
        let matches = command.try_get_matches_from(line).expect("a command line");
        matches.get_one::<PathBuf>("out").expect("a default").clone()
    };
    assert_eq!(out(&["report", "run.json"]), Path::new("target/report"));
    assert_eq!(out(&["report", "run.json", "--out", "perf/report"]), Path::new("perf/report"));
    let text = page::write(&data(), &[]);
    assert!(text.contains("is rewritten only for a release"), "{text}");
}

#[test]
fn files_are_written_and_old_plots_go() {
    let folder = std::env::temp_dir().join(format!("tourbillon-report-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    for name in ["w3.svg", "mine.svg"] {
        fs::write(folder.join(name), "old").expect("a file");
    }
    write(vec![first_run()], Beside::default(), &folder).expect("a report");
    let there = |name: &str| folder.join(name).exists();
    assert!(there("index.html") && there("w2.svg") && there("mine.svg") && !there("w3.svg"));
    let plot = fs::read_to_string(folder.join("w2.svg")).expect("a plot");
    parse(&plot, |document| assert_eq!(document.root_element().tag_name().name(), "svg"));
    fs::remove_dir_all(&folder).expect("the folder");
}
