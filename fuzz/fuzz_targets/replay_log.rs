//! The log reader of the replay, on any bytes. It never panics; each line is either good or bad; and what it takes for a line of a
//! log is one by two regular expressions, which know nothing of how it reads:
//!
//! * `STRICT` is the Combined Log Format as servers write it. Such a line must be taken, with this client, at this second.
//! * `LOOSE` is what a line must have at least. One that does not match must not be taken.

#![no_main]

#[path = "../../perf/src/replay/log_format.rs"]
#[allow(dead_code, reason = "the replay uses more of it")]
mod log_format;
#[path = "../../perf/src/replay/trace.rs"]
#[allow(dead_code, reason = "the replay uses more of it")]
mod trace;

use std::collections::HashSet;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use log_format::LogLine;
use regex::{Captures, Regex};

static STRICT: LazyLock<Regex> = LazyLock::new(|| {
    let expression = r#"(?sx)
        ^(?<client>[^\x20]+)\x20[^\x20]+\x20[^\[\]]*\x20
        \[(?<day>[0-9]{2})/(?<month>[A-Z][a-z]{2})/(?<year>[0-9]{4})
            :(?<hour>[0-9]{2}):(?<minute>[0-9]{2}):(?<second>[0-9]{2})
            \x20(?<sign>[+-])(?<off_hour>[0-9]{2})(?<off_minute>[0-9]{2})\]
        \x20"(?:[^"\\]|\\.)*"\x20(?:[0-9]+|-)\x20(?:[0-9]+|-)(?:\x20(?<tail>.*))?$"#;
    Regex::new(expression).expect("it is well formed")
});

static LOOSE: LazyLock<Regex> = LazyLock::new(|| {
    let expression = r#"(?sx)
        ^\x20*(?<client>[^\x20]+)\x20+[^\x20]+\x20(?:.*\x20)?
        \[[^\]]*\]\x20*"(?:[^"\\]|\\.)*"\x20*(?:[0-9]+|-)\x20+(?:[0-9]+|-)(?:\x20.*)?$"#;
    Regex::new(expression).expect("it is well formed")
});

/// What comes after the size, if no quoted field in it lacks its end.
static WHOLE_TAIL: LazyLock<Regex> = LazyLock::new(|| {
    let expression = r#"(?sx) ^(?:\x20*(?:"(?:[^"\\]|\\.)*"|[^\x20"][^\x20]*(?:\x20|$)))*\x20*$"#;
    Regex::new(expression).expect("it is well formed")
});

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the first of January of the year 0 to that of this one.
fn days_before(year: i64) -> i64 {
    (0..year).map(|year| 365 + i64::from(is_leap(year))).sum()
}

/// Seconds since 1970, counted on the fingers; none if there is no such time. (Leap seconds, and the last year there is, are left
/// to the reader's own tests.)
fn second_of(line: &Captures<'_>) -> Option<i64> {
    let number = |name| line.name(name).and_then(|digits| digits.as_str().parse::<i64>().ok());
    let month = MONTHS.iter().position(|name| *name == &line["month"])? as i64 + 1;
    let (year, day) = (number("year")?, number("day")?);
    let (hour, minute, second) = (number("hour")?, number("minute")?, number("second")?);
    let (off_hour, off_minute) = (number("off_hour")?, number("off_minute")?);
    let is_a_time = (1..=days_in(year, month)).contains(&day)
        && (hour < 24 && minute < 60 && second < 60)
        && (off_hour < 24 && off_minute < 60)
        && year < 9999;
    if !is_a_time {
        return None;
    }
    let days =
        days_before(year) - days_before(1970) + (1..month).map(|month| days_in(year, month)).sum::<i64>() + day - 1;
    let offset = (off_hour * 60 + off_minute) * 60;
    let local = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(if &line["sign"] == "-" { local + offset } else { local - offset })
}

/// The time field for a second since 1970; none before the year 0, which four digits can't say.
fn time_field(second: i64) -> Option<String> {
    let (mut days, of_day) = (second.div_euclid(86_400) + days_before(1970), second.rem_euclid(86_400));
    let mut year = usize::try_from(days).ok()? as i64 / 366;
    days -= days_before(year);
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    while days >= days_in(year, month) {
        days -= days_in(year, month);
        month += 1;
    }
    let (name, day) = (MONTHS[month as usize - 1], days + 1);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    Some(format!("{day:02}/{name}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000"))
}

/// What was read of one line is what is in it.
fn check(line: &str) -> Option<LogLine<'_>> {
    let read = log_format::parse(line);
    if let Some(strict) = STRICT.captures(line)
        && let Some(second) = second_of(&strict)
    {
        let read = read.as_ref().unwrap_or_else(|why| panic!("{line:?} was not taken: {why}"));
        assert_eq!((read.client, read.second), (&strict["client"], second), "{line:?}");
        let is_whole = strict.name("tail").is_none_or(|tail| WHOLE_TAIL.is_match(tail.as_str()));
        assert_eq!(read.cut_off, !is_whole, "{line:?}");
    }
    let read = match read {
        Ok(read) => read,
        Err(why) => {
            assert!(!why.to_string().is_empty());
            return None;
        }
    };
    let loose = LOOSE.captures(line).unwrap_or_else(|| panic!("{line:?} was taken for a line of a log"));
    assert_eq!(read.client, &loose["client"], "{line:?}");
    // Written again, it reads the same.
    if let Some(time) = time_field(read.second) {
        let again = format!("{} - - [{time}] \"-\" 0 -", read.client);
        let expected = LogLine { client: read.client, second: read.second, cut_off: false };
        assert_eq!(log_format::parse(&again), Ok(expected), "{again:?}");
    }
    Some(read)
}

fuzz_target!(|bytes: &[u8]| {
    let text: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').map(String::from_utf8_lossy).collect();
    // A mark of the byte order is no part of a client, nor are ends of lines of the last field.
    let lines = text.iter().map(|line| line.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}'));
    let good: Vec<_> = lines.filter_map(check).collect();

    let (trace, contents) = trace::read_lines(bytes).expect("memory can be read");
    assert_eq!(contents.lines, text.len() as u64);
    assert_eq!(contents.lines, trace.requests.len() as u64 + contents.bad_lines);
    assert_eq!(trace.requests.len(), good.len());
    assert_eq!(contents.first_bad_lines.len() as u64, contents.bad_lines.min(5));
    assert_eq!(contents.cut_off, good.iter().filter(|line| line.cut_off).count() as u64);
    assert_eq!(contents.first_cut_off.is_some(), contents.cut_off > 0);
    let clients: HashSet<_> = good.iter().map(|line| line.client).collect();
    assert_eq!(contents.clients as usize, clients.len());
    assert!(trace.requests.is_sorted_by_key(|request| request.at));
    let mut seconds: Vec<_> = good.iter().map(|line| line.second).collect();
    let is_late = |at: &usize| seconds[..*at].iter().any(|before| *before > seconds[*at]);
    assert_eq!(contents.out_of_order, (0..seconds.len()).filter(is_late).count());
    seconds.sort_unstable();
    for (second, request) in seconds.iter().zip(&trace.requests) {
        assert_eq!(request.at.as_secs(), second.abs_diff(seconds[0]));
        assert!(request.client < contents.clients);
    }
});
